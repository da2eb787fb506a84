"""
Writes texts for distillation: those of all files, each once, that share no run of words with a test text.

Words are compared in lower case, without punctuation. Texts shorter than the run are left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path

from msattn.data import read_sentences


def texts_of(file: str) -> Iterator[str]:
    """The texts of a file that `run_glue.py` reads."""
    rows = read_sentences(file)
    yield from rows["sentence" if "sentence" in rows.column_names else "text"]


def words_of(text: str) -> tuple[str, ...]:
    """Its words in lower case, without punctuation."""
    return tuple(re.findall("[a-z0-9]+", text.lower()))


def runs_of(words: tuple[str, ...], length: int) -> set[tuple[str, ...]]:
    """All runs of so many words."""
    return {words[start : start + length] for start in range(len(words) - length + 1)}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("files", nargs="+", help="files of texts")
    parser.add_argument("--test_file", required=True, help="whose texts they must not share words with")
    parser.add_argument("--words", type=int, default=4, help="so many words in a row (default: 4)")
    parser.add_argument("--output", type=Path, required=True, help="the JSON lines")
    args = parser.parse_args(argv)
    tested = set().union(*(runs_of(words_of(text), args.words) for text in texts_of(args.test_file)))
    found: dict[tuple[str, ...], str] = {}
    for text in (text for file in args.files for text in texts_of(file)):
        found.setdefault(words_of(text), text.strip())
    kept = [
        text
        for words, text in found.items()
        if len(words) >= args.words and tested.isdisjoint(runs_of(words, args.words))
    ]
    args.output.write_text("".join(json.dumps({"text": text}) + "\n" for text in kept), encoding="utf-8")
    print(f"{len(kept)} of {len(found)} texts are in {args.output}.")


if __name__ == "__main__":
    main()
