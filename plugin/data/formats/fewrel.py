"""Expands FewRel's object, which lists the examples of each relation."""

from __future__ import annotations

from typing import Any

from msattn.data.files.arrow_tables import Located
from msattn.errors import UserError


def fewrel_rows(rows: Located) -> Located:
    """
    Expands FewRel objects to one row per example; other rows pass unchanged.

    Args:
        rows (`Located`): Locations and rows.

    Raises:
        UserError: An example of an object has a relation of its own.
    """
    for where, row in rows:
        if not _is_fewrel(row):
            yield where, row
            continue
        for name, examples in row.items():
            for number, example in enumerate(examples, start=1):
                of_name = f"{where}, example {number} of {name}"
                if own := {"relation", "label"} & example.keys():
                    raise UserError(f"{of_name}: it has a {min(own)} of its own; give a file of such examples only.")
                yield of_name, {"relation": name, **example}


def _is_fewrel(row: Any) -> bool:
    """Returns true if all values of a row are lists of objects."""
    return (
        isinstance(row, dict)
        and bool(row)
        and all(
            isinstance(examples, list) and examples and all(isinstance(example, dict) for example in examples)
            for examples in row.values()
        )
    )
