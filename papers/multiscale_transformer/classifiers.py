"""
What the accuracy of a classifier costs: accuracy on MTL-16 over the time of a text and the size, in one picture.

Checkpoints that `papers/repeat.py mtl16.yaml` trained, in torch and in 8-bit ONNX, stand beside TF-IDF with logistic
regression, which is trained here. A text is timed from its letters to its class, alone, each model in its turn.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import sys
from collections.abc import Callable
from contextlib import suppress
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd
import torch

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from bench_multiscale import describe, take_turns
from bench_onnx import load, parse_on_cpu
from mtl16 import MTL16_DOMAINS, read_mtl16
from tfidf import baseline

from msattn import UserError, onnx
from msattn.plots.style import COLORS, MARKERS, drawing, markdown_table, tidy

LINEAR = "TF-IDF"
INT8 = ", int8"
Classify = Callable[[str], int]


class Classifier(NamedTuple):
    """A trained classifier of texts: its name, the class of a text, and its size in MB."""

    name: str
    classify: Classify
    megabytes: float


def linear(data: dict[str, Any]) -> Classifier:
    model = baseline(["sentence"], 5).fit(data["train"].to_pandas()[["sentence"]], data["train"]["label"])
    best = model.best_estimator_
    size = len(pickle.dumps(best)) / 1e6
    return Classifier(LINEAR, lambda text: int(best.predict(pd.DataFrame({"sentence": [text]}))[0]), size)


def neural(name: str, folder: Path, exported: Path, threads: int) -> list[Classifier]:
    """A checkpoint in torch and, if it can be exported, in 8-bit ONNX."""
    model, tokenizer = load(str(folder))

    def answering(own: Any) -> Classify:
        @torch.inference_mode()
        def classify(text: str) -> int:
            inputs = tokenizer([text], return_tensors="pt", truncation=True)
            return int(own(**inputs).logits.argmax())

        return classify

    found = [Classifier(name, answering(model), megabytes(folder))]
    with suppress(UserError):  # BiLSTMs
        onnx.export(model, tokenizer, exported, int8=True)
        found.append(Classifier(name + INT8, answering(onnx.load(exported, threads)), megabytes(exported)))
    return found


def megabytes(folder: Path) -> float:
    return next(folder.glob("model.*")).stat().st_size / 1e6


def points(domain: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy over the seeds, milliseconds of a text and megabytes of each classifier."""
    data = read_mtl16(arguments.mtl16_dir, domain)
    texts, labels = data["test"]["sentence"][:], data["test"]["label"][:]
    accuracies: dict[str, list[float]] = {}
    timed: dict[str, Classifier] = {}
    with TemporaryDirectory() as exports:
        classifiers = [linear(data)]
        for name, pattern in arguments.model:
            folders = [Path(file).parent for file in sorted(glob(f"{pattern.format(domain=domain)}/config.json"))]
            if not folders:
                raise SystemExit(f"error: there is no checkpoint in {pattern.format(domain=domain)}.")
            for folder in folders:
                classifiers += neural(name, folder, Path(exports) / str(len(classifiers)), arguments.threads)
        for one in classifiers:
            right = [one.classify(text) == label for text, label in zip(texts, labels, strict=True)]
            accuracies.setdefault(one.name, []).append(100 * statistics.fmean(right))
            timed.setdefault(one.name, one)  # of the first seed

        def step(one: Classifier) -> Callable[[], object]:
            return lambda: [one.classify(text) for text in texts[: arguments.texts]]

        turns = take_turns([step(one) for one in timed.values()], arguments, domain)
    return [
        {
            "name": one.name,
            "accuracies": accuracies[one.name],
            "ms": 1000 * statistics.median(seconds) / min(arguments.texts, len(texts)),
            "megabytes": one.megabytes,
        }
        for one, seconds in zip(timed.values(), turns, strict=True)
    ]


def plot(found: dict[str, list[dict[str, Any]]], path: str) -> None:
    """A panel for each domain. The area of a mark grows with the size; 8-bit models are hollow."""
    from matplotlib.ticker import LogLocator, NullFormatter

    with drawing(path, (1 + 3.5 * len(found), 4)) as figure:
        for axes, (domain, rows) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
            families = list(dict.fromkeys(row["name"].removesuffix(INT8) for row in rows))
            for row in rows:
                number, (mean, deviation) = families.index(row["name"].removesuffix(INT8)), spread(row)
                color = COLORS[number]
                axes.errorbar(row["ms"], mean, deviation, color=color, linewidth=1)
                axes.scatter(
                    row["ms"],
                    mean,
                    s=30 + 3 * row["megabytes"],
                    marker=MARKERS[number],
                    color="white" if row["name"].endswith(INT8) else color,
                    edgecolor=color,
                    alpha=0.8,
                    zorder=3,
                    label=f"{row['name']}: {sizes(found, row['name'])} MB",
                )
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(domain)
            tidy(axes, "milliseconds of a text", "")
            axes.margins(0.15)
        figure.axes[0].set_ylabel("accuracy (test), mean ± standard deviation")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        entries = handles[1:] + handles[:1], labels[1:] + labels[:1]  # in columns of two: a model and its 8 bits
        # A figure of one domain has room for one column.
        columns = min(4, 2 * len(found) - 1)
        figure.legend(*entries, loc="outside lower center", ncols=columns, frameon=False, markerscale=0.7)


def sizes(found: dict[str, list[dict[str, Any]]], name: str) -> str:
    """The megabytes of a model in all domains, such as "1–7"."""
    megabytes = {round(row["megabytes"]) for rows in found.values() for row in rows if row["name"] == name}
    return "–".join(map(str, sorted({min(megabytes), max(megabytes)})))


def spread(row: dict[str, Any]) -> tuple[float, float]:
    """Mean and standard deviation of the accuracy."""
    values = row["accuracies"]
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.strip().splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--mtl16_dir", required=True)
    parser.add_argument("--domains", nargs="+", choices=MTL16_DOMAINS, default=["MR", "imdb"])
    parser.add_argument(
        "--model",
        nargs=2,
        action="append",
        required=True,
        metavar=("NAME", "PATTERN"),
        help="checkpoints of all seeds, such as outputs/bilstm/{domain}/seed-*; more than once for several models",
    )
    parser.add_argument("--texts", type=int, default=50, help="test texts that are timed")
    parser.add_argument("--output_file", help="the picture: .png, .svg or .pdf")
    return parse_on_cpu(parser)


def main() -> None:
    arguments = parse_arguments()
    found = {domain: points(domain, arguments) for domain in arguments.domains}
    print(f"One text at a time, from its letters. {describe(arguments)}\n")
    rows = []
    for domain, of_domain in found.items():
        for row in of_domain:
            mean, deviation = spread(row)
            accuracy = f"{mean:.1f}" + (f" ± {deviation:.1f}" if len(row["accuracies"]) > 1 else "")
            rows.append([domain, row["name"], accuracy, f"{row['ms']:.2f}", f"{row['megabytes']:.1f}"])
    print(markdown_table(["domain", "model", "accuracy", "ms a text", "MB"], rows))
    if arguments.output_file:
        plot(found, arguments.output_file)


if __name__ == "__main__":
    main()
