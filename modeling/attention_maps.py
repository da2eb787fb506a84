"""Attention maps between pieces, as encoders return them: the one place where models read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch


def gives_attentions(attn_implementation: str | None) -> bool:
    """Whether an attention implementation has weights to return; the fused kernels do not."""
    return not (attn_implementation or "").startswith(("sdpa", "flash", "flex"))


def ask_for_maps(config: Any) -> None:
    """
    Select the attention implementation that returns maps.

    Args:
        config (`PreTrainedConfig`): That of a model which reads `config.features`. It is changed in place.

    Raises:
        ValueError: Another implementation was requested.
    """
    for requested in (config._attn_implementation, getattr(config, "encoder", config)._attn_implementation):
        if requested not in (None, "eager"):
            raise ValueError(
                f"attn_implementation {requested!r} has no attention maps, which "
                f'features="{config.features}" reads; leave it out, or take "eager"'
            )
    config._attn_implementation = "eager"


def piece_maps(outputs: Any, heads: int) -> tuple[torch.Tensor, ...]:
    """
    The attention between all pieces in each layer, on the device of the last hidden states.

    Args:
        outputs (`BaseModelOutput`): The output of an encoder, given `output_attentions=True`.
        heads (`int`): Number of heads of a layer.

    Returns:
        `tuple[torch.Tensor]` of shape `(batch, heads, pieces, pieces)`: The map of each layer; rows attend to columns.

    Raises:
        ValueError: The encoder returns no attention, or one of another shape.
    """
    states, maps = outputs.last_hidden_state, outputs.attentions or ()
    batch, pieces = states.shape[:2]
    expected = (batch, heads, pieces, pieces)
    for attention in maps:
        if attention is None or attention.shape != expected:
            got = "none" if attention is None else f"the shape {tuple(attention.shape)}"
            raise ValueError(f"the encoder must return attention of the shape {expected}, got {got}")
    if not maps:
        raise ValueError(
            'the encoder returns no attention: take features="emb", or attn_implementation="eager" if it was changed'
        )
    return tuple(attention.to(states.device) for attention in maps)


def piece_rows(maps: Sequence[torch.Tensor], pieces: torch.Tensor) -> Iterator[torch.Tensor]:
    """
    The attention of some pieces to all others, layer by layer.

    Args:
        maps (`Sequence[torch.Tensor]` of shape `(batch, heads, pieces, pieces)`): See [`piece_maps`].
        pieces (`torch.LongTensor` of shape `(batch, n)`): Positions; numbers below 0 count as 0.

    Yields:
        `torch.Tensor` of shape `(batch, heads, n, pieces)`
    """
    for attention in maps:
        index = pieces.clamp_min(0)[:, None, :, None].expand(-1, attention.shape[1], -1, attention.shape[-1])
        yield attention.gather(2, index)


__all__ = ["ask_for_maps", "gives_attentions", "piece_maps", "piece_rows"]
