"""Converts what doccano, Label Studio and Prodigy export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

UNANNOTATED = "texts have no accepted annotation and were left out"


def doccano_rows(row: Mapping[str, Any], dropped: Counter) -> Iterator[dict[str, Any]]:
    """
    A line of doccano's JSONL for relations as a row of [`~msattn.data.entity_pairs.pair_rows`].

    Args:
        row (`Mapping[str, Any]`):
            `text`, `entities` (`{"id", "start_offset", "end_offset", "label"}`) and `relations` (`{"from_id", "to_id",
            "type"}`).
        dropped (`Counter`): Not used.
    """
    entities = {
        entity["id"]: {"start": entity["start_offset"], "end": entity["end_offset"], "type": entity.get("label")}
        for entity in row["entities"]
    }
    if len(entities) < len(row["entities"]):
        raise ValueError("two entities have the same id")
    relations = [(each["from_id"], each["to_id"], each["type"]) for each in row["relations"]]
    yield text_row(row.get("id"), {"text": row["text"]}, entities, relations)


def label_studio_rows(row: Mapping[str, Any], dropped: Counter) -> Iterator[dict[str, Any]]:
    """
    A task of Label Studio's JSON export as a row of [`~msattn.data.entity_pairs.pair_rows`].

    Of several annotations that were not cancelled, the ground truth is read, or else the first one.

    Args:
        row (`Mapping[str, Any]`):
            `data` and `annotations`, whose `result` has regions (`{"id", "value": {"start", "end", "text",
            "labels"}}`) and relations (`{"type": "relation", "from_id", "to_id", "direction", "labels"}`).
        dropped (`Counter`):
            Counts texts without annotation, further annotations of a text, and further labels of a region.
    """
    annotations = [each for each in row["annotations"] if not each.get("was_cancelled")]
    if not annotations:
        dropped[UNANNOTATED] += 1
        return
    dropped["further annotations of a text were not read"] += len(annotations) - 1
    results = max(annotations, key=lambda each: bool(each.get("ground_truth")))["result"]
    regions: dict[Any, dict[str, Any]] = {}
    for each in results:
        if "start" in each.get("value", ()):  # a choice for a region repeats its id and its span
            regions[each["id"]] = {**regions.get(each["id"], {}), **each["value"]}
            dropped["further labels of a region were not read"] += len((each["value"].get("labels") or ())[1:])
    entities = {
        region: {**{name: value.get(name) for name in ("start", "end", "text")}, "type": _only(value)}
        for region, value in regions.items()
    }
    relations = [
        (*ends, label)
        for each in results
        if each["type"] == "relation"
        for ends in _directions(each)
        for label in each["labels"] or [None]
    ]
    yield text_row(row.get("id"), {"text": task_text(row["data"], regions.values())}, entities, relations)


def unannotated_text(row: Any) -> Any:
    """A row with the text of a task of Label Studio that has no annotation; any other row as it is."""
    task = isinstance(row, Mapping) and isinstance(row.get("data"), Mapping) and not row.get("annotations")
    if task and row.keys().isdisjoint(("text", "sentence", "tokens", "token")):
        return {"id": row.get("id"), "text": task_text(row["data"])}
    return row


def task_text(data: Mapping[str, Any], regions: Iterable[Mapping[str, Any]] = ()) -> str | None:
    """The text of a task of Label Studio: the field that has the words of all regions, `text`, or the longest."""
    texts = {name: text for name, text in data.items() if isinstance(text, str)}
    spans = [(slice(each["start"], each["end"]), str(each.get("text")).replace("\\n", "\n")) for each in regions]
    named = {name: text for name, text in texts.items() if all(text[place] == words for place, words in spans)}
    texts = named or texts
    return texts.get("text", max(texts.values(), key=len, default=None))


def _only(value: Mapping[str, Any]) -> str | None:
    return next(iter(value.get("labels") or []), None)


def _directions(relation: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    ends = relation["from_id"], relation["to_id"]
    direction = relation.get("direction") or "right"
    return {"right": [ends], "left": [ends[::-1]], "bi": [ends, ends[::-1]]}[direction]


def prodigy_rows(row: Mapping[str, Any], dropped: Counter) -> Iterator[dict[str, Any]]:
    """
    A line of Prodigy's `rel.manual` as a row of [`~msattn.data.entity_pairs.pair_rows`].

    Args:
        row (`Mapping[str, Any]`):
            `text`, `spans` (`{"start", "end", "label"}`, in characters), `relations` (`{"head_span", "child_span",
            "label"}`) and `answer`.
        dropped (`Counter`): Counts texts that were rejected or ignored.
    """
    if row.get("answer", "accept") != "accept":
        dropped[UNANNOTATED] += 1
        return
    relations = row.get("relations")
    ends = [each[end] for each in relations or () for end in ("head_span", "child_span")]
    entities = {_bounds(span): {**span, "type": span.get("label")} for span in [*ends, *row["spans"]]}
    related = relations and [
        (_bounds(each["head_span"]), _bounds(each["child_span"]), each["label"]) for each in relations
    ]
    yield text_row(row.get("id"), {"text": row["text"]}, entities, related)


def _bounds(span: Mapping[str, Any]) -> tuple[int, int]:
    return span["start"], span["end"]


def text_row(
    name: Any,
    units: Mapping[str, Any],
    entities: Mapping[Any, Mapping[str, Any]],
    relations: Sequence[tuple[Any, Any, Any]] | None,
) -> dict[str, Any]:
    """A row with `text` or `tokens`, from entities by any key, and relations as the keys of both and the label."""
    numbers = {key: number for number, key in enumerate(entities)}
    rows = [{"head": numbers[head], "tail": numbers[tail], "type": label} for head, tail, label in relations or ()]
    return {"id": name, **units, "entities": [*entities.values()], "relations": None if relations is None else rows}
