"""Pairwise models in the relation extraction pipeline: one encoding for all pairs."""

from __future__ import annotations

import pytest
import torch

from msattn import BertPairwiseConfig, BertPairwiseForRelationClassification, RelationExtractionPipeline, UserError
from msattn.data.inputs.entity_pieces import window_start
from tests.tiny_models import LABELS, tiny_tokenizer

WORDS = "the author of a book wrote in the house . the dog , a cat and the taxi".split()


@pytest.fixture(scope="module")
def extractor():
    torch.manual_seed(0)
    config = BertPairwiseConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    model = BertPairwiseForRelationClassification(config).eval()
    return RelationExtractionPipeline(model=model, tokenizer=tiny_tokenizer())


@pytest.fixture
def passes(extractor, monkeypatch):
    """The shapes of the inputs and pairs of each forward pass."""
    seen, forward = [], extractor.model.forward

    def counting(*, input_ids, entity_pieces, **given):
        seen.append((tuple(input_ids.shape), entity_pieces.shape[1]))
        return forward(input_ids=input_ids, entity_pieces=entity_pieces, **given)

    monkeypatch.setattr(extractor.model, "forward", counting)
    return seen


def entities(*places):
    return [{"start": place, "end": place + 1} for place in places]


def same(found, expected):
    key = lambda result: (result["head"]["start"], result["tail"]["start"], result["label"])  # noqa: E731
    found, expected = sorted(found, key=key), sorted(expected, key=key)
    assert [key(result) for result in found] == [key(result) for result in expected]
    for result, other in zip(found, expected, strict=True):
        assert result["score"] == pytest.approx(other["score"], abs=1e-5)


def test_all_pairs_of_a_sentence_take_one_pass(extractor, passes):
    given = {"tokens": WORDS, "entities": entities(1, 4, 8, 11, 14, 17)}
    found = extractor(given, top_k=None)
    assert passes == [((1, len(WORDS) + 2), 30)]
    one_by_one = [
        result
        for head in (1, 4, 8, 11, 14, 17)
        for tail in (1, 4, 8, 11, 14, 17)
        if head != tail
        for result in extractor({"tokens": WORDS, "head": [head, head + 1], "tail": [tail, tail + 1]}, top_k=None)
        if result["label"] != "Other"
    ]
    same(found, one_by_one)


def test_batches_of_sentences_with_unlike_numbers_of_pairs(extractor, passes):
    inputs = [
        {"tokens": WORDS, "entities": entities(1, 4, 8)},
        {"tokens": WORDS[:6], "entities": entities(1, 4)},
        "The <e1>unpayer</e1> wrote a <e2>book</e2>.",
        {"tokens": WORDS * 2, "entities": entities(1, 4, 20, 25)},
    ]
    alone = [extractor(row, threshold=0) for row in inputs]
    passes.clear()
    for results, expected in zip(extractor(inputs, threshold=0, batch_size=4), alone, strict=True):
        same(*([value] if isinstance(value, dict) else value for value in (results, expected)))
    assert passes == [((4, 2 * len(WORDS) + 2), 12)]


def test_long_texts_are_read_in_windows(extractor, passes):
    words = WORDS * 8
    given = {"tokens": words, "entities": entities(1, 4, 60, 75, 130)}
    found = extractor(given, top_k=None, on_error="return")
    # All pairs that lie within 62 tokens.
    near = {(1, 4), (1, 60), (4, 60), (60, 75), (75, 130)}
    scored = {(result["head"]["start"], result["tail"]["start"]) for result in found if "error" not in result}
    assert scored == near | {(tail, head) for head, tail in near}
    assert sum("error" in result for result in found) == 20 - 2 * len(near)
    assert all(shape == (1, 64) for shape, _ in passes) and len(passes) <= 4
    # The same window gives the same probabilities.
    window = extractor({"tokens": words[:62], "entities": entities(1, 60)}, top_k=None)
    same([result for result in found if {result["head"]["start"], result["tail"]["start"]} == {1, 60}], window)
    # In the middle of the text, a pair has room on both sides.
    start = window_start(len(words), 62, 60, 76)
    assert 10 <= 60 - start and 76 + 10 <= start + 62
    window = extractor({"tokens": words[start : start + 62], "entities": entities(60 - start, 75 - start)}, top_k=None)
    for result in window:
        for role in ("head", "tail"):
            result[role]["start"] += start
    same([result for result in found if {result["head"]["start"], result["tail"]["start"]} == {60, 75}], window)
    with pytest.raises(UserError, match="do not fit in 64 tokens"):
        extractor(given)


def test_many_pairs_come_in_blocks(extractor, passes, monkeypatch):
    monkeypatch.setattr("msattn.pipelines.relation_extraction.PAIRS", 8)
    given = {"tokens": WORDS, "entities": entities(1, 4, 8, 11, 14)}
    found = extractor(given, threshold=0)
    assert [pairs for _, pairs in passes] == [8, 8, 4]
    monkeypatch.undo()
    same(found, extractor(given, threshold=0))


@pytest.mark.slow
def test_two_hundred_entities(extractor):
    given = {"tokens": ["dog"] * 3 + ["cat"] * 57, "entities": []}
    spans = [(start, start + length) for length in range(1, 5) for start in range(50)]
    given["entities"] = [{"start": start, "end": end} for start, end in spans]
    assert len(extractor(given, threshold=0)) == 200 * 199
