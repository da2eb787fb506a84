"""Decodes the scores of a parser into heads, relations and probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers.utils import logging

from msattn.errors import UserError, shown
from msattn.trees.k_best_trees import k_best_trees
from msattn.trees.tree_decoding import (
    as_array,
    decode_trees,
    greedy_heads,
    joined_tree,
    repaired_heads,
    with_fixed_heads,
)
from msattn.trees.tree_marginals import batch_marginals

logger = logging.get_logger(__name__)

DECODERS = ("mst", "eisner", "mbr", "mbr_eisner", "greedy")
# What decodes as well, with crossing arcs.
CROSSING = {"eisner": "mst", "mbr_eisner": "mbr"}
# 16 MiB.
MARGINAL_NUMBERS = 2**21


class Parses(NamedTuple):
    """
    The parse of a sentence, with arrays of shape `(words,)`, or of a batch, `(batch, words)`.

    In a batch, the values beyond the end of a sentence are undefined.

    Args:
        heads (`np.ndarray`): The index of each word's head, from 1; 0 for the root.
        relations (`np.ndarray`): The id of each word's relation.
        scores (`np.ndarray`): The probability of the head times that of the relation.
        greedy (`np.ndarray`): The best head of each word without the constraint to a tree.
        tags (`Mapping[str, np.ndarray]`): The id of each word's label in the columns that the parser tags.
    """

    heads: np.ndarray
    relations: np.ndarray
    scores: np.ndarray
    greedy: np.ndarray
    tags: Mapping[str, np.ndarray] = {}

    def stacked(self) -> np.ndarray:
        """All of them as one array `(..., words, 4 + columns)`; the columns of `tags` are in alphabetical order."""
        return np.stack([*self[:4], *(self.tags[name] for name in sorted(self.tags))], axis=-1)


def decoder_of(config: Any) -> str:
    """
    The decoder in a parser's configuration, which a development set has chosen; `"mst"` if it names none.

    Raises:
        UserError: There is no such decoder.
    """
    decoder = getattr(config, "tree_decoder", None) or "mst"
    if decoder not in DECODERS:
        raise UserError(f"tree_decoder in the configuration is one of {', '.join(DECODERS)}, not {decoder!r}.")
    return decoder


def temperature_of(config: Any) -> float:
    """The temperature of the arc scores of a parser; 1 if it was not calibrated."""
    return getattr(config, "calibration_temperature", None) or 1.0


def parse_batch(
    model: Callable[..., Any], inputs: Mapping[str, torch.Tensor], decoder: str = "mst", temperature: float = 1.0
) -> tuple[Any, Parses]:
    """
    Parses a batch. Relations are scored for the decoded arcs only.

    Args:
        model (`BertPairwiseParser`): The parser, in evaluation mode.
        inputs (`Mapping[str, torch.Tensor]`): The model inputs.
        decoder (`str`, *optional*, defaults to `"mst"`):
            See [`decode_heads`].
        temperature (`float`, *optional*, defaults to 1.0): Divides the arc scores.

    Returns:
        `tuple[PairwiseParserOutput, Parses]`: What the parser returned, and the trees.

    Raises:
        ValueError: A score is NaN or `inf`.
    """
    lengths = inputs["word_index"].amax(dim=1).cpu()
    found: dict[str, np.ndarray] = {}

    def choose_heads(arc_scores: torch.Tensor) -> torch.Tensor:
        scores = as_array(arc_scores) / temperature
        found["greedy"] = greedy_heads(scores, lengths)
        found["heads"] = decode_heads(scores, found["greedy"], decoder)
        return torch.from_numpy(found["heads"]).to(arc_scores.device)

    outputs = model(**inputs, choose_heads=choose_heads)
    arcs = outputs["arc_scores"]
    index = torch.from_numpy(found["heads"]).to(arcs.device).clamp_min(0).unsqueeze(1)
    of_heads = (arcs[:, :, 1:].float() / temperature).softmax(dim=1).gather(1, index).squeeze(1)
    of_relations, relations = outputs["relation_logits"].float().softmax(dim=-1).max(dim=-1)
    scores = (of_heads * of_relations).cpu().numpy()
    return outputs, Parses(relations=relations.cpu().numpy(), scores=scores, tags=best_tags(outputs), **found)


def best_tags(outputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The id of each word's best label, `(batch, words)`, by column; empty for a parser that tags nothing."""
    logits = outputs["tag_logits"] if "tag_logits" in outputs else {}
    return {name: of_words.argmax(dim=-1).cpu().numpy() for name, of_words in logits.items()}


