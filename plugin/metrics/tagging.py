"""Tagging metrics: accuracy of tags, and entity-level precision, recall and F1 as in `conlleval`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msattn.data.inputs.entity_tags import entity_spans
from msattn.errors import extra
from msattn.metrics.report_tables import found_report, label_report

with extra("train"):
    from sklearn.metrics import accuracy_score

Tags = Sequence[Sequence[str]]


def score_tags(*, predictions: Tags, references: Tags, entities: bool) -> dict[str, float]:
    """
    Accuracy over all words and, for entity tags, micro-averaged entity precision, recall and F1.

    Args:
        predictions (`Sequence[Sequence[str]]`): The predicted tags of each sentence.
        references (`Sequence[Sequence[str]]`): The gold tags of each sentence.
        entities (`bool`): Whether the tags mark entities; see [`marks_entities`].

    Returns:
        `dict[str, float]`: `accuracy` and, for entity tags, `precision`, `recall` and `f1`, from 0 to 1.
    """
    scores = {"accuracy": float(accuracy_score([*chain(*references)], [*chain(*predictions)]))}
    if entities:
        true, found = _entities(references), _entities(predictions)
        scores |= zip(("precision", "recall", "f1"), _scores(true, found), strict=True)
    return scores


def tagging_report(*, predictions: Tags, references: Tags, entities: bool) -> str:
    """A table, in percent, of precision, recall and F1 by entity type or by tag; arguments as for [`score_tags`]."""
    if not entities:
        words = [*chain(*references)], [*chain(*predictions)]
        tags = sorted({*words[0], *words[1]})
        return label_report(*words, tags, tags)
    true, found = _entities(references), _entities(predictions)
    kinds = sorted({kind for *_, kind in true | found})
    if not kinds:
        return "there is no entity, neither true nor predicted\n"
    return found_report(true, found, kinds)


def _scores(true: set, found: set) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 where nothing is found, or nothing is there."""
    right = len(true & found)
    return right / max(len(found), 1), right / max(len(true), 1), 2 * right / max(len(true) + len(found), 1)


def _entities(sentences: Tags) -> set[tuple[int, int, int, str]]:
    """The entities: sentence, first word, word behind the last one, type."""
    return {(number, *entity) for number, tags in enumerate(sentences) for entity in entity_spans(tags)}
