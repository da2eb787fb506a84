"""Words that occur together: pointwise mutual information over a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from scipy.sparse import csr_array
from transformers.utils.logging import tqdm


class PositivePMI:
    r"""
    max(0, log(n · n_xy / (n_x · n_y))): n texts, n_x of them with the word x, n_xy with both x and y.

    The unit is the sentence, or whatever else a text of the corpus is; in a pair each text counts for itself. Upper
    and lower case are the same. A word has nothing in common with itself, nor with a word outside of the corpus.

    Args:
        texts (`Iterable[Sequence[str]]`): The words of each text.
    """

    def __init__(self, texts: Iterable[Sequence[str]]):
        self.vocabulary: dict[str, int] = {}
        columns: list[int] = []
        starts = [0]
        for words in tqdm(texts, desc="Counting words that occur together"):
            known = {self.vocabulary.setdefault(word.casefold(), len(self.vocabulary)) for word in words}
            columns.extend(known)
            starts.append(len(columns))
        shape = (len(starts) - 1, len(self.vocabulary))
        occurs = csr_array((np.ones(len(columns), np.int32), np.array(columns, np.int64), starts), shape=shape)
        together = (occurs.T @ occurs).tocoo()
        texts_with = together.diagonal()
        information = np.log(float(shape[0]) * together.data / texts_with[together.row] / texts_with[together.col])
        kept = (information > 0) & (together.row != together.col)
        self.information = csr_array(
            (information[kept].astype(np.float32), (together.row[kept], together.col[kept])), shape=together.shape
        )

    def __call__(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """The information of all pairs of words, `(words, words)`, counted through the texts of an example."""
        numbers = np.array([self.vocabulary.get(word.casefold(), -1) for word in chain(*texts)], dtype=int)
        known = np.flatnonzero(numbers >= 0)
        scores = np.zeros((len(numbers), len(numbers)), np.float32)
        scores[np.ix_(known, known)] = self.information[numbers[known]][:, numbers[known]].toarray()
        return scores
