from __future__ import annotations

import random

import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, BertForSequenceClassification, pipeline

from msattn import BertPairwiseConfig, BertPairwiseParser, DependencyParsingPipeline, UserError
from msattn.data.files.conllu import conllu_sentences
from msattn.trees.tree_decoding import are_trees, has_crossing_arcs
from tests.tiny_models import WORDS, tiny_tokenizer

RELATIONS = ("det", "nsubj", "punct", "root")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="module", params=["pairs", "head_select"])
def parse(request):
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    config = BertPairwiseConfig(
        **SIZES,
        vocab_size=len(tokenizer),
        max_position_embeddings=64,
        objective=request.param,
        id2label=dict(enumerate(RELATIONS)),
        label2id={name: number for number, name in enumerate(RELATIONS)},
        initializer_range=0.5,
    )
    return pipeline("dependency-parsing", model=BertPairwiseParser(config).eval(), tokenizer=tokenizer)


@pytest.fixture(scope="module")
def mixed():
    """Sentences of 1 to 40 words, in all shapes, some longer than the model's 64 positions."""
    draw = random.Random(0)
    sentences = [draw.choices([*WORDS, "unpayers", "\u200d"], k=draw.randint(1, 40)) for _ in range(12)]
    shapes = (lambda words: {"words": words}, list, lambda words: " ".join(words))
    return [shapes[number % 3](words) for number, words in enumerate(sentences)]


def same(results, expected):
    results, expected = list(results), list(expected)
    assert len(results) == len(expected)
    for result, other in zip(results, expected, strict=True):
        assert [word["score"] for word in result] == pytest.approx([word["score"] for word in other], abs=1e-5)
        assert [{**word, "score": 0} for word in result] == [{**word, "score": 0} for word in other]


def heads(sentence):
    return torch.tensor([[word["head"] for word in sentence]]).numpy()


def test_words(parse):
    words = ["The", "dog", "\u200d", "unpayers", "[SEP]", "."]
    result = parse({"words": words})
    assert [word["word"] for word in result] == words and [word["index"] for word in result] == [*range(1, 7)]
    assert are_trees(heads(result)).all()
    assert {word["relation"] for word in result} <= set(RELATIONS)
    assert all(0 < word["score"] <= 1 for word in result)


def test_texts(parse):
    assert [word["word"] for word in parse("The dog's taxi-cat, in   a house.")] == (
        ["The", "dog's", "taxi", "-", "cat", ",", "in", "a", "house", "."]
    )


def test_greedy_heads(parse):
    sentences = [{"words": ["dog", "cat", "taxi", "house", "."][:length]} for length in range(2, 6)]
    greedy, best = (parse(sentences, decode=decode) for decode in ("greedy", "mst"))
    for one, other in zip(greedy, best, strict=True):
        if are_trees(heads(one)).all():
            assert heads(one).tolist() == heads(other).tolist()
        assert are_trees(heads(other)).all()


@pytest.mark.parametrize("decode", ["eisner", "mbr"])
def test_other_trees(parse, decode):
    sentences = [{"words": ["dog", "cat", "taxi", "house", "a", "the", "."][:length]} for length in range(8)]
    for sentence in parse(sentences, decode=decode, batch_size=3):
        assert not sentence or are_trees(heads(sentence)).all()
        assert decode == "mbr" or not has_crossing_arcs([word["head"] for word in sentence])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_several_trees(parse, batch_size):
    sentences = [{"words": ["dog", "cat", "taxi", "."][:length]} for length in (3, 0, 1, 4)]
    plain = parse(sentences)
    for trees, best in zip(parse(sentences, k=100, marginals=True, batch_size=batch_size), plain, strict=True):
        words = len(best)
        # All trees with one root.
        assert len(trees) == max(1, words ** max(0, words - 1))
        probabilities = [tree["probability"] for tree in trees]
        assert sum(probabilities) == pytest.approx(1) and probabilities == sorted(probabilities, reverse=True)
        same([[{**word, "marginal": 0} for word in trees[0]["words"]]], [[{**word, "marginal": 0} for word in best]])
        for place in range(words):
            for tree in trees:
                with_head = (
                    other["probability"]
                    for other in trees
                    if other["words"][place]["head"] == tree["words"][place]["head"]
                )
                assert tree["words"][place]["marginal"] == pytest.approx(sum(with_head), abs=1e-9)


