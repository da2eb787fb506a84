"""Reads the trees of the Stanford Sentiment Treebank with five classes (SST-5)."""

from __future__ import annotations

import os
import re

from msattn.data.files.arrow_tables import Located
from msattn.data.files.text_lines import text_lines
from msattn.errors import UserError

SENTIMENTS = ("very negative", "negative", "neutral", "positive", "very positive")
# Splits at the white space of the format only: a no-break space is part of a word.
SYMBOL = re.compile(r"[()]|[^() \t\n]+")
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


def sentiment_tree_rows(path: str | os.PathLike, phrases: bool = False) -> Located:
    r"""
    Reads an SST-5 file: one bracketed tree per line, with a label from 0 to 4 at every node.

    Escaped brackets and slashes (`-LRB-`, `\/`) are unescaped.

    Args:
        path (`str` or `os.PathLike`): The file, in UTF-8.
        phrases (`bool`, *optional*, defaults to `False`):
            Whether to read all phrases of a sentence, in post-order: single words first, the full sentence last.

    Yields:
        `tuple[str, dict[str, str]]`: The location, and a row with `sentence`, with spaces between words, and `label`.

    Raises:
        UserError: The file cannot be read, or a line is not a labelled tree. The message names file and line.
    """
    for where, line in text_lines(path):
        if line.strip():
            words, nodes = _tree(line, where)
            for label, first, end in nodes if phrases else nodes[-1:]:
                yield where, {"sentence": " ".join(words[first:end]), "label": SENTIMENTS[label]}


def _tree(line: str, where: str) -> tuple[list[str], list[tuple[int, int, int]]]:
    """The words of a tree, and its nodes as `(label, first, end)` with words `[first, end)`, the root last."""
    words: list[str] = []
    opened: list[tuple[int, int]] = []
    nodes: list[tuple[int, int, int]] = []
    symbols = iter(SYMBOL.findall(line))
    for symbol in symbols:
        if nodes and not opened:
            raise UserError(f"{where}: {symbol!r} stands after the end of the tree; a line has one tree.")
        if symbol == "(":
            label = next(symbols, "")
            if label not in ("0", "1", "2", "3", "4"):
                raise UserError(f"{where}: a label from 0 to 4 has to follow an opening bracket, not {label!r}.")
            opened.append((int(label), len(words)))
        elif not opened:
            raise UserError(f"{where}: the line has to begin with the bracket of a tree, not with {symbol!r}.")
        elif symbol == ")":
            label_number, first = opened.pop()
            if first == len(words):
                raise UserError(f"{where}: a node of the tree has no word.")
            nodes.append((label_number, first, len(words)))
        else:
            words.append(ESCAPES.get(symbol, symbol).replace("\\/", "/"))
    if opened:
        raise UserError(f"{where}: the tree lacks {len(opened)} closing brackets.")
    return words, nodes
