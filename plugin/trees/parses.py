"""Decodes the scores of a parser into heads, relations and probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from msattn.trees.tree_decoding import as_array, greedy_heads, joined_tree, repaired_heads

DECODERS = ("greedy", "mst")


class Parses(NamedTuple):
    """
    The parse of a sentence, with arrays of shape `(words,)`, or of a batch, `(batch, words)`.

    In a batch, the values beyond the end of a sentence are undefined.

    Args:
        heads (`np.ndarray`): The index of each word's head, from 1; 0 for the root.
        relations (`np.ndarray`): The id of each word's relation.
        scores (`np.ndarray`): The probability of the head times that of the relation.
        greedy (`np.ndarray`): The best head of each word without the constraint to a tree.
    """

    heads: np.ndarray
    relations: np.ndarray
    scores: np.ndarray
    greedy: np.ndarray


def parse_batch(
    model: Callable[..., Any], inputs: Mapping[str, torch.Tensor], decoder: str = "mst"
) -> tuple[Any, Parses]:
    """
    Parses a batch. Relations are scored for the decoded arcs only.

    Args:
        model (`BertPairwiseParser`): The parser, in evaluation mode.
        inputs (`Mapping[str, torch.Tensor]`): The model inputs.
        decoder (`str`, *optional*, defaults to `"mst"`):
            The maximum spanning tree (`"mst"`), or the best head of each word (`"greedy"`), which need not give a
            tree.

    Returns:
        `tuple[PairwiseParserOutput, Parses]`: The output of the parser and the parses.

    Raises:
        UserError: `decoder` is `"mst"`, and the package `ufal.chu_liu_edmonds` is needed but not installed.
    """
    lengths = inputs["word_index"].amax(dim=1).cpu()
    found: dict[str, np.ndarray] = {}

    def choose_heads(arc_scores: torch.Tensor) -> torch.Tensor:
        scores = as_array(arc_scores)
        found["greedy"] = greedy_heads(scores, lengths)
        found["heads"] = repaired_heads(scores, found["greedy"]) if decoder == "mst" else found["greedy"]
        return torch.from_numpy(found["heads"]).to(arc_scores.device)

    outputs = model(**inputs, choose_heads=choose_heads)
    arcs = outputs["arc_scores"]
    index = torch.from_numpy(found["heads"]).to(arcs.device).clamp_min(0).unsqueeze(1)
    of_heads = arcs[:, :, 1:].float().softmax(dim=1).gather(1, index).squeeze(1)
    of_relations, relations = outputs["relation_logits"].float().softmax(dim=-1).max(dim=-1)
    scores = (of_heads * of_relations).cpu().numpy()
    return outputs, Parses(relations=relations.cpu().numpy(), scores=scores, **found)


def sentence_parses(answers: Iterable[np.ndarray], windows: Iterable[Mapping[str, int]], decoder: str) -> list[Parses]:
    """
    Merges the parses of windows into parses of sentences.

    Args:
        answers (`Iterable[np.ndarray]`): The columns of [`Parses`] for each window, `(words, 4)`, optionally padded.
        windows (`Iterable[Mapping[str, int]]`):
            For each window: `sentence` (the index of its sentence, from 0), `first` (the number of words before the
            window), and `start` and `stop` (the words that are kept); see
            [`~msattn.data.inputs.parser_inputs.Window`].
        decoder (`str`): With `"mst"`, merged heads are repaired to a tree; see [`joined_tree`].

    Returns:
        `list[Parses]`: The parse of each sentence.
    """
    sentences: list[list[np.ndarray]] = []
    for answer, window in zip(answers, windows, strict=True):
        kept = answer[window["start"] : window["stop"]].astype(np.float64)
        # Heads are relative to the window, except the root, which is always 0.
        for column in (Parses._fields.index(name) for name in ("heads", "greedy")):
            kept[:, column] += np.where(kept[:, column] > 0, window["first"], 0)
        if window["sentence"] == len(sentences):
            sentences.append([])
        sentences[-1].append(kept)
    parses = []
    for parts in sentences:
        heads, relations, scores, greedy = np.concatenate(parts).T
        whole = heads.astype(int)
        if len(parts) > 1 and decoder == "mst":
            whole = joined_tree(whole, scores)
        parses.append(Parses(whole, relations.astype(int), scores, greedy.astype(int)))
    return parses
