"""The command `msattn predict`: applies any checkpoint of msattn to the lines of a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import torch
from accelerate import PartialState
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    pipeline,
)
from transformers.utils import logging

from msattn.auto import AutoModelForDependencyParsing, AutoModelForRelationExtraction
from msattn.command_line import FLAG, named, parse_arguments, user_mistakes
from msattn.data.columns import find_column
from msattn.data.files.checked_text import check_cell
from msattn.data.files.conllu import is_conllu
from msattn.data.files.text_lines import files_in
from msattn.data.ranking import by_query, given_query_id, query_rows
from msattn.data.tagged_words import WHITE
from msattn.data.treebanks import rows_to_parse
from msattn.data.unlabelled import (
    Input,
    has_candidates,
    line_inputs,
    relation_inputs,
    sentence_inputs,
    table_rows,
    text_inputs,
    text_of,
    words_of,
)
from msattn.errors import UserError, refuse_below
from msattn.loading import Trained, load_trained
from msattn.pipelines.word_tagger import WordTagger
from msattn.streaming import predict_stream, stream_key

logger = logging.get_logger(__name__)

# Inputs that are read ahead of the answers, in batches.
LOOKAHEAD = 16
SPLITTING = ("lang", "word_tokenizer")
RELATION_OPTIONS = (
    *SPLITTING,
    "entities",
    "threshold",
    "pairs",
    "order",
    "same_sentence",
    "max_length",
    "merge",
    "negative",
)
# The inputs of a file, and what gives the text to write for each of some inputs.
Reader = Iterable[Any]
Answer = Callable[[list], list[str]]


@dataclass
class PredictArguments:
    """Arguments of `msattn predict`."""

    model: str = field(metadata={"help": "Checkpoint: a folder, or a name on the Hub."})
    file: str = field(metadata={"help": "Texts, JSON lines or a table, or .conllu; - is the standard input."})
    output: str | None = field(
        default=None, metadata={"help": "File to write, gzipped if its name ends in .gz. Default: standard output."}
    )
    encoding: str = field(
        default="utf-8", metadata={"help": "Encoding of the file, such as utf-16 or cp1252 (Windows)."}
    )
    batch_size: int = field(
        default=32, metadata={"help": "Inputs per batch. 1 answers each line before the next one is read."}
    )
    device: str = field(default="cpu", metadata={"help": "Where the model runs, such as cuda:0."})
    lang: str | None = field(
        default=None,
        metadata={
            "help": "Parser, tagger, --entities: language of the rules that split texts into words, such as en."
        },
    )
    word_tokenizer: str | None = field(
        default=None,
        metadata={
            "help": "The same: splits texts into words, instead of the rules: spacy:fr, stanza:fr, udpipe:FILE."
        },
    )
    entities: str | None = field(
        default=None, metadata={"help": "Relations: a checkpoint that finds the entities of plain texts."}
    )
    threshold: float | None = field(default=None, metadata={"help": "Relations: lowest probability of a relation."})
    pairs: list[str] | None = field(
        default=None,
        metadata={"help": "Relations: types of entities to pair, such as PER:LOC, or all. Default: as in training."},
    )
    order: str | None = field(
        default=None,
        metadata={"help": "Relations: pairs of heads before tails, text, or both. Default: that of training."},
    )
    same_sentence: bool | None = field(
        default=None,
        metadata={"help": "Relations: pairs within sentences only, or of any. Default: as in training.", **FLAG},
    )
    max_length: int | None = field(
        default=None,
        metadata={"help": "Relations: tokens of the window around a pair. Default: as in training."},
    )
    merge: bool | None = field(
        default=None,
        metadata={"help": "Relations: of both directions of a pair, only the more probable one.", **FLAG},
    )
    negative: str | None = field(
        default=None, metadata={"help": "Relations: keep writes pairs without a relation, too; default: drop."}
    )


def main(argv: list[str]) -> None:
    """
    Writes JSON lines, or CoNLL-U for a parser: an answer for each input, in the order of the inputs.

    Several processes (`accelerate launch -m msattn_command predict ...`) share the inputs.

    Args:
        argv (`list[str]`): `MODEL FILE`, and options.

    Raises:
        UserError: An argument is wrong, the checkpoint has no task that is known here, or an input is wrong.
    """
    (args,) = parse_arguments([PredictArguments], named(argv, "model", "file"), "msattn predict")
    logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if args.output == "-":
        args.output = None
    if args.file == "-":
        args.file = "/dev/stdin"
        if not Path(args.file).exists():  # Windows
            raise UserError("-: the standard input has no name on this system; give a file.")
    state = PartialState(cpu=args.device == "cpu")
    _check(args, state.num_processes)
    trained = load_trained(args.model)
    task = TASKS[trained.auto_class]
    takes = RELATION_OPTIONS if task is _relations else SPLITTING if task in (_trees, _tags) else ()
    for option in _given(args, RELATION_OPTIONS):
        if option not in takes:
            raise UserError(f"--{option}: {args.model} is a {type(trained.model).__name__}, which has no use for it.")
    with user_mistakes():
        trained.model.to(args.device if state.num_processes == 1 else state.device)
    resumable = args.output is not None and Path(args.file).is_file() and isinstance(trained.model, torch.nn.Module)
    key = stream_key(trained.model, args.file, asdict(args), *_states(trained, args)) if resumable else None
    size = args.batch_size * LOOKAHEAD if args.batch_size > 1 else 1
    with files_in(args.encoding):
        inputs, answer = task(trained, args)
        predict_stream(inputs, answer, args.output, size, key)


def _check(args: PredictArguments, processes: int) -> None:
    file = Path(args.file)
    refuse_below(args, batch_size=1)
    if processes > 1 and file.exists() and not file.is_file():
        raise UserError(f"{file}: several processes read the file, and a pipe can be read only once; give a file.")
    if args.output is not None and Path(args.output).exists() and Path(args.output).samefile(file):
        raise UserError(f"--output {args.output}: that is the file that is read; give another one.")


def _states(trained: Trained, args: PredictArguments) -> list[Any]:
    """What answers depend on besides the weights and the arguments."""
    files = sorted(Path(args.entities).glob("*")) if args.entities else []
    of_tagger = [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]
    rules = [trained.tokenizer.backend_tokenizer.to_str(), trained.tokenizer.model_max_length]
    return [trained.model.config.to_json_string(), *rules, of_tagger, version("msattn")]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def _relations(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    options = _given(args, RELATION_OPTIONS)
    if args.pairs == ["all"]:
        options["pairs"] = "all"
    elif args.pairs is not None:
        options["pairs"] = [tuple(pair.split(":")) for pair in args.pairs]
        if any(len(pair) != 2 for pair in options["pairs"]):
            raise UserError(f"--pairs {' '.join(args.pairs)}: give types as HEAD:TAIL, such as PER:LOC, or all.")
    if args.entities:
        task, model, tokenizer = load_trained(args.entities)
        if task is not AutoModelForTokenClassification:
            raise UserError(f"--entities {args.entities}: a {type(model).__name__} does not find entities.")
        splitting = {name: options.pop(name) for name in SPLITTING if name in options}
        if isinstance(model, torch.nn.Module):  # not an exported one
            model.to(trained.model.device)
        options["entities"] = WordTagger(model, tokenizer, **splitting)
    if ends := getattr(trained.model.config, "span_ends", None):
        logger.warning(f"Trained with --span_ends {ends}: give exclusive ends here, inclusive in TACRED's fields.")
    extract = _pipeline("relation-extraction", trained, **options)

    def answer(located: list[Input]) -> list[str]:
        results = extract([item for _, item in located], batch_size=args.batch_size, on_error="return")
        for (where, _), result in zip(located, results, strict=True):
            if "error" in result:
                raise UserError(f"{where}: {result['error'].removeprefix('the input: ')}")
        return [_json(_with_id(item, result)) for (_, item), result in zip(located, results, strict=True)]

    return relation_inputs(args.file, finds_entities=args.entities is not None), answer


def _with_id(item: Any, result: Any) -> Any:
    """The relations of an input, beside its id if it has one."""
    name = find_column("id", item) if isinstance(item, Mapping) else None
    if name is None or item[name] is None:
        return result
    return {"id": item[name], **(result if isinstance(result, dict) else {"relations": result})}


def _given(args: PredictArguments, names: Sequence[str]) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _splitting(args: PredictArguments) -> dict[str, str]:
    options = _given(args, SPLITTING)
    if is_conllu(args.file) and options:
        raise UserError(f"--{[*options][0]} splits texts into words, and the words of {args.file} are given.")
    return options


def _trees(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    parse = _pipeline("dependency-parsing", trained, **_splitting(args))
    if is_conllu(args.file):
        return rows_to_parse(args.file), lambda block: parse.complete(block, batch_size=args.batch_size)

    def columns(where: str, item: Any) -> list[str | None]:
        return [check_cell(word, "word", where) for word in words_of(where, item)]

    def answer(numbered: list[tuple[int, Input]]) -> list[str]:
        texts = ((where, text_of(item)) for _, (where, item) in numbered)
        items = [item if isinstance(item, str) else {"words": columns(where, item)} for where, item in texts]
        results = parse(items, batch_size=args.batch_size)
        return [parse.to_conllu(result, str(number)) for (number, _), result in zip(numbered, results, strict=True)]

    return enumerate(line_inputs(args.file), start=1), answer


def _tags(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    tag = WordTagger(trained.model, trained.tokenizer, **_splitting(args))

    def answer(located: list[Input]) -> list[str]:
        sentences = [words_of(*each, tag.split) for each in located]
        tags = tag([[word.translate(WHITE) for word in words] for words in sentences], args.batch_size)
        return [
            _json({"words": words, "tags": [name for name, _ in found]})
            for words, found in zip(sentences, tags, strict=True)
        ]

    config = trained.model.config
    return sentence_inputs(args.file, [*config.id2label.values()], getattr(config, "word_column", None)), answer


def _classes(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    labels = [*trained.model.config.id2label.values()]
    if labels == ["relevant"] or (len(labels) == 1 and has_candidates(args.file)):  # also cross-encoders of others
        return _rankings(trained, args)
    several = len(labels) > 1 and trained.model.config.problem_type == "multi_label_classification"
    classify = _classifier(trained, args, **({"top_k": None} if several else {}))

    def answer(texts: list[list[str]]) -> list[str]:
        found = classify(texts)
        return [_json({"score": one["score"]} if len(labels) == 1 else one) for one in found]

    return text_inputs(args.file, getattr(trained.model.config, "text_columns", None)), answer


def _rankings(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    """The candidates of each query, the most relevant first."""
    score = _classifier(trained, args, function_to_apply="none")  # sigmoids near 1 are equal
    raw = trained.model.config.problem_type == "regression"

    def answer(groups: list[list[Input]]) -> list[str]:
        queries = [list(query_rows(group)) for group in groups]
        scores = iter(score([[pair["query"], pair["text"]] for pair in chain(*queries)]))
        written = []
        for pairs, ((_, row), *_) in zip(queries, groups, strict=True):
            candidates = [
                {"id": pair["candidate_id"], "text": pair["text"], "score": next(scores)["score"]} for pair in pairs
            ]
            ranked = sorted(candidates, key=lambda candidate: -candidate["score"])
            for one in [] if raw else ranked:
                one["score"] = torch.tensor(one["score"]).sigmoid().item()
            given = given_query_id(row)
            named = {} if given is None else {"id": given}
            written.append(_json({**named, "query": pairs[0]["query"], "candidates": ranked}))
        return written

    return by_query(table_rows(args.file)), answer


def _classifier(trained: Trained, args: PredictArguments, **options: Any) -> Callable[[list[list[str]]], list[Any]]:
    """Classifies texts and pairs of texts; warns of those that are truncated."""
    classify, limit = _pipeline("text-classification", trained), trained.tokenizer.model_max_length

    def of_texts(texts: list[list[str]]) -> list[Any]:
        columns = map(list, zip(*texts, strict=True))
        ids = trained.tokenizer(*columns, verbose=False)["input_ids"]
        if cut := sum(len(tokens) > limit for tokens in ids):
            logger.warning(f"{cut} of {len(texts)} inputs are longer than {limit} tokens and were truncated.")
        rows = [dict(zip(("text", "text_pair"), each, strict=False)) for each in texts]
        return classify(rows, batch_size=args.batch_size, truncation=True, **options)

    return of_texts


def _pipeline(task: str, trained: Trained, **options: Any) -> Any:
    return pipeline(task, model=trained.model, tokenizer=trained.tokenizer, device=trained.model.device, **options)


TASKS: Mapping[type, Callable[[Trained, PredictArguments], tuple[Reader, Answer]]] = {
    AutoModelForDependencyParsing: _trees,
    AutoModelForRelationExtraction: _relations,
    AutoModelForTokenClassification: _tags,
    AutoModelForSequenceClassification: _classes,
}
