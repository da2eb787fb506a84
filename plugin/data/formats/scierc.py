"""Converts documents of SciERC and DyGIE++, and sentences of CrossRE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msattn.data.formats.annotation_tools import text_row


def scierc_rows(row: Mapping[str, Any], dropped: Counter) -> Iterator[dict[str, Any]]:
    """
    The sentences of a document, or the one of a row of CrossRE, as rows of [`~msattn.data.entity_pairs.pair_rows`].

    The format annotates relations inside of sentences, so that each is a text.

    Args:
        row (`Mapping[str, Any]`):
            `sentences` (lists of tokens), and for each one a list in `ner` (`[first, last, type]`) and `relations`
            (`[first, last, first, last, label]`); tokens are counted in the document, and the last one is inside. Or
            `sentence`, `ner` and `relations` of one sentence. Without `ner`, DyGIE++'s `predicted_ner` is read.
        dropped (`Counter`): Counts further types of a span.
    """
    name, single = row.get("doc_key"), "sentence" in row
    ner = row.get("ner", row.get("predicted_ner"))
    sentences, spans = ([row["sentence"]], [ner]) if single else (row["sentences"], ner)
    labels = row.get("relations")
    relations = [None] * len(sentences) if labels is None else [labels] if single else labels
    first = 0
    for number, (tokens, ner, related) in enumerate(zip(sentences, spans, relations, strict=True)):
        ends = [(*each[at : at + 2], None) for each in related or [] for at in (0, 2)]
        entities: dict[tuple[int, int], dict[str, Any]] = {}
        for start, last, of, *_ in [*ner, *ends]:
            if not first <= start <= last < first + len(tokens):
                inside = f"tokens {first} to {first + len(tokens) - 1} of the document"
                raise ValueError(f"[{start}, {last}] is not in sentence {number}, {inside}")
            dropped["entities were skipped: another one has the same span"] += bool(of) and (start, last) in entities
            entities.setdefault((start, last), {"start": start - first, "end": last + 1 - first, "type": of})
        triples = related and [(tuple(each[:2]), tuple(each[2:4]), each[4]) for each in related]
        yield text_row(name if single or name is None else f"{name}:{number}", {"tokens": tokens}, entities, triples)
        first += len(tokens)
