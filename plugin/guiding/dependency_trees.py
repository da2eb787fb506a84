"""Dependency trees from CoNLL-U files, aligned with texts that may be tokenized differently."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from msattn.data.files.conllu import conllu_sentences
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

# The tokens of a sentence, and its edges as pairs of token indices.
Tree = tuple[list[str], list[tuple[int, int]]]


def read_conllu(path: str | os.PathLike) -> Iterator[Tree]:
    """
    Reads the trees of a CoNLL-U file.

    A sentence with multi-word tokens gives two trees: one over its tokens, where a multi-word token has the edges of
    all its words, and one over its words. Empty nodes are skipped, and edges to the root are dropped.

    Args:
        path (`str` or `os.PathLike`): The file.

    Raises:
        UserError: The file cannot be read or is not CoNLL-U, or a head is not a word of its sentence.
    """
    for end, sentence, _ in conllu_sentences(text_lines(path, newline="")):
        words: list[str] = []
        tokens: list[str] = []
        owners: list[int] = []
        heads: list[int] = []
        last = 0
        for where, cells, last_word in sentence:
            if last_word:
                tokens.append(cells["form"])
                last = last_word
                continue
            if not cells["head"].isdecimal():
                raise UserError(f"{where}: the head has to be the number of a word or 0, not {cells['head']!r}.")
            words.append(cells["form"])
            heads.append(int(cells["head"]))
            if len(heads) > last:
                tokens.append(cells["form"])
            owners.append(len(tokens) - 1)
        if not all(head <= len(heads) for head in heads):
            raise UserError(f"{end}: a head of the sentence above is none of its {len(heads)} words.")
        edges = [(word, head - 1) for word, head in enumerate(heads) if head]
        if words != tokens:
            yield tokens, [(owners[word], owners[head]) for word, head in edges]
        yield words, edges


class DependencyTrees:
    """
    Looks up the head-dependent pairs of a text, in either direction.

    A text matches a tree with the same characters; case and word boundaries are ignored. A word that spans several
    words of the tree has the edges of all of them, and words that share one word of the tree each have its edges. If
    several trees match, the last one is used.

    Args:
        trees (`Iterable[Tree]`): See [`read_conllu`].
    """

    def __init__(self, trees: Iterable[Tree]):
        # Token lengths are enough to align tokens and words by characters.
        self.trees = {
            "".join(map(_letters, tokens)): (
                np.array([len(_letters(token)) for token in tokens], dtype=np.int32),
                np.array(edges, dtype=np.int32).reshape(-1, 2),
            )
            for tokens, edges in trees
        }

    def __contains__(self, words: Sequence[str]) -> bool:
        return "".join(map(_letters, words)) in self.trees

    def __call__(self, texts: Sequence[Sequence[str]]) -> np.ndarray:
        """
        The head-dependent pairs of an example.

        Args:
            texts (`Sequence[Sequence[str]]`): The words of each text of the example.

        Returns:
            `np.ndarray` of shape `(words, words)`: 1 for head and dependent, else 0, in float32, over the concatenated
            texts. A text without a tree has zeros only.
        """
        total = sum(map(len, texts))
        joined = np.zeros((total, total), np.float32)
        first = 0
        for words in texts:
            end = first + len(words)
            tree = self.trees.get("".join(map(_letters, words)))
            if tree is not None:
                joined[first:end, first:end] = _joined(words, *tree)
            first = end
        return joined


def _joined(words: Sequence[str], lengths: np.ndarray, edges: np.ndarray) -> np.ndarray:
    shared = np.zeros((len(words), len(lengths)), np.float32)
    letters = [len(_letters(word)) for word in words]
    shared[np.repeat(np.arange(len(words)), letters), np.repeat(np.arange(len(lengths)), lengths)] = 1
    joined = shared[:, edges[:, 0]] @ shared[:, edges[:, 1]].T
    joined = ((joined + joined.T) > 0).astype(np.float32)
    np.fill_diagonal(joined, 0)
    return joined


def _letters(token: str) -> str:
    return "".join(token.casefold().split())
