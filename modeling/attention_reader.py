"""Asks an encoder for its attention and reads it from the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from .attention_adapters import is_outside, takes_keywords
from .attention_windows import HONOURING


def ask_for_maps(config: Any, encoder: type) -> None:
    """
    Select the attention implementation that attention is read with: ours, or `"eager"` for encoders outside of the
    attention interface.

    Args:
        config (`PreTrainedConfig`): That of a model which reads `config.features`. It is changed in place.
        encoder (`type`): The class of the encoder.

    Raises:
        ValueError: An implementation was requested that has no attention to return.
    """
    chosen = "msattn"
    # A configuration that built one of our models may build the other one.
    for requested in (config._attn_implementation, getattr(config, "encoder", config)._attn_implementation):
        if requested == "eager":
            chosen = requested
        elif requested not in (None, "sdpa", *HONOURING):
            raise ValueError(
                f"attn_implementation {requested!r} has no attention maps, which "
                f'features="{config.features}" reads; leave it out, or take "eager"'
            )
    config._attn_implementation = "eager" if is_outside(encoder) else chosen


class AttentionReader:
    """
    How a model reads the attention of its encoder.

    Args:
        encoder (`PreTrainedModel`): The encoder. It is not kept.
        config (`PreTrainedConfig`): That of the model, with the encoder's sizes.
    """

    def __init__(self, encoder: nn.Module, config: Any):
        self.takes_rows = takes_keywords(encoder)
        self.heads = config.num_attention_heads

    def maps(self, outputs: Any, *rows: int) -> tuple[torch.Tensor, ...]:
        """
        The attention of each layer, on the device of the last hidden states.

        Args:
            outputs (`BaseModelOutput`): The output of the encoder, given `output_attentions=True`.
            *rows (`int`): Numbers of rows that are expected in place of whole maps.

        Returns:
            `tuple[torch.Tensor]` of shape `(batch, heads, pieces or rows, pieces)`: Rows attend to columns.

        Raises:
            ValueError: The encoder returns no attention, or one of another shape.
        """
        states, found = outputs.last_hidden_state, outputs.attentions or ()
        batch, pieces = states.shape[:2]
        expected = [(batch, self.heads, size, pieces) for size in (pieces, *rows)]
        for one in found:
            if not isinstance(one, torch.Tensor) or one.shape not in expected:
                got = f"the shape {tuple(one.shape)}" if isinstance(one, torch.Tensor) else "none"
                raise ValueError(f"the encoder must return attention of the shape {expected[0]}, got {got}")
        if not found:
            raise ValueError(
                'the encoder returns no attention: take features="emb", or attn_implementation="eager" if it was '
                "changed"
            )
        return tuple(one.to(states.device) for one in found)

    def rows(self, implementation: str | None, pieces: torch.Tensor, tokens: int) -> torch.Tensor | None:
        """
        The argument `rows` of the encoder, or `None` for whole maps.

        Args:
            implementation (`str`, *optional*): The encoder's attention implementation.
            pieces (`torch.LongTensor` of shape `(batch, n)`): Positions; numbers below 0 fill up.
            tokens (`int`): Number of tokens.
        """
        if not self.takes_rows or implementation not in HONOURING:
            return None
        # The shape has to tell rows from whole maps.
        return pad(pieces, (0, 1), value=-1) if pieces.shape[1] == tokens else pieces

    def piece_rows(
        self, outputs: Any, pieces: torch.Tensor, rows: torch.Tensor | None = None
    ) -> Iterator[torch.Tensor]:
        """
        The attention of some pieces to all others, layer by layer.

        Args:
            outputs (`BaseModelOutput`): See [`maps`].
            pieces (`torch.LongTensor` of shape `(batch, n)`): Positions; the rows of numbers below 0 mean nothing.
            rows (`torch.LongTensor` of shape `(batch, m)`, *optional*): What the encoder was given.

        Yields:
            `torch.Tensor` of shape `(batch, heads, n, pieces)`

        Raises:
            ValueError: See [`maps`].
        """
        for one in self.maps(outputs, *([] if rows is None else [rows.shape[1]])):
            if one.shape[2] == one.shape[3]:
                index = pieces.clamp_min(0)[:, None, :, None].expand(-1, self.heads, -1, one.shape[3])
                yield one.gather(2, index)
            else:
                yield one[:, :, : pieces.shape[1]]
