"""Writes files whole or not at all, and names those that a full disk has kept from being written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from msattn.errors import UserError

# Messages of torch.save, safetensors and tokenizers for a full disk, whose exception types are too generic.
WRITE_FAILURES = ("PytorchStreamWriter", "unexpected pos", "iostream error", "os error")


def write_whole(path: Path, content: str | bytes) -> None:
    """
    Writes a file that is there with its whole content or, after a crash or on a full disk, as it was before.

    Args:
        path (`Path`): The file. Its folder has to exist.
        content (`str` or `bytes`): The content; text is written as UTF-8.

    Raises:
        OSError: The file cannot be written, such as on a full disk; the error names it.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_write_failure(error: Exception) -> bool:
    """Whether an exception is that of a file that cannot be written."""
    return isinstance(error, OSError) or any(mark in str(error) for mark in WRITE_FAILURES)


@contextmanager
def no_torn_files(folder: Path) -> Iterator[None]:
    """
    Deletes the file that was being written to a folder when the disk was full.

    Args:
        folder (`Path`): The folder; its sub-folders are not looked at.

    Raises:
        UserError: A file cannot be written; the message names it.
    """
    before = _stamps(folder)
    try:
        yield
    except Exception as error:
        stamps = _stamps(folder)
        written = [path for path, stamp in stamps.items() if before.get(path) != stamp]
        of_weights = isinstance(error, SafetensorError)
        if not is_write_failure(error) or not (written or of_weights):
            raise
        # Safetensors puts a file in place when it is whole; what the others leave is the newest file.
        torn = folder / "model.safetensors" if of_weights else max(written, key=stamps.__getitem__)
        for path in written:
            if not path.stat().st_size or path == torn:
                path.unlink()
        raise UserError(f"{torn}: the file could not be written (is the disk full?): {error}") from error


def _stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    files = [path for path in folder.glob("*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}
