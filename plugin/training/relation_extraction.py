"""Functions of `run_re.py`: heads, labels, files of predictions, the model card."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from transformers import EvalPrediction, PreTrainedConfig, TrainingArguments
from transformers.utils import logging

from msattn.data.negative_label import find_negative_label
from msattn.data.negatives import DRAWN, Negatives, capped, random_pairs, with_entity_pairs
from msattn.data.pair_rules import PairRules
from msattn.data.relations import ALL_PAIRS, LISTED, labels_in, read_relations, to_relations
from msattn.errors import UserError
from msattn.metrics import SEMEVAL_LABELS
from msattn.metrics.calibration import fit_relation_answers
from msattn.metrics.multi_label import multi_label_report
from msattn.metrics.relation_reports import RelationAnswers, relation_report
from msattn.training.checkpoints import checkpoint_labels
from msattn.training.fusion import fusion_card_fields
from msattn.training.model_card import ModelCardFacts
from msattn.training.splits import (
    held_out,
    hold_out_and_limit,
    load_hub_dataset,
    read_splits,
    split_names,
    warn_of_absent,
    warn_of_repeats,
)

logger = logging.get_logger(__name__)

# The values of --head: fusion and its baselines, and pairwise attention, which is another class.
HEADS = ("multiscale", "cls", "entity-start", "r-bert", "plain-attention", "pairwise")
# The label of pairs that --negative_pairs draws.
NO_RELATION = "no_relation"
# The logit of a certain answer: that of pairs that the pipeline does not ask for.
SURE = 30.0
# Configuration fields that a model card lists.
PAIRWISE_FIELDS = ("features", "scorer", "relation_size", "freeze_encoder", "attention_scale", "layer_mix")
FITTED_FIELDS = ("calibration_temperature", "decision_threshold", "relation_thresholds")
ANSWER_FIELDS = ("problem_type", "negative_label", *FITTED_FIELDS, "trained_pairs")
# Configuration fields that a training sets, and the flags for them.
SET_FIELDS = {
    **dict.fromkeys(ANSWER_FIELDS, ""),
    **{"negative_label": "--negative_label", "problem_type": "--multi_label", "entity_markers": "--entity_markers"},
}


def choose_markers(given: str | None, config: PreTrainedConfig, pairwise: bool, training: bool) -> str:
    """
    The style of the entity markers: the given one, that of the checkpoint, or plain.

    Raises:
        UserError: The model reads no markers, or has been trained with others.
    """
    stored = getattr(config, "entity_markers", None)
    if pairwise and given is not None:
        raise UserError("--entity_markers is not for --head pairwise.")
    if not training and given is not None and given != (stored or "plain"):
        raise UserError(f"--entity_markers {given}: the model has been trained with {stored or 'plain'} ones.")
    return "plain" if pairwise else given or stored or "plain"


def read_relation_splits(
    data_args: Any, args: TrainingArguments, config: PreTrainedConfig, several: bool
) -> tuple[dict[str, Dataset], list[str]]:
    """
    Reads the splits that a run needs.

    Args:
        data_args (`RelationDataArguments`): Names the data.
        args (`TrainingArguments`): Whether the run trains, evaluates and predicts.
        config (`PreTrainedConfig`): The configuration of the checkpoint.
        several (`bool`): Whether pairs may have several relations.

    Returns:
        `tuple[dict[str, datasets.Dataset], list[str]]`: The splits by the prefix of their metrics, and the labels:
        those of `--label_file`, of the training data, or of the checkpoint. The label of no relation is one of them.

    Raises:
        UserError: A split is missing, training or validation data have no labels, or no labels or only one is known.
    """
    if data_args.negative_pairs and data_args.negative_label == "":
        raise UserError('--negative_pairs needs a --negative_label that is not "".')
    hub = load_hub_dataset(data_args)
    labels, names = read_labels(data_args.label_file) if data_args.label_file else (None, {})
    if labels and several and data_args.negative_label != "" and not find_negative_label(labels):
        labels = [*dict.fromkeys([*labels, data_args.negative_label or NO_RELATION])]  # no label of the model
    ends = data_args.span_ends

    def read(split: str) -> Dataset | None:
        nonlocal labels
        if split != "train" or not args.do_train:
            labels = labels or _labels_of(config)
        # What is held out of the training data keeps all pairs; `hold_out_texts` then draws those for training.
        draws = split == "train" and data_args.validation_split_percentage is None
        negatives = pairs_without_relation(data_args, config, labels, draws)
        if path := getattr(data_args, f"{split}_file"):
            source, rows = path, read_relations(path, data_args.file_format, labels, names, negatives, ends, several)
        elif split in hub:
            source = f"{data_args.dataset_name}, {split}"
            rows = to_relations(hub[split], source, labels, names, negatives, ends, several)
        else:
            return None
        if split != "test" and rows[0]["label"] is None:
            raise UserError(f"{source}: the examples have no labels (field relation or label).")
        if split == "train":
            drawn = [negatives.label] if negatives and negatives.pairs else []
            labels = labels or sorted({*labels_in(rows), *drawn})
        return rows

    found = read_splits(read, data_args, args, " or --dataset_name")
    if not labels:
        raise UserError("the labels are not known: give labelled training data, --label_file, or a trained model.")
    if args.do_train and len(labels) == 1 and not several:
        raise UserError(f"there has to be more than one label, and every example has {labels[0]!r}.")
    return found, labels


def read_relation_data(
    data_args: Any, args: TrainingArguments, config: PreTrainedConfig, several: bool
) -> tuple[dict[str, Dataset], list[str], str | None, list[str]]:
    """
    The splits of [`read_relation_splits`], with whole texts held out, pairs without a relation drawn, and the usual
    warnings.

    Returns:
        `tuple[dict[str, datasets.Dataset], list[str], str | None, list[str]]`: The splits by the prefix of their
        metrics; the labels, without that of no relation if a pair may have several; the label of no relation; and the
        types of entities in all training data.

    Raises:
        UserError: There are pairs without a relation, and `--label_file` has no label for them.
    """
    found, labels = read_relation_splits(data_args, args, config, several)
    train = found.get("train")
    types = [] if train is None else sorted({*train.unique("head_type"), *train.unique("tail_type")} - {None})
    negative = choose_negative(labels, data_args, config)
    if negative is not None and args.should_log:
        print(f"The label {negative!r} stands for no relation.")
    drawn = pairs_without_relation(data_args, config, labels, draws=True)
    lists = data_args.negative_pairs is None and any(rows.info.description == LISTED for rows in found.values())
    all_related = data_args.negative_label == "" or (lists and getattr(config, "negative_label", None) == "")
    if drawn is None and data_args.label_file and (data_args.negative_pairs or lists) and not all_related:
        raise UserError(
            f"{data_args.label_file}: pairs without a relation need a label; add {NO_RELATION!r}, or give "
            '--negative_label "" if all pairs have a relation.'
        )
    labels = [label for label in labels if not several or label != negative]
    if "test" in found and lists_all_pairs(found["test"]) and labels_in(found["test"]) == {negative}:
        logger.warning("test: no text has a relation; the data count as unlabelled and get no scores.")
        found["test"] = without_labels(found["test"])
    hold_out = partial(hold_out_texts, negatives=drawn)
    splits = hold_out_and_limit(found, data_args, args, hold_out=hold_out)
    marked, splits = splits, {prefix: with_drawn_pairs(rows, drawn) for prefix, rows in splits.items()}
    counts = {prefix: len(rows) - len(marked[prefix]) for prefix, rows in splits.items()}
    if any(counts.values()) and args.should_log:
        print(f"--negative_pairs drew: {', '.join(f'{prefix} {count}' for prefix, count in counts.items())}.")
    warn_of_repeats({prefix: rows.unique("text") for prefix, rows in splits.items()}, "texts")
    warn_of_absent({prefix: labels_in(rows) for prefix, rows in splits.items()}, labels)
    return splits, labels, negative, types


def _labels_of(config: PreTrainedConfig) -> list[str] | None:
    """The labels of a checkpoint and, if its pairs may have several relations, that of pairs without any."""
    labels, negative = checkpoint_labels(config), getattr(config, "negative_label", None)
    return [*labels, negative] if labels and negative and negative not in labels else labels


def pairs_without_relation(
    data_args: Any, config: PreTrainedConfig, labels: Sequence[str] | None, draws: bool
) -> Negatives | None:
    """
    The pairs without a relation that are examples.

    Of texts that list their entities, these are all pairs, as the pipeline scores all of them; for training, at most
    `--negative_pairs` a text. Of texts with marked pairs, they are `--negative_pairs` pairs of entities, in all
    splits; see [`with_drawn_pairs`].

    Args:
        data_args (`RelationDataArguments`): With `negative_pairs`, `negative_label` and `split_seed`.
        config (`PreTrainedConfig`): The configuration of the checkpoint.
        labels (`Sequence[str]` or `None`): The known labels.
        draws (`bool`): Whether `--negative_pairs` limits the pairs of entities.

    Returns:
        `Negatives` or `None`: `None` with `--negative_pairs 0`, or if no known label stands for no relation.
    """
    count, given = data_args.negative_pairs, data_args.negative_label
    if count == 0 or given == "":
        return None
    names = [given] if given else [NO_RELATION, getattr(config, "negative_label", None)]
    label = next((name for name in names if name and (labels is None or name in labels)), None)
    if label is None and not given:
        label = find_negative_label(labels or ())
    return None if label is None else Negatives(count if draws else None, label, data_args.split_seed, count or 0)


def with_drawn_pairs(rows: Dataset, negatives: Negatives | None) -> Dataset:
    """
    The rows of a split with the pairs that `--negative_pairs` draws, if they mark pairs and have labels.

    Splits draw for themselves, as pairs join texts.

    Args:
        rows (`datasets.Dataset`): The rows.
        negatives (`Negatives`, *optional*): The number of pairs.
    """
    if not negatives or not negatives.pairs or rows.info.description or rows[0]["label"] is None:
        return rows
    return with_entity_pairs(rows, negatives)


def hold_out_texts(train: Dataset, data_args: Any, negatives: Negatives | None) -> tuple[Dataset, Dataset]:
    """
    Holds out whole texts with all their pairs, stratified by the label of their first pair.

    Args:
        train (`datasets.Dataset`): The training data.
        data_args (`RelationDataArguments`): With `validation_split_percentage` and `split_seed`.
        negatives (`Negatives`, *optional*):
            Limits the pairs without a relation in what is left for training, if the rows are all pairs of each text.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(train["text"]):
        groups[text].append(row)
    labels, rows = train["label"][:], [*groups.values()]
    texts = Dataset.from_dict({"text": range(len(rows))})
    first = [labels[of_text[0]] for of_text in rows]
    parts = held_out(texts, data_args.validation_split_percentage, data_args.split_seed, first)
    kept, held = (train.select([row for text in part["text"] for row in rows[text]]) for part in parts)
    return capped(kept, negatives) if negatives and lists_all_pairs(kept) else kept, held


