"""Functions of `run_parsing.py`: labels, warnings, the decoder, the model card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, concatenate_datasets
from transformers import PreTrainedConfig, TrainingArguments
from transformers.utils import logging

from msattn.data.files.conllu_lines import with_tree
from msattn.data.inputs.word_labels import learn_labels
from msattn.data.inputs.word_rules import LANGUAGES
from msattn.data.treebanks import read_treebank
from msattn.errors import UserError
from msattn.metrics.tree_confidence import ScoredSentence, compare_decoders, fit_tree_temperature
from msattn.metrics.treebank_scores import parsed_columns
from msattn.training.checkpoints import config_fields
from msattn.training.learning_rates import AUTO, FineTuningArguments
from msattn.training.model_card import ModelCardFacts
from msattn.training.splits import split_names
from msattn.training.steps import warn_of_few_steps
from msattn.trees.parses import DECODERS, Parses

logger = logging.get_logger(__name__)

METRIC_NAMES = {
    "uas": "UAS",
    "las": "LAS",
    "clas": "CLAS",
    "label_accuracy": "Label accuracy",
    "root_accuracy": "Root accuracy",
    "uas_no_punct": "UAS without punctuation",
    "las_no_punct": "LAS without punctuation",
    "upos": "UPOS",
    "xpos": "XPOS",
    "ufeats": "UFeats",
    "alltags": "AllTags",
    "lemmas": "Lemmas",
    "mlas": "MLAS",
    "blex": "BLEX",
    "ece": "Expected calibration error of heads (%)",
    "tree_ece": "Expected calibration error of trees (%)",
}
# Configuration fields that a model card lists.
PARSER_FIELDS = (
    *("features", "objective", "scorer", "arc_size", "relation_size", "freeze_encoder", "word_state", "none_weight"),
    *("attention_scale", "layer_mix"),
)
# Those that turn scores into trees and probabilities.
ANSWER_FIELDS = ("tree_decoder", "calibration_temperature")
FEATURES = {
    "emb": "an encoder whose hidden states of two words are the features of their pair",
    "att": "an encoder whose attention between two words, in all layers and heads, is the feature of their pair",
    "emb+att": "an encoder whose attention between words, in all layers and heads, is a feature beside their hidden "
    "states",
}


# What a new parser is and how it is trained unless flags say otherwise, as chosen on the development data of EWT and
# ParTUT for 200 and 640 sentences (papers/pairwise). Rates are those of the attention's linear scorer and of the
# biaffine one; the encoder's is that of the other scripts.
NEW_PARSER: dict[str, Any] = {"objective": "head_select", "scorer": "biaffine", "layer_mix": 4, "word_state": "mean"}
NEW_LAYERS_RATE = {"linear": 1e-2, "biaffine": 2e-3}
STEPS, FEW_STEPS = 600, 200


@dataclass
class ParserTrainingArguments(FineTuningArguments):
    """Those of Transformers, with defaults for parsers; [`set_training_defaults`] fills in `None`."""

    num_train_epochs: float | None = field(
        default=None, metadata={"help": "Default: 3, or as many as take 600 steps."}
    )
    train_sampling_strategy: str = field(
        default="group_by_length",
        metadata={
            "help": "Order of the training sentences.",
            "choices": ["random", "sequential", "group_by_length", "batch_rebalance"],
        },
    )


def parser_fields(given: Mapping[str, Any], overrides: Sequence[str] | None, config: PreTrainedConfig) -> dict:
    """
    The fields of a parser's configuration that are set by flags, and of a new parser also by default.

    Args:
        given (`Mapping[str, Any]`): The fields by their flags; `None` for those that are left out.
        overrides (`Sequence[str]`, *optional*): `--config_overrides`, whose fields are left to it.
        config (`PreTrainedConfig`): The configuration of the checkpoint.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    if is_parser(config):
        return asked
    layers = getattr(config, "num_hidden_layers", None) or 1
    defaults = NEW_PARSER | {"layer_mix": min(NEW_PARSER["layer_mix"], layers)}
    if "att" == (asked | config_fields(overrides)).get("features"):  # without states to score
        defaults = {"objective": defaults["objective"]}
    return {name: value for name, value in defaults.items() if name not in config_fields(overrides)} | asked


def is_parser(config: PreTrainedConfig) -> bool:
    """Whether a configuration is that of a parser, and not of an encoder."""
    return (config.architectures or [""])[0].endswith("PairwiseParser")


