"""Tags of words, scored one by one, and the entities that they mark as `conlleval` counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from seqeval.metrics import classification_report as entity_report
from seqeval.metrics import f1_score, precision_score, recall_score
from sklearn.metrics import accuracy_score, classification_report

Tags = Sequence[Sequence[str]]

ENTITY_TAG = re.compile(r"O|[BIESLU]-.+")
# seqeval knows the last word of an entity, and an entity of one word, by these letters only.
BILOU = {"L-": "E-", "U-": "S-"}


def marks_entities(tags: Iterable[str]) -> bool:
    """Whether tags such as `B-location`, `I-location` and `O` mark entities, in IOB, IOBES or BILOU."""
    tags = set(tags) - {"O"}
    return bool(tags) and all(map(ENTITY_TAG.fullmatch, tags))


def score_tags(references: Tags, predictions: Tags, entities: bool) -> dict[str, float]:
    """
    Accuracy over all words, and where tags mark entities the micro-averaged precision, recall and F1 of these.

    Args:
        references (`Sequence[Sequence[str]]`): The true tags of each sentence.
        predictions (`Sequence[Sequence[str]]`): The predicted ones.
        entities (`bool`): See [`marks_entities`].
    """
    scores = {"accuracy": float(accuracy_score([*chain(*references)], [*chain(*predictions)]))}
    if entities:
        sentences = _iobes(references), _iobes(predictions)
        for name, score in (("precision", precision_score), ("recall", recall_score), ("f1", f1_score)):
            scores[name] = float(score(*sentences, zero_division=0))
    return scores


def tagging_report(references: Tags, predictions: Tags, entities: bool) -> str:
    """Precision, recall and F1 of each type of entity or of each tag, as a table."""
    if not entities:
        return classification_report([*chain(*references)], [*chain(*predictions)], digits=4, zero_division=0)
    if not marks_entities(chain(*references, *predictions)):
        return "there is no entity, neither true nor predicted\n"
    return entity_report(_iobes(references), _iobes(predictions), digits=4, zero_division=0)


def _iobes(sentences: Tags) -> list[list[str]]:
    return [[BILOU.get(tag[:2], tag[:2]) + tag[2:] for tag in sentence] for sentence in sentences]
