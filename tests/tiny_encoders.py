"""The families of encoders that the models are tested with, tiny and random."""

from __future__ import annotations

from msattn.analysis.tiny_families import BERT, FAMILIES, LENGTHS, batch, randomized, tiny_encoder

CAUSAL_FAMILIES = {"llama", "qwen3", "gemma3_text"}

__all__ = ["BERT", "CAUSAL_FAMILIES", "FAMILIES", "LENGTHS", "batch", "randomized", "tiny_encoder"]
