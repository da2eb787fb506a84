"""Splits raw text into sentences of words, which know where in the text they stand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import regex
from transformers.utils import logging

from msattn.data.files.checked_text import check_text
from msattn.data.inputs.outside_tokenizers import PlacedWord, named_tokenizer, outside_words
from msattn.data.inputs.word_rules import (
    SOUTHEAST_ASIAN,
    SPACES,
    UNSPACED,
    language_of,
    parts_of_token,
    sentence_words,
    word_spans,
)
from msattn.data.inputs.words import tagged_spans

logger = logging.get_logger(__name__)

# What no cell can hold.
_LINE_ENDS = regex.compile(r"\s*[\t\r\n]\s*")
_UNSPACED, _UNTAGGED = (regex.compile(rf"[{scripts}]\X") for scripts in (UNSPACED, SOUTHEAST_ASIAN))


class Word(NamedTuple):
    """
    A word, with its place in the text if there is one.

    Args:
        text (`str`): The word.
        start (`int`): Where it starts in the text, in characters.
        end (`int`): Where it ends, exclusive; 0 for a word of no text.
        space_after (`str`): The white space behind it.
        token (`str`, *optional*):
            The token that it is a word of, if that has another form, as "du" of "de" and "le". Span and spaces are
            those of the token.
        space_before (`str`): The white space before it, if it is the first word of the text.
    """

    text: str
    start: int = 0
    end: int = 0
    space_after: str = ""
    token: str | None = None
    space_before: str = ""

    @property
    def columns(self) -> dict[str, Any]:
        """What is known of its place in a text, by the names of the pipeline; `token` and `space_before` if there."""
        others = {"token": self.token, "space_before": self.space_before}
        place = {"start": self.start, "end": self.end, "space_after": self.space_after}
        return {"word": self.text, **place, **{name: value for name, value in others.items() if value}}


def split_text(
    text: str, word_tokenizer: Callable[[str], Any] | str | None = None, lang: str | None = None
) -> list[list[Word]]:
    """
    Splits a text into sentences of words.

    Args:
        text (`str`): The text.
        word_tokenizer (`Callable` or `str`, *optional*):
            What splits it into words, and into sentences if it can; see
            [`~msattn.data.inputs.outside_tokenizers.outside_words`]. Or its name, such as `"stanza:fr"`; see
            [`~msattn.data.inputs.outside_tokenizers.named_tokenizer`]. Default: our own rules.
        lang (`str`, *optional*): The language of the rules, such as `"en"`. Default: rules that fit all.

    Returns:
        `list[list[Word]]`: The words of each sentence; no sentence is empty.

    Raises:
        UserError: The text is not valid Unicode, there are no rules for the language, or the words of the
            `word_tokenizer` do not make up the text.
    """
    check_text(text, "the text")
    if isinstance(word_tokenizer, str):
        word_tokenizer = named_tokenizer(word_tokenizer)
    if word_tokenizer is not None:
        sentences = outside_words(word_tokenizer, text)
    else:
        _warn_of_phrases(text, _UNSPACED)
        language = language_of(lang)
        if lang is None:
            logger.warning_once(
                "the rules for no language leave contractions whole, such as don't; give lang (de, en, es, fr, it), "
                "or a word_tokenizer that splits them."
            )
        sentences = [
            [(word, start, end) for start, end in tokens for word in parts_of_token(text[start:end], language)]
            for tokens in sentence_words(text, word_spans(text, language))
        ]
    return [_placed_words(text, words) for words in sentences]


def words_to_tag(
    text: str, word_tokenizer: Callable[[str], Any] | str | None = None, lang: str | None = None
) -> list[PlacedWord]:
    """
    The words of a text for a tagger: those of [`split_text`], or of [`~msattn.data.inputs.words.tagged_spans`] without
    `word_tokenizer` and `lang`. The words of "don't" have a span each, both words of "du" that of the token.
    """
    if word_tokenizer is None and lang is None:
        check_text(text, "the text")
        _warn_of_phrases(text, _UNTAGGED)
        return [(text[start:end], start, end) for start, end in tagged_spans(text)]
    placed = []
    words = chain.from_iterable(split_text(text, word_tokenizer, lang))
    for (start, end), group in groupby(words, key=attrgetter("start", "end")):
        of_token = [word.text for word in group]
        apart = "".join(of_token) == text[start:end]
        for word in of_token:
            placed.append((word, start, start + len(word) if apart else end))
            start += len(word) * apart
    return placed


def _warn_of_phrases(text: str, unspaced: regex.Pattern) -> None:
    if unspaced.search(text):
        logger.warning_once(
            "A script without spaces between words is cut at punctuation only; give a word_tokenizer that knows its "
            "words."
        )


def _placed_words(text: str, placed: list[PlacedWord]) -> list[Word]:
    words = []
    for found, start, end in placed:
        word, token = (_LINE_ENDS.sub(" ", form) for form in (found, text[start:end]))
        other = token.split() != word.split()  # the token of several words, or of one in another form
        before = text[:start] if SPACES.fullmatch(text, 0, start) else ""
        words.append(Word(word, start, end, SPACES.match(text, end)[0], token if other else None, before))
    return words
