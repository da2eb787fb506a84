"""Reads MTL-16: positive and negative reviews of 16 domains."""

from __future__ import annotations

import os
from pathlib import Path

from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

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
POLARITIES = ("negative", "positive")


def review_rows(path: str | os.PathLike) -> Located:
    """
    Reads a file of one domain, such as `books.task.train`, with one `label TAB text` per line.

    Lines that are not UTF-8 are decoded as Windows-1252; the movie reviews have some.

    Args:
        path (`str` or `os.PathLike`): The file.

    Yields:
        `tuple[str, dict[str, str]]`: The location, and a row with `sentence`, which may be empty, and `label`.

    Raises:
        UserError: The file cannot be read, or a line is malformed. The message names file and line.
    """
    for where, line in text_lines(path, newline="\n", fallback="cp1252"):
        label, tab, text = line.rstrip("\r\n").partition("\t")
        if not tab or label not in ("0", "1"):
            raise UserError(f"{where}: the line has to be 0 or 1, a tab and the review, not {line[:40].rstrip()!r}.")
        yield where, {"sentence": text.strip(" "), "label": POLARITIES[int(label)]}


def read_mtl16(folder: str | os.PathLike, domain: str) -> DatasetDict:
    """
    Reads a domain from `<domain>.task.train` and `<domain>.task.test`. Test reviews that also occur in the training
    data, with the same label, are counted in a warning.

    Args:
        folder (`str` or `os.PathLike`): The folder of the files.
        domain (`str`): One of `MTL16_DOMAINS`.

    Returns:
        `datasets.DatasetDict`: `train` and `test` with the columns `sentence`, which may be empty, and `label`. `test`
        also has `in_train`: whether the training data have the same review.

    Raises:
        UserError: The domain is unknown, a file is missing, or a line is malformed. The message names file and line.
    """
    if domain not in MTL16_DOMAINS:
        raise UserError(f"domain must be one of {', '.join(MTL16_DOMAINS)}, not {domain!r}.")
    features = Features({"sentence": Value("string"), "label": ClassLabel(names=list(POLARITIES))})
    train, test = (
        Dataset.from_list([row for _, row in review_rows(Path(folder) / f"{domain}.task.{part}")], features)
        for part in ("train", "test")
    )
    seen = set(zip(train["sentence"], train["label"], strict=True))
    in_train = [review in seen for review in zip(test["sentence"], test["label"], strict=True)]
    if any(in_train):
        logger.warning(
            f"{domain}: {sum(in_train)} of the {len(test)} test reviews are in the training data, too; without them: "
            "in_train."
        )
    return DatasetDict({"train": train, "test": test.add_column("in_train", in_train)})
