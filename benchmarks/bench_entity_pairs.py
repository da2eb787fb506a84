"""
What all ordered pairs of the entities of a text cost in the relation extraction pipeline: marked copies against one
pass of a pairwise model, and both in passes of the encoder alone. `--no_copies` leaves the slow copies out.
"""

from __future__ import annotations

import argparse
import statistics
from tempfile import TemporaryDirectory

import torch
from bench_multiscale import SHAPES, add_measurement_arguments, describe, markdown, take_turns
from transformers import AutoTokenizer, BertConfig, PreTrainedModel

from msattn import (
    BertForMultiScaleRE,
    BertPairwiseForRelationClassification,
    MultiScaleBertConfig,
    PairwiseConfig,
    PairwiseForRelationClassification,
    RelationExtractionPipeline,
)
from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.data.demo_corpus import write_demo
from msattn.data.inputs.entity_markers import add_entity_markers

LABELS = 19


def build(arguments: argparse.Namespace) -> dict[str, RelationExtractionPipeline]:
    """Untrained models: the speed does not depend on the weights."""
    with TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(write_demo(folder).encoder)
    tokenizer.model_max_length = 512
    add_entity_markers(tokenizer)
    sizes = {"vocab_size": len(tokenizer), **SHAPES[arguments.shape]}
    # Untrained models are never as sure as that: as in most texts, few pairs have a relation.
    labels = {"num_labels": LABELS, "negative_label": "LABEL_0", "decision_threshold": 0.9}
    models: dict[str, PreTrainedModel] = {
        "marked copies, no fusion": BertForMultiScaleRE(
            MultiScaleBertConfig(fusion_layers=0, pooling="entity_start", **sizes, **labels)
        ),
        "one pass, BERT member": BertPairwiseForRelationClassification(BertPairwiseConfig(**sizes, **labels)),
        "one pass, any encoder": PairwiseForRelationClassification(
            PairwiseConfig(encoder=BertConfig(**sizes), **labels)
        ),
    }
    dtype = getattr(torch, arguments.dtype)
    return {
        name: RelationExtractionPipeline(
            model=model.eval().to(dtype), tokenizer=tokenizer, device=torch.device(arguments.device)
        )
        for name, model in models.items()
        if not (arguments.no_copies and name.startswith("marked"))
    }


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=" ".join(__doc__.split()), formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="minilm", help="shape of the untrained encoder")
    parser.add_argument("--words", type=int, default=40, help="words of the text")
    parser.add_argument("--entities", type=int, nargs="+", default=[2, 4, 8], help="numbers of entities to compare")
    parser.add_argument("--no_copies", action="store_true", help="leave out the model that reads marked copies")
    add_measurement_arguments(parser)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    pipelines, rows = build(arguments), []
    for count in arguments.entities:
        words = ["storm"] * arguments.words
        text = {
            "tokens": words,
            "entities": [
                {"start": at * arguments.words // count, "end": at * arguments.words // count + 1}
                for at in range(count)
            ],
        }
        last = [*pipelines.values()][-1]
        inputs = last.tokenizer(" ".join(words), return_tensors="pt").to(last.device)

        def encode(encoder=last.model._encoder, inputs=inputs) -> None:
            with torch.inference_mode():
                encoder(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])

        steps = [encode, *(lambda extract=extract, text=text: extract(text) for extract in pipelines.values())]
        encoder, *times = take_turns(steps, arguments, f"{count} entities")
        for name, seconds in zip(pipelines, times, strict=True):
            gain = statistics.median(copies / own for copies, own in zip(times[0], seconds, strict=True))
            passes = statistics.median(own / one for own, one in zip(seconds, encoder, strict=True))
            time = f"{1000 * statistics.median(seconds):.1f} ms"
            rows.append([str(count), str(count * (count - 1)), name, time, f"{passes:.2f}", f"{gain:.2f}"])
    print(f"{arguments.shape}, {arguments.words} words. {describe(arguments)}\n")
    print(markdown("entities | pairs | model | time of a text | encoder passes | speed over the first", rows))


if __name__ == "__main__":
    main()
