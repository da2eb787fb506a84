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
from msattn.data.inputs.word_rules import language_of, sentence_words, word_spans

PARAGRAPHS = ("# newpar", "# newdoc")


def raw_text(path: str) -> str:
    """The text of a treebank."""
    text = ""
    for _, _, lines in conllu_sentences(path):
        (own,) = (line[9:].rstrip("\r\n") for line in lines if line.startswith("# text = "))
        text += ("\n\n" if any(line.startswith(PARAGRAPHS) for line in lines) else " " if text else "") + own
    return text


def flat_trees(text: str, sentences: list[list[tuple[int, int]]]) -> str:
    """CoNLL-U with a tree of no meaning, which the evaluation asks for."""
    rows = []
    for words in sentences:
        for number, (start, end) in enumerate(words, start=1):
            head, relation = (0, "root") if number == 1 else (1, "dep")
            rows.append(f"{number}\t{text[start:end]}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_")
        rows.append("")
    return "\n".join(rows) + "\n"


def scores(path: str, lang: str) -> list[str]:
    text, language = raw_text(path), language_of(None if lang == "any" else lang)
    found = flat_trees(text, sentence_words(text, word_spans(text, language)))
    # No enhanced graphs are scored.
    gold = load_conllu(io.StringIO("".join(_basic(path))), path, {})
    result = evaluate(gold, load_conllu(io.StringIO(found), "the split text", {}))
    counts = [result[name] for name in ("Tokens", "Words", "Sentences")]
    return [Path(path).stem, lang, *(f"{100 * count.f1:.2f}" for count in counts)]


def _basic(path: str) -> list[str]:
    """The lines of a treebank without enhanced graphs and empty nodes."""
    lines = []
    for _, _, sentence in conllu_sentences(path):
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
