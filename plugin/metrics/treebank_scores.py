"""The scores of a parser on a treebank: trees, tags, the shape of trees, and each file of several apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from datasets import Dataset

from msattn.data.files.conllu_lines import tag_columns
from msattn.data.inputs.word_labels import tag_words
from msattn.metrics.parsing import Tree, broken_trees, nonprojective, score_trees
from msattn.metrics.tag_scores import score_conll18
from msattn.trees.parses import Parses


def parsed_columns(
    parses: Iterable[Parses], treebank: Dataset, labels: Sequence[str], tags: Mapping[str, Sequence[str]]
) -> list[dict[str, list[Any]]]:
    """
    The columns of CoNLL-U that a parser fills.

    Args:
        parses (`Iterable[Parses]`): One for each sentence.
        treebank (`datasets.Dataset`): The sentences; see [`~msattn.data.treebanks.read_treebank`].
        labels (`Sequence[str]`): The relations in the order of their ids.
        tags (`Mapping[str, Sequence[str]]`): The labels of words in the order of their ids, by column.

    Returns:
        `list[dict[str, list]]`: Of each sentence `heads`, `relations` and the columns in `tags`.
    """
    return [
        {
            "heads": parse.heads.tolist(),
            "relations": [labels[relation] for relation in parse.relations],
            **tag_words(tags, parse.tags, words),
        }
        for parse, words in zip(parses, treebank["words"][:], strict=True)
    ]


def score_treebank(
    parses: Sequence[Parses], treebank: Dataset, labels: Sequence[str], tags: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """
    The scores of parses, in percent. The arguments are those of [`parsed_columns`].

    Returns:
        `dict[str, float]`: The share of non-projective trees, and of sentences whose greedy heads have a cycle or not
        exactly one root. With gold trees, also the scores of [`score_trees`] and the share of gold trees that are
        non-projective; of several files, also the UAS and LAS of each, such as `en_ewt-ud-dev_uas`. With gold tags,
        those of [`score_conll18`].
    """
    columns = parsed_columns(parses, treebank, labels, tags)
    predicted: list[Tree] = [(sentence["heads"], sentence["relations"]) for sentence in columns]
    greedy = broken_trees([parse.greedy.tolist() for parse in parses])
    scores = {"nonprojective": nonprojective([heads for heads, _ in predicted])}
    scores |= {f"greedy_{name}": share for name, share in greedy.items()}
    has_trees = "heads" in treebank.column_names
    true: list[Tree] = list(zip(treebank["heads"][:], treebank["relations"][:], strict=True)) if has_trees else []
    if tags:
        gold: list[dict[str, Any]] = [tag_columns(lines, tags) for lines in treebank["lines"][:]]
        for sentence, (heads, relations) in zip(gold, true, strict=False):
            sentence |= {"heads": heads, "relations": relations}
        scores |= score_conll18(columns, gold)
    if not has_trees:
        return scores
    if whole := [heads for heads, _ in true if min(heads) >= 0]:
        scores["true_nonprojective"] = nonprojective(whole)
    files = rows_by_file(treebank["where"][:])
    for name, rows in files.items() if len(files) > 1 else ():
        if any(head >= 0 for row in rows for head in true[row][0]):
            of_file = score_trees([predicted[row] for row in rows], [true[row] for row in rows])
            scores |= {f"{name}_{score}": of_file[score] for score in ("uas", "las")}
    return {**score_trees(predicted, true), **scores}


def rows_by_file(places: Iterable[str]) -> dict[str, list[int]]:
    """
    The rows of each treebank, by the name of its file without extensions; a second file of that name gets a number.

    Args:
        places (`Iterable[str]`): `path:line` of each sentence.
    """
    files: dict[str, list[int]] = {}
    for row, where in enumerate(places):
        files.setdefault(where.rpartition(":")[0], []).append(row)
    found: dict[str, list[int]] = {}
    for path, rows in files.items():
        stem = Path(path).name.partition(".")[0]
        names = (stem if number == 1 else f"{stem}_{number}" for number in count(1))
        found[next(name for name in names if name not in found)] = rows
    return found
