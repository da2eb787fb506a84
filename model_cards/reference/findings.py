"""What the predictions of a run say of its model: how far the probabilities can be trusted, and where it is wrong."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import pipeline

from msattn.data.ranking import read_ranking
from msattn.data.tagged_words import read_tagged_words
from msattn.data.treebanks import read_treebank
from msattn.metrics.calibration import calibration_gap, expected_calibration_error, fit_temperature
from msattn.metrics.tagging import entity_spans
from msattn.plots.style import markdown_table
from msattn.training.model_card import markdown_text

# Examples and labels that a card lists, and the fewest examples of such a label.
LISTED, FEW = 5, 20
SURE = 0.9
ECE = "Expected calibration error in percent, 15 bins of equal width:"

Files = Mapping[str, str]


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; numbers get two decimals."""
    return markdown_table(columns, [[f"{cell:.2f}" if isinstance(cell, float) else cell for cell in row] for row in rows])


def relations(model: Path, results: Mapping[str, float], files: Files) -> tuple[str, str]:
    config, rows = _json(model / "config.json"), _rows(model / "test_predictions.jsonl")
    threshold = config["decision_threshold"]
    calibration = (
        "The pipeline divides the logits by the temperature "
        f"{config['calibration_temperature']:.3f}"
        + ("" if threshold is None else f" and asks for a probability of {threshold:.3f} for a relation")
        + ", fitted on the part that was held out of the training data.\n\n"
        + _calibrated(results, {"answer": "ece"})
    )
    rate = results.get("test_false_positive_rate")
    if rate is not None:
        calibration += f"\n\nOf random pairs of words that are no entities, {rate:.1f} % get a relation."
    return calibration, _by_label(rows) + _surest(rows, _with_entities)


def parsing(model: Path, results: Mapping[str, float], files: Files) -> tuple[str, str]:
    config = _json(model / "config.json")
    calibration = (
        f"The pipeline decodes by `{config['tree_decoder']}` and divides the scores by the temperature "
        f"{config['calibration_temperature']:.3f}, both chosen on the validation data.\n\n"
        + _calibrated(results, {"head of a word": "ece", "tree": "tree_ece"})
    )
    gold, own = read_treebank(files["test_file"]), read_treebank(model / "test_predictions.conllu")
    rows: list[dict[str, str]] = []
    mistaken: Counter[tuple[str, str]] = Counter()
    for sentence, answer in zip(gold, own, strict=False):  # all but those beyond --max_predict_samples
        arcs = zip(*(each[key] for each in (sentence, answer) for key in ("heads", "relations")), strict=True)
        for head, relation, found, named in arcs:
            rows.append({"gold": relation, "prediction": relation if (head, relation) == (found, named) else ""})
            if head == found and relation != named:
                mistaken[relation, named] += 1
    pairs = [(f"`{right}`", f"`{wrong}`", count) for (right, wrong), count in mistaken.most_common(LISTED)]
    return calibration, (
        _by_label(rows, "relation", "labelled arcs found")
        + "Relations that are mistaken most often where the head is right:\n\n"
        + markdown(["gold", "parsed as", "times"], pairs)
    )


def tagging(model: Path, results: Mapping[str, float], files: Files) -> tuple[str, str]:
    data = read_tagged_words(files["test_file"])
    found = read_tagged_words(model / "test_predictions.conll", word_column="1", tag_column="3")["tags"]
    tag = pipeline("token-classification", model=str(model), aggregation_strategy="first")
    scores: list[float] = []
    right: list[bool] = []
    rows: list[dict[str, str]] = []
    wrong: list[str] = []
    for words, gold, own in zip(data["words"], data["tags"], found, strict=False):
        starts = np.cumsum([0, *(len(word) + 1 for word in words)])
        truth = {(starts[a], starts[b] - 1, kind) for a, b, kind in entity_spans(gold)}
        for entity in tag(" ".join(words)):
            scores.append(float(entity["score"]))
            right.append((entity["start"], entity["end"], entity["entity_group"]) in truth)
        gold, own = ({(kind, " ".join(words[a:b])) for a, b, kind in entity_spans(tags)} for tags in (gold, own))
        rows += [{"gold": kind, "prediction": kind if (kind, text) in own else ""} for kind, text in gold]
        if gold != own and len(wrong) < LISTED:
            wrong.append(f"- {markdown_text(' '.join(words))}: {_entities(gold)}; tagged {_entities(own)}")
    sure = [good for score, good in zip(scores, right, strict=True) if score >= SURE]
    calibration = (
        f"The pipeline of Transformers applies no temperature. It finds {len(right)} entities in the test data, of "
        f"which {sum(right)} are right, and {sum(sure)} of the {len(sure)} with a score of at least {SURE}. "
    )
    if scores:
        gap = 100 * calibration_gap(np.array(scores), np.array(right))
        calibration += f"The expected calibration error of the scores is {gap:.1f} % (15 bins)."
    found_by_type = _by_label(rows, "type (a name once a sentence)", "entities found")
    return calibration, found_by_type + "The first mistakes of the test data:\n\n" + "\n".join(wrong)


