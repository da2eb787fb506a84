"""`python -m msattn.analysis map`, `heads` and `diversity`."""

from __future__ import annotations

import json

import pytest
from transformers import T5Config, T5Model

from msattn import UserError
from msattn.analysis import attention_diversity, diversity_table
from msattn.analysis import diversity_figure as diversity
from msattn.analysis import heads_figure as heads
from msattn.analysis import map_figure as maps
from msattn.analysis.__main__ import main
from msattn.analysis.arguments import load_encoder, read_texts, short_names
from tests.plugin.analysis.tiny_encoders import tiny_encoder
from tests.tiny_models import tiny_relation_extractor, tiny_tokenizer

TEXT = ("the author wrote a book .",)
TEXTS = [("a cat .",), TEXT]
FILES = {
    "lines.txt": "a cat .\n\n  the author wrote a book .\n",
    "rows.jsonl": '{"sentence": "a cat .", "label": 1}\n{"sentence": "the author wrote a book .", "label": 0}\n',
    "rows.csv": "sentence\na cat .\nthe author wrote a book .\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the encoders `none/model` and `both/model`, and the files."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(("none", "both")):
        tiny_encoder(seed=seed).save_pretrained(folder / name / "model")
        tiny_tokenizer().save_pretrained(folder / name / "model")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def in_folder(folder, tmp_path, monkeypatch):
    """Commands name the encoders and files from there, and write to `tmp_path`."""
    monkeypatch.chdir(folder)


@pytest.fixture
def drawn(monkeypatch) -> dict:
    """What the commands ask to be drawn."""
    calls = {}
    for module, name in ((maps, "plot_attention_maps"), (heads, "plot_heads"), (diversity, "plot_diversity")):
        monkeypatch.setattr(module, name, lambda *args, name=name: calls.update({name: args}))
    return calls


@pytest.mark.parametrize("command", ["map", "heads", "diversity"])
@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
def test_one_command_a_picture(command, suffix, start, tmp_path):
    output = tmp_path / f"picture{suffix}"
    source = ["--text", TEXT[0]] if command == "map" else ["--file", "lines.txt"]
    main([command, "--model", "none/model", "both/model", *source, "--output", str(output)])
    assert output.read_bytes().startswith(start)


def test_map(drawn):
    main(["map", "--model", "none/model", "both/model", "--text", *TEXT, "--text_pair", "a cat", "--output", "a.png"])
    (one, other), (tokens, _), output, titles, label, darkest = drawn["plot_attention_maps"]
    expected = maps.attention_maps(*load_encoder("none/model"), *TEXT, "a cat")
    assert tokens == expected.tokens and titles == ["none", "both"] and output == "a.png"
    assert label == "attention (all layers, all heads)" and darkest is None
    assert (one == maps.average_attention(expected.maps)).all() and not (one == other).all()


def test_parts_of_a_map(drawn):
    options = ["--layer", "-1", "--head", "2", "--tokens", "3", "--row", "2", "--titles", "before", "--darkest", "0.2"]
    main(["map", "--model", "none/model", "--file", "rows.csv", "--output", "a.png", *options])
    (weights,), (tokens,), _, titles, label, darkest = drawn["plot_attention_maps"]
    expected = maps.attention_maps(*load_encoder("none/model"), *TEXT).maps[-1, 2, :3, :3]
    assert tokens == ["[CLS]", "the", "author"] and titles == ["before"] and darkest == 0.2
    assert label == "attention (layer -1, head 2)"
    assert weights.tolist() == expected.double().tolist()


def test_heads(drawn):
    for source, texts in ((["--text", *TEXT], [TEXT]), (["--file", "rows.jsonl"], TEXTS)):
        main(["heads", "--model", "none/model", "both/model", *source, "--output", "a.png"])
        vectors, output, titles = drawn["plot_heads"]
        assert (output, titles) == ("a.png", ["none", "both"])
        for name, found in zip(("none/model", "both/model"), vectors, strict=True):
            assert (found == heads.head_vectors(*load_encoder(name), texts)).all()


def test_diversity(drawn, tmp_path, capsys):
    output = [str(tmp_path / "diversity.json"), str(tmp_path / "diversity.png")]
    main(["diversity", "--model", "none/model", "both/model", "--file", "lines.txt", "--output", *output])
    expected = [attention_diversity(*load_encoder(name), TEXTS) for name in ("none/model", "both/model")]
    assert capsys.readouterr().out == diversity_table(expected, ["none", "both"]) + "\n"
    assert drawn["plot_diversity"] == (expected, output[1], ["none", "both"])
    results = json.loads((tmp_path / "diversity.json").read_text(encoding="utf-8"))
    assert [(result["model"], result["texts"]) for result in results] == [("none/model", 2), ("both/model", 2)]
    assert results[1]["layers"][0]["entropy"] == expected[1].layers[0].entropy
    assert results[0]["overall"]["similarity"] == expected[0].overall.similarity


def test_models_of_tasks(tmp_path, drawn):
    for part in tiny_relation_extractor():
        part.save_pretrained(tmp_path)
    main(["map", "--model", str(tmp_path), "--text", *TEXT, "--output", "a.png"])
    assert drawn["plot_attention_maps"][0][0].shape == (8, 8)


def test_an_encoder_and_decoder_without_a_token_for_padding(tmp_path, drawn):
    tokenizer = tiny_tokenizer()
    tokenizer.pad_token, tokenizer.eos_token = None, "[SEP]"
    config = T5Config(vocab_size=len(tokenizer), d_model=16, d_kv=8, d_ff=16, num_layers=2, num_heads=2)
    config.decoder_start_token_id = 0
    for part in (T5Model(config), tokenizer):
        part.save_pretrained(tmp_path)
    main(["diversity", "--model", str(tmp_path), "--file", "lines.txt", "--output", "a.png"])
    main(["map", "--model", str(tmp_path), "--text", *TEXT, "--output", "a.png"])
    assert drawn["plot_attention_maps"][0][0].shape == (8, 8)


def test_sentences_in_brackets(tmp_path):
    path = tmp_path / "a.txt"
    for first in ("[1] a cat .", "{ a cat } .", "[ a cat ] ."):
        path.write_text(f"{first}\nthe author wrote a book .\n")
        assert read_texts(str(path)) == [(first,), TEXT]


@pytest.mark.parametrize("name", FILES)
def test_files(name):
    assert read_texts(name) == TEXTS


def test_files_of_pairs(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("id\tA\tB\tlabel\n1\ta cat\ta dog\tx\n2\tthe dog\tthe cat\ty\n", encoding="utf-8")
    assert read_texts(str(path), ["A", "B"]) == [("a cat", "a dog"), ("the dog", "the cat")]
    assert read_texts(str(path), ["B"]) == [("a dog",), ("the cat",)]


def test_short_names():
    assert short_names(["runs/none/seed_1/model"]) == ["model"]
    assert short_names(["runs/none/seed_1", "runs/both/seed_1/"]) == ["none", "both"]
    assert short_names(["runs/none/1", "runs/both/2"]) == ["none/1", "both/2"]
    assert short_names(["runs/none", "runs/none/checkpoint-5"]) == ["none", "checkpoint-5"]
    assert short_names(["a/x/b", "a/x/x/b"]) == ["a/x/b", "a/x/x/b"]
    assert short_names(["a/b", "./a/b"]) == ["b", "b"]
    assert short_names(["google-bert/bert-base-uncased", "FacebookAI/roberta-base"])[1] == "FacebookAI/roberta-base"


@pytest.mark.parametrize(
    ("command", "changes", "message"),
    [
        ("map", {"--output": "a.gif"}, "must end in .png or .svg"),
        ("heads", {"--output": "nowhere/a.png"}, "no such folder"),
        ("diversity", {"--output": "a.html"}, "must end in .png, .svg or .json"),
        ("map", {"--file": "lines.txt"}, "either --text or --file"),
        ("map", {"--text": None}, "either --text or --file"),
        ("map", {"--text": None, "--file": "lines.txt", "--text_pair": "a"}, "--text_pair needs --text"),
        ("map", {"--text": None, "--file": "lines.txt", "--row": "3"}, "--row 3: there are the texts 1 to 2"),
        ("map", {"--layer": "2"}, "no layer 2; the model has 0 to 1"),
        ("map", {"--tokens": "0"}, "--tokens must be at least 1"),
        ("map", {"--darkest": "0"}, "--darkest must be above 0"),
        ("map", {"--text_column_names": "a"}, "--text_column_names needs --file"),
        ("heads", {"--text": None, "--file": "missing.txt"}, "missing.txt: the file cannot be read"),
        ("heads", {"--text": None, "--file": "rows.csv", "--text_column_names": "a"}, "no text in 'a'"),
        ("heads", {"--titles": "none"}, "--titles: there are 1 for 2 encoders"),
        ("heads", {"--model": "./nowhere"}, "--model ./nowhere: it is neither a model's folder"),
        ("diversity", {"--batch_size": "0"}, "--batch_size must be at least 1"),
    ],
)
def test_wrong_arguments(command, changes, message, folder):
    before = sorted(folder.iterdir())
    arguments = {"--model": "none/model both/model", "--text": "a cat", "--output": "a.png", **changes}
    argv = [
        part
        for name, value in arguments.items()
        if value is not None
        for part in (name, *(value.split() if name == "--model" else [value]))
    ]
    with pytest.raises(UserError, match=message):
        main([command, *argv])
    assert sorted(folder.iterdir()) == before


def test_an_empty_file(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("\n")
    with pytest.raises(UserError, match="the file is empty"):
        read_texts(str(path))
