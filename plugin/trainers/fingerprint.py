"""The fingerprint of a checkpoint or a finished run: which run it belongs to, and which files it consists of."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msattn.writing import write_whole

NAME = "fingerprint.json"
# The longest value that a message about a difference prints.
SHOWN = 40


def write_fingerprint(folder: Path, files: Iterable[Path], **content: Any) -> None:
    """
    Writes the fingerprint of a folder, after all its other files: a folder that has one is complete.

    Args:
        folder (`Path`): The folder.
        files (`Iterable[Path]`): The files that belong to it. They are on the disk before the fingerprint is.
        **content: Everything else that the fingerprint holds, such as `run`, what the run depends on.
    """
    sizes = {}
    for path in sorted(files):
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    write_whole(folder / NAME, json.dumps({**content, "files": sizes}, indent=2, ensure_ascii=False) + "\n")


def read_fingerprint(folder: Path) -> dict[str, Any] | None:
    """The fingerprint of a folder; `None` if it has none or one that cannot be read."""
    try:
        content = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and {"run", "files"} <= content.keys() else None


def torn_files(folder: Path, fingerprint: Mapping[str, Any]) -> list[str]:
    """What is wrong with the files of a folder: those that are missing or of another size, one sentence part each."""
    wrong = []
    for name, size in fingerprint["files"].items():
        path = folder / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif path.stat().st_size != size:
            wrong.append(f"{name} has {path.stat().st_size} bytes in place of {size}")
    return wrong


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two runs, such as `--learning_rate 0.001 -> 0.002`; default values are not listed."""
    now = json.loads(json.dumps(now))
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    return [f"{name} {_shown(before, name)} -> {_shown(now, name)}" for name in changed]


def _shown(values: Mapping[str, Any], name: str) -> str:
    text = str(values.get(name, "default"))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
