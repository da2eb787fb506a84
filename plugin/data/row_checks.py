"""What the rows of a file say together: spans that cut words, and pairs with several labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from transformers.utils import logging

from msattn.data.files.arrow_tables import Located
from msattn.data.relation_rows import TAG, relation_row
from msattn.data.spans import characters_of_utf16, cuts_words, whole_words

logger = logging.get_logger(__name__)

Span = Sequence[int]
# Other readings of two bounds, by what to do if they cut no word in the whole file.
READINGS: dict[str, Callable[[str, Span], Span]] = {
    "all are whole words if their ends are the last characters inside: add 1 (run_re.py: --span_ends inclusive)": (
        lambda text, span: (span[0], span[1] + 1)
    ),
    "all are whole words if they count units of UTF-16: count characters": characters_of_utf16,
}


def checked_rows(
    rows: Iterator[tuple[str, Any]], source: str, span_ends: str | None, several: bool = False
) -> Located:
    """
    The examples of rows. Behind the last one, warns of spans that cut words and of pairs with several labels.

    Args:
        rows (`Iterator`): Locations and rows of [`~msattn.data.relation_rows.relation_row`].
        source (`str`): The name of the file.
        span_ends (`str`, *optional*): See [`~msattn.data.relation_rows.relation_row`].
        several (`bool`, *optional*, defaults to `False`): Whether pairs may have several labels.

    Raises:
        UserError: A row is invalid.
    """
    count, cutting, relabelled = 0, [], []
    causes, labels = [*READINGS], dict[int, Any]()
    for where, row in rows:
        example = relation_row(row, where, span_ends)
        text, spans = example["text"], (example["head"], example["tail"])
        count += 1
        pair = hash((text, *spans[0], *spans[1]))
        if not several and labels.setdefault(pair, example["label"]) != example["label"]:
            relabelled.append(where)
        # Tags may cut words, as they are written into them.
        if isinstance(row.get("tokens", row.get("token")), list) or not TAG.search(str(row)):
            if cut := [span for span in spans if cuts_words(text, span)]:
                cutting.append(f"{where}, {text[slice(*cut[0])]!r}")
            causes = [name for name in causes if all(whole_words(text, READINGS[name](text, span)) for span in spans)]
        yield where, example
    if cutting:
        logger.warning(
            f"{source}: the spans of {len(cutting)} of {count} rows cut words; "
            f"{next(iter(causes), 'count their characters again')}. The first: {cutting[0]}."
        )
    if relabelled:
        logger.warning(
            f"{source}: {len(relabelled)} of {count} rows give their pair of entities another label than a row "
            "before. Each is an example of its own; --multi_label trains all labels of a pair. The first: "
            f"{relabelled[0]}."
        )