def lists_all_pairs(rows: Dataset) -> bool:
    """Whether rows are all ordered pairs of the entities that each text lists, and not those that the data mark."""
    return rows.info.description == ALL_PAIRS


def without_labels(rows: Dataset) -> Dataset:
    """The same rows as those of unlabelled data."""
    empty: dict[str, Any] = {"label": None, **({"labels": []} if "labels" in rows.column_names else {})}
    return rows.map(lambda _: empty, features=rows.features)


class ScoredPairs(NamedTuple):
    """
    The pairs of a split, and what is said of them.

    Args:
        examples (`datasets.Dataset`): The pairs.
        logits (`np.ndarray` of shape `(pairs, labels)`): The outputs of the model.
        references (`np.ndarray` or `None`): The label ids `(pairs,)`, or which labels are right `(pairs, labels)`.
        asked (`np.ndarray` of shape `(pairs,)`): Whether the pipeline asks for each pair; the others have no relation.
        all_pairs (`bool`): Whether these are all pairs of the entities of each text.
    """

    examples: Dataset
    logits: np.ndarray
    references: Any
    asked: np.ndarray
    all_pairs: bool

    def metrics(self, prefix: str, answers: RelationAnswers) -> dict[str, float]:
        """The metrics, if there are labels."""
        if self.references is None:
            return {}
        scores = answers.metrics(EvalPrediction(predictions=self.logits, label_ids=self.references))
        return {f"{prefix}_{name}": score for name, score in scores.items()}

    def fitted(self, answers: RelationAnswers) -> dict[str, Any]:
        """The fields of [`~msattn.metrics.calibration.fit_relation_answers`], of the pairs that are asked for."""
        asked, unasked = self.references[self.asked], self.references[~self.asked]
        return fit_relation_answers(self.logits[self.asked], asked, answers.labels, answers.negative, unasked)

    def described(self, prefix: str, negative: str | None) -> str:
        """Says which pairs a score is of."""
        count, texts = len(self.examples), len(set(self.examples["text"]))
        if not self.all_pairs:
            drawn = sum(DRAWN in (name or "") for name in self.examples["id"])
            further = f" and {drawn} that --negative_pairs drew" if drawn else ""
            return (
                f"{prefix}: scored on the {count - drawn} pairs that the rows mark{further}. It is no score of all "
                "pairs of the entities of a text, which the pipeline answers."
            )
        none = sum(label == negative for label in self.examples["label"])
        unasked = int((~self.asked).sum())
        return (
            f"{prefix}: scored on all {count} ordered pairs of the entities of {texts} texts; {none} have no "
            f"relation. As in the pipeline, {unasked} of other types, order or distance than in training get none."
        )


