"""Sentences for annotators: which are chosen, and what is filled in."""

from __future__ import annotations

import pytest
from transformers import pipeline

from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.treebanks import read_treebank
from msattn.errors import UserError
from msattn.export import main as export
from msattn.plots import Doubt, doubts, most_doubtful
from msattn.plots.command import doubt as main
from msattn.plots.command import plot
from msattn.plots.doubt import annotation
from tests.tiny_models import WORDS, saved_model, tiny_parser


@pytest.fixture(scope="module")
def parser(tmp_path_factory) -> str:
    return saved_model(tmp_path_factory.mktemp("parser"), *tiny_parser())


def doubt(words: str, probability: float, errors: float = 0.0) -> Doubt:
    return Doubt([{"word": word} for word in words.split()], probability, errors)


def test_doubts_are_those_of_all_trees(parser):
    parse = pipeline("dependency-parsing", model=parser)
    sentences = [["dog", "cat", "taxi"], ["dog"] * 100, ["a", "house", ".", "the"], ["dog"]]
    found = doubts(parse, sentences, batch_size=2)
    assert found[1] is None and found[3].probability == 1 and found[3].errors == 0
    for words, result in zip(sentences, found, strict=True):
        if result is not None:
            trees = parse({"words": words}, k=100, marginals=True)
            assert result.probability == pytest.approx(trees[0]["probability"])
            assert [word["head"] for word in result.words] == [word["head"] for word in trees[0]["words"]]
            wrong = [
                tree["probability"]
                * sum(a["head"] != b["head"] for a, b in zip(tree["words"], result.words, strict=True))
                for tree in trees
            ]
            assert result.errors == pytest.approx(sum(wrong), abs=1e-6)


def test_the_most_doubtful_are_no_duplicates():
    found = [
        doubt("the dog sleeps .", 0.5, 0.1),
        doubt("The dog sleeps !", 0.4, 0.2),
        None,
        doubt("cats eat mice .", 0.3, 0.3),
        doubt("a cat eats a mouse .", 0.2, 3),
    ]
    assert most_doubtful(found, 3) == [4, 3, 1]
    assert most_doubtful(found, 9) == [4, 3, 1]
    assert most_doubtful(found, 9, similarity=1) == [4, 3, 1, 0]
    assert most_doubtful(found[:4], 9, "loss") == [3, 1]
    assert most_doubtful(found, 1, "loss") == [4] and most_doubtful([None], 1) == []


def test_sure_arcs_are_filled_in():
    word = {"word": "w", "head": 2, "relation": "det", "marginal": 0.9, "score": 0.8}
    words = [word, word | {"head": 0, "relation": "root", "score": 0.95}, word | {"marginal": 0.7}]
    lines = ["# newdoc\n", "\n", "\n", *conllu_lines(["a", "b", "c"], 7), "# the end"]
    lines.insert(5, "1-2\tab" + 8 * "\t_" + "\n")
    expected = with_tree(lines[3:-2], [2, 0, "_"], ["det", "root", "_"])
    comments = "# tree_probability = 0.25\n# expected_errors = 1.5\n1-2\t"
    assert annotation(lines, Doubt(words, 0.25, 1.5), 0.8) == expected.replace("1-2\t", comments) + "\n"
    assert "\troot\t" not in annotation(lines, Doubt(words, 0.25, 1.5), 0.92)
    before = annotation(lines, Doubt(words, 0.5, 1), 1).splitlines(keepends=True)
    again = annotation(before, Doubt(words, 0.25, 1.5), 1)
    assert again == annotation(lines, Doubt(words, 0.25, 1.5), 1)


def test_empty_tags_are_filled_in():
    word = {"word": "w", "head": 0, "relation": "root", "marginal": 1, "score": 1, "upos": "NOUN", "feats": "A=1"}
    lines = conllu_lines(["a", "b"])
    lines[1] = lines[1].replace("a\t_\t_", "a\t_\tX")
    rows = [line.split("\t") for line in annotation(lines, Doubt([word, word], 1, 0), 0).split("\n") if "\t" in line]
    assert [row[2:6] for row in rows] == [["_", "X", "_", "_"], ["_", "NOUN", "_", "A=1"]]


