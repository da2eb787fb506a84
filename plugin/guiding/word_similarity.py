"""How like two words are: by WordNet, or by the word embeddings of an encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from itertools import chain

import numpy as np
from transformers import PreTrainedTokenizerBase
from transformers.utils.logging import tqdm


class WordNetSimilarity:
    r"""
    Wu and Palmer's measure of the first synsets of two words: 2 d / (d_x + d_y), where d is the depth of a hypernym
    that both share, and d_x and d_y are the depths of the two by way of it; of several hypernyms the one with the
    highest value. 0 without such a hypernym, as for adjectives, and for a word that WordNet does not have. The measure
    of nltk is another where a synset has several ways up (a dog is .93 like itself), and some hundred times slower.

    Args:
        vocabulary (`Iterable[str]`): The words; all else is unknown.

    Raises:
        ImportError: `nltk` is not installed.
        LookupError: Its WordNet is not.
    """

    def __init__(self, vocabulary: Iterable[str]):
        wordnet = import_module("nltk.corpus").wordnet
        wordnet.ensure_loaded()
        self.depths: dict[str, int] = {}
        self.hypernyms: dict[str, dict[str, int]] = {}
        for word in tqdm(sorted({word.casefold() for word in vocabulary}), desc="Looking words up in WordNet"):
            for synset in wordnet.synsets(word)[:1]:
                # The farthest first, so that the nearest remains.
                paths = sorted(synset.hypernym_distances(), key=lambda path: -path[1])
                self.hypernyms[word] = {hypernym.name(): distance for hypernym, distance in paths}
                self.depths.update((hypernym.name(), hypernym.max_depth() + 1) for hypernym, _ in paths)

    def __call__(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """The similarities of all words, `(words, words)`, counted through the texts of an example."""
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
    The cosine of two words' embeddings, 0 where it is negative. The embedding of a word is the mean of its pieces'.

    Args:
        vocabulary (`Iterable[str]`): The words; all else is unknown.
        tokenizer (`PreTrainedTokenizerBase`): Cuts them into pieces.
        embeddings (`np.ndarray` of shape `(pieces, dimensions)`): By the ids of the pieces.
    """

    def __init__(self, vocabulary: Iterable[str], tokenizer: PreTrainedTokenizerBase, embeddings: np.ndarray):
        words = sorted(set(vocabulary))
        # A space before a word, as in a text: to some tokenizers it is part of the word.
        pieces = tokenizer([f" {word}" for word in words], add_special_tokens=False)["input_ids"] if words else []
        self.pieces = dict(zip(words, pieces, strict=True))
        self.embeddings = embeddings

    def __call__(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """The similarities of all words, `(words, words)`, counted through the texts of an example."""
        vectors = np.zeros((sum(map(len, texts)), self.embeddings.shape[1]), np.float32)
        for row, word in enumerate(chain(*texts)):
            pieces = self.pieces.get(word)
            if pieces:
                vectors[row] = self.embeddings[pieces].mean(axis=0)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)
        return np.maximum(vectors @ vectors.T, 0)
