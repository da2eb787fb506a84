"""Sentences that a parser is unsure of, for annotators: the sure arcs are filled in, the others are left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

from datasets import Dataset
from transformers import Pipeline
from transformers.utils import logging

from msattn.data.files.conllu_lines import TAG_CELLS, kept_tags, with_tree
from msattn.data.inputs.raw_text import split_text
from msattn.data.treebanks import UNKNOWN, is_text_file, read_treebank, treebank_rows
from msattn.errors import UserError
from msattn.loading import load_pipeline
from msattn.plots.style import check_suffix

logger = logging.get_logger(__name__)

# What orders sentences, with the most doubtful first.
ORDERS = {"probability": lambda doubt: doubt.probability, "loss": lambda doubt: -doubt.errors}
# The comments that an annotation adds.
FOUND = ("# tree_probability = ", "# expected_errors = ")


class Doubt(NamedTuple):
    """
    How sure a parser is of a sentence.

    Args:
        words (`list[dict]`): The words of the best tree, with marginals; see [`DependencyParsingPipeline`].
        probability (`float`): The probability of the best tree.
        errors (`float`): The number of its heads that are wrong, to be expected.
    """

    words: list[dict[str, Any]]
    probability: float
    errors: float


def write_doubtful(
    model: str,
    file: str,
    output: str,
    top: int = 50,
    by: Literal["probability", "loss"] = "probability",
    sure: float = 0.95,
    similarity: float = 0.5,
    lang: str | None = None,
    word_tokenizer: str | None = None,
) -> str:
    """
    Writes the sentences that a parser is least sure of, with its sure arcs, for annotation.

    Args:
        model (`str`): A parser: a folder of `run_parsing.py` or `msattn export`, or a name on the Hub.
        file (`str`):
            Sentences in CoNLL-U, or raw text in a `.txt` file, which is split into sentences and words. Sentences with
            a head are left out.
        output (`str`): The `.conllu` file to write.
        top, by, similarity: As in [`most_doubtful`].
        sure (`float`, *optional*, defaults to 0.95): As in [`annotation`].
        lang (`str`, *optional*): Language of the rules that split raw text, such as `"en"`.
        word_tokenizer (`str`, *optional*): What splits raw text in their place, such as `"stanza:fr"`.

    Returns:
        `str`: How many sentences and words were written.

    Raises:
        UserError: The model is no parser, or there is no sentence without heads.
    """
    check_suffix(output, ".conllu")
    if Path(output).exists() and Path(file).exists() and Path(output).samefile(file):
        raise UserError(f"--output {output}: that is the file that is read; give another one.")
    if not is_text_file(file) and (lang or word_tokenizer):
        option = "lang" if lang else "word_tokenizer"
        raise UserError(f"--{option} splits texts into words, and the words of {file} are given.")
    if top < 1 or not (0 <= sure <= 1 and 0 <= similarity <= 1):
        raise UserError("--top is 1 or more; --sure and --similarity are from 0 to 1.")
    split = partial(split_text, word_tokenizer=word_tokenizer, lang=lang)
    rows = treebank_rows(file, split) if is_text_file(file) else _open_rows(file)
    sentences = [(row["words"], row["lines"]) for row in rows]
    if not sentences:
        raise UserError(f"{file}: there is no sentence without heads to annotate.")
    found = doubts(load_pipeline("dependency-parsing", model), [words for words, _ in sentences])
    chosen = most_doubtful(found, top, by, similarity)
    written = [annotation(sentences[number][1], doubt, sure) for number in chosen if (doubt := found[number])]
    Path(output).write_text("".join(written), encoding="utf-8", newline="")
    words = sum(len(sentences[number][0]) for number in chosen)
    return f"{output}: {len(chosen)} of {len(sentences)} sentences, {words} words"


def doubts(parse: Pipeline, sentences: Sequence[Sequence[str]], batch_size: int = 32) -> list[Doubt | None]:
    """
    Parses sentences and says how sure the parser is of each.

    Args:
        parse (`DependencyParsingPipeline`): The pipeline of a parser.
        sentences (`Sequence[Sequence[str]]`): The words of each sentence.
        batch_size (`int`, *optional*, defaults to 32): Number of sentences per batch.

    Returns:
        `list[Doubt | None]`: One for each sentence; `None` if it is longer than the parser reads at a time.
    """
    fitting = [len(parse.preprocess({"words": list(words)})["windows"]) == 1 for words in sentences]
    given = [{"words": list(words)} for words, fits in zip(sentences, fitting, strict=True) if fits]
    results = iter(parse(given, k=1, marginals=True, batch_size=batch_size))
    found = [_doubt(next(results)[0]) if fits else None for fits in fitting]
    if len(given) < len(found):
        logger.warning(f"{len(found) - len(given)} sentences are longer than the parser reads at a time; left out.")
    return found


def most_doubtful(
    doubts: Sequence[Doubt | None],
    top: int,
    by: Literal["probability", "loss"] = "probability",
    similarity: float = 0.5,
) -> list[int]:
    """
    Selects the sentences that a parser is least sure of, without near-duplicates.

    Args:
        doubts (`Sequence[Doubt | None]`): The result of [`doubts`].
        top (`int`): Number of sentences; fewer if there are no more.
        by (`str`, *optional*, defaults to `"probability"`):
            The lowest probability of the best tree, or the largest expected number of wrong heads (`"loss"`).
        similarity (`float`, *optional*, defaults to 0.5):
            Of two sentences whose words are more similar, only one is selected: the number of distinct words, in lower
            case, that both have, over the number of those that one of them has.

    Returns:
        `list[int]`: The numbers of the sentences, the most doubtful first.
    """
    order = sorted((ORDERS[by](doubt), number) for number, doubt in enumerate(doubts) if doubt is not None)
    chosen: list[int] = []
    vocabularies: list[frozenset[str]] = []
    for _, number in order:
        if len(chosen) == top:
            break
        own = frozenset(word["word"].lower() for word in doubts[number].words)  # type: ignore[union-attr]
        if all(len(own & other) <= similarity * len(own | other) for other in vocabularies):
            chosen.append(number)
            vocabularies.append(own)
    return chosen


def annotation(lines: Sequence[str], doubt: Doubt, sure: float) -> str:
    """
    A sentence in CoNLL-U whose sure arcs are filled in.

    Args:
        lines (`Sequence[str]`): Its lines; see [`~msattn.data.files.conllu.ConlluSentence`].
        doubt (`Doubt`): How sure the parser is of it.
        sure (`float`):
            A word has its head and relation if its `marginal` and its `score` are at least this, and `_` otherwise.

    Returns:
        `str`: The comments, `# tree_probability` and `# expected_errors`, the words and an empty line. Empty columns
        that the parser tags are filled in, too, but for FEATS beside a UPOS: that word has none.
    """
    rows = [place for place, line in enumerate(lines) if "\t" in line and not line.startswith("#")]
    comments = [*takewhile(lambda line: line.startswith("#"), reversed(lines[: rows[0]]))][::-1]
    comments = [line for line in comments if not line.startswith(FOUND)]  # of another parser
    trees = [
        (str(word["head"]), word["relation"]) if min(word["marginal"], word["score"]) >= sure else ("_", "_")
        for word in doubt.words
    ]
    own = lines[rows[0] : rows[-1] + 1]
    tags = {name: [word[name] for word in doubt.words] for name in TAG_CELLS if name in doubt.words[0]}
    tree = with_tree(own, *zip(*trees, strict=True), **kept_tags(own, tags))
    found = f"{FOUND[0]}{doubt.probability:.4g}\n{FOUND[1]}{doubt.errors:.4g}\n"
    return "".join(comments) + found + tree.rstrip("\r\n") + "\n\n"


def _doubt(tree: Mapping[str, Any]) -> Doubt:
    return Doubt(tree["words"], tree["probability"], sum(1 - word["marginal"] for word in tree["words"]))


def _open_rows(path: str) -> Dataset:
    """The sentences of a treebank that have no head yet."""
    treebank = read_treebank(path)
    heads = treebank["heads"] if "heads" in treebank.column_names else [[UNKNOWN]] * len(treebank)
    rows = [row for row, own in enumerate(heads) if max(own) == UNKNOWN]
    if len(rows) < len(treebank):
        logger.warning(f"{path}: {len(treebank) - len(rows)} sentences with heads are left out.")
    return treebank.select(rows)
