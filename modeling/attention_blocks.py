"""Attention and its column sums, a block of scores at a time: memory grows linearly in the tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any, NamedTuple

import torch

# Scores in a block, by thread: 1 MiB in float32, which stays in the cache. Measured: docs/benchmarks.md.
BLOCK_SCORES = 2**18
# A GPU has no such cache, and every block costs it a launch.
BLOCK_SCORES_ELSEWHERE = 2**25

# The score of a hidden key, in every dtype.
HIDDEN = -1e30


class Settings(NamedTuple):
    """
    The settings of an attention softmax.

    Args:
        scaling (`float`): Factor of the scores.
        softcap (`float`, *optional*): c, if the scores are c·tanh(score / c).
        offset (`int`, *optional*): Query i sees the keys up to i + offset; all of them if `None`.
        dropout (`float`): Dropout of the weights. The column sums are taken before it.
        seed (`int`): Seed of the dropout.
        block (`int`): Scores in a block, over examples, heads, queries and keys.
    """

    scaling: float
    softcap: float | None = None
    offset: int | None = None
    dropout: float = 0.0
    seed: int = 0
    block: int = BLOCK_SCORES


class Block(NamedTuple):
    """A part of the scores: examples, heads, queries, and the keys that these queries may see."""

    examples: slice
    heads: slice
    queries: slice
    keys: slice

    def rows(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part of a tensor of shape `(batch, heads, queries, ...)`."""
        return tensor[self.examples, self.heads, self.queries]

    def columns(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part of a tensor of shape `(batch, heads, keys, ...)`."""
        return tensor[self.examples, self.heads, self.keys]

    def of(self, tensor: Any) -> Any:
        """The part of a tensor that broadcasts to `(batch, heads, queries, keys)`, or `None` of `None`."""
        if tensor is None:
            return None
        return tensor[tuple(slice(None) if size == 1 else part for size, part in zip(tensor.shape, self, strict=True))]


class Scores(NamedTuple):
    """
    What the attention weights are made of.

    Args:
        query (`torch.Tensor` of shape `(batch, heads, queries, head_dim)`): Queries, not scaled.
        key (`torch.Tensor` of shape `(batch, heads, keys, head_dim)`): Keys.
        bias (`torch.Tensor`, *optional*): Added to the capped scores; broadcasts to `(batch, heads, queries, keys)`.
        sinks (`torch.Tensor`, *optional*):
            Scores of one more key that has no value; broadcasts to `(batch, heads, queries, 1)`.
        mask (`torch.Tensor`, *optional*): True at hidden keys, or numbers to add; broadcasts as `bias`.
        settings (`Settings`): What else makes the weights.
    """

    query: torch.Tensor
    key: torch.Tensor
    bias: torch.Tensor | None
    sinks: torch.Tensor | None
    mask: torch.Tensor | None
    settings: Settings

    def in_full(self) -> Scores:
        """At least float32: sums over many tokens, and scores, lose too much in half precision."""
        return self._replace(query=in_full(self.query), key=in_full(self.key))

    def of(self, block: Block) -> Scores:
        """The part that a block needs."""
        query, key = block.rows(self.query), block.columns(self.key)
        return Scores(query, key, block.of(self.bias), block.of(self.sinks), block.of(self.mask), self.settings)

    def blocks(self, first: int = 0, every_key: bool = False) -> Iterator[tuple[Block, Scores]]:
        """
        Whole examples if they are small, else whole heads, else rows of one head, from the first query that counts;
        with the keys that they may see, or every key.
        """
        batch, heads, queries, _ = self.query.shape
        keys, size, offset = self.key.shape[2], self.settings.block, self.settings.offset
        rows = min(queries - first, max(1, size // keys))
        heads_at_once = min(heads, max(1, size // (rows * keys)))
        examples = max(1, size // (heads * rows * keys)) if heads_at_once == heads else 1
        for example in range(0, batch, examples):
            for head in range(0, heads, heads_at_once):
                for start in range(first, queries, rows):
                    stop = min(start + rows, queries)
                    seen = keys if offset is None or every_key else max(1, min(keys, stop + offset))
                    parts = ((example, example + examples), (head, head + heads_at_once), (start, stop), (0, seen))
                    block = Block(*(slice(*part) for part in parts))
                    yield block, self.of(block)

    def weights(self, first: int = 0) -> tuple[torch.Tensor, torch.Tensor | None]:
        """
        The attention weights before dropout; differentiable.

        Args:
            first (`int`): Position of the first query.

        Returns:
            The weights `(batch, heads, queries, keys)` and, with a soft cap, the capped scores.
        """
        settings, mask, added = self.settings, self.mask, self.query.new_zeros(1)
        if mask is not None and mask.shape[-2] == 1 and settings.softcap is None:
            # The product starts from a mask that is the same for all queries: cheaper than a pass over the scores.
            added = mask.to(added.dtype) * HIDDEN if mask.dtype == torch.bool else mask.to(added.dtype)
            added = added.expand(*self.key.shape[:2], 1, -1).flatten(0, 1)
            mask = None
        query, key = self.query.flatten(0, 1), self.key.flatten(0, 1)
        scores = torch.baddbmm(added, query, key.mT, alpha=settings.scaling).unflatten(0, self.key.shape[:2])
        capped = None
        if settings.softcap is not None:
            capped = (scores / settings.softcap).tanh() * settings.softcap
            scores = capped.clone()
        if self.bias is not None:
            scores = scores.add_(self.bias)
        # Not minus infinity: a row without a visible key, which belongs to padding, must not become NaN.
        lowest = torch.finfo(scores.dtype).min
        if mask is not None:
            scores = scores.masked_fill_(mask, lowest) if mask.dtype == torch.bool else scores.add_(mask)
        if settings.offset is not None and (start := first + settings.offset + 1) < scores.shape[-1]:
            future = torch.ones(scores.shape[-2], scores.shape[-1] - start, dtype=torch.bool, device=scores.device)
            scores[..., start:].masked_fill_(future.triu_(), lowest)
        if self.sinks is None:
            return scores.softmax(dim=-1), capped
        scores = torch.cat([scores, self.sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)], dim=-1)
        return scores.softmax(dim=-1)[..., :-1], capped


class Gradients(NamedTuple):
    """What blocks add to: the gradients of the queries, the keys, and of what is added to the scores."""

    query: torch.Tensor
    key: torch.Tensor
    bias: torch.Tensor | None
    sinks: torch.Tensor | None

    @classmethod
    def of(cls, scores: Scores, needed: Sequence[bool]) -> Gradients:
        """Zeros, but for those of the queries; `needed` says whether bias and sinks have a gradient."""
        added = [
            torch.zeros_like(tensor, dtype=scores.query.dtype) if tensor is not None and wanted else None
            for tensor, wanted in zip((scores.bias, scores.sinks), needed, strict=True)
        ]
        return cls(_by_token(scores.query, scores.query.shape[3]), zeros_in_columns(scores.key), *added)

    def add(
        self, block: Block, part: Scores, gradient: torch.Tensor, weights: torch.Tensor, capped: torch.Tensor | None
    ) -> None:
        """Adds those of a block, given the gradient of its weights."""
        gradient = torch.ops.aten._softmax_backward_data(gradient, weights, -1, gradient.dtype)
        if self.sinks is not None:
            # P sums to 1 less the sink's share s, and dS to sum P dP - (1 - s) sum P dP: the sink's is the rest.
            _add_part(block.of(self.sinks), -gradient.sum(dim=-1, keepdim=True))
        if self.bias is not None:
            _add_part(block.of(self.bias), gradient)
        if capped is not None and part.settings.softcap is not None:
            gradient = gradient * (1 - (capped / part.settings.softcap).square())
        block.rows(self.query).copy_(gradient @ part.key).mul_(part.settings.scaling)
        add_product(block.columns(self.key), gradient, part.query, part.settings.scaling)

    def like(self, *tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
        """The same in the dtypes of the inputs: queries, keys, bias and sinks."""
        pairs = zip(self, tensors, strict=True)
        return [None if one is None or tensor is None else one.to(tensor.dtype) for one, tensor in pairs]


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """
    A decorator for the `backward` of a `torch.autograd.Function`: a second derivative raises an error.

    `torch.autograd.function.once_differentiable` is silent where the incoming gradient is a constant, as for a loss
    that is linear in the output: the second derivative is then taken to be zero.

    Args:
        backward (`Callable`): The method `backward(ctx, *gradients)`, which returns a tuple.

    Returns:
        `Callable`: The method. With `create_graph=True`, differentiating its results raises `RuntimeError`.
    """

    @wraps(backward)
    def checked(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        device = next((one.device.type for one in gradients if one is not None), "cpu")
        with torch.no_grad(), torch.autocast(device, enabled=False):  # autograd keeps the autocast of the caller
            results = backward(ctx, *gradients)
        # torch.compile refuses second derivatives itself.
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return results
        for one in results:
            if one is not None:
                one.requires_grad_().register_hook(_refuse)
        return results

    return checked


def _refuse(gradient: torch.Tensor) -> None:
    raise RuntimeError("attention that is read block by block has a first derivative only, no second one")


class BlockedAttention(torch.autograd.Function):
    """
    The output of attention and its column sums.

    The backward pass computes the weights of a block again and draws the same dropout from the seed. It cannot be
    differentiated itself.

    Args:
        query, key, bias, sinks, mask, settings: See [`Scores`].
        value (`torch.Tensor` of shape `(batch, heads, keys, value_dim)`): Values; of width 0 for the sums alone.
        rows (`torch.Tensor`): Weights of the queries in the sums; broadcasts to `(batch, heads, queries)`.

    Returns:
        The output `(batch, heads, queries, value_dim)` in the dtype of the values, and the sums
        `(batch, heads, keys)`, in float32 or float64.
    """

    @staticmethod
    def forward(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        mask: torch.Tensor | None,
        rows: torch.Tensor,
        settings: Settings,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scores, values = Scores(query, key, bias, sinks, mask, settings).in_full(), in_full(value)
        rows = rows.to(scores.query.dtype).expand(query.shape[:3]).unsqueeze(-2)
        received = scores.query.new_zeros(*query.shape[:2], 1, key.shape[2])
        output = _by_token(scores.query, values.shape[3])
        draw = Dropout(settings, query.device)
        for block, part in scores.blocks():
            weights, _ = part.weights(block.queries.start)
            received[block.examples, block.heads, :, block.keys] += (
                rows[block.examples, block.heads, :, block.queries] @ weights
            )
            block.rows(output).copy_(draw.kept(weights) @ block.columns(values))
        if draw.threshold:
            output *= draw.scale
        return output.to(value.dtype), received.squeeze(-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        *tensors, ctx.settings = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, of_output: torch.Tensor, of_received: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, bias, sinks, mask, rows = ctx.saved_tensors
        scores, values = Scores(query, key, bias, sinks, mask, ctx.settings).in_full(), in_full(value)
        rows = rows.to(scores.query.dtype).expand(query.shape[:3]).unsqueeze(-1)
        of_received = of_received.to(scores.query.dtype).unsqueeze(-1)
        of_value = zeros_in_columns(values)
        totals = Gradients.of(scores, ctx.needs_input_grad[3:5])
        draw = Dropout(ctx.settings, query.device)
        of_output = (of_output * draw.scale if draw.threshold else of_output).to(scores.query.dtype)
        for block, part in scores.blocks():
            weights, capped = part.weights(block.queries.start)
            # dS = P (dP - sum P dP) with dP = dO V^T + weight of the row x gradient of the sums.
            kept = draw.mask(weights)
            gradient = (block.rows(rows) * block.columns(of_received).mT).contiguous()  # so that flatten is a view
            left, right = block.rows(of_output), block.columns(values)
            if kept is None:
                gradient.flatten(0, 1).baddbmm_(left.flatten(0, 1), right.flatten(0, 1).mT)
            else:
                gradient += (left @ right.mT).mul_(kept)
            add_product(block.columns(of_value), weights if kept is None else weights * kept, block.rows(of_output))
            totals.add(block, part, gradient, weights, capped)
        of_query, of_key, *others = totals.like(query, key, bias, sinks)
        return of_query, of_key, of_value.to(value.dtype), *others, None, None, None


class Dropout:
    """
    Dropout masks from a seed. Each element takes 16 random bits, which a CPU draws several times as fast as Bernoulli
    numbers. The rate is rounded to 16 bits.
    """

    def __init__(self, settings: Settings, device: torch.device | str = "cpu"):
        self.threshold = round(settings.dropout * 2**16)
        self.scale = 2**16 / max(1, 2**16 - self.threshold)
        self.device = device
        self.generator = torch.Generator(device).manual_seed(settings.seed) if self.threshold else None

    def mask(self, weights: torch.Tensor) -> torch.Tensor | None:
        """True at the weights that stay, or `None` if all do."""
        if self.generator is None:
            return None
        size = weights.numel()
        bits = torch.empty(-(-size // 4), dtype=torch.int64, device=self.device)
        bits.random_(-(2**63), None, generator=self.generator)
        return (bits.view(torch.int16)[:size] >= self.threshold - 2**15).view_as(weights)

    def kept(self, weights: torch.Tensor) -> torch.Tensor:
        """The weights, zero where they are dropped; not scaled."""
        mask = self.mask(weights)
        return weights if mask is None else weights * mask


def block_size(device: torch.device) -> int:
    """The number of scores in a block."""
    if device.type != "cpu" or torch.compiler.is_compiling():  # compiled code repeats itself for each block
        return BLOCK_SCORES_ELSEWHERE
    return BLOCK_SCORES * torch.get_num_threads()


def in_full(tensor: torch.Tensor) -> torch.Tensor:
    """At least float32."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def zeros_in_columns(states: torch.Tensor) -> torch.Tensor:
    """Zeros of the same shape with contiguous columns, to which [`add_product`] adds in less time."""
    return torch.zeros_like(states.mT, memory_format=torch.contiguous_format).mT


def add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor, factor: float = 1.0) -> None:
    """total += factor leftᵀ right, without a copy: the first two dimensions of a block are one."""
    total.mT.flatten(0, 1).baddbmm_(right.mT.flatten(0, 1), left.flatten(0, 1), alpha=factor)


def _by_token(states: torch.Tensor, width: int) -> torch.Tensor:
    """Room for `(batch, heads, tokens, width)`, where the heads of a token lie side by side, as layers take them."""
    return states.new_empty(states.shape[0], states.shape[2], states.shape[1], width).transpose(1, 2)


def _add_part(total: torch.Tensor, part: torch.Tensor) -> None:
    """Adds a block to its part of what broadcasts to all of them."""
    total += part.sum_to_size(total.shape)
