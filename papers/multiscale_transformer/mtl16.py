"""The sixteen domains of MTL-16."""

from __future__ import annotations

import os
from pathlib import Path

from datasets import DatasetDict

from msattn.data import read_sentences

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
