"""Scores of tags beside those of the evaluation of the CoNLL 2018 shared task, which the package `udtools` holds."""

from __future__ import annotations

import io
import random

import pytest

from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.metrics.tag_scores import SCORES, score_conll18

TAGS = {
    "upos": "NOUN VERB DET ADP AUX".split(),
    "xpos": "NN VB _".split(),
    "feats": ["_", "Number=Sing", "Case=Nom|Number=Sing", "Case=Nom|Number=Sing|Typo=Yes", "Mood=Ind"],
    "lemma": ["dog", "be", "_"],
}
RELATIONS = "nsubj obj nmod:poss aux aux:pass det case punct conj cc cop".split()
NAMES = {"upos": "UPOS", "xpos": "XPOS", "ufeats": "UFeats", "alltags": "AllTags", "lemmas": "Lemmas"} | {
    "mlas": "MLAS",
    "blex": "BLEX",
}


def drawn(draw: random.Random, words: int) -> dict[str, list]:
    order = draw.sample(range(1, words + 1), words)
    heads = [0] * words
    for place, word in enumerate(order[1:], start=1):
        heads[word - 1] = draw.choice(order[:place])
    relations = [draw.choice(RELATIONS) if head else "root" for head in heads]
    return {name: draw.choices(tags, k=words) for name, tags in TAGS.items()} | {
        "heads": heads,
        "relations": relations,
    }


def near(sentence: dict[str, list], draw: random.Random) -> dict[str, list]:
    """The same tree and tags, but for some words."""
    other = drawn(draw, len(sentence["heads"]))
    columns = {
        name: [cell if draw.random() < 0.9 else draw.choice(TAGS[name]) for cell in sentence[name]] for name in TAGS
    }
    tree = sentence if draw.random() < 0.6 else other
    relations = [name if draw.random() < 0.9 or name == "root" else "nsubj" for name in tree["relations"]]
    return columns | {"heads": tree["heads"], "relations": relations}


def conllu(sentences: list[dict[str, list]]) -> str:
    text = ""
    for sentence in sentences:
        tags = {name: sentence[name] for name in TAGS}
        words = ["w"] * len(sentence["heads"])
        text += with_tree(conllu_lines(words), sentence["heads"], sentence["relations"], **tags)
    return text


@pytest.mark.parametrize("seed", range(5))
def test_beside_the_evaluation_of_the_shared_task(seed):
    udeval = pytest.importorskip("udtools.udeval")
    draw = random.Random(seed)
    true = [drawn(draw, draw.randint(1, 12)) for _ in range(60)]
    found = [near(sentence, draw) for sentence in true]
    read = [udeval.load_conllu(io.StringIO(conllu(sentences)), "", {}) for sentences in (true, found)]
    expected = udeval.evaluate(*read)
    assert set(NAMES) == set(SCORES)
    scores = score_conll18(found, true)
    assert scores == pytest.approx({ours: 100 * expected[theirs].f1 for ours, theirs in NAMES.items()}, rel=1e-12)
    assert all(0 < score < 100 for score in scores.values())
    assert set(score_conll18(true, true).values()) == {100.0}


def test_what_is_scored():
    sentence = {"upos": ["NOUN"], "xpos": ["_"], "lemma": ["dog"], "feats": ["_"], "heads": [0], "relations": ["root"]}
    # XPOS and FEATS are empty in the references.
    assert score_conll18([{**sentence, "xpos": ["NN"]}], [sentence]) == {"upos": 100, "lemmas": 100, "blex": 100}
    assert score_conll18([{"upos": ["VERB"]}], [sentence]) == {"upos": 0}
    tags = {name: cells for name, cells in sentence.items() if name not in ("heads", "relations")}
    assert score_conll18([sentence], [tags]) == {"upos": 100, "lemmas": 100}
    assert score_conll18([{}], [sentence]) == {}
    # A head that is not known has no part.
    words = {"lemma": ["a", "b"], "heads": [0, 1], "relations": ["root", "obj"]}
    for unknown in ({"heads": [0, -1]}, {"relations": ["root", "_"]}):
        assert score_conll18([words], [words | unknown]) == {"lemmas": 100, "blex": 100}
    determined = {"upos": ["NOUN", "DET"], "feats": ["Number=Sing", "Definite=Def"]}
    determined |= {"heads": [0, 1], "relations": ["root", "det"]}
    for unknown in ({"heads": [0, -1]}, {"relations": ["root", "_"]}):
        assert score_conll18([determined], [determined | unknown])["mlas"] == 100
    heads = {name: cells for name, cells in determined.items() if name != "relations"}
    assert score_conll18([heads], [heads]).keys() == {"upos", "ufeats"}
    punctuation = sentence | {"relations": ["punct"]}
    assert score_conll18([punctuation], [punctuation])["blex"] == 0
