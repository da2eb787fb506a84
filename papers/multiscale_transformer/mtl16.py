"""
The sixteen domains of MTL-16, and the accuracy without the test reviews that are in the training file.

Reads the predictions of `papers/repeat.py mtl16.yaml`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from pathlib import Path

from datasets import DatasetDict

from msattn.data import read_sentences
from msattn.plots.style import markdown_table

# In the order of the table in the Multi-Scale Transformer paper.
MTL16_DOMAINS = (
    "books",
    "electronics",
    "dvd",
    "kitchen_housewares",
    "apparel",
    "camera_photo",
    "health_personal_care",
    "music",
    "toys_games",
    "video",
    "baby",
    "magazines",
    "software",
    "sports_outdoors",
    "imdb",
    "MR",
)
"""The names of the 16 domains of MTL-16."""


def read_mtl16(folder: str | os.PathLike, domain: str) -> DatasetDict:
    """
    Reads a domain from `<domain>.task.train` and `<domain>.task.test`.

    Args:
        folder (`str` or `os.PathLike`): The folder of the files.
        domain (`str`): One of `MTL16_DOMAINS`.

    Returns:
        `datasets.DatasetDict`: `train` and `test` with the columns `sentence`, which may be empty, and `label`. `test`
        also has `in_train`: whether the training data have the same review with the same label.
    """
    train, test = (
        read_sentences(Path(folder) / f"{domain}.task.{part}").class_encode_column("label")
        for part in ("train", "test")
    )
    seen = set(zip(train["sentence"], train["label"], strict=True))
    in_train = [review in seen for review in zip(test["sentence"], test["label"], strict=True)]
    return DatasetDict({"train": train, "test": test.add_column("in_train", in_train)})


def accuracies(folder: Path, data: DatasetDict) -> list[tuple[float, float]]:
    """For each seed the accuracy on all test reviews of a domain, and on those that are not in its training data."""
    found = []
    for path in sorted(folder.glob("seed-*/test_predictions.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").strip().split("\n")]
        right = [row["gold"] == row["prediction"] for row in rows]
        unseen = [one for one, seen in zip(right, data["test"]["in_train"], strict=True) if not seen]
        found.append((100 * statistics.fmean(right), 100 * statistics.fmean(unseen)))
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("study", type=Path, help="folder of the study, such as outputs/mtl16")
    parser.add_argument("--mtl16_dir", required=True, help="folder of the data")
    args = parser.parse_args(argv)
    domains = [domain for domain in MTL16_DOMAINS if (args.study / domain).is_dir()]
    found = [accuracies(args.study / domain, read_mtl16(args.mtl16_dir, domain)) for domain in domains]
    # The average over the domains of each seed.
    averages = [tuple(map(statistics.fmean, zip(*seed, strict=True))) for seed in zip(*found, strict=False)]
    rows = []
    for name, seeds in [*zip(domains, found, strict=True), (f"average of {len(domains)}", averages)]:
        columns = [*zip(*seeds, strict=True)]
        spread = [f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "" for values in columns]
        rows.append([name, *(f"{statistics.fmean(v):.1f}{s}" for v, s in zip(columns, spread, strict=True))])
    print(markdown_table(["domain", "test", "unseen"], rows))


if __name__ == "__main__":
    main()
