"""The command `msattn predict`: applies any checkpoint of msattn to the lines of a file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import torch
from datasets import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    pipeline,
)
from transformers.utils import logging

from msattn.argument_values import Count
from msattn.arguments.pretrained import ModelArguments, load_config, load_model, load_tokenizer
from msattn.auto import AutoModelForDependencyParsing, AutoModelForRelationExtraction, auto_class_of
from msattn.command_line import named, parse_arguments
from msattn.data.files.conllu import conllu_sentences
from msattn.data.files.conllu_lines import TAG_CELLS, with_tree
from msattn.data.files.records import parse_json
from msattn.data.files.text_lines import text_lines
from msattn.data.inputs.tagging_inputs import encode_tagged_words
from msattn.data.inputs.word_rules import word_spans
from msattn.data.ranking import filled_text, query_rows
from msattn.data.sentences import text_columns
from msattn.errors import UserError, shown
from msattn.onnx.runtime import is_exported
from msattn.onnx.runtime import load as load_exported

logger = logging.get_logger(__name__)

# Inputs that are read ahead of the answers, in batches.
LOOKAHEAD = 16
TABLES = (".csv", ".tsv", ".parquet", ".arrow")
COLUMNS = (".conll", ".conllu", ".conllx", ".bio", ".iob")


@dataclass
class PredictArguments:
    """Arguments of `msattn predict`."""

    model: str = field(metadata={"help": "Checkpoint: a folder, or a name on the Hub."})
    file: str = field(metadata={"help": "Texts or JSON lines, or .conllu for a parser; - is the standard input."})
    output: str | None = field(default=None, metadata={"help": "File to write. Default: the standard output."})
    batch_size: Count = field(
        default=32, metadata={"help": "Inputs per batch. 1 answers each line before the next one is read."}
    )
    device: str = field(default="cpu", metadata={"help": "Where the model runs, such as cuda:0."})
    lang: str | None = field(default=None, metadata={"help": "Parser: language of the rules for words, such as en."})
    entities: str | None = field(
        default=None, metadata={"help": "Relations: a checkpoint that finds the entities of plain texts."}
    )


class Kind(NamedTuple):
    """
    A kind of checkpoint.

    Args:
        predict (`Callable`): Model, tokenizer and arguments to the texts to write, one by one.
        option (`str`, *optional*): The argument that is for this kind only.
    """

    predict: Callable[[Any, PreTrainedTokenizerBase, PredictArguments], Iterator[str]]
    option: str = ""


def main(argv: Sequence[str]) -> None:
    """
    Writes JSON lines, or CoNLL-U for a parser, one answer per input and in the order of the inputs.

    Args:
        argv (`Sequence[str]`): `MODEL FILE`, and options.

    Raises:
        UserError: An argument is wrong, the checkpoint is of no known kind, or an input is. What is answered before a
            wrong input is written.
    """
    (args,) = parse_arguments([PredictArguments], named(argv, "model", "file"), "msattn predict")
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if args.file == "-":
        args.file = "/dev/stdin"
    if Path(args.file.lower().removesuffix(".gz")).suffix in TABLES:
        raise UserError(f"{args.file}: the file is a table; give texts or JSON objects, one per line.")
    if args.output is not None and Path(args.output).resolve() == Path(args.file).resolve():
        raise UserError(f"--output {args.output}: that is the file that is read; give another one.")
    source = ModelArguments(model_name_or_path=args.model)
    config = load_config(source)
    auto_class = auto_class_of(config, args.model)
    kind = KINDS[auto_class]
    for option in ("lang", "entities"):
        if getattr(args, option) is not None and option != kind.option:
            raise UserError(f"--{option}: {args.model} is a {config.architectures[0]}, which has no use for it.")
    tokenizer = load_tokenizer(source, config)
    exported = is_exported(args.model)
    model = load_exported(args.model) if exported else load_model(auto_class, source, len(tokenizer))
    try:
        model.to(args.device).eval()
    except (AssertionError, RuntimeError) as error:  # of torch, by what is wrong with the device
        raise UserError(f"--device {args.device}: {error}") from None
    output = nullcontext(sys.stdout) if args.output is None else open(args.output, "w", encoding="utf-8", newline="\n")
    with output as file:
        for text in kind.predict(model, tokenizer, args):
            file.write(text)
            file.flush()


def _inputs(path: str) -> Iterator[tuple[str, Any]]:
    """Pairs of location and input: a text, or an object if the line starts with a brace. Empty lines are skipped."""
    for where, line in text_lines(path):
        line = line.strip()
        if line.startswith("[{"):
            raise UserError(f"{where}: a list of objects; give one object per line.")
        if line:
            yield where, parse_json(line, where) if line.startswith("{") else line


def _blocks(inputs: Iterable, args: PredictArguments) -> Iterator[list]:
    """Several batches at a time; single inputs for batches of one."""
    items = iter(inputs)
    size = args.batch_size * LOOKAHEAD if args.batch_size > 1 else 1
    while block := list(islice(items, size)):
        yield block


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _relations(model: Any, tokenizer: PreTrainedTokenizerBase, args: PredictArguments) -> Iterator[str]:
    given = {} if args.entities is None else {"entities": args.entities}
    extract = pipeline("relation-extraction", model=model, tokenizer=tokenizer, device=args.device, **given)
    inputs, located = tee(_inputs(args.file))
    results = extract((item for _, item in inputs), batch_size=args.batch_size, on_error="return")
    for (where, _), result in zip(located, results, strict=True):
        if "error" in result:
            raise UserError(f"{where}: {result['error'].removeprefix('the input: ')}")
        yield _json(result)


def _trees(model: Any, tokenizer: PreTrainedTokenizerBase, args: PredictArguments) -> Iterator[str]:
    given = {} if args.lang is None else {"lang": args.lang}
    parse = pipeline("dependency-parsing", model=model, tokenizer=tokenizer, device=args.device, **given)
    if args.file.lower().removesuffix(".gz").endswith((".conllu", ".conllx")):
        if args.lang is not None:
            raise UserError(f"--lang splits texts into words, and the words of {args.file} are given.")
        sentences, read = tee(conllu_sentences(args.file))
        words = ([token.cells["form"] for token in sentence.tokens if not token.end] for sentence in sentences)
        trees = parse(({"words": forms} for forms in words), batch_size=args.batch_size)
        for sentence, tree in zip(read, trees, strict=True):
            columns = {name: [word[name] for word in tree] for name in TAG_CELLS if name in tree[0]}
            heads, relations = ([word[name] for word in tree] for name in ("head", "relation"))
            yield with_tree(sentence.lines, heads, relations, **columns)
        return
    items = (item if isinstance(item, str) else {"words": _words(where, item)} for where, item in _inputs(args.file))
    results = parse(items, batch_size=args.batch_size)
    for number, result in enumerate(results, start=1):
        # The only result, by its own count.
        yield re.sub("^(# sent_id = )1", rf"\g<1>{number}", parse.to_conllu([result]), flags=re.MULTILINE)


def _tags(model: Any, tokenizer: PreTrainedTokenizerBase, args: PredictArguments) -> Iterator[str]:
    if Path(args.file.lower().removesuffix(".gz")).suffix in COLUMNS:
        raise UserError(f"{args.file}: the file has columns; run_tagging.py --test_file tags it.")
    for block in _blocks(_inputs(args.file), args):
        sentences = [_words(*located) for located in block]
        limit = tokenizer.model_max_length
        encoded, cut = encode_tagged_words(Dataset.from_dict({"words": sentences}), tokenizer, {}, limit)
        if cut:
            logger.warning(f"of {cut} words only the first {limit} tokens are read.")
        tags: list[list[str]] = [[] for _ in sentences]
        rows = encoded.remove_columns(["sentence", "word_starts"]).to_list()
        answers = chain.from_iterable(
            logits.argmax(dim=-1).tolist() for logits in _logits(model, tokenizer, rows, args)
        )
        for sentence, starts, numbers in zip(encoded["sentence"], encoded["word_starts"], answers, strict=True):
            tags[sentence] += [model.config.id2label[numbers[start]] for start in starts]
        for words, found in zip(sentences, tags, strict=True):
            yield _json({"words": words, "tags": found})


def _words(where: str, item: Any) -> list[str]:
    if isinstance(item, str):
        item = {"words": [item[slice(*span)] for span in word_spans(item)]}
    words = next((item[name] for name in ("words", "tokens") if name in item), None)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise UserError(
            f'{where}: a sentence is a text, or {{"words": [...]}} with a word or more, not {shown(item)}.'
        )
    return words


def _classes(model: Any, tokenizer: PreTrainedTokenizerBase, args: PredictArguments) -> Iterator[str]:
    labels = model.config.id2label
    several = model.config.problem_type == "multi_label_classification"
    if list(labels.values()) == ["relevant"]:
        yield from _rankings(model, tokenizer, args)
        return
    for block in _blocks(_texts(args.file), args):
        rows = _encoded(tokenizer, [texts for _, texts in block])
        for logits in _logits(model, tokenizer, rows, args):
            for row in logits.float():
                if len(row) == 1:
                    yield _json({"score": row.item()})
                else:
                    score, number = (row.sigmoid() if several else row.softmax(dim=-1)).max(dim=-1)
                    yield _json({"label": labels[int(number)], "score": score.item()})


def _texts(path: str) -> Iterator[tuple[str, list[str]]]:
    """Pairs of location and texts: one or two, as in the first input."""
    columns = None
    for where, item in _inputs(path):
        row = {"text": item} if isinstance(item, str) else item
        own = text_columns(where, row)
        if columns is None:
            columns = own
            if row is item:
                print(f"The text is read from {' and '.join(columns)}.", file=sys.stderr)
        if len(own) > len(columns):
            raise UserError(f"{where}: the input has two texts, {' and '.join(own)}, unlike the first one.")
        yield where, [filled_text(row.get(name), where, f"the input has no text in {name!r}") for name in columns]


def _rankings(model: Any, tokenizer: PreTrainedTokenizerBase, args: PredictArguments) -> Iterator[str]:
    """The candidates of each query, the most relevant first."""
    for located in _inputs(args.file):
        pairs = list(query_rows([located]))
        rows = _encoded(tokenizer, [[pair["query"], pair["text"]] for pair in pairs])
        scores = torch.cat([logits[:, 0].float().sigmoid() for logits in _logits(model, tokenizer, rows, args)])
        candidates = [
            {"id": pair["candidate_id"], "text": pair["text"], "score": score}
            for pair, score in zip(pairs, scores.tolist(), strict=True)
        ]
        candidates.sort(key=lambda candidate: -candidate["score"])
        yield _json({"query": pairs[0]["query"], "candidates": candidates})


def _encoded(tokenizer: PreTrainedTokenizerBase, texts: Sequence[Sequence[str]]) -> list[Mapping]:
    limit = tokenizer.model_max_length
    columns = [list(column) for column in zip(*texts, strict=True)]
    whole = tokenizer(*columns, verbose=False)["input_ids"]
    if cut := sum(len(ids) > limit for ids in whole):
        logger.warning(f"{cut} of {len(whole)} inputs are longer than {limit} tokens and were truncated.")
    encoded = tokenizer(*columns, truncation=True, max_length=min(limit, max(map(len, whole))))
    return [{name: values[row] for name, values in encoded.items()} for row in range(len(whole))]


def _logits(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Mapping], args: PredictArguments
) -> Iterator[torch.Tensor]:
    """The logits of each batch of encoded rows, on the CPU."""
    collate = DataCollatorWithPadding(tokenizer)
    for first in range(0, len(rows), args.batch_size):
        batch = collate([dict(row) for row in rows[first : first + args.batch_size]])
        with torch.inference_mode():
            yield model(**batch.to(args.device)).logits.cpu()


KINDS: Mapping[Any, Kind] = {
    AutoModelForDependencyParsing: Kind(_trees, "lang"),
    AutoModelForRelationExtraction: Kind(_relations, "entities"),
    AutoModelForTokenClassification: Kind(_tags),
    AutoModelForSequenceClassification: Kind(_classes),
}
