"""The relation extraction pipeline on texts with any number of entities."""

from __future__ import annotations

import inspect
from itertools import permutations
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForTokenClassification, pipeline
from transformers.utils import logging

from msattn import PairwiseConfig, PairwiseForRelationClassification, RelationExtractionPipeline, UserError
from msattn.data.inputs.entity_markers import encode_relations
from msattn.data.inputs.entity_pieces import encode_unmarked, window_start
from msattn.data.pair_rules import PairRules
from msattn.pipelines.relation_inputs import read_input
from msattn.pipelines.word_tagger import WordTagger
from tests.plugin.pipelines.test_relation_extraction import same
from tests.tiny_models import LABELS, SIZES, labelled, tiny_relation_extractor, tiny_tokenizer

TEXT = "The author wrote a book in the house."
ENTITIES = [
    {"start": 4, "end": 10, "label": "PER"},
    {"start": 19, "end": 23, "label": "WORK"},
    {"start": 31, "end": 36, "label": "LOC"},
]
INPUT = {"text": TEXT, "entities": ENTITIES}
AUTHOR, BOOK, HOUSE = ({**entity, "text": TEXT[entity["start"] : entity["end"]]} for entity in ENTITIES)


def build(**config):
    model, tokenizer = tiny_relation_extractor(scales=[3])
    for name, value in config.items():
        setattr(model.config, name, value)
    return RelationExtractionPipeline(model=model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def extractor():
    return build()


@pytest.fixture(scope="module")
def pairwise():
    """A model that scores all pairs of a text in one pass."""
    torch.manual_seed(0)
    encoder = BertConfig(**SIZES | {"num_hidden_layers": 2})
    model = PairwiseForRelationClassification(PairwiseConfig(encoder=encoder, **labelled(*LABELS))).eval()
    return RelationExtractionPipeline(model=model, tokenizer=tiny_tokenizer())


def answering(monkeypatch, extractor, *rows):
    """Makes the model answer with these probabilities, row by row."""
    answers = iter(rows)

    def forward(input_ids, **_):
        return SimpleNamespace(logits=torch.tensor([next(answers) for _ in input_ids]).log())

    monkeypatch.setattr(extractor.model, "forward", forward)


def test_all_pairs_are_those_of_marked_pairs_best_first(extractor, pairwise):
    for extract in (extractor, pairwise):
        found = extract(INPUT, top_k=None, negative="keep")
        alone = [
            {**result, "head": first, "tail": second}
            for first, second in permutations([AUTHOR, BOOK, HOUSE], 2)
            for result in extract({"text": TEXT, "head": first, "tail": second}, top_k=None)
        ]
        same(found, sorted(alone, key=lambda result: -result["score"]))
        same(extract(INPUT, top_k=None), [result for result in found if result["label"] != "Other"])


def test_batches_and_other_forms_change_nothing(extractor, pairwise):
    tokens = {
        "tokens": [*TEXT[:-1].split(), "."],
        "entities": [{"start": 1, "end": 2}, {"start": 4, "end": 5}, {"start": 7, "end": 8}],
    }
    inputs = [INPUT, tokens, "A <e1>dog</e1> in a <e2>house</e2>.", {"text": "dog", "entities": []}] * 2
    for extract in (extractor, pairwise):
        alone = [extract(row, top_k=1, threshold=0) for row in inputs]
        for results, expected in zip(extract(inputs, top_k=1, threshold=0, batch_size=3), alone, strict=True):
            same(results, expected)
        assert [one["score"] for one in alone[1]] == pytest.approx([one["score"] for one in alone[0]], abs=1e-6)
        assert {result["head"]["start"] for result in alone[1]} == {1, 4, 7} and alone[3] == []


def test_outputs_of_taggers_and_of_the_pipeline_itself(extractor):
    expected = extractor(INPUT, threshold=0)
    grouped = [
        {"entity_group": entity["label"], "score": 0.9, "word": "x", "start": entity["start"], "end": entity["end"]}
        for entity in ENTITIES
    ]
    same(extractor({"text": TEXT, "entities": grouped}, threshold=0), expected)
    pieces = [("B-PER", 2, 4, 8), ("I-PER", 3, 8, 10), ("B-WORK", 5, 19, 23), ("B-LOC", 8, 31, 36)]
    raw = [{"entity": tag, "index": index, "start": start, "end": end} for tag, index, start, end in pieces]
    same(extractor({"text": TEXT, "entities": raw}, threshold=0), expected)
    words = [
        {"entity": tag, "index": index, "word": word, "start": start, "end": start + len(word)}
        for tag, index, word, start in (("B-WORK", 4, "a", 17), ("I-WORK", 5, "book", 19), ("B-LOC", 8, "house", 31))
    ]
    found = extractor({"text": TEXT, "entities": words}, threshold=0)
    assert {one["head"]["text"] for one in found} == {"a book", "house"}
    triple = expected[0]
    again = extractor({"text": TEXT, **triple}, threshold=0)
    same([again], [triple])


def test_a_tagger_finds_the_entities(extractor, monkeypatch, caplog):
    logging.warning_once.cache_clear()
    expected = extractor(INPUT, threshold=0)
    same(extractor(TEXT, entities=lambda text: ENTITIES, threshold=0), expected)
    calls = []

    def load(name, device, **splitting):
        calls.append((name, splitting))
        return SimpleNamespace(entities=lambda text: ENTITIES)

    monkeypatch.setattr(WordTagger, "from_pretrained", load)
    for results in extractor([TEXT, TEXT, {"id": 1, "text": TEXT}], entities="a/tagger", threshold=0, lang="en"):
        same(results, expected)
    assert calls == [("a/tagger", {"lang": "en"})]
    with pytest.raises(UserError, match="lang: give the name of a tagger as entities, too"):
        extractor(TEXT, lang="en")
    assert "entities of their own" not in caplog.text
    assert "label" in extractor("A <e1>dog</e1> in a <e2>house</e2>.", entities="a/tagger")
    assert "Inputs with entities of their own keep them" in caplog.text


def test_half_a_character_stops_no_tagger(extractor):
    def tagger(text):
        text.encode()  # as a tokenizer does
        return ENTITIES

    whole, half = extractor([TEXT, "A dog \ud83d"], entities=tagger, threshold=0, on_error="skip")
    assert whole and half == []


@pytest.mark.parametrize(
    "pairs, expected",
    [
        ([(2, 0)], [(HOUSE, AUTHOR)]),
        ([("PER", "WORK"), ("WORK", "LOC")], [(AUTHOR, BOOK), (BOOK, HOUSE)]),
        ([tuple(np.array([2, 0]))], [(HOUSE, AUTHOR)]),
        ([], []),
    ],
)
def test_chosen_pairs(extractor, pairs, expected):
    found = extractor(INPUT, pairs=pairs, threshold=0)
    assert sorted((r["head"]["start"], r["tail"]["start"]) for r in found) == [
        (head["start"], tail["start"]) for head, tail in expected
    ]
    assert extractor({**INPUT, "pairs": pairs}, threshold=0) == found
    assert extractor({**INPUT, "pairs": None}, pairs=pairs, threshold=0) == found


@pytest.mark.parametrize("entities", [[], ENTITIES[:1], [ENTITIES[0], ENTITIES[0]]])
def test_no_pairs_no_relations(extractor, entities):
    assert extractor({"text": TEXT, "entities": entities}) == []


def test_the_negative_label_is_no_relation(extractor, monkeypatch):
    rows = [[0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.4, 0.1, 0.5]]

    def extract(**options):
        answering(monkeypatch, extractor, *rows)
        found = extractor({**INPUT, "pairs": [(0, 1), (0, 2), (1, 2)]}, **options)
        return [(LABELS.index(result["label"]), round(result["score"], 3)) for result in found]

    assert extract() == [(1, 0.7), (2, 0.5)]
    assert extract(negative="keep") == [(1, 0.7), (0, 0.6), (2, 0.5)]
    assert extract(threshold=0.6) == [(1, 0.7)]
    assert extract(threshold=0.25) == [(1, 0.7), (2, 0.5), (1, 0.3)]
    assert extract(top_k=2) == [(1, 0.7), (2, 0.5), (1, 0.3), (2, 0.1), (2, 0.1), (1, 0.1)]
    assert extract(top_k=None, threshold=0.29) == [(1, 0.7), (2, 0.5), (1, 0.3)]
    assert extract(top_k=2, negative="keep") == [(1, 0.7), (0, 0.6), (2, 0.5), (0, 0.4), (1, 0.3), (0, 0.2)]
    assert extract(top_k=2, negative="keep", threshold=0.6) == [(1, 0.7), (0, 0.6), (0, 0.4)]


def test_calibration_is_applied(monkeypatch):
    extractor = build(calibration_temperature=2.0, decision_threshold=0.3, negative_label="Other")
    given = {**INPUT, "pairs": [(0, 1)]}
    answering(monkeypatch, extractor, *[[0.64, 0.35, 0.01]] * 6)
    (result,) = extractor(given)
    assert result["label"] == LABELS[1]
    assert result["score"] == pytest.approx(0.35**0.5 / (0.64**0.5 + 0.35**0.5 + 0.1))
    marked = {"text": TEXT, "head": AUTHOR, "tail": BOOK}
    assert extractor(marked)["label"] == LABELS[1]
    assert [result["label"] for result in extractor(marked, top_k=1)] == [LABELS[1]]
    assert extractor(marked, top_k=3)[0]["label"] == "Other"
    extractor.model.config.decision_threshold = 0.5
    assert extractor(marked)["label"] == "Other" and extractor(given) == []


def test_several_relations_a_pair(monkeypatch):
    extractor = build(problem_type="multi_label_classification", negative_label="nothing")
    odds = [[4.0, 1.5, 0.25], [0.25, 0.25, 0.1]]  # probabilities 0.8, 0.6 and 0.2

    def extract(given, **options):
        answering(monkeypatch, extractor, *odds)
        found = extractor(given, **options)
        return [(result["label"], round(result["score"], 3)) for result in found]

    given = {**INPUT, "pairs": [(0, 1), (0, 2)]}
    assert extract(given) == [("Other", 0.8), (LABELS[1], 0.6)]
    assert extract(given, threshold=0.7) == [("Other", 0.8)]
    assert extract(given, top_k=1) == [("Other", 0.8), ("Other", 0.2)]
    assert extract(given, negative="keep") == [("Other", 0.8), ("nothing", 0.8), (LABELS[1], 0.6)]
    extractor.model.config.decision_threshold = 0.7
    extractor.model.config.relation_thresholds = {LABELS[2]: 0.15}
    assert extract(given) == [("Other", 0.8), (LABELS[2], 0.2)]
    assert extract({"text": TEXT, "head": AUTHOR, "tail": BOOK}) == [("Other", 0.8), (LABELS[2], 0.2)]


@pytest.mark.parametrize("fields", [{"negative_label": "gone"}, {"relation_thresholds": {"gone": 0.5}}])
def test_fields_that_keep_the_old_name_of_a_label(fields):
    with pytest.raises(UserError, match="names the label 'gone', and the labels are .*: rename it in negative_label"):
        build(**fields)


def test_no_negative_label(monkeypatch):
    extractor = build(negative_label="")
    answering(monkeypatch, extractor, *[[0.6, 0.3, 0.1]] * 3)
    given = {**INPUT, "pairs": [(0, 1)]}
    assert [result["label"] for result in extractor(given)] == ["Other"]
    assert extractor(given, threshold=0.7, negative="keep") == []
    marked = extractor({"text": TEXT, "head": AUTHOR, "tail": BOOK}, threshold=0.7)
    assert (marked["label"], marked["score"]) == (None, pytest.approx(0.6))


def test_markers_that_name_types():
    extractor = build(entity_markers="typed-punct")
    assert len(extractor(INPUT, threshold=0)) == 6
    with pytest.raises(UserError, match="the head has no type, and the entity markers of the model name it"):
        extractor({"text": TEXT, "head": [4, 10], "tail": [19, 23]})
    untyped = [*ENTITIES[:2], {"start": 31, "end": 36}]
    found = extractor({"text": TEXT, "entities": untyped}, threshold=0, on_error="return")
    assert ["error" in result for result in found] == [False] * 2 + [True] * 4


FAR = {"tokens": ["author", *["dog"] * 80, "book", "house"]}
FAR["entities"] = [{"start": 0, "end": 1}, {"start": 81, "end": 82}, {"start": 82, "end": 83}]


def test_documents_are_read_in_a_window_around_each_pair(extractor, pairwise):
    words = "the author wrote a book . a dog in the house . the cat , the taxi .".split() * 8
    places = (40, 50, 61)  # in three sentences, far from both ends
    for extract, markers in ((extractor, 4), (pairwise, 0)):
        found = extract({"tokens": words, "entities": [{"start": at, "end": at + 1} for at in places]}, top_k=None)
        for first, second in permutations(places, 2):
            # 64 tokens: 2 special ones, the markers, and words: as many on both sides, or as other pairs share them.
            low, high, room = min(first, second), max(first, second) + 1, 62 - markers
            middle = low - (room - (high - low)) // 2
            start = middle if markers else window_start(len(words), room, low, high)
            window = words[start : start + room]
            both = [{"start": at - start, "end": at - start + 1} for at in (first, second)]
            alone = extract({"tokens": window, "entities": both, "pairs": [(0, 1)]}, top_k=None)
            scores = {result["label"]: result["score"] for result in alone}
            pair = [one for one in found if (one["head"]["start"], one["tail"]["start"]) == (first, second)]
            assert len(pair) == 2
            for result in pair:
                assert result["score"] == pytest.approx(scores[result["label"]], abs=1e-6)


@pytest.mark.parametrize("model", ["extractor", "pairwise"])
def test_what_training_saw_is_the_default(model, request, monkeypatch, caplog):
    model = request.getfixturevalue(model)
    logging.warning_once.cache_clear()
    everything = {"threshold": 0, "order": "both", "max_length": 64}
    every = model(INPUT, **everything)
    monkeypatch.setattr(model, "trained", {"both_orders": False, "max_length": 64})
    found = model(INPUT, threshold=0)
    assert "expect more" not in caplog.text
    in_order = [row for row in every if row["head"]["start"] < row["tail"]["start"]]
    assert len(every) == 6
    same(found, in_order)
    same(model(INPUT, threshold=0, order="both"), every)
    assert "order='both': the model answers pairs such as had no relation" in caplog.text
    (named,) = model(INPUT, threshold=0, pairs=[(2, 0)])
    assert named["head"] == HOUSE  # a pair of numbers is taken in any order

    # A window into which the author and the house do not fit, unless both are marked.
    monkeypatch.setattr(model, "trained", {"both_orders": True, "max_length": 7 if model.reads_pieces else 11})
    near_pairs = model(INPUT, threshold=0)
    assert {(row["head"]["text"], row["tail"]["text"]) for row in near_pairs} < {
        (row["head"]["text"], row["tail"]["text"]) for row in every
    }
    assert near_pairs and "do not fit in the window, so they have no relation" in caplog.text
    same(model(INPUT, **everything), every)
    assert model({"text": TEXT, "head": [4, 10], "tail": [31, 36]})["tail"]["text"] == "house"


@pytest.mark.parametrize("model", ["extractor", "pairwise"])
def test_a_marked_pair_is_read_as_the_script_reads_it(model, request, monkeypatch):
    model = request.getfixturevalue(model)
    monkeypatch.setattr(model, "trained", {"both_orders": True, "max_length": 12})
    rows = [
        {"text": f"{'dog ' * left}author of book{' cat' * right}", "head": [4 * left, 4 * left + 6]}
        for left, right in ((20, 20), (30, 27), (40, 50), (41, 50), (3, 90), (90, 3))
    ]
    for row in rows:
        row["tail"] = [row["head"][1] + 4, row["head"][1] + 8]
    encode = encode_unmarked if model.reads_pieces else encode_relations
    encoded = encode(
        model.tokenizer, *([row[name] for row in rows] for name in ("text", "head", "tail")), max_length=64
    )
    for number, found in enumerate(model(rows, batch_size=4)):
        inputs = {name: torch.tensor(values[number : number + 1]) for name, values in encoded.items()}
        with torch.no_grad():
            assert found["score"] == pytest.approx(model.model(**inputs).logits.softmax(-1).max().item(), abs=1e-6)


def test_many_relations_and_old_checkpoints_are_warned_of(caplog):
    logging.warning_once.cache_clear()
    extractor = build()
    extractor([INPUT, {**INPUT, "entities": [*ENTITIES, [4, 8], [0, 10]]}], threshold=0, on_error="skip")
    assert caplog.text.count("More than half of all pairs of a text got a relation") == 1
    assert "does not say which pairs it was trained on" in caplog.text


@pytest.mark.parametrize("strategy", ["none", "first"])
def test_a_tagger_reads_to_the_end_of_a_long_text(extractor, strategy):
    torch.manual_seed(0)
    config = BertConfig(**SIZES | {"max_position_embeddings": 24}, **labelled("PER", "LOC"))
    tagger = pipeline(
        "token-classification",
        model=BertForTokenClassification(config).eval(),
        tokenizer=tiny_tokenizer(),
        aggregation_strategy=strategy,
    )
    text = "The author wrote a book in the house. " * 10
    limit = tagger.tokenizer.model_max_length
    sentence = extractor.preprocess(text, entities=extractor._tagger(tagger))
    assert limit == tagger.tokenizer.model_max_length > 24
    assert max(end for _, end in sentence.spans) > len(text) - 40
    words = WordTagger(tagger.model, tagger.tokenizer)
    assert extractor._tagger(words) == words.entities


def test_all_pairs_of_a_text_take_one_pass(pairwise, monkeypatch):
    seen, forward = [], pairwise.model.forward

    def counting(*, input_ids, entity_pieces, entity_pairs, **given):
        seen.append((len(input_ids), entity_pairs.shape[1]))
        return forward(input_ids=input_ids, entity_pieces=entity_pieces, entity_pairs=entity_pairs, **given)

    monkeypatch.setattr(pairwise.model, "forward", counting)
    given = {"text": TEXT, "entities": [*ENTITIES, {"start": 0, "end": 3}]}
    whole = pairwise(given, threshold=0)
    assert len(pairwise([given, INPUT], threshold=0, batch_size=2)) == 2 and seen == [(1, 12), (2, 12)]
    monkeypatch.setattr("msattn.modeling.pairwise_relations.PAIRS", 8)  # scored in blocks, in the same pass
    same(pairwise(given, threshold=0), whole)
    assert seen[2:] == [(1, 12)]


def test_one_bad_input_costs_no_other(extractor, caplog):
    good, bad = INPUT, {"text": TEXT, "entities": [{"start": 5, "end": 10}, ENTITIES[1]]}
    expected = extractor(good, threshold=0)
    inputs = [good, bad, "no marks", good, FAR]
    with pytest.raises(UserError, match=r"entity 0 span \[5, 10\) cuts a word, 'uthor'"):
        extractor(inputs)
    for batch_size in (1, 4):
        first, second, third, fourth, far = extractor(inputs, threshold=0, on_error="return", batch_size=batch_size)
        same(first, expected)
        same(fourth, expected)
        assert ["cuts a word" in pair["error"] for pair in second] == [True] * 2 and "<e1> is missing" in third[
            "error"
        ]
        assert [result["error"][:23] for result in far[2:]] == ["the two entities and wh"] * 4
        assert {result["tail"]["text"] for result in far[:2]} == {"book", "house"}
        assert far[2]["head"] == {"start": 0, "end": 1, "text": "author"}
    found = list(extractor((row for row in inputs), threshold=0, on_error="skip"))
    assert found[1:3] == [[], []] and found[4] == far[:2]
    # An entity that cannot be read costs its own pairs only.
    for entity in (bad["entities"][0], {**ENTITIES[0], "label": ["PER"]}, {**ENTITIES[0], "word": "book"}, None):
        (beside,) = extractor([{"text": TEXT, "entities": [entity, *ENTITIES[1:]]}], threshold=0, on_error="skip")
        same(beside, [row for row in expected if AUTHOR not in (row["head"], row["tail"])])
    for problem in ("the entity 0 span [5, 10) cuts a word", "the entity 0 span [4, 10) is 'author', but its name is"):
        assert f"4 of 6 pairs were skipped; the first: the input: {problem}" in caplog.text
    assert "An input was skipped: the input: the tag <e1> is missing" in caplog.text
    assert "4 of 6 pairs were skipped; the first: the two entities and what lies between" in caplog.text
    same(extractor(FAR, threshold=0), far[:2])  # as in the scores of `run_re.py`


@pytest.mark.parametrize(
    "given, message",
    [
        ({"text": 5, "entities": ENTITIES}, 'needs "text" .a string. or "tokens"'),
        ({"tokens": [5], "entities": ENTITIES}, "the tokens must be a list of strings"),
        ({"text": TEXT, "entities": "author"}, "the entities must be a list"),
        ({"text": TEXT, "entities": [{"start": 4}]}, r"entity 0 needs two whole numbers, .* but has \[4, None\]"),
        ({"text": TEXT, "entities": [{"start": 4, "end": 400}]}, r"entity 0 span \[4, 400\) is wrong"),
        ({**INPUT, "pairs": [(0, 3)]}, r"the pair \(0, 3\) is not of two different ones of the 3 entities"),
        ({"text": TEXT, "entities": [{"start": -4, "end": 10}]}, r"entity 0 span \[-4, 10\) is wrong"),
        ({"text": TEXT, "entities": [{**ENTITIES[0], "label": ["PER"]}]}, "the label of entity 0 must be a string"),
        ({"text": "\U0001f600 a dog.", "entities": [{"start": 5, "end": 8, "text": "dog"}]}, "count units of UTF-16"),
        ({"text": "a dog\u0301", "entities": [[2, 5]]}, r"span \[2, 5\) cuts a word"),
        ({"text": "a \u0926\u0940", "entities": [[2, 3]]}, r"span \[2, 3\) cuts a word"),
        ({"text": "a \ud800 dog", "entities": []}, "a lone surrogate"),
        (TEXT, "the tag <e1> is missing; mark two entities as <e1>...</e1> and"),
    ],
)
def test_bad_inputs_are_refused(extractor, given, message):
    with pytest.raises(UserError, match=message):
        extractor(given)
    good = extractor(INPUT, threshold=0)
    bad, kept = extractor([given, INPUT], threshold=0, on_error="return")
    assert set(bad) == {"error"} and kept == good


def test_many_pairs_come_in_blocks(extractor, monkeypatch):
    shapes, forward = [], extractor.model.forward
    given = {"text": TEXT, "entities": [*ENTITIES, {"start": 0, "end": 3}]}
    alone = extractor(given, threshold=0)

    def watched(*, input_ids, **others):
        shapes.append(len(input_ids))
        return forward(input_ids=input_ids, **others)

    monkeypatch.setattr(extractor.model, "forward", watched)
    monkeypatch.setattr("msattn.pipelines.relation_extraction.COPIES", 5)
    same(extractor(given, threshold=0), alone)
    assert shapes == [5, 5, 2]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"top_k": 0}, "top_k must be a whole number from 1 on, or None for all labels, not 0"),
        ({"threshold": 1.5}, "from 0 to 1, not 1.5"),
        ({"negative": "hide"}, "negative is one of keep, drop, not 'hide'"),
        ({"on_error": "ignore"}, "on_error is one of raise, skip, return, not 'ignore'"),
        ({"batch_size": 0}, "batch_size is a whole number from 1 on, not 0"),
    ],
)
def test_arguments_that_would_answer_wrongly_are_refused(extractor, options, message):
    with pytest.raises(UserError, match=message):
        extractor(INPUT, **options)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"pairs": 5}, TypeError, "not iterable"),
        ({"pairs": "PER"}, UserError, "two numbers of entities or two types each, not 'PER'"),
        ({"entities": 5}, OSError, "couldn't find them"),
        ({"entities": ENTITIES}, UserError, "give your own beside the text"),
        ({"entities": "./nowhere"}, OSError, "'./nowhere'"),
        ({"truncation": True}, TypeError, "unexpected keyword argument 'truncation'"),
    ],
)
def test_a_wrong_argument_is_no_wrong_input(extractor, options, error, message):
    with pytest.raises(error, match=message):
        extractor(INPUT, on_error="skip", **options)