def glue(model: Path, results: Mapping[str, float], files: Files) -> tuple[str, str]:
    data = {path.name.partition("_")[0]: _rows(path) for path in sorted(model.glob("*_predictions.jsonl"))}
    labels = list(_json(model / "config.json")["label2id"])
    arrays = {
        split: (
            np.log(np.clip([[row["probabilities"][label] for label in labels] for row in rows], 1e-7, 1)),
            np.array([labels.index(row["gold"]) for row in rows]),
        )
        for split, rows in data.items()
    }
    temperature = fit_temperature(*arrays["eval"])
    errors = []
    for split, (logits, gold) in arrays.items():
        both = [np.exp(logits / t) / np.exp(logits / t).sum(-1, keepdims=True) for t in (1, temperature)]
        errors.append(("answer", split, *(100 * expected_calibration_error(each, gold) for each in both)))
    calibration = (
        "The pipeline of Transformers applies no temperature. The one with the least negative log-likelihood on "
        f"`eval` is {temperature:.3f}: divide the logits by it.\n\n{ECE}\n\n"
        + markdown(["probability of", "data", "as it is", "with the temperature"], errors)
    )
    rows = data.get("test", data.get("dev", data["eval"]))
    for row in rows:
        row["probability"] = row["probabilities"][row["prediction"]]
    return calibration, _by_label(rows) + _surest(rows, lambda row: _texts(row["text"], row.get("text_pair")))


def ranking(model: Path, results: Mapping[str, float], files: Files) -> tuple[str, str]:
    pairs = read_ranking(files["validation_file"]).pairs
    lines = [line.split() for line in (model / "eval_run.trec").read_text(encoding="utf-8").splitlines()]
    logits = {(line[0], line[2]): float(line[4]) for line in lines}
    by_query = defaultdict(list)
    for row in pairs:
        pair = row["query_id"], row["candidate_id"]
        if pair in logits:  # all but those beyond --max_eval_samples
            by_query[row["query"]].append((logits[pair], row["label"] > 0, row["text"]))
    scored = [each for candidates in by_query.values() for each in candidates]
    probabilities = 1 / (1 + np.exp(-np.array([each[0] for each in scored])))
    relevant = np.array([each[1] for each in scored])
    gap = calibration_gap(probabilities, relevant)
    calibration = (
        "The pipeline of Transformers applies no temperature. The score is the sigmoid of the logit: its mean is "
        f"{100 * probabilities.mean():.2f} %, and {100 * relevant.mean():.2f} % of the candidates are relevant. The "
        f"expected calibration error is {100 * gap:.2f} points (15 bins). It depends on the share of relevant "
        "candidates: use the score for the order."
    )
    wrong = [(query, *max(candidates)[1:], candidates) for query, candidates in by_query.items()]
    listed = [
        f"- {markdown_text(query)}: “{markdown_text(first)}” is ranked above "
        f"“{markdown_text(next(text for _, good, text in sorted(candidates, reverse=True) if good))}”"
        for query, right, first, candidates in wrong
        if not right
    ]
    intro = f"Of {len(by_query)} queries, {len(listed)} have a candidate in front that nobody called a paraphrase:\n\n"
    return calibration, intro + "\n".join(listed[:LISTED])


#: By task: calibration and failures, from the folder of a run, its results and its data files.
FINDINGS: dict[str, Callable[[Path, Mapping[str, float], Files], tuple[str, str]]] = {
    "relations": relations,
    "parsing": parsing,
    "tagging": tagging,
    "glue": glue,
    "ranking": ranking,
}


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _calibrated(results: Mapping[str, float], keys: Mapping[str, str]) -> str:
    """The errors that the run has measured, with and without what was fitted."""
    rows = [
        (what, split, results[f"{split}_uncalibrated_{key}"], results[f"{split}_{key}"])
        for what, key in keys.items()
        for split in ("eval", "dev", "test")
        if f"{split}_{key}" in results
    ]
    return f"{ECE}\n\n" + markdown(["probability of", "data", "uncalibrated", "calibrated"], rows)


def _by_label(rows: Sequence[Mapping[str, Any]], label: str = "label", found: str = "found") -> str:
    """The labels that are found least often."""
    counts = Counter(row["gold"] for row in rows)
    hits = Counter(row["gold"] for row in rows if row["gold"] == row["prediction"])
    worst = sorted((hits[name] / count, name, count) for name, count in counts.items() if count >= FEW)[:LISTED]
    cells = [(f"`{name}`", count, f"{100 * share:.1f} %") for share, name, count in worst]
    listed = markdown([label, "in the data", found], cells)
    return f"The hardest with at least {FEW} examples:\n\n{listed}\n\n"


def _surest(rows: Sequence[Mapping[str, Any]], text: Callable[[Mapping[str, Any]], str]) -> str:
    """The mistakes with the highest probabilities."""
    wrong = [row for row in rows if row["gold"] != row["prediction"] and row["probability"] is not None]
    wrong.sort(key=lambda row: -row["probability"])
    return "The most confident mistakes:\n\n" + "\n".join(
        f"- {text(row)}: `{row['gold']}`, answered `{row['prediction']}` ({row['probability']:.3f})"
        for row in wrong[:LISTED]
    )


def _with_entities(row: Mapping[str, Any]) -> str:
    text = row["text"]
    for role in sorted(("head", "tail"), key=lambda role: -row[role]["start"]):
        start, end = row[role]["start"], row[role]["end"]
        text = f"{text[:start]}[{text[start:end]}]{text[end:]}"
    return markdown_text(text)


def _texts(*texts: str | None) -> str:
    return " → ".join(f"“{markdown_text(text)}”" for text in texts if text is not None)


def _entities(found: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{markdown_text(text)} (`{kind}`)" for kind, text in sorted(found)) or "no entity"
