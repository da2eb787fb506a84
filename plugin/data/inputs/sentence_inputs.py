"""Encodes sentences and sentence pairs for classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from msattn.data.inputs.words import encoding_words


def encode_sentences(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    columns: Sequence[str],
    max_length: int | None = None,
    num_proc: int | None = None,
    words: bool = False,
) -> tuple[Dataset, int]:
    """
    Encodes texts or text pairs as model inputs.

    Args:
        dataset (`datasets.Dataset`): The texts, and the column `label` (class ids or scores) if they are labelled.
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        columns (`Sequence[str]`): The one or two text columns.
        max_length (`int`, *optional*):
            Maximum number of tokens. Longer examples are truncated, pairs by their longer text first. Default: no
            truncation.
        num_proc (`int`, *optional*): Number of processes.
        words (`bool`, *optional*, defaults to `False`):
            Whether to add `words` and `word_ids`; see [`~msattn.data.inputs.words.encoding_words`].

    Returns:
        `tuple[datasets.Dataset, int]`: The outputs of the tokenizer with `labels`, and the number of truncated
        examples.
    """

    def encode(rows: Mapping[str, list]) -> dict[str, list]:
        inputs = tokenizer(
            *(rows[column] for column in columns),
            truncation=max_length is not None,
            max_length=max_length,
        )
        encoded = {**inputs, "truncated": [bool(encoding.overflowing) for encoding in inputs.encodings]}
        if words:
            texts = zip(*(rows[column] for column in columns), strict=True)
            found = list(map(encoding_words, inputs.encodings, texts))
            encoded["words"], encoded["word_ids"] = map(list, zip(*found, strict=True))
        return encoded

    unused = [name for name in dataset.column_names if name != "label"]
    encoded = dataset.map(encode, batched=True, remove_columns=unused, num_proc=num_proc, desc="Tokenising")
    if "label" in encoded.column_names:
        encoded = encoded.rename_column("label", "labels")
    return encoded.remove_columns("truncated"), sum(encoded["truncated"])
