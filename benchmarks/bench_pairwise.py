"""
What pairwise attention costs beside its encoder, the naive concatenation of all features, and the biaffine parsers.

All parsers have the same encoder. They run in one process and take turns, so that a slow moment of the machine touches
each of them; times are compared turn by turn. Needs Linux.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from bench_multiscale import (
    SHAPES,
    add_measurement_arguments,
    describe,
    fresh_peak,
    markdown,
    resident_peak,
    take_turns,
)
from torch import nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import BertModel

from msattn import BertPairwiseConfig, BertPairwiseParser, PairwiseScores, decode_trees, relations_of_arcs
from msattn.modeling.pairwise_parsing import PairwiseParserOutput
from msattn.modeling.word_attention import word_attention, word_members, word_states
from msattn.trees.parses import best_tags

Step = Callable[[], None]


class EncoderAlone(nn.Module):
    """The encoder with fused attention, or with attention maps of which nobody makes anything."""

    def __init__(self, encoder: BertModel, config: BertPairwiseConfig):
        super().__init__()
        self.bert = encoder

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, **rest: Any) -> PairwiseParserOutput:
        maps = self.bert.config._attn_implementation == "eager"
        outputs = self.bert(input_ids, attention_mask=attention_mask, output_attentions=maps)
        return PairwiseParserOutput(loss=outputs.last_hidden_state.square().mean())


class NaivePairs(nn.Module):
    """[T_i; T_j; a_ij; a_ji] of every pair side by side, and a linear layer."""

    def __init__(self, config: BertPairwiseConfig):
        super().__init__()
        features = 2 * (config.hidden_size + config.num_hidden_layers * config.num_attention_heads)
        self.linear = nn.Linear(features, config.num_labels + 1)

    def forward(
        self, hidden_states: torch.Tensor, attentions: Sequence[torch.Tensor], word_index: torch.Tensor, words: int
    ) -> torch.Tensor:
        states = word_states(hidden_states, word_members(word_index, words))
        maps = torch.cat([word_attention(attention, word_index, words) for attention in attentions], dim=1)
        maps = maps.permute(0, 2, 3, 1)
        first = states.unsqueeze(2).expand(-1, -1, words + 1, -1)
        features = torch.cat([first, first.transpose(1, 2), maps, maps.transpose(1, 2)], dim=-1)
        return self.linear(features).permute(0, 3, 1, 2)


class BiaffineParser(nn.Module):
    """
    A biaffine parser as SuPar builds it, which scores the relations of all pairs in training, too.

    With `one_head`, the attention of one head of the last layer is added to the scores of arcs, as in DiaParser.
    """

    def __init__(self, encoder: BertModel, config: BertPairwiseConfig, one_head: bool):
        super().__init__()
        self.bert = encoder
        self.arcs, self.relations = (
            PairwiseScores(outputs, config.hidden_size, 0, 0, "biaffine", size, config.hidden_dropout_prob)
            for outputs, size in ((1, config.arc_size), (config.num_labels, config.relation_size))
        )
        self.share = nn.Parameter(torch.ones(())) if one_head else None

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        word_index: torch.Tensor,
        heads: Any = None,
        relations: Any = None,
        choose_heads: Any = None,
    ) -> PairwiseParserOutput:
        outputs = self.bert(input_ids, attention_mask=attention_mask, output_attentions=self.share is not None)
        arcs = self.arcs(outputs.last_hidden_state, (), word_index).squeeze(1)
        if self.share is not None:
            arcs = arcs + self.share * word_attention(outputs.attentions[-1][:, :1], word_index).squeeze(1).mT
        every = self.relations(outputs.last_hidden_state, (), word_index).permute(0, 2, 3, 1)
        if heads is None:
            return PairwiseParserOutput(arc_scores=arcs, relation_logits=relations_of_arcs(every, choose_heads(arcs)))
        of_arcs = relations_of_arcs(every, heads)
        return PairwiseParserOutput(
            loss=cross_entropy(arcs[:, :, 1:], heads) + cross_entropy(of_arcs.mT, relations),
            arc_scores=arcs,
            relation_logits=of_arcs,
        )


def naive_parser(encoder: BertModel, config: BertPairwiseConfig) -> nn.Module:
    model = pairwise_parser(encoder, config)
    model.relations = NaivePairs(config)
    return model


def pairwise_parser(encoder: BertModel, config: BertPairwiseConfig) -> nn.Module:
    with torch.device("meta"):  # an encoder of its own would raise the peak of the memory
        model = BertPairwiseParser(config)
    model.bert = encoder
    for layer in model.modules():
        if isinstance(layer, nn.Linear) and layer.weight.is_meta:
            layer.to_empty(device="cpu").reset_parameters()
    return model


class Way(NamedTuple):
    """A parser of the comparison: the attention implementation, who builds it, and with which configuration."""

    attention: str
    make: Callable[[BertModel, BertPairwiseConfig], nn.Module]
    fields: dict[str, Any] = {}


ENCODER = "encoder alone"
BIAFFINE = "biaffine (SuPar)"
HEADS = {"objective": "head_select", "scorer": "biaffine"}
# As many labels as in the training data of EWT.
TAGS = {name: [*map(str, range(size))] for name, size in {"upos": 17, "xpos": 49, "feats": 230, "lemma": 624}.items()}
WAYS = {
    ENCODER: Way("sdpa", EncoderAlone),
    "encoder with its maps": Way("eager", EncoderAlone),
    "naive concatenation": Way("eager", naive_parser),
    "pairs, linear": Way("msattn", pairwise_parser),
    "head_select, linear, whole maps": Way("eager", pairwise_parser, {"objective": "head_select"}),
    "head_select, linear": Way("msattn", pairwise_parser, {"objective": "head_select"}),
    "head_select, biaffine": Way("msattn", pairwise_parser, HEADS),
    "head_select, linear, tags": Way("msattn", pairwise_parser, {"objective": "head_select", "word_tags": TAGS}),
    "head_select, biaffine, tags": Way("msattn", pairwise_parser, {**HEADS, "word_tags": TAGS}),
    "head_select, biaffine, no attention": Way("sdpa", pairwise_parser, {**HEADS, "features": "emb"}),
    BIAFFINE: Way("sdpa", partial(BiaffineParser, one_head=False)),
    "biaffine and one head (DiaParser)": Way("eager", partial(BiaffineParser, one_head=True)),
}
# How many of a batch's sentences have best heads that are no tree.
DECODING = {"decoding, every tenth tree is repaired": 0.1, "decoding, all trees are repaired": 1.0}


def build_encoder(arguments: argparse.Namespace) -> BertModel:
    torch.manual_seed(0)
    config = BertPairwiseConfig(**SHAPES[arguments.shape], max_position_embeddings=max(512, *arguments.words) + 2)
    return BertModel(config, add_pooling_layer=False).to(arguments.device, getattr(torch, arguments.dtype))


def build(way: str, encoder: BertModel, arguments: argparse.Namespace) -> Any:
    """The parser on the encoder that all share: of several copies, some lie better in the memory than others."""
    config = BertPairwiseConfig(**SHAPES[arguments.shape], num_labels=arguments.relations, **WAYS[way].fields)
    return WAYS[way].make(encoder, config).to(arguments.device, getattr(torch, arguments.dtype))


def random_batch(words: int, arguments: argparse.Namespace) -> dict[str, torch.Tensor]:
    """Random sentences of words of one piece, without padding."""
    torch.manual_seed(0)
    rows = max(1, arguments.batch_words // words)
    batch = {
        "input_ids": torch.randint(1, BertPairwiseConfig().vocab_size, (rows, words + 2)),
        "attention_mask": torch.ones(rows, words + 2, dtype=torch.long),
        "word_index": torch.tensor([*range(words + 1), -1]).expand(rows, -1).contiguous(),
        "heads": torch.arange(words).expand(rows, -1).contiguous(),
        "relations": torch.randint(arguments.relations, (rows, words)),
    }
    return {name: tensor.to(arguments.device) for name, tensor in batch.items()}


def optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-6, fused=True)


def train_step(way: str, model: Any, batch: dict[str, torch.Tensor], of_encoder: torch.optim.Optimizer) -> Step:
    """Forward, backward and a step of the optimizer; `of_encoder` is the one of the encoder."""
    if "word_tags" in WAYS[way].fields:
        shape, device = batch["heads"].shape, batch["heads"].device
        batch = batch | {name: torch.randint(len(labels), shape, device=device) for name, labels in TAGS.items()}
    own = [parameter for name, parameter in model.named_parameters() if not name.startswith("bert.")]
    optimizers = [of_encoder, *([optimizer(own)] if own else [])]

    def step():
        model.train()
        model.bert.set_attn_implementation(WAYS[way].attention)
        model(**batch).loss.backward()
        for each in optimizers:
            each.step()
            each.zero_grad()

    return step


def inference(way: str, model: Any, batch: dict[str, torch.Tensor]) -> Step:
    """Scores, the best head of each word, the relations of these, and the best tags."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "word_index")}

    def step():
        model.eval()
        model.bert.set_attn_implementation(WAYS[way].attention)
        with torch.inference_mode():
            best_tags(model(**inputs, choose_heads=lambda scores: scores[:, :, 1:].argmax(dim=1)))

    return step


