"""Asks an encoder for its attention and reads it from the outputs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad
from transformers import AttentionInterface, AttentionMaskInterface

from .attention_adapters import is_outside
from .attention_windows import with_windows
from .received_attention import received_attention_mask
from .row_attention import rows_attention_forward

#: The implementations that read attention where it happens. Without `rows`, both return whole maps.
FORWARDS: dict[str, Any] = {"words": rows_attention_forward, "rows": rows_attention_forward}


def ask_for_maps(config: Any, reader: str, encoder: type) -> None:
    """
    Select the attention implementation that attention is read with: the reader, or `"eager"` for encoders outside of
    the attention interface.

    Args:
        config (`PreTrainedConfig`): That of a model which reads `config.features`. It is changed in place.
        reader (`str`): `"words"`, or `"rows"`, which runs beside `"sdpa"`.
        encoder (`type`): The class of the encoder.

    Raises:
        ValueError: An implementation was requested that has no attention to return.
    """
    # A configuration that built one of our models may build the other one.
    beside = (None, *FORWARDS, *(["sdpa"] if reader == "rows" else []))
    for requested in (config._attn_implementation, getattr(config, "encoder", config)._attn_implementation):
        if requested in ("eager", reader):
            reader = requested
        elif requested not in beside:
            raise ValueError(
                f"attn_implementation {requested!r} has no attention maps, which "
                f'features="{config.features}" reads; leave it out, or take "eager"'
            )
    config._attn_implementation = "eager" if is_outside(encoder) else reader


class AttentionReader:
    """
    How a model reads the attention of its encoder.

    Args:
        encoder (`PreTrainedModel`): The encoder. It is not kept.
        config (`PreTrainedConfig`): That of the model, with the encoder's sizes.
    """

    def __init__(self, encoder: nn.Module, config: Any):
        arguments = inspect.signature(encoder.forward).parameters.values()
        self.takes_plans = any(argument.kind is inspect.Parameter.VAR_KEYWORD for argument in arguments)
        self.heads = config.num_attention_heads

    def pairs(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        """
        The attention of each layer for [`PairwiseScores`], on the device of the last hidden states.

        Args:
            outputs (`BaseModelOutput`): The output of the encoder, given `output_attentions=True`.

        Returns:
            `tuple[torch.Tensor]` of shape `(batch, heads, pieces, pieces)`: The map of each layer; rows attend to
            columns.

        Raises:
            ValueError: The encoder returns no attention, or one of another shape.
        """
        states, found = outputs.last_hidden_state, outputs.attentions or ()
        batch, pieces = states.shape[:2]
        self._check(found, [(batch, self.heads, pieces, pieces)])
        return tuple(layer.to(states.device) for layer in found)

    def rows(self, implementation: str | None, pieces: torch.Tensor, tokens: int) -> torch.Tensor | None:
        """
        The argument `rows` of the encoder, or `None` for whole maps.

        Args:
            implementation (`str`, *optional*): The encoder's attention implementation.
            pieces (`torch.LongTensor` of shape `(batch, n)`): Positions; numbers below 0 fill up.
            tokens (`int`): Number of tokens.
        """
        if not self.takes_plans or implementation not in ("rows", "received"):
            return None
        # The shape has to tell rows, and one more of `"received"`, from whole maps.
        count = pieces.shape[1]
        return pad(pieces, (0, tokens + 1 - count), value=-1) if count in (tokens - 1, tokens) else pieces

    def piece_rows(
        self, outputs: Any, pieces: torch.Tensor, rows: torch.Tensor | None = None
    ) -> Iterator[torch.Tensor]:
        """
        The attention of some pieces to all others, layer by layer.

        Args:
            outputs (`BaseModelOutput`): The output of the encoder, given `output_attentions=True` and `rows`.
            pieces (`torch.LongTensor` of shape `(batch, n)`): Positions; the rows of numbers below 0 mean nothing.
            rows (`torch.LongTensor` of shape `(batch, m)`, *optional*): What the encoder was given.

        Yields:
            `torch.Tensor` of shape `(batch, heads, n, pieces)`

        Raises:
            ValueError: The encoder returns no attention, or one of another shape.
        """
        states, found = outputs.last_hidden_state, outputs.attentions or ()
        batch, tokens = states.shape[:2]
        count = 0 if rows is None else rows.shape[1]
        sizes = [tokens] if rows is None else [tokens, count, count + 1]
        self._check(found, [(batch, self.heads, size, tokens) for size in sizes])
        for attention in found:
            attention = attention.to(states.device)
            if attention.shape[2] == tokens:
                index = pieces.clamp_min(0)[:, None, :, None].expand(-1, self.heads, -1, tokens)
                yield attention.gather(2, index)
            else:
                yield attention[:, :, -count:][:, :, : pieces.shape[1]]

    @staticmethod
    def _check(found: Any, expected: list[tuple[int, ...]]) -> None:
        for attention in found:
            if not isinstance(attention, torch.Tensor) or attention.shape not in expected:
                got = f"the shape {tuple(attention.shape)}" if isinstance(attention, torch.Tensor) else "none"
                raise ValueError(f"the encoder must return attention of the shape {expected[0]}, got {got}")
        if not found:
            raise ValueError(
                'the encoder returns no attention: take features="emb", or attn_implementation="eager" if it was '
                "changed"
            )


# Here and not with the table of families: a checkpoint on the Hub brings this file along.
for _name, _forward in FORWARDS.items():
    AttentionInterface.register(_name, with_windows(_forward))
    AttentionMaskInterface.register(_name, received_attention_mask)

__all__ = ["AttentionReader", "ask_for_maps"]
