"""Files of sentences that are predicted in chunks: in little memory, by all processes, and resumable."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list

from msattn.data.treebanks import treebank_chunks
from msattn.writing import write_whole

# Sentences of a chunk: enough for batches of similar length, and few enough to lose no more than a minute or so.
SENTENCES = 2000

# Predicts a chunk, writes the predictions to a folder, and returns the metrics, which are means over sentences.
Predict = Callable[[list[dict[str, Any]], Path], Mapping[str, float]]


@dataclass(frozen=True)
class SentenceStream:
    """
    A file of sentences without trees, which is never in memory as a whole.

    Args:
        path (`str`): The file; see [`~msattn.data.treebanks.read_treebank`].
        most (`int`, *optional*): The number of sentences to read, at most.
    """

    path: str
    most: int | None = None

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        return treebank_chunks(self.path, SENTENCES, self.most)

    @property
    def hash(self) -> str:
        """A hash of the file, the part of its name that says how it is read, and the number of sentences."""
        digest = hashlib.blake2b(json.dumps([Path(self.path).suffixes, self.most]).encode(), digest_size=16)
        with open(self.path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()

    def predict(
        self, predict: Predict, target: Path, key: str, together: bool = False
    ) -> tuple[dict[str, float], int]:
        """
        Predicts all chunks. Chunks that an earlier run of the same `key` has finished are kept.

        Args:
            predict (`Callable`): Predicts a chunk and writes a file of the name of `target`, without `.gz`.
            target (`Path`): The file for the predictions, compressed if its name ends in `.gz`.
            key (`str`): Stands for all that the predictions depend on; see [`stream_key`].
            together (`bool`, *optional*, defaults to `False`): All processes compute each chunk together.

        Returns:
            `tuple[dict[str, float], int]`: The metrics of the file and its number of sentences.
        """
        state = PartialState()
        parts = target.with_name(f"_{target.name}-{key}")
        finished: list[Any] = [None]
        if state.is_main_process:
            for other in target.parent.glob(f"_{target.name}-*"):
                if other != parts:
                    shutil.rmtree(other)
            parts.mkdir(exist_ok=True)
            finished = [{path.stem for path in parts.glob("*.json")}]
        broadcast_object_list(finished)
        count = missing = 0
        for count, rows in enumerate(self, start=1):
            part = parts / f"{count:06}"
            if part.name in finished[0]:
                continue
            missing += 1
            if together or missing % state.num_processes == state.process_index:
                with TemporaryDirectory(dir=parts) as folder:
                    metrics = predict(rows, Path(folder))
                    content = Path(folder, target.name.removesuffix(".gz")).read_bytes()
                if not together or state.is_main_process:
                    _finish_part(part, content, target.suffix == ".gz", [len(rows), metrics])
        state.wait_for_everyone()
        figures: list[Any] = [None]
        if state.is_main_process:
            figures = [_joined(parts, count, target)]
            shutil.rmtree(parts)
        broadcast_object_list(figures)
        return figures[0]


def stream_key(model: torch.nn.Module, *others: Any) -> str:
    """
    A hash of the weights of a model and of all else that predictions depend on.

    Args:
        model (`torch.nn.Module`): The model.
        *others: Values that JSON can hold.
    """
    digest = hashlib.blake2b(json.dumps(others, sort_keys=True).encode(), digest_size=8)
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _finish_part(part: Path, content: bytes, packed: bool, figures: list[Any]) -> None:
    write_whole(part, gzip.compress(content, mtime=0) if packed else content)
    # A chunk that has this file is finished.
    write_whole(part.with_name(f"{part.name}.json"), json.dumps(figures))


def _joined(parts: Path, count: int, target: Path) -> tuple[dict[str, float], int]:
    """Joins the chunks to one file, and their metrics."""
    whole, figures = parts / target.name, []
    with whole.open("wb") as file:
        for number in range(1, count + 1):
            part = parts / f"{number:06}"
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)
            figures.append(json.loads(part.with_name(f"{part.name}.json").read_text(encoding="utf-8")))
        file.flush()
        os.fsync(file.fileno())
    os.replace(whole, target)
    sizes = [size for size, _ in figures]
    means = {
        name: float(np.average([metrics[name] for _, metrics in figures], weights=sizes)) for name in figures[0][1]
    }
    return means, sum(sizes)
