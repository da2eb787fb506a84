"""Tokenizes sentences that are already split into words, and aligns sub-words with words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase
from transformers.tokenization_utils_base import EncodingFast

from msattn.data.inputs.word_rules import Span, sentence_words
from msattn.data.inputs.words import token_words
from msattn.errors import UserError

# Attributes of `tokenizers.Encoding` by model input.
ENCODING_FIELDS = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}
# The label that losses ignore: special tokens, padding, non-initial sub-words, and words outside a window.
NO_LABEL = -100


class WordPieces(NamedTuple):
    """
    A tokenized sentence.

    Args:
        encoding (`tokenizers.Encoding`): The tokens.
        owners (`list[int | None]`): The word index of each token; `None` for special tokens.
        starts (`list[int]`): The index of the first token of each word.
    """

    encoding: EncodingFast
    owners: list[int | None]
    starts: list[int]


def inputs_of(encoding: EncodingFast, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """The fields of an encoding that the model reads."""
    return {
        name: getattr(encoding, field)
        for name, field in ENCODING_FIELDS.items()
        if name in tokenizer.model_input_names
    }


def word_pieces(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]]) -> list[WordPieces]:
    """
    Tokenizes sentences.

    Every word has at least one token: words that the tokenizer would drop, such as control characters, become its
    unknown token.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.

    Returns:
        `list[WordPieces]`: The tokenized sentences.

    Raises:
        UserError: The tokenizer drops a word and has no unknown token.
    """
    found = _pieces(tokenizer, sentences)
    for row, (sentence, (_, owners, starts)) in enumerate(zip(sentences, found, strict=True)):
        if len(starts) < len(sentence):
            known = set(owners)
            words = [word if n in known else tokenizer.unk_token or "?" for n, word in enumerate(sentence)]
            (found[row],) = _pieces(tokenizer, [words])
            if len(found[row].starts) < len(words):
                raise UserError(
                    f"the tokenizer makes no token of a word in {' '.join(sentence)!r}, not even an unknown one."
                )
    return found


def sentence_parts(
    tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]], max_length: int | None = None
) -> Iterator[Iterator[tuple[WordPieces, bool]]]:
    """
    Tokenizes sentences or texts, and splits those that are too long into halves until they fit: between sentences, and
    single sentences between words.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.
        max_length (`int`, *optional*): The most tokens of a part. Default: no limit.

    Yields:
        `Iterator[tuple[WordPieces, bool]]`: The parts of a sentence, each with whether it is a truncated word.
    """
    for words, whole in zip(sentences, word_pieces(tokenizer, sentences), strict=True):
        yield _halves(tokenizer, words, max_length, whole)


def pieces_of(encoding: EncodingFast, words: Sequence[str]) -> WordPieces:
    """
    Aligns the tokens of a text with its words.

    Args:
        encoding (`tokenizers.Encoding`): The encoding of `" ".join(words)`.
        words (`Sequence[str]`): The words.
    """
    owner_of_character: dict[int, int] = {}
    for number, span in enumerate(_joined_spans(words)):
        owner_of_character.update(dict.fromkeys(range(*span), number))
    owners = token_words(encoding.offsets, owner_of_character)
    starts: dict[int, int] = {}
    for position, owner in enumerate(owners):
        if owner is not None:
            starts.setdefault(owner, position)
    return WordPieces(encoding, owners, [starts[owner] for owner in sorted(starts)])


def _joined_spans(words: Sequence[str]) -> list[Span]:
    """The place of each word in `" ".join(words)`."""
    ends = accumulate(len(word) + 1 for word in words)
    return [(end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True)]


def _pieces(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]]) -> list[WordPieces]:
    if not sentences:
        return []
    # Tokenize text, not lists of words: byte-level vocabularies mark the start of a word by its space.
    encodings = tokenizer([" ".join(words) for words in sentences], verbose=False).encodings
    return [pieces_of(encoding, words) for encoding, words in zip(encodings, sentences, strict=True)]


def _halves(
    tokenizer: PreTrainedTokenizerBase, words: Sequence[str], max_length: int | None, pieces: WordPieces | None = None
) -> Iterator[tuple[WordPieces, bool]]:
    """Halves sentences until their parts fit; the flag tells whether a part is a truncated word."""
    pieces = pieces or word_pieces(tokenizer, [words])[0]
    cut = max_length is not None and len(pieces.encoding) > max_length
    if cut and len(words) > 1:
        middle = len(words) // 2
        ends = [*accumulate(map(len, sentence_words(" ".join(words), _joined_spans(words))))][:-1]
        end = min(ends, key=lambda end: abs(end - middle), default=middle)
        yield from _halves(tokenizer, words[:end], max_length)
        yield from _halves(tokenizer, words[end:], max_length)
        return
    if cut:
        encoding = tokenizer(" ".join(words), truncation=True, max_length=max_length).encodings[0]
        pieces = pieces_of(encoding, words)
    yield pieces, cut
