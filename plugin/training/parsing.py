"""Dependency parsing as an experiment from arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import EvalPrediction, TrainingArguments
from transformers.utils import logging

from msattn.data.conllu import with_tree
from msattn.data.parser_inputs import WINDOW_COLUMNS, ParserCollator, encode_treebank
from msattn.data.treebanks import read_treebank
from msattn.errors import UserError
from msattn.metrics.parsing import score_trees, tree_shapes
from msattn.modeling.modeling_bert_pairwise import BertPairwiseParser
from msattn.parses import DECODERS, Parses, parse_batch, sentence_parses
from msattn.training.cli import existing_file, hold_out
from msattn.training.experiment import Experiment, GuidedFineTuningTrainer
from msattn.training.masked_lm import MaskedLMArguments, train_masked_lm
from msattn.training.model_card import ModelCardFacts
from msattn.training.pairwise import PairwiseArguments
from msattn.training.pretrained import ModelArguments, load_config, load_model, load_tokenizer
from msattn.tree_decoding import tree_search

logger = logging.get_logger(__name__)

CONFIG_FIELDS = (
    "features",
    "objective",
    "scorer",
    "arc_size",
    "relation_size",
    "freeze_encoder",
    "word_state",
    "none_weight",
    "attention_scale",
)
PREFIXES = {"train": "train", "validation": "eval", "test": "test"}
METRIC_NAMES = {
    "uas": "UAS",
    "las": "LAS",
    "clas": "CLAS",
    "label_accuracy": "Label accuracy",
    "root_accuracy": "Root accuracy",
    "uas_no_punct": "UAS without punctuation",
    "las_no_punct": "LAS without punctuation",
}


@dataclass
class ParserArguments(PairwiseArguments, ModelArguments):
    """The parser: what is left out stays as the checkpoint has it, or as the paper has it for a plain BERT."""

    objective: str | None = field(
        default=None,
        metadata={
            "help": "Learn a relation or none for every pair (pairs, the paper), or the head of every word "
            "(head_select).",
            "choices": ["pairs", "head_select"],
        },
    )
    arc_size: int | None = field(default=None, metadata={"help": "Width of the biaffine layer of arcs."})
    word_state: str | None = field(
        default=None,
        metadata={
            "help": "The hidden state of a word: its first piece's or their mean.",
            "choices": ["first", "mean"],
        },
    )
    none_weight: float | None = field(
        default=None, metadata={"help": "Weight of the pairs without a relation in the loss of pairs."}
    )

    def config_overrides(self) -> dict[str, Any]:
        """The fields of the model's configuration that were given."""
        return self.given(CONFIG_FIELDS)


@dataclass
class ParsingDataArguments:
    """The data: CoNLL-U, CoNLL-X or plain sentences."""

    train_file: str | None = field(
        default=None, metadata={"help": "Training trees: CoNLL-U or CoNLL-X, gzipped if the name ends in .gz."}
    )
    validation_file: str | None = field(default=None, metadata={"help": "Development trees."})
    test_file: str | None = field(
        default=None,
        metadata={"help": "Test sentences, with or without trees; in a file .txt one a line, spaces between words."},
    )
    validation_split_percentage: float | None = field(
        default=None,
        metadata={
            "help": "Cut this share of the training sentences off and choose with it: it is then called eval, and the "
            "development data dev."
        },
    )
    split_seed: int = field(default=42, metadata={"help": "Seed of that cut, the same for every --seeds."})
    decode: str = field(
        default="mst",
        metadata={
            "help": "The best tree (mst), or the best head of each word, which may be no tree (greedy).",
            "choices": list(DECODERS),
        },
    )
    max_seq_length: int | None = field(
        default=None, metadata={"help": "Most tokens that the encoder reads at a time; its own limit if not given."}
    )
    long_sentences: str = field(
        default="window",
        metadata={
            "help": "What to do with a longer sentence: windows that overlap by half, or an error.",
            "choices": ["window", "error"],
        },
    )
    max_train_samples: int | None = field(default=None, metadata={"help": "Use so many training sentences at most."})
    max_eval_samples: int | None = field(default=None, metadata={"help": "The same for development."})
    max_predict_samples: int | None = field(default=None, metadata={"help": "The same for the test."})
    preprocessing_num_workers: int | None = field(default=None, metadata={"help": "Processes that tokenise."})