def test_fixed_heads(parse):
    words = {"words": ["The", "dog", "wrote", "."]}
    for head in (0, 1, 2, 4):
        assert parse(words, fixed={3: head})[2]["head"] == head
        assert parse(words, fixed={3: head}, decode="mbr")[2]["head"] == head
        assert all(tree["words"][2]["head"] == head for tree in parse(words, fixed={3: head}, k=4))
    assert [*parse(words, fixed={})[0]] == [*parse(words)[0]]
    assert "marginal" in parse(words, marginals=True)[0]
    with pytest.raises(UserError, match="has no tree with one root"):
        parse(words, fixed={1: 0, 2: 0})
    with pytest.raises(UserError, match="is no arc of sentence 1"):
        parse(words, fixed={5: 0})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is a number of trees, 1 or more, not 0"),
        ({"k": 1.5}, "not 1.5"),
        ({"k": 2, "decode": "eisner"}, "give k or decode='eisner', not both"),
        ({"k": 2}, "k, marginals and fixed need it as a whole"),
        ({"marginals": True}, "k, marginals and fixed need it as a whole"),
    ],
)
def test_what_cannot_be_ranked(parse, options, message):
    with pytest.raises(UserError, match=message):
        parse({"words": ["dog"] * 200}, **options)
    assert len(parse({"words": ["dog"] * 200}, marginals=False)) == 200


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_many(parse, mixed, batch_size):
    alone = [parse([item])[0] for item in mixed]
    same(parse(mixed, batch_size=batch_size), alone)
    same(parse(iter(mixed), batch_size=batch_size), alone)
    same(parse(tuple(mixed), batch_size=batch_size), alone)
    rows = Dataset.from_list([{"words": item["words"]} for item in mixed[::3]])
    same(parse(rows, batch_size=batch_size), alone[::3])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_sentences_without_words(parse, batch_size):
    assert parse([]) == [] and parse("") == [] and parse({"words": []}) == []
    empty, one, blank = parse([[], "dog", "  "], batch_size=batch_size)
    assert empty == blank == [] and one[0]["head"] == 0


def test_long_sentences(parse):
    words = [f"dog{number}" for number in range(1000)]
    result = parse({"words": words})
    assert [word["word"] for word in result] == words and are_trees(heads(result)).all()
    with pytest.raises(UserError, match="more than 64 tokens: 'dog0 dog1"):
        parse({"words": words}, long_sentences="error")
    with pytest.raises(UserError, match="more than 3 tokens: 'unpayers'"):
        parse({"words": ["unpayers"]}, max_length=3, long_sentences="error")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "a sentence is a text, a list of words"),
        ({"text": "a dog"}, "a sentence is a text, a list of words"),
        ({"words": ["a", 3]}, "a sentence is a text, a list of words"),
        ({"words": ["a", ""]}, "a word has at least one letter"),
        ({"words": ["a\tb"]}, "neither tabs nor line ends"),
    ],
)
def test_what_is_no_sentence(parse, given, message):
    with pytest.raises(UserError, match=message):
        parse(given)


@pytest.mark.parametrize("option", ["decode", "long_sentences"])
def test_unknown_options(parse, option):
    with pytest.raises(UserError, match=f"{option} is one of .*, not 'best'"):
        parse("dog", **{option: "best"})


def test_conllu(parse, tmp_path):
    sentences = parse(["The dog wrote.", "", "a house"])
    (tmp_path / "out.conllu").write_text(parse.to_conllu(sentences), encoding="utf-8")
    read = [[token.cells for token in sentence.tokens] for sentence in conllu_sentences(tmp_path / "out.conllu")]
    expected = [[(word["word"], str(word["head"]), word["relation"]) for word in sentence] for sentence in sentences]
    assert [[(word["form"], word["head"], word["deprel"]) for word in sentence] for sentence in read] == [
        sentence for sentence in expected if sentence
    ]
    assert parse.to_conllu(sentences[2]) == parse.to_conllu([sentences[2]])


def test_displacy():
    words = [("The", 2, "det"), ("dog", 0, "root"), (".", 2, "punct")]
    sentence = [
        {"index": n, "word": word, "head": head, "relation": name} for n, (word, head, name) in enumerate(words, 1)
    ]
    assert DependencyParsingPipeline.to_displacy(sentence) == {
        "words": [{"text": "The", "tag": ""}, {"text": "dog", "tag": ""}, {"text": ".", "tag": ""}],
        "arcs": [
            {"start": 0, "end": 1, "label": "det", "dir": "left"},
            {"start": 1, "end": 2, "label": "punct", "dir": "right"},
        ],
    }


def test_a_model_that_parses_nothing():
    tokenizer = tiny_tokenizer()
    model = BertForSequenceClassification(BertConfig(vocab_size=len(tokenizer), **SIZES))
    with pytest.raises(UserError, match="a BertForSequenceClassification, which parses nothing"):
        DependencyParsingPipeline(model=model, tokenizer=tokenizer)