def test_pairs_need_a_list_of_entities(extractor):
    with pytest.raises(UserError, match="the input marks one pair"):
        extractor("A <e1>dog</e1> in a <e2>house</e2>.", pairs=[(0, 1)])


WHERE_NAMES = "Ann met Bob. Bob and Eve left. Ann stayed."


@pytest.mark.parametrize(
    "entities, pairs",
    [
        (["Ann", "Bob"], {(0, 8)}),
        (["Bob", "Eve"], {(13, 21)}),
        ([{"name": "Ann", "label": "PER"}, [21, 24]], {(31, 21)}),
        ([[[0, 3], [31, 34]], [8, 11, "PER"]], {(0, 8)}),
        ([[0, 3], [8, 11]], {(0, 8)}),
    ],
    ids=["names", "nearest", "object", "mentions", "spans"],
)
def test_entities_by_name_and_mention(pairwise, entities, pairs):
    found = pairwise({"text": WHERE_NAMES, "entities": entities}, threshold=0)
    assert {(one["head"]["start"], one["tail"]["start"]) for one in found} == pairs | {pair[::-1] for pair in pairs}
    tokens = {"tokens": WHERE_NAMES.replace(".", " .").split(), "entities": ["Ann", "Eve"]}
    (one, _) = pairwise(tokens, threshold=0)
    assert {one["head"]["start"], one["tail"]["start"]} == {6, 9}
    with pytest.raises(UserError, match="entity 1, 'Anna', is not in the text"):
        pairwise({"text": WHERE_NAMES, "entities": ["Ann", "Anna"]})
    (error,) = {one["error"] for one in pairwise({"text": WHERE_NAMES, "entities": ["Ann", "Zoe"]}, on_error="return")}
    assert "'Zoe'" in error


