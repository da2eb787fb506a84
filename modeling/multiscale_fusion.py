"""Multi-scale fusion self-attention: words attend to words and to phrases, and a mask chooses between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

try:
    from entmax import entmax15
except ImportError:  # only mask_mode="entmax" needs it
    entmax15 = None

MASK_MODES = ("hard", "ste", "sigmoid", "entmax", "none")
CONV_ALIGNMENTS = ("causal", "same")


class MultiScaleFusion(nn.Module):
    r"""
    One layer of multi-scale fusion self-attention (Eq. 3-19 of "Multi-scale fusion self attention mechanism", 2021).

    Convolutions of width k build phrases from the hidden states. Each word attends to words and phrases. A second
    query/key pair chooses between them for each (word, position): the word, if its attention is above the uniform
    level 1/n of the n real tokens of the sentence, and the phrases otherwise. The layer works on the hidden states of
    any encoder.

    Args:
        hidden_size (`int`): Width d of the hidden states.
        scales (`Sequence[int]`): Phrase lengths k, one convolution each. Empty for words only.
        num_heads (`int`, *optional*, defaults to 1): Attention heads, each with its own mask. The paper has one.
        mask_mode (`str`, *optional*, defaults to `"hard"`):
            - `"hard"`: 1[CUT > 1/n] (Eq. 13). A step has no gradient, so `mask_query` and `mask_key` never learn.
            - `"ste"`: the values of `"hard"` with the gradient of `"sigmoid"` (straight-through estimator).
            - `"sigmoid"`: sigmoid((n CUT - 1) / mask_temperature).
            - `"entmax"`: min(1, n p), where p is the 1.5-entmax instead of the softmax of Eq. 12.
            - `"none"`: no mask.
        conv_alignment (`str`, *optional*, defaults to `"causal"`):
            Whether phrase j covers the words j-k+1..j (`"causal"`, Eq. 3) or is centred on j (`"same"`).
        mask_temperature (`float`, *optional*, defaults to 0.1): Temperature of `"ste"` and `"sigmoid"`.
        renormalize (`bool`, *optional*, defaults to `False`): Whether to scale each row of Eq. 17 to a sum of 1.

    Raises:
        ValueError: `mask_mode` or `conv_alignment` is unknown.
        ImportError: `mask_mode` is `"entmax"` and the package `entmax` is not installed.

    Example:

    ```python
    >>> fusion = MultiScaleFusion(hidden_size=64, scales=(3, 5))
    >>> output, attentions = fusion(torch.randn(2, 10, 64), output_attentions=True)
    >>> output.shape, attentions.shape
    (torch.Size([2, 10, 64]), torch.Size([2, 1, 10, 30]))
    ```
    """

    def __init__(
        self,
        hidden_size: int,
        scales: Sequence[int],
        num_heads: int = 1,
        mask_mode: str = "hard",
        conv_alignment: str = "causal",
        mask_temperature: float = 0.1,
        renormalize: bool = False,
    ):
        super().__init__()
        if mask_mode not in MASK_MODES or conv_alignment not in CONV_ALIGNMENTS:
            raise ValueError(
                f"mask_mode must be one of {MASK_MODES} and conv_alignment one of {CONV_ALIGNMENTS}, got "
                f"{mask_mode!r} and {conv_alignment!r}"
            )
        if mask_mode == "entmax" and entmax15 is None:
            raise ImportError('mask_mode="entmax" needs the package entmax: pip install entmax')
        self.scales = tuple(scales)
        self.num_heads = num_heads
        self.scaling = (hidden_size // num_heads) ** -0.5
        self.mask_mode = mask_mode
        self.conv_alignment = conv_alignment
        self.mask_temperature = mask_temperature
        self.renormalize = renormalize

        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.value = nn.Linear(hidden_size, hidden_size, bias=False)
        self.mask_query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.mask_key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.convs = nn.ModuleList(nn.Conv1d(hidden_size, hidden_size, scale, bias=False) for scale in scales)
        self.freeze_unreachable()

    def freeze_unreachable(self) -> None:
        """Freeze the weights that get no gradient; otherwise `DistributedDataParallel` would wait for one."""
        if self.mask_mode in ("hard", "none"):
            self.mask_query.requires_grad_(False)
            self.mask_key.requires_grad_(False)

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        output_attentions: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        Args:
            hidden_states (`torch.Tensor` of shape `(batch, tokens, hidden_size)`): Hidden states H of the encoder.
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.
            output_attentions (`bool`, *optional*, defaults to `False`): Return the attention as well.

        Returns:
            The output S (Eq. 19) of shape `(batch, tokens, hidden_size)`, and ATTfin (Eq. 17) of shape
            `(batch, heads, tokens, (1 + len(scales)) * tokens)` or `None`. ATTfin holds the weights of the words, then
            those of the phrases of each scale. Both are zero at padding.
        """
        batch, tokens, _ = hidden_states.shape
        if attention_mask is None:
            real = hidden_states.new_ones(batch, tokens, dtype=torch.bool)
        else:
            real = attention_mask.bool()
        padding = ~real.unsqueeze(-1)

        # The output of an encoder at padding is not zero and would leak into the phrases beside it.
        words = hidden_states.masked_fill(padding, 0)
        phrases = [self._convolve(conv, width, words) for conv, width in zip(self.convs, self.scales, strict=True)]
        stack = torch.cat([words, *phrases], dim=1) if phrases else words

        attention = self._attention(words, stack, real)
        if output_attentions:
            attention = attention.masked_fill(padding.unsqueeze(1), 0)
        if self.num_heads == 1:
            # Eq. 18 and 19 as (ATTfin [H; Hc]) W^V: one projection instead of 1 + S.
            output = self.value(attention.squeeze(1) @ stack)
        else:
            value = self._split_heads(self.value(stack))  # Eq. 18
            output = (attention @ value).transpose(1, 2).flatten(-2)  # Eq. 19
        output = output.masked_fill(padding, 0)
        return output, attention if output_attentions else None

    def _attention(self, words: torch.Tensor, stack: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """ATTfin, `(batch, heads, tokens, (1 + scales) * tokens)` (Eq. 17), of words and the stack of both."""
        query = self._split_heads(self.query(words))  # Eq. 5
        key = self._split_heads(self.key(stack))  # Eq. 6 and 7
        # (batch, heads, tokens, 1 + scales, tokens): words and each scale have their own softmax, Eq. 8 and 9
        scores = (query @ key.transpose(-1, -2) * self.scaling).unflatten(-1, (-1, words.shape[1]))
        attention = _masked(scores, real[:, None, None, None]).softmax(dim=-1)
        attention = self._gate(attention, words, real)
        if self.renormalize:
            total = attention.sum(dim=(-1, -2), keepdim=True)
            attention = attention / total.clamp_min(torch.finfo(total.dtype).tiny)
        return attention.flatten(-2).to(key.dtype)

    def _convolve(self, conv: nn.Module, width: int, words: torch.Tensor) -> torch.Tensor:
        """Phrases of one scale, `(batch, tokens, hidden_size)` (Eq. 3 and 4)."""
        left = width - 1 if self.conv_alignment == "causal" else width // 2
        padded = nn.functional.pad(words.transpose(1, 2), (left, width - 1 - left))
        if torch.compiler.is_compiling() and type(conv) is nn.Conv1d:
            # The compiled gradient of a convolution is valid for one length, and every length would be compiled.
            windows = padded.unfold(-1, width, 1).transpose(1, 2).flatten(-2)
            return windows @ conv.weight.flatten(1).T
        return conv(padded).transpose(1, 2)

    def _split_heads(self, states: torch.Tensor) -> torch.Tensor:
        return states.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def _gate(self, attention: torch.Tensor, words: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Multiply words by the mask and phrases by its complement (Eq. 10-16)."""
        if self.mask_mode == "none":
            return attention
        # The hard mask is a step function, which passes no gradient on.
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.mask_mode != "hard"):
            query = self._split_heads(self.mask_query(words))
            key = self._split_heads(self.mask_key(words))
            cut = _masked(query @ key.transpose(-1, -2) * self.scaling, real[:, None, None])
            # Attention is often close to uniform, and half precision cannot tell on which side of 1/n it is.
            cut = cut.float() if cut.dtype in (torch.float16, torch.bfloat16) else cut
            cut = entmax15(cut, dim=-1) if self.mask_mode == "entmax" else cut.softmax(dim=-1)  # Eq. 12
            relative = cut * real.sum(dim=-1)[:, None, None, None]  # n CUT, where 1 is the uniform level
        num_scales = attention.shape[-2] - 1
        if self.mask_mode == "hard":
            open_words = relative.unsqueeze(-2) > 1  # Eq. 13
            return attention.where(torch.cat([open_words] + [~open_words] * num_scales, dim=-2), 0)  # Eq. 14-16
        if self.mask_mode == "entmax":
            mask = relative.clamp_max(1)
        else:
            mask = torch.sigmoid((relative - 1) / self.mask_temperature)
            if self.mask_mode == "ste":
                mask = (relative > 1).to(mask.dtype) + (mask - mask.detach())
        mask = mask.to(attention.dtype).unsqueeze(-2)
        return attention * torch.cat([mask] + [1 - mask] * num_scales, dim=-2)  # Eq. 14-16


class FusionStack(nn.ModuleList):
    """
    The fusion layers of a model, each on the output of the one below.

    Args:
        config (`PreTrainedConfig`): With the fields of [`FusionSettings`] and `hidden_size`.
    """

    # Transformers sets both on every module that has the first, once checkpointing is enabled.
    gradient_checkpointing = False
    _gradient_checkpointing_func: Callable

    def __init__(self, config: Any):
        super().__init__(
            MultiScaleFusion(
                config.hidden_size,
                config.scales,
                num_heads=config.fusion_heads,
                mask_mode=config.mask_mode,
                conv_alignment=config.conv_alignment,
                mask_temperature=config.mask_temperature,
                renormalize=config.renormalize,
            )
            for _ in range(config.fusion_layers)
        )
        self.config = config

    def freeze_unreachable(self) -> None:
        """Freeze the weights that get no gradient, of every layer."""
        for layer in self:
            layer.freeze_unreachable()  # type: ignore[operator]

    def forward(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, output_attentions: bool | None = False
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]:
        """
        Args:
            hidden_states (`torch.Tensor` of shape `(batch, tokens, hidden_size)`): Hidden states of the encoder.
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.
            output_attentions (`bool`, *optional*, defaults to `False`): Return the attention of every layer as well.

        Returns:
            The states after the last layer, and the attention of every layer or `None`; see [`MultiScaleFusion`].
        """
        attentions = []
        for layer in self:
            inputs = (hidden_states, attention_mask, bool(output_attentions))
            if self.gradient_checkpointing and self.training:
                fusion, attention = self._gradient_checkpointing_func(layer.__call__, *inputs)
            else:
                fusion, attention = layer(*inputs)
            hidden_states = hidden_states + fusion if self.config.fusion_residual else fusion
            attentions.append(attention)
        return hidden_states, tuple(attentions) if output_attentions else None


def _masked(scores: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """Hide padded keys from a softmax. The number is finite, so that a sentence of only padding gives no NaN."""
    return scores.masked_fill(~real, torch.finfo(scores.dtype).min)
