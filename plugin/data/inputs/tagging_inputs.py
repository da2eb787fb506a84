"""Encodes tagged sentences for token classification."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from msattn.data.inputs.word_pieces import ENCODING_FIELDS, NO_LABEL, WordPieces, pieces_of, word_pieces


def encode_tagged_words(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    labels: Mapping[str, int],
    max_length: int | None = None,
    num_proc: int | None = None,
    words: bool = False,
) -> tuple[Dataset, int]:
    """
    Encodes sentences for token classification. The first sub-word of each word has the label, the others -100, as do
    words whose tag is `None`.

    Words that the tokenizer would drop, such as control characters, become its unknown token. Sentences longer than
    `max_length` are split between words into several rows.

    Args:
        dataset (`datasets.Dataset`): The sentences; see [`~msattn.data.tagged_words.read_tagged_words`].
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        labels (`Mapping[str, int]`): Ids by tag.
        max_length (`int`, *optional*): Maximum number of tokens per row. Default: no limit.
        num_proc (`int`, *optional*): Number of processes.
        words (`bool`, *optional*, defaults to `False`):
            Whether to add `words` and `word_ids`, for attention patterns between words.

    Returns:
        `tuple[datasets.Dataset, int]`: The outputs of the tokenizer with `labels` (if the sentences have tags),
        `sentence` (the row in `dataset`) and `word_starts` (the first token of each word); and the number of words
        that are truncated because they have more sub-words than fit into a row.
    """

    def encode(rows: Mapping[str, list], numbers: Sequence[int]) -> dict[str, list]:
        encoded = defaultdict(list)
        for number, sentence, tags, whole in zip(
            numbers,
            rows["words"],
            rows.get("tags") or repeat(None),
            word_pieces(tokenizer, rows["words"]),
            strict=False,
        ):
            first = 0
            for (encoding, owners, starts), cut in _parts(tokenizer, sentence, max_length, whole):
                count = len(starts)
                for name, field in ENCODING_FIELDS.items():
                    if name in tokenizer.model_input_names:
                        encoded[name].append(getattr(encoding, field))
                encoded["sentence"].append(number)
                encoded["word_starts"].append(starts)
                encoded["cut"].append(cut)
                if tags is not None:
                    row = [NO_LABEL] * len(encoding)
                    for start, tag in zip(starts, tags[first : first + count], strict=True):
                        row[start] = NO_LABEL if tag is None else labels[tag]
                    encoded["labels"].append(row)
                if words:
                    encoded["words"].append([sentence[first : first + count]])
                    encoded["word_ids"].append(owners)
                first += count
        return encoded

    encoded = dataset.map(
        encode,
        batched=True,
        with_indices=True,
        remove_columns=dataset.column_names,
        num_proc=num_proc,
        desc="Tokenising",
    )
    return encoded.remove_columns("cut"), sum(encoded["cut"])


def _parts(
    tokenizer: PreTrainedTokenizerBase, words: Sequence[str], max_length: int | None, pieces: WordPieces | None = None
) -> Iterator[tuple[WordPieces, bool]]:
    """Halves a sentence until its parts fit; the flag tells whether a part is a truncated word."""
    pieces = pieces or word_pieces(tokenizer, [words])[0]
    cut = max_length is not None and len(pieces.encoding) > max_length
    if cut and len(words) > 1:
        middle = len(words) // 2
        yield from _parts(tokenizer, words[:middle], max_length)
        yield from _parts(tokenizer, words[middle:], max_length)
        return
    if cut:
        encoding = tokenizer(" ".join(words), truncation=True, max_length=max_length).encodings[0]
        pieces = pieces_of(encoding, words)
    yield pieces, cut
