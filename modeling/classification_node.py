"""The vector that a sentence classifier reads, of one sentence or of a pair."""

from __future__ import annotations

import torch

from .real_tokens import first_token, real_tokens_first


def classification_node(hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """
    The state of the first token, [CLS], followed by the maximum over the other tokens.

    Args:
        hidden_states (`torch.Tensor` of shape `(batch, tokens, width)`): States of the tokens.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch, 2 * width)`: A half is zero if the sentence has no such token.
    """
    if attention_mask is None:
        attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
    attention_mask = attention_mask.to(hidden_states.device)
    first = first_token(attention_mask)
    others = (attention_mask.bool() & ~first).unsqueeze(-1)
    node = hidden_states.masked_fill(~first.unsqueeze(-1), 0).sum(dim=1)
    largest = hidden_states.masked_fill(~others, torch.finfo(hidden_states.dtype).min).amax(dim=1)
    return torch.cat([node, largest.masked_fill(~others.any(dim=1), 0)], dim=-1)


def split_pairs(
    input_ids: torch.Tensor | None,
    inputs_embeds: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    token_type_ids: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor]:
    """
    Split sentence pairs into sentences, each behind the [CLS] of its pair.

    Args:
        input_ids (`torch.LongTensor` of shape `(batch, tokens)`, *optional*): Ids of the tokens.
        inputs_embeds (`torch.Tensor` of shape `(batch, tokens, width)`, *optional*): Word vectors.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.
        token_type_ids (`torch.Tensor` of shape `(batch, tokens)`): 0 in the first sentence and 1 in the second.

    Returns:
        `input_ids`, `inputs_embeds` and `attention_mask` of `2 * batch` sentences: both of the first pair, both of the
        second, and so on. Padding is on the right, and the longest sentence has none, except in compiled code.

    Raises:
        ValueError: `token_type_ids` is missing.
    """
    if token_type_ids is None:
        raise ValueError("sentence_pairs=True needs token_type_ids, 0 in the first sentence and 1 in the second")
    real = torch.ones_like(token_type_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    second = token_type_ids.bool()
    real = torch.stack([real & ~second, real & second | first_token(real)], dim=1).flatten(0, 1)
    order = real_tokens_first(real)
    if not torch.compiler.is_compiling():
        order = order[:, : max(1, int(real.sum(dim=-1).max()))]
    if input_ids is not None:
        input_ids = input_ids.repeat_interleave(2, dim=0).gather(1, order)
    if inputs_embeds is not None:
        every = order.unsqueeze(-1).expand(-1, -1, inputs_embeds.shape[-1])
        inputs_embeds = inputs_embeds.repeat_interleave(2, dim=0).gather(1, every)
    return input_ids, inputs_embeds, real.gather(1, order).long()


def pair_features(nodes: torch.Tensor) -> torch.Tensor:
    """
    [u; v; |u - v|; u * v] of the two sentences of each pair.

    Args:
        nodes (`torch.Tensor` of shape `(2 * batch, width)`): A vector for each sentence, in the order of
            [`split_pairs`].

    Returns:
        `torch.Tensor` of shape `(batch, 4 * width)`
    """
    first, second = nodes[0::2], nodes[1::2]
    return torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
