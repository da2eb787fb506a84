"""`msattn plot`: one command a picture."""

from __future__ import annotations

import json

import pytest

from msattn import BertForMultiScaleSequenceClassification, UserError
from msattn.plots.command import KINDS, plot
from tests.plugin.plots.test_encoders import classifier, encoder
from tests.plugin.plots.test_errors import prediction
from tests.tiny_models import saved_model, tiny_relation_extractor

TEXT = "the <e1>author</e1> wrote a <e2>book</e2> ."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    saved_model(folder / "fusion", *tiny_relation_extractor(scales=[3, 5]))
    saved_model(folder / "classes", classifier())
    saved_model(folder / "encoder", encoder("roberta"))
    saved_model(folder / "typed", tiny_relation_extractor(scales=[3], entity_markers="typed-punct")[0])
    compare = tiny_relation_extractor(text_columns=["premise", "hypothesis"])[0].config
    saved_model(folder / "compare", BertForMultiScaleSequenceClassification(compare))
    (folder / "test_predictions.jsonl").write_text(json.dumps(prediction()))
    (folder / "texts.jsonl").write_text('{"text": "a cat .", "label": "1"}\n{"text": "the dog", "label": "0"}\n')
    return folder


@pytest.mark.parametrize(
    ("argv", "output", "start"),
    [
        (["fused", "fusion", "--text", TEXT], "a.html", b"<!DOCTYPE html>"),
        (["fused", "compare", "--text", "a cat", "--text_pair", "a dog"], "a.html", b"<!DOCTYPE html>"),
        (["errors", "fusion", "--file", "test_predictions.jsonl"], "a.html", b"<!DOCTYPE html>"),
        (["relations", "fusion", "--text", TEXT], "a.svg", b"<svg"),
        (["fused", "typed", "--text", TEXT, "--types", "PER", "WORK"], "a.html", b"<!DOCTYPE html>"),
        (["relations", "typed", "--text", TEXT, "--types", "PER", "WORK"], "a.svg", b"<svg"),
        (["maps", "encoder", "fusion", "--text", "a cat", "a dog", "--layer", "0", "--head", "1"], "a.svg", b"<?xml"),
        (["heads", "encoder", "classes", "--file", "texts.jsonl"], "a.svg", b"<?xml"),
    ],
)
def test_one_command_a_picture(folder, monkeypatch, argv, output, start):
    monkeypatch.chdir(folder)
    plot([*argv, "--output", output])
    assert (folder / output).read_bytes().startswith(start)


def test_mistakes(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for argv, message in (
        (["fused", "classes", "--text", TEXT, "--output", "b.html"], "no fusion layer"),
        (["fused", "./nowhere", "--text", TEXT, "--output", "b.png"], "nowhere"),
        (["relations", "typed", "--text", TEXT, "--output", "b.svg"], "the head has no type"),
        (["fused", "fusion", "--text", "the author", "--output", "b.html"], "which two entities"),
        (["fused", "compare", "--text", "a cat", "--output", "b.html"], "compares two texts"),
        (["maps", "encoder", "--text", "a", "--layer", "2", "--output", "b.png"], "index 2 is out of bounds"),
        (["fused", "fusion", "--text", TEXT, "--output", "b.gif"], r"b.gif: the file must end in .html"),
    ):
        with pytest.raises((UserError, OSError), match=message):
            plot(argv)
    with pytest.raises(SystemExit):
        plot(["maps", "encoder", "--text", "a", "--output", "b.png", "--query", "a"])
    assert "unrecognized arguments: --query a" in capsys.readouterr().err


def test_help_lists_all_kinds(capsys):
    with pytest.raises(SystemExit):
        plot(["--help"])
    out = capsys.readouterr().out
    assert all(f"    {kind}" in out for kind in KINDS)
