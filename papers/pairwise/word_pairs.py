"""Features of word pairs from an encoder, and counts of how often its attention heads find dependency arcs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.data.inputs.parser_inputs import WINDOW_COLUMNS
from msattn.data.inputs.parser_windows import ParserCollator
from msattn.data.inputs.word_pieces import NO_LABEL
from msattn.errors import UserError
from msattn.modeling.word_attention import word_attention, word_members, word_states

# For a head i and a dependent j: a_ij is the attention from head to dependent, a_ji that from dependent to head.
DIRECTIONS = {"a_ij": "head → dependent", "a_ji": "dependent → head"}
PARTS = ("T_i", "T_j", *DIRECTIONS)
# Largest offset of the fixed-offset baseline, in words.
FARTHEST = 5


class PairLayout(NamedTuple):
    """
    The positions of the features of a word pair: [T_i; T_j; a_ij; a_ji], with attention layer by layer.

    Args:
        width (`int`): Hidden size, M.
        layers (`int`): Number of layers, L.
        heads (`int`): Number of heads per layer, H.
    """

    width: int
    layers: int
    heads: int

    @property
    def maps(self) -> int:
        """The number of attention maps, L * H."""
        return self.layers * self.heads

    @property
    def groups(self) -> dict[str, slice]:
        """The columns of T_i, T_j, a_ij and a_ji."""
        ends = np.cumsum([0, self.width, self.width, self.maps, self.maps]).tolist()
        return {name: slice(*bounds) for name, *bounds in zip(PARTS, ends, ends[1:], strict=False)}

    def name(self, column: int) -> str:
        """The name of a feature, such as `"T_j 17"`, or `"a_ji 2-5"` for head 5 of layer 2, both from 0."""
        (part, start) = next((name, part.start) for name, part in self.groups.items() if column < part.stop)
        place = column - start
        return f"{part} {place}" if part not in DIRECTIONS else "{} {}-{}".format(part, *divmod(place, self.heads))


@dataclass(frozen=True)
class WordPairs:
    """
    Word pairs (i, j) with their features.

    Args:
        layout (`PairLayout`): The positions of the features.
        features (`np.ndarray` of shape `(pairs, 2M + 2LH)`): The features [T_i; T_j; a_ij; a_ji].
        is_arc (`np.ndarray` of shape `(pairs,)`): Whether i is the head of j.
        places (`np.ndarray` of shape `(pairs, 2)`): i - j and whether i is ROOT, a baseline without the encoder.
    """

    layout: PairLayout
    features: np.ndarray
    is_arc: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class HeadHits:
    """
    Counts, by relation, of words whose head is another word.

    Args:
        hits (`np.ndarray` of shape `(relations, 2, layers, heads)`):
            Number of words whose head has the highest attention among all other words: attention from the head to the
            word (a_ij) first, then from the word to the head (a_ji).
        words (`np.ndarray` of shape `(relations,)`): Number of words.
        offsets (`np.ndarray` of shape `(relations, 2 * FARTHEST + 1)`):
            Number of words by the offset of their head, from -FARTHEST (left) to FARTHEST (right).
    """

    hits: np.ndarray
    words: np.ndarray
    offsets: np.ndarray


def sample_pairs(heads: Sequence[Sequence[int]], most: int, seed: int) -> list[tuple[list[int], list[int]]]:
    """
    Samples arcs and, from the same sentences, equally many word pairs that are not arcs.

    Args:
        heads (`Sequence[Sequence[int]]`):
            The head of each word of each sentence, from 1; 0 for ROOT. Words with `NO_LABEL` are no dependents of
            pairs.
        most (`int`): Maximum number of pairs, half of them arcs.
        seed (`int`): Random seed of the sample.

    Returns:
        `list[tuple[list[int], list[int]]]`: The i and the j of the distinct pairs of each sentence, arcs first.
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
            # Each dependent can be paired with ROOT and all words but itself and its head.
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
    batch_size: int = 16,
) -> tuple[WordPairs, HeadHits]:
    """
    Runs an encoder on a treebank and collects features of word pairs and hits of attention heads.

    Args:
        model (`PreTrainedModel`): Any encoder with eager attention.
        tokenizer (`PreTrainedTokenizerBase`): The fast tokenizer of the encoder.
        dataset (`datasets.Dataset`): The result of [`~msattn.data.inputs.parser_inputs.encode_treebank`].
        relations (`int`): Number of relations.
        max_pairs (`int`): Maximum number of pairs; see [`sample_pairs`].
        seed (`int`, *optional*, defaults to 0): Random seed of the pairs.
        word_state (`str`, *optional*, defaults to `"first"`): See [`~msattn.modeling.word_attention.word_states`].
        batch_size (`int`, *optional*, defaults to 16): Number of sentences per batch.

    Returns:
        `tuple[WordPairs, HeadHits]`: The pairs and the counts.

    Raises:
        UserError: No sentence has two words.
    """
    pairs = sample_pairs(dataset["heads"][:], max_pairs, seed)
    if not any(firsts for firsts, _ in pairs):
        raise UserError("there is no sentence of two words, between which there could be an arc or none.")
    rows = [
        {**row, "first": firsts, "second": seconds}
        for row, (firsts, seconds) in zip(dataset.remove_columns(WINDOW_COLUMNS), pairs, strict=True)
    ]
    parts = []
    rows.sort(key=lambda row: -len(row["input_ids"]))
    for start in range(0, len(rows), batch_size):
        batch = ParserCollator(tokenizer)(rows[start : start + batch_size])
        hidden_states, layers = encoder_outputs(model, batch)
        batch = {name: value.to(hidden_states.device) for name, value in batch.items()}
        parts.append(_read_batch(batch, hidden_states, layers, relations, word_state))
    layout = PairLayout(hidden_states.shape[-1], len(layers), layers[0].shape[1])
    features, is_arc, places, *counts = zip(*parts, strict=True)
    pairs_read = WordPairs(layout, *(np.concatenate(column) for column in (features, is_arc, places)))
    return pairs_read, HeadHits(*(sum(column[1:], column[0]) for column in counts))


@torch.no_grad()
def encoder_outputs(
    model: PreTrainedModel, batch: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The last hidden states, `(batch, tokens, width)`, and the attention of each layer, `(batch, heads, N, N)`."""
    inputs = {name: batch[name].to(model.device) for name in ("input_ids", "attention_mask")}
    outputs = model(**inputs, output_attentions=True)
    return outputs.last_hidden_state, list(outputs.attentions)


def _read_batch(
    batch: Mapping[str, torch.Tensor],
    hidden_states: torch.Tensor,
    layers: Sequence[torch.Tensor],
    relations: int,
    word_state: str,
) -> tuple[np.ndarray, ...]:
    """The fields of [`WordPairs`] without `layout`, then those of [`HeadHits`]."""
    heads = batch["heads"]
    count = heads.shape[1]
    # Sentence, i and j of each pair. Padding has j = 0, which is never a dependent.
    row, place = batch["second"].nonzero(as_tuple=True)
    first, second = batch["first"][row, place], batch["second"][row, place]
    # Sentence, position and head position of each word whose head is not ROOT.
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
