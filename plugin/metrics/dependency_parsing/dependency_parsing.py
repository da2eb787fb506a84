"""Dependency parsing as an `evaluate` metric."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from msattn.metrics.parsing import score_trees

DESCRIPTION = """
Attachment scores of dependency trees over given words, equal to those of the CoNLL 2018 shared task: all words count,
and relation subtypes such as "acl:relcl" are scored as "acl".
"""

INPUTS = """
Args:
    predictions: one dict per sentence, with "heads" (the index of each word's head, from 1; 0 for the root) and
        "relations".
    references: the gold trees, in the same form. Words whose head is below 0, which is unknown, do not count.
Returns, in percent:
    uas, las: words with the correct head, and with the correct head and relation.
    clas: labelled F1 over the words with a content relation.
    label_accuracy: words with the correct relation.
    root_accuracy: sentences with the correct root dependents, of those whose root is known.
    las_subtypes: as las, with subtypes such as "acl:relcl".
    uas_no_punct, las_no_punct, label_accuracy_no_punct: without words whose gold relation is "punct".
"""

CITATION = """
@inproceedings{zeman-etal-2018-conll,
    title = "{C}o{NLL} 2018 Shared Task: Multilingual Parsing from Raw Text to {U}niversal {D}ependencies",
    author = "Zeman, Daniel and Haji{\\v{c}}, Jan and Popel, Martin and Potthast, Martin and Straka, Milan and Ginter,
      Filip and Nivre, Joakim and Petrov, Slav",
    booktitle = "Proceedings of the {C}o{NLL} 2018 Shared Task",
    year = "2018",
}
"""


class DependencyParsing(evaluate.Metric):
    """UAS, LAS, CLAS and related scores of the CoNLL 2018 shared task; see [`~msattn.metrics.parsing.score_trees`]."""

    def _info(self) -> evaluate.MetricInfo:
        tree = {
            "heads": datasets.Sequence(datasets.Value("int32")),
            "relations": datasets.Sequence(datasets.Value("string")),
        }
        return evaluate.MetricInfo(
            description=DESCRIPTION,
            citation=CITATION,
            inputs_description=INPUTS,
            features=datasets.Features({"predictions": tree, "references": tree}),
            reference_urls=["https://aclanthology.org/K18-2001/"],
        )

    def _compute(self, predictions: list[dict[str, Any]], references: list[dict[str, Any]]) -> dict[str, float]:
        return score_trees(
            *([(tree["heads"], tree["relations"]) for tree in trees] for trees in (predictions, references))
        )
