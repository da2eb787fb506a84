"""Pairs of words with what an encoder says of them, and how often its heads point along arcs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import LARGEST_BATCH, attention_implementation, encoder_outputs, padded_batches
from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS, ParserCollator
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.errors import UserError
from msattn.modeling.word_attention import word_attention, word_members, word_states

# Of a head i and a dependent j: a_ij, what the head gives to the dependent, and a_ji.
DIRECTIONS = {"a_ij": "head → dependent", "a_ji": "dependent → head"}
PARTS = ("T_i", "T_j", *DIRECTIONS)
# How far from a word its head may be for a fixed offset to find it.
FARTHEST = 5


class PairLayout(NamedTuple):
    """
    Which feature of a pair is which: T_i, T_j, a_ij and a_ji, the last two layer by layer.

    Args:
        width: Of the hidden states, M.
        layers: L.
        heads: H.
    """

    width: int
    layers: int
    heads: int

    @property
    def maps(self) -> int:
        """L * H."""
        return self.layers * self.heads

    @property
    def groups(self) -> dict[str, slice]:
        """The columns of each part."""
        ends = np.cumsum([0, self.width, self.width, self.maps, self.maps]).tolist()
        return {name: slice(*bounds) for name, *bounds in zip(PARTS, ends, ends[1:], strict=False)}

    def name(self, column: int) -> str:
        """`"T_j 17"`, or `"a_ji 2-5"`, which is head 5 of layer 2, both from 0."""
        (part, start) = next((name, part.start) for name, part in self.groups.items() if column < part.stop)
        place = column - start
        return f"{part} {place}" if part not in DIRECTIONS else "{} {}-{}".format(part, *divmod(place, self.heads))


@dataclass(frozen=True)
class WordPairs:
    """
    Args:
        layout (`PairLayout`): Names the features.
        features (`np.ndarray` of shape `(pairs, 2M + 2LH)`): Of each pair [T_i; T_j; a_ij; a_ji].
        is_arc (`np.ndarray` of shape `(pairs,)`): Whether i is the head of j.
        places (`np.ndarray` of shape `(pairs, 2)`): i - j, and whether i is ROOT: what needs no encoder.
    """

    layout: PairLayout
    features: np.ndarray
    is_arc: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class HeadHits:
    """
    Of the words whose head is another word.

    Args:
        hits (`np.ndarray` of shape `(relations, 2, layers, heads)`):
            For how many of them the other word with the highest attention is their head: first the word that gives
            them most (a_ij), then the one to which they give most (a_ji).
        words (`np.ndarray` of shape `(relations,)`): How many they are.
        offsets (`np.ndarray` of shape `(relations, 2 * FARTHEST + 1)`):
            How many of them have their head so many words to the right, from -FARTHEST on.
    """

    hits: np.ndarray
    words: np.ndarray
    offsets: np.ndarray


def sample_pairs(heads: Sequence[Sequence[int]], most: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """
    Draws arcs, and from each sentence as many pairs of a word or ROOT and another word that are none.

    Args:
        heads (`Sequence[Sequence[int]]`): Of each sentence the head of each word; no pair has a word of `NO_LABEL`
            for its dependent.
        most (`int`): How many pairs to draw at most, half of them arcs.
        seed (`int`): Of the draw.

    Returns:
        `list[tuple[list[int], list[int]]]`: Of each sentence the i and the j of its pairs, the arcs first. None comes
        twice.
    """
    generator = np.random.default_rng(seed)
    arcs = [
        (row, word)
        for row, sentence in enumerate(heads)
        for word, head in enumerate(sentence, start=1)
        if head != NO_LABEL and len(sentence) > 1
    ]
    drawn: list[list[int]] = [[] for _ in heads]
    for number in generator.permutation(len(arcs))[: most // 2].tolist():
        row, word = arcs[number]
        drawn[row].append(word)
    pairs = []
    for sentence, words in zip(heads, drawn, strict=True):
        firsts, seconds = [sentence[word - 1] for word in words], list(words)
        if words:
            dependents = [word for word, head in enumerate(sentence, start=1) if head != NO_LABEL]
            # Each of them makes a pair with all words and ROOT but itself and its head.
            others = len(sentence) - 1
            for number in generator.choice(len(dependents) * others, len(words), replace=False).tolist():
                word, first = dependents[number // others], number % others
                for taken in sorted((word, sentence[word - 1])):
                    first += first >= taken
                firsts.append(first)
                seconds.append(word)
        pairs.append((firsts, seconds))
    return pairs


def read_word_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    dataset: Dataset,
    relations: int,
    max_pairs: int,
    seed: int = 0,
    word_state: str = "first",
    batch_size: int = 32,
) -> tuple[WordPairs, HeadHits]:
    """
    Reads a treebank with an encoder, which runs with eager attention and is left as it came.

    Args:
        model (`PreTrainedModel`): Any encoder that returns its attention.
        tokenizer (`PreTrainedTokenizerBase`): Its fast tokenizer.
        dataset (`datasets.Dataset`): As from [`~msattn.data.inputs.parser_inputs.encode_treebank`].
        relations (`int`): How many relations there are.
        max_pairs, seed: See [`sample_pairs`].
        word_state (`str`, *optional*, defaults to `"first"`): See [`~msattn.modeling.word_attention.word_states`].
        batch_size (`int`, *optional*, defaults to 32): Sentences at a time, if they are short.

    Raises:
        UserError: The model returns no hidden states or attention maps, or no sentence has two words.
    """
    pairs = sample_pairs(dataset["heads"][:], max_pairs, seed)
    if not any(firsts for firsts, _ in pairs):
        raise UserError("there is no sentence of two words, between which there could be an arc or none.")
    rows = [
        {**row, "first": firsts, "second": seconds}
        for row, (firsts, seconds) in zip(dataset.remove_columns(WINDOW_COLUMNS), pairs, strict=True)
    ]
    parts = []
    with attention_implementation(model, "eager"):
        for batch in padded_batches(rows, ParserCollator(tokenizer), batch_size, LARGEST_BATCH):
            hidden_states, layers = encoder_outputs(model, batch)
            batch = {name: value.to(hidden_states.device) for name, value in batch.items()}
            parts.append(_read_batch(batch, hidden_states, layers, relations, word_state))
    layout = PairLayout(hidden_states.shape[-1], len(layers), layers[0].shape[1])
    features, is_arc, places, *counts = zip(*parts, strict=True)
    pairs_read = WordPairs(layout, *(np.concatenate(column) for column in (features, is_arc, places)))
    return pairs_read, HeadHits(*(sum(column[1:], column[0]) for column in counts))


def _read_batch(
    batch: Mapping[str, torch.Tensor],
    hidden_states: torch.Tensor,
    layers: Sequence[torch.Tensor],
    relations: int,
    word_state: str,
) -> tuple[np.ndarray, ...]:
    """The fields of [`WordPairs`] without the first, then those of [`HeadHits`]."""
    heads = batch["heads"]
    count = heads.shape[1]
    # Of the pairs: their sentence, i and j. No dependent is 0.
    row, place = batch["second"].nonzero(as_tuple=True)
    first, second = batch["first"][row, place], batch["second"][row, place]
    # Of the words that have a head beside ROOT: their sentence, their place, and the place of their head.
    sentence, word = ((heads > 0) & (batch["relations"] >= 0)).nonzero(as_tuple=True)
    head, relation = heads[sentence, word] - 1, batch["relations"][sentence, word]

    states = word_states(hidden_states, word_members(batch["word_index"], count), word_state)
    features = [[states[row, first]], [states[row, second]], [], []]
    found: list[list[torch.Tensor]] = [[], []]
    itself = torch.eye(count, dtype=torch.bool, device=heads.device)
    for layer in layers:
        attention = word_attention(layer, batch["word_index"], count)
        features[2].append(attention[row, :, first, second])
        features[3].append(attention[row, :, second, first])
        others = attention[:, :, 1:, 1:].masked_fill(itself, -1)
        for direction, dim in enumerate((-2, -1)):
            found[direction].append(others.argmax(dim)[sentence, :, word] == head.unsqueeze(-1))
    hits = torch.stack([torch.stack(part, dim=1) for part in found], dim=1).long()
    distance = head - word
    near = distance.abs() <= FARTHEST
    offsets = torch.zeros(relations, 2 * FARTHEST + 1, dtype=torch.long, device=heads.device)
    offsets.index_put_((relation[near], distance[near] + FARTHEST), torch.tensor(1, device=heads.device), True)
    found_arrays = (
        torch.cat([column for part in features for column in part], dim=-1).float(),
        heads[row, second - 1] == first,
        torch.stack([first - second, first == 0], dim=-1),
        hits.new_zeros(relations, *hits.shape[1:]).index_add_(0, relation, hits),
        relation.bincount(minlength=relations),
        offsets,
    )
    return tuple(array.cpu().numpy() for array in found_arrays)
