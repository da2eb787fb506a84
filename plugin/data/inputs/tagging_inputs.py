"""Encodes tagged sentences for token classification."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import repeat

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from msattn.data.inputs.encoded_rows import encoded_rows
from msattn.data.inputs.word_pieces import NO_LABEL, inputs_of, sentence_parts


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

    Words that the tokenizer would drop, such as control characters, become its unknown token. Rows longer than
    `max_length` are split; see [`~msattn.data.inputs.word_pieces.sentence_parts`].

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
        encoded: dict[str, list] = defaultdict(list)
        sentences = zip(numbers, rows["words"], rows.get("tags") or repeat(None), strict=False)
        parts_of = sentence_parts(tokenizer, rows["words"], max_length)
        for (number, sentence, tags), parts in zip(sentences, parts_of, strict=True):
            first = 0
            for (encoding, owners, starts), cut in parts:
                behind = first + len(starts)
                for name, value in inputs_of(encoding, tokenizer).items():
                    encoded[name].append(value)
                encoded["sentence"].append(number)
                encoded["word_starts"].append(starts)
                encoded["cut"].append(cut)
                if tags is not None:
                    row = [NO_LABEL] * len(encoding)
                    for start, tag in zip(starts, tags[first:behind], strict=True):
                        row[start] = NO_LABEL if tag is None else labels[tag]
                    encoded["labels"].append(row)
                if words:
                    encoded["words"].append([sentence[first:behind]])
                    encoded["word_ids"].append(owners)
                first = behind
        return encoded

    encoded = encoded_rows(dataset, encode, num_proc)
    return encoded.remove_columns("cut"), sum(encoded["cut"])
