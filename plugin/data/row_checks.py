"""What the rows of a file say together: spans that cut words, and pairs with several labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.relation_rows import TAG, relation_row
from msattn.data.spans import InclusiveEnd, characters_of_utf16, cuts_word
from msattn.errors import UserError

logger = logging.get_logger(__name__)

Span = Sequence[int]
# Other readings of two bounds, by what to do if they cut no word in the whole file.
READINGS: dict[str, Callable[[str, Span], Span]] = {
    "all are whole words if their ends are the last characters inside: give --span_ends inclusive": (
        lambda text, span: (span[0], span[1] + 1)
    ),
    "all are whole words if they count units of UTF-16: count characters": characters_of_utf16,
}


class RowChecks:
    """
    Warns, once a file, of spans that cut words and of pairs with several labels.

    Args:
        source (`str`): The name of the file.
        several (`bool`, *optional*, defaults to `False`): Whether pairs may have several labels.
    """

    def __init__(self, source: str, several: bool = False):
        self.source, self.several = source, several
        self.rows = 0
        self.cut: list[str] = []
        self.whole = dict.fromkeys(READINGS, True)
        self.labels: dict[int, Any] = {}
        self.other: list[str] = []

    def see(self, where: str, text: str, head: Span, tail: Span, label: str | None, tagged: bool = False) -> None:
        """Looks at an example. Tags may cut words, as they are written into them."""
        self.rows += 1
        if not self.several and self.labels.setdefault(hash((text, *head, *tail)), label) != label:
            self.other.append(where)
        if tagged:
            return
        if _cut(text, head) or _cut(text, tail):
            self.cut.append(f"{where}, {text[slice(*(head if _cut(text, head) else tail))]!r}")
        for name, read in READINGS.items():
            self.whole[name] = self.whole[name] and all(_whole(text, read(text, span)) for span in (head, tail))

    def warn(self) -> None:
        if self.cut:
            cause = next((name for name, whole in self.whole.items() if whole), "count their characters again")
            logger.warning(
                f"{self.source}: the spans of {len(self.cut)} of {self.rows} rows cut words; {cause}. The first: "
                f"{self.cut[0]}."
            )
        if self.other:
            logger.warning(
                f"{self.source}: {len(self.other)} of {self.rows} rows give their pair of entities another label than "
                f"a row before. Each is an example of its own; --multi_label trains all labels of a pair. The first: "
                f"{self.other[0]}."
            )


def checked_rows(
    rows: Iterator[tuple[str, Any]], source: str, span_ends: str | None, several: bool = False
) -> Located:
    """
    The examples of rows, with the warnings of [`RowChecks`] behind the last one.

    Args:
        rows (`Iterator`): Locations and rows of [`~msattn.data.relation_rows.relation_row`].
        source (`str`): The name of the file.
        span_ends (`str`, *optional*): See [`~msattn.data.relation_rows.relation_row`].
        several (`bool`, *optional*, defaults to `False`): Whether pairs may have several labels.

    Raises:
        UserError: A row is invalid. If its ends are inclusive, the message says whether all further ones are, too.
    """
    checks = RowChecks(source, several)
    for where, row in rows:
        try:
            example = relation_row(row, where, span_ends)
        except InclusiveEnd as error:
            if span_ends is None and all(_is_inclusive(further) for further in [(where, row), *rows]):
                raise UserError(f"{error} So it is in all rows from here on: give --span_ends inclusive.") from None
            raise
        tagged = not isinstance(row.get("tokens", row.get("token")), list) and TAG.search(str(row)) is not None
        checks.see(where, example["text"], example["head"], example["tail"], example["label"], tagged)
        yield where, example
    checks.warn()


def _is_inclusive(located: tuple[str, Any]) -> bool:
    try:
        example = relation_row(located[1], located[0], "inclusive")
    except UserError:
        return False
    return all(_whole(example["text"], example[role]) for role in ("head", "tail"))


def _cut(text: str, span: Span) -> bool:
    return cuts_word(text, span[0]) or cuts_word(text, span[1])


def _whole(text: str, span: Span) -> bool:
    """Whether a span is whole words, without white space around them."""
    return not _cut(text, span) and text[slice(*span)] == text[slice(*span)].strip()
