"""Dependency trees, from CoNLL-U files or a parser, laid over words that may be cut in another way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from transformers.utils.logging import tqdm

from msattn.data.files.conllu import conllu_sentences
from msattn.errors import UserError

# The tokens of a sentence, and which two of them an edge joins.
Tree = tuple[list[str], list[tuple[int, int]]]


def read_conllu(path: str | os.PathLike) -> Iterator[Tree]:
    """
    Reads a CoNLL-U file. Of a sentence with multi-word tokens there are two trees: of its tokens, where a multi-word
    token has all edges of its words, and then of its words. Empty nodes and the root have none.

    Raises:
        UserError: The file cannot be read, or is no CoNLL-U.
    """
    for end, sentence, _ in conllu_sentences(path):
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


def parsed(texts: Iterable[Sequence[str]], parser: Callable[[list[str]], Sequence[int]]) -> Iterator[Tree]:
    """
    Parses each text once.

    Args:
        texts (`Iterable[Sequence[str]]`): The words of each text.
        parser (`Callable`):
            Given the words, the number of each word's head: 1 for the first word, 0 for a word without a head.

    Raises:
        UserError: The parser returns something else.
    """
    for words in tqdm(dict.fromkeys(tuple(words) for words in texts if words), desc="Parsing"):
        heads = list(parser(list(words)))
        if len(heads) != len(words) or not all(0 <= head <= len(words) for head in heads):
            raise UserError(
                f"the parser has to return {len(words)} heads from 0 to {len(words)} for {' '.join(words)!r}, and "
                f"returned {heads}."
            )
        yield list(words), [(word, head - 1) for word, head in enumerate(heads) if head]


class DependencyTrees:
    """
    Which words are head and dependent, in either direction.

    A text has the tree with the same letters, whatever is upper case and wherever a word ends. Where a tree has
    several words and the text one, that one has all of their edges, and the other way round. Of several trees with the
    same letters it is the last.

    Args:
        trees (`Iterable[Tree]`): See [`read_conllu`] and [`parsed`].
    """

    def __init__(self, trees: Iterable[Tree]):
        # Of the tokens only their lengths: with those of the words they say which share letters.
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
        """1 for head and dependent, `(words, words)`, counted through the texts; all 0 in a text without a tree."""
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
