from __future__ import annotations

import pickle
import random

import pytest
import torch
from datasets import Dataset
from transformers import pipeline

from msattn import UserError
from msattn.data.files.conllu_lines import conllu_lines
from msattn.trees.tree_decoding import are_trees
from tests.tiny_models import RELATIONS, WORDS, tiny_parser


@pytest.fixture(scope="module")
def parse():
    model, tokenizer = tiny_parser()
    return pipeline("dependency-parsing", model=model, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def mixed():
    """Sentences of 1 to 40 words, in all shapes, some longer than the model's 64 positions."""
    draw = random.Random(0)
    sentences = [draw.choices([*WORDS, "unpayers", "\u200d"], k=draw.randint(1, 40)) for _ in range(12)]
    shapes = (lambda words: {"words": words}, list)
    return [shapes[number % 2](words) for number, words in enumerate(sentences)]


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


@pytest.mark.parametrize("layer_mix", [1, 2])
def test_a_pipeline_that_has_run_can_be_pickled(layer_mix):
    model, tokenizer = tiny_parser(layer_mix=layer_mix)
    parse = pipeline("dependency-parsing", model=model, tokenizer=tokenizer)
    before = parse({"words": ["A", "dog", "sleeps"]})
    copied = pickle.loads(pickle.dumps(parse))  # as spaCy does for its processes
    same([copied({"words": ["A", "dog", "sleeps"]}), parse({"words": ["A", "dog", "sleeps"]})], [before, before])


def test_a_compiled_model_is_taken(parse):
    compiled = torch.compile(parse.model, backend="eager")
    assert pipeline("dependency-parsing", model=compiled, tokenizer=parse.tokenizer).parameters == parse.parameters


TEXT = "The dog's taxi-cat, in  a house.\nDogs sleep: 3.5 | 1,000! \n\n नमस्ते"
TEXT_WORDS = [
    ["The", "dog's", "taxi", "-", "cat", ",", "in", "a", "house", "."],
    ["Dogs", "sleep", ":", "3.5", "|", "1,000", "!"],
    ["नमस्ते"],
]


def test_texts(parse):
    sentences = parse(TEXT)
    assert [[word["word"] for word in words] for words in sentences] == TEXT_WORDS
    for words in sentences:
        assert are_trees(heads(words)).all() and [word["index"] for word in words] == [*range(1, len(words) + 1)]
        assert [TEXT[word["start"] : word["end"]] for word in words] == [word["word"] for word in words]
    assert "".join(word["word"] + word["space_after"] for words in sentences for word in words) == TEXT
    # A text gives a list of sentences, also if there is only one, or none.
    assert len(parse("dog")) == 1 and parse(" ") == []
    assert [len(result) for result in parse([TEXT, "", "dog."], batch_size=2)] == [3, 0, 1]
    assert [[len(trees) for trees in text] for text in parse([TEXT, "", "dog."], k=2)] == [[2, 2, 1], [], [2]]
    with pytest.raises(UserError, match="one sentence, and the text has 3"):
        parse(TEXT, fixed={1: 2})
    assert parse("A dog sleeps.", fixed={1: 3})[0][0]["head"] == 3
    with pytest.raises(UserError, match="one sentence, and there are 2: give one at a time"):
        parse([{"words": ["A", "dog", "sleeps"]}, {"words": ["The", "cat"]}], fixed={1: 3})


def test_the_tokenizer_pads_as_before():
    model, tokenizer = tiny_parser()
    tokenizer.padding_side = "left"
    run = pipeline("dependency-parsing", model=model, tokenizer=tokenizer)
    assert (tokenizer.padding_side, run.tokenizer.padding_side) == ("left", "right")


def test_languages_and_tokenizers(parse):
    def words(*given, **options):
        return [[word["word"] for word in sentence] for sentence in parse(*given, **options)]

    assert words("The dog doesn't sleep.", lang="en") == [["The", "dog", "does", "n't", "sleep", "."]]
    assert [word.get("token") for word in parse("doesn't", lang="en")[0]] == ["doesn't"] * 2
    assert words("a dog . A  cat ", word_tokenizer=str.split) == [["a", "dog", "."], ["A", "cat"]]
    with pytest.raises(UserError, match="decode is one of .*, not 'best'"):
        parse("dog", decode="best")
    projective = pipeline("dependency-parsing", model=parse.model, tokenizer=parse.tokenizer, decode="eisner")
    with pytest.raises(UserError, match="k: the best trees may have crossing arcs"):
        projective("dog", k=3)
    with pytest.raises(UserError, match="no rules for the language 'xx', only for de, en"):
        parse("dog", lang="xx")
    with pytest.raises(UserError, match=r"the text: '\\ud800' at character 4 is a lone surrogate"):
        parse("dog \ud800")


def test_words_given_as_texts(parse, caplog):
    assert len(parse(["Dogs.", "sleep", "a lot"])) == 3 and not caplog.records
    assert [len(text) for text in parse(["Dogs", "sleep", "."])] == [1, 1, 1]
    assert 'each of the 3 strings is parsed as a text of its own; for one sentence give {"words": ' in caplog.text


@pytest.fixture
def answers(parse):
    """Sets what the configuration says about answers, for one test."""
    config = parse.model.config

    def answers(**values):
        for name, value in values.items():
            setattr(config, name, value)

    yield answers
    answers(tree_decoder=None, calibration_temperature=None)


def test_the_decoder_of_the_configuration(parse, answers):
    words = [{"words": ["dog", "cat", "taxi", "house", "a", "the", "."][:length]} for length in range(2, 8)]
    given = {decode: parse(words, decode=decode) for decode in ("mst", "eisner", "greedy")}
    assert given["mst"] == parse(words) and given["mst"] != given["eisner"] != given["greedy"]
    for decode, expected in given.items():
        answers(tree_decoder=decode)
        assert parse(words) == expected and parse(words, decode="mst") == given["mst"]
    answers(tree_decoder="best")
    with pytest.raises(UserError, match="tree_decoder in the configuration is one of mst, eisner, .* not 'best'"):
        parse(words)


def test_a_calibrated_parser_is_less_sure(parse, answers):
    words = {"words": ["dog", "cat", "taxi", "."]}
    plain, scored = parse(words, k=100, marginals=True), parse(words)
    answers(calibration_temperature=2.0)
    soft = {tuple(word["head"] for word in tree["words"]): tree for tree in parse(words, k=100, marginals=True)}
    # Probabilities to the power of one half, made to sum to 1 again.
    total = sum(tree["probability"] ** 0.5 for tree in plain)
    for tree in plain:
        found = soft[tuple(word["head"] for word in tree["words"])]
        assert found["probability"] == pytest.approx(tree["probability"] ** 0.5 / total)
    assert [word["score"] for word in parse(words)] != pytest.approx([word["score"] for word in scored], rel=1e-2)


def test_several_trees(parse):
    sentences = [{"words": ["dog", "cat", "taxi", "."][:length]} for length in (3, 0, 1, 4)]
    plain = parse(sentences)
    for trees, best in zip(parse(sentences, k=100, marginals=True, batch_size=3), plain, strict=True):
        words = len(best)
        assert len(trees) == max(1, words ** max(0, words - 1))  # all trees with one root
        probabilities = [tree["probability"] for tree in trees]
        assert sum(probabilities) == pytest.approx(1) and probabilities == sorted(probabilities, reverse=True)
        assert [word["head"] for word in trees[0]["words"]] == [word["head"] for word in best]
        for place, word in enumerate(trees[0]["words"]):
            with_head = [tree["probability"] for tree in trees if tree["words"][place]["head"] == word["head"]]
            assert word["marginal"] == pytest.approx(sum(with_head), abs=1e-9)


def test_fixed_heads(parse):
    words = {"words": ["The", "dog", "wrote", "."]}
    for head in (0, 1, 2, 4):
        assert parse(words, fixed={3: head})[2]["head"] == head
        assert parse(words, fixed={3: head}, decode="mbr")[2]["head"] == head
        assert all(tree["words"][2]["head"] == head for tree in parse(words, fixed={3: head}, k=4))
    for wrong, message in (
        ({1: 0, 2: 0}, "no tree with one root"),
        ({5: 0}, "no arc"),
        ([(1, 2)], "maps a dependent"),
    ):
        with pytest.raises(UserError, match=message):
            parse(words, fixed=wrong)


@pytest.mark.parametrize(("decode", "instead"), [("eisner", "mst"), ("mbr_eisner", "mbr")])
def test_fixed_arcs_that_cross(parse, caplog, decode, instead):
    words, crossing = {"words": ["The", "dog", "wrote", "a", "book", "."]}, {1: 3, 2: 4}
    assert parse(words, fixed={1: 3}, decode=decode)[0]["head"] == 3
    assert not caplog.text
    assert parse(words, fixed=crossing, decode=decode) == parse(words, fixed=crossing, decode=instead)
    (record,) = caplog.records
    assert f"this sentence is decoded by {instead}" in record.message


@pytest.mark.parametrize("max_length", [None, 16])
def test_known_heads_of_a_long_sentence_are_kept(parse, max_length):
    words, draw = ["dog"] * 90, random.Random(0)
    known = {word: draw.randrange(word) or 90 for word in draw.sample(range(2, 90), 40)} | {90: 0}
    lines = conllu_lines(words, 1)
    rows = {"heads": [known.get(word, -1) for word in range(1, 91)], "relations": ["_"] * 89 + ["det"]}
    written = parse.complete([{"words": words, "lines": lines, **rows}], max_length=max_length)[0]
    cells = [line.split("\t") for line in written.splitlines() if "\t" in line]
    found = [int(row[6]) for row in cells]
    assert {word: found[word - 1] for word in known} == known and cells[-1][7] == "det"
    assert are_trees(torch.tensor([found]).numpy()).all()


def test_a_half_corrected_sentence_keeps_its_tags():
    model, tokenizer = tiny_parser(word_tags={"upos": ["X", "Y"], "feats": ["A=1"]})
    parse = pipeline("dependency-parsing", model=model, tokenizer=tokenizer)
    lines = ["1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n", "2\tdog\t_\t_\t_\t_\t_\t_\t_\t_\n", "\n"]
    sentence = {"words": ["the", "dog"], "lines": lines, "heads": [2, -1], "relations": ["det", "_"]}

    def tags(**changes):
        rows = parse.complete([{**sentence, **changes}])[0].splitlines()
        return [[row.split("\t")[column] for column in (3, 5)] for row in rows if row]

    answered = tags(heads=[2, 0])
    assert tags() == [["DET", "_"], answered[1]] and answered[0][0] in "XY" and answered[0][1] == "A=1"


def test_what_cannot_be_ranked(parse):
    for options in ({"k": 2}, {"marginals": True}):
        with pytest.raises(UserError, match="k, marginals and fixed need it as a whole"):
            parse({"words": ["dog"] * 200}, **options)
    assert len(parse({"words": ["dog"] * 200}, marginals=False)) == 200


@pytest.mark.parametrize("batch_size", [1, 2, 5])
def test_many(parse, mixed, batch_size):
    alone = [parse([item])[0] for item in mixed]
    same(parse(mixed, batch_size=batch_size), alone)
    same(parse(iter(mixed), batch_size=batch_size), alone)
    rows = Dataset.from_list([{"words": item["words"]} for item in mixed[::2]])
    same(parse(rows, batch_size=batch_size), alone[::2])


@pytest.mark.parametrize("batch_size", [1, 3])
def test_sentences_without_words(parse, batch_size):
    assert parse([]) == [] and parse("") == [] and parse({"words": []}) == []
    empty, one, blank = parse([[], "dog", "  "], batch_size=batch_size)
    assert empty == blank == [] and one[0][0]["head"] == 0


def test_long_sentences(parse):
    words = [f"dog{number}" for number in range(1000)]
    result = parse({"words": words})
    assert [word["word"] for word in result] == words and are_trees(heads(result)).all()
    with pytest.raises(UserError, match="max_length is a number of tokens, not '3'"):
        parse({"words": words}, max_length="3")
    for size in (0, 65):
        with pytest.raises(UserError, match=f"max_length={size}: the checkpoint reads 1 to 64 tokens"):
            parse({"words": words}, max_length=size)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"text": "a dog"}, "a sentence is a text, a list of words"),
        ({"words": ["a", 3]}, "a sentence is a text, a list of words"),
        ({"words": ["a", ""]}, "a word has at least one letter"),
        ({"words": ["a", "b\udc80"]}, "at character 1 is a lone surrogate"),
        ({"words": ["a\tb"]}, "neither tabs nor line ends"),
    ],
)
def test_what_is_no_sentence(parse, given, message):
    with pytest.raises(UserError, match=message):
        parse(given)