def as_in_pipeline(
    rows: Dataset,
    encoded: Dataset,
    logits: np.ndarray,
    trained: Mapping[str, Any] | None,
    answers: RelationAnswers,
) -> ScoredPairs:
    """
    The pairs of a split as the pipeline answers them.

    Where rows are all pairs of the entities of each text, those that the pipeline does not ask for, or whose entities
    do not fit in its window, have no relation. Otherwise the pairs are those that were encoded.

    Args:
        rows (`datasets.Dataset`): The pairs.
        encoded (`datasets.Dataset`): Those that fit, with `row`, their numbers.
        logits (`np.ndarray` of shape `(encoded, labels)`): The outputs of the model.
        trained (`Mapping` or `None`): What training saw; see [`trained_pairs`].
        answers (`RelationAnswers`): Has the labels.
    """
    labels, negative = [*answers.labels], answers.negative
    if not (lists_all_pairs(rows) and (answers.several or negative in labels)):
        references = np.asarray(encoded["labels"]) if "labels" in encoded.column_names else None
        return ScoredPairs(rows.select(encoded["row"]), logits, references, np.ones(len(logits), bool), False)
    rules = PairRules.of(trained)
    ends = zip(rows["head"], rows["tail"], rows["head_type"], rows["tail_type"], strict=True)
    asked = np.array([rules.keeps(text, pair) for text, pair in zip(rows["text"], ends, strict=True)])
    fits = np.isin(np.arange(len(rows)), encoded["row"])
    every = np.full((len(rows), len(labels)), -SURE, dtype=logits.dtype)
    if negative in labels:
        every[:, labels.index(str(negative))] = SURE
    read = np.asarray(encoded["row"])
    every[read[asked[read]]] = logits[asked[read]]
    references = None
    if rows[0]["label"] is not None and answers.several:
        references = np.array([[float(label in of_pair) for label in labels] for of_pair in rows["labels"]])
    elif rows[0]["label"] is not None:
        references = np.array([labels.index(label) for label in rows["label"]])
    return ScoredPairs(rows, every, references, asked & fits, True)


