"""`run_parsing.py` from its arguments to the files that it leaves behind."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from safetensors.torch import load_file
from transformers import AutoConfig, pipeline

import run_parsing
from msattn import PairwiseParser, UserError
from msattn.data.files.conllu_lines import conllu_lines, with_tree
from msattn.data.treebanks import read_treebank
from msattn.metrics.parsing import score_trees
from msattn.predict import main as predict
from msattn.training import parsing_trainer as parsing
from msattn.trees.parses import DECODERS, parse_batch
from tests.scripts.command_line import command_line
from tests.scripts.relation_runs import launch, logged, read_json, same_weights

SCRIPT = run_parsing
# Heads and relations that can be learned from the words alone.
TREES = {
    "the dog wrote a book .": ([2, 3, 0, 5, 3, 3], "det nsubj root det obj punct"),
    "a cat wrote .": ([2, 3, 0, 3], "det nsubj root punct"),
    "the author in the house wrote .": ([2, 6, 5, 5, 2, 0, 6], "det nsubj case det nmod root punct"),
    "dog wrote \u200d .": ([2, 0, 2, 2], "nsubj root obj punct"),
}


def conllu(sentences: list[str], trees: bool = True) -> str:
    blocks = []
    for number, sentence in enumerate(sentences):
        words = sentence.split(" ")
        heads, names = TREES[sentence] if trees else (["_"] * len(words), " ".join("_" for _ in words))
        comment, one, two, *rest = with_tree(conllu_lines(words), heads, names.split(" ")).splitlines(keepends=True)
        token, node = (f"{name}\tmore\t" + "\t".join("_" * 8) + "\n" for name in ("1-2", "2.1"))
        blocks += [f"# sent_id = {number}\n", comment, token, one, two, node, *rest]
    return "".join(blocks)


def trees(path: Path) -> list[tuple[list[int], list[str]]]:
    data = read_treebank(path)
    return list(zip(data["heads"], data["relations"], strict=True))


def rows(path: Path) -> list[tuple[list[int], list[str]]]:
    """As `trees`, for heads that need not be trees."""
    found = []
    for block in path.read_text(encoding="utf-8").split("\n\n")[:-1]:
        cells = [line.split("\t") for line in block.splitlines() if line.partition("\t")[0].isdecimal()]
        found.append(([int(row[6]) for row in cells], [row[7] for row in cells]))
    return found


def test_trees_are_learned_saved_and_used(run, write, tmp_path):
    text = conllu([*TREES] * 4)
    train = write(text, "train.conllu")
    dev = write(text, "dev.conllu")
    raw = write("the cat wrote .\n\ndog wrote \u200d .\n", "raw.txt")
    options = {
        "max_steps": 150,
        "learning_rate": 1e-2,
        "per_device_train_batch_size": 16,
        "objective": "head_select",
        "config_overrides": ["scorer=biaffine", "arc_size=16", "relation_size=16"],
    }
    results = run("do_train", "do_eval", "do_predict", train_file=train, validation_file=dev, test_file=raw, **options)
    assert results["eval_las"] == results["eval_uas"] == results["eval_root_accuracy"] == 100
    assert results["eval_las_no_punct"] == 100 and results["eval_true_nonprojective"] == 0
    assert "test_las" not in results
    assert (results["train_samples"], results["test_samples"]) == (16, 2)

    out = tmp_path / "out"
    assert (out / "eval_predictions.conllu").read_text(encoding="utf-8") == text
    assert trees(out / "test_predictions.conllu") == [
        ([2, 3, 0, 3], ["det", "nsubj", "root", "punct"]),
        ([2, 0, 2, 2], ["nsubj", "root", "obj", "punct"]),
    ]
    card = ModelCard.load(out / "README.md")
    assert "dependency-parsing" in card.data.tags and "objective: head_select" in card.text
    assert "trust_remote_code=True" in card.text
    assert card.data.language is None
    assert {"uas", "las", "clas"} <= {result.metric_type for result in card.data.eval_results}
    # A score names the file that it was measured on.
    assert {(result.dataset_split, result.dataset_name) for result in card.data.eval_results} == {
        ("validation", "dev.conllu")
    }
    assert "| validation (dev.conllu) |" in card.text

    parse = pipeline("dependency-parsing", model=str(out), device="cpu")
    assert [(word["head"], word["relation"]) for word in parse("the dog wrote .")[0]] == (
        [(2, "det"), (3, "nsubj"), (0, "root"), (3, "punct")]
    )

    # From the checkpoint alone, and where the trees are not known.
    again = run("do_eval", model_name_or_path=out, validation_file=train, output_dir=tmp_path / "again")
    assert again["eval_las"] == 100
    blind = write(conllu([*TREES], trees=False), "blind.conllu")
    run("do_predict", model_name_or_path=out, test_file=blind, output_dir=tmp_path / "blind")
    assert (tmp_path / "blind" / "test_predictions.conllu").read_text(encoding="utf-8") == conllu([*TREES])


def without_heads(text: str, hidden: str) -> str:
    """The same CoNLL-U with `_` for head and relation of the words with this relation."""
    lines = [line.split("\t") for line in text.splitlines(keepends=True)]
    for cells in lines:
        if len(cells) > 7 and cells[7] == hidden:
            cells[6:8] = "_", "_"
    return "".join("\t".join(cells) for cells in lines)


def test_a_head_without_a_relation_teaches_the_head(run, write, tmp_path, caplog):
    blank = "\t_\t_\t_\t_\t"
    rows = [f"1\tdog{blank}2\t{name}\t_\t_\n2\tsleeps{blank}0\troot\t_\t_\n\n" for name in ("_", "nsubj")]
    path = write("".join(rows), "bare.conllu")
    options = {"max_steps": 2, "train_file": path, "validation_file": path}
    results = run("do_train", "do_eval", objective="head_select", **options)
    assert PairwiseParser.from_pretrained(tmp_path / "out").config.label2id == {"nsubj": 0, "root": 1}
    assert "train: 1 of 2 sentences, the first at " in caplog.text and "no loss and no score" in caplog.text
    assert "relation that the parser does not know" not in caplog.text and results["eval_las"] * 3 % 100 < 0.1
    # The parser is scored with its own relations, and goes on with other ones.
    other = write(conllu([*TREES]), "more.conllu")
    more = {"model_name_or_path": tmp_path / "out", "output_dir": tmp_path / "more", "train_file": other}
    run("do_eval", validation_split_percentage=50, **more)
    assert "words have a relation that the parser does not know" in caplog.text
    run("do_train", "ignore_mismatched_sizes", **more)
    assert PairwiseParser.from_pretrained(tmp_path / "more").config.num_labels == 7
    empty = write("1\tdog\t_\t_\t_\t_\t0\t_\t_\t_\n\n", "empty.conllu")
    with pytest.raises(UserError, match="empty.conllu: no word has a relation; the column DEPREL is _ throughout"):
        run("do_train", train_file=empty)


def test_partial_trees_teach_what_they_have(run, write, tmp_path, caplog):
    text = conllu([*TREES] * 2)
    partial = write(without_heads(text, "det"), "partial.conllu")
    options = {"max_steps": 2, "objective": "head_select", "train_file": partial, "validation_file": partial}
    results = run("do_train", "do_eval", **options)
    assert (
        "train: 6 of 8 sentences, the first at" in caplog.text and "These 10 of 42 words have no loss" in caplog.text
    )
    assert "det" not in config_of(tmp_path / "out")["label2id"] and "_" not in config_of(tmp_path / "out")["label2id"]
    found = rows(tmp_path / "out" / "eval_predictions.conllu")
    assert results["eval_uas"] == score_trees(found, trees(partial))["uas"]
    assert "eval_ece" in results and results["eval_true_nonprojective"] == 0
    # The parser has never seen a `det`.
    test = write(text, "test.conllu")
    results = run("do_predict", model_name_or_path=tmp_path / "out", test_file=test, output_dir=tmp_path / "test")
    assert "test: 10 words have a relation that the parser does not know, such as 'det'" in caplog.text
    assert results["test_label_accuracy"] < 100


def test_several_treebanks(run, write, tmp_path):
    one, two = write(conllu([*TREES][:2]), "one.conllu"), write(conllu([*TREES][2:]), "two.conllu")
    (tmp_path / "more").mkdir()
    three = write(conllu([*TREES][1:3]), "more/two.conllu")
    results = run("do_train", "do_eval", train_file=[one, two], validation_file=[one, two, three])
    assert (results["train_samples"], results["eval_samples"]) == (4, 6)
    written = rows(tmp_path / "out" / "eval_predictions.conllu")
    for name, path, part in (("one", one, slice(2)), ("two", two, slice(2, 4)), ("two_2", three, slice(4, 6))):
        scores = score_trees(written[part], trees(path))
        assert [results[f"eval_{name}_{score}"] for score in ("uas", "las")] == [scores["uas"], scores["las"]]
    assert "one.conllu + two.conllu" in ModelCard.load(tmp_path / "out" / "README.md").text


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def test_the_validation_data_choose_the_decoder(run, write, tmp_path, caplog):
    train = write(conllu([*TREES]), "train.conllu")
    out = tmp_path / "out"
    results = run("do_train", "do_eval", "do_predict", train_file=train, validation_file=train, test_file=train)
    assert "--validation_file and --test_file are the same file" in caplog.text
    uas = {name: results[f"eval_uas_{name}"] for name in DECODERS}
    chosen = config_of(out)["tree_decoder"]
    assert chosen == max((name for name in DECODERS if name != "greedy"), key=uas.get)
    assert results["eval_uas"] == results["test_uas"] == uas[chosen] and "test_uas_mst" not in results
    options = {"model_name_or_path": out, "validation_file": train, "output_dir": tmp_path / "asked"}
    assert run("do_eval", decode="mbr_eisner", **options)["eval_uas"] == uas["mbr_eisner"]

    # Probabilities are calibrated, and the pipeline and later runs decode as the checkpoint says.
    temperature = config_of(out)["calibration_temperature"]
    assert 0.05 <= temperature <= 20 and temperature != 1
    assert {"eval_ece", "eval_tree_ece", "eval_uncalibrated_ece", "test_uncalibrated_tree_ece"} <= results.keys()
    assert f"tree_decoder: {chosen}" in ModelCard.load(out / "README.md").text
    for decoder in ("greedy", "mbr", None):
        changed = config_of(out) | {"tree_decoder": decoder}
        if decoder is None:
            del changed["tree_decoder"], changed["calibration_temperature"]  # of an earlier version
        (out / "config.json").write_text(json.dumps(changed))
        options = {"model_name_or_path": out, "validation_file": train, "output_dir": tmp_path / f"{decoder}-again"}
        again = run("do_eval", **options)
        assert again["eval_uas"] == uas[decoder or "mst"]
        written = score_trees(rows(options["output_dir"] / "eval_predictions.conllu"), trees(train))
        assert {f"eval_{name}": score for name, score in written.items()}.items() <= again.items()
        assert ("eval_uncalibrated_ece" in again) == (decoder is not None)
        parse = pipeline("dependency-parsing", model=str(out), device="cpu")
        found = [[word["head"] for word in parse({"words": words})] for words in read_treebank(train)["words"]]
        assert found == [heads for heads, _ in rows(tmp_path / f"{decoder}-again" / "eval_predictions.conllu")]


@pytest.mark.parametrize(("decode", "stored"), [("eisner", "eisner"), (None, None)])
def test_without_validation_data_nothing_is_chosen(run, write, tmp_path, decode, stored):
    run("do_train", train_file=write(conllu([*TREES]), "train.conllu"), decode=decode)
    config = config_of(tmp_path / "out")
    assert (config.get("tree_decoder"), config.get("calibration_temperature")) == (stored, None)


@pytest.mark.parametrize(
    "options",
    [
        {"features": "emb", "freeze_encoder": True},
        {"freeze_encoder": True},
        {"freeze_encoder": True, "mlm_epochs": 1, "eval_on_start": True},
        {"features": "emb", "train_sampling_strategy": "batch_rebalance"},
        {"features": "emb+att"},
        {"features": "emb+att", "decode": "mst"},
        {"features": "att", "objective": "pairs", "config_overrides": ["none_weight=0.5", "attention_scale=10"]},
    ],
)
def test_rows_of_the_paper(run, write, tmp_path, options):
    train = write(conllu([*TREES]), "train.conllu")
    options = {"decode": "greedy", "new_layers_learning_rate": 0.01, **options}
    results = run("do_train", "do_eval", train_file=train, validation_file=train, **options)
    config = AutoConfig.from_pretrained(tmp_path / "out").to_dict()
    fields = {name: options[name] for name in ("features", "freeze_encoder", "objective") if name in options}
    assert fields.items() <= config.items() and config["none_weight"] == (0.5 if "config_overrides" in options else 1)
    assert 0 <= results["eval_las"] <= results["eval_uas"] <= 100
    assert (tmp_path / "out" / "mlm" / "model.safetensors").exists() == ("mlm_epochs" in options)


def test_resumed_ends_in_the_same_weights(run, write, tmp_path):
    train = write(conllu([*TREES] * 4), "train.conllu")
    options = {"train_file": train, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    run("do_train", output_dir=tmp_path / "whole", **options)
    shutil.copytree(tmp_path / "whole" / "checkpoint-2", tmp_path / "out" / "checkpoint-2")
    run("do_train", resume_from_checkpoint="last", **options)
    assert same_weights(tmp_path / "out", tmp_path / "whole")


def without_dropout(encoder: Path, folder: Path) -> Path:
    shutil.copytree(encoder, folder)
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config_of(folder) | rates))
    return folder


@pytest.mark.slow
@pytest.mark.heavy
def test_two_processes_train_and_parse_as_one(run, encoder, write, tmp_path):
    # A loss is a mean over the words of a batch: that of two halves is the same if they have as many.
    options = {
        "model_name_or_path": without_dropout(encoder, tmp_path / "encoder"),
        "train_file": write(conllu(["a cat wrote .", "dog wrote \u200d ."] * 8), "train.conllu"),
        "test_file": write(conllu([*TREES] * 2 + ["a cat wrote ."]), "test.conllu"),
        "max_steps": 4,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "objective": "head_select",
    }
    one = run("do_train", "do_predict", per_device_train_batch_size=4, output_dir=tmp_path / "one", **options)
    options |= {"use_cpu": True, "report_to": "none", "save_strategy": "no", "output_dir": tmp_path / "two"}
    launch(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "run_parsing.py"],
        command_line(["do_train", "do_predict"], {**options, "per_device_train_batch_size": 2}),
    )
    assert len(logged(tmp_path / "two")) == 4
    assert logged(tmp_path / "two") == pytest.approx(logged(tmp_path / "one"), abs=1e-5)
    two = read_json(tmp_path / "two" / "all_results.json")
    assert two["test_samples"] == 9 and two["test_uas"] == one["test_uas"]
    first, second = (tmp_path / folder / "test_predictions.conllu" for folder in ("one", "two"))
    assert first.read_text() == second.read_text()


@pytest.fixture
def parser(run, write, tmp_path) -> Path:
    """A parser after two steps."""
    train = write(conllu([*TREES]), "train.conllu")
    run("do_train", train_file=train, output_dir=tmp_path / "parser", objective="head_select")
    return tmp_path / "parser"


def test_a_long_sentence_has_a_batch_of_its_own(run, parser, write, monkeypatch):
    shapes = []

    def record(model, inputs, *args):
        shapes.append(tuple(inputs["input_ids"].shape))
        return parse_batch(model, inputs, *args)

    monkeypatch.setattr(parsing, "parse_batch", record)
    words = ["book"] * 50
    text = with_tree(conllu_lines(words), [0] + [1] * 49, ["root"] + ["obj"] * 49)
    test = write(conllu(["a cat wrote ."] * 20) + text, "test.conllu")
    # A row stands for 128 word pieces.
    run("do_predict", model_name_or_path=parser, test_file=test, per_device_eval_batch_size=1)
    assert shapes[0] == (2, 52) and sum(rows for rows, _ in shapes) == 21
    assert all(rows * pieces <= 128 for rows, pieces in shapes)


@pytest.mark.parametrize("options", [{"objective": "head_select"}, {"config_overrides": "none_weight=0.3"}])
def test_accumulated_batches_are_one_large_batch(run, encoder, write, tmp_path, options):
    encoder = without_dropout(encoder, tmp_path / "encoder")
    # Sentences of different lengths, some of whose words have no head.
    train = write(without_heads(conllu([*TREES] * 2), "punct"), "train.conllu")
    options = {"model_name_or_path": encoder, "train_file": train, "optim": "sgd", "learning_rate": 0.5, **options}
    run("do_train", per_device_train_batch_size=8, output_dir=tmp_path / "one", **options)
    accumulated = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    run("do_train", output_dir=tmp_path / "four", **accumulated, **options)
    one, four = (load_file(tmp_path / folder / "model.safetensors") for folder in ("one", "four"))
    for name, weight in one.items():
        torch.testing.assert_close(four[name], weight, rtol=0, atol=1e-6)


def test_the_loss_does_not_depend_on_the_batches(run, parser, write, tmp_path):
    options = {"model_name_or_path": parser, "validation_file": write(conllu([*TREES] * 3), "dev.conllu")}
    losses = [
        run("do_eval", per_device_eval_batch_size=rows, output_dir=tmp_path / str(rows), **options)["eval_loss"]
        for rows in (1, 8)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_long_sentences(run, write, tmp_path, caplog):
    words = ["dog", "wrote", *["book"] * 100, "."]
    text = with_tree(conllu_lines(words), [2, 0, *[2] * 100, 102], ["dep"] * len(words))
    train = write(text + conllu([*TREES]), "long.conllu")
    files = {"train_file": train, "validation_file": train, "test_file": train}
    results = run("do_train", "do_eval", "do_predict", max_seq_length=40, **files)
    assert "eval: 1 sentences have too many tokens for one input, the first at" in caplog.text
    assert results["test_uas"] == results["eval_uas"]
    written = trees(tmp_path / "out" / "test_predictions.conllu")
    assert [len(tree[0]) for tree in written] == [103, 6, 4, 7, 4]
    assert results["eval_uas"] == score_trees(written, trees(train))["uas"]
    # The checkpoint keeps --max_seq_length.
    raw = write([{"words": words}], "raw.jsonl")
    predict([str(tmp_path / "out"), str(raw), "--output", str(tmp_path / "predicted.conllu")])
    assert trees(tmp_path / "predicted.conllu")[0] == written[0]


def test_errors(fails, write):
    train, raw = write(conllu([*TREES]), "train.conllu"), write("the dog\n", "raw.txt")
    for flag, options, message in (
        ("do_train", {"train_file": raw}, "raw.txt: the sentences have no trees"),
        ("do_train", {"train_file": [train, train]}, "names a treebank twice"),
        ("do_train", {"train_file": train, "max_seq_length": 2}, "leave no room for a word"),
        ("do_eval", {"validation_file": train}, "the relations are not known"),
        ("do_train", {"train_file": train, "label_smoothing_factor": 0.1}, "smoothing_factor is for labels"),
        ("do_train", {"train_file": train, "config_overrides": "tree_decoder=mbr"}, "field itself; give --decode"),
    ):
        assert message in fails(flag, **options)
