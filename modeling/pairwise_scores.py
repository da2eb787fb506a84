"""Scores of word pairs from their hidden states and their attention to each other in all layers and heads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from .word_attention import piece_mean, word_members, word_states

# Numbers in a block of scores between pieces. On a CPU 128 KiB in float32, which fit in its cache; a GPU prefers few
# and large blocks.
PAIR_SCORES = {"cpu": 2**15}
PAIR_SCORES_ELSEWHERE = 2**22
# Heads whose relations are scored at once.
HEADS_AT_ONCE = 64


class PairwiseScores(nn.Module):
    r"""
    Scores W [T_i; T_j; a_ij; a_ji] + b of a head i and a dependent j (pairwise attention), where T are the hidden
    states of words and a_ij is the attention of i to j in each layer and head.

    They are computed as W1 T_i + W2 T_j + W3 a_ij + W4 a_ji. The features of the pairs are never concatenated, and the
    attention of pieces is summed to that of words after W3 and W4. For the backward pass, only the hidden states and
    the attention maps are kept, and the encoder keeps those anyway.

    Works with any encoder that returns its attention. With the scorer `"biaffine"`, the hidden states pass through two
    perceptrons and a biaffine layer (Dozat and Manning, 2017); the attention is scored as before.

    Args:
        num_outputs (`int`): Number K of scores for a pair.
        hidden_size (`int`): Width of the hidden states; 0 leaves them out.
        num_layers (`int`): Number L of attention maps; 0 leaves them out.
        num_heads (`int`): Number H of heads of a map.
        scorer (`str`, *optional*, defaults to `"linear"`): `"linear"` or `"biaffine"`, for the hidden states.
        size (`int`, *optional*, defaults to 100): Width of the biaffine layer.
        dropout (`float`, *optional*, defaults to 0.0): Dropout of the hidden states, and inside `"biaffine"`.
        word_state (`str`, *optional*, defaults to `"first"`): See [`word_states`].
        attention_scale (`float`, *optional*, defaults to 10.0):
            Factor of the attention, so that W3 and W4 learn as fast as W1 and W2.
        learned_root (`bool`, *optional*, defaults to `False`):
            Whether the hidden state of ROOT is learned, for sentences that have no piece for it. Its attention is 0.

    Raises:
        ValueError: `scorer` or `word_state` is unknown.
    """

    def __init__(
        self,
        num_outputs: int,
        hidden_size: int,
        num_layers: int,
        num_heads: int,
        scorer: str = "linear",
        size: int = 100,
        dropout: float = 0.0,
        word_state: str = "first",
        attention_scale: float = 10.0,
        learned_root: bool = False,
    ):
        super().__init__()
        if scorer not in ("linear", "biaffine") or word_state not in ("first", "mean"):
            raise ValueError(
                f'scorer must be "linear" or "biaffine", word_state "first" or "mean", got {scorer!r}, {word_state!r}'
            )
        self.num_outputs = num_outputs
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.word_state = word_state
        self.attention_scale = attention_scale
        self.dropout = nn.Dropout(dropout)
        self.root = nn.Embedding(1, hidden_size) if learned_root else None
        self.states: LinearPairs | None = None
        if hidden_size and scorer == "biaffine":
            self.states = BiaffinePairs(hidden_size, size, num_outputs, dropout)
        elif hidden_size:
            self.states = LinearPairs(hidden_size, num_outputs)
        features = 2 * num_layers * num_heads
        self.attention = nn.Linear(features, num_outputs, bias=not hidden_size) if features else None

    def forward(
        self,
        hidden_states: torch.Tensor,
        attentions: Sequence[torch.Tensor],
        word_index: torch.Tensor,
        num_words: int | None = None,
    ) -> torch.Tensor:
        """
        The scores of all pairs.

        Args:
            hidden_states (`torch.Tensor` of shape `(batch, pieces, hidden_size)`): Last hidden states of the encoder.
            attentions (`Sequence[torch.Tensor]` of shape `(batch, heads, pieces, pieces)`):
                One map for each layer.
            word_index (`torch.LongTensor` of shape `(batch, pieces)`): See [`word_members`].
            num_words (`int`, *optional*): Number of words W; that of the longest sentence if `None`.

        Returns:
            `torch.Tensor` of shape `(batch, K, W + 1, W + 1)`: Rows are heads, columns are dependents, 0 is ROOT.

        Raises:
            ValueError: The number of attention maps is not `num_layers`.
        """
        members = word_members(word_index, num_words)
        terms = [] if self.states is None else self.states.terms(self._words(hidden_states, members))
        if self.attention is None:
            return sum(terms[1:], terms[0])
        self._check(attentions)
        weight, bias = self._attention_weight(hidden_states.dtype, hidden_states.device)
        with torch.autocast(hidden_states.device.type, enabled=False):  # in the precision of the maps
            weight = weight.to(attentions[0].dtype).movedim(0, 2).contiguous()
            if torch.compiler.is_exporting():  # no loop over blocks whose number depends on the sizes
                scores = _scores_in_one(weight, members, attentions)
            else:
                scores = _AttentionScores.apply(weight, members, *attentions)
        if self.states is None:
            terms.append(bias[:, None, None])
        for term in terms:
            scores = scores.add_(term)
        return scores

    def arcs(
        self,
        hidden_states: torch.Tensor,
        attentions: Sequence[torch.Tensor],
        word_index: torch.Tensor,
        heads: torch.Tensor,
        wanted: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """
        The scores of the arcs of trees: for each word and tree, the pair of its head and the word. They equal those of
        [`PairwiseScores.forward`] for these pairs.

        Args:
            hidden_states, attentions, word_index: See [`PairwiseScores.forward`].
            heads (`torch.LongTensor` of shape `(batch, W, trees)`):
                The head of each word in one or several trees, which share most of the work. 0 is ROOT; numbers below
                0 count as 0.
            wanted (`torch.BoolTensor` of shape `(batch, W, trees)`, *optional*): The arcs to score. Default: all.

        Returns:
            `torch.Tensor` of shape `(batch, W, trees, K)`; 0 where a score is not wanted.

        Raises:
            ValueError: The number of attention maps is not `num_layers`.
        """
        members = word_members(word_index, heads.shape[1])
        words = attention = None
        if self.states is not None:
            words = self._words(hidden_states, members)
        if self.attention is not None:
            self._check(attentions)
            attention = torch.stack([arc_attention(attentions, members, tree) for tree in heads.unbind(-1)], dim=2)
            attention = attention.to(hidden_states.dtype)
        heads = heads.clamp_min(0)
        if wanted is not None:
            scores: Any = 0
            sentence, word, _ = wanted.nonzero(as_tuple=True)
            if self.states is not None and words is not None:
                # Several words of a sentence have the same head.
                distinct, owner = (sentence * words.shape[1] + heads[wanted]).unique(return_inverse=True)
                scores = self.states.arcs_of_heads(words.flatten(0, 1)[distinct], words[sentence, word + 1], owner)
            scores = scores + self.score(None, None, None if attention is None else attention[wanted])
            return scores.new_zeros(*heads.shape, self.num_outputs).index_put((wanted,), scores)
        if words is None:
            return self.score(None, None, attention)
        index = heads.flatten(1).unsqueeze(-1).expand(-1, -1, words.shape[-1])
        return self.score(words.gather(1, index).unflatten(1, heads.shape[1:]), words[:, 1:, None], attention)

    def score(
        self, first: torch.Tensor | None, second: torch.Tensor | None, attention: torch.Tensor | None
    ) -> torch.Tensor:
        """
        The scores of pairs with the given features.

        Args:
            first (`torch.Tensor` of shape `(..., pairs, hidden_size)`, *optional*): Hidden states of i.
            second (`torch.Tensor` of shape `(..., 1, hidden_size)`, *optional*): The hidden state of j.
            attention (`torch.Tensor` of shape `(..., pairs, 2 * L * H)`, *optional*):
                a_ij, layer by layer, then a_ji.

        Returns:
            `torch.Tensor` of shape `(..., pairs, K)`
        """
        scores: Any = 0
        if self.states is not None and first is not None and second is not None:
            scores = self.states.arcs(first, second)
        if self.attention is not None and attention is not None:
            scores = scores + self.attention(attention * self.attention_scale)
        return scores

    def _attention_weight(self, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """
        W3 and W4 of each layer, `(L, 2, K, H)`, with the factor of the attention, and the bias `(K,)`.

        The module is called and its weight never read: an adapter or a quantized layer may stand in its place.
        """
        features = 2 * self.num_layers * self.num_heads
        # The last row is zero. With ones, the bias would take the digits of half precision from the weight.
        units = 256 * torch.eye(features + 1, features, dtype=dtype, device=device)
        outputs = self.attention(units)  # type: ignore[misc]
        weight = (outputs[:-1] - outputs[-1]) * (self.attention_scale / 256)
        weight = weight.view(2, self.num_layers, self.num_heads, self.num_outputs)
        return weight.permute(1, 0, 3, 2), outputs[-1]

    def _words(self, hidden_states: torch.Tensor, members: torch.Tensor) -> torch.Tensor:
        words = word_states(hidden_states, members, self.word_state)
        if self.root is not None:
            root = self.root(members.new_zeros(len(words), 1, dtype=torch.long))
            words = torch.cat([root.to(words.dtype), words[:, 1:]], dim=1)
        return self.dropout(words)

    def _check(self, attentions: Sequence[torch.Tensor]) -> None:
        if len(attentions) != self.num_layers:
            raise ValueError(
                f"attentions must be the maps of {self.num_layers} layers, got {len(attentions)}; an encoder returns "
                'them with output_attentions=True and attn_implementation="eager"'
            )


class LinearPairs(nn.Module):
    """W1 T_i + W2 T_j + b."""

    def __init__(self, width: int, num_outputs: int):
        super().__init__()
        self.head = nn.Linear(width, num_outputs, bias=False)
        self.dependent = nn.Linear(width, num_outputs)

    def terms(self, words: torch.Tensor) -> list[torch.Tensor]:
        """The summands of the scores `(batch, K, words, words)` of all pairs of `(batch, words, width)`."""
        return [self.head(words).mT.unsqueeze(-1), self.dependent(words).mT.unsqueeze(-2)]

    def arcs(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """The scores `(..., pairs, K)` of heads `(..., pairs, width)` and their dependent `(..., 1, width)`."""
        return self.head(first) + self.dependent(second)

    def arcs_of_heads(self, first: torch.Tensor, second: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
        """
        As [`LinearPairs.arcs`], for heads that have several dependents.

        Args:
            first (`torch.Tensor` of shape `(heads, width)`): The heads.
            second (`torch.Tensor` of shape `(pairs, width)`): The dependents.
            owner (`torch.LongTensor` of shape `(pairs,)`): The number of each one's head.

        Returns:
            `torch.Tensor` of shape `(pairs, K)`
        """
        return self.head(first)[owner] + self.dependent(second)


class BiaffinePairs(LinearPairs):
    """h U d + W1 h + W2 d + b, with the perceptrons h(T_i) and d(T_j)."""

    def __init__(self, width: int, size: int, num_outputs: int, dropout: float):
        super().__init__(size, num_outputs)
        self.head_layer = nn.Sequential(nn.Linear(width, size), nn.LeakyReLU(0.1), nn.Dropout(dropout))
        self.dependent_layer = nn.Sequential(nn.Linear(width, size), nn.LeakyReLU(0.1), nn.Dropout(dropout))
        self.bilinear = nn.Linear(size, num_outputs * size, bias=False)

    def terms(self, words: torch.Tensor) -> list[torch.Tensor]:
        first, second = self.head_layer(words), self.dependent_layer(words)
        batch, count, size = first.shape
        bilinear = (self.bilinear(first).view(batch, -1, size) @ second.mT).view(batch, count, -1, count)
        return [bilinear.transpose(1, 2), self.head(first).mT.unsqueeze(-1), self.dependent(second).mT.unsqueeze(-2)]

    def arcs(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        first, second = self.head_layer(first), self.dependent_layer(second)
        bilinear = self.bilinear(first).unflatten(-1, (-1, first.shape[-1])) @ second.unsqueeze(-1)
        return bilinear.squeeze(-1) + super().arcs(first, second)

    def arcs_of_heads(self, first: torch.Tensor, second: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
        first, second = self.head_layer(first), self.dependent_layer(second)
        order, counts = owner.argsort(), owner.bincount(minlength=1)
        own = owner[order]
        place = torch.arange(len(own), device=own.device) - (counts.cumsum(0) - counts)[own]
        dependents = second.new_zeros(len(first), int(counts.max()), second.shape[-1])
        dependents[own, place] = second[order]
        # In blocks: the product of a head has K numbers for each of its own, more than a cache holds for a batch.
        blocks = zip(first.split(HEADS_AT_ONCE), dependents.split(HEADS_AT_ONCE), strict=True)
        products = [each @ self.bilinear(head).unflatten(-1, (-1, head.shape[-1])).mT for head, each in blocks]
        bilinear = torch.cat(products)[own, place][order.argsort()]
        return bilinear + super().arcs_of_heads(first, second, owner)


def arc_attention(attentions: Sequence[torch.Tensor], members: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    """
    The attention between each word and its head.

    Args:
        attentions (`Sequence[torch.Tensor]` of shape `(batch, heads, pieces, pieces)`):
            One map for each layer.
        members (`torch.BoolTensor` of shape `(batch, W + 1, pieces)`): See [`word_members`].
        heads (`torch.LongTensor` of shape `(batch, W)`): Numbers below 0 count as 0.

    Returns:
        `torch.Tensor` of shape `(batch, W, 2 * L * H)`: a_ij of the head i and the word j, layer by layer, then a_ji.
    """
    if torch.compiler.is_compiling():  # the number of pairs of pieces depends on the data
        mean, to = piece_mean(members, attentions[0].dtype), members.to(attentions[0].dtype)
        index = heads.clamp_min(0).unsqueeze(-1).expand(-1, -1, members.shape[-1])
        # The weight of the attention between two pieces: a piece has one word, and a word one head.
        head_to_word = mean.gather(1, index).mT @ to[:, 1:]
        word_to_head = mean[:, 1:].mT @ to.gather(1, index)
        received = [(attention * head_to_word.unsqueeze(1)).sum(dim=-2) for attention in attentions]
        given = [(attention * word_to_head.unsqueeze(1)).sum(dim=-1) for attention in attentions]
        return (torch.cat(received + given, dim=1) @ to[:, 1:].mT).mT
    sentence, word, head_piece, piece = _pairs_of_arcs(members, heads)
    rows, columns = torch.stack([head_piece, piece]), torch.stack([piece, head_piece])
    pairs = torch.cat([attention[sentence, :, rows, columns] for attention in attentions], dim=-1)
    head = heads.clamp_min(0)[sentence, word]
    sizes = members.sum(dim=-1).to(pairs.dtype)
    attending = torch.stack([sizes[sentence, head], sizes[sentence, word + 1]])  # the mean is over their pieces
    pairs = (pairs / attending.unsqueeze(-1)).transpose(0, 1).flatten(1)
    arcs = pairs.new_zeros(*heads.shape, pairs.shape[-1])
    return arcs.index_put((sentence, word), pairs, accumulate=True)


def _pairs_of_arcs(members: torch.Tensor, heads: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Each piece of a word with each of its head: the sentence, the word from 0, the head's piece and the word's."""
    sizes = members.sum(dim=-1)
    sentence, word, piece = members.nonzero(as_tuple=True)  # in the order of the words
    first = (sizes.flatten().cumsum(0) - sizes.flatten()).view_as(sizes)
    dependent = word > 0
    sentence, word, own = sentence[dependent], word[dependent] - 1, piece[dependent]
    head = heads.clamp_min(0)[sentence, word]
    count = sizes[sentence, head]
    each = torch.arange(len(own), device=own.device).repeat_interleave(count)
    place = torch.arange(len(each), device=own.device) - (count.cumsum(0) - count)[each]
    return sentence[each], word[each], piece[first[sentence, head][each] + place], own[each]


