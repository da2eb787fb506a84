"""Converts documents of DocRED and Re-DocRED."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from msattn.errors import UserError


def docred_row(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """
    A document as a row of [`~msattn.data.entity_pairs.pair_rows`], whose entities have several mentions.

    Args:
        row (`Mapping[str, Any]`):
            `sents` (lists of tokens), `vertexSet` (a list of mentions `{"sent_id", "pos", "type"}` an entity) and, if
            labelled, `labels` (`{"h", "t", "r"}`).
        where (`str`): Its location, which starts the error message.

    Raises:
        UserError: A field is missing or has another form.
    """
    try:
        starts = [*accumulate(map(len, row["sents"]), initial=0)]

        def mention(each: Mapping[str, Any]) -> dict[str, Any]:
            start, end = (starts[each["sent_id"]] + bound for bound in each["pos"])
            return {"start": start, "end": end, "type": each.get("type")}

        return {
            "id": row.get("title"),
            "tokens": sum(row["sents"], []),
            "entities": [[mention(each) for each in mentions] for mentions in row["vertexSet"]],
            "relations": [{"head": each["h"], "tail": each["t"], "type": each["r"]} for each in row["labels"]]
            if row.get("labels") is not None
            else None,
        }
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f'{where}: a document of DocRED has "sents", "vertexSet" (mentions with "sent_id" and "pos") and "labels" '
            f'(objects with "h", "t" and "r"); there is {error!r} in this one.'
        ) from None