def set_training_defaults(args: TrainingArguments, model_args: Any, model: Any, sentences: int, is_new: bool) -> None:
    """
    Sets the rate of new layers and the number of epochs that were left out, and warns of too few steps for new layers.

    Args:
        args (`ParserTrainingArguments`): The training arguments.
        model_args (`ModelArguments`): With `new_layers_learning_rate`.
        model (`PairwiseParser`): The parser.
        sentences (`int`): The number of training sentences.
        is_new (`bool`): Whether the parser is new, not trained before.
    """
    if is_new and model_args.new_layers_learning_rate == AUTO:
        model_args.new_layers_learning_rate = NEW_LAYERS_RATE[model.config.scorer]
    if args.num_train_epochs is None:
        batch = args.train_batch_size * args.world_size * args.gradient_accumulation_steps
        args.num_train_epochs = max(3, -(-STEPS // max(1, -(-sentences // batch))))
    warn_of_few_steps(args, model, sentences, FEW_STEPS)


def read_treebanks(split: str, data_args: Any) -> Dataset | None:
    """
    Reads the treebanks of a split.

    Args:
        split (`str`): `"train"`, `"validation"` or `"test"`.
        data_args (`ParsingDataArguments`): The files of each split: `train_file`, ...

    Returns:
        `datasets.Dataset` or `None`: The sentences; without files `None`.

    Raises:
        UserError: A file is named twice, cannot be read, or has no trees although it is not for testing.
    """
    given = getattr(data_args, f"{split}_file") or []
    paths = [given] if isinstance(given, str) else given
    if len(set(paths)) < len(paths):
        raise UserError(f"--{split}_file names a treebank twice, among {', '.join(paths)}.")
    treebanks = [read_treebank(path) for path in paths]
    for path, treebank in zip(paths, treebanks, strict=True):
        if split != "test" and "heads" not in treebank.column_names:
            raise UserError(f"{path}: the sentences have no trees; only test data may come without.")
    return concatenate_datasets(treebanks) if treebanks else None


def parser_labels(
    treebank: Dataset | None, asked: Sequence[str] | None, config: PreTrainedConfig
) -> tuple[list[str], dict[str, list[str]]]:
    """
    The relations and tags that a parser chooses from: those of the training data, or else those of the checkpoint.

    Args:
        treebank (`datasets.Dataset`, *optional*): The training data.
        asked (`Sequence[str]`, *optional*): The columns that are tagged. Default: those of the checkpoint.
        config (`PreTrainedConfig`): The configuration of the checkpoint.

    Returns:
        `tuple[list[str], dict[str, list[str]]]`: The relations, and the labels of words by column.

    Raises:
        UserError: DEPREL or a tagged column is empty throughout the training data; or there are none, and the
            checkpoint is no parser or does not tag a column.
    """
    known = getattr(config, "word_tags", None) or {}
    names = [*known] if asked is None else asked
    if treebank is not None:
        columns = zip(treebank["heads"], treebank["relations"], strict=True)
        relations = {name for sentence in columns for name in _known_relations(*sentence)}
        files = " + ".join(dict.fromkeys(where.rpartition(":")[0] for where in treebank["where"]))
        if not relations:
            raise UserError(f"{files}: no word has a relation; the column DEPREL is _ throughout.")
        return sorted(relations), learn_labels(treebank["lines"], names, files)
    if not is_parser(config):
        raise UserError("the relations are not known: give training data, or a parser that was trained here.")
    if unknown := [name for name in names if name not in known]:
        raise UserError(
            f"--tag {' '.join(unknown)}: the labels are not known; give training data, or a parser that tags them."
        )
    return [config.id2label[number] for number in range(config.num_labels)], {name: known[name] for name in names}


def check_treebank(prefix: str, treebank: Dataset, windows: Dataset, labels: Sequence[str]) -> None:
    """
    Warns of sentences that are read in windows, of words without a head, and of relations that are not known.

    Args:
        prefix (`str`): The prefix of the metrics.
        treebank (`datasets.Dataset`): The sentences.
        windows (`datasets.Dataset`): Their windows; see [`~msattn.data.inputs.parser_inputs.encode_treebank`].
        labels (`Sequence[str]`): The relations of the parser.
    """
    sentence, cut = (np.array(windows[name]) for name in ("sentence", "cut"))
    long = np.union1d(np.flatnonzero(np.bincount(sentence) > 1), sentence[cut])
    if len(long):
        logger.warning(
            f"{prefix}: {len(long)} sentences have too many tokens for one input, the first at "
            f"{treebank[int(long[0])]['where']}, and are read in windows; of {cut.sum()} words only the first tokens "
            "are read."
        )
    if "heads" not in treebank.column_names:
        return
    sentences = [*zip(*(treebank[name][:] for name in ("heads", "relations", "where")), strict=True)]
    if partial := [where for heads, _, where in sentences if min(heads) < 0]:
        missing = [head < 0 for heads, _, _ in sentences for head in heads]
        logger.warning(
            f"{prefix}: {len(partial)} of {len(sentences)} sentences, the first at {partial[0]}, have words without a "
            f"head. These {sum(missing)} of {len(missing)} words have no loss, and do not count in scores."
        )
    if bare := [where for heads, names, where in sentences if len(_known_relations(heads, names)) < _known(heads)]:
        logger.warning(
            f"{prefix}: {len(bare)} of {len(sentences)} sentences, the first at {bare[0]}, have words with a head and "
            "without a relation (_), which has no loss and no score."
        )
    known = set(labels)
    unknown = [
        (name, where)
        for heads, names, where in sentences
        for name in _known_relations(heads, names)
        if name not in known
    ]
    if unknown:
        name, where = unknown[0]
        logger.warning(
            f"{prefix}: {len(unknown)} words have a relation that the parser does not know, such as {name!r} in the "
            f"sentence at {where}; they count as errors."
        )


def fit_answers(sentences: Sequence[ScoredSentence], asked: str | None) -> tuple[str, float, dict[str, float]]:
    """
    Fits on validation data what turns the scores of a parser into trees and probabilities.

    Args:
        sentences (`Sequence[ScoredSentence]`): The arc scores and gold heads.
        asked (`str`, *optional*): The decoder. Default: the one with the best UAS; `"greedy"` may give no tree.

    Returns:
        `tuple[str, float, dict[str, float]]`: The decoder, the temperature of arc scores, and the UAS of each decoder.
    """
    temperature = fit_tree_temperature(sentences)
    compared = compare_decoders(sentences, temperature)
    # The first one of equal ones.
    decoder = asked or max((name for name in DECODERS if name != "greedy"), key=compared.__getitem__)
    scores = ", ".join(f"{name} {score:.2f}" for name, score in compared.items())
    logger.info(f"UAS by decoder: {scores}. The parser decodes by {decoder}.")
    return decoder, temperature, compared


def conllu_texts(
    parses: Iterable[Parses], treebank: Dataset, labels: Sequence[str], tags: Mapping[str, Sequence[str]]
) -> list[str]:
    """The sentences in CoNLL-U with their parses; the arguments are those of [`parsed_columns`]. The rest stays."""
    columns = parsed_columns(parses, treebank, labels, tags)
    return [with_tree(lines, **each) for lines, each in zip(treebank["lines"][:], columns, strict=True)]


def parsing_card(config: PreTrainedConfig, data_args: Any) -> ModelCardFacts:
    """
    The facts for the model card of a parser.

    Args:
        config (`PreTrainedConfig`): The configuration of the parser.
        data_args (`ParsingDataArguments`): Names the files.
    """
    held_out = data_args.validation_split_percentage is not None
    scored = {
        "eval": data_args.train_file if held_out else data_args.validation_file,
        "dev": data_args.validation_file,
        "test": data_args.test_file,
    }
    source = _file_names(data_args.train_file)
    treebank = re.match("([a-z]{2,3})_[a-z0-9]+-ud-", source)  # of Universal Dependencies
    language = treebank[1] if treebank else None
    return ModelCardFacts(
        task_type="dependency-parsing",
        dataset_name=source,
        splits=split_names(data_args),
        scored_data={prefix: _file_names(files) for prefix, files in scored.items() if files},
        metrics=METRIC_NAMES,
        description=f"A dependency parser: {FEATURES[config.features]}."
        + (f" It also tags {', '.join(config.word_tags)}." if config.word_tags else ""),
        usage=partial(_usage, language=language),
        tags=["dependency-parsing", *(["pairwise-attention"] if "att" in config.features else [])],
        config_fields=(*PARSER_FIELDS, *ANSWER_FIELDS),
        carries_pipeline=True,
        language=language,
    )


def _file_names(files: str | Sequence[str]) -> str:
    return " + ".join(Path(path).name for path in ([files] if isinstance(files, str) else files))


def _known(heads: Sequence[int]) -> int:
    return sum(head >= 0 for head in heads)


def _known_relations(heads: Sequence[int], relations: Sequence[str]) -> list[str]:
    return [name for head, name in zip(heads, relations, strict=True) if head >= 0 and name != "_"]


def _usage(name: str, language: str | None) -> str:
    lang = f', lang="{language}"' if language in LANGUAGES else ""
    return f'''parse = pipeline("dependency-parsing", model="{name}"{lang}, trust_remote_code=True)
for sentence in parse("Dogs sleep. Cats eat mice."):
    for word in sentence:
        print(word["word"], word["head"], word["relation"])'''