def relations_of_arcs(relation_logits: torch.Tensor, heads: torch.Tensor) -> torch.Tensor:
    """
    Select the logits of the arcs of a tree from those of all pairs.

    Args:
        relation_logits (`torch.Tensor` of shape `(batch, W + 1, W + 1, K)`): Rows are heads, columns are dependents.
        heads (`torch.LongTensor` of shape `(batch, W)`): The head of each word. Numbers below 0 count as 0.

    Returns:
        `torch.Tensor` of shape `(batch, W, K)`
    """
    index = heads.clamp_min(0)[:, None, :, None].expand(-1, 1, -1, relation_logits.shape[-1])
    return relation_logits[:, :, 1:].gather(1, index).squeeze(1)


def _scores_in_one(weight: torch.Tensor, members: torch.Tensor, maps: Sequence[torch.Tensor]) -> torch.Tensor:
    """[`_AttentionScores`] without blocks, for exported programs."""
    layers = zip(weight.unbind(2), maps, strict=True)
    pieces = sum(torch.einsum("dkh,bhij->bdkij", of_layer, attention) for of_layer, attention in layers)
    mean, to = piece_mean(members, weight.dtype), members.to(weight.dtype)
    there, back = torch.einsum("bdkij,bwi,bvj->bdkwv", pieces, mean, to).unbind(1)
    return there + back.mT