def test_spans_with_the_space_before_their_word():
    spans = [{"entity_group": "PER", "score": 0.9, "start": 10, "end": 14}, {"start": 23, "end": 28, "score": 0.9}]
    found = read_input({"text": "It rained. Ann lives in Rome.", "entities": spans}, rules=PairRules(sentences=0))
    assert found.spans == [[11, 14], [24, 28]] and found.pairs == [(0, 1), (1, 0)]
    names = [{"entity": "B-PER", "index": at + 1, "start": 3 * at, "end": 3 + 4 * at} for at in range(2)]
    assert read_input({"text": "Ann Bob", "entities": names}).spans == [[0, 3], [4, 7]]
    named = [{"entity": "B-PER", "index": 1, "word": "Ann"}]
    assert read_input({"text": "Ann Bob", "entities": named}).spans == [[0, 3]]


@pytest.mark.parametrize(
    "trained, options, expected",
    [
        ({}, {}, 12),
        ({"sentences": 0}, {}, 4),
        ({"sentences": 1}, {}, 12),
        ({"sentences": 0}, {"same_sentence": False}, 12),
        ({}, {"same_sentence": True}, 4),
        ({"types": {"PER": ["PER"], "LOC": []}}, {}, 6),
        ({"types": {"PER": ["PER"], "LOC": []}}, {"pairs": "all"}, 12),
        ({"types": {"PER": ["PER"], "LOC": []}}, {"pairs": [("PER", "LOC")]}, 3),
        ({"types": {"ORG": []}}, {}, 12),
        ({"both_orders": False, "sentences": 0}, {}, 2),
    ],
)
def test_pairs_are_those_of_training(pairwise, trained, options, expected, caplog):
    logging.warning_once.cache_clear()
    places = [(0, "PER"), (8, "PER"), (13, "PER"), (21, "LOC")]
    entities = [{"start": at, "end": at + 3, "label": of} for at, of in places]
    pairwise.trained = trained
    try:
        found = pairwise({"text": WHERE_NAMES, "entities": entities}, threshold=0, negative="keep", **options)
    finally:
        pairwise.trained = {}
    assert len(found) == expected
    narrows = not trained or options.get("same_sentence")
    assert ("expect more wrong relations" in caplog.text) == bool(options and not narrows)
    unseen = "types that training did not see, so all their pairs are asked for. Those of training: ORG."
    assert (unseen in caplog.text) == ("ORG" in trained.get("types", {}))


