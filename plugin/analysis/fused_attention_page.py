"""An interactive HTML page of fused attention."""

from __future__ import annotations

import os

from msattn.analysis.examples_page import attention_fields, write_examples
from msattn.analysis.fused_attention import FusedAttention


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
    """
    title = attention.label or "Fused attention"
    return write_examples(path, title, " ".join(attention.tokens), [attention_fields(attention)])