class _AttentionScores(torch.autograd.Function):
    """
    W3 a_ij + W4 a_ji for all pairs of words.

    Pieces are summed to words after the sum over layers and heads, which leaves K maps for each direction instead of
    L * H. This is done for a block of sentences and outputs at a time, and only the result is kept.
    """

    @staticmethod
    def forward(weight: torch.Tensor, members: torch.Tensor, *attentions: torch.Tensor) -> torch.Tensor:
        batch, heads, pieces, _ = attentions[0].shape
        outputs, words = weight.shape[1], members.shape[1]
        scores = weight.new_empty(batch, outputs, words, words)
        for rows, channels in _blocks(scores, pieces):
            block = weight[:, channels].flatten(0, 1)
            size, both = attentions[0][rows].shape[0], block.shape[0]
            total = weight.new_zeros(size, both, pieces * pieces)
            for layer, attention in enumerate(attentions):
                total.baddbmm_(block[:, layer].expand(size, -1, -1), attention[rows].reshape(size, heads, -1))
            mean, to = piece_mean(members[rows], weight.dtype), members[rows].to(weight.dtype)
            summed = total.view(size, both * pieces, pieces) @ to.mT
            del total
            summed = summed.view(size, both, pieces, words).mT.reshape(size, both * words, pieces)
            # Columns attend to rows.
            there, back = (summed @ mean.mT).view(size, both, words, words).chunk(2, dim=1)
            scores[rows, channels] = there.mT + back
        return scores

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        with torch.autocast(gradient.device.type, enabled=False):
            return _AttentionScores._gradients(ctx, gradient)

    @staticmethod
    def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        weight, members, *attentions = ctx.saved_tensors
        batch, heads, pieces, _ = attentions[0].shape
        words = members.shape[1]
        weight_gradient = torch.zeros_like(weight)
        of_attentions = [
            torch.zeros_like(attention).view(batch, heads, -1) if wanted else None
            for attention, wanted in zip(attentions, ctx.needs_input_grad[2:], strict=True)
        ]
        for rows, channels in _blocks(gradient, pieces):
            block = weight[:, channels].flatten(0, 1)
            part = gradient[rows, channels].to(weight.dtype)
            size, both = part.shape[0], block.shape[0]
            mean, to = piece_mean(members[rows], weight.dtype), members[rows].to(weight.dtype)
            between = torch.cat([part.mT, part], dim=1).view(size, both * words, words)
            summed = (between @ mean).view(size, both, words, pieces).mT.reshape(size, both * pieces, words)
            total = (summed @ to).view(size, both, pieces * pieces)
            for layer, attention in enumerate(attentions):
                of_attention = of_attentions[layer]
                if of_attention is not None:
                    of_attention[rows].baddbmm_(block[:, layer].mT.expand(size, -1, -1), total)
                of_block = (total @ attention[rows].reshape(size, heads, -1).mT).sum(dim=0)
                weight_gradient[:, channels, layer] += of_block.unflatten(0, (2, -1))
        return (
            weight_gradient,
            None,
            *(
                None if of_attention is None else of_attention.view(batch, heads, pieces, pieces)
                for of_attention in of_attentions
            ),
        )


def _blocks(scores: torch.Tensor, pieces: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of sentences and outputs, small enough for their scores between pieces in both directions."""
    batch, outputs = scores.shape[:2]
    limit = max(PAIR_SCORES.get(scores.device.type, PAIR_SCORES_ELSEWHERE), scores.numel() // 8)
    at_once = min(outputs, max(1, limit // (2 * pieces * pieces)))
    sentences = max(1, limit // (2 * at_once * pieces * pieces))
    for start in range(0, batch, sentences):
        for first in range(0, outputs, at_once):
            yield slice(start, start + sentences), slice(first, first + at_once)