def decoding(words: int, share: float, arguments: argparse.Namespace) -> Step:
    """The best trees for scores of which this share is random, and the others clear."""
    generator = np.random.default_rng(0)
    rows = max(1, arguments.batch_words // words)
    scores = generator.normal(size=(rows, words + 1, words + 1))
    for row in range(round(share * rows), rows):
        for word in range(1, words + 1):
            scores[row, generator.integers(word != 1, word), word] += 100
    on_device = torch.from_numpy(scores).to(arguments.device, torch.float32)

    def step():
        decode_trees(on_device)

    return step


def peak_bytes(way: str, words: int, arguments: argparse.Namespace) -> dict[str, int]:
    """What inference and a train step add to the peak: what is allocated on a GPU, else the resident memory."""
    torch.set_num_threads(arguments.threads)
    gpu = arguments.device.startswith("cuda")
    peak = torch.cuda.max_memory_allocated if gpu else resident_peak
    encoder = build_encoder(arguments)
    model, batch = build(way, encoder, arguments), random_batch(words, arguments)
    before = torch.cuda.memory_allocated() if gpu else peak()
    # Training comes last, since it needs more.
    steps = {
        "inference": inference(way, model, batch),
        "train step": train_step(way, model, batch, optimizer(encoder.parameters())),
    }
    peaks = {}
    for kind, step in steps.items():
        step()
        step()
        peaks[kind] = peak() - before
    return peaks


def compare(arguments: argparse.Namespace) -> dict[str, list[list[str]]]:
    """Rows of both tables."""
    # Each process of its own is forked from one that has nothing but imports.
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["msattn.modeling.modeling_bert_pairwise"])
    encoder = build_encoder(arguments)
    of_encoder = optimizer(encoder.parameters())
    models = {way: build(way, encoder, arguments) for way in arguments.ways}
    rows: dict[str, list[list[str]]] = {"train step": [], "inference": []}
    for words in arguments.words:
        batch = random_batch(words, arguments)
        sentences = len(batch["heads"])
        steps = {
            "train step": {way: train_step(way, model, batch, of_encoder) for way, model in models.items()},
            "inference": {way: inference(way, model, batch) for way, model in models.items()}
            | {name: decoding(words, share, arguments) for name, share in DECODING.items() if arguments.decoding},
        }
        peaks = {}
        for way in tqdm(arguments.ways if arguments.memory else (), desc=f"{words} words, memory", leave=False):
            peaks[way] = fresh_peak(peak_bytes, way, words, arguments, processes=processes)
        for kind in steps:
            times = take_turns([*steps[kind].values()], arguments, f"{words} words, {kind}")
            seconds = dict(zip(steps[kind], times, strict=True))
            for way in seconds:
                middle = statistics.median(seconds[way])
                ratios = [time / plain for time, plain in zip(seconds[way], seconds[arguments.base], strict=True)]
                peak = f"{peaks[way][kind] / 2**20:,.0f} MiB" if way in peaks else ""
                speed = [f"{1000 * middle:,.2f} ms", f"{sentences / middle:,.0f}", f"{statistics.median(ratios):.3f}"]
                rows[kind].append([str(words), way, *speed, peak])
    return rows


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="minilm", help="shape of the encoder")
    lengths = [10, 25, 50, 100, 160, 1000]
    parser.add_argument("--words", type=int, nargs="+", default=lengths, help="lengths of sentences")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="what to compare")
    parser.add_argument("--base", choices=WAYS, default=ENCODER, help="what times are compared with")
    parser.add_argument("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure memory, too")
    parser.add_argument("--batch-words", type=int, default=800, help="words in a batch")
    parser.add_argument("--relations", type=int, default=50, help="relations K")
    parser.add_argument("--decoding", action=argparse.BooleanOptionalAction, default=True, help="time tree decoding")
    add_measurement_arguments(parser)
    arguments = parser.parse_args()
    arguments.ways = [arguments.base, *(way for way in arguments.ways if way != arguments.base)]
    return arguments


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    rows = compare(arguments)
    print(
        f"{arguments.shape}, {arguments.batch_words} words a batch, {arguments.relations} relations. "
        f"{describe(arguments)} Memory: what the steps add to it."
    )
    for kind in ("Train step", "Inference"):
        print(f"\n{kind}; ratio: time / that of {arguments.base}\n")
        print(markdown("words | way | time | sentences/s | ratio | memory", rows[kind.lower()]))


if __name__ == "__main__":
    main()
