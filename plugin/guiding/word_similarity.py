"""Word similarity by WordNet or by the word embeddings of an encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import chain

import numpy as np
from datasets.utils import tqdm
from transformers import PreTrainedTokenizerBase


class WordNetSimilarity:
    r"""
    Wu-Palmer similarity of the first WordNet synsets of two words.

    sim(x, y) = max 2 d / (d_x + d_y) over the shared hypernyms, where d is the depth of the hypernym, and d_x and d_y
    are the depths of x and y on the path through it. It is 0 without a shared hypernym, as for adjectives, and for
    words that WordNet lacks.

    `wup_similarity` of nltk differs for synsets with several hypernym paths (it gives 0.93 for dog and dog), and is
    about a hundred times slower.

    Args:
        vocabulary (`Iterable[str]`): The known words. All others have the similarity 0.

    Raises:
        ImportError: `nltk` is not installed.
        LookupError: The WordNet data of `nltk` are not installed.
    """

    def __init__(self, vocabulary: Iterable[str]):
        wordnet = import_module("nltk.corpus").wordnet
        wordnet.ensure_loaded()
        self.depths: dict[str, int] = {}
        self.hypernyms: dict[str, dict[str, int]] = {}
        for word in tqdm(sorted({word.casefold() for word in vocabulary}), desc="Looking words up in WordNet"):
            for synset in wordnet.synsets(word)[:1]:
                # Sorted by descending distance, so that the dict keeps the shortest one.
                paths = sorted(synset.hypernym_distances(), key=lambda path: -path[1])
                self.hypernyms[word] = {hypernym.name(): distance for hypernym, distance in paths}
                self.depths.update((hypernym.name(), hypernym.max_depth() + 1) for hypernym, _ in paths)

    def __call__(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """
        The similarities of all word pairs of an example.

        Args:
            texts (`Sequence[Sequence[str]]`): The words of each text of the example.

        Returns:
            `np.ndarray` of shape `(words, words)`: The similarities, in float32, over the concatenated texts.
        """
        hypernyms = [self.hypernyms.get(word.casefold(), {}) for word in chain(*texts)]
        similarities = np.zeros((len(hypernyms), len(hypernyms)), np.float32)
        for row, own in enumerate(hypernyms):
            for column, other in enumerate(hypernyms[: row + 1]):
                shared = ((2 * self.depths[name], own[name] + other[name]) for name in own.keys() & other.keys())
                best = max((depths / (depths + distance) for depths, distance in shared), default=0)
                similarities[row, column] = similarities[column, row] = best
        return similarities


class EmbeddingSimilarity:
    """
    Cosine similarity of word embeddings, clipped at 0. The embedding of a word is the mean over its sub-words.

    Args:
        vocabulary (`Iterable[str]`): The known words. All others have the similarity 0.
        tokenizer (`PreTrainedTokenizerBase`): Splits words into sub-words.
        embeddings (`np.ndarray` of shape `(pieces, dimensions)`): The embeddings by sub-word id.
    """

    def __init__(self, vocabulary: Iterable[str], tokenizer: PreTrainedTokenizerBase, embeddings: np.ndarray):
        words = sorted(set(vocabulary))
        # Byte-level tokenizers encode a word within a text with its preceding space.
        pieces = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"] if words else []
        self.pieces = dict(zip(words, pieces, strict=True))
        self.embeddings = embeddings

    def __call__(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """
        The similarities of all word pairs of an example.

        Args:
            texts (`Sequence[Sequence[str]]`): The words of each text of the example.

        Returns:
            `np.ndarray` of shape `(words, words)`: The similarities, in float32, over the concatenated texts.
        """
        vectors = np.zeros((sum(map(len, texts)), self.embeddings.shape[1]), np.float32)
        for row, word in enumerate(chain(*texts)):
            pieces = self.pieces.get(word)
            if pieces:
                vectors[row] = self.embeddings[pieces].mean(axis=0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return np.maximum(vectors @ vectors.T, 0)