def test_mentions_in_one_sentence_come_before_nearer_ones(pairwise):
    text = "Ann knows old Bob well. Ann left."
    found = pairwise({"text": text, "entities": ["Ann", "Bob"]}, threshold=0, negative="keep")
    assert {(one["head"]["start"], one["tail"]["start"]) for one in found} == {(24, 14), (14, 24)}
    found = pairwise({"text": text, "entities": ["Ann", "Bob"]}, threshold=0, negative="keep", same_sentence=True)
    assert {(one["head"]["start"], one["tail"]["start"]) for one in found} == {(0, 14), (14, 0)}
    asked = {"pairs": [(0, 1)], "order": "text"}
    (one,) = pairwise({"text": text, "entities": ["Ann", "Bob"]}, threshold=0, negative="keep", **asked)
    assert (one["head"]["start"], one["tail"]["start"]) == (0, 14)


def test_the_more_probable_direction_is_kept(monkeypatch, extractor):
    entities = {**INPUT, "entities": ENTITIES[:2]}
    answering(monkeypatch, extractor, [0.1, 0.8, 0.1], [0.2, 0.1, 0.7])
    assert len(extractor(entities)) == 2
    answering(monkeypatch, extractor, [0.1, 0.8, 0.1], [0.2, 0.1, 0.7])
    (kept,) = extractor(entities, merge=True)
    assert kept["score"] == pytest.approx(0.8)


