"""Splits texts into words, and aligns tokens with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from unicodedata import category

import regex
from transformers.tokenization_utils_base import EncodingFast

from msattn.data.inputs.word_rules import CHINESE_OR_JAPANESE, Span, word_spans

WORD_COLUMNS = ("words", "word_ids")
_TAGGED = regex.compile(rf"[{CHINESE_OR_JAPANESE}]\p{{M}}*|[^{CHINESE_OR_JAPANESE}]+")


def split_words(text: str) -> list[str]:
    """
    Splits a text into words and punctuation marks, without regard to its language; see [`word_spans`].

    They do not depend on the tokenizer, as some keep a full stop attached to its word. "don't" is one word.
    """
    return [text[start:end] for start, end in word_spans(text)]


def tagged_spans(text: str) -> Iterator[Span]:
    """
    The words of a text that are tagged: of Chinese and Japanese the characters, as in the usual data; of other texts
    [`word_spans`], except a joiner that stands alone.
    """
    for start, end in word_spans(text):
        for part in _TAGGED.finditer(text, start, end):
            if any(category(sign) != "Cf" for sign in part[0]):
                yield part.span()


def character_words(text: str, first: int = 0) -> dict[int, int]:
    """Maps the position of each non-space character to the index of its word, counted from `first`."""
    return {position: number for number, span in enumerate(word_spans(text), start=first) for position in range(*span)}


def token_words(
    offsets: Iterable[tuple[int, int]], character_words: Mapping[int, int], shift: int = 0
) -> list[int | None]:
    """
    The index of the word that each token belongs to.

    Args:
        offsets (`Iterable[tuple[int, int]]`): The span `[start, end)` of each token, in characters.
        character_words (`Mapping[int, int]`): Word indices by character; see [`character_words`].
        shift (`int`, *optional*, defaults to 0): Added to the offsets, if they refer to a part of the text.

    Returns:
        `list[int | None]`: The word at the first non-space character of each token; `None` for a token of spaces.
    """
    return [
        next((character_words[at + shift] for at in range(*offset) if at + shift in character_words), None)
        for offset in offsets
    ]


def encoding_words(encoding: EncodingFast, texts: Sequence[str]) -> tuple[list[list[str]], list[int | None]]:
    """
    The columns `words` and `word_ids` of an example, for attention patterns between words.

    Args:
        encoding (`tokenizers.Encoding`): The encoding of a text or a pair by a fast tokenizer.
        texts (`Sequence[str]`): The one or two texts.

    Returns:
        `tuple[list[list[str]], list[int | None]]`: `words`, the words of each text, including truncated ones; and
        `word_ids`, the index of each token's word in the concatenated texts, `None` for special tokens and padding.
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
