"""Scores of tags, alone and together with the tree, as in the evaluation of the CoNLL 2018 shared task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from msattn.metrics.parsing import CONTENT_RELATIONS

# Columns of a sentence: `upos`, `xpos`, `feats` and `lemma` as in CoNLL-U, `heads` and `relations`, or some of them.
Columns = Mapping[str, Sequence[Any]]

FUNCTIONAL_RELATIONS = frozenset("aux cop mark det clf case cc".split())
UNIVERSAL_FEATURES = frozenset(
    "PronType NumType Poss Reflex Foreign Abbr Gender Animacy Number Case Definite Degree VerbForm Mood Tense Aspect "
    "Voice Evident Polarity Person Polite".split()
)
EMPTY = "_"
TAGS = ("upos", "xpos", "feats", "lemma")
# What has to be right for each score. Those with heads are F1 over the words with a content relation.
SCORES = {
    "upos": ("upos",),
    "xpos": ("xpos",),
    "ufeats": ("feats",),
    "alltags": ("upos", "xpos", "feats"),
    "lemmas": ("lemma",),
    "mlas": ("heads", "relations", "upos", "feats", "functional"),
    "blex": ("heads", "relations", "lemma"),
}


def score_conll18(predictions: Sequence[Columns], references: Sequence[Columns]) -> dict[str, float]:
    """
    Scores of tags over given words, as in the evaluation of the CoNLL 2018 shared task.

    Relation subtypes are ignored. A score is left out if a prediction lacks one of its columns, or if one is empty
    throughout the references.

    Args:
        predictions (`Sequence[Columns]`):
            Of each sentence some of the columns `upos`, `xpos`, `feats` and `lemma`; for `mlas` and `blex` also
            `heads` (from 1; 0 for the root) and `relations`.
        references (`Sequence[Columns]`):
            The gold columns. `mlas` and `blex` leave out words with a head below 0 or the relation `_`.

    Returns:
        `dict[str, float]`: The scores, in percent:

        - `upos`, `xpos`: words with the correct tag.
        - `ufeats`: words with the correct universal features (`UNIVERSAL_FEATURES`).
        - `alltags`: words for which all three are correct.
        - `lemmas`: words with the correct lemma. A word without a gold lemma (`_`) counts as correct.
        - `mlas`: F1 over the words with a content relation. Head, relation, UPOS and universal features have to be
          correct, and those of the functional dependents (`FUNCTIONAL_RELATIONS`), too.
        - `blex`: F1 over the same words. Head, relation and lemma have to be correct.
    """
    given = set.intersection(*(set(sentence) for sentence in (*predictions, *references)))
    empty = {name for name in TAGS if name in given and all(cell == EMPTY for row in references for cell in row[name])}
    names = [name for name, columns in SCORES.items() if given - empty >= {*columns} - {"functional"}]
    correct: dict[str, list[bool]] = {name: [] for name in names}
    content: list[tuple[bool, bool]] = []  # whether a word has a content relation, in the prediction and in truth
    for predicted, true in zip(predictions, references, strict=True):
        mine, gold = _comparable(predicted, true), _comparable(true, true)
        for name in names:
            columns = SCORES[name]
            correct[name] += [
                one == other for one, other in zip(_rows(mine, columns), _rows(gold, columns), strict=True)
            ]
        if {"heads", "relations"} <= given:
            content += [
                (head >= 0 and other != EMPTY and one in CONTENT_RELATIONS, head >= 0 and other in CONTENT_RELATIONS)
                for head, one, other in zip(gold["heads"], mine["relations"], gold["relations"], strict=True)
            ]
    of_content = np.array(content).reshape(-1, 2)
    scores = {}
    for name in names:
        right = np.array(correct[name])
        if "heads" in SCORES[name]:
            scores[name] = 2 * (right & of_content[:, 1]).sum() / max(1, of_content.sum())
        else:
            scores[name] = right.mean()
    return {name: 100 * float(score) for name, score in scores.items()}


def _rows(sentence: Columns, names: Sequence[str]) -> Iterator[tuple]:
    return zip(*(sentence[name] for name in names), strict=True)


def _comparable(sentence: Columns, true: Columns) -> Columns:
    """The columns without what is not compared, and the functional dependents of each word."""
    columns = dict(sentence)
    if "feats" in columns:
        columns["feats"] = [
            sorted(feature for feature in cell.split("|") if feature.partition("=")[0] in UNIVERSAL_FEATURES)
            for cell in columns["feats"]
        ]
    if "lemma" in columns and "lemma" in true:
        pairs = zip(columns["lemma"], true["lemma"], strict=True)
        columns["lemma"] = [EMPTY if of_true == EMPTY else lemma for lemma, of_true in pairs]
    if "relations" in columns:
        columns["relations"] = [name.partition(":")[0] for name in columns["relations"]]
    if {"heads", "relations", "upos", "feats"} <= columns.keys() & true.keys():
        columns["functional"] = [[] for _ in columns["heads"]]
        for number, (head, relation, *tags) in enumerate(_rows(columns, ("heads", "relations", "upos", "feats"))):
            known = true["heads"][number] >= 0 and true["relations"][number] != EMPTY
            if head > 0 and known and relation in FUNCTIONAL_RELATIONS:
                columns["functional"][head - 1].append((number, relation, *tags))
    return columns
