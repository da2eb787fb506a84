"""Word co-occurrence: positive pointwise mutual information over a corpus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from datasets.utils import tqdm

from msattn.errors import extra


class PositivePMI:
    r"""
    Positive pointwise mutual information (PPMI) of word pairs.

    PPMI(x, y) = max(0, log(n · n_xy / (n_x · n_y))), where n is the number of texts, n_x the number of texts with the
    word x, and n_xy the number with both x and y.

    Co-occurrence is counted within a text, usually a sentence; the two texts of a pair are counted separately. Case is
    ignored. The PPMI of a word with itself or with a word outside the corpus is 0.

    Args:
        texts (`Iterable[Sequence[str]]`): The words of each text.
    """

    def __init__(self, texts: Iterable[Sequence[str]]):
        with extra("train"):
            from scipy.sparse import csr_array
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
        """
        The PPMI of all word pairs of an example.

        Args:
            texts (`Sequence[Sequence[str]]`): The words of each text of the example.

        Returns:
            `np.ndarray` of shape `(words, words)`: The values, in float32, over the concatenated texts.
        """
        numbers = np.array([self.vocabulary.get(word.casefold(), -1) for word in chain(*texts)], dtype=int)
        known = np.flatnonzero(numbers >= 0)
        scores = np.zeros((len(numbers), len(numbers)), np.float32)
        scores[np.ix_(known, known)] = self.information[numbers[known]][:, numbers[known]].toarray()
        return scores
