"""Real tokens and padding, wherever in a sentence the padding is."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def checked_mask(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor:
    """
    The attention mask of a model's inputs; all ones if there is none.

    Args:
        input_ids (`torch.LongTensor` of shape `(batch, tokens)`, *optional*): Ids of the tokens.
        inputs_embeds (`torch.Tensor` of shape `(batch, tokens, width)`, *optional*): Word vectors instead of ids.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch, tokens)`

    Raises:
        ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, or `attention_mask` is not
            `(batch, tokens)`.
    """
    inputs = input_ids if inputs_embeds is None else inputs_embeds
    if inputs is None or (input_ids is not None and inputs_embeds is not None):
        raise ValueError("the model takes exactly one of input_ids or inputs_embeds")
    if attention_mask is None:
        return torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)
    if attention_mask.shape != inputs.shape[:2]:
        raise ValueError(
            f"attention_mask must be (batch, tokens) = {tuple(inputs.shape[:2])}, got {tuple(attention_mask.shape)}"
        )
    return attention_mask


def real_of(attention_mask: torch.Tensor | None, shape: tuple[int, int], device: torch.device) -> torch.Tensor:
    """
    True at the real tokens of an attention mask of this shape, `(batch, tokens)`; everywhere if there is none.

    Raises:
        ValueError: `attention_mask` has another shape.
    """
    if attention_mask is None:
        return torch.ones(shape, dtype=torch.bool, device=device)
    if attention_mask.shape != shape:
        raise ValueError(f"attention_mask must be {shape}, got {tuple(attention_mask.shape)}")
    return attention_mask.to(device).bool()


def ask_once(attention_mask: torch.Tensor) -> torch.Tensor:
    """
    True at real tokens, `(batch, tokens)`, for all layers of a forward pass. Where there is no padding, it is a single
    True, expanded: layers see it by the strides, and do not wait for a GPU each.
    """
    real = attention_mask.bool()
    if torch.compiler.is_compiling():
        return real
    if real.all():
        return all_real(real.shape, real.device)
    # Not `contiguous`, which keeps strides of 0 in texts of one token.
    return real.clone(memory_format=torch.contiguous_format)


def all_real(shape: Sequence[int], device: torch.device | str) -> torch.Tensor:
    """What [`ask_once`] returns where there is no padding."""
    return torch.ones(1, 1, dtype=torch.bool, device=device).expand(*shape)


def positions(attention_mask: torch.Tensor) -> torch.Tensor:
    """Positions counted from the first real token, and 0 before it; `(batch, tokens)`."""
    first = attention_mask.bool().int().argmax(dim=1, keepdim=True)
    return (torch.arange(attention_mask.shape[1], device=attention_mask.device) - first).clamp_min(0)


def first_token(attention_mask: torch.Tensor) -> torch.Tensor:
    """True at the first real token of each sentence, `(batch, tokens)`."""
    real = attention_mask.bool()
    return real & (real.cumsum(dim=-1) == 1)


def real_tokens_first(real: torch.Tensor) -> torch.Tensor:
    """
    An order of the tokens that puts padding at the end and changes nothing else.

    Args:
        real (`torch.BoolTensor` of shape `(batch, tokens)`): True for real tokens.

    Returns:
        `torch.LongTensor` of shape `(batch, tokens)`: The position that each token is taken from.
    """
    # Counted, not sorted: ONNX has no stable sort.
    places = real.cumsum(dim=-1).where(real, real.sum(dim=-1, keepdim=True) + (~real).cumsum(dim=-1)) - 1
    tokens = torch.arange(real.shape[-1], device=real.device).expand_as(places)
    return torch.zeros_like(places).scatter(-1, places, tokens)
