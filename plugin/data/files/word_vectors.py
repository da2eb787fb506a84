"""Reads word vectors in the text formats of GloVe and word2vec."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping

import numpy as np
from transformers.utils import logging

from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

logger = logging.get_logger(__name__)

# The first line of word2vec: the numbers of words and of dimensions.
HEADER = re.compile("[0-9]{1,12} [0-9]{1,6}")
# Words may have spaces, but no number behind one: then the line has too many.
NUMBER_BEHIND = re.compile(r" ([-+.]?\d[^ ]*)?$")


def read_word_vectors(
    path: str | os.PathLike,
    vocabulary: Mapping[str, int],
    seed: int = 42,
    words: Collection[str] | None = None,
) -> np.ndarray:
    """
    Reads the vectors of a vocabulary.

    Each line is a word and its numbers, separated by spaces; the header line of word2vec is optional. A word that the
    file lacks takes the vector of its lower-cased form. If that is missing too, its vector is drawn from a normal
    distribution with mean 0 and the standard deviation of all numbers found. The coverage is logged.

    Args:
        path (`str` or `os.PathLike`):
            The file, in UTF-8, gzipped if its name ends in `.gz`. Words may contain spaces, as some in GloVe 840B do.
            Of repeated words, the first one is used.
        vocabulary (`Mapping[str, int]`): Ids from 0 by word, such as `tokenizer.get_vocab()`.
        seed (`int`, *optional*, defaults to 42): Random seed for the vectors of missing words.
        words (`Collection[str]`, *optional*): The words that count for the logged coverage. Default: all.

    Returns:
        `np.ndarray` of shape `(words, dimensions)`: The vectors by id, in float32.

    Raises:
        UserError: The file cannot be read, lines differ in the number of dimensions, a vector is not numeric or not
            finite, or the file has no word of the vocabulary. The message names file and line.
    """
    capitalized: dict[str, list[int]] = {}
    for word, index in vocabulary.items():
        if word != word.lower():
            capitalized.setdefault(word.lower(), []).append(index)
    found: dict[int, np.ndarray] = {}
    of_lower_case: dict[int, np.ndarray] = {}
    seen: set[str] = set()
    repeated = 0
    for where, word, numbers in _entries(path):
        if word not in vocabulary and word not in capitalized:
            continue
        if word in seen:
            repeated += 1
            continue
        seen.add(word)
        vector = _vector(numbers, where)
        if word in vocabulary:
            found[vocabulary[word]] = vector
        of_lower_case.update(dict.fromkeys(capitalized.get(word, ()), vector))
    borrowed = of_lower_case.keys() - found.keys()
    found = of_lower_case | found
    if not found:
        raise UserError(f"{os.fspath(path)}: no word of the vocabulary is in there; is the case the same?")
    vectors = np.stack(list(found.values()))
    size = max(vocabulary.values()) + 1
    matrix = np.random.default_rng(seed).standard_normal((size, vectors.shape[1]), dtype=np.float32)
    matrix *= vectors.std()
    matrix[list(found)] = vectors
    counted = {vocabulary[word] for word in (vocabulary if words is None else words)}
    covered = len(counted & found.keys())
    logger.warning(
        f"{os.fspath(path)}: vectors of {covered} of {len(counted)} words ({covered / len(counted):.1%})"
        f"{f', {len(counted & borrowed)} of them those of the lower case' if counted & borrowed else ''}; "
        f"the others are drawn by chance{f', and {repeated} repeated lines do not count' if repeated else ''}."
    )
    return matrix


def vector_words(path: str | os.PathLike) -> Iterator[str]:
    """
    Reads the words of a word vector file in file order, which usually is by descending frequency.

    Args:
        path (`str` or `os.PathLike`): The file; see [`read_word_vectors`].

    Raises:
        UserError: The file cannot be read, or lines differ in the number of dimensions. The message names file and
            line.
    """
    return (word for _, word, _ in _entries(path))


def _entries(path: str | os.PathLike) -> Iterator[tuple[str, str, list[str]]]:
    """Location, word and numbers of each line but the header."""
    dimensions = 0
    for number, (where, line) in enumerate(text_lines(path, newline="\n")):
        line = line.rstrip(" \r\n")
        if number == 0 and HEADER.fullmatch(line):
            dimensions = int(line.split(" ")[1])
        elif line:
            dimensions = dimensions or line.count(" ")
            word, *numbers = line.rsplit(" ", dimensions) if dimensions else [line]
            if not numbers or "\t" in word:
                raise UserError(f"{where}: the line has to be a word and its numbers, with spaces between them.")
            if len(numbers) != dimensions or NUMBER_BEHIND.search(word):
                raise UserError(
                    f"{where}: the line has {line.count(' ')} numbers; by the first line it should be {dimensions}."
                )
            yield where, word, numbers


def _vector(numbers: list[str], where: str) -> np.ndarray:
    try:
        vector = np.array(numbers, dtype=np.float32)
    except ValueError as error:
        raise UserError(f"{where}: the vector is not made of numbers ({error}).") from None
    if not np.isfinite(vector).all():
        raise UserError(f"{where}: the vector has a number that is not finite.")
    return vector
