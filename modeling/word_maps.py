"""Attention between words, a block of piece-by-piece weights at a time, and scores of word pairs made from it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad

from .attention_call import AttentionCall
from .blocked_attention import (
    BLOCK_SCORES,
    Block,
    Dropout,
    Settings,
    _add,
    _add_part,
    _in_full,
    _with_mask,
    block_size,
    masked_scores,
)
from .first_derivative import first_derivative_only
from .received_attention import _is_wanted, _refuse_unknown, received_attention_forward
from .word_attention import count_words


class Words(NamedTuple):
    """
    Which pieces are which words, for the attention implementation `"words"`. Made once for a batch.

    Args:
        word (`torch.LongTensor` of shape `(batch, pieces)`): The word of each piece; `size` for pieces of no word.
        pieces (`torch.LongTensor` of shape `(batch, pieces)`): How many pieces the word of each piece has.
        size (`int`): Number of words, W + 1 with ROOT.
        weight (`torch.Tensor` of shape `(L, 2, K, H)`, *optional*):
            W3 and W4 of [`PairwiseScores`] for each layer. If given, a layer returns [`LayerScores`].
    """

    word: torch.Tensor
    pieces: torch.Tensor
    size: int
    weight: torch.Tensor | None = None

    @classmethod
    def of(cls, word_index: torch.Tensor, num_words: int | None = None, weight: torch.Tensor | None = None) -> Words:
        """
        Args:
            word_index (`torch.LongTensor` of shape `(batch, pieces)`): See [`word_members`].
            num_words (`int`, *optional*): Number of words W; that of the longest sentence if `None`.
            weight (`torch.Tensor` of shape `(L, 2, K, H)`, *optional*): See [`Words`].
        """
        count = 1 + (count_words(word_index) if num_words is None else num_words)
        index = word_index.masked_fill((word_index < 0) | (word_index >= count), count)
        pieces = index.new_zeros(index.shape[0], count + 1).scatter_add_(1, index, torch.ones_like(index))
        return cls(index, pieces.gather(1, index), count, weight)


class LayerScores(NamedTuple):
    """
    Returned by a layer instead of its map: its share of the scores, and all that single weights are computed from.

    Args:
        scores (`torch.Tensor` of shape `(batch, K, W + 1, W + 1)`): W3 a_ij + W4 a_ji of this layer.
        query (`torch.Tensor` of shape `(batch, heads, pieces, head_dim)`): Queries, not scaled.
        key (`torch.Tensor` of shape `(batch, heads, pieces, head_dim)`): Keys.
        log_sum (`torch.Tensor` of shape `(batch, heads, pieces)`): The log-sum-exp of the scores of each query.
        bias, mask (`torch.Tensor`, *optional*): See [`AttentionCall`].
        scaling (`float`): Factor of the scores.
        softcap (`float`, *optional*): c, if the scores are c·tanh(score / c).
    """

    scores: torch.Tensor
    query: torch.Tensor
    key: torch.Tensor
    log_sum: torch.Tensor
    bias: torch.Tensor | None
    mask: torch.Tensor | None
    scaling: float
    softcap: float | None

    def to(self, device: torch.device) -> LayerScores:
        parts: Any = (part.to(device) if isinstance(part, torch.Tensor) else part for part in self)
        return type(self)(*parts)

    def weights(self, sentence: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """
        P_ij = exp(s_ij - log-sum-exp_i) of some pairs of pieces; differentiable.

        Args:
            sentence, rows, columns (`torch.LongTensor` of shape `(pairs,)`): Where the weights are.

        Returns:
            `torch.Tensor` of shape `(pairs, heads)`
        """
        dtype = self.log_sum.dtype
        query = self.query.transpose(1, 2)[sentence, rows].to(dtype)
        key = self.key.transpose(1, 2)[sentence, columns].to(dtype)
        scores = (query * key).sum(dim=-1) * self.scaling
        if self.softcap is not None:
            scores = (scores / self.softcap).tanh() * self.softcap
        shape = (*self.log_sum.shape, self.key.shape[2])
        if self.bias is not None:
            scores = scores + self.bias.expand(shape)[sentence, :, rows, columns]
        logs = scores - self.log_sum[sentence, :, rows]
        if self.mask is None:
            return logs.exp()
        mask = self.mask.expand(shape)[sentence, :, rows, columns]
        return (logs.masked_fill(mask, -torch.inf) if mask.dtype == torch.bool else logs + mask).exp()


def words_attention_forward(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    words: Words | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, Any]:
    """
    The attention implementation `"words"`: scaled dot-product attention. With `output_attentions=True` and the keyword
    argument `words` of its forward pass, a model returns as `attentions` the maps between words: the mean over the
    pieces of the word that attends, the sum over those of the word attended to. Dropout changes only the output.

    ```python
    >>> model.set_attn_implementation("words")
    >>> outputs = model(**batch, words=Words.of(word_index), output_attentions=True)
    >>> outputs.attentions[0].shape
    torch.Size([1, 12, 9, 9])
    ```

    Output and maps are computed from the same blocks of scores, and again in the backward pass: memory grows with the
    square of the words, not of the pieces, or linearly with `words.weight`.

    Without `words`, it returns whole maps. So does a model whose layers do not hand keyword arguments on: the shape
    tells.

    Args:
        module (`torch.nn.Module`): The attention layer; its `config` and `is_causal` give defaults.
        query, key, attention_mask, scaling, is_causal, position_bias, softcap, sinks: See [`received_attention`].
        value (`torch.Tensor` of shape `(batch, key_heads, keys, value_dim)`): Values.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the attention weights.
        s_aux (`torch.Tensor`, *optional*): Another name of `sinks`.
        words (`Words`, *optional*):
            The words. With a `weight`, a layer returns [`LayerScores`]; it needs a `layer_idx` then.
        **kwargs: What else a model gives its attention. See `Raises`.

    Returns:
        The output `(batch, queries, heads, value_dim)`, and the maps `(batch, heads, W + 1, W + 1)`; `None` if they
        are not asked for.

    Raises:
        AttentionRefused: The model gives its attention an argument that changes the softmax in an unknown way.
        ValueError: As in [`received_attention`], or `words` are not those of the queries and keys.
    """
    _refuse_unknown(module, kwargs, "words")
    sinks = s_aux if sinks is None else sinks
    softmax: dict[str, Any] = {"scaling": scaling, "is_causal": is_causal, "position_bias": position_bias}
    softmax |= {"softcap": softcap, "sinks": sinks, "dropout": dropout}
    if not _is_wanted(module, kwargs):
        kwargs |= {**softmax, "output_attentions": False}
        return received_attention_forward(module, query, key, value, attention_mask, **kwargs)
    call = AttentionCall.of(module, query, key, value, attention_mask, **softmax)
    if words is None:
        return call.materialized()
    shape = (query.shape[0], query.shape[2])
    if words.word.shape != shape or call.key.shape[2] != shape[1]:
        raise ValueError(f"words must be of {tuple(words.word.shape)} pieces, got queries of {shape}")
    weight = None if words.weight is None else words.weight[module.layer_idx].to(query.device)  # type: ignore[index]
    settings = call.settings._replace(block=_block_size(query.device))
    if dropout:
        settings = settings._replace(seed=int(torch.empty((), dtype=torch.int64).random_()))
    arguments = (call.bias, call.sinks, call.mask, weight, words.word, words.pieces, words.size, settings)
    with torch.autocast(query.device.type, enabled=False):
        output, maps, log_sum = WordMaps.apply(call.query, call.key, call.value, *arguments)
    maps = maps.to(query.dtype)
    if weight is not None:
        mask = call.mask
        if settings.offset is not None:
            places = torch.arange(shape[1], device=query.device)
            mask = (places > places.unsqueeze(-1) + settings.offset)[None, None]
        kept = (call.query, call.key, log_sum, call.bias, mask, settings.scaling, settings.softcap)
        maps = LayerScores(maps, *kept)
    return call.as_output(output), maps


class WordMaps(torch.autograd.Function):
    """
    The output of attention, and its maps between words or what a linear layer makes of these.

    The backward pass computes the weights of a block again and draws the same dropout from the seed. It cannot be
    differentiated itself.

    Args:
        query, key, value, bias, sinks, mask: See [`BlockedAttention`].
        weight (`torch.Tensor` of shape `(2, K, heads)`, *optional*): W3 and W4 of this layer.
        index, pieces, count: `word`, `pieces` and `size` of [`Words`].
        settings (`Settings`): What else makes the weights.

    Returns:
        The output `(batch, heads, queries, value_dim)` in the dtype of the values; the maps
        `(batch, heads, count, count)` or, with `weight`, W3 a_ij + W4 a_ji, `(batch, K, count, count)`; and the
        log-sum-exp of each row of scores, `(batch, heads, queries)`. The last two in float32 or float64.
    """

    @staticmethod
    def forward(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
        sinks: torch.Tensor | None,
        mask: torch.Tensor | None,
        weight: torch.Tensor | None,
        index: torch.Tensor,
        pieces: torch.Tensor,
        count: int,
        settings: Settings,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        dtype = value.dtype
        query, key, value = _in_full(query, key, value)
        query, key, mask = _with_mask(query * settings.scaling, key, mask, settings)
        batch, number, length, _ = query.shape
        share = (index < count) / pieces.to(query.dtype)
        flat = None if weight is None else weight.to(query.dtype).flatten(0, 1)
        maps = query.new_zeros(batch, number if weight is None else weight.shape[1], count, count)
        log_sum = query.new_empty(batch, number, length)
        output = query.new_empty(*query.shape[:3], value.shape[3])
        draw = Dropout(settings, query.device)
        for example in range(batch):
            bins = index[example]
            total = maps[example] if flat is None else query.new_zeros(len(flat), count, count)
            for rows, keys in _rows(query, settings):
                shares = share[example, rows].unsqueeze(-1)
                linear = None if flat is None else query.new_zeros(len(flat), len(shares) * len(bins[keys]))
                for heads in _heads(query, rows, settings):
                    block = Block(slice(example, example + 1), heads, rows, keys)
                    weights, sums, _ = _weights(block, query, key, bias, sinks, mask, settings)
                    block.rows(log_sum).copy_(sums)
                    block.rows(output).copy_(draw.kept(weights) @ block.columns(value))
                    if flat is None or linear is None:
                        _add_words(total[heads], weights[0], bins, rows, keys, shares)
                    else:
                        linear.addmm_(flat[:, heads], weights[0].flatten(1))
                if linear is not None:
                    _add_words(total, linear.view(len(linear), len(shares), -1), bins, rows, keys, shares)
            if flat is not None:
                there, back = total.chunk(2)
                for scores, one, other in zip(maps[example], there, back, strict=True):
                    # A sum with a transposed matrix takes several times as long as a copy.
                    torch.add(one, other.T.contiguous(), out=scores)
        output = (output.mul_(draw.scale) if draw.threshold else output).to(dtype)
        return output, maps, log_sum

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        *tensors, ctx.count, ctx.settings = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, of_output: Any, of_maps: Any, of_log_sum: Any) -> tuple[torch.Tensor | None, ...]:
        *tensors, bias, sinks, mask, weight, index, pieces = ctx.saved_tensors
        settings, count = ctx.settings, ctx.count
        query, key, value = _in_full(*tensors)
        share = (index < count) / pieces.to(query.dtype)
        width = query.shape[-1]
        query, key, mask = _with_mask(query * settings.scaling, key, mask, settings)
        of_query, of_key = torch.empty_like(query[..., :width]), torch.zeros_like(key[..., :width])
        of_value = torch.zeros_like(value)
        of_bias = None if bias is None or not ctx.needs_input_grad[3] else torch.zeros_like(bias, dtype=query.dtype)
        of_sinks = None if sinks is None or not ctx.needs_input_grad[4] else torch.zeros_like(sinks, dtype=query.dtype)
        flat = of_flat = None
        if weight is not None:
            flat = weight.to(query.dtype).flatten(0, 1)
            of_flat = torch.zeros_like(flat)
            of_maps = torch.cat([of_maps, of_maps.mT], dim=1)
        of_maps = pad(of_maps, (0, 1))  # pieces of no word
        draw = Dropout(settings, query.device)
        of_output = (of_output * draw.scale if draw.threshold else of_output).to(query.dtype)
        for example, (rows, keys) in product(range(len(query)), _rows(query, settings)):
            bins, shares = index[example], share[example, rows].unsqueeze(-1)
            of_words = of_maps[example].index_select(1, bins[rows].clamp_max(count - 1)).mul_(shares)
            of_words = of_words.index_select(-1, bins[keys])
            for heads in _heads(query, rows, settings):
                block = Block(slice(example, example + 1), heads, rows, keys)
                weights, _, capped = _weights(block, query, key, bias, sinks, mask, settings)
                kept = draw.mask(weights)
                _add(block.columns(of_value), (weights if kept is None else weights * kept).mT, block.rows(of_output))
                if flat is None or of_flat is None:
                    gradient = of_words[heads].unsqueeze(0)
                else:
                    of_flat[:, heads].addmm_(of_words.flatten(1), weights[0].flatten(1).mT)
                    gradient = (flat[:, heads].mT @ of_words.flatten(1)).view(weights.shape)
                if kept is None:
                    _add(gradient, block.rows(of_output), block.columns(value).mT)
                else:
                    gradient += (block.rows(of_output) @ block.columns(value).mT).mul_(kept)
                gradient = torch.ops.aten._softmax_backward_data(gradient, weights, -1, weights.dtype)
                of_sums = block.rows(of_log_sum).unsqueeze(-1)
                gradient.addcmul_(weights, of_sums)
                if of_sinks is not None:
                    _add_part(of_sinks, block, of_sums - gradient.sum(dim=-1, keepdim=True))
                if of_bias is not None:
                    _add_part(of_bias, block, gradient)
                if capped is not None:
                    gradient = gradient * (1 - (capped / settings.softcap).square())
                block.rows(of_query).copy_(gradient @ block.columns(key)[..., :width])
                _add(block.columns(of_key), gradient.mT, block.rows(query)[..., :width])
        gradients = (of_query.mul_(settings.scaling), of_key, of_value, of_bias, of_sinks)
        given = (*tensors, bias, sinks)
        of_weight = None if weight is None or of_flat is None else of_flat.view(weight.shape).to(weight.dtype)
        return (
            *(None if one is None else one.to(tensor.dtype) for one, tensor in zip(gradients, given, strict=True)),
            None,
            of_weight,
            *[None] * 4,
        )


def _block_size(device: torch.device) -> int:
    return BLOCK_SCORES if torch.compiler.is_compiling() else block_size(device)


def _rows(query: torch.Tensor, settings: Settings) -> Iterator[tuple[slice, slice]]:
    """Queries and the keys that these may see."""
    pieces = query.shape[2]
    size = min(pieces, max(1, settings.block // pieces))
    for start in range(0, pieces, size):
        stop = min(start + size, pieces)
        keys = pieces if settings.offset is None else max(1, min(pieces, stop + settings.offset))
        yield slice(start, stop), slice(0, keys)


def _heads(query: torch.Tensor, rows: slice, settings: Settings) -> Iterator[slice]:
    """One head at a time, or as many as make a block."""
    heads, pieces = query.shape[1:3]
    size = max(1, settings.block // ((rows.stop - rows.start) * pieces))
    for start in range(0, heads, size):
        yield slice(start, min(start + size, heads))


def _add_words(
    maps: torch.Tensor, weights: torch.Tensor, bins: torch.Tensor, rows: slice, keys: slice, shares: torch.Tensor
) -> None:
    """
    Adds the sum over the pieces of the words attended to, and the mean over those that attend.

    Args:
        maps (`torch.Tensor` of shape `(maps, words, words)`): What is added to.
        weights (`torch.Tensor` of shape `(maps, queries, keys)`): A block of maps between pieces.
        bins (`torch.LongTensor` of shape `(pieces,)`): The word of each piece.
        rows, keys (`slice`): Where the block is.
        shares (`torch.Tensor` of shape `(queries, 1)`): Weights of the queries in the mean.
    """
    words = maps.shape[-1]
    sums = weights.new_zeros(*weights.shape[:2], words + 1)
    sums.scatter_add_(-1, bins[keys].expand_as(weights), weights)
    maps.index_add_(1, bins[rows].clamp_max(words - 1), sums[..., :words] * shares)


def _weights(
    block: Block,
    query: torch.Tensor,
    key: torch.Tensor,
    bias: torch.Tensor | None,
    sinks: torch.Tensor | None,
    mask: torch.Tensor | None,
    settings: Settings,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The weights of a block, the log-sum-exp of its rows of scores, and with a soft cap the capped scores."""
    bias, sinks, mask = (None if tensor is None else block.of(tensor) for tensor in (bias, sinks, mask))
    scores, capped = masked_scores(block.rows(query), block.columns(key), bias, mask, settings, block.queries.start)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)], dim=-1)
    weights = scores.softmax(dim=-1)
    log_sum = scores.amax(dim=-1) - weights.amax(dim=-1).log()
    return weights if sinks is None else weights[..., :-1], log_sum, capped


__all__ = ["LayerScores", "WordMaps", "Words", "words_attention_forward"]
