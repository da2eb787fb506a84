"""An interactive HTML page of fused attention."""

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
    Writes an interactive HTML page that shows the words and phrases that the selected token attends to.

    Tokens are selected by mouse, keyboard or touch; `#token=5` in the address pins token 5. The page is
    self-contained. Weights are rounded to six decimals.

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
        # Escaped, so that no token can close the script element.
        "data": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    template = files("msattn.analysis").joinpath("fused_attention.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda field: values[field[1]], template)
    Path(path).write_text(page, encoding="utf-8")
