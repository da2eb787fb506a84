"""The arguments of an attention function, checked, and what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import dropout as drop
from transformers.integrations.sdpa_attention import repeat_kv

from .attention_blocks import HIDDEN, BlockedAttention, Scores, Settings, block_size, in_full

# A mask that is added to the scores hides a key by a number below this, in every dtype.
MASKED = -1e4


class AttentionRefused(ValueError):
    """The attention of a model is not only what its queries, keys and mask say. The message names the way out."""


class AttentionCall(NamedTuple):
    """
    Attention that is to be computed, with a key and a value for every head.

    Args:
        scores (`Scores`): What makes the weights.
        value (`torch.Tensor` of shape `(batch, heads, keys, value_dim)`): Values; of width 0 if there are none.
        queries (`torch.BoolTensor`): True at queries that count; broadcasts to `(batch, heads, queries)`.
        keys (`torch.BoolTensor`, *optional*): True at real keys; broadcasts to `(batch, heads, keys)`.
    """

    scores: Scores
    value: torch.Tensor
    queries: torch.Tensor
    keys: torch.Tensor | None

    @classmethod
    def of(
        cls,
        query: torch.Tensor,
        key: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        scaling: float | None = None,
        is_causal: bool = False,
        position_bias: torch.Tensor | None = None,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
        dropout: float = 0.0,
        cross: bool = False,
    ) -> AttentionCall:
        """
        The call of a function of queries and keys; see [`received_attention`] for the arguments.

        Raises:
            ValueError: As in [`received_attention`].
        """
        fits = query.dim() == key.dim() == 4 and query.shape[0] == key.shape[0] and query.shape[-1] == key.shape[-1]
        if not fits or query.shape[1] % key.shape[1]:
            raise ValueError(
                "query must be (batch, heads, queries, head_dim) and key (batch, key_heads, keys, head_dim), got "
                f"{tuple(query.shape)} and {tuple(key.shape)}"
            )
        batch, heads, count, width = query.shape
        shape = (batch, heads, count, key.shape[2])
        offset = shape[3] - count
        if is_causal and offset < 0:
            raise ValueError(f"causal attention must not have more queries than keys, got {count} and {shape[3]}")
        mask, queries, keys = _counted(query, attention_mask, shape, cross)
        if position_bias is not None and not (_broadcasts(position_bias, shape) and position_bias.is_floating_point()):
            raise ValueError(
                f"position_bias must be decimals of {shape}, where 1 may stand for all; got {position_bias.dtype} "
                f"{tuple(position_bias.shape)}"
            )
        if sinks is not None:
            four = sinks.view(1, -1, 1, 1) if sinks.dim() == 1 else sinks
            if not _broadcasts(four, (*shape[:3], 1)):
                raise ValueError(f"sinks must be {(heads,)} or {(*shape[:3], 1)}, got {tuple(sinks.shape)}")
            sinks = four
        if mask is not None and mask.requires_grad:  # learned, as in BEiT and Swin: a bias has a gradient
            position_bias, mask = mask if position_bias is None else position_bias + mask, None
        settings = Settings(
            width**-0.5 if scaling is None else scaling,
            softcap,
            offset if is_causal else None,
            dropout,
            block=block_size(query.device),
        )
        groups = heads // key.shape[1]
        value = repeat_kv(key[..., :0].detach() if value is None else value, groups)
        return cls(Scores(query, repeat_kv(key, groups), position_bias, sinks, mask, settings), value, queries, keys)

    @classmethod
    def of_layer(
        cls,
        module: nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        is_causal: bool | None = None,
        position_bias: torch.Tensor | None = None,
        **softmax: Any,
    ) -> AttentionCall:
        """The call of an attention layer, whose attributes give defaults."""
        causal = attention_mask is None and query.shape[2] > 1 and is_causal_layer(module, is_causal)
        if causal and key.shape[2] > query.shape[2]:
            # A prompt in a cache that has room for more sees as many keys as it has tokens.
            key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]
            position_bias = None if position_bias is None else position_bias[..., : query.shape[2]]
        options: Any = {"position_bias": position_bias, "value": value, "cross": is_cross_attention(module)}
        return cls.of(query, key, attention_mask, is_causal=causal, **options, **softmax)

    @property
    def real(self) -> torch.Tensor:
        """True at real keys, `(batch, keys)`."""
        mask, key = self.scores.mask, self.scores.key
        if self.keys is not None:
            real = self.keys.any(dim=1)
        elif mask is None:
            real = key.new_ones(1, key.shape[2], dtype=torch.bool)
        else:
            real = (~mask if mask.dtype == torch.bool else mask > MASKED).any(dim=2).any(dim=1)
        return real.expand(key.shape[0], -1)

    def without(self, tokens: torch.Tensor | None) -> AttentionCall:
        """The same, but these tokens, `(batch, tokens)`, do not count as queries."""
        return self if tokens is None else self._replace(queries=self.queries & ~tokens[:, None])

    def split(self, sizes: Sequence[int]) -> list[AttentionCall]:
        """The same for groups of neighbouring heads, of these sizes."""
        *tensors, settings = self.scores

        def parts(tensor: Any) -> Sequence[Any]:
            # The gradient of a split is one copy, that of slices several.
            same = tensor is None or tensor.shape[1] == 1
            return [tensor] * len(sizes) if same else tensor.split(sizes, dim=1)

        return [
            AttentionCall(Scores(q, k, bias, sinks, mask, settings), k[..., :0], queries, keys)
            for q, k, bias, sinks, mask, queries, keys in zip(
                *map(parts, (*tensors, self.queries, self.keys)), strict=True
            )
        ]

    def output_and_sums(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The output `(batch, queries, heads, value_dim)` and the column sums `(batch, heads, keys)`."""
        settings = self.scores.settings
        if settings.dropout:
            settings = settings._replace(seed=int(torch.empty((), dtype=torch.int64).random_()))
        output, sums = self._blocked(self.value, settings)
        return self._as_output(output), sums

    def sums(self) -> torch.Tensor:
        """The column sums alone, a block of scores at a time."""
        return self._blocked(self.value[..., :0].detach(), self.scores.settings._replace(dropout=0.0))[1]

    def _blocked(self, value: torch.Tensor, settings: Settings) -> tuple[torch.Tensor, torch.Tensor]:
        query, key, bias, sinks, mask, _ = self.scores
        with torch.autocast(query.device.type, enabled=False):  # autocast would sum in bfloat16
            output, sums = BlockedAttention.apply(query, key, value, bias, sinks, mask, self.queries, settings)
        return output, sums if self.keys is None else sums * self.keys

    def maps(self) -> torch.Tensor:
        """The whole maps `(batch, heads, queries, keys)`, before dropout, at least in float32; differentiable."""
        with torch.autocast(self.scores.query.device.type, enabled=False):
            return self.scores.in_full().weights()[0]

    def output_and_maps(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The output and the whole maps, in the dtype of the values; differentiable."""
        weights = self.maps().to(self.value.dtype)
        rate = self.scores.settings.dropout
        return self._as_output((drop(weights, rate) if rate else weights) @ self.value), weights

    def rows(self, positions: torch.Tensor) -> torch.Tensor:
        """
        The attention of chosen tokens, before dropout; differentiable.

        Args:
            positions (`torch.LongTensor` of shape `(batch, rows)`): Queries; the rows of numbers below 0 are zero.

        Returns:
            `torch.Tensor` of shape `(batch, heads, rows, keys)`

        Raises:
            ValueError: The positions are not those of the batch.
        """
        scores = self.scores.in_full()
        batch, keys = scores.query.shape[0], scores.key.shape[2]
        if positions.dim() != 2 or positions.shape[0] != batch:
            raise ValueError(f"rows must be ({batch}, rows), got {tuple(positions.shape)}")
        chosen = positions.clamp_min(0)
        tensors = (scores.query, scores.bias, scores.sinks, scores.mask)
        query, bias, sinks, mask = (_at(one, chosen) for one in tensors)
        if (offset := scores.settings.offset) is not None:
            past = torch.arange(keys, device=positions.device) <= chosen.unsqueeze(-1) + offset
            future = ~past.unsqueeze(1)
            if mask is None or mask.dtype == torch.bool:
                mask = future if mask is None else mask | future
            else:
                mask = in_full(mask).masked_fill(future, HIDDEN)
        settings = scores.settings._replace(offset=None)
        with torch.autocast(positions.device.type, enabled=False):
            weights, _ = Scores(query, scores.key, bias, sinks, mask, settings).weights()
        return (weights * (positions >= 0)[:, None, :, None]).to(self.scores.query.dtype)

    def _as_output(self, output: torch.Tensor) -> torch.Tensor:
        """The output `(batch, queries, heads, width)`; zero for a query that sees no key, as in SDPA."""
        mask = self.scores.mask
        if mask is not None and mask.dtype == torch.bool:
            blind = mask.all(dim=-1, keepdim=True)
            # Looking at it would make the CPU wait for a GPU.
            if not _can_look_at(blind) or blind.any():
                output = output * ~blind
        return output.transpose(1, 2).contiguous()


def refuse_rows(model: nn.Module, keywords: Mapping[str, Any]) -> None:
    """
    For models that take any keyword arguments, and hand none on.

    Raises:
        AttentionRefused: `rows` is among them.
    """
    if keywords.get("rows") is not None:
        raise AttentionRefused(f"{type(model).__name__} hands no keyword arguments on to its layers, such as rows.")


def is_causal_layer(module: nn.Module, is_causal: bool | None = None) -> bool:
    """Whether no mask means a causal one: what the layer was told, else its own attribute."""
    return bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)


def is_cross_attention(module: nn.Module) -> bool:
    """Only the layer knows; its mask does not tell."""
    decoding = getattr(module, "is_decoder", False) and not getattr(module, "is_causal", True)
    return bool(decoding or getattr(module, "is_cross_attention", False) or "Cross" in type(module).__name__)


def last_rows(queries: torch.Tensor, count: int | None) -> torch.Tensor:
    """True at the last real queries of this number; at all of them if it is `None`."""
    if count is None:
        return queries
    if count < 1:
        raise ValueError(f"last_queries must be a positive number, got {count}")
    return queries & (queries.long().flip(-1).cumsum(-1).flip(-1) <= count)


def _counted(
    query: torch.Tensor, attention_mask: torch.Tensor | None, shape: tuple[int, ...], cross: bool
) -> tuple[torch.Tensor | None, torch.Tensor, torch.Tensor | None]:
    """The mask of [`Scores`], and the queries and keys of [`AttentionCall`]."""
    batch, _, count, length = shape
    offset = length - count
    if attention_mask is None:
        return None, query.new_ones(1, 1, count, dtype=torch.bool), None
    if attention_mask.shape == (batch, length) and offset >= 0:
        keys = attention_mask.bool()[:, None]
        return ~keys.unsqueeze(-2), keys[..., offset:], keys
    if not _broadcasts(attention_mask, shape) or attention_mask.shape[-1] != length:
        raise ValueError(
            f"attention_mask must be {(batch, length)}, or booleans or decimals of {shape}, where 1 may stand for "
            f"all but the last; got {attention_mask.dtype} {tuple(attention_mask.shape)}"
        )
    seen = attention_mask if attention_mask.dtype == torch.bool else attention_mask > MASKED
    mask = _one_row(attention_mask)
    # Minus infinity would make a row of it NaN.
    mask = ~mask if mask.dtype == torch.bool else mask.clamp_min(max(HIDDEN, torch.finfo(mask.dtype).min))
    if cross or offset:
        return mask, seen.any(dim=-1).expand(-1, -1, count), None
    keys = seen.squeeze(-2) if seen.shape[-2] == 1 else seen.diagonal(dim1=-2, dim2=-1)
    return mask, keys, keys


def _one_row(mask: torch.Tensor) -> torch.Tensor:
    """A mask that is the same for all queries, as one row."""
    alike = mask.stride(-2) == 0 or (_can_look_at(mask) and bool((mask == mask[..., :1, :]).all()))
    return mask[..., :1, :] if alike else mask


def _can_look_at(tensor: torch.Tensor) -> bool:
    """Whether a value costs nothing to look at: on a GPU it stops the program, and compiled code cannot."""
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def _broadcasts(tensor: torch.Tensor, shape: tuple[int, ...]) -> bool:
    fits = tensor.dim() == 4 and all(size in (1, whole) for size, whole in zip(tensor.shape, shape, strict=True))
    return fits and (tensor.dtype == torch.bool or tensor.is_floating_point())


def _at(tensor: Any, positions: torch.Tensor) -> Any:
    """Rows of a tensor that broadcasts to `(batch, heads, queries, ...)`, or `None` of `None`."""
    if tensor is None or tensor.shape[2] == 1:
        return tensor
    tensor = tensor.expand(positions.shape[0], -1, -1, -1)
    return tensor.gather(2, positions[:, None, :, None].expand(-1, tensor.shape[1], -1, tensor.shape[3]))
