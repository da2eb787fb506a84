"""Treebanks in many scripts: read, parsed and written, all but the tree byte for byte, and valid at UD's level 2."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from transformers import pipeline

from msattn.data.treebanks import read_treebank
from tests.tiny_models import labelled, tiny_parser

# Tokens between spaces: ~ where the text has none, = and + for the words of a token, ^ for a word that is not there.
TEXTS = {
    "latin": "Du=De+le pain et d'~l'~eau~, dámelo=da+me+lo~! | Il ^vient Ça=cela~?",
    "arabic": "وكتب=و+كتب الولد=ال+ولد رسالة~. | ^هو ذهب~؟",
    "hebrew": "הבית=ה+בית של אבא~. | כשהלך=כש+הלך ^הוא~!",
    "devanagari": "लड़का घर गया~। | ^वह किताबें पढ़ता है~।",
    "cyrillic": "Он ^был читал книгу~. | Дай-ка=Дай+-ка «~Мир~»~!",
    "greek": "Πήγε στο=σ+το σπίτι~. | ^αυτός Ήρθε~;",
    "han": "我~喜欢~猫~。 | ^他~来~了~！",
    "georgian": "ბიჭმა წერილი დაწერა~. | ^ის მოვიდა~!",
}


def conllu(marked: str) -> str:
    """A treebank whose words depend on the first one, with comments, empty nodes, and MISC."""
    text = "# newdoc id = d\n# global.Entity = eid\n"
    for number, sentence in enumerate(marked.split(" | "), start=1):
        rows, raw, count = [], "", 0
        for part in sentence.replace("~", "~ ").split(" "):
            token, space = part.removesuffix("~"), not part.endswith("~")
            if token.startswith("^"):
                rows.append(f"{count}.1\t{token[1:]}" + "\t_" * 6 + f"\t{max(count, 1)}:dep\tCopyOf=-1")
                continue
            form, _, words = token.partition("=")
            misc = "_" if space else "SpaceAfter=No"
            if words:
                rows.append(f"{count + 1}-{count + 1 + words.count('+')}\t{form}" + "\t_" * 7 + f"\t{misc}")
                misc = "Gloss=x|Ref=1"
            raw += form + " " * space
            for word in (words or form).split("+"):
                count += 1
                tree = "0\troot\t0:root" if count == 1 else "1\tdep\t1:dep"
                rows.append(f"{count}\t{word}\t{word}\tX\tx|y\t_\t{tree}\t{misc}")
        text += f"# sent_id = s{number}\n# text = {raw.rstrip()}\n# note\t= _ |\n" + "\n".join(rows) + "\n\n"
    return text


@pytest.fixture(scope="module")
def parse():
    model, tokenizer = tiny_parser(num_hidden_layers=1, **labelled("root", "dep"))
    return pipeline("dependency-parsing", model=model, tokenizer=tokenizer)


def invalid(text: str, path: Path) -> set[str]:
    """What UD's validator says at level 2, but for the relations of an untrained parser, which tags nothing."""
    path.write_text(text, encoding="utf-8", newline="")
    found = io.StringIO()
    pytest.importorskip("udtools").Validator(level=2, lang="ud", output=found).validate_files([str(path)])
    lines = {line.partition("]")[2].strip() for line in found.getvalue().splitlines()}
    return {line for line in lines if line and "root" not in line.lower() and "unknown-upos" not in line}


def without_trees(text: str) -> list:
    rows = [line.split("\t") for line in text.split("\n")]
    return [cells[:6] + cells[8:] if cells[0].isdecimal() else cells for cells in rows]


def check_round_trip(parse, path: Path, folder: Path) -> None:
    before = path.read_bytes().decode()
    after = "".join(parse.complete(read_treebank(path).to_list(), batch_size=32))
    assert without_trees(after) == without_trees(before) and after != before
    assert invalid(after, folder / "after.conllu") <= invalid(before, folder / "before.conllu")


@pytest.mark.parametrize("script", TEXTS)
def test_a_treebank_comes_back(parse, tmp_path, script):
    path = tmp_path / "gold.conllu"
    assert not invalid(conllu(TEXTS[script]), path)
    check_round_trip(parse, path, tmp_path)


@pytest.mark.parametrize("script", TEXTS)
def test_raw_text_with_given_words(parse, tmp_path, script):
    """By a tokenizer that knows the language: its ranges, words and spaces are written, and the file is valid."""
    gold = conllu(TEXTS[script])
    raw = " ".join(line.removeprefix("# text = ") for line in gold.split("\n") if line.startswith("# text = "))
    written = parse.to_conllu(parse(raw, word_tokenizer=lambda text: gold))
    assert not invalid(written, tmp_path / "written.conllu")

    def words(text):
        rows = [line.split("\t") for line in text.split("\n") if "\t" in line and line[0] != "#"]
        return [(*cells[:2], "SpaceAfter=No" in cells[9]) for cells in rows if "." not in cells[0]]

    found, expected = words(written), words(gold)
    assert found[:-1] == expected[:-1] and found[-1][:2] == expected[-1][:2]


@pytest.mark.slow
@pytest.mark.skipif("MSATTN_DATA" not in os.environ, reason="needs the public data")
@pytest.mark.parametrize("part", ["dev", "test"])
def test_the_french_sequoia_comes_back(parse, tmp_path, part):
    path = Path(os.environ["MSATTN_DATA"], "ud_french_sequoia", f"fr_sequoia-ud-{part}.conllu")
    check_round_trip(parse, path, tmp_path)
