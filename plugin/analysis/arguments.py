"""What the commands read: encoders, and texts from the command line or from a file."""

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
from msattn.configuration.configuration_bert_pairwise import BertPairwiseConfig
from msattn.data.corpora.sentences import read_sentences
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

# How a file of JSON begins, and hardly a sentence.
JSON = re.compile(r'\[\s*(\{|$)|\{\s*("|\}|$)')


@dataclass(kw_only=True)
class EncoderArguments:
    """Arguments of the commands that run encoders on texts."""

    model: list[str] = field(
        metadata={"help": "Encoders, side by side: folders, or names on the Hub. Heads of a task are left out."}
    )
    titles: list[str] | None = field(
        default=None, metadata={"help": "What to call the encoders [the parts of their names that differ]."}
    )
    text: str | None = field(default=None, metadata={"help": "The sentence."})
    text_pair: str | None = field(default=None, metadata={"help": "The second sentence of a pair."})
    file: str | None = field(
        default=None,
        metadata={"help": "In place of --text: a sentence a line, or CSV, TSV, JSON, JSON lines or Parquet."},
    )
    text_column_names: list[str] | None = field(
        default=None, metadata={"help": "The one or two columns of text in the file [the first that hold text]."}
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
        The sentence or pair, or those of the file.

        Raises:
            UserError: The file cannot be read, or there is no text in it.
        """
        if self.text is not None:
            return [(self.text,) if self.text_pair is None else (self.text, self.text_pair)]
        return read_texts(self.file or "", self.text_column_names)


def read_texts(path: str, columns: Sequence[str] | None = None) -> list[Text]:
    """
    Reads a table, as [`~msattn.data.corpora.sentences.read_sentences`] does, or a sentence a line.

    Args:
        path (`str`): The file, in UTF-8.
        columns (`Sequence[str]`, *optional*): The one or two columns of text of a table.

    Raises:
        UserError: The file cannot be read, or there is no text in it.
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
    Raises:
        UserError: There is no such model.
    """
    try:
        return AutoConfig.from_pretrained(name)
    except (OSError, ValueError):
        raise UserError(f"--{argument} {name}: it is neither a model's folder nor its name on the Hub.") from None


def load_encoder(name: str, argument: str = "model") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    The encoder of a checkpoint, without the head of a task, and its tokenizer; on a GPU if there is one.

    Raises:
        UserError: There is no such model, or no fast tokenizer beside it.
    """
    load_config(name, argument)
    args = ModelArguments(model_name_or_path=name)
    tokenizer = load_tokenizer(args)
    model = load_model(AutoModel, args, len(tokenizer)).float().eval()
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    if tokenizer.pad_token is None:  # it is masked: any token will do
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    if isinstance(model.config, BertPairwiseConfig):
        model = model.base_model  # AutoModel has nothing below their heads
    return model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def short_names(names: Sequence[str]) -> list[str]:
    """The parts of paths that differ, without what all begin or end with; of one path, or of equal ones, the end."""
    paths = [Path(os.path.abspath(name)).parts for name in names]
    if len(set(paths)) == 1:
        return [path[-1] for path in paths]
    begin, end = (
        len(list(takewhile(lambda parts: len(set(parts)) == 1, zip(*sides, strict=False))))
        for sides in (paths, [path[::-1] for path in paths])
    )
    found = ["/".join(path[begin : len(path) - end] or path[-1:]) for path in paths]
    return found if len(set(found)) == len(set(paths)) else list(names)
