"""Finds the sentences in what the pipeline `"dependency-parsing"` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def named_sentences(result: Any, name: str = "") -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """
    The sentences of a result, of any shape, with their names.

    Args:
        result (`Any`): A sentence, a tree with `words`, or a list of those or of lists of them.

    Yields:
        `tuple[str, Sequence[Mapping]]`: The place of each sentence, from 1, such as `"3-2"` for the second one of the
        third text, and its words. Sentences without words are left out.
    """
    if isinstance(result, Mapping):
        yield from named_sentences(result["words"], name)
    elif isinstance(result, Sequence) and len(result) > 0 and isinstance(result[0], Mapping) and "word" in result[0]:
        yield name or "1", result
    else:
        for number, part in enumerate(result, start=1):
            yield from named_sentences(part, f"{name}-{number}" if name else str(number))
