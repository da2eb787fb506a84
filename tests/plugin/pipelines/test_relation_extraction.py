"""The relation extraction pipeline on texts with one marked pair."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, pipeline

from msattn import RelationExtractionPipeline, UserError
from tests.tiny_models import LABELS, WORDS, tiny_relation_extractor, tiny_tokenizer

TEXT = "The author of a book."
MARKED = "The <e1>author</e1> of a <e2>book</e2>."
ROW = {"text": TEXT, "head": [4, 10], "tail": [16, 20]}
HEAD = {"start": 4, "end": 10, "text": "author"}
TAIL = {"start": 16, "end": 20, "text": "book"}


@pytest.fixture(scope="module")
def extractor():
    model, tokenizer = tiny_relation_extractor(scales=[3, 5])
    return pipeline("relation-extraction", model=model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def mixed():
    """Rows of 2 to 40 words, as tokens and as marked texts."""
    draw = random.Random(0)
    rows = []
    for number in range(20):
        tokens = draw.choices([word for word in WORDS if word.isalpha()], k=draw.randint(2, 40))
        head, tail = draw.sample(range(len(tokens)), 2)
        row = {"tokens": tokens, "head": [head, head + 1], "tail": [tail, tail + 1]}
        if number % 3:
            marks = {head: "<e1>{}</e1>", tail: "<e2>{}</e2>"}
            row = " ".join(marks.get(index, "{}").format(token) for index, token in enumerate(tokens))
        rows.append(row)
    return rows


@pytest.fixture
def read(extractor, monkeypatch):
    """What the model reads."""
    read, forward = [], extractor.model.forward

    def reading(**given):
        read.append({name: values.tolist() for name, values in given.items()})
        return forward(**given)

    monkeypatch.setattr(extractor.model, "forward", reading)
    return read


def same(results, expected):
    for result, other in zip(results, expected, strict=True):
        assert result["score"] == pytest.approx(other["score"], abs=1e-6)
        assert {**result, "score": 0} == {**other, "score": 0}


@pytest.mark.parametrize(
    "given",
    [
        MARKED,
        "The [E1]author[/E1] of a [E2]book[/E2].",
        {"text": TEXT, "head": (4, 10), "tail": np.array([16, 20])},
        {"sentence": TEXT, "h": {"pos": [4, 10]}, "t": {"pos": [16, 20]}},
    ],
)
def test_texts(extractor, given):
    result = extractor(given)
    assert result["label"] in LABELS and (result["head"], result["tail"]) == (HEAD, TAIL)
    same([result], [extractor(ROW)])


def test_token_spans_come_back_as_token_spans(extractor):
    result = extractor({"token": [*TEXT[:-1].split(), "."], "h": [1, 2], "t": [4, 5]})
    assert result["head"] == {"start": 1, "end": 2, "text": "author"}
    assert result["score"] == pytest.approx(extractor(ROW)["score"])
    spaced = extractor({"tokens": ["", "  ", "the dog", "", "cat"], "head": [2, 3], "tail": [4, 5]})
    assert spaced["head"] == {"start": 2, "end": 3, "text": "the dog"}


def test_the_second_entity_may_be_the_head(extractor):
    result = extractor("The <e2>author</e2> of a <e1>book</e1>.")
    assert (result["head"], result["tail"]) == (TAIL, HEAD)


def test_all_scores(extractor):
    results = extractor(MARKED, top_k=None)
    assert sorted(result["label"] for result in results) == sorted(LABELS)
    assert [result["score"] for result in results] == sorted((result["score"] for result in results), reverse=True)
    assert sum(result["score"] for result in results) == pytest.approx(1)
    assert results[0] == extractor(MARKED) and extractor(MARKED, top_k=2) == results[:2]
    assert extractor([MARKED], top_k=1) == [results[:1]]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_batches_change_neither_results_nor_order(extractor, mixed, read, batch_size):
    alone = [extractor(row) for row in mixed]
    read.clear()
    same(extractor(mixed, batch_size=batch_size), alone)
    padding = [1 - np.mean(given["attention_mask"]) for given in read]
    assert batch_size == 64 or np.mean(padding) < 0.15
    same(extractor(iter(mixed), batch_size=batch_size), alone)
    dataset = Dataset.from_list([ROW, {"text": "A dog in the house.", "head": [2, 5], "tail": [13, 18]}])
    same(extractor(dataset.to_iterable_dataset(), batch_size=batch_size), extractor(list(dataset)))
    assert extractor([]) == extractor(()) == []


def test_a_model_that_was_trained_answers_without_dropout(extractor):
    model, tokenizer = tiny_relation_extractor(scales=[3, 5])
    same([RelationExtractionPipeline(model=model.train(), tokenizer=tokenizer)(ROW)], [extractor(ROW)])


def test_a_pipeline_can_be_pickled(extractor):
    same(pickle.loads(pickle.dumps(extractor))([MARKED]), extractor([MARKED]))  # as spaCy does for its processes


def test_generators_are_read_as_needed(extractor, monkeypatch):
    monkeypatch.setattr("msattn.pipelines.text_pipeline.LOOKAHEAD", 2)
    left = iter(range(100))
    next(iter(extractor((MARKED for _ in left), batch_size=2)))
    assert next(left) <= 5


def test_long_sentences_keep_a_window_around_the_entities(extractor, read):
    row = {"tokens": ["dog"] * 200 + ["author", "of", "book"] + ["cat"] * 200, "head": [200, 201], "tail": [202, 203]}
    assert extractor(row)["head"] == {"start": 200, "end": 201, "text": "author"}
    assert extractor(row, max_length=12)["tail"] == {"start": 202, "end": 203, "text": "book"}
    whole, short = (extractor.tokenizer.convert_ids_to_tokens(given["input_ids"][0]) for given in read)
    assert len(whole) == 64 and abs(whole.count("dog") - whole.count("cat")) <= 1 and len(short) == 12


def test_a_model_without_ends_of_entities_as_onnx_exports_it(extractor, monkeypatch):
    expected, forward = extractor(ROW), extractor.model.forward

    def of_starts(input_ids, attention_mask, token_type_ids, entity_starts):
        return forward(input_ids, attention_mask, token_type_ids, entity_starts=entity_starts)

    monkeypatch.setattr(extractor.model, "forward", of_starts)
    assert RelationExtractionPipeline(model=extractor.model, tokenizer=extractor.tokenizer)(ROW) == expected


@pytest.mark.parametrize(
    "row, message",
    [
        ({**ROW, "tail": [16, 29]}, r"tail span \[16, 29\).*author of a book"),
        ({**ROW, "head": [4, 4]}, r"head span \[4, 4\).*The author"),
        ({**ROW, "head": [4, 9]}, r"head span \[4, 9\) cuts a word, 'autho' in 'The author"),
        ({"text": "In 1984, a book.", "head": [3, 5], "tail": [11, 15]}, "cuts a word, '19'"),
        ({**ROW, "head": "writer"}, "the head 'writer' is not there.*The author"),
        ({"tokens": ["a", "book"], "head": [0, 1], "tail": [1, 3]}, "number of tokens.*a book"),
        ({"tokens": ["author", *["dog"] * 80, "book"], "head": [0, 1], "tail": [81, 82]}, "not fit in 64 tokens"),
        ("The <e1>author</e1> of", "<e2> is missing.*The <e1>author"),
        ({}, "text"),
        (5, "int"),
    ],
)
def test_wrong_input_is_refused_with_the_text_around_it(extractor, row, message):
    with pytest.raises(UserError, match=message) as raised:
        extractor([MARKED, row], batch_size=2)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "text, head, tail",
    [
        ("北京是中国的首都", [0, 2], [3, 5]),
        ("서울은 한국의 수도", [0, 2], [4, 6]),
        ("the dog2's U.S.-based house", [4, 7], [11, 15]),
    ],
)
def test_borders_of_scripts_without_spaces_are_free(extractor, text, head, tail):
    assert extractor({"text": text, "head": head, "tail": tail})["head"]["text"] == text[slice(*head)]


def test_a_model_of_another_task_is_refused():
    config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    with pytest.raises(UserError, match="BertForSequenceClassification, which is no model for"):
        RelationExtractionPipeline(model=BertForSequenceClassification(config), tokenizer=tiny_tokenizer())
