"""Which columns of a table hold its texts; the rule is that of docs/inputs.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msattn.errors import UserError, shown

# Two columns with these names are a pair. Pairs come first: `sentence` is also one of the two columns of QNLI.
PAIRS = (
    *(("sentence1", "sentence2"), ("question1", "question2"), ("question", "sentence"), ("premise", "hypothesis")),
    *(("text", "text_pair"), ("text1", "text2"), ("text_1", "text_2"), ("text_a", "text_b"), ("text", "hypothesis")),
    ("#1 string", "#2 string"),  # MRPC
    *(("sentence_1", "sentence_2"), ("sentence_a", "sentence_b"), ("question", "answer"), ("query", "passage")),
)
# A column with one of these names is the text, the first of them that there is.
TEXTS = ("text", "sentence", "review", "content", "tweet", "message", "comment", "document", "body", "utterance")
# Columns of strings that are no texts: ids (`idx`, `pair_ID`, `uid`), and what tells the label (`label_text`).
NOT_TEXTS = re.compile(r"(?i:label|gold|^index$|^idx$|^[gu]?u?id$|_id$)|[a-z](ID|Id)$")
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
# A name that is none: a number, the end of a sentence, or four words.
DATA = re.compile(rf"^{NUMBER.pattern}$|[.!?]\s*$|\S\s+\S+\s+\S+\s+\S", re.ASCII)
# The rows that decide.
LOOKED_AT = 100


def find_column(name: str, header: Iterable[str]) -> str | None:
    """The column of this name: the same letters, or else the same but for case and white space at its ends."""
    names = list(header)
    return name if name in names else next((each for each in names if _plain(each) == _plain(name)), None)


def text_columns(where: str, rows: Sequence[Any], label_column: str = "label") -> list[str]:
    """
    The one or two columns that hold the texts of a table: a pair by its names, a text by its name, or the longest.

    Args:
        where (`str`): The location of the first row, for error messages.
        rows (`Sequence[Any]`): Some rows.
        label_column (`str`, *optional*, defaults to `"label"`): The label column.

    Raises:
        UserError: No column holds text.
    """
    header = list(rows[0]) if isinstance(rows[0], Mapping) else []
    label = find_column(label_column, header)
    own = {_plain(name): name for name in reversed(header) if name != label}
    for pair in PAIRS:
        if all(name in own for name in pair):
            return [own[name] for name in pair]
    rows = [row for row in rows if isinstance(row, Mapping)]
    lengths = {name: _mean_length([row.get(name) for row in rows]) for name in header}
    texts = [name for name in header if lengths[name] and name != label and not NOT_TEXTS.search(name.strip())]
    # A column that is named so may hold numbers, too.
    named = (own[name] for name in TEXTS if name in own)
    if found := next((name for name in named if any(isinstance(row.get(name), str) for row in rows)), None):
        return [found]
    if not texts:
        raise UserError(
            f"{where}: there is no column of text beside {label_column} among {', '.join(header) or 'no columns'}."
        )
    return [max(texts, key=lengths.__getitem__)]


def check_header(where: str, header: Sequence[str], label_column: str) -> None:
    """
    Refuses a table whose first row is data.

    Raises:
        UserError: No column has a known name, and one is a number, a sentence or four words or more.
    """
    known = {*TEXTS, *(name for pair in PAIRS for name in pair), _plain(label_column)}
    if any(DATA.search(name) for name in header) and not known & {_plain(name) for name in header}:
        names = ", ".join(map(shown, header))
        raise UserError(f"{where}: {names} look like data; the first line has to be a header, such as text,label.")


def ignored_columns(columns: Sequence[str], header: Iterable[str], label_column: str) -> list[str]:
    """The other columns of a table, which the log names."""
    label = find_column(label_column, header)
    return [name for name in header if name.strip() and name not in columns and name != label]


def _plain(name: str) -> str:
    return name.strip().casefold()


def _mean_length(values: Sequence[Any]) -> float:
    """Mean length of the texts of a column; 0 if it has none but numbers, which tables hold as strings."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    if not texts or all(map(NUMBER.fullmatch, texts)):
        return 0.0
    return sum(map(len, texts)) / len(texts)
