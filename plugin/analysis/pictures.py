"""Colours, fonts and output files of all figures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names

from msattn.errors import UserError

SUFFIXES = (".png", ".svg")
INK, MUTED, FAINT = "#1b1f24", "#6b727b", "#eceef1"
# The palette of Okabe and Ito, which is safe for colour blindness.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
MARKERS = "osD^vP"
# matplotlib falls back by glyph, but only to listed fonts; it ships DejaVu Sans.
FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC"]


def picture_style() -> AbstractContextManager:
    """The matplotlib context of all figures: fonts, SVG with text elements, and no math text."""
    fonts = [font for font in FONTS if font in get_font_names()] + ["sans-serif"]
    return rc_context({"font.family": fonts, "font.size": 9, "svg.fonttype": "none", "text.parse_math": False})


def save_picture(figure: Figure, path: str | os.PathLike | None) -> None:
    """Saves a figure with 200 dpi if `path` is given."""
    if path is not None:
        figure.savefig(path, dpi=200)


def check_picture_path(path: str | os.PathLike | None) -> None:
    """
    Checks the file extension of a figure.

    Raises:
        UserError: `path` does not end in `.png` or `.svg`.
    """
    if path is not None and Path(path).suffix.lower() not in SUFFIXES:
        raise UserError(f"{os.fspath(path)}: a figure is saved as .png or .svg.")


def check_output(path: str, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """
    Checks the `--output` of a command before anything is computed.

    Args:
        path (`str`): The file to write.
        suffixes (`tuple[str, ...]`, *optional*, defaults to `(".png", ".svg")`): Allowed file extensions.

    Raises:
        UserError: The file has another extension, or its folder does not exist.
    """
    if Path(path).suffix.lower() not in suffixes:
        names = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        raise UserError(f"--output {path}: the file must end in {names}.")
    if not Path(path).absolute().parent.is_dir():
        raise UserError(f"--output {path}: there is no such folder to write to.")


def write_outputs(paths: Iterable[str] | None, content: Any, plot: Callable[[str], Any]) -> None:
    """Writes the `--output` of a command: `content` to files in `.json`, and the figure by `plot(path)` to others."""
    for path in paths or ():
        if Path(path).suffix.lower() == ".json":
            Path(path).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        else:
            plot(path)
