"""The splits of `run_re.py`: whole texts are held out, and pairs without a relation are drawn."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

from datasets import Dataset
from transformers import PreTrainedConfig, TrainingArguments
from transformers.utils import logging

from msattn.data.negative_label import find_negative_label
from msattn.data.negatives import Negatives, capped, with_entity_pairs
from msattn.data.relations import labels_in, lists_all_pairs, lists_entities, read_relations, to_relations
from msattn.errors import UserError
from msattn.training.relation_labels import (
    NO_RELATION,
    choose_negative,
    pairs_without_relation,
    read_labels,
    stored_labels,
)
from msattn.training.splits import (
    held_out,
    hold_out_and_limit,
    load_hub_dataset,
    read_splits,
    warn_of_labels,
    warn_of_repeats,
)

logger = logging.get_logger(__name__)


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
    needed = data_args.negative_pairs
    if needed is None and getattr(config, "negative_label", None) != "":
        needed = any(lists_entities(rows) and not lists_all_pairs(rows) for rows in found.values())
    if needed and drawn is None and data_args.label_file and data_args.negative_label != "":
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
    warn_of_labels({prefix: labels_in(rows) for prefix, rows in splits.items()}, labels)
    return splits, labels, negative, types


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
            labels = labels or stored_labels(config)
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


def with_drawn_pairs(rows: Dataset, negatives: Negatives | None) -> Dataset:
    """
    The rows of a split with the pairs that `--negative_pairs` draws, if they mark pairs and have labels.

    Splits draw for themselves, as pairs join texts.

    Args:
        rows (`datasets.Dataset`): The rows.
        negatives (`Negatives`, *optional*): The number of pairs.
    """
    if not negatives or not negatives.pairs or lists_entities(rows) or rows[0]["label"] is None:
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


def without_labels(rows: Dataset) -> Dataset:
    """The same rows as those of unlabelled data."""
    empty: dict[str, Any] = {"label": None, **({"labels": []} if "labels" in rows.column_names else {})}
    return rows.map(lambda _: empty, features=rows.features)
