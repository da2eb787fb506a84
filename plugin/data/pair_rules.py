"""Which pairs of entities a model answers: those of the kinds that have relations in its training data."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msattn.data.inputs.word_rules import sentence_words, word_spans

# The share of related pairs that `sentences` has to keep.
COVERED = 0.99

# A pair of entities: the spans of head and tail, and their types.
Ends = tuple[list[int], list[int], "str | None", "str | None"]


@dataclass(frozen=True)
class PairRules:
    """
    Rules for the pairs of a text.

    Args:
        both_orders (`bool`, *optional*, defaults to `True`): Whether a tail may come before its head.
        sentences (`int`, *optional*): Most sentence ends between both entities. Default: any number.
        types (`Mapping[str, Sequence[str]]`, *optional*):
            The types of tails by the type of the head. Pairs with a type that is not there, or with none, are kept.
    """

    both_orders: bool = True
    sentences: int | None = None
    types: Mapping[str, Sequence[str]] | None = None

    @classmethod
    def of(cls, trained_pairs: Mapping[str, Any] | None) -> PairRules:
        """Those of a configuration (`config.trained_pairs`)."""
        known = trained_pairs or {}
        return cls(known.get("both_orders", True), known.get("sentences"), known.get("types"))

    @classmethod
    def learned(cls, texts: Iterable[str], pairs: Iterable[Ends], related: Iterable[bool]) -> PairRules:
        """
        The rules of training data.

        A tail may come before its head if 1 % of the related pairs are so. The sentences are those that cover 99 % of
        them, and the types those of any, if all entities have a type.

        Args:
            texts (`Iterable[str]`): The text of each pair.
            pairs (`Iterable[tuple]`): The pairs.
            related (`Iterable[bool]`): Whether each pair has a relation.
        """
        of_relations: list[tuple[str, Ends]] = []
        types: set[str | None] = set()
        for text, ends, has_relation in zip(texts, pairs, related, strict=True):
            types.update(ends[2:])
            if has_relation:
                of_relations.append((text, ends))
        if not of_relations:
            return cls()
        reversed_pairs = sum(tail < head for _, (head, tail, *_) in of_relations)
        apart = sorted(sentences_between(text, head, tail) for text, (head, tail, *_) in of_relations)
        tails: dict[str, set[str]] = {of: set() for of in types if of is not None}
        for _, (_, _, head_type, tail_type) in of_relations:
            if None not in types:
                tails[str(head_type)].add(str(tail_type))
        return cls(
            100 * reversed_pairs >= len(of_relations),  # 1 %
            apart[min(int(COVERED * len(apart)), len(apart) - 1)],
            None if None in types else {of: sorted(tails[of]) for of in sorted(tails)},
        )

    def keeps(self, text: str, ends: Ends, starts: Sequence[int] | None = None) -> bool:
        """Whether a pair is answered, in sentences that begin at `starts`, or by our rules."""
        head, tail, head_type, tail_type = ends
        if not self.both_orders and tail < head:
            return False
        known = self.types or {}
        if head_type in known and tail_type in known and tail_type not in known[str(head_type)]:
            return False
        return self.sentences is None or sentences_between(text, head, tail, starts) <= self.sentences


def sentences_between(text: str, head: Sequence[int], tail: Sequence[int], starts: Sequence[int] | None = None) -> int:
    """The number of sentence ends between the starts of two spans. Default of `starts`: those of our rules."""
    starts = _sentence_starts(text) if starts is None else starts
    return abs(bisect_right(starts, head[0]) - bisect_right(starts, tail[0]))


@lru_cache(maxsize=64)
def _sentence_starts(text: str) -> list[int]:
    return [words[0][0] for words in sentence_words(text, word_spans(text))]
