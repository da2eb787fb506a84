"""From sentences with tags to what a tagger reads."""

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
    Turns sentences into model inputs. The first piece of a word has the label of its tag.

    No word is lost: one that the tokenizer would leave out, such as a control character, is its unknown token; and a
    sentence that is too long becomes several rows.

    Args:
        dataset (`datasets.Dataset`): See [`~msattn.data.corpora.tagged_words.read_tagged_words`].
        tokenizer (`PreTrainedTokenizerBase`): A fast tokenizer.
        labels (`Mapping[str, int]`): The number of each tag.
        max_length (`int`, *optional*): The most tokens in a row.
        num_proc (`int`, *optional*): Number of processes.
        words (`bool`, *optional*, defaults to `False`):
            Add the columns that patterns between words are made of; see [`~msattn.data.inputs.words.encoding_words`].

    Returns:
        `tuple[datasets.Dataset, int]`: The tokenizer's outputs with `labels`, if there are tags, `sentence`, the row
        of `dataset`, and `word_starts`, the first token of each word; and how many words have more pieces than a row
        takes, so that only their first ones are read.
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
                        row[start] = labels[tag]
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
    """A sentence as a whole, or halved until it fits; and whether of a word only the first pieces are there."""
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
