from __future__ import annotations

import random

import numpy as np
import pytest
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, pipeline

from msattn import RelationExtractionPipeline, UserError
from msattn.data.inputs.entity_markers import encode_relations
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
    """Rows of 2 to 40 words, in all three shapes."""
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
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert result["score"] == pytest.approx(other["score"], abs=1e-6)
        assert {**result, "score": 0} == {**other, "score": 0}


@pytest.mark.parametrize(
    "given",
    [
        MARKED,
        "The [E1]author[/E1] of a [E2]book[/E2].",
        ROW,
        {"text": TEXT, "head": (4, 10), "tail": np.array([16, 20])},
        {"sentence": TEXT, "h": {"pos": [4, 10]}, "t": {"pos": [16, 20]}},
    ],
)
def test_texts(extractor, given):
    result = extractor(given)
    assert result["label"] in LABELS and 1 / 3 <= result["score"] <= 1
    assert (result["head"], result["tail"]) == (HEAD, TAIL)
    same([result], [extractor(ROW)])


@pytest.mark.parametrize("names", [("tokens", "head", "tail"), ("token", "h", "t")])
def test_token_spans_come_back_as_token_spans(extractor, names):
    row = dict(zip(names, ([*TEXT[:-1].split(), "."], [1, 2], [4, 5]), strict=True))
    result = extractor(row)
    assert result["head"] == {"start": 1, "end": 2, "text": "author"}
    assert result["tail"] == {"start": 4, "end": 5, "text": "book"}
    assert result["score"] == pytest.approx(extractor(ROW)["score"])


def test_empty_and_spaced_tokens_do_not_shift_spans(extractor):
    row = {"tokens": ["", "  ", "the dog", "", "cat"], "head": [2, 3], "tail": [4, 5]}
    assert extractor(row)["head"] == {"start": 2, "end": 3, "text": "the dog"}
    assert extractor(row)["tail"] == {"start": 4, "end": 5, "text": "cat"}


def test_the_second_entity_may_be_the_head(extractor):
    result = extractor("The <e2>author</e2> of a <e1>book</e1>.")
    assert (result["head"], result["tail"]) == (TAIL, HEAD)


def test_all_scores(extractor):
    results = extractor(MARKED, top_k=None)
    assert sorted(result["label"] for result in results) == sorted(LABELS)
    assert [result["score"] for result in results] == sorted((result["score"] for result in results), reverse=True)
    assert sum(result["score"] for result in results) == pytest.approx(1)
    assert results[0] == extractor(MARKED)
    assert extractor(MARKED, top_k=2) == results[:2]
    assert extractor([MARKED], top_k=1) == [results[:1]]


@pytest.fixture(scope="module")
def alone(extractor, mixed):
    return [extractor(row) for row in mixed]


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_batches_change_neither_results_nor_order(extractor, mixed, alone, batch_size):
    same(extractor(mixed, batch_size=batch_size), alone)
    same(list(extractor((row for row in mixed), batch_size=batch_size)), alone)
    same(extractor(tuple(mixed), batch_size=batch_size), alone)


def test_data_sets(extractor):
    rows = [ROW, {"text": "A dog in the house.", "head": [2, 5], "tail": [13, 18]}]
    expected = extractor(rows)
    dataset = Dataset.from_list(rows)
    same(extractor(dataset, batch_size=2), expected)
    same(list(extractor(dataset.with_format("torch").to_iterable_dataset().with_format(None), batch_size=2)), expected)


def test_generators_are_read_as_needed(extractor, monkeypatch):
    monkeypatch.setattr("msattn.pipelines.text_pipeline.LOOKAHEAD", 2)
    read = []

    def rows():
        for number in range(100):
            read.append(number)
            yield MARKED

    next(iter(extractor(rows(), batch_size=2)))
    assert len(read) <= 5


def test_sentences_of_like_length_share_a_batch(extractor, mixed, read):
    extractor(mixed * 3, batch_size=8)
    masks = [np.array(given["attention_mask"]) for given in read]
    assert np.mean([(mask == 0).mean() for mask in masks]) < 0.15


