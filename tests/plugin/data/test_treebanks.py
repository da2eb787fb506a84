"""Trees from files and back, whatever stands around them."""

from __future__ import annotations

import pytest

from msattn.data.files.conllu import conllu_sentences
from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.files.text_lines import text_lines
from msattn.data.treebanks import read_treebank
from msattn.errors import UserError

TREES = """# newdoc
# text = don't stop\r
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tdo\tdo\tAUX\tVBP\tMood=Ind\t3\taux\t3:aux\t_\r
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod:neg\t3:advmod\t_
2.1\tyou\t_\tPRON\t_\t_\t_\t_\t3:nsubj\tCopyOf=-1
3\tstop\tstop\tVERB\tVB\t_\t0\troot\t0:root\t_

# a block without a word


# sent_id = 2
1\t_\t_\tPUNCT\t,\t_\t0\troot\t_\tNote=a\x85b\u2028

# the end"""
# Of the shared task of 2006: no comments, and other names for the last columns.
CONLL_X = "1\tJohn\tJohn\tN\tNNP\tnum=sg\t2\tSBJ\t2\tSBJ\n2\tsleeps\tsleep\tV\tVBZ\t_\t0\tROOT\t0\tROOT\n\n"


@pytest.mark.parametrize("name", ["trees.conllu", "trees.conllu.gz", "trees.conll"])
def test_no_line_of_a_file_is_lost(write, name):
    path = write(TREES, name)
    assert (
        "".join(line for sentence in conllu_sentences(text_lines(path, newline="")) for line in sentence.lines)
        == TREES
    )
    data = read_treebank(path)
    assert data["words"][:] == [["do", "n't", "stop"], ["_"]]
    assert data["heads"][:] == [[3, 3, 0], [0]]
    assert data["relations"][:] == [["aux", "advmod:neg", "root"], ["root"]]
    assert data["where"][:] == [f"{path}:4", f"{path}:13"]
    assert "".join(with_tree(row["lines"], row["heads"], row["relations"]) for row in data) == TREES


def test_another_tree_changes_nothing_but_the_tree(write):
    first, _ = read_treebank(write(TREES, "trees.conllu"))
    expected = TREES[: TREES.index("# a block")].replace("3\taux\t3:aux", "0\troot\t3:aux")
    expected = expected.replace("3\tadvmod:neg\t", "1\tx\t").replace("0\troot\t0:root", "1\txcomp\t0:root")
    assert with_tree(first["lines"], [0, 1, 1], ["root", "x", "xcomp"]) == expected
    for heads in ([0, 1], [0, 1, 1, 1]):
        with pytest.raises(ValueError):
            with_tree(first["lines"], heads, ["x"] * len(heads))


def test_conll_x(write):
    (row,) = read_treebank(write(CONLL_X, "ptb.conllx"))
    assert (row["heads"], row["relations"]) == ([2, 0], ["SBJ", "ROOT"])
    assert with_tree(row["lines"], [0, 1], ["ROOT", "OBJ"]) == CONLL_X.replace("2\tSBJ\t2", "0\tROOT\t2").replace(
        "0\tROOT\t0", "1\tOBJ\t0"
    )


def test_partial_trees(write):
    text = f"{row(1, '_')}{row(2, '_')}\n{row(1, '_')}{row(2, '1')}{row(3, '2')}\n"
    data = read_treebank(write(text, "trees.conllu"))
    assert data["heads"][:] == [[-1, -1], [-1, 1, 2]] and data["relations"][1] == ["dep"] * 3


def test_plain_sentences(write):
    path = write("\ufeffWe do n't .\r\n\n \n10\u00a0000  \u200d\tdogs\n", "raw.txt")
    data = read_treebank(path)
    assert data["words"][:] == [["We", "do", "n't", "."], ["10\u00a0000", "\u200d", "dogs"]]
    assert data["where"][:] == [f"{path}:1", f"{path}:4"] and "heads" not in data.column_names
    text = with_tree(data[1]["lines"], [3, 1, 0], ["a", "b", "c"])
    again = read_treebank(write(text, "again.conllu"))
    assert again[0]["words"] == data[1]["words"] and again[0]["heads"] == [3, 1, 0]
    assert text.startswith(
        "# sent_id = 4\n# text = 10\u00a0000 \u200d dogs\n1\t10\u00a0000\t_\t_\t_\t_\t3\ta\t_\t_\n2\t"
    )
    assert conllu_lines(["a", "b"]) == ["# text = a b\n", "1\ta" + "\t_" * 8 + "\n", "2\tb" + "\t_" * 8 + "\n", "\n"]


def test_conllu_plus(write):
    text = "# global.columns = ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC PARSEME:MWE\n"
    text += row(1, "0").replace("\n", "\t1:VID\n") + "\n" + row(1, "0").replace("\n", "\t*\n") + "\n"
    data = read_treebank(write(text, "mwe.conllup"))
    assert "".join(with_tree(row["lines"], row["heads"], row["relations"]) for row in data) == text


def row(number: int, head: str) -> str:
    return f"{number}\tw{number}\t_\t_\t_\t_\t{head}\tdep\t_\t_\n"


RANGE = "\ta" + 8 * "\t_" + "\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (row(1, "0") + "2\tword\n", ":2: CoNLL-U has 10 columns with tabs between them, not 2"),
        (row(1, "0") + row(3, "1"), ":2: the word has to be number 2, not '3'"),
        (row(1, "0") + row(2, "3"), ":2: the head of word 2 has to be 0 or the number of another of the 2 words"),
        (row(1, "0") + row(2, "2"), ":2: the head of word 2 has to be 0 or the number of another"),
        (row(1, "0") + row(2, "__"), ":2: the head of word 2 has to be .* or _ if it is unknown, not '__'"),
        (row(1, "0") + row(2, "_") + row(3, "0"), ":3: word 3 is a second root, after word 1; a tree has one:"),
        (row(1, "_") + row(2, "3") + row(3, "2"), ":2: word 2 is its own head, by way of 3"),
        (row(1, "2") + row(2, "3") + row(3, "1"), ":1: word 1 is its own head, by way of 2, 3; a tree has no cycle"),
        ("1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n\n", ":1: the sentence has a multi-word token, and no word"),
        ("1-0\ta" + 8 * "\t_" + "\n", ":1: the multi-word token 1-0 ends before it starts"),
        (f"1-2{RANGE}{row(1, '0')}2-3{RANGE}", ":3: the multi-word token 2-3 ends before it starts, or overlaps"),
        (f"1-3{RANGE}{row(1, '0')}{row(2, '1')}", ":1: the multi-word token 1-3 ends behind the last word, 2"),
        (row(1, "0") + f"1.a{RANGE}", ":2: the word has to be number 2, not '1.a'"),
        (row(1, "0") + f"3.1{RANGE}", ":2: the word has to be number 2, not '3.1'"),
        (row(1, "0").replace("w1", ""), ":1: word 1 has no form; an unknown one is _"),
        ("# global.columns = ID FORM HEAD\n", ":1: the first columns have to be ID FORM LEMMA .* MISC, not ' ID FORM"),
        ("# only a comment\n\n", ": there is no example in it"),
        ("", ": there is no example in it"),
    ],
)
def test_what_is_no_tree_is_refused(write, content, message):
    path = write(content, "trees.conllu")
    with pytest.raises(UserError, match=f"^{path}{message}"):
        read_treebank(path)
