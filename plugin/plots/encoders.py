"""Encoders and texts of pictures."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer, BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from msattn.command_line import user_mistakes
from msattn.configuration.any_encoder_config import AnyEncoderConfig
from msattn.configuration.max_tokens import most_tokens
from msattn.data.files.text_lines import suffix_of, text_lines
from msattn.data.inputs.padding import pad_right
from msattn.data.sentences import read_sentences
from msattn.errors import UserError
from msattn.modeling.attention_call import AttentionRefused
from msattn.modeling.attention_readings import Reading, read_attention
from msattn.modeling.evaluation_mode import evaluating

# A sentence, or a pair of sentences.
Text = tuple[str, ...]


def load_encoder(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The encoder of a checkpoint in evaluation mode, on a GPU if there is one, and its tokenizer."""
    with user_mistakes():
        model, tokenizer = AutoModel.from_pretrained(name, dtype="float32"), AutoTokenizer.from_pretrained(name)
    pad_right(tokenizer)
    return encoder_of(model.eval()).to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder inside of a model: without task heads, our layers and the decoder."""
    if model.config.is_encoder_decoder:
        return model.get_encoder()
    return model.base_model.encoder if isinstance(model.config, AnyEncoderConfig) else model.base_model


def batches(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: Sequence[Text | str], batch_size: int = 32
) -> Iterator[tuple[list[int], BatchEncoding]]:
    """
    The rows and the padded inputs of batches of texts on the device of the model, longest texts first, truncated to
    the limit of the model, with `special_tokens_mask`.
    """
    limit = min(tokenizer.model_max_length, most_tokens(model.config) or tokenizer.model_max_length)
    columns = map(list, zip(*((text,) if isinstance(text, str) else text for text in texts), strict=True))
    encoded = tokenizer(*columns, truncation=True, max_length=limit, return_special_tokens_mask=True)
    order = sorted(range(len(texts)), key=lambda row: -len(encoded["input_ids"][row]))
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        features = [{name: values[row] for name, values in encoded.items()} for row in rows]
        yield rows, tokenizer.pad(features, return_tensors="pt").to(model.device)


def texts_of(config: Any) -> int:
    """How many texts at once a classifier was trained on, 2 if it re-ranks; 0 if its configuration does not say."""
    return 2 if [*config.id2label.values()] == ["relevant"] else len(getattr(config, "text_columns", None) or ())


def shown_tokens(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> list[str]:
    """The tokens of a text as people read them."""
    # Decoding makes byte-level tokens readable, but for parts of a character and tokens that are a word boundary only.
    texts = [tokenizer.decode([i]).strip() for i in ids]
    return [
        tokenizer.convert_ids_to_tokens(i) if not text or "\ufffd" in text else text
        for i, text in zip(ids, texts, strict=True)
    ]


@torch.no_grad()
def read(model: PreTrainedModel, inputs: Mapping[str, torch.Tensor], **options: Any) -> list[Reading]:
    """The readings of all layers by [`read_attention`], in evaluation mode; `UserError` if there are none."""
    try:
        with evaluating(model), read_attention(model, (), **options) as readings:
            model(**inputs)
    except AttentionRefused as refused:
        raise UserError(str(refused)) from None
    return readings


def read_texts(path: str, columns: Sequence[str] | None = None) -> list[Text]:
    """
    Reads a text a line, or one or two columns of a table.

    Args:
        path (`str`): The file. Tables are those of [`~msattn.data.read_sentences`].
        columns (`Sequence[str]`, *optional*): The columns of a table.

    Raises:
        UserError: The file cannot be read or has no text.
    """
    if columns is None and suffix_of(path) == ".txt":
        lines = [line.strip() for _, line in text_lines(path) if line.strip()]
        if not lines:
            raise UserError(f"{path}: the file is empty.")
        if "\t" not in lines[0]:
            return [(line,) for line in lines]
    dataset = read_sentences(path, columns)
    return list(zip(*(dataset[name] for name in dataset.column_names if name != "label"), strict=True))


def short_names(names: Sequence[str]) -> list[str]:
    """Shortens paths to the parts that differ, without common beginnings and ends; equal paths to the last part."""
    paths = [Path(os.path.abspath(name)).parts for name in names]
    if len(set(paths)) == 1:
        return [path[-1] for path in paths]
    begin, end = (
        len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*sides, strict=False))))
        for sides in (paths, [path[::-1] for path in paths])
    )
    found = ["/".join(path[begin : len(path) - end] or path[-1:]) for path in paths]
    return found if len(set(found)) == len(set(paths)) else list(names)
