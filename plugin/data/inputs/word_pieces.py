"""What a tokenizer makes of sentences that are cut into words already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase
from transformers.tokenization_utils_base import EncodingFast

from msattn.data.inputs.words import token_words
from msattn.errors import UserError

# The inputs of a model, and what the tokenizer's encodings call them.
ENCODING_FIELDS = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}
# The label that no loss counts: of special tokens, padding, later pieces of a word, and words outside of a window.
NO_LABEL = -100


class WordPieces(NamedTuple):
    """What the tokenizer made of a sentence, the word of each token, and the first token of each word."""

    encoding: EncodingFast
    owners: list[int | None]
    starts: list[int]


def word_pieces(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]]) -> list[WordPieces]:
    """
    Tokenises sentences as a whole. No word is lost: one that the tokenizer would leave out, such as a control
    character, is its unknown token.

    Args:
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.

    Raises:
        UserError: The tokenizer has no token for a word, not even an unknown one.
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


def pieces_of(encoding: EncodingFast, words: Sequence[str]) -> WordPieces:
    """Which tokens of a text are parts of which of the words that it was joined from, with a space between two."""
    owner_of_character: dict[int, int] = {}
    first = 0
    for number, word in enumerate(words):
        owner_of_character.update(dict.fromkeys(range(first, first + len(word)), number))
        first += len(word) + 1
    owners = token_words(encoding.offsets, owner_of_character)
    starts: dict[int, int] = {}
    for position, owner in enumerate(owners):
        if owner is not None:
            starts.setdefault(owner, position)
    return WordPieces(encoding, owners, [starts[owner] for owner in sorted(starts)])


def _pieces(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[Sequence[str]]) -> list[WordPieces]:
    # Texts, and not lists of words: byte-level vocabularies tell by the space that a word begins.
    encodings = tokenizer([" ".join(words) for words in sentences], verbose=False).encodings
    return [pieces_of(encoding, words) for encoding, words in zip(encodings, sentences, strict=True)]
