"""Encoders and texts of the analysis commands."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import Text
from msattn.arguments.pretrained import ModelArguments, load_model, load_tokenizer
from msattn.configuration.any_encoder_config import AnyEncoderConfig
from msattn.data.files.text_lines import text_lines
from msattn.data.sentences import read_sentences
from msattn.errors import UserError

# The start of a JSON file, which a sentence is unlikely to match.
JSON = re.compile(r'\[\s*(\{|$)|\{\s*("|\}|$)')


@dataclass(kw_only=True)
class EncoderArguments:
    """Arguments of the commands that run encoders on texts."""

    model: list[str] = field(
        metadata={"help": "One or more encoders: local folders or names on the Hub. Task heads are dropped."}
    )
    titles: list[str] | None = field(
        default=None, metadata={"help": "Titles of the encoders. Default: the parts of their names that differ."}
    )
    text: str | None = field(default=None, metadata={"help": "Sentence to analyse."})
    text_pair: str | None = field(default=None, metadata={"help": "Second sentence of a pair."})
    file: str | None = field(
        default=None,
        metadata={
            "help": "File of sentences, instead of --text: one per line, or CSV, TSV, JSON, JSON lines or Parquet."
        },
    )
    text_column_names: list[str] | None = field(
        default=None,
        metadata={"help": "One or two text columns of --file. Default: the first columns that hold text."},
    )

    def __post_init__(self) -> None:
        if (self.text is None) == (self.file is None):
            raise UserError("give either --text or --file.")
        if self.text is None and self.text_pair is not None:
            raise UserError("--text_pair needs --text: the first sentence of the pair.")
        if self.text_column_names is not None:
            if self.file is None:
                raise UserError("--text_column_names needs --file: a table that has them.")
            if not 1 <= len(self.text_column_names) <= 2:
                raise UserError(f"--text_column_names takes one column or two, not {len(self.text_column_names)}.")
        if self.titles is None:
            self.titles = short_names(self.model)
        if len(self.titles) != len(self.model):
            raise UserError(f"--titles: there are {len(self.titles)} for {len(self.model)} encoders.")

    def read_texts(self) -> list[Text]:
        """
        The texts of `--text` or `--file`.

        Raises:
            UserError: The file cannot be read or has no text.
        """
        if self.text is not None:
            return [(self.text,) if self.text_pair is None else (self.text, self.text_pair)]
        return read_texts(self.file or "", self.text_column_names)


def read_texts(path: str, columns: Sequence[str] | None = None) -> list[Text]:
    """
    Reads texts from a file with one sentence per line, or from a table.

    Args:
        path (`str`): The file, in UTF-8; tables as in [`~msattn.data.sentences.read_sentences`].
        columns (`Sequence[str]`, *optional*): The one or two text columns of a table.

    Returns:
        `list[tuple[str, ...]]`: Sentences `(text,)` or pairs `(text, text_pair)`.

    Raises:
        UserError: The file cannot be read or has no text.
    """
    first = ""
    if Path(path).suffix.lower() not in (".csv", ".tsv", ".parquet"):
        first = next((line.strip() for _, line in text_lines(path) if line.strip()), "")
        if not first:
            raise UserError(f"{path}: the file is empty.")
    if first and columns is None and not JSON.match(first) and "\t" not in first:
        return [(line.strip(),) for _, line in text_lines(path) if line.strip()]
    dataset = read_sentences(path, columns)
    names = [name for name in dataset.column_names if name != "label"]
    return list(zip(*(dataset[name] for name in names), strict=True))


def load_config(name: str, argument: str = "model") -> PreTrainedConfig:
    """
    Loads the configuration of a model.

    Args:
        name (`str`): A local folder or a name on the Hub.
        argument (`str`, *optional*, defaults to `"model"`): The argument to name in the error message.

    Raises:
        UserError: The model does not exist.
    """
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError):
        raise UserError(f"--{argument} {name}: it is neither a model's folder nor its name on the Hub.") from None


def load_encoder(name: str, argument: str = "model") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Loads the encoder of a checkpoint, without its task head, and its tokenizer. Uses a GPU if available.

    Args:
        name (`str`): A local folder or a name on the Hub.
        argument (`str`, *optional*, defaults to `"model"`): The argument to name in error messages.

    Returns:
        `tuple[PreTrainedModel, PreTrainedTokenizerBase]`: The encoder, in float32 and evaluation mode, and the
        tokenizer.

    Raises:
        UserError: The model does not exist, cannot be loaded or has no fast tokenizer.
    """
    load_config(name, argument)
    args = ModelArguments(model_name_or_path=name)
    tokenizer = load_tokenizer(args)
    model = encoder_of(load_model(AutoModel, args, len(tokenizer)).float().eval())
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """The encoder inside of a model: without task heads, our layers and the decoder."""
    if model.config.is_encoder_decoder:
        return model.get_encoder()
    return model.base_model.encoder if isinstance(model.config, AnyEncoderConfig) else model.base_model


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
