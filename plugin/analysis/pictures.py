"""What the pictures share: their colours, fonts and files."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import get_font_names

from msattn.errors import UserError

SUFFIXES = (".png", ".svg")
INK, MUTED, FAINT = "#1b1f24", "#6b727b", "#eceef1"
# After Okabe and Ito: they differ for every kind of colour blindness, and in brightness.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
MARKERS = "osD^vP"
# matplotlib falls back by glyph, but only to fonts that it is told of; DejaVu Sans comes with it.
FONTS = ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC"]


def picture_style() -> AbstractContextManager:
    """Within it figures are drawn and saved; text stays text in SVG, and `$` a dollar."""
    fonts = [font for font in FONTS if font in get_font_names()] + ["sans-serif"]
    return rc_context({"font.family": fonts, "font.size": 9, "svg.fonttype": "none", "text.parse_math": False})


def save_picture(figure: Figure, path: str | os.PathLike | None) -> None:
    """Saves a figure, if there is a path, for reading on paper."""
    if path is not None:
        figure.savefig(path, dpi=200)


def check_picture_path(path: str | os.PathLike | None) -> None:
    """
    Raises:
        UserError: The path ends in something else than `.png` or `.svg`.
    """
    if path is not None and Path(path).suffix.lower() not in SUFFIXES:
        raise UserError(f"{os.fspath(path)}: a figure is saved as .png or .svg.")


def check_output(path: str, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """
    Checks the `--output` of a command before it computes anything.

    Raises:
        UserError: The file would have another suffix, or no folder.
    """
    if Path(path).suffix.lower() not in suffixes:
        raise UserError(f"--output {path}: the file must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}.")
    if not Path(path).absolute().parent.is_dir():
        raise UserError(f"--output {path}: there is no such folder to write to.")
