"""Writes files whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

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
