"""Converts documents of DocRED and Re-DocRED."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any


def docred_rows(row: Mapping[str, Any], dropped: Counter) -> Iterator[dict[str, Any]]:
    """
    A document as a row of [`~msattn.data.entity_pairs.pair_rows`], whose entities have several mentions.

    Args:
        row (`Mapping[str, Any]`):
            `sents` (lists of tokens), `vertexSet` (a list of mentions `{"sent_id", "pos", "type"}` an entity) and, if
            labelled, `labels` (`{"h", "t", "r"}`).
        dropped (`Counter`): Not used.
    """
    starts = [*accumulate(map(len, row["sents"]), initial=0)]

    def mention(each: Mapping[str, Any]) -> dict[str, Any]:
        start, end = (starts[each["sent_id"]] + bound for bound in each["pos"])
        return {"start": start, "end": end, "type": each.get("type")}

    relations = row.get("labels")
    yield {
        "id": row.get("title"),
        "tokens": sum(row["sents"], []),
        "entities": [[mention(each) for each in mentions] for mentions in row["vertexSet"]],
        "relations": None
        if relations is None
        else [{"head": each["h"], "tail": each["t"], "type": each["r"]} for each in relations],
    }
