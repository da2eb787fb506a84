from __future__ import annotations

import pytest

from msattn.data.files.conllu_lines import TAG_CELLS, tag_columns, with_tree
from msattn.data.inputs.word_labels import learn_labels, tag_words, word_labels
from msattn.errors import UserError

LINES = [
    "# text = The Dogs' _\n",
    "1\tThe\tthe\tDET\tDT\tDefinite=Def\t2\tdet\t_\t_\n",
    "2-3\tDogs'\t_\t_\t_\t_\t_\t_\t_\t_\n",
    "2\tDogs\tdog\tNOUN\t_\tNumber=Plur\t0\troot\t_\t_\n",
    "3\t'\t_\tPART\tPOS\t_\t2\tcase\t_\t_\n",
    "3.1\tmore\tmore\tADV\tRB\tDegree=Cmp\t_\t_\t_\t_\n",
    "4\t_\t_\t_\tSYM\t_\t2\tdep\t_\t_\r\n",
    "\n",
]
LABELS = {
    "upos": ["DET", "NOUN", "PART", None],
    "xpos": ["DT", None, "POS", "SYM"],
    # A word with a part of speech and `_` has no features; without one, they are not known.
    "feats": ["Definite=Def", "Number=Plur", "_", None],
    # The lemma of the word `_` is `_`.
    "lemma": ["lower\t0\t\t0\t", "lower\t0\t\t1\t", None, "lower\t0\t\t0\t"],
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name):
    assert word_labels(LINES, name) == LABELS[name]


def test_learned_labels():
    other = ["1\tCats\tcat\tNOUN\tNNS\t_\t0\troot\t_\t_\n"]
    assert learn_labels([LINES, other], [*LABELS], "x") == {
        "upos": ["DET", "NOUN", "PART"],
        "xpos": ["DT", "NNS", "POS", "SYM"],
        "feats": ["Definite=Def", "Number=Plur", "_"],
        "lemma": ["lower\t0\t\t0\t", "lower\t0\t\t1\t"],
    }
    assert learn_labels([LINES], [], "x") == {}


@pytest.mark.parametrize("name", LABELS)
def test_a_column_that_is_empty_throughout(name):
    line = LINES[1].split("\t")
    line[TAG_CELLS[name]] = "_"
    with pytest.raises(UserError, match=f"x.conllu: the column {name.upper()} is empty throughout.* --tag {name}"):
        learn_labels([["\t".join(line)]] * 2, ["upos", name] if name != "upos" else ["upos"], "x.conllu")


def test_tags_of_words():
    labels = {"upos": ["DET", "NOUN"], "lemma": ["lower\t0\t\t1\t", "lower\tbe"]}
    numbers = {"upos": [1, 0, 0], "lemma": [0, 0, 1]}
    assert tag_words(labels, numbers, ["Dogs", "s", "Is"]) == {
        "upos": ["NOUN", "DET", "DET"],
        "lemma": ["dog", "s", "be"],
    }
    assert tag_words(labels, {}, ["Dogs"]) == {}


def test_written_columns():
    columns = {"lemma": ["a", "b", "c", "d"], "feats": ["E", "F", "G", "_"]}
    text = with_tree(LINES, [2, 0, 2, 2], ["det", "root", "case", "dep"], **columns)
    lines = text.splitlines(keepends=True)
    assert tag_columns(lines, TAG_CELLS) == tag_columns(LINES, TAG_CELLS) | columns
    # All else is as it was, to the byte.
    assert [lines[number] for number in (0, 2, 5, 7)] == [LINES[number] for number in (0, 2, 5, 7)]
    assert lines[6] == "4\t_\td\t_\tSYM\t_\t2\tdep\t_\t_\r\n"
    with pytest.raises(ValueError, match="shorter"):
        with_tree(LINES, [2, 0, 2, 2], ["det", "root", "case", "dep"], lemma=["a"])
