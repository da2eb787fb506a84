"""The command `msattn predict`: applies any checkpoint of msattn to the lines of a file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
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
from msattn.data.columns import LOOKED_AT, PAIRS, TEXTS, find_column, ignored_columns, text_columns
from msattn.data.entity_pairs import text_rows
from msattn.data.files.checked_text import check_cell, filled_text
from msattn.data.files.conllu import is_conllu, refuse_conllu_row
from msattn.data.files.records import READERS, guess_format, parse_json
from msattn.data.files.text_lines import files_in, first_line, suffix_of, text_lines
from msattn.data.formats.annotation_tools import unannotated_text
from msattn.data.formats.brat import brat_rows
from msattn.data.formats.fewrel import fewrel_rows
from msattn.data.formats.semeval import SEMEVAL, semeval_rows
from msattn.data.inputs.raw_text import words_to_tag
from msattn.data.ranking import by_query, given_query_id, query_rows
from msattn.data.sentences import corpus_of
from msattn.data.tag_records import SENTENCE, WORD, WORDS, plain_records
from msattn.data.tagged_words import WHITE, record_rows, tagged_rows
from msattn.data.treebanks import rows_to_parse
from msattn.errors import UserError, refuse_below, shown
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
BINARY = (".parquet", ".arrow")
TABLES = (".csv", ".tsv", *BINARY)
COLUMNS = (".conll", ".bio", ".iob")
IOB = re.compile(r"O|[BIESLU]-[^\W\d]\S*")

# A place in a file, for error messages, and what is there: a text, or an object.
Located = tuple[str, Any]
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
    return [trained.model.config.to_json_string(), *rules, of_tagger]


def _inputs(path: str) -> Iterator[Located]:
    """Texts, or objects where a line starts with a brace. Empty lines are skipped."""
    if suffix_of(path) in TABLES:
        raise UserError(f"{path}: the file is a table; give texts or JSON objects, one per line.")
    for where, line in text_lines(path):
        refuse_conllu_row(line, where)
        content = line.strip()
        if content.startswith("[{") or content == "[":
            raise UserError(f"{where}: a list of objects; give one object per line.")
        if content:
            yield where, parse_json(content, where) if content.startswith("{") else line.rstrip()


def _first(path: str) -> str:
    """The first line of a file of text; `""` for a pipe, which can be read only once."""
    return first_line(path, fallback="latin-1")[1] if Path(path).is_file() and suffix_of(path) not in BINARY else ""


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
    if ends := getattr(trained.model.config, "span_ends", None):
        logger.warning(f"Trained with --span_ends {ends}: give exclusive ends here, inclusive in TACRED's fields.")
    extract = _pipeline("relation-extraction", trained, **options)

    def answer(located: list[Located]) -> list[str]:
        results = extract([item for _, item in located], batch_size=args.batch_size, on_error="return")
        for (where, _), result in zip(located, results, strict=True):
            if "error" in result:
                raise UserError(f"{where}: {result['error'].removeprefix('the input: ')}")
        return [_json(_with_id(item, result)) for (_, item), result in zip(located, results, strict=True)]

    return _relation_rows(args.file, finds_entities=args.entities is not None), answer


def _relation_rows(path: str, finds_entities: bool) -> Iterator[Located]:
    """What relations are trained on, with or without labels: SemEval's lines, brat, a table, JSON; or [`_inputs`]."""
    if Path(path).is_dir() or Path(path).suffix == ".ann":
        return text_rows(brat_rows(path))
    if SEMEVAL.match(_first(path)):
        return semeval_rows(path)
    rows = fewrel_rows(_rows(path))
    return text_rows(((where, unannotated_text(row)) for where, row in rows) if finds_entities else rows)


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
        return [check_cell(word, "word", where) for word in _words(where, item)]

    def answer(numbered: list[tuple[int, Located]]) -> list[str]:
        texts = ((where, _text_of(item)) for _, (where, item) in numbered)
        items = [item if isinstance(item, str) else {"words": columns(where, item)} for where, item in texts]
        results = parse(items, batch_size=args.batch_size)
        return [parse.to_conllu(result, str(number)) for (number, _), result in zip(numbered, results, strict=True)]

    return enumerate(_inputs(args.file), start=1), answer