def pipeline_window(
    trained: Mapping[str, Any], asked: int | None, limit: int | None, pairwise: bool
) -> dict[str, Any]:
    """
    The window of the pipeline, in which all pairs of a text are scored.

    Args:
        trained (`Mapping[str, Any]`): What training saw; see [`trained_pairs`].
        asked (`int` or `None`): The `max_length` of the pipeline.
        limit (`int` or `None`): The most tokens.
        pairwise (`bool`): Whether the model reads no markers: then pairs share windows.
    """
    window = trained["max_length"]
    return {"max_length": asked or min(limit or window, window), "on_overflow": "skip", "shared": pairwise}


def trained_pairs(rows: Dataset, encoded: Dataset, negative: str | None) -> dict[str, Any]:
    """
    What training saw, as the pipeline then takes it by default.

    Args:
        rows (`datasets.Dataset`): The training examples.
        encoded (`datasets.Dataset`): The same, with `input_ids`.
        negative (`str` or `None`): The label that stands for no relation.

    Returns:
        `dict[str, Any]`: The fields of [`~msattn.data.pair_rules.PairRules`], and `max_length`, the number of tokens
        that covers 99 % of the examples.
    """
    ends = zip(rows["head"], rows["tail"], rows["head_type"], rows["tail_type"], strict=True)
    rules = PairRules.learned(rows["text"], ends, [label != negative for label in rows["label"]])
    lengths = [len(ids) for ids in encoded["input_ids"]]
    return {**asdict(rules), "max_length": int(np.quantile(lengths, 0.99, method="higher"))}


def label_rates(encoded: Dataset) -> torch.Tensor:
    """The share of pairs that have each label, from the column `labels` of 0.0 and 1.0; never 0 or 1."""
    has = np.asarray(encoded["labels"][:])
    return torch.tensor((has.sum(axis=0) + 0.5) / (len(has) + 1))