class ParsingTrainer(GuidedFineTuningTrainer):
    """
    A Trainer for a parser, which decodes batch by batch: its predictions are the columns of [`Parses`], `(rows, words,
    4)`, and their labels are the column `place` of the data.

    Args:
        decoder (`str`): See [`~msattn.parses.parse_batch`].
        **kwargs: Arguments of [`FineTuningTrainer`].
    """

    def __init__(self, *args: Any, decoder: str, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.decoder = decoder

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        if "place" not in self._signature_columns:
            self._signature_columns = [*self._signature_columns, "place"]

    def prediction_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        inputs = self._prepare_inputs(inputs)
        places = inputs.pop("place")
        if isinstance(model, torch.nn.DataParallel):
            model = model.module  # each replica would have to decode a part of its own
        with torch.no_grad(), self.compute_loss_context_manager():
            outputs, parses = parse_batch(model, inputs, self.decoder)
        answers = torch.from_numpy(np.stack(parses, axis=-1).astype(np.float32)).to(places.device)
        return outputs["loss"] if "loss" in outputs else None, answers, places


@dataclass
class ParsedSet:
    """
    A set of sentences and how it was encoded.

    Args:
        trees (`datasets.Dataset`): See [`read_treebank`].
        windows (`datasets.Dataset`): The columns `WINDOW_COLUMNS` of [`encode_treebank`].
    """

    trees: Dataset
    windows: Dataset

    def parses(self, answers: Iterable[np.ndarray], decoder: str) -> list[Parses]:
        """The parse of each sentence, from the answers of a [`ParsingTrainer`] to its windows, in order."""
        return sentence_parses(answers, self.windows.to_list(), decoder)


def parsing_experiment(
    model_args: ParserArguments,
    data_args: ParsingDataArguments,
    mlm_args: MaskedLMArguments,
    training_args: TrainingArguments,
) -> Experiment:
    """
    Reads and encodes the data, trains the encoder on their text if asked to, and says how the model is built and
    scored.

    Raises:
        UserError: Files, relations, model or arguments are not as they should be.
    """
    if mlm_args.mlm_epochs is not None and not training_args.do_train:
        raise UserError("--mlm_epochs trains on the text of the training data: give --train_file and --do_train.")
    if data_args.decode == "mst":
        tree_search()  # not after hours of training
    tokenizer = load_tokenizer(model_args)
    max_length = min(data_args.max_seq_length or tokenizer.model_max_length, tokenizer.model_max_length)
    trees = _trees(data_args, training_args)
    labels = _labels(trees, model_args)
    if not training_args.do_train:
        trees.pop("train", None)
    sets, encoded = {}, {}
    for prefix, dataset in trees.items():
        with training_args.main_process_first(desc=f"encoding {prefix}"):
            rows = encode_treebank(
                dataset,
                tokenizer,
                {label: number for number, label in enumerate(labels)},
                max_length,
                data_args.preprocessing_num_workers,
            )
        sets[prefix] = ParsedSet(dataset, rows.select_columns(WINDOW_COLUMNS))
        encoded[prefix] = rows.remove_columns(WINDOW_COLUMNS)
        _report(prefix, sets[prefix], labels, max_length, data_args.long_sentences)
    scored = [prefix for prefix in sets if prefix != "train"]
    for number, prefix in enumerate(scored):
        encoded[prefix] = encoded[prefix].add_column("place", [[number, row] for row in range(len(encoded[prefix]))])
    if mlm_args.mlm_epochs is not None and "train" in sets:
        model_args = train_masked_lm(model_args, tokenizer, sets["train"].trees["words"], mlm_args, training_args)
    return Experiment(
        model_init=partial(
            load_model,
            BertPairwiseParser,
            model_args,
            len(tokenizer),
            id2label=dict(enumerate(labels)),
            label2id={label: number for number, label in enumerate(labels)},
        ),
        tokenizer=tokenizer,
        compute_metrics=partial(
            parsing_metrics, sets=[sets[prefix] for prefix in scored], labels=labels, decoder=data_args.decode
        ),
        card=_card(data_args, scored),
        train_dataset=encoded.get("train"),
        train_groups=sets["train"].windows["sentence"][:] if "train" in sets else None,
        eval_datasets={prefix: dataset for prefix, dataset in encoded.items() if prefix in ("eval", "dev")},
        test_datasets={prefix: dataset for prefix, dataset in encoded.items() if prefix == "test"},
        write_predictions=partial(_write_predictions, sets=sets, labels=labels, decoder=data_args.decode),
        new_layers_learning_rate=model_args.new_layers_learning_rate,
        collator_class=ParserCollator,
        trainer_class=partial(ParsingTrainer, decoder=data_args.decode),
    )


def parsing_metrics(
    prediction: EvalPrediction, sets: Sequence[ParsedSet], labels: Sequence[str], decoder: str
) -> dict[str, float]:
    """
    The scores of [`score_trees`] if there are true trees, and in how many sentences, in percent, the tree is not
    projective, or the greedy heads have a cycle or not just one root.

    Args:
        prediction (`EvalPrediction`): The answers of a [`ParsingTrainer`]; the labels are a set and a row of it.
        sets (`Sequence[ParsedSet]`): The sets.
        labels (`Sequence[str]`): The relations.
        decoder (`str`): How the answers were decoded.
    """
    number, rows = prediction.label_ids[0, 0], prediction.label_ids[:, 1]
    trees = sets[number].trees
    parses = sets[number].parses(prediction.predictions[rows.argsort()], decoder)
    shapes = tree_shapes([parse.heads for parse in parses])
    greedy = tree_shapes([parse.greedy for parse in parses])
    metrics = {
        "nonprojective": shapes["nonprojective"],
        "greedy_cyclic": greedy["cyclic"],
        "greedy_several_roots": greedy["several_roots"],
    }
    if "heads" not in trees.column_names:
        return metrics
    predicted = [(parse.heads, [labels[relation] for relation in parse.relations]) for parse in parses]
    true = list(zip(trees["heads"][:], trees["relations"][:], strict=True))
    return {
        **score_trees(predicted, true),
        **metrics,
        "true_nonprojective": tree_shapes([heads for heads, _ in true])["nonprojective"],
    }


def _trees(data_args: ParsingDataArguments, training_args: TrainingArguments) -> dict[str, Dataset]:
    """What the arguments use, by metric prefix, the set to choose with first."""
    share = data_args.validation_split_percentage
    wants_eval = training_args.do_eval or training_args.eval_strategy != "no"
    used = {
        "train": training_args.do_train or (wants_eval and share is not None),
        "validation": wants_eval,
        "test": training_args.do_predict,
    }
    found = {PREFIXES[split]: data for split in used if used[split] and (data := _read(data_args, split))}
    if not found:
        raise UserError(
            "there are no data to train, score or parse: give --train_file, --validation_file or --test_file, and "
            "--do_train, --do_eval or --do_predict."
        )
    if share is not None and wants_eval:
        if "train" not in found:
            raise UserError("--validation_split_percentage needs training data.")
        train, held = hold_out(found.pop("train"), share, data_args.split_seed)
        others = {prefix.replace("eval", "dev"): data for prefix, data in found.items()}
        # The first evaluation set is the one that a Trainer chooses with.
        found = {"eval": held, **others, "train": train}
    at_most = {
        "train": data_args.max_train_samples,
        "eval": data_args.max_eval_samples,
        "dev": data_args.max_eval_samples,
        "test": data_args.max_predict_samples,
    }
    return {prefix: _limited(data, at_most[prefix], prefix) for prefix, data in found.items()}


def _read(data_args: ParsingDataArguments, split: str) -> Dataset | None:
    path = existing_file(getattr(data_args, f"{split}_file"), f"{split}_file")
    if path is None:
        return None
    dataset = read_treebank(path)
    if split != "test" and "heads" not in dataset.column_names:
        raise UserError(f"{path}: the sentences have no trees; only test data may come without.")
    return dataset


def _limited(dataset: Dataset, most: int | None, prefix: str) -> Dataset:
    if most is None:
        return dataset
    if most < 1:
        raise UserError(f"{prefix}: at least one sentence has to be left, not {most}.")
    return dataset.select(range(min(most, len(dataset))))


def _labels(trees: Mapping[str, Dataset], model_args: ModelArguments) -> list[str]:
    """The relations of the training data, or those of the checkpoint."""
    if "train" in trees:
        return sorted(set(chain.from_iterable(trees["train"]["relations"])))
    config = load_config(model_args)
    if BertPairwiseParser.__name__ not in (config.architectures or ()):
        raise UserError("the relations are not known: give training data, or a parser that was trained here.")
    return [config.id2label[number] for number in range(config.num_labels)]


def _report(prefix: str, data: ParsedSet, labels: Sequence[str], max_length: int, long_sentences: str) -> None:
    """What about a set is not as it should be, as a warning or an error."""
    sentence, cut = (np.array(data.windows[name]) for name in ("sentence", "cut"))
    long = np.union1d(np.flatnonzero(np.bincount(sentence) > 1), sentence[cut])
    if len(long):
        first = data.trees[int(long[0])]["where"]
        if long_sentences == "error":
            raise UserError(
                f"{first}: the sentence has more than {max_length} tokens; --long_sentences window would read it in "
                "parts."
            )
        logger.warning(
            f"{prefix}: {len(long)} sentences of more than {max_length} tokens, the first at {first}, are read in "
            f"windows; of {cut.sum()} words only the first tokens are read."
        )
    if "relations" not in data.trees.column_names:
        return
    known = set(labels)
    unknown = [
        (name, where)
        for names, where in zip(data.trees["relations"], data.trees["where"], strict=True)
        for name in names
        if name not in known
    ]
    if unknown:
        name, where = unknown[0]
        logger.warning(
            f"{prefix}: {len(unknown)} words have a relation that the parser does not know, such as {name!r} in the "
            f"sentence at {where}; they count as errors."
        )


def _write_predictions(
    prefix: str,
    predictions: np.ndarray,
    folder: Path,
    sets: Mapping[str, ParsedSet],
    labels: Sequence[str],
    decoder: str,
) -> None:
    """`<prefix>_predictions.conllu`: what was read, with the predicted heads and relations."""
    data = sets[prefix]
    with open(folder / f"{prefix}_predictions.conllu", "w", encoding="utf-8", newline="") as file:
        for lines, parse in zip(data.trees["lines"], data.parses(predictions, decoder), strict=True):
            file.write(with_tree(lines, parse.heads, [labels[relation] for relation in parse.relations]))


def _card(data_args: ParsingDataArguments, scored: Sequence[str]) -> ModelCardFacts:
    name = Path(str(data_args.train_file)).name
    held_out = {"eval": "held out of train"} if data_args.validation_split_percentage is not None else {}
    return ModelCardFacts(
        # No pipeline_tag: the Hub knows no such task.
        task_type="dependency-parsing",
        task_name="Dependency Parsing",
        dataset_type=name,
        dataset_name=name,
        splits={"dev" if "dev" in scored else "eval": "validation", "test": "test", **held_out},
        metrics=METRIC_NAMES,
        description=(
            "A dependency parser: BERT whose attention between words, in all layers and heads, is a feature beside "
            "their hidden states (`features` below)."
        ),
        usage=_usage,
        tags=["dependency-parsing", "pairwise-attention"],
        config_fields=CONFIG_FIELDS,
    )


def _usage(name: str) -> str:
    return f'''import msattn
from transformers import pipeline

parse = pipeline("dependency-parsing", model="{name}")
for word in parse("The dog sleeps ."):
    print(word["text"], word["head"], word["relation"])'''
