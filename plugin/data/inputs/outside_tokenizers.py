"""Words and sentences from other people's tokenizers: spaCy, Stanza, UDPipe and any callable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msattn.data.inputs.word_rules import sentence_words
from msattn.errors import UserError

_LETTER = re.compile(r"\S")
# A word and its span in the text.
PlacedWord = tuple[str, int, int]


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

            Words without sentences are grouped by our own rules.
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

    split = doc.has_annotation("SENT_START")
    return [placed(sentence) for sentence in doc.sents] if split else _grouped(doc.text, placed(doc))


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
    for block in lines.replace("\r\n", "\n").split("\n\n"):
        tokens: list[tuple[str, list[str]]] = []
        last = 0
        for cells in (line.split("\t") for line in block.split("\n") if line and not line.startswith("#")):
            name = cells[0].partition("-")
            if name[1]:
                tokens.append((cells[1], []))
                last = int(name[2])
            elif name[0].isdecimal():
                if int(name[0]) > last:
                    tokens.append((cells[1], []))
                tokens[-1][1].append(cells[1])
        yield tokens


def _placed(text: str, sentences: Iterable[Sequence[tuple[str, Sequence[str]]]]) -> list[list[PlacedWord]]:
    """Finds the tokens in the text, one after the other."""
    placed: list[list[PlacedWord]] = []
    end = 0
    for tokens in sentences:
        placed.append([])
        for token, words in tokens:
            found = _LETTER.search(text, end)
            start = found.start() if found else len(text)
            end = start + len(token)
            if not token or text[start:end] != token:
                raise UserError(
                    f"word_tokenizer returned {token!r} where the text has {text[start : start + 20]!r} (character "
                    f'{start}); words and spaces have to make up the text. Otherwise give {{"words": [...]}}.'
                )
            placed[-1] += ((word, start, end) for word in words)
    if rest := text[end:].strip():
        raise UserError(
            f"word_tokenizer left out {rest[:20]!r} at the end; words and spaces have to make up the text. Otherwise "
            'give {"words": [...]}.'
        )
    return placed
