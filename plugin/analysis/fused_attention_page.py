"""An HTML page of fused attention, to point at tokens in."""

from __future__ import annotations

import html
import json
import os
import re
from importlib.resources import files
from pathlib import Path

from msattn.analysis.fused_attention import FusedAttention


def fused_attention_html(attention: FusedAttention, path: str | os.PathLike) -> None:
    """
    Writes a page that shows, for the token under the mouse, the keyboard focus or a finger, lines to the words and
    phrases that it attends to, with their weights. `#token=5` in its address opens it with token 5 kept.

    The page is one file that loads nothing from elsewhere. Weights have six decimals.

    Args:
        attention (`FusedAttention`): The attention of a sentence.
        path (`str` or `os.PathLike`): The file to write.
    """
    data = {
        "tokens": attention.tokens,
        "words": attention.words.round(6).tolist(),
        "scales": [
            {
                "scale": scale,
                "weights": weights.round(6).tolist(),
                "spans": [attention.phrase(scale, position) for position in range(len(attention.tokens))],
            }
            for scale, weights in attention.phrases.items()
        ],
        "entities": attention.entities,
    }
    values = {
        "title": html.escape(attention.label or "Fused attention"),
        "text": html.escape(" ".join(attention.tokens)),
        # A token must not be able to end the script element that holds it.
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = files("msattn.analysis").joinpath("fused_attention.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda field: values[field[1]], template)
    Path(path).write_text(page, encoding="utf-8")
