"""Dependency parsing as an `evaluate` metric."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from msattn.metrics.parsing import score_trees

DESCRIPTION = """
Attachment scores of dependency trees over given words, equal to those of the evaluation of the CoNLL 2018 shared task:
every word counts, and of a relation what stands before a colon.
"""

INPUTS = """
Args:
    predictions: a dict a sentence, with "heads", the number of each word's head, 0 for the root, and "relations".
    references: the same of the true trees.
Returns, in percent:
    uas, las: words with the right head, and with the right head and relation.
    clas: F1 of the words whose relation is one between content words.
    label_accuracy: words with the right relation.
    root_accuracy: sentences of which just the right words depend on the root.
    las_subtypes: as las, for whole relations such as "acl:relcl".
    uas_no_punct, las_no_punct, label_accuracy_no_punct: without the words whose true relation is "punct".
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
    """UAS, LAS, CLAS and others of the CoNLL 2018 shared task."""

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