def test_conllu_of_texts(parse):
    written = parse.to_conllu(parse(TEXT))
    lines = written.splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        "# sent_id = 1",
        "# text = The dog's taxi-cat, in a house.",
        "# sent_id = 2",
        "# text = Dogs sleep: 3.5 | 1,000!",
        "# sent_id = 3",
        "# text = नमस्ते",
    ]
    misc = {line.split("\t")[1]: line.split("\t")[9] for line in lines if "\t" in line}
    assert misc["dog's"] == "_" and misc["taxi"] == misc["sleep"] == "SpaceAfter=No"
    assert (
        misc["in"] == r"SpacesAfter=\s\s" and misc["."] == r"SpacesAfter=\n" and misc["!"] == r"SpacesAfter=\s\n\n\s"
    )
    several = parse.to_conllu(parse([TEXT, "", "dog"])).splitlines()
    names = ["1-1", "1-2", "1-3", "3-1"]
    assert [line for line in several if line.startswith("# sent_id")] == [f"# sent_id = {name}" for name in names]


def test_conllu_of_words(parse):
    """Sentences without words keep their number, and are no block of comments."""
    written = parse.to_conllu(parse([{"words": ["The", "dog"]}, [], ["a", "house"]]))
    assert [line for line in written.splitlines() if "sent_id" in line] == ["# sent_id = 1", "# sent_id = 3"]
    assert parse.to_conllu([]) == parse.to_conllu([[]]) == ""
