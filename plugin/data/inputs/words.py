"""The words of a text, and to which of them each token belongs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from transformers.tokenization_utils_base import EncodingFast

# Not the words of the tokenizer, which for some of them end in their full stop. "don't" is one.
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
WORD_COLUMNS = ("words", "word_ids")


def split_words(text: str) -> list[str]:
    """Runs of letters and digits, with apostrophes inside, and every other sign that is not a space."""
    return WORD.findall(text)


def character_words(text: str, first: int = 0) -> dict[int, int]:
    """The number of the word that each character is part of, counted from `first`; spaces are part of none."""
    return {
        position: number
        for number, match in enumerate(WORD.finditer(text), start=first)
        for position in range(*match.span())
    }


def token_words(
    offsets: Iterable[tuple[int, int]], character_words: Mapping[int, int], shift: int = 0
) -> list[int | None]:
    """
    Args:
        offsets (`Iterable[tuple[int, int]]`): `[start, end)` of each token in characters.
        character_words (`Mapping[int, int]`): See [`character_words`].
        shift (`int`, *optional*, defaults to 0): Where the counted text starts in that of `character_words`.

    Returns:
        `list[int | None]`: The word in which a token begins, or `None` for a token of spaces.
    """
    return [
        next((character_words[at + shift] for at in range(*offset) if at + shift in character_words), None)
        for offset in offsets
    ]


def encoding_words(encoding: EncodingFast, texts: Sequence[str]) -> tuple[list[list[str]], list[int | None]]:
    """
    The two columns that patterns between words are made of.

    Args:
        encoding (`tokenizers.Encoding`): What a fast tokenizer makes of one text or of a pair.
        texts (`Sequence[str]`): The texts.

    Returns:
        `tuple[list[list[str]], list[int | None]]`: `words`, those of each text, truncated or not; and `word_ids`, for
        each token its word, counted through all texts, `None` for special tokens and padding.
    """
    words = [split_words(text) for text in texts]
    owners, first = [], 0
    for text, found in zip(texts, words, strict=True):
        owners.append(character_words(text, first))
        first += len(found)
    word_ids = [
        None if sequence is None else token_words([offset], owners[sequence])[0]
        for offset, sequence in zip(encoding.offsets, encoding.sequence_ids, strict=True)
    ]
    return words, word_ids
