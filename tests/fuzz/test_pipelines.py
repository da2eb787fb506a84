"""Whatever a pipeline is given, spans lie on the text and every word comes out, or a `UserError` does."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import pipeline

from msattn import UserError
from tests.fuzz.limits import fuzz
from tests.fuzz.mutations import TEXTS, VALUES
from tests.tiny_models import labelled, tiny_parser, tiny_relation_extractor

MARKED = st.lists(
    st.one_of(st.sampled_from(["<e1>", "</e1>", "<e2>", "</e2>", "[E1]", "[/E1]", "dog", " in a ", "house"]), TEXTS),
    max_size=12,
).map("".join)
SPANS = st.one_of(st.lists(st.integers(-2, 30), min_size=2, max_size=2), VALUES)


@pytest.fixture(scope="module")
def extract():
    model, tokenizer = tiny_relation_extractor()
    return pipeline("relation-extraction", model=model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def parse():
    model, tokenizer = tiny_parser(num_hidden_layers=1, **labelled("det", "root"))
    return pipeline("dependency-parsing", model=model, tokenizer=tokenizer)


def outcome(run, *inputs: Any) -> Any:
    try:
        return run(*inputs)
    except UserError as error:
        assert len(str(error)) <= 500
        return None


def test_relations_of_marked_texts(extract):
    @fuzz(0.04)
    @given(MARKED)
    def run(text: str) -> None:
        found = outcome(extract, text)
        if found is not None:
            plain = re.sub(r"\[/?E[12]\]|</?e[12]>", "", text)
            for role in ("head", "tail"):
                assert plain[found[role]["start"] : found[role]["end"]] == found[role]["text"] != ""
            assert 0 <= found["score"] <= 1

    run()


def test_relations_of_spans(extract):
    @fuzz(0.04)
    @given(st.one_of(TEXTS, st.just("the dog in a house")), st.booleans(), SPANS, SPANS)
    def run(text: str, tokens: bool, head: Any, tail: Any) -> None:
        units = text.split(" ") if tokens else text
        found = outcome(extract, {"tokens" if tokens else "text": units, "head": head, "tail": tail})
        if found is not None:
            for role in ("head", "tail"):
                part = units[found[role]["start"] : found[role]["end"]]
                assert (" ".join(part) if tokens else part) == found[role]["text"]

    run()


def test_trees_of_texts(parse):
    @fuzz(0.03)
    @given(TEXTS)
    def run(text: str) -> None:
        found = outcome(parse, text)
        if found is not None:
            assert "".join(word["word"] for sentence in found for word in sentence) == "".join(text.split())
            for sentence in found:
                check(sentence)

    run()


def test_trees_of_words(parse):
    @fuzz(0.03)
    @given(st.one_of(st.lists(TEXTS, max_size=8), VALUES))
    def run(words: Any) -> None:
        found = outcome(parse, {"words": words})
        if found is not None and isinstance(words, list):
            assert [word["word"] for word in found] == words
            check(found)

    run()


def check(words: list[dict[str, Any]]) -> None:
    assert [word["head"] for word in words].count(0) == bool(words)
    assert all(0 <= word["head"] <= len(words) and math.isfinite(word["score"]) for word in words)
