"""Word similarity by the word embeddings of an encoder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from transformers import PreTrainedTokenizerBase


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
