"""Scores and predictions of `run_re.py`, as the pipeline answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from datasets import Dataset
from transformers import EvalPrediction
from transformers.utils import logging

from msattn.data.negatives import DRAWN, random_pairs
from msattn.data.pair_rules import PairRules
from msattn.data.relations import lists_all_pairs
from msattn.metrics.calibration import fit_relation_answers
from msattn.metrics.multi_label import multi_label_report
from msattn.metrics.relation_reports import RelationAnswers, relation_report

logger = logging.get_logger(__name__)

# The logit of a certain answer: that of pairs that the pipeline does not ask for.
SURE = 30.0


def trained_pairs(rows: Dataset, encoded: Dataset, negative: str | None) -> dict[str, Any]:
    """
    What training saw, as the pipeline then takes it by default.

    Args:
        rows (`datasets.Dataset`): The training examples.
        encoded (`datasets.Dataset`): The same, with `input_ids`.
        negative (`str` or `None`): The label that stands for no relation.

    Returns:
        `dict[str, Any]`: The fields of [`~msattn.data.pair_rules.PairRules`], and `max_length`, the number of tokens
        that covers 99 % of the examples.
    """
    ends = zip(rows["head"], rows["tail"], rows["head_type"], rows["tail_type"], strict=True)
    rules = PairRules.learned(rows["text"], ends, [label != negative for label in rows["label"]])
    lengths = [len(ids) for ids in encoded["input_ids"]]
    return {**asdict(rules), "max_length": int(np.quantile(lengths, 0.99, method="higher"))}


def pipeline_window(
    trained: Mapping[str, Any], asked: int | None, limit: int | None, pairwise: bool
) -> dict[str, Any]:
    """
    The window of the pipeline, in which all pairs of a text are scored.

    Args:
        trained (`Mapping[str, Any]`): What training saw; see [`trained_pairs`].
        asked (`int` or `None`): The `max_length` of the pipeline.
        limit (`int` or `None`): The most tokens.
        pairwise (`bool`): Whether the model reads no markers: then pairs share windows.
    """
    window = trained["max_length"]
    if asked and asked > window:
        logger.warning(
            f"--max_seq_length {asked}: more pairs fit than in the window of the training, {window} tokens, so expect "
            "more wrong relations."
        )
    return {"max_length": asked or min(limit or window, window), "on_overflow": "skip", "shared": pairwise}


class ScoredPairs(NamedTuple):
    """
    The pairs of a split, and what is said of them.

    Args:
        examples (`datasets.Dataset`): The pairs.
        logits (`np.ndarray` of shape `(pairs, labels)`): The outputs of the model.
        references (`np.ndarray` or `None`): The label ids `(pairs,)`, or which labels are right `(pairs, labels)`.
        asked (`np.ndarray` of shape `(pairs,)`): Whether the pipeline asks for each pair; the others have no relation.
        all_pairs (`bool`): Whether these are all pairs of the entities of each text.
    """

    examples: Dataset
    logits: np.ndarray
    references: Any
    asked: np.ndarray
    all_pairs: bool

    def metrics(self, prefix: str, answers: RelationAnswers) -> dict[str, float]:
        """The metrics, if there are labels. Calibration errors are of the pairs that are asked for."""
        if self.references is None:
            return {}
        scores = answers.metrics(EvalPrediction(predictions=self.logits, label_ids=self.references))
        if not self.asked.all():  # the others have no probability
            scores = {name: score for name, score in scores.items() if not name.endswith("ece")}
            if self.asked.any():
                read = answers.metrics(EvalPrediction(self.logits[self.asked], self.references[self.asked]))
                scores |= {name: score for name, score in read.items() if name.endswith("ece")}
        return {f"{prefix}_{name}": score for name, score in scores.items()}

    def fit(self, answers: RelationAnswers) -> dict[str, Any]:
        """The fields of [`~msattn.metrics.calibration.fit_relation_answers`], of the pairs that are asked for."""
        asked, unasked = self.references[self.asked], self.references[~self.asked]
        return fit_relation_answers(self.logits[self.asked], asked, answers.labels, answers.negative, unasked)

    def described(self, prefix: str, negative: str | None) -> str:
        """Says which pairs a score is of."""
        count, texts = len(self.examples), len(set(self.examples["text"]))
        if not self.all_pairs:
            drawn = sum(DRAWN in (name or "") for name in self.examples["id"])
            further = f" and {drawn} that --negative_pairs drew" if drawn else ""
            return (
                f"{prefix}: scored on the {count - drawn} pairs that the rows mark{further}. It is no score of all "
                "pairs of the entities of a text, which the pipeline answers."
            )
        none = sum(label == negative for label in self.examples["label"])
        unasked = int((~self.asked).sum())
        return (
            f"{prefix}: scored on all {count} ordered pairs of the entities of {texts} texts; {none} have no "
            f"relation. As in the pipeline, {unasked} of other types, order or distance than in training get none."
        )


def as_in_pipeline(
    rows: Dataset,
    encoded: Dataset,
    logits: np.ndarray,
    trained: Mapping[str, Any] | None,
    answers: RelationAnswers,
) -> ScoredPairs:
    """
    The pairs of a split as the pipeline answers them.

    Where rows are all pairs of the entities of each text, those that the pipeline does not ask for, or whose entities
    do not fit in its window, have no relation. Otherwise the pairs are those that were encoded.

    Args:
        rows (`datasets.Dataset`): The pairs.
        encoded (`datasets.Dataset`): Those that fit, with `row`, their numbers.
        logits (`np.ndarray` of shape `(encoded, labels)`): The outputs of the model.
        trained (`Mapping` or `None`): What training saw; see [`trained_pairs`].
        answers (`RelationAnswers`): Has the labels.
    """
    labels, negative = [*answers.labels], answers.negative
    if not (lists_all_pairs(rows) and (answers.several or negative in labels)):
        references = np.asarray(encoded["labels"]) if "labels" in encoded.column_names else None
        return ScoredPairs(rows.select(encoded["row"]), logits, references, np.ones(len(logits), bool), False)
    rules = PairRules.of(trained)
    ends = zip(rows["head"], rows["tail"], rows["head_type"], rows["tail_type"], strict=True)
    asked = np.array([rules.keeps(text, pair) for text, pair in zip(rows["text"], ends, strict=True)])
    fits = np.isin(np.arange(len(rows)), encoded["row"])
    every = np.full((len(rows), len(labels)), -SURE, dtype=logits.dtype)
    if negative in labels:
        every[:, labels.index(str(negative))] = SURE
    read = np.asarray(encoded["row"])
    every[read[asked[read]]] = logits[asked[read]]
    references = None
    if rows[0]["label"] is not None and answers.several:
        references = np.array([[float(label in of_pair) for label in labels] for of_pair in rows["labels"]])
    elif rows[0]["label"] is not None:
        references = np.array([labels.index(label) for label in rows["label"]])
    return ScoredPairs(rows, every, references, asked & fits, True)


def untrained_pairs(data: Mapping[str, Dataset], prefix: str, seed: int) -> Dataset | None:
    """
    Random pairs of other spans, in sentences that are no training data; `None` if no sentence has room for one.

    Args:
        data (`Mapping[str, datasets.Dataset]`): The examples of all splits.
        prefix (`str`): The split whose sentences are read.
        seed (`int`): The random seed of the pairs.
    """
    trained = set(data["train"]["text"]) if "train" in data else set()
    rows = [row for row, text in enumerate(data[prefix]["text"]) if text not in trained]
    return random_pairs(data[prefix].select(rows), seed)


def write_relation_predictions(folder: str, prefix: str, pairs: ScoredPairs, answers: RelationAnswers) -> None:
    """
    Writes `<prefix>_predictions.tsv` and `.jsonl`; with labels, also writes `<prefix>_report.txt`, whose first line
    says which pairs are scored, and prints it. The probability of a pair that is not asked for is `null`.

    Args:
        folder (`str`): The folder.
        prefix (`str`): The prefix of the split, such as `"test"`.
        pairs (`ScoredPairs`): The examples and the outputs of the model.
        answers (`RelationAnswers`): Turns these into answers.
    """
    examples, labels, negative, several = pairs.examples, answers.labels, answers.negative, answers.several
    probabilities = answers.probabilities(pairs.logits)
    given = answers.names(answers.chosen(probabilities))
    lines, rows = [], []
    for example, answer, row, asked in zip(examples, given, probabilities, pairs.asked, strict=True):
        of = {label: round(float(row[labels.index(label)]), 6) for label in (answer if several else [answer])}
        lines += [f"{example['id']}\t{label}\n" for label in of or [negative or ""]]
        probability = [*of.values()] if several else of[answer]
        rows.append(_predicted(example, answer, probability if asked else None, negative))
    Path(folder, f"{prefix}_predictions.tsv").write_text("".join(lines), encoding="utf-8")
    with open(Path(folder, f"{prefix}_predictions.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if examples[0]["label"] is None:
        return
    references = [row["gold"] for row in rows]
    if several:
        report = multi_label_report(given, references, labels)
    else:
        report = relation_report(given, references, labels, negative)
    scored = pairs.described(prefix, negative)
    Path(folder, f"{prefix}_report.txt").write_text(f"{scored}\n\n{report}", encoding="utf-8")
    print(f"{scored}\n{report}")


def _predicted(example: Mapping[str, Any], label: Any, probability: Any, negative: str | None) -> dict[str, Any]:
    """A line of the file of predictions. Several relations a pair are lists, without the label of no relation."""
    gold = example["label"]
    if isinstance(label, list) and gold is not None:
        gold = [each for each in example["labels"] if each != negative]
    entities = {
        role: {
            "start": example[role][0],
            "end": example[role][1],
            "text": example["text"][slice(*example[role])],
            **({"label": example[f"{role}_type"]} if example[f"{role}_type"] else {}),
        }
        for role in ("head", "tail")
    }
    known = {"id": example["id"], "text": example["text"], **entities, "gold": gold}
    return {**known, "prediction": label, "probability": probability}