def _tags(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    tag = WordTagger(trained.model, trained.tokenizer, **_splitting(args))

    def answer(located: list[Located]) -> list[str]:
        sentences = [_words(*each, tag.split) for each in located]
        tags = tag([[word.translate(WHITE) for word in words] for words in sentences], args.batch_size)
        return [
            _json({"words": words, "tags": [name for name, _ in found]})
            for words, found in zip(sentences, tags, strict=True)
        ]

    config = trained.model.config
    return _sentences(args.file, [*config.id2label.values()], getattr(config, "word_column", None)), answer


def _sentences(path: str, labels: Sequence[str], column: str | None) -> Iterator[Located]:
    """
    Texts, or objects with words: of tables, records and columns as `run_tagging.py` reads them, or of lines. The words
    are in the column of the training, if there is one of this name, or if it is the number of one.
    """
    suffix = suffix_of(path)
    words_in = (column, *WORDS) if column else WORDS
    if Path(path).is_dir() or suffix == ".ann" or (suffix in (".json", ".jsonl") and _first(path)):
        yield from _texts_or_words(record_rows(path, words_in))
    elif suffix in (".csv", ".parquet") or (
        suffix == ".tsv" and not {*first_line(path)[1].split("\t")}.isdisjoint(TEXTS)
    ):
        rows = _rows(path)
        first = list(islice(rows, LOOKED_AT))
        numbers = first and any(find_column(name, first[0][1]) for name in SENTENCE)
        named = find_column(column, first[0][1]) if column and numbers else None
        if suffix != ".parquet" and first and (named or any(find_column(name, first[0][1]) for name in WORD)):
            yield from tagged_rows(path, named)
        elif first and (any(name in first[0][1] for name in WORDS) or isinstance(first[0][1].get(column), list)):
            yield from _texts_or_words(plain_records(chain(first, rows), words_in))
        elif first:
            (text,) = text_columns(first[0][0], [row for _, row in first])[:1]
            yield from ((where, row[text]) for where, row in chain(first, rows))
    elif suffix in (".tsv", *COLUMNS) or is_conllu(path) or _is_tagged(path, labels):
        numbered = column and column.isdecimal() and suffix != ".conllu"
        if numbered and any(find_column(name, _first(path).split("\t")) for name in SENTENCE):
            numbered = False  # a table of words, which has names
        yield from tagged_rows(path, column if numbered else None)
    else:
        yield from _inputs(path)


def _texts_or_words(rows: Iterable[Located]) -> Iterator[Located]:
    """Of each row the text or the words; its tags and entities do not matter."""
    return text_rows((where, _text_of(row)) for where, row in rows)


def _is_tagged(path: str, labels: Sequence[str]) -> bool:
    """Whether the lines that decide are columns, as many in each, and the last one holds tags."""
    lines = (line.split() for _, line in islice(text_lines(path), LOOKED_AT)) if _first(path) else ()
    cells = [line for line in lines if line and line[0] not in ("#", "-DOCSTART-")]
    widths, tags = {len(line) for line in cells}, {line[-1] for line in cells}
    if len(cells) < 2 or len(widths) > 1 or 1 in widths:
        return False
    # A full stop may be a tag, and all texts may end in one.
    return any(map(str.isalpha, "".join(tags))) and all(tag in labels or IOB.fullmatch(tag) for tag in tags)


def _text_of(item: Any) -> Any:
    """The text of an object without a list of words; any other input."""
    return item.get("text", item) if isinstance(item, Mapping) and _given_words(item) is None else item


def _given_words(item: Mapping) -> list[str] | None:
    """The words of an object; `None` for other lists of these names, as the objects of Prodigy and spaCy."""
    lists = (item[name] for name in WORDS if isinstance(item.get(name), list))
    return next((each for each in lists if all(isinstance(word, str) for word in each)), None)


def _words(where: str, item: Any, split: Callable[[str], list] = words_to_tag) -> list[str]:
    item = _text_of(item)
    words: list[str] | None = None
    if isinstance(item, str):
        words = [word for word, _, _ in split(item)]
    elif isinstance(item, Mapping):
        words = _given_words(item)
    if not words or "" in words:  # a no-break space may be a word, as in training
        raise UserError(
            f'{where}: a sentence is a text, or {{"words": [...]}} with a word or more, not {shown(item)}.'
        )
    return words


def _classes(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    labels = [*trained.model.config.id2label.values()]
    if labels == ["relevant"]:
        return _rankings(trained, args)
    classify = _classifier(trained, args)

    def answer(texts: list[list[str]]) -> list[str]:
        found = classify(texts)
        return [_json({"score": one["score"]} if len(labels) == 1 else one) for one in found]

    return _texts(args.file, getattr(trained.model.config, "text_columns", None)), answer


def _texts(path: str, stored: Sequence[str] | None) -> Iterator[list[str]]:
    """The text of each input, or its two texts, from the columns of the training or else those of the first input."""
    columns: list[str] = []
    corpus = corpus_of(path) if _first(path)[:1] not in ("", "{") else None
    for where, item in corpus(path) if corpus else _rows(path, stored or ()):
        row = {"text": item} if isinstance(item, str) else item
        if not isinstance(row, dict):
            raise UserError(f"{where}: an input is a text or an object with a text, not {shown(row)}.")
        if stored is not None and len(stored) == 2 and row is not item:
            raise UserError(f"{where}: the model reads two texts, {' and '.join(stored)}; give objects or a table.")
        if not columns:
            if corpus and len(stored or ()) == len(row) - 1:
                stored = None  # its columns have names of ours
            columns = text_columns(where, [row]) if stored is None else _trained_columns(where, row, stored)
            if row is item:
                ignored = ", ".join(ignored_columns(columns, row, "label"))
                print(
                    f"The text is read from {' and '.join(columns)}{ignored and f'; ignored: {ignored}'}.",
                    file=sys.stderr,
                )
        yield [filled_text(row.get(name), where, f"the input has no text in {name!r}") for name in columns]


def _trained_columns(where: str, row: dict, stored: Sequence[str]) -> list[str]:
    """The columns that the model was trained on, or else `text` and `text_pair`, as in a pipeline."""
    for names in (stored, ("text", "text_pair")[: len(stored)]):
        own = [column for name in names if (column := find_column(name, row)) is not None]
        if len(own) == len(names):
            return own
    raise UserError(
        f"{where}: the model was trained on {' and '.join(stored)}, and there are {', '.join(row) or 'no columns'}."
    )


def _rows(path: str, names: Sequence[str] = ()) -> Iterator[Located]:
    """The rows of a JSON file or of a table, told by its ending or a first line that names a text; or [`_inputs`]."""
    first = _first(path).split("\t")
    header = len(first) > 1 and any(find_column(name, first) for name in (*names, *TEXTS, *chain(*PAIRS)))
    if header or suffix_of(path) in (".csv", ".tsv", ".parquet", ".json"):
        return iter(READERS[guess_format(path) or "jsonl"](path))
    return _inputs(path)


def _rankings(trained: Trained, args: PredictArguments) -> tuple[Reader, Answer]:
    """The candidates of each query, the most relevant first."""
    score = _classifier(trained, args, function_to_apply="none")  # sigmoids near 1 are equal

    def answer(groups: list[list[Located]]) -> list[str]:
        queries = [list(query_rows(group)) for group in groups]
        scores = iter(score([[pair["query"], pair["text"]] for pair in chain(*queries)]))
        written = []
        for pairs, ((_, row), *_) in zip(queries, groups, strict=True):
            candidates = [
                {"id": pair["candidate_id"], "text": pair["text"], "score": next(scores)["score"]} for pair in pairs
            ]
            ranked = sorted(candidates, key=lambda candidate: -candidate["score"])
            for one in ranked:
                one["score"] = torch.tensor(one["score"]).sigmoid().item()
            given = given_query_id(row)
            named = {} if given is None else {"id": given}
            written.append(_json({**named, "query": pairs[0]["query"], "candidates": ranked}))
        return written

    return by_query(_rows(args.file)), answer


def _classifier(trained: Trained, args: PredictArguments, **options: Any) -> Callable[[list[list[str]]], list[dict]]:
    """Classifies texts and pairs of texts; warns of those that are truncated."""
    classify, limit = _pipeline("text-classification", trained), trained.tokenizer.model_max_length

    def of_texts(texts: list[list[str]]) -> list[dict]:
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
