"""`python -m msattn.analysis`."""

from __future__ import annotations

import runpy
import sys

import pytest
from transformers import BertConfig, BertModel

from msattn import UserError
from msattn.analysis.__main__ import COMMANDS, main
from tests.tiny_models import tiny_relation_extractor

TEXT = "the <e1>author</e1> wrote a <e2>book</e2> ."


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("model"))
    for part in tiny_relation_extractor(scales=[3, 5]):
        part.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("suffix", "start"), [(".png", b"\x89PNG"), (".SVG", b"<?xml"), (".html", b"<!DOCTYPE html>")]
)
def test_one_command_a_picture(checkpoint, tmp_path, suffix, start):
    output = tmp_path / f"attention{suffix}"
    main(["fused", "--model", checkpoint, "--text", TEXT, "--output", str(output)])
    assert output.read_bytes().startswith(start)


def test_query_takes_words_and_positions(checkpoint, tmp_path):
    output = tmp_path / "attention.svg"
    arguments = ["--model", checkpoint, "--text", TEXT, "--output", str(output)]
    main(["fused", *arguments, "--query", "wrote", "0", "--top", "1"])
    assert output.read_text(encoding="utf-8").count('id="link-') == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--output": "attention.gif"}, r"must end in .png, .svg or .html"),
        ({"--output": "nowhere/attention.png"}, "no such folder"),
        ({"--output": "attention.html", "--query": "book"}, "are for .png and .svg"),
        ({"--model": "nowhere/at/all"}, "neither a model's folder"),
        ({"--text": "the author wrote a book"}, "which two entities"),
        ({"--text": "the <e1>author</e1> wrote a book"}, "--text: the tag <e2> is missing"),
        ({"--query": "taxi"}, "no word 'taxi'"),
    ],
)
def test_wrong_arguments(checkpoint, tmp_path, monkeypatch, changes, message):
    monkeypatch.chdir(tmp_path)
    arguments = {"--model": checkpoint, "--text": TEXT, "--output": "attention.png", **changes}
    with pytest.raises(UserError, match=message):
        main(["fused", *(part for pair in arguments.items() for part in pair)])
    assert list(tmp_path.iterdir()) == []


def test_models_without_fused_attention(tmp_path):
    sizes = {"hidden_size": 8, "num_attention_heads": 1, "num_hidden_layers": 1, "intermediate_size": 8}
    BertModel(BertConfig(vocab_size=30, **sizes)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="is a BertModel, which has no fused attention"):
        main(["fused", "--model", str(tmp_path), "--text", TEXT, "--output", str(tmp_path / "attention.png")])


def test_mistakes_end_in_one_sentence(checkpoint, monkeypatch, capsys):
    arguments = ["--model", checkpoint, "--text", TEXT, "--output", "attention"]
    monkeypatch.setattr(sys, "argv", ["msattn", "fused", *arguments])
    monkeypatch.delitem(sys.modules, "msattn.analysis.__main__")
    with pytest.raises(SystemExit) as exit_code:
        runpy.run_module("msattn.analysis", run_name="__main__")
    assert exit_code.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: --output attention: ")


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_the_commands_are_listed(argv, capsys):
    main(argv)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("usage: python -m msattn.analysis COMMAND")
    assert [line.split()[0] for line in lines[2:]] == list(COMMANDS)
    assert all(len(line.split()) > 3 and line.endswith(".") for line in lines[2:])


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_its_help(command, capsys):
    with pytest.raises(SystemExit) as exit_code:
        main([command, "--help"])
    assert exit_code.value.code == 0
    assert f"usage: python -m msattn.analysis {command} " in capsys.readouterr().out


def test_unknown_command():
    with pytest.raises(UserError, match="no command --model; there are fused"):
        main(["--model", "somewhere"])