def read_labels(path: str) -> tuple[list[str] | None, dict[str, str]]:
    """
    The labels of a `--label_file` in the order of their ids, or `None`, and new names of labels.

    Args:
        path (`str`): A JSON list of labels, an object from label to id, or an object from label to a new name:
            `{"P177": "crosses"}`, or FewRel's `{"P177": ["crosses", description]}`.

    Raises:
        UserError: The file holds something else, or two labels have the same name.
    """
    expected = (
        f"{path}: expected a JSON list of labels, or an object from label to id or from label to a new name, such as "
        '{"P177": "crosses"}'
    )
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        labels, names = None, {}
        if not isinstance(content, dict):
            labels = [*content]
        elif all(isinstance(number, int) for number in content.values()):
            labels = sorted(content, key=content.__getitem__)
        else:
            names = {label: name if isinstance(name, str) else name[0] for label, name in content.items()}
    except (ValueError, TypeError, LookupError) as error:
        raise UserError(f"{expected} ({error}).") from None
    found = [*names.values()] if labels is None else labels
    if not found or not all(isinstance(label, str) and label for label in found):
        raise UserError(f"{expected}.")
    if len(set(found)) < len(found):
        raise UserError(f"{expected}; two have the same name.")
    return labels, names


def choose_negative(labels: Sequence[str], args: Any, config: PreTrainedConfig) -> str | None:
    """
    The label that stands for no relation.

    Args:
        labels (`Sequence[str]`): All labels.
        args (`RelationDataArguments`): With `negative_label`, empty if there is none, and `negative_pairs`.
        config (`PreTrainedConfig`): The configuration of the checkpoint.

    Returns:
        `str` or `None`: The given one, that of the checkpoint, or the one with such a meaning ("Other", "none", ...).

    Raises:
        UserError: The given label is none of the labels, or it is not clear which one it is.
    """
    given, stored, draws = args.negative_label, getattr(config, "negative_label", None), bool(args.negative_pairs)
    if given is None and draws and stored in labels and stored != NO_RELATION:
        raise UserError(
            f"--negative_pairs draws the label {NO_RELATION!r}, and {stored!r} stands for no relation in the "
            "checkpoint; name one of them with --negative_label."
        )
    if given is None and (stored in labels or (stored == "" and not draws)):
        given = stored
    if given and given not in labels:
        raise UserError(f"--negative_label {given}: not one of the labels {', '.join(labels)}.")
    if given is not None:
        return given or None
    negative = find_negative_label(labels)
    if negative is None:
        logger.warning(
            f"None of the {len(labels)} labels is known to stand for no relation, so F1 counts them all; "
            'name it with --negative_label, or give --negative_label "" if there is none.'
        )
    return negative


def untrained_pairs(data: Mapping[str, Dataset], prefix: str, seed: int) -> Dataset | None:
    """
    Random pairs of other spans, in sentences that are no training data; `None` if no sentence has room for one.

    Args:
        data (`Mapping[str, datasets.Dataset]`): The examples of all splits.
        prefix (`str`): The split whose sentences are read.
        seed (`int`): The random seed of the pairs.
    """
    trained = set(data["train"]["text"]) if "train" in data else set()
    rows = [row for row, text in enumerate(data[prefix]["text"]) if text not in trained]
    return random_pairs(data[prefix].select(rows), seed)


