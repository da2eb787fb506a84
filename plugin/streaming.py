"""Answers large files block by block: in bounded memory, by all processes, in order, and resumable."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object

from msattn.errors import UserError
from msattn.writing import write_whole

# Items of a block for each process: enough for batches of similar length, few enough to lose a minute at most.
BLOCK = 1024


def predict_stream(
    items: Iterable,
    answer: Callable[[list], Sequence[str]],
    output: str | os.PathLike | None = None,
    size: int = BLOCK,
    key: str | None = None,
) -> int:
    """
    Writes what `answer` returns for each item, in the order of the items.

    The processes are those of `accelerate.PartialState`. The answers of a file go to `OUTPUT.part`, which takes the
    name of the output when it is whole. A run that was interrupted goes on after its last block if it is started again
    with the same `key`.

    Args:
        items (`Iterable`): The items, such as a generator or a `datasets.IterableDataset`; read in each process.
        answer (`Callable`): Takes some items and returns the text to write for each.
        output (`str` or `os.PathLike`, *optional*): The file, gzipped if its name ends in `.gz`. Default: stdout.
        size (`int`, *optional*, defaults to 1024): Items that a process answers at a time.
        key (`str`, *optional*): Stands for all that the answers depend on; see [`stream_key`]. Default: never resume.

    Returns:
        `int`: The number of items.

    Raises:
        UserError: An item is wrong. It is raised in all processes, and the blocks before that item are written.
    """
    state = PartialState()
    target = None if output is None else Path(output).resolve()
    done = [_resumed(target, key) if state.is_main_process and target is not None else 0]
    count = broadcast_object_list(done)[0]
    remaining = islice(items, count, None)
    while block := list(islice(remaining, size * state.num_processes)):
        share = -(-len(block) // state.num_processes)
        texts = gather_object(_texts_or_error(answer, block[share * state.process_index :][:share]))
        if errors := [text for text in texts if isinstance(text, UserError)]:
            raise errors[0]
        count += len(block)
        if state.is_main_process:
            _append("".join(texts), target, {"key": key, "items": count})
    if state.is_main_process and target is not None:
        part, record = _parts(target)
        part.touch()
        os.replace(part, target)
        record.unlink(missing_ok=True)
    state.wait_for_everyone()
    return count


def stream_key(model: torch.nn.Module, path: str | os.PathLike, *others: Any) -> str:
    """
    A hash of the weights of a model, the state of a file, and all else that answers depend on.

    Args:
        model (`torch.nn.Module`): The model.
        path (`str` or `os.PathLike`): The file that is read; its path, size and modification time count.
        *others: Values that JSON can hold, such as batch size and decoder.
    """
    file = os.stat(path)
    facts = [os.path.abspath(path), file.st_size, file.st_mtime_ns, *others]
    digest = hashlib.blake2b(json.dumps(facts, sort_keys=True).encode(), digest_size=16)
    for name, weight in sorted(model.state_dict().items()):
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _texts_or_error(answer: Callable[[list], Sequence[str]], items: list) -> list[Any]:
    """An error is returned, so that the other processes do not wait for this one."""
    try:
        return list(answer(items)) if items else []
    except UserError as error:
        return [error]


def _parts(target: Path) -> tuple[Path, Path]:
    return target.with_name(f"{target.name}.part"), target.with_name(f"{target.name}.part.json")


def _resumed(target: Path, key: str | None) -> int:
    """The number of items that an interrupted run has written; what it wrote after them is cut off."""
    part, record = _parts(target)
    if key is not None and part.exists() and record.exists():
        found = json.loads(record.read_text(encoding="utf-8"))
        if found["key"] == key and part.stat().st_size >= found["bytes"]:
            os.truncate(part, found["bytes"])
            return found["items"]
    part.unlink(missing_ok=True)
    record.unlink(missing_ok=True)
    return 0


def _append(text: str, target: Path | None, progress: dict[str, Any]) -> None:
    if target is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    part, record = _parts(target)
    content = text.encode()
    with part.open("ab") as file:
        file.write(gzip.compress(content, mtime=0) if target.suffix == ".gz" else content)
        file.flush()
        os.fsync(file.fileno())
        progress["bytes"] = file.tell()
    write_whole(record, json.dumps(progress))
