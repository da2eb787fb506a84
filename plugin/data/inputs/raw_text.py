"""Splits raw text into sentences of words, which know where in the text they stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import regex
from transformers.utils import logging

from msattn.data.inputs.outside_tokenizers import PlacedWord, outside_words
from msattn.data.inputs.word_rules import SPACES, language_of, sentence_words, word_spans
from msattn.errors import UserError

logger = logging.get_logger(__name__)

_SURROGATE = regex.compile(r"[\ud800-\udfff]")
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\X")


class Word(NamedTuple):
    """
    A word, with its place in the text if there is one.

    Args:
        text (`str`): The word.
        start (`int`): Where it starts in the text, in characters.
        end (`int`): Where it ends, exclusive; 0 for a word of no text.
        space_after (`str`): The white space behind it.
        token (`str`, *optional*):
            The multi-word token it is a part of, as "du" is of "de" and "le". Span and space are those of the token.
    """

    text: str
    start: int = 0
    end: int = 0
    space_after: str = ""
    token: str | None = None


def split_text(
    text: str, word_tokenizer: Callable[[str], Any] | None = None, lang: str | None = None
) -> list[list[Word]]:
    """
    Splits a text into sentences of words.

    Args:
        text (`str`): The text.
        word_tokenizer (`Callable`, *optional*):
            What splits it into words, and into sentences if it can; see
            [`~msattn.data.inputs.outside_tokenizers.outside_words`]. Default: our own rules.
        lang (`str`, *optional*): The language of the rules, such as `"en"`. Default: rules that fit all.

    Returns:
        `list[list[Word]]`: The words of each sentence; no sentence is empty.

    Raises:
        UserError: The text is not valid Unicode, there are no rules for the language, or the words of the
            `word_tokenizer` do not make up the text.
    """
    refuse_surrogates(text)
    if word_tokenizer is not None:
        sentences = outside_words(word_tokenizer, text)
    else:
        if found := _UNSPACED.search(text):
            logger.warning_once(
                f"{found[0]!r}: a script without spaces between words is cut at punctuation only; give a "
                "word_tokenizer that knows its words."
            )
        spans = sentence_words(text, word_spans(text, language_of(lang)))
        sentences = [[(text[start:end], start, end) for start, end in words] for words in spans]
    return [_words(text, words) for words in sentences]


def _words(text: str, placed: list[PlacedWord]) -> list[Word]:
    words_at = Counter(start for _, start, _ in placed)
    return [
        Word(word, start, end, SPACES.match(text, end)[0], text[start:end] if words_at[start] > 1 else None)
        for word, start, end in placed
    ]


def refuse_surrogates(text: str) -> None:
    """Raises `UserError` if a text holds half of a character, which no file and no tokenizer can hold."""
    if found := _SURROGATE.search(text):
        raise UserError(
            f"character {found.start()} is the lone surrogate {found[0]!r}, half of a character; decode the text "
            "again, with errors='replace'."
        )