def write_relation_predictions(folder: str, prefix: str, pairs: ScoredPairs, answers: RelationAnswers) -> None:
    """
    Writes `<prefix>_predictions.tsv` and `.jsonl`; with labels, also writes `<prefix>_report.txt`, whose first line
    says which pairs are scored, and prints it.

    Args:
        folder (`str`): The folder.
        prefix (`str`): The prefix of the split, such as `"test"`.
        pairs (`ScoredPairs`): The examples and the outputs of the model.
        answers (`RelationAnswers`): Turns these into answers.
    """
    examples, labels, negative, several = pairs.examples, answers.labels, answers.negative, answers.several
    probabilities = answers.probabilities(pairs.logits)
    given = answers.names(answers.chosen(probabilities))
    lines, rows = [], []
    for example, answer, row in zip(examples, given, probabilities, strict=True):
        of = {label: round(float(row[labels.index(label)]), 6) for label in (answer if several else [answer])}
        lines += [f"{example['id']}\t{label}\n" for label in of or [negative or ""]]
        rows.append(_predicted(example, answer, [*of.values()] if several else of[answer], negative))
    Path(folder, f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    with open(Path(folder, f"{prefix}_predictions.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if examples[0]["label"] is None:
        return
    references = [row["gold"] for row in rows]
    if several:
        report = multi_label_report(given, references, labels)
    else:
        report = relation_report(given, references, labels, negative)
    scored = pairs.described(prefix, negative)
    Path(folder, f"{prefix}_report.txt").write_text(f"{scored}\n\n{report}", encoding="utf-8")
    print(f"{scored}\n{report}")


def relation_card(config: Any, data_args: Any, labels: Sequence[str], negative: str | None) -> ModelCardFacts:
    """
    The facts for the model card of a relation extractor.

    Args:
        config (`PreTrainedConfig`): The configuration of the model.
        data_args (`RelationDataArguments`): Names the data.
        labels (`Sequence[str]`): All labels.
        negative (`str` or `None`): The label that stands for no relation.
    """
    official = set(labels) <= set(SEMEVAL_LABELS)
    without = "" if negative is None else f" without {negative}"
    reads, tag = _description(config)
    tails_of = (config.trained_pairs or {}).get("types") or {}
    types = next(((head, tail) for head, tails in tails_of.items() for tail in tails), None)
    fields = PAIRWISE_FIELDS if hasattr(config, "features") else (*fusion_card_fields(config), "entity_markers")
    return ModelCardFacts(
        task_type="relation-extraction",
        dataset_name=data_args.source,
        dataset_config=data_args.dataset_config_name,
        splits=split_names(data_args),
        metrics={
            "f1": "Official macro-F1" if official else f"Micro-F1{without}",
            **({"micro_f1": f"Micro-F1{without}"} if official else {}),
            "majority_f1": "The first score, of always naming the most frequent relation",
            "macro_f1": f"Macro-F1 over labels{without}",
            "precision": f"Precision{without}",
            "recall": f"Recall{without}",
            "accuracy": "Accuracy",
            "majority_accuracy": "Accuracy of the most frequent label",
            "auc": "Area under the precision-recall curve",
            "ece": "Expected calibration error (%)",
            "false_positives": "Scored pairs without a relation that get one (%)",
            "false_positive_rate": "Random unrelated pairs that get a relation (%)",
        },
        description=f"A relation extractor for {len(labels)} labels, between two marked entities: {reads}",
        usage=partial(_usage, types=types),
        tags=["relation-extraction", *tag],
        config_fields=(*fields, *ANSWER_FIELDS),
        carries_pipeline=True,
        language="en" if official else None,
    )


def _predicted(example: Mapping[str, Any], label: Any, probability: Any, negative: str | None) -> dict[str, Any]:
    """A line of the file of predictions. Several relations a pair are lists, without the label of no relation."""
    gold = example["label"]
    if isinstance(label, list) and gold is not None:
        gold = [each for each in example["labels"] if each != negative]
    entities = {
        role: {
            "start": example[role][0],
            "end": example[role][1],
            "text": example["text"][slice(*example[role])],
            **({"label": example[f"{role}_type"]} if example[f"{role}_type"] else {}),
        }
        for role in ("head", "tail")
    }
    known = {"id": example["id"], "text": example["text"], **entities, "gold": gold}
    return {**known, "prediction": label, "probability": probability}


def _description(config: Any) -> tuple[str, list[str]]:
    """A description of the model, and the tag of its attention."""
    if hasattr(config, "features"):
        if "att" not in config.features:
            return "an encoder whose hidden states of both entities are the features.", []
        beside = " beside their hidden states" if "emb" in config.features else ""
        return (
            f"an encoder whose attention between them, in all layers and heads, is a feature{beside}.",
            ["pairwise-attention"],
        )
    if not config.fusion_layers:
        return "an encoder under a classifier, without fusion attention.", []
    if not config.scales:
        return "an encoder with self-attention above it, without phrases: a baseline.", []
    return "an encoder with multi-scale fusion self-attention.", ["multi-scale-attention"]


def _usage(name: str, types: tuple[str, str] | None) -> str:
    if types:  # which markers or the rules for pairs want
        head, tail = types
        text = f"""{{
    "text": "The storm caused heavy damage.",
    "entities": [{{"text": "storm", "label": "{head}"}}, {{"text": "damage", "label": "{tail}"}}],
}}"""
    else:
        text = '"The <e1>storm</e1> caused heavy <e2>damage</e2>."'
    return f'''extract = pipeline("relation-extraction", model="{name}", trust_remote_code=True)
extract({text})'''
