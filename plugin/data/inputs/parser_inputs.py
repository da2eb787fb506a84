"""Encodes treebanks as parser inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from datasets import Dataset
from datasets.fingerprint import generate_random_fingerprint
from transformers import PreTrainedTokenizerBase

from msattn.data.inputs.encoded_rows import encoded_rows
from msattn.data.inputs.parser_windows import sentence_windows, window_labels, window_tags
from msattn.data.inputs.word_labels import word_labels
from msattn.data.inputs.word_pieces import NO_LABEL

# Columns of an encoded window: the row of its sentence, and the fields `first`, `kept` and `cut` of `Window`.
WINDOW_COLUMNS = ["sentence", "first", "start", "stop", "cut"]


def encode_treebank(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    relations: Mapping[str, int],
    max_length: int | None = None,
    num_proc: int | None = None,
    tags: Mapping[str, Sequence[str]] | None = None,
) -> Dataset:
    """
    Encodes a treebank as parser inputs, with one row per window; see [`sentence_windows`].

    Args:
        dataset (`datasets.Dataset`): The sentences; see [`~msattn.data.treebanks.read_treebank`].
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        relations (`Mapping[str, int]`): Relation ids. The loss ignores relations that are not in it, and `_`.
        max_length (`int`, *optional*): Maximum number of tokens per row. Default: no limit.
        num_proc (`int`, *optional*): Number of processes.
        tags (`Mapping[str, Sequence[str]]`, *optional*):
            The labels of words by column; see [`~msattn.data.inputs.word_labels.learn_labels`]. The loss ignores
            others.

    Returns:
        `datasets.Dataset`: The model inputs, `heads` and `relations` if the sentences have trees, with them the label
        ids of the columns in `tags`, and the columns `WINDOW_COLUMNS`: the row of the sentence in `dataset`, and the
        fields `first`, `kept` and `cut` of [`Window`].

    Raises:
        UserError: As for [`sentence_windows`].
    """

    numbers_of: dict[str, dict[str | None, int]] = {
        name: {label: number for number, label in enumerate(labels)} for name, labels in (tags or {}).items()
    }

    def encode(rows: Mapping[str, list], numbers: Sequence[int]) -> dict[str, list]:
        encoded = defaultdict(list)
        for row, windows in enumerate(sentence_windows(tokenizer, rows["words"], max_length)):
            of_words = {
                name: [known.get(label, NO_LABEL) for label in word_labels(rows["lines"][row], name)]
                for name, known in numbers_of.items()
            }
            for window in windows:
                columns: dict[str, Any] = dict(window.inputs)
                if "heads" in rows:
                    known = {**relations, "_": NO_LABEL}
                    names = [known.get(name, NO_LABEL) for name in rows["relations"][row]]
                    columns |= window_labels(window, rows["heads"][row], names)
                    columns |= {name: window_tags(window, labels) for name, labels in of_words.items()}
                place = (numbers[row], window.first, *window.kept, window.cut)
                for name, value in (*columns.items(), *zip(WINDOW_COLUMNS, place, strict=True)):
                    encoded[name].append(value)
        return encoded

    # Treebanks are in memory and nothing is cached: the usual one would pickle the vocabulary to hash it.
    return encoded_rows(dataset, encode, num_proc, new_fingerprint=generate_random_fingerprint())
