"""Models in ONNX: their export, and a class that runs them in the pipelines."""

from __future__ import annotations

from msattn.onnx.exporter import export
from msattn.onnx.runtime import OnnxModel, load

__all__ = ["OnnxModel", "export", "load"]
