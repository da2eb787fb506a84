"""
How well raw text is split into words and sentences: F1 against treebanks, as the CoNLL 2018 evaluation counts it.

The raw text of a treebank is the `# text` of its sentences, with a space between two and an empty line before a new
paragraph or document, as in the shared task. Scores are those of the package `udtools`.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from bench_multiscale import markdown
from udtools.udeval import evaluate, load_conllu

from msattn.data.files.conllu import conllu_sentences
from msattn.data.files.conllu_lines import conllu_lines_of_text, with_tree
from msattn.data.files.text_lines import text_lines
from msattn.data.inputs.raw_text import Word, split_text

PARAGRAPHS = ("# newpar", "# newdoc")


def raw_text(path: str) -> str:
    """The text of a treebank."""
    text = ""
    for _, _, lines in conllu_sentences(text_lines(path, newline="")):
        (own,) = (line[9:].rstrip("\r\n") for line in lines if line.startswith("# text = "))
        text += ("\n\n" if any(line.startswith(PARAGRAPHS) for line in lines) else " " if text else "") + own
    return text


def flat_trees(sentences: list[list[Word]]) -> str:
    """CoNLL-U with a tree of no meaning, which the evaluation asks for."""
    trees = []
    for words in sentences:
        heads, relations = [0] + [1] * (len(words) - 1), ["root"] + ["dep"] * (len(words) - 1)
        trees.append(with_tree(conllu_lines_of_text([word.columns for word in words]), heads, relations))
    return "".join(trees)


def scores(path: str, lang: str) -> list[str]:
    found = flat_trees(split_text(raw_text(path), lang=None if lang == "any" else lang))
    # No enhanced graphs are scored.
    gold = load_conllu(io.StringIO("".join(_basic(path))), path, {})
    result = evaluate(gold, load_conllu(io.StringIO(found), "the split text", {}))
    counts = [result[name] for name in ("Tokens", "Words", "Sentences")]
    return [Path(path).stem, lang, *(f"{100 * count.f1:.2f}" for count in counts)]


def _basic(path: str) -> list[str]:
    """The lines of a treebank without enhanced graphs and empty nodes."""
    lines = []
    for _, _, sentence in conllu_sentences(text_lines(path, newline="")):
        for line in sentence:
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) == 10 and "." not in cells[0]:
                lines.append("\t".join([*cells[:8], "_", cells[9]]) + "\n")
            elif len(cells) == 1:
                lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True, nargs="+", metavar="CONLLU", help="treebanks")
    parser.add_argument("--lang", nargs="+", default=["any"], metavar="CODE", help="their language, or any")
    arguments = parser.parse_args()
    rows = [scores(path, lang) for path in arguments.file for lang in arguments.lang]
    print(markdown("treebank | rules | tokens | words | sentences", rows))


if __name__ == "__main__":
    main()
