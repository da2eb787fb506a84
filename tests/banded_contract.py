"""The contract of the attention implementation `"banded"`: it equals `"sdpa"` in any text model of Transformers."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from msattn.modeling import attention, window_attention
from msattn.modeling.mask_bands import decode_band
from tests.attention_contract import VARIANTS, Unbuilt, inputs_of, tiny_model

#: Tokens to either side or before; the sentences are longer.
WINDOW = 2
# How configurations ask for it; Qwen's do not have windows in all layers.
WINDOWS: tuple[dict[str, Any], ...] = (
    {"sliding_window": WINDOW, "use_sliding_window": True, "max_window_layers": 0},
    {"local_attention": 2 * WINDOW},
    {},
)


def bands_everywhere(monkeypatch: Any) -> None:
    """Short texts are computed as long ones are."""
    for module in (attention, window_attention):
        monkeypatch.setattr(
            module, "is_worthwhile", lambda band, tokens, device: band.before + band.after + 1 < tokens
        )
    monkeypatch.setattr(window_attention, "SHORT", 0)


def windowed_model(model_type: str) -> PreTrainedModel:
    """A tiny model, with windows shorter than its inputs if it has any."""
    reason = ""
    for window in WINDOWS:
        for variant in VARIANTS:
            try:
                model = tiny_model(model_type, **{**variant, **window})
                output(model, "eager")
                return model
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
    raise Unbuilt(reason)


def output(model: PreTrainedModel, implementation: str, left: bool = False) -> torch.Tensor:
    """The states of real tokens."""
    model.set_attn_implementation(implementation)
    inputs = inputs_of(model)
    if left:
        inputs |= {name: inputs[name].flip(-1) for name in ("input_ids", "attention_mask")}
    torch.manual_seed(0)
    with torch.no_grad():
        states = model(**inputs)[0]
    if model.config.is_encoder_decoder or states.dim() < 3:
        return states
    return states[inputs["attention_mask"].bool()]


def check(model_type: str, monkeypatch: Any) -> str:
    """
    Asserts that the implementation equals `"sdpa"`, or `"eager"` where the model has no other.

    Returns:
        How it was computed: `"banded"`, `"fused"` if no layer has a band, or why it was refused.
    """
    bands_everywhere(monkeypatch)
    model = windowed_model(model_type)
    bands = 0

    def counted(mask):
        nonlocal bands
        found = decode_band(mask)
        bands += found is not None
        return found

    monkeypatch.setattr(attention, "decode_band", counted)
    for left in (False, True):
        plain = output(model, "sdpa" if model._supports_sdpa else "eager", left)
        try:
            banded = output(model, "banded", left)
        except ValueError as error:
            return str(error)
        size = plain.abs().max().clamp_min(1)
        torch.testing.assert_close(banded / size, plain / size, rtol=0, atol=1e-5)
    return "banded" if bands else "fused"