def test_models_that_read_the_pieces_of_each_pair(pairwise, monkeypatch):
    """Models of earlier versions take no numbers of entities."""
    expected = pairwise(INPUT, threshold=0)
    forward = pairwise.model.forward

    def old(input_ids, attention_mask, entity_pieces, token_type_ids=None):
        assert entity_pieces.dim() == 4 and entity_pieces.shape[1] <= 4
        return forward(input_ids, attention_mask, entity_pieces)

    monkeypatch.setattr("msattn.pipelines.relation_extraction.PAIRS", 4)
    monkeypatch.setattr(pairwise.model, "forward", old)
    monkeypatch.setattr(pairwise, "parameters", inspect.signature(old).parameters)
    same(pairwise(INPUT, threshold=0), expected)


def test_models_of_onnx_read_blocks_of_pairs(pairwise, monkeypatch):
    expected, forward = pairwise(INPUT, threshold=0), pairwise.model.forward

    def exported(input_ids, attention_mask, entity_pieces, entity_pairs, token_type_ids=None):
        assert entity_pieces.shape[1] == 3 and entity_pairs.shape[1] <= 4
        return forward(input_ids, attention_mask, entity_pieces, entity_pairs=entity_pairs)

    monkeypatch.setattr("msattn.pipelines.relation_extraction.PAIRS", 4)
    monkeypatch.setattr(pairwise.model, "forward", exported)
    monkeypatch.setattr(pairwise, "parameters", inspect.signature(exported).parameters)
    same(pairwise(INPUT, threshold=0), expected)
