"""Self-contained HTML pages of examples: texts with entities, answers and attention."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from msattn.plots.fused_attention import FusedAttention
from msattn.plots.style import check_suffix


def attention_fields(attention: FusedAttention, digits: int = 6) -> dict[str, Any]:
    """
    The fields of an example that draw its attention.

    Args:
        attention (`FusedAttention`): The attention of a sentence.
        digits (`int`, *optional*, defaults to 6): Decimals of the weights.
    """
    return {
        "tokens": attention.tokens,
        "words": attention.words.round(digits).tolist(),
        "scales": [
            {
                "scale": scale,
                "weights": weights.round(digits).tolist(),
                "spans": [attention.phrase(scale, position) for position in range(len(attention.tokens))],
            }
            for scale, weights in attention.phrases.items()
        ],
        "entities": attention.entities,
    }


def write_examples(
    path: str | os.PathLike | None, title: str, text: str, examples: Sequence[Mapping[str, Any]]
) -> str:
    """
    Writes the page.

    Args:
        path (`str` or `os.PathLike`, *optional*): The file to write.
        title (`str`): Its title.
        text (`str`): What the page shows without JavaScript.
        examples (`Sequence[Mapping[str, Any]]`):
            The examples: the fields of [`attention_fields`] or those of an error (`id`, `gold`, `prediction`, `score`,
            and `text` as a list of `[part, roles]`), or both.

    Returns:
        `str`: The page.
    """
    values = {
        "title": html.escape(title),
        "text": html.escape(text),
        # Escaped, so that no text can close the script element.
        "data": json.dumps(examples, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = files("msattn.plots").joinpath("examples_page.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda field: values[field[1]], template)
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


def fused_attention_html(attention: FusedAttention, path: str | os.PathLike | None = None) -> str:
    """
    Writes an interactive HTML page that shows the words and phrases that the selected token attends to.

    Tokens are selected by mouse, keyboard or touch; `#token=5` in the address pins token 5. The page is
    self-contained. Weights are rounded to six decimals.

    Args:
        attention (`FusedAttention`): The attention of a sentence.
        path (`str` or `os.PathLike`, *optional*): The file to write.

    Returns:
        `str`: The page.

    Raises:
        UserError: `path` does not end in `.html`.
    """
    check_suffix(path, ".html")
    title = attention.label or "Fused attention"
    return write_examples(path, title, " ".join(attention.tokens), [attention_fields(attention)])
