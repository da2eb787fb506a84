"""Writes the page as a Space of the Hugging Face Hub."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import yaml

from msattn.errors import UserError

APP = """from msattn.app import launch

launch({arguments})
"""
README = """---
{front_matter}---

# msattn

Type a paragraph and see what these checkpoints find in it: {models}. The page is
[msattn](https://pypi.org/project/msattn)'s.
"""


def write_space(folder: str | os.PathLike, names: Sequence[str], lang: str | None = None) -> None:
    """
    Writes `README.md`, `app.py` and `requirements.txt`, which make a Space of the page.

    Args:
        folder (`str` or `os.PathLike`): The folder, which is made if there is none.
        names (`Sequence[str]`): The checkpoints, by their names on the Hub.
        lang (`str`, *optional*): See [`~msattn.app.launch`].

    Raises:
        UserError: A name is that of a folder, or the folder has other files already.
    """
    for name in names:
        if Path(name).exists() or name.count("/") > 1:
            raise UserError(f"{name}: a Space loads its checkpoints from the Hub; push the folder first.")
    path = Path(folder)
    front_matter = {
        "title": "msattn",
        "sdk": "gradio",
        "sdk_version": version("gradio"),
        "app_file": "app.py",
        "license": "apache-2.0",
        "models": list(names),
        "preload_from_hub": list(names),
    }
    arguments = f"{list(names)!r}" + ("" if lang is None else f", lang={lang!r}")
    contents = {
        "README.md": README.format(
            front_matter=yaml.safe_dump(front_matter, sort_keys=False), models=", ".join(names)
        ),
        "app.py": APP.format(arguments=arguments),
        "requirements.txt": f"msattn[app]=={version('msattn')}\n",
    }
    if path.exists() and {file.name for file in path.iterdir()} - contents.keys() - {".git", ".gitattributes"}:
        raise UserError(f"{path}: the folder has other files; give a new one, or that of a Space.")
    path.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (path / name).write_text(content, encoding="utf-8")
