"""Labels of relations, and the one that stands for no relation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedConfig
from transformers.utils import logging

from msattn.data.negative_label import find_negative_label
from msattn.data.negatives import Negatives
from msattn.errors import UserError
from msattn.training.checkpoints import checkpoint_labels

logger = logging.get_logger(__name__)

# The label of pairs that --negative_pairs draws.
NO_RELATION = "no_relation"


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


def stored_labels(config: PreTrainedConfig) -> list[str] | None:
    """The labels of a checkpoint and, if its pairs may have several relations, that of pairs without any."""
    labels, negative = checkpoint_labels(config), getattr(config, "negative_label", None)
    return [*labels, negative] if labels and negative and negative not in labels else labels


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


def label_rates(encoded: Dataset) -> torch.Tensor:
    """The share of pairs that have each label, from the column `labels` of 0.0 and 1.0; never 0 or 1."""
    has = np.asarray(encoded["labels"][:])
    return torch.tensor((has.sum(axis=0) + 0.5) / (len(has) + 1))