def test_nothing_in_nothing_out(extractor):
    assert extractor([]) == [] and extractor(()) == []


def test_long_sentences_keep_a_window_around_the_entities(extractor, read):
    row = {"tokens": ["dog"] * 200 + ["author", "of", "book"] + ["cat"] * 200, "head": [200, 201], "tail": [202, 203]}
    assert extractor(row)["head"] == {"start": 200, "end": 201, "text": "author"}
    assert extractor(row, max_length=12)["tail"] == {"start": 202, "end": 203, "text": "book"}
    whole, short = (extractor.tokenizer.convert_ids_to_tokens(given["input_ids"][0]) for given in read)
    assert len(whole) == 64 and abs(whole.count("dog") - whole.count("cat")) <= 1 and len(short) == 12


def test_the_encoding_is_the_one_of_training(extractor, read):
    text = "In the house of the author."
    extractor({"text": text, "head": [7, 12], "tail": [20, 26]})
    assert read == [encode_relations(extractor.tokenizer, [text], [[7, 12]], [[20, 26]])]


@pytest.mark.parametrize(
    "row, message",
    [
        ({**ROW, "tail": [16, 29]}, r"tail span \[16, 29\).*author of a book"),
        ({**ROW, "head": [4, 4]}, r"head span \[4, 4\).*The author"),
        ({**ROW, "tail": [4, 10]}, "both entities are at.*The author"),
        ({**ROW, "head": [4, 9]}, r"head span \[4, 9\) cuts a word, 'autho' in 'The author"),
        ({"text": "In 1984, a book.", "head": [3, 5], "tail": [11, 15]}, "cuts a word, '19'"),
        ({**ROW, "head": "author"}, "head.*two whole numbers.*The author"),
        ({"tokens": ["a", "book"], "head": [0, 1], "tail": [1, 3]}, "number of tokens.*a book"),
        ("The <e1>author</e1> of", "<e2> is missing.*The <e1>author"),
        (MARKED + MARKED, "twice.*author"),
        (TEXT, "<e1> is missing"),
        ({}, "text"),
        (5, "int"),
    ],
)
def test_wrong_input_is_refused_with_the_text_around_it(extractor, row, message):
    with pytest.raises(UserError, match=message):
        extractor(row)
    with pytest.raises(UserError, match=message):
        extractor([MARKED, row], batch_size=2)


def test_the_text_around_is_short(extractor):
    row = {"text": "dog " * 500 + "author of a book", "head": [2000, 2006], "tail": [2012, 2090]}
    with pytest.raises(UserError, match=r"'\.\.\.dog.*author of a book'\.$") as raised:
        extractor(row)
    assert len(str(raised.value)) < 250


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


def test_a_mark_inside_a_word_is_taken_as_meant(extractor):
    assert extractor("The <e1>taxi</e1>payer of a <e2>book</e2>")["head"] == {"start": 4, "end": 8, "text": "taxi"}


def test_entities_too_far_apart(extractor):
    row = {"tokens": ["author", *["dog"] * 80, "book"], "head": [0, 1], "tail": [81, 82]}
    with pytest.raises(UserError, match="do not fit in 64 tokens: 'author dog"):
        extractor(row)


def test_from_a_folder_and_from_its_code(extractor, tmp_path):
    extractor.save_pretrained(tmp_path)
    same([pipeline("relation-extraction", model=str(tmp_path))(MARKED)], [extractor(MARKED)])


def test_a_model_loaded_from_remote_code(extractor, tmp_path, monkeypatch):
    extractor.save_pretrained(tmp_path)
    # Without the registered class, the checkpoint's own code is what there is.
    mapping = AutoModelForSequenceClassification._model_mapping._extra_content
    monkeypatch.delitem(mapping, type(extractor.model.config))
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules")
    remote = RelationExtractionPipeline(model=model, tokenizer=extractor.tokenizer)
    same(remote([MARKED, ROW], batch_size=2), extractor([MARKED, ROW]))


def test_a_model_of_another_task_is_refused(tmp_path):
    config = BertConfig(vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(UserError, match="BertForSequenceClassification, which is no model for relation-extraction"):
        pipeline("relation-extraction", model=str(tmp_path))
