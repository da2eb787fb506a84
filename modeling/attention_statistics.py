"""Statistics of attention: who is attended to, how far away, and how sharply, without the attention matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .attention_blocks import Block, Gradients, Scores, Settings, first_derivative_only
from .attention_call import AttentionCall, last_rows

OF_KEYS = ("received", "received_max")
# From weights of shape `(..., queries, keys)` and the places of the queries among the keys, `(queries, 1)`.
OF_QUERIES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "entropy": lambda weights, _: -(weights * weights.clamp_min(torch.finfo(weights.dtype).tiny).log()).sum(dim=-1),
    "distance": lambda weights, places: (
        weights * (places - torch.arange(weights.shape[-1], device=weights.device)).abs()
    ).sum(dim=-1),
    "peak": lambda weights, _: weights.amax(dim=-1),
    "square": lambda weights, _: weights.square().sum(dim=-1),
}
STATISTICS = (*OF_KEYS, *OF_QUERIES)


def received_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    is_causal: bool = False,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    last_queries: int | None = None,
) -> torch.Tensor:
    r"""
    The attention that each token receives: the column sums r_j = Σ_i P_ij of each head over the real tokens i (Eq. 8
    of the attention-guiding paper), where P is the softmax before dropout. They are computed a block of scores at a
    time, and again in the backward pass: memory grows linearly in the tokens.

    Queries and keys may differ in number, as in decoding with a cache: the queries are the last of the keys.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, queries, head_dim)`): Queries.
        key (`torch.Tensor` of shape `(batch, key_heads, keys, head_dim)`):
            Keys; `heads` is a multiple of `key_heads` (grouped-query attention).
        attention_mask (`torch.Tensor`, *optional*):
            1 or true at real tokens, of shape `(batch, keys)`. Or which query sees which key, of shape
            `(batch, heads, queries, keys)`: booleans, or floats to add to the scores. All sizes but the last may be
            1. With as many queries as keys, a token that does not see itself is padding; else a query that sees no
            key is.
        scaling (`float`, *optional*): Factor of the scores; 1/√head_dim if `None`.
        is_causal (`bool`, *optional*, defaults to `False`): Whether a token sees only itself and those before it.
        position_bias (`torch.Tensor`, *optional*):
            Added to the scores, of shape `(batch, heads, queries, keys)`; all sizes may be 1. It gets a gradient.
        softcap (`float`, *optional*): c, if the scores are c·tanh(score / c), as in Gemma 2.
        sinks (`torch.Tensor`, *optional*):
            The score of one more key that takes a share of the softmax and has no value, as in GPT-OSS. Of shape
            `(heads,)`, or `(batch, heads, queries, 1)` where the sizes may be 1. It gets a gradient.
        last_queries (`int`, *optional*): Only the last real queries of this number count (SnapKV's window).

    Returns:
        `torch.Tensor` of shape `(batch, heads, keys)`: In float32, or in float64 if the queries are; half precision
        is computed in float32. Zero at padding. Without sinks, each head sums to the number of queries that count.

    Raises:
        ValueError: `query` and `key` do not have four dimensions, differ in batch or head_dim, or `heads` is not a
            multiple of `key_heads`; `attention_mask`, `position_bias` or `sinks` has none of the shapes and types
            above; there are more queries than keys under a causal mask or one of `(batch, keys)`; or `last_queries`
            is not positive.
        RuntimeError: The result is differentiated twice.
    """
    call = AttentionCall.of(query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks)
    return call._replace(queries=last_rows(call.queries, last_queries)).sums()


def attention_statistics(
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    scaling: float | None = None,
    is_causal: bool = False,
    statistics: Sequence[str] = ("received",),
    bands: Sequence[int] = (),
    columns: torch.Tensor | None = None,
    last_queries: int | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
    places: torch.Tensor | None = None,
) -> dict[str, torch.Tensor]:
    r"""
    Statistics of the attention weights P_ij = softmax_j(scaling · q_i·k_j) before dropout; sums over i run over the
    real queries. They are computed a block of scores at a time, and again in the backward pass: memory grows linearly
    in the tokens.

    | name | formula | shape |
    | --- | --- | --- |
    | `"received"` | Σ_i P_ij, as [`received_attention`] | `(batch, heads, keys)` |
    | `"received_max"` | max_i P_ij | `(batch, heads, keys)` |
    | `"entropy"` | −Σ_j P_ij ln P_ij, in nats | `(batch, heads, queries)` |
    | `"distance"` | Σ_j P_ij \|i − j\|, in tokens | `(batch, heads, queries)` |
    | `"peak"` | max_j P_ij | `(batch, heads, queries)` |
    | `"square"` | Σ_j P_ij² | `(batch, heads, queries)` |
    | `"bands"` | P_{i, i+o} for each o of `bands`; 0 beyond the text | `(batch, heads, queries, len(bands))` |
    | `"columns"` | Σ_j P_ij c_j for each set c of `columns` | `(batch, heads, queries, sets)` |
    | `"distances"` | Σ P_ij over \|p_i − p_j\| = 0, 1, ..., for `places` p | `(batch, heads, keys)` |

    Queries and keys may differ in number, as in decoding with a cache: the queries are the last of the keys, so query
    i is token i + keys − queries. Keys at the end that a four-dimensional mask hides from all queries do not count:
    they are the room of a static cache. This is self-attention only.

    Args:
        query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks: See [`received_attention`]. With
            sinks, a row of P sums to less than 1.
        statistics (`Sequence[str]`, *optional*, defaults to `("received",)`): Names of the first six rows above.
        bands (`Sequence[int]`, *optional*, defaults to `()`): Offsets: −1 is the previous token, 1 the next one.
        columns (`torch.Tensor` of shape `(batch, sets, keys)`, *optional*):
            Sets of keys, such as delimiters: booleans, or weights, which get a gradient. The batch may be 1.
        last_queries (`int`, *optional*): Only the last real queries of this number count (SnapKV's window).
        places (`torch.LongTensor` of shape `(batch, keys)`, *optional*):
            The place of each token in the text, below the number of keys; −1 for tokens that are left out.

    Returns:
        `dict[str, torch.Tensor]`: What `statistics` names, `"bands"` if there are bands, `"columns"` if there are
        sets, and `"distances"` if there are places. In float32, or in float64 if the queries are. Zero at queries
        that do not count and at keys that are padding.

    Raises:
        ValueError: `statistics` has an unknown name or asks for nothing; `columns` is not `(batch, sets, keys)`, or
            `places` not `(batch, keys)`; there are more queries than keys; or as in [`received_attention`].
        RuntimeError: The result is differentiated twice.

    Example:

    ```python
    >>> import torch
    >>> from msattn import attention_statistics

    >>> query, key = torch.randn(2, 1, 12, 4096, 64)
    >>> found = attention_statistics(query, key, is_causal=True, statistics=("entropy", "distance"), bands=(-1,))
    >>> {name: tuple(statistic.shape) for name, statistic in found.items()}
    {'entropy': (1, 12, 4096), 'distance': (1, 12, 4096), 'bands': (1, 12, 4096, 1)}
    ```
    """
    call = AttentionCall.of(query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks)
    return Statistics(statistics, bands, columns, last_queries, places).of_call(call)


class Statistics(NamedTuple):
    """
    The statistics to compute: see [`attention_statistics`] for the arguments. `before`, the number of keys before the
    first query, is set by the call.
    """

    statistics: Sequence[str] = ("received",)
    bands: Sequence[int] = ()
    columns: torch.Tensor | None = None
    last_queries: int | None = None
    places: torch.Tensor | None = None
    before: int = 0

    def of_call(self, call: AttentionCall) -> dict[str, torch.Tensor]:
        """Those of an attention function's arguments."""
        query, key, bias, sinks, mask, settings = call.scores
        asked = self._checked(query, key)._replace(before=_keys_before(call))
        rows = last_rows(call.queries, self.last_queries)
        # The blocks begin at the first query that counts.
        first = 0 if self.last_queries is None else int(rows.flatten(0, -2).any(dim=0).int().argmax())
        with torch.autocast(query.device.type, enabled=False):  # autocast would sum in bfloat16
            values = _Statistics.apply(query, key, bias, sinks, asked.columns, mask, rows, asked, settings, first)
        found = zip(asked.names, values, strict=False)
        return {name: _of_real(name, value, call.keys) for name, value in found}

    def of_maps(self, maps: torch.Tensor, real: torch.Tensor, *_: torch.Tensor) -> dict[str, torch.Tensor]:
        """
        Those of whole attention maps, for models that return nothing else.

        Args:
            maps (`torch.Tensor` of shape `(batch, heads, tokens, tokens)`): Attention weights, queries before keys.
            real (`torch.BoolTensor` of shape `(batch, tokens)`): True at real tokens that count.
            *_: All real tokens, which a reader hands on, and no statistic needs.
        """
        asked = self._checked(maps, maps)
        weights = maps.to(torch.promote_types(maps.dtype, torch.float32))
        weights = weights * last_rows(real[:, None], self.last_queries).unsqueeze(-1)
        top = weights.argmax(dim=-2) if "received_max" in self.statistics else None
        whole = Block(slice(None), slice(None), slice(0, maps.shape[-1]), slice(None))
        found = _of_block(whole, weights, asked.columns, top, asked)
        return {name: _of_real(name, found[name], real[:, None]) for name in asked.names}

    @property
    def names(self) -> tuple[str, ...]:
        """All that is returned, in this order."""
        more = {"bands": bool(self.bands), "columns": self.columns is not None, "distances": self.places is not None}
        named = (name for name in STATISTICS if name in self.statistics)
        return (*named, *(name for name, wanted in more.items() if wanted))

    def _checked(self, query: torch.Tensor, key: torch.Tensor) -> Statistics:
        """The same for these queries and keys, with columns for every example."""
        columns, places = self.columns, self.places
        unknown = [name for name in self.statistics if name not in STATISTICS]
        if unknown or not self.names:
            raise ValueError(f"statistics must be some of {', '.join(STATISTICS)}, got {tuple(unknown)}")
        batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
        if queries > keys:
            raise ValueError(f"there must not be more queries than keys, got {queries} and {keys}")
        if places is not None and places.shape != (batch, keys):
            raise ValueError(f"places must be {(batch, keys)}, got {tuple(places.shape)}")
        if columns is None:
            return self
        if columns.dim() != 3 or columns.shape[0] not in (1, batch) or columns.shape[2] != keys:
            raise ValueError(
                f"columns must be (batch, sets, keys) = {(batch, 'sets', keys)}, got {tuple(columns.shape)}"
            )
        columns = columns.to(query.device, torch.promote_types(query.dtype, torch.float32))
        return self._replace(columns=columns.expand(batch, -1, -1))


#: What is read by default.
RECEIVED = Statistics()


class _Statistics(torch.autograd.Function):
    """Computes statistics, and their gradient, block by block."""

    @staticmethod
    def forward(
        query: torch.Tensor,
        key: torch.Tensor,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        columns: torch.Tensor | None,
        mask: torch.Tensor | None,
        rows: torch.Tensor,
        asked: Statistics,
        settings: Settings,
        first: int,
    ) -> tuple[torch.Tensor, ...]:
        scores = Scores(query, key, bias, sinks, mask, settings).in_full()
        found = {}
        last = {"bands": [len(asked.bands)], "columns": [] if columns is None else [columns.shape[1]]}
        for name in asked.names:
            count = (key if name in (*OF_KEYS, "distances") else query).shape[2]
            found[name] = scores.query.new_zeros(*query.shape[:2], count, *last.get(name, []))
        top = torch.zeros_like(found["received_max"], dtype=torch.long) if "received_max" in found else None
        for block, part in scores.blocks(first):
            weights = part.weights(block.queries.start)[0] * block.of(rows.unsqueeze(-1))
            if top is not None:
                most, index = weights.max(dim=-2)
                more = most > block.columns(found["received_max"])
                block.columns(top)[more] = index[more] + block.queries.start
            for name, value in _of_block(block, weights, _columns_of(columns, block), top, asked).items():
                whole = _part_of(name, found[name], block)
                if name == "received_max":
                    value = whole.maximum(value)
                elif name in ("received", "distances"):
                    value = whole + value
                whole.copy_(value)
        return (*found.values(), *([] if top is None else [top]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple[torch.Tensor, ...]) -> None:
        *tensors, ctx.asked, ctx.settings, ctx.first = inputs
        top = output[-1] if "received_max" in ctx.asked.statistics else None
        if top is not None:
            ctx.mark_non_differentiable(top)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, top)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        query, key, bias, sinks, columns, mask, rows, top = ctx.saved_tensors
        pairs = zip(ctx.asked.names, gradients, strict=False)
        given = {name: gradient for name, gradient in pairs if gradient is not None}
        if not given:
            return (None,) * 10
        scores = Scores(query, key, bias, sinks, mask, ctx.settings).in_full()
        totals = Gradients.of(scores, ctx.needs_input_grad[2:4])
        totals.query[:, :, : ctx.first] = 0
        of_columns = torch.zeros_like(columns) if ctx.needs_input_grad[4] and "columns" in given else None
        for block, part in scores.blocks(ctx.first):
            weights, capped = part.weights(block.queries.start)
            leaf = weights.detach().requires_grad_()
            with torch.enable_grad():
                kept = leaf * block.of(rows.unsqueeze(-1))
                found = _of_block(block, kept, _columns_of(columns, block), top, ctx.asked)
            of_found = {name: _part_of(name, gradient, block) for name, gradient in given.items()}
            (gradient,) = torch.autograd.grad([found[name] for name in given], leaf, list(of_found.values()))
            if of_columns is not None:
                _columns_of(of_columns, block).add_((of_found["columns"].mT @ kept).sum(dim=1))
            totals.add(block, part, gradient, weights, capped)
        return (*totals.like(query, key, bias, sinks), of_columns, None, None, None, None, None)


def _keys_before(call: AttentionCall) -> int:
    """The number of keys before the first query. A static cache has room behind the last one, which no query sees."""
    queries, keys = call.scores.query.shape[2], call.scores.key.shape[2]
    if queries == keys or call.keys is not None or call.scores.mask is None:
        return keys - queries
    seen = call.real.any(dim=0).nonzero()
    return max(int(seen.max()) + 1 - queries, 0) if len(seen) else keys - queries


def _columns_of(columns: Any, block: Block) -> Any:
    """The part of the sets of keys that a block needs."""
    return None if columns is None else columns[block.examples, :, block.keys]


def _of_real(name: str, statistic: torch.Tensor, keys: torch.Tensor | None) -> torch.Tensor:
    """The statistic, zero at keys that are padding."""
    return statistic if keys is None or name not in OF_KEYS else statistic * keys


def _part_of(name: str, statistic: torch.Tensor, block: Block) -> torch.Tensor:
    """The part of a statistic that a block adds to."""
    if name == "distances":
        return statistic[block.examples, block.heads]
    return (block.columns if name in OF_KEYS else block.rows)(statistic)


def _of_block(
    block: Block,
    weights: torch.Tensor,
    columns: torch.Tensor | None,
    top: torch.Tensor | None,
    asked: Statistics,
) -> dict[str, torch.Tensor]:
    """
    The statistics of a block.

    Args:
        block, weights, columns: The block, its weights, and its part of the sets of keys.
        top (`torch.LongTensor` of shape `(batch, heads, keys)`, *optional*): The query that attends most to each key.
        asked (`Statistics`): The statistics to compute.
    """
    count, keys = weights.shape[-2:]
    first, before, device = block.queries.start, asked.before, weights.device
    places = torch.arange(count, device=device).unsqueeze(-1) + first + before
    found = {name: of_rows(weights, places) for name, of_rows in OF_QUERIES.items() if name in asked.statistics}
    if "received" in asked.statistics:
        found["received"] = weights.sum(dim=-2)
    if top is not None:
        row = block.columns(top).unsqueeze(-2) - first
        here = (row >= 0) & (row < count)
        found["received_max"] = (weights.gather(-2, row.clamp(0, count - 1)) * here).squeeze(-2)
    if asked.bands:
        others = (places + torch.tensor(asked.bands, device=device)).expand(*weights.shape[:2], -1, -1)
        inside = (others >= 0) & (others < keys)
        found["bands"] = weights.gather(-1, others.clamp(0, keys - 1)) * inside
    if columns is not None:
        found["columns"] = weights @ columns.mT.unsqueeze(1)
    if asked.places is not None:
        every = asked.places[block.examples]
        own, other = every[:, before + first : before + first + count, None], every[:, None, :keys]
        kept = weights * ((own >= 0) & (other >= 0)).unsqueeze(1)
        gaps = (own - other).abs().flatten(1).clamp_max(every.shape[1] - 1)
        found["distances"] = weights.new_zeros(*weights.shape[:2], every.shape[1]).scatter_add(
            -1, gaps.unsqueeze(1).expand(-1, weights.shape[1], -1), kept.flatten(2)
        )
    return found
