"""Tagging metrics: accuracy of tags, and entity-level precision, recall and F1 as in `conlleval`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from types import ModuleType

from msattn.errors import extra

with extra("train"):
    from sklearn.metrics import accuracy_score, classification_report

Tags = Sequence[Sequence[str]]

ENTITY_TAG = re.compile(r"O|[BIESLU]-.+")
# seqeval supports IOBES, but not BILOU.
BILOU = {"L-": "E-", "U-": "S-"}


def marks_entities(tags: Iterable[str]) -> bool:
    """Whether tags such as `B-location` and `O` mark entities in IOB, IOBES or BILOU, and not parts of speech."""
    tags = set(tags) - {"O"}
    return bool(tags) and all(map(ENTITY_TAG.fullmatch, tags))


def entity_scorer() -> ModuleType:
    """
    The metrics of the package seqeval.

    Raises:
        ImportError: The package is not installed.
    """
    with extra("tagging"):
        from seqeval import metrics
    return metrics


def score_tags(references: Tags, predictions: Tags, entities: bool) -> dict[str, float]:
    """
    Accuracy over all words and, for entity tags, micro-averaged entity precision, recall and F1.

    Args:
        references (`Sequence[Sequence[str]]`): The gold tags of each sentence.
        predictions (`Sequence[Sequence[str]]`): The predicted tags of each sentence.
        entities (`bool`): Whether the tags mark entities; see [`marks_entities`].

    Returns:
        `dict[str, float]`: `accuracy` and, for entity tags, `precision`, `recall` and `f1`, from 0 to 1.
    """
    scores = {"accuracy": float(accuracy_score([*chain(*references)], [*chain(*predictions)]))}
    if entities:
        scorer = entity_scorer()
        sentences = _iobes(references), _iobes(predictions)
        for name in ("precision", "recall", "f1"):
            scores[name] = float(getattr(scorer, f"{name}_score")(*sentences, zero_division=0))
    return scores


def tagging_report(references: Tags, predictions: Tags, entities: bool) -> str:
    """A text table of precision, recall and F1 by entity type or by tag; arguments as for [`score_tags`]."""
    if not entities:
        return classification_report([*chain(*references)], [*chain(*predictions)], digits=4, zero_division=0)
    if not marks_entities(chain(*references, *predictions)):
        return "there is no entity, neither true nor predicted\n"
    return entity_scorer().classification_report(_iobes(references), _iobes(predictions), digits=4, zero_division=0)


def _iobes(sentences: Tags) -> list[list[str]]:
    return [[BILOU.get(tag[:2], tag[:2]) + tag[2:] for tag in sentence] for sentence in sentences]