def decode_heads(scores: np.ndarray, greedy: np.ndarray, decoder: str) -> np.ndarray:
    """
    The head of each word.

    Args:
        scores (`np.ndarray`): `(batch, words + 1, words + 1)`; see [`~msattn.decode_trees`].
        greedy (`np.ndarray`): `(batch, words)`, from [`greedy_heads`].
        decoder (`str`):
            - `"mst"`: the best tree.
            - `"eisner"`: the best tree without crossing arcs.
            - `"mbr"`: the tree with the highest expected number of right heads, the best one under the marginals
              (minimum Bayes risk).
            - `"mbr_eisner"`: the same among the trees without crossing arcs.
            - `"greedy"`: each word's best head; together they may be no tree.

    Returns:
        `np.ndarray`: `(batch, words)`, with -1 beyond the end of a sentence.
    """
    if decoder == "greedy":
        return greedy
    if decoder in ("mbr", "mbr_eisner"):
        lengths = (greedy >= 0).sum(axis=1)
        # Marginals keep a third of the words to the power of three numbers a sentence.
        rows = max(1, 3 * MARGINAL_NUMBERS // scores.shape[1] ** 3)
        parts = [
            batch_marginals(torch.from_numpy(scores[start : start + rows]), lengths[start : start + rows]).marginals
            for start in range(0, len(scores), rows)
        ]
        marginals = np.where(np.isneginf(scores), -np.inf, torch.cat(parts).numpy())
        return decode_trees(marginals, lengths, projective=decoder == "mbr_eisner")
    return repaired_heads(scores, greedy, projective=decoder == "eisner")


@dataclass(frozen=True, eq=False)
class RankedTree:
    """
    A tree and its probability among all trees of a sentence.

    Args:
        heads: `(words,)`, the number of each word's head, 0 for the root.
        relations: `(words,)`, the number of its relation.
        scores: `(words,)`, as in [`Parses`].
        marginals: `(words,)`, the probability of its head over all trees.
        probability: That of the tree, without its relations.
    """

    heads: np.ndarray
    relations: np.ndarray
    scores: np.ndarray
    marginals: np.ndarray
    probability: float


def ranked_trees(
    arc_scores: torch.Tensor,
    relation_logits: torch.Tensor,
    k: int | None = None,
    fixed: Mapping[int, int] | None = None,
    decoder: str = "mst",
    temperature: float = 1.0,
) -> list[RankedTree]:
    """
    The trees of a sentence with their probabilities.

    Args:
        arc_scores (`torch.Tensor`): `(words + 1, words + 1)`; see [`~msattn.decode_tree`].
        relation_logits (`torch.Tensor`): `(words + 1, words + 1, relations)`, those of all pairs.
        k (`int`, *optional*): The number of trees, best first; only that of the decoder if `None`.
        fixed (`Mapping[int, int]`, *optional*): Heads that are known: dependent to head, words counted from 1.
        decoder (`str`, *optional*, defaults to `"mst"`):
            See [`decode_heads`]; not used with `k`. If only trees with crossing arcs have the fixed heads, `"mst"`
            takes the place of `"eisner"` and `"mbr"` that of `"mbr_eisner"`, with a warning.
        temperature (`float`, *optional*, defaults to 1.0): Divides the arc scores.

    Raises:
        ValueError: A score is NaN or `inf`.
        UserError: `k` is less than 1, `fixed` names a word that is not there, or no tree has the fixed heads.
    """
    scores = as_array(arc_scores)[None] / temperature
    if fixed:
        scores = with_fixed_heads(scores, None, [fixed])
    distribution = batch_marginals(torch.from_numpy(scores))
    if k is None:
        trees = _decoded_around(scores, fixed, decoder)
    else:
        trees, _ = k_best_trees(scores[0], k)
    words = np.arange(1, scores.shape[1])
    of_heads = torch.from_numpy(scores[0]).softmax(dim=0).numpy()
    ranked = []
    for heads in trees:
        logits = relation_logits[torch.from_numpy(heads), torch.from_numpy(words)].cpu().double()
        of_relations, relations = logits.softmax(dim=-1).max(dim=-1)
        total = scores[0, heads, words].sum()
        ranked.append(
            RankedTree(
                heads,
                relations.numpy(),
                of_heads[heads, words] * of_relations.numpy(),
                distribution.marginals[0].numpy()[heads, words],
                float(np.exp(min(0.0, total - float(distribution.log_partition)))),
            )
        )
    return ranked


def _decoded_around(scores: np.ndarray, fixed: Mapping[int, int] | None, decoder: str) -> np.ndarray:
    """The heads of a sentence; with crossing arcs if the fixed heads need them."""
    greedy = greedy_heads(scores)
    try:
        return decode_heads(scores, greedy, decoder)
    except UserError:
        if not fixed or decoder not in CROSSING:
            raise
    heads = decode_heads(scores, greedy, CROSSING[decoder])
    logger.warning(
        f"every tree with fixed={shown(fixed)} has crossing arcs, which {decoder} does not allow; this sentence is "
        f"decoded by {CROSSING[decoder]}."
    )
    return heads


def sentence_parses(
    answers: Iterable[np.ndarray], windows: Iterable[Mapping[str, int]], decoder: str, tags: Sequence[str] = ()
) -> list[Parses]:
    """
    Merges the parses of windows into parses of sentences.

    Args:
        answers (`Iterable[np.ndarray]`):
            Of each window [`Parses.stacked`], or more words of padding.
        windows (`Iterable[Mapping]`):
            Of each its `sentence`, counted from 0, `first`, the number of words before it, and `start` and `stop`,
            between which the answers count; see [`~msattn.data.inputs.parser_windows.Window`].
        decoder (`str`):
            With all but `"greedy"` the heads of several windows are made a tree, whose arcs may cross. Words that get
            another head for it keep their relation and have the score 0.
        tags (`Sequence[str]`, *optional*): The columns that the parser tags.
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
        heads, relations, scores, greedy, *numbers = np.concatenate(parts).T
        whole = heads.astype(int)
        if len(parts) > 1 and decoder != "greedy":
            whole = joined_tree(whole, scores)
            scores = np.where(whole == heads, scores, 0)  # no window has chosen the new arcs
        of_words = {name: each.astype(int) for name, each in zip(sorted(tags), numbers, strict=True)}
        parses.append(Parses(whole, relations.astype(int), scores, greedy.astype(int), of_words))
    return parses
