"""Keeps a second run out of a folder that one is writing to."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from msattn.errors import UserError
from msattn.writing import write_whole

# Neither is pushed to the Hub, as their names begin with an underscore.
LOCK, OWNER = "_run.lock", "_run.json"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """
    Holds the lock of a folder, which the operating system releases when the process ends, however it does.

    A folder that was made for the lock and is empty in the end is deleted.

    Args:
        folder (`Path`): The folder; it is created if it is missing.

    Raises:
        UserError: Another process holds the lock; the message says which.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"{folder}: another run is writing to this folder{_owner(folder)}.") from None
    try:
        owner = {
            "script": Path(sys.argv[0]).name,
            "process": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        write_whole(folder / OWNER, json.dumps(owner) + "\n")
        yield
    finally:
        with suppress(OSError):
            (folder / OWNER).unlink()
            (folder / LOCK).unlink()  # before the release, so that it is not another run's that is deleted
        lock.release()
        with suppress(OSError):
            if os.name == "nt":  # where an open file cannot be deleted
                (folder / LOCK).unlink(missing_ok=True)
            for path in made:
                path.rmdir()


def _owner(folder: Path) -> str:
    try:
        owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        return f" ({owner['script']}, process {owner['process']} on {owner['host']}, since {owner['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
