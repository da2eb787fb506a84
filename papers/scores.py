"""
Scores of each example: what `repeat.py` keeps of its runs, and the metrics that `verdict.py` computes from them.

The file is a CSV table, gzipped: a row an example (data, number and true answer), a column a run ("SETTING FRACTION
seed N"). A cell is the answer of the run: a label or a number; for trees the right heads and relations of a sentence
("9/8", the true answer is its number of words), for tags the right tags of a sentence.

A metric is a function of sums over examples, so that leaving out one example is a subtraction.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Mapping
from itertools import compress, islice
from pathlib import Path
from typing import Any

import numpy as np

from msattn.data.files.conllu import conllu_sentences
from msattn.data.files.text_lines import text_lines
from msattn.training.terminal import NO_SCORES

Counts = Callable[[list[str], list[str]], np.ndarray]
Score = Callable[[np.ndarray], np.ndarray]


def in_percent(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results of a run with scores in percent. Before 0.3, some scripts wrote shares of 1, and none its unit."""
    named = [name for name in results if name.startswith(("eval_", "dev_", "test_")) and not name.endswith(NO_SCORES)]
    scores = {name: results[name] for name in named if isinstance(results[name], (int, float))}
    shares = "unit" not in results and all(abs(score) <= 1 for score in scores.values())
    return {**results, **{name: 100 * score for name, score in scores.items()}} if shares else dict(results)


def answers_of(folder: Path, arguments: dict[str, Any]) -> tuple[str, list[tuple[str, str]]] | None:
    """The data of a finished run that were scored last, and the true and given answer of each example."""
    for prefix, key in (("test", "test_file"), ("dev", "validation_file"), ("eval", "validation_file")):
        data = str(arguments.get(key) or arguments.get("task_name") or prefix)
        if (path := folder / f"{prefix}_predictions.jsonl").exists():
            # Texts hold characters, such as U+0085, at which `splitlines` cuts.
            lines = map(json.loads, path.read_text(encoding="utf-8").strip().split("\n"))
            return Path(data).name, [(str(line["gold"]), str(line["prediction"])) for line in lines]
        if (path := folder / f"{prefix}_predictions.conll").exists():
            sentences = path.read_text(encoding="utf-8").strip().split("\n\n")
            rows = [[line.split("\t")[-2:] for line in one.split("\n")] for one in sentences]
            return Path(data).name, [(str(len(row)), str(sum(a == b for a, b in row))) for row in rows]
        if (path := folder / f"{prefix}_predictions.conllu").exists() and arguments.get(key):
            limit = arguments.get("max_predict_samples" if prefix == "test" else "max_eval_samples")
            return Path(data).name, right_arcs(path, Path(data), limit)
    return None


def right_arcs(predicted: Path, gold: Path, limit: int | None = None) -> list[tuple[str, str]]:
    """Words of each sentence, and how many have the right head, and head and relation; of the first `limit` ones."""
    found = []
    own, true = (conllu_sentences(text_lines(path, newline="")) for path in (predicted, gold))
    files = [*own], [*islice(true, limit)]
    if len(files[0]) != len(files[1]):
        raise ValueError(f"{predicted}: {len(files[0])} sentences, and {len(files[1])} in {gold}")
    for sentences in zip(*files, strict=True):
        trees = [[(t.cells["head"], t.cells["deprel"]) for t in one.tokens if not t.end] for one in sentences]
        if sentences[0].words != sentences[1].words:
            raise ValueError(f"{sentences[0].where}: not the sentence of {sentences[1].where}")
        heads = sum(a[0] == b[0] for a, b in zip(*trees, strict=True))
        found.append((str(len(trees[1])), f"{heads}/{sum(a == b for a, b in zip(*trees, strict=True))}"))
    return found


def write_scores(path: Path, runs: Iterable[tuple[str, str, list[tuple[str, str]]]]) -> None:
    """Writes the answers of runs, each with its name and data. The bytes depend on nothing else."""
    rows: dict[tuple[str, int, str], dict[str, str]] = {}
    names = []
    for name, data, answers in runs:
        names.append(name)
        for number, (true, given) in enumerate(answers):
            rows.setdefault((data, number, true), {})[name] = given
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["data", "example", "gold", *names])
    table.writerows([*key, *(found.get(name, "") for name in names)] for key, found in rows.items())
    path.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))


def read_scores(path: Path) -> dict[str, tuple[list[str], list[str]]]:
    """The true answers and those given, by the name of the run."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    _, _, gold, *columns = zip(*rows, strict=True)
    pairs = zip(header[3:], columns, strict=True)
    return {name: ([*compress(gold, column)], [*filter(None, column)]) for name, column in pairs}


def _labels(gold: list[str], given: list[str]) -> np.ndarray:
    """True positives, answers and references of each label, `(examples, 3, labels)`; SemEval's directions are one."""
    kind_of = {label: label.split("(")[0] for label in {*gold, *given}}
    kinds = sorted({*kind_of.values()} - {"Other"})
    row_of = {kind: row for row, kind in enumerate([*kinds, "Other"])}
    rows = np.eye(len(kinds) + 1, len(kinds))
    answers, references = (rows[[row_of[kind_of[label]] for label in labels]] for labels in (given, gold))
    right = np.array(gold) == np.array(given)
    return np.stack([references * right[:, None], answers, references], axis=1)


def _macro_f1(sums: np.ndarray) -> np.ndarray:
    right, answers, references = np.moveaxis(sums, -2, 0)
    return (200 * right / np.maximum(answers + references, 1)).mean(axis=-1)


def _share(gold: list[str], given: list[str]) -> np.ndarray:
    return np.array([(one == other, 1) for one, other in zip(gold, given, strict=True)], dtype=float)


def _words(place: int) -> Counts:
    return lambda gold, given: np.array(
        [(int(cell.split("/")[place]), int(words)) for words, cell in zip(gold, given, strict=True)], dtype=float
    )


def _binary(gold: list[str], given: list[str]) -> np.ndarray:
    """Moments of two columns of numbers; classes are numbered in alphabetical order."""
    try:
        columns = np.array([gold, given], dtype=float)
    except ValueError:
        order = sorted({*gold, *given})
        columns = np.array([[order.index(label) for label in labels] for labels in (gold, given)], dtype=float)
    x, y = columns
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def _correlation(sums: np.ndarray) -> np.ndarray:
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    spread = np.sqrt(np.maximum((n * xx - x * x) * (n * yy - y * y), 1e-12))
    return 100 * (n * xy - x * y) / spread


def _ratio(sums: np.ndarray) -> np.ndarray:
    return 100 * sums[..., 0] / sums[..., 1]


# Matthews' correlation is Pearson's of two classes.
METRICS: dict[str, tuple[Counts, Score]] = {
    "accuracy": (_share, _ratio),
    "macro-F1": (_labels, _macro_f1),
    "UAS": (_words(0), _ratio),
    "LAS with subtypes": (_words(1), _ratio),
    "tag accuracy": (_words(0), _ratio),
    "Matthews": (_binary, _correlation),
    "Pearson": (_binary, _correlation),
}


def score(metric: str, gold: list[str], given: list[str]) -> tuple[float, np.ndarray]:
    """The score in percent, and its jackknife pseudo-value of each example."""
    count, function = METRICS[metric]
    counts = count(gold, given)
    sums = counts.sum(axis=0)
    whole, rest = function(sums), function(sums - counts)
    return float(whole), len(gold) * whole - (len(gold) - 1) * rest