@pytest.mark.parametrize("by", ["probability", "loss"])
def test_sentences_of_a_treebank(parser, tmp_path, by, caplog):
    sentences = [[*WORDS[number : number + 4], "."] for number in range(0, 20, 2)] + [["dog"] * 100]
    done = with_tree(conllu_lines(["dog"]), [0], ["root"])
    (tmp_path / "pool.conllu").write_text(done + "".join("".join(conllu_lines(words)) for words in sentences))
    output = tmp_path / "annotate.conllu"
    given = [parser, str(tmp_path / "pool.conllu"), "--output", str(output)]
    main([*given, "--top", "4", "--by", by, "--sure", "0.5"])
    assert "1 sentences with heads are left out" in caplog.text and "1 sentences are longer than" in caplog.text
    written = read_treebank(output)
    found = doubts(pipeline("dependency-parsing", model=parser), sentences)
    expected = most_doubtful(found, 4, by)
    assert written["words"][:] == [sentences[number] for number in expected] and len(expected) == 4
    for number, heads, relations in zip(expected, written["heads"], written["relations"], strict=True):
        sure = [min(word["marginal"], word["score"]) >= 0.5 for word in found[number].words]
        assert heads == [word["head"] if s else -1 for word, s in zip(found[number].words, sure, strict=True)]
        assert [name != "_" for name in relations] == sure
    # All of it is partial trees, in which nothing is left to doubt twice.
    assert {head == -1 for heads in written["heads"] for head in heads} == {True, False}


def test_sentences_of_a_text(parser, tmp_path):
    (tmp_path / "raw.txt").write_text("The dog doesn't sleep. A cat wrote a book.\n\nDogs, 3.5!\n", encoding="utf-8")
    given = [parser, str(tmp_path / "raw.txt"), "--lang", "en", "--sure", "0"]
    main([*given, "--output", str(tmp_path / "out.conllu")])
    text = (tmp_path / "out.conllu").read_text(encoding="utf-8")
    names = {line for line in text.splitlines() if line.startswith("# sent_id")}
    assert names == {"# sent_id = 1-1", "# sent_id = 1-2", "# sent_id = 3-1"}
    assert "# text = The dog doesn't sleep." in text
    assert ["The", "dog", "does", "n't", "sleep", "."] in read_treebank(tmp_path / "out.conllu")["words"][:]
    plot(["trees", parser, "--text", "It doesn't.", "--lang", "en", "--output", str(tmp_path / "out.svg")])
    assert ">does<" in (tmp_path / "out.svg").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.heavy
def test_exported_parsers_doubt_the_same(parser, tmp_path):
    pytest.importorskip("onnxruntime")
    export(["onnx", parser, str(tmp_path / "onnx")])
    (tmp_path / "pool.conllu").write_text("".join("".join(conllu_lines(WORDS[at : at + 4])) for at in range(3)))
    written = []
    for model in (parser, tmp_path / "onnx"):
        main([str(model), str(tmp_path / "pool.conllu"), "--output", str(tmp_path / "out.conllu"), "--sure", "0"])
        written.append(read_treebank(tmp_path / "out.conllu"))
        plot(["trees", str(model), "--text", "the dog", "--output", str(tmp_path / "out.svg")])
    assert written[0]["words"][:] == written[1]["words"][:] and written[0]["heads"][:] == written[1]["heads"][:]


def test_what_cannot_be_doubted(parser, tmp_path):
    (tmp_path / "done.conllu").write_text(with_tree(conllu_lines(["dog"]), [0], ["root"]))
    given = [parser, str(tmp_path / "done.conllu"), "--output"]
    with pytest.raises(UserError, match="done.conllu: there is no sentence without heads to annotate"):
        main([*given, str(tmp_path / "out.conllu")])
    with pytest.raises(UserError, match=r"the file must end in \.conllu"):
        main([*given, "out.txt"])
    with pytest.raises(UserError, match=r"done\.conllu: that is the file that is read"):
        main([*given, str(tmp_path / "done.conllu")])
    with pytest.raises(UserError, match="--lang splits texts into words, and the words of .*done.conllu are given"):
        main([*given, str(tmp_path / "out.conllu"), "--lang", "en"])
    with pytest.raises(UserError, match="--sure and --similarity are from 0 to 1"):
        main([*given, str(tmp_path / "out.conllu"), "--sure", "95"])
