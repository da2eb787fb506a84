"""A stand-in for the package `flash_attn`, which needs a GPU: the same functions, by PyTorch's own attention."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import PreTrainedModel, modeling_flash_attention_utils

IMPLEMENTATION = "flash_attention_2"


def install_flash_attention(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """
    Lets Transformers find the stand-in.

    Returns:
        `list[list[int]]`: For each call so far, the lengths of its sentences, without padding.
    """
    calls: list[list[int]] = []

    def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout_p=0.0, **options: Any):
        """`(batch, tokens, heads, head_dim)`, every token of which is real."""
        calls.append([query.shape[1]] * query.shape[0])
        return _attention(query, key, value, dropout_p, **options)

    def attend_packed(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seqlens_q: torch.Tensor,
        cu_seqlens_k: torch.Tensor,
        max_seqlen_q: int,
        max_seqlen_k: int,
        dropout_p: float = 0.0,
        **options: Any,
    ):
        """`(tokens of all sentences, heads, head_dim)`; sentence i starts at `cu_seqlens[i]`."""
        lengths = cu_seqlens_q.diff().tolist()
        assert lengths == cu_seqlens_k.diff().tolist() and max(lengths) == max_seqlen_q == max_seqlen_k
        calls.append(lengths)
        sentences = zip(*(tensor.unsqueeze(0).split(lengths, dim=1) for tensor in (query, key, value)), strict=True)
        return torch.cat([_attention(*sentence, dropout_p, **options) for sentence in sentences], dim=1)[0]

    package, padding = ModuleType("flash_attn"), ModuleType("flash_attn.bert_padding")
    package.flash_attn_func, package.flash_attn_varlen_func = attend, attend_packed
    package.flash_attn_with_kvcache = attend
    padding.pad_input = modeling_flash_attention_utils._pad_input
    padding.unpad_input = modeling_flash_attention_utils._unpad_input
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setitem(sys.modules, "flash_attn.bert_padding", padding)
    monkeypatch.setattr(modeling_flash_attention_utils, "is_flash_attn_2_available", lambda: True)
    monkeypatch.setattr(modeling_flash_attention_utils, "_loaded_implementation", None)
    monkeypatch.setattr(PreTrainedModel, "_flash_attn_can_dispatch", lambda *args, **kwargs: True)
    return calls


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = False,
) -> torch.Tensor:
    states = (tensor.transpose(1, 2) for tensor in (query, key, value))
    output = scaled_dot_product_attention(*states, dropout_p=dropout_p, is_causal=causal, scale=softmax_scale)
    return output.transpose(1, 2)
