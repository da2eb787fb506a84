"""A page in the browser that shows what checkpoints find in a text. It needs the extra `app`."""

from __future__ import annotations

import os

from msattn.errors import extra

# Read when Gradio is imported. Without it, Gradio reports to its makers.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
with extra("app"):
    import gradio  # noqa: F401

from msattn.app.page import build_page, launch

__all__ = ["build_page", "launch"]
