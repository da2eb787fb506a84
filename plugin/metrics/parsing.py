"""Attachment scores of dependency trees (CoNLL 2018 shared task), and the shape of trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msattn.errors import UserError
from msattn.trees.tree_decoding import NO_WORD, are_trees, has_crossing_arcs

# The heads of a sentence's words, from 1 (0 for the root, below 0 if unknown), and their relations.
Tree = tuple[Sequence[int], Sequence[str]]

# Relations that count for CLAS, the content-word labelled attachment score of the shared task.
CONTENT_RELATIONS = frozenset(
    "nsubj obj iobj csubj ccomp xcomp obl vocative expl dislocated advcl advmod discourse nmod appos nummod acl amod "
    "conj fixed flat compound list parataxis orphan goeswith reparandum root dep".split()
)
PUNCTUATION = "punct"
# A relation that is not known.
UNNAMED = "_"


def score_trees(predictions: Sequence[Tree], references: Sequence[Tree]) -> dict[str, float]:
    """
    Attachment scores of trees over given words, as in the evaluation of the CoNLL 2018 shared task.

    All words count whose gold head is known, punctuation included; in scores of relations, those whose gold relation
    is known, too, which is not `_`. Relation subtypes are ignored: `acl:relcl` is scored as `acl`.

    Args:
        predictions (`Sequence[Tree]`): The predicted heads (from 1; 0 for the root) and relations of each sentence.
        references (`Sequence[Tree]`): The gold heads, below 0 if unknown, and relations, `_` if unknown.

    Returns:
        `dict[str, float]`: The scores, in percent; 0 without a word that counts:

        - `uas` (unlabelled attachment score): words with the correct head.
        - `las` (labelled attachment score): words with the correct head and relation.
        - `clas`: labelled F1 over the words with a content relation (`CONTENT_RELATIONS`).
        - `label_accuracy`: words with the correct relation.
        - `root_accuracy`: sentences with the correct root dependents, of those whose root is known.
        - `las_subtypes`: as `las`, with subtypes such as `acl:relcl`.
        - `uas_no_punct`, `las_no_punct`, `label_accuracy_no_punct`: without words whose gold relation is `punct`.

    Raises:
        UserError: No word has a known head, or predictions and references differ in the number of sentences or words.
    """
    _check(predictions, references)
    known = np.concatenate([np.asarray(tree[0]) for tree in references]) >= 0
    heads, true_heads = (
        np.concatenate([np.asarray(tree[0]) for tree in trees])[known] for trees in (predictions, references)
    )
    whole, true_whole = (
        np.array([name for _, names in trees for name in names])[known] for trees in (predictions, references)
    )
    rooted = [
        (np.asarray(a[0]) == 0, np.asarray(b[0]) == 0)
        for a, b in zip(predictions, references, strict=True)
        if 0 in b[0] or not len(b[0])
    ]
    relations, true_relations = (np.char.partition(names, ":")[:, 0] for names in (whole, true_whole))
    same_head, same_relation = heads == true_heads, relations == true_relations
    correct = same_head & same_relation
    content, true_content = (np.isin(names, [*CONTENT_RELATIONS]) for names in (relations, true_relations))
    named = true_relations != UNNAMED
    words = true_relations != PUNCTUATION
    scores = {
        "uas": same_head.mean(),
        "las": _share(correct, named),
        "clas": 2 * (correct & true_content).sum() / max(1, (content & named).sum() + true_content.sum()),
        "label_accuracy": _share(same_relation, named),
        "root_accuracy": np.mean([np.array_equal(root, true) for root, true in rooted]) if rooted else 0.0,
        "las_subtypes": _share(same_head & (whole == true_whole), named),
        "uas_no_punct": _share(same_head, words),
        "las_no_punct": _share(correct, named & words),
        "label_accuracy_no_punct": _share(same_relation, named & words),
    }
    return {name: 100 * float(score) for name, score in scores.items()}


def _share(hits: np.ndarray, counted: np.ndarray) -> float:
    """The share of hits among what is counted; 0 if nothing is."""
    return hits[counted].mean() if counted.any() else 0.0


def nonprojective(sentences: Sequence[Sequence[int]]) -> float:
    """The percentage of sentences whose arcs cross, including the arc from the root (0; other heads are from 1)."""
    return 100 * float(np.mean([has_crossing_arcs(sentence) for sentence in sentences]))


def broken_trees(sentences: Sequence[Sequence[int]]) -> dict[str, float]:
    """
    What keeps the heads of sentences from being trees.

    Args:
        sentences (`Sequence[Sequence[int]]`): The heads of each sentence, from 1; 0 for the root.

    Returns:
        `dict[str, float]`: Percentages of sentences: `cyclic` (some words do not lead to the root) and `several_roots`
        (not exactly one root dependent).
    """
    lengths = np.array([len(sentence) for sentence in sentences])
    heads = np.full((len(sentences), lengths.max()), NO_WORD)
    heads[np.arange(lengths.max()) < lengths[:, None]] = np.concatenate(sentences)
    broken = {"cyclic": ~are_trees(heads, single_root=False), "several_roots": (heads == 0).sum(axis=1) != 1}
    return {name: 100 * float(np.mean(found)) for name, found in broken.items()}


def _check(predictions: Sequence[Tree], references: Sequence[Tree]) -> None:
    if len(predictions) != len(references):
        raise UserError(f"there are {len(predictions)} predicted trees for {len(references)} true ones.")
    for number, (predicted, true) in enumerate(zip(predictions, references, strict=True), start=1):
        sizes = {len(column) for column in (*predicted, *true)}
        if len(sizes) > 1:
            raise UserError(f"sentence {number}: heads and relations, predicted and true, differ in number.")
    if not any(head >= 0 for true in references for head in true[0]):
        raise UserError("there is no word with a known head to score.")
