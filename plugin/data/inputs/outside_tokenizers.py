"""Words and sentences from other people's tokenizers: spaCy, Stanza, UDPipe and any callable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

from msattn.data.files.conllu import conllu_sentences
from msattn.data.inputs.word_rules import SPACES, sentence_words
from msattn.errors import UserError

# A word and its span in the text.
PlacedWord = tuple[str, int, int]


@cache
def named_tokenizer(name: str) -> Callable[[str], Any]:
    """
    A tokenizer of spaCy, Stanza or UDPipe.

    Args:
        name (`str`):
            `"spacy:fr"` (the rules of a language) or `"spacy:fr_core_news_sm"` (a model), `"stanza:fr"`, or
            `"udpipe:FILE"` (a model of UDPipe 1). Stanza and UDPipe also find the words of contractions.

    Raises:
        UserError: There is no such tokenizer.
        ImportError: Its package is not installed.
    """
    kind, _, what = name.partition(":")
    if kind not in _MAKERS or not what:
        raise UserError(f"word_tokenizer {name!r}: give spacy:fr, spacy:fr_core_news_sm, stanza:fr or udpipe:FILE.")
    package, make = _MAKERS[kind]
    try:
        module = import_module(package)
    except ImportError:
        raise ImportError(f"word_tokenizer {name}: the package is not installed: pip install {package}") from None
    try:
        return make(module, what)
    except Exception as error:
        raise UserError(f"word_tokenizer {name}: {error}") from error


def _udpipe(module: Any, file: str) -> Callable[[str], str]:
    model = module.Model.load(file)
    if model is None:
        raise UserError("the file is no model of UDPipe.")

    def process(text: str) -> str:  # a pipeline does not keep its model, and a lost one ends the program
        return module.Pipeline(model, "tokenize", module.Pipeline.NONE, module.Pipeline.NONE, "conllu").process(text)

    return process


def _stanza(module: Any, language: str) -> Callable[[str], Any]:
    # It adds the words of contractions where a language has them, and downloads only what is not there.
    return module.Pipeline(language, processors="tokenize", download_method="reuse_resources", verbose=False)


_MAKERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "spacy": ("spacy", lambda spacy, what: spacy.blank(what) if len(what) < 4 else spacy.load(what)),
    "stanza": ("stanza", _stanza),
    "udpipe": ("ufal.udpipe", _udpipe),
}


def outside_words(tokenizer: Callable[[str], Any], text: str) -> list[list[PlacedWord]]:
    """
    Splits a text by a tokenizer.

    Args:
        tokenizer (`Callable`):
            Takes the text and returns one of

            - a `Doc` of spaCy, as a `Language` does;
            - a `Document` of Stanza, as its `Pipeline` does;
            - CoNLL-U, as the `process` of UDPipe's `Pipeline` does;
            - a list of words, or a list of sentences that are lists of words.

            Words without sentences are grouped by our own rules. So are those of a `Doc` whose boundaries are set in
            part: these hold, and the rules decide the others.
        text (`str`): The text.

    Returns:
        `list[list[tuple[str, int, int]]]`: The word, start and end of each word of each sentence. All words of a
        multi-word token have the token's span.

    Raises:
        UserError: The tokenizer returned something else, or its tokens and spaces do not make up the text.
    """
    found = tokenizer(text)
    if hasattr(found, "has_annotation"):
        sentences = _of_spacy(found)
    elif hasattr(found, "sentences"):
        sentences = _of_stanza(found)
    elif isinstance(found, str):
        sentences = _placed(text, _conllu_tokens(found))
    else:
        sentences = _of_lists(text, found)
    return [words for words in sentences if words]


def _of_spacy(doc: Any) -> list[list[PlacedWord]]:
    def placed(tokens: Iterable) -> list[PlacedWord]:
        return [(token.text, token.idx, token.idx + len(token)) for token in tokens if not token.is_space]

    if doc.has_annotation("SENT_START", require_complete=True):
        return [placed(sentence) for sentence in doc.sents]
    starts = {words[0][1] for words in _grouped(doc.text, placed(doc))}
    sentences: list[list[Any]] = [[]]
    for token in doc:
        if token.idx in starts if token.is_sent_start is None else token.is_sent_start:
            sentences.append([])
        sentences[-1].append(token)
    return [placed(sentence) for sentence in sentences]


def _of_stanza(document: Any) -> list[list[PlacedWord]]:
    return [
        [(word.text, token.start_char, token.end_char) for token in sentence.tokens for word in token.words]
        for sentence in document.sentences
    ]


def _of_lists(text: str, found: Any) -> list[list[PlacedWord]]:
    rows: list[Any] = list(found) if isinstance(found, Iterable) and not isinstance(found, Mapping) else [None]
    flat = all(isinstance(row, str) for row in rows)
    sentences = [rows] if flat else rows
    if not all(isinstance(row, (list, tuple)) and all(isinstance(word, str) for word in row) for row in sentences):
        raise UserError(
            "word_tokenizer has to return words, lists of words, a Doc of spaCy, a Document of Stanza or CoNLL-U, not "
            f"{found!r:.80}."
        )
    placed = _placed(text, [[(word, [word]) for word in row] for row in sentences])
    return _grouped(text, placed[0]) if flat else placed


def _grouped(text: str, words: Sequence[PlacedWord]) -> list[list[PlacedWord]]:
    """Sentences of words without sentences."""
    at = {(start, end): word for word, start, end in words}
    return [[(at[span], *span) for span in sentence] for sentence in sentence_words(text, at)]


def _conllu_tokens(lines: str) -> Iterator[list[tuple[str, list[str]]]]:
    """The tokens of each sentence of CoNLL-U, each with its words."""
    numbered = ((f"line {number} of the word_tokenizer", line) for number, line in enumerate(lines.split("\n"), 1))
    for sentence in conllu_sentences(numbered):
        tokens: list[tuple[str, list[str]]] = []
        last = number = 0
        for _, cells, end in sentence.tokens:
            number += not end
            if end or number > last:
                tokens.append((cells["form"], []))
            last = end or last
            if not end:
                tokens[-1][1].append(cells["form"])
        yield tokens


def _placed(text: str, sentences: Iterable[Sequence[tuple[str, Sequence[str]]]]) -> list[list[PlacedWord]]:
    """Finds the tokens in the text, one after the other."""
    placed: list[list[PlacedWord]] = []
    end = 0
    for tokens in sentences:
        placed.append([])
        for token, words in tokens:
            start = SPACES.match(text, end).end()
            if not (place := _at(token).match(text, start)):  # of a tokenizer that sees a word in a zero-width space
                start = len(text) - len(text[end:].lstrip())
                place = _at(token).match(text, start)
            if not place or not token.strip():
                raise UserError(
                    f"word_tokenizer returned {token!r} where the text has {text[start : start + 20]!r} (character "
                    f'{start}); words and spaces have to make up the text. Otherwise give {{"words": [...]}}.'
                )
            start, end = place.span()
            placed[-1] += ((word, start, end) for word in words)
    if rest := text[SPACES.match(text, end).end() :].strip():
        raise UserError(
            f"word_tokenizer left out {rest[:20]!r} at the end; words and spaces have to make up the text. Otherwise "
            'give {"words": [...]}.'
        )
    return placed


@lru_cache(2**14)
def _at(token: str) -> re.Pattern:
    """A token in a text, whose white space may be any: tokenizers write "10 000" for the same on two lines."""
    return re.compile(r"\s+".join(map(re.escape, token.split())))
