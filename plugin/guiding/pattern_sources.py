"""Attention patterns by name, and the collator that adds their targets to a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from msattn.data.inputs.words import WORD_COLUMNS
from msattn.errors import UserError
from msattn.guiding.cooccurrence import PositivePMI
from msattn.guiding.dependency_trees import DependencyTrees, read_conllu
from msattn.guiding.word_similarity import EmbeddingSimilarity
from msattn.modeling.attention_patterns import POSITIONS

logger = logging.get_logger(__name__)

# Patterns need the position of a token (POSITIONS), its id (TOKEN_PATTERNS) or the words (WORD_PATTERNS).
TOKEN_PATTERNS = ("delim", "period")
WORD_PATTERNS = ("pmi", "dependency", "wordsim")
PATTERNS = (*POSITIONS, *TOKEN_PATTERNS, *WORD_PATTERNS)

# Maps the words of an example's texts to non-negative target strengths of shape (words, words).
Source = Callable[[Sequence[Sequence[str]]], np.ndarray]


class PatternCollator:
    """
    Adds `pattern_targets` to the batches of another collator.

    They are the targets of [`~msattn.modeling.attention_patterns.pattern_loss`] for each pattern that depends on the
    text: `(batch, tokens)` for token patterns, `(batch, tokens, tokens)` for word patterns. The matrices are computed
    per batch to keep the dataset small. A sub-word has the target of its word; special tokens have the target 0.

    Args:
        collator (`Callable`): Collates examples without the columns `words` and `word_ids`.
        tokenizer (`PreTrainedTokenizerBase`): Has the ids of separator and period, and the padding side.
        patterns (`Sequence[str]`): Names from `PATTERNS`.
        sources (`Mapping[str, Source]`, *optional*):
            The source of each word pattern; see [`word_sources`]. Word patterns without a source have no targets.

    Raises:
        UserError: `tokenizer` is `None`, or lacks the separator of `delim` or the token `.` of `period`.
    """

    def __init__(
        self,
        collator: Callable[[list[dict[str, Any]]], Any],
        tokenizer: PreTrainedTokenizerBase | None,
        patterns: Sequence[str],
        sources: Mapping[str, Source] | None = None,
    ):
        if tokenizer is None:
            raise UserError(f"patterns: {', '.join(patterns)} cannot be found without a tokenizer (processing_class).")
        self.collator = collator
        self.padding_side = tokenizer.padding_side
        self.sources = sources or {}
        self.ids: dict[str, list[int]] = {}
        if "delim" in patterns:
            if tokenizer.sep_token_id is None:
                raise UserError("the pattern delim needs a tokenizer with a separator token.")
            self.ids["delim"] = [tokenizer.sep_token_id]
        if "period" in patterns:
            # Byte-level BPE and SentencePiece also have a word-initial period, marked by a prefix.
            self.ids["period"] = [id for token, id in tokenizer.get_vocab().items() if token.lstrip("Ġ▁") == "."]
            if not self.ids["period"]:
                raise UserError('the pattern period needs a tokenizer with the token ".".')

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> Any:
        batch = self.collator(
            [{name: value for name, value in example.items() if name not in WORD_COLUMNS} for example in examples]
        )
        batch["pattern_targets"] = {
            name: torch.isin(batch["input_ids"], torch.tensor(ids)).float() for name, ids in self.ids.items()
        }
        # Validation data are encoded without words.
        for name, source in self.sources.items() if "words" in examples[0] else ():
            batch["pattern_targets"][name] = self._matrices(source, examples, *batch["input_ids"].shape)
        return batch

    def _matrices(
        self, source: Source, examples: Sequence[Mapping[str, Any]], batch: int, tokens: int
    ) -> torch.Tensor:
        targets = torch.zeros(batch, tokens, tokens)
        for target, example in zip(targets, examples, strict=True):
            between = torch.from_numpy(source(example["words"]))
            padding = tokens - len(example["word_ids"]) if self.padding_side == "left" else 0
            at = torch.tensor([at for at, word in enumerate(example["word_ids"], padding) if word is not None])
            word_ids = torch.tensor([word for word in example["word_ids"] if word is not None])
            if len(at):
                target[at.unsqueeze(-1), at] = between[word_ids.unsqueeze(-1), word_ids]
        return targets


def word_sources(
    patterns: Sequence[str],
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    embeddings: torch.Tensor,
    trees: Sequence[str] | None = None,
) -> dict[str, Source]:
    """
    Builds the sources of the word patterns from the training data.

    Args:
        patterns (`Sequence[str]`): Names from `PATTERNS`; only word patterns have a source.
        dataset (`datasets.Dataset`): The training data, with the columns `words` and `word_ids`.
        tokenizer (`PreTrainedTokenizerBase`): The tokenizer of the encoder.
        embeddings (`torch.Tensor` of shape `(pieces, dimensions)`):
            The encoder's word embeddings, for `wordsim`.
        trees (`Sequence[str]`, *optional*): For `dependency`: CoNLL-U files with the training sentences.

    Returns:
        `dict[str, Source]`: The source of each word pattern.

    Raises:
        UserError: The dataset lacks a column, `trees` is missing for `dependency`, or no training sentence has a tree.
    """
    wanted = [name for name in patterns if name in WORD_PATTERNS]
    if not wanted:
        return {}
    missing = set(WORD_COLUMNS).difference(getattr(dataset, "column_names", None) or ())
    if missing:
        raise UserError(
            f"the pattern {wanted[0]} needs {' and '.join(sorted(missing))} in the training data: encode them with "
            "words=True; a stream also has to know its columns: map(..., features=...)."
        )
    sources: dict[str, Source] = {}
    for name in wanted:
        if name == "pmi":
            sources[name] = PositivePMI(_texts(dataset))
        elif name == "dependency":
            sources[name] = _dependency_trees(_texts(dataset), trees)
        elif name == "wordsim":
            vocabulary = chain.from_iterable(_texts(dataset))
            sources[name] = EmbeddingSimilarity(vocabulary, tokenizer, embeddings.float().numpy())
    return sources


def warn_of_empty_patterns(collator: PatternCollator, dataset: Any) -> None:
    """
    Warns of patterns that have no target in the training data.

    Args:
        collator (`PatternCollator`): Has the patterns.
        dataset (`datasets.Dataset`): The training data; a stream is not looked at.
    """
    columns = getattr(dataset, "column_names", None) or ()
    if not hasattr(dataset, "__len__"):
        return
    found = {}
    if "input_ids" in columns:
        for name, ids in collator.ids.items():
            found[name] = any(not set(ids).isdisjoint(row) for row in dataset["input_ids"])
    if "words" in columns:
        for name, source in collator.sources.items():
            found[name] = any(source(words).any() for words in dataset["words"])
    for name, any_target in found.items():
        if not any_target:
            logger.warning(f"the pattern {name} finds nothing in the training data: no head is guided to it.")


def _texts(dataset: Dataset) -> Iterator[list[str]]:
    for example in dataset["words"]:
        yield from example


def _dependency_trees(texts: Iterable[Sequence[str]], trees: Sequence[str] | None) -> DependencyTrees:
    if not trees:
        raise UserError("the pattern dependency needs trees: name CoNLL-U files (--dependency_files).")
    found = DependencyTrees(chain.from_iterable(map(read_conllu, trees)))
    has_tree = [words in found for words in texts]
    if not any(has_tree):
        raise UserError(f"{', '.join(trees)}: no text of the training data is a sentence in there.")
    if not all(has_tree):
        missing = has_tree.count(False)
        logger.warning(f"dependency: {missing} of {len(has_tree)} training texts are no single sentence with a tree.")
    return found
