"""`run_re.py` on sentences with several typed entities, and the label of no relation."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from huggingface_hub import ModelCard
from transformers import pipeline

import run_re
from msattn import UserError

SCRIPT = run_re
ENTITIES = [
    {"type": "CAUSE", "start": 1, "end": 2},
    {"type": "EFFECT", "start": 4, "end": 5},
    {"type": "PLACE", "start": 7, "end": 8},
]
SENTENCE = {
    "tokens": "The storm caused heavy damage in the town .".split(),
    "entities": ENTITIES,
    "relations": [{"type": "P1", "head": 0, "tail": 1}, {"type": "P2", "head": 1, "tail": 2}],
}


@pytest.fixture
def encoder(demo):
    return demo.encoder


@pytest.fixture
def files(tmp_path):
    """Twelve sentences, and names of their labels."""
    data, names = tmp_path / "data.json", tmp_path / "names.json"
    data.write_text(json.dumps([{**SENTENCE, "orig_id": number} for number in range(12)]))
    names.write_text(json.dumps({"P1": "causes", "P2": ["happens in", "where an effect takes place"]}))
    return {"train_file": data, "validation_file": data, "test_file": data, "label_file": names}


def test_from_entities_with_types_to_triples(run, files, tmp_path):
    flags = ("do_train", "do_eval", "do_predict")
    options = {"head": "entity-start", "entity_markers": "typed", "negative_pairs": 2, "learning_rate": 1e-3}
    metrics = run(*flags, **files, **options, max_steps=12)
    out = tmp_path / "out"
    config = json.loads((out / "config.json").read_text())
    assert set(config["label2id"]) == {"causes", "happens in", "no_relation"}
    assert (config["entity_markers"], config["negative_label"]) == ("typed", "no_relation")
    assert 0.05 <= config["calibration_temperature"] <= 20 and "decision_threshold" in config
    # Training draws two pairs without a relation; the scores are of all six pairs of each sentence.
    assert metrics["train_samples"] == 48 and metrics["eval_samples"] == metrics["test_samples"] == 72
    assert config["trained_pairs"]["both_orders"] is False and config["trained_pairs"]["max_length"] == 17
    assert 0 <= metrics["test_false_positives"] <= 100
    assert 0 <= metrics["eval_ece"] <= 100 and 0 <= metrics["test_ece"] <= 100

    lines = [json.loads(line) for line in (out / "test_predictions.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines[:4]] == ["0:0-1", "0:1-2", *(line["id"] for line in lines[2:4])]
    assert lines[0]["head"] == {"start": 4, "end": 9, "text": "storm", "label": "CAUSE"}
    assert lines[0]["text"] == " ".join(SENTENCE["tokens"]) and lines[0]["gold"] == "causes"
    rows = [line.split("\t") for line in (out / "test_predictions.tsv").read_text().splitlines()]
    assert [(line["id"], line["prediction"]) for line in lines] == [tuple(row) for row in rows]
    assert all(0 <= line["probability"] <= 1 for line in lines if line["probability"] is not None)
    assert {line["prediction"] for line in lines if line["probability"] is None} == {"no_relation"}
    report = (out / "test_report.txt").read_text()
    assert f"Micro-F1 without no_relation, the label of no relation: {metrics['test_f1']:.2f}" in report
    assert report.startswith("test: scored on all 72 ordered pairs of the entities of 1 texts; ")
    card = ModelCard.load(out / "README.md")
    assert "Micro-F1 without no_relation" in {result.metric_name for result in card.data.eval_results}
    assert "- negative_label: no_relation" in card.text
    # Its example names types, which the markers want.
    code = card.text.split("```python\n")[1].split("```")[0]
    exec(code)

    # The pipeline gives the probabilities of the file.
    extract = pipeline("relation-extraction", model=str(out), device="cpu")
    found = extract({**SENTENCE, "entities": ENTITIES}, negative="keep", pairs=[(0, 1)])
    assert (found[0]["label"], found[0]["score"]) == (
        lines[0]["prediction"],
        pytest.approx(lines[0]["probability"], abs=1e-5),
    )
    with pytest.raises(UserError, match="no markers for the type 'PER'; it knows CAUSE, EFFECT, PLACE"):
        extract({**SENTENCE, "entities": [{**ENTITIES[0], "type": "PER"}, ENTITIES[1]]})

    # So does the checkpoint alone.
    given = {"test_file": files["test_file"], "label_file": files["label_file"]}
    again = run("do_predict", **given, model_name_or_path=out, output_dir=tmp_path / "again")
    assert again["test_f1"] == pytest.approx(metrics["test_f1"])
    assert again["test_ece"] == pytest.approx(metrics["test_ece"], abs=1e-3)

    # A longer window is that of the pipeline's max_length.
    words, apart = SENTENCE["tokens"], [ENTITIES[0], {"type": "EFFECT", "start": 24, "end": 25}]
    far = {
        "tokens": [*words[:3], *["the"] * 20, *words[3:]],
        "entities": apart,
        "relations": SENTENCE["relations"][:1],
    }
    given["test_file"] = tmp_path / "far.json"
    given["test_file"].write_text(json.dumps([far]))
    run("do_predict", **given, model_name_or_path=out, output_dir=tmp_path / "far", max_seq_length=60)
    line = json.loads((tmp_path / "far" / "test_predictions.jsonl").read_text().splitlines()[0])
    (found,) = extract(far, negative="keep", pairs=[(0, 1)], max_length=60)
    assert (found["label"], found["score"]) == (line["prediction"], pytest.approx(line["probability"], abs=1e-5))


@pytest.mark.parametrize("head", ["entity-start", "pairwise"])
def test_several_relations_a_pair(run, files, tmp_path, head):
    twice = [*SENTENCE["relations"], {"type": "P2", "head": 0, "tail": 1}]
    data = tmp_path / "several.json"
    data.write_text(
        json.dumps(
            [
                {**SENTENCE, "tokens": ["No", *SENTENCE["tokens"][1:-1], str(number)], "relations": twice}
                for number in range(12)
            ]
        )
    )
    files = {"train_file": data, "validation_file": data, "test_file": data}
    metrics = run(
        "do_train", "do_eval", "do_predict", "multi_label", **files, head=head, learning_rate=3e-3, max_steps=40
    )
    out = tmp_path / "out"
    config = json.loads((out / "config.json").read_text())
    assert set(config["label2id"]) == {"P1", "P2"} and config["negative_label"] == "no_relation"
    assert config["problem_type"] == "multi_label_classification"
    assert metrics["test_samples"] == 72 and metrics["test_f1"] > 90
    lines = [json.loads(line) for line in (out / "test_predictions.jsonl").read_text().splitlines()]
    assert lines[0]["gold"] == ["P1", "P2"] and lines[2]["gold"] == []
    read = [line for line in lines if line["probability"] is not None]
    assert all(len(line["prediction"]) == len(line["probability"]) for line in read)
    assert f" {len(lines) - len(read)} of other types" in (out / "test_report.txt").read_text()
    rows = [line.split("\t") for line in (out / "test_predictions.tsv").read_text().splitlines()]
    assert len({row[0] for row in rows}) == 72 and {row[1] for row in rows} <= {"P1", "P2", "no_relation"}
    assert "pairs without a relation get one." in (out / "test_report.txt").read_text()

    again = run("do_predict", test_file=data, model_name_or_path=out, output_dir=tmp_path / "again")
    assert again["test_f1"] == pytest.approx(metrics["test_f1"])
    extract = pipeline("relation-extraction", model=str(out), device="cpu")
    first = json.loads(data.read_text())[0]
    found = extract({"tokens": first["tokens"], "entities": ENTITIES, "pairs": [(0, 1)]})
    scores = dict(zip(lines[0]["prediction"], lines[0]["probability"], strict=True))
    assert {one["label"]: one["score"] for one in found} == pytest.approx(scores, abs=1e-4)


def test_the_old_head_of_an_encoder_does_not_count(run, demo, tmp_path):
    """That of a re-ranker, or of texts with several labels."""
    old = shutil.copytree(demo.encoder, tmp_path / "old")
    config = json.loads((old / "config.json").read_text())
    (old / "config.json").write_text(json.dumps({**config, "problem_type": "multi_label_classification"}))
    data = rows_of(tmp_path / "data.jsonl", "P1", "none")
    run("do_train", model_name_or_path=old, train_file=data["train_file"], max_steps=1)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config.get("problem_type") != "multi_label_classification" and set(config["label2id"]) == {"P1", "none"}


def test_checkpoints_are_compared_by_the_answers_of_the_run(run, tmp_path):
    """With thresholds: no relation has a probability of 0.5 yet."""
    data = tmp_path / "data.json"
    tokens = [[*SENTENCE["tokens"], *"..."[: number % 3], str(number)] for number in range(12)]
    data.write_text(json.dumps([{**SENTENCE, "tokens": each} for each in tokens]))
    flags = ("do_train", "do_eval", "multi_label", "load_best_model_at_end")
    steps = {"max_steps": 4, "eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 2, "save_steps": 2}
    files = {"train_file": data, "validation_file": data, "metric_for_best_model": "f1"}
    metrics = run(*flags, **files, **steps, learning_rate=1e-4)
    state = json.loads((tmp_path / "out" / "trainer_state.json").read_text())
    assert metrics["eval_uncalibrated_f1"] == 0 < metrics["eval_f1"]
    assert state["best_metric"] == pytest.approx(metrics["eval_f1"])


def test_random_pairs_that_get_a_relation_are_counted(run, demo, capsys):
    small = {"max_train_samples": 16, "max_eval_samples": 8, "negative_pairs": 1, "negative_label": "Other"}
    metrics = run(
        "do_train", "do_eval", train_file=demo.train_file, validation_file=demo.validation_file, **small, max_steps=1
    )
    assert 0 <= metrics["eval_false_positive_rate"] <= 100
    assert 8 < metrics["eval_samples"] <= 16 and 16 < metrics["train_samples"] <= 32
    drawn = {prefix: int(metrics[f"{prefix}_samples"]) - known for prefix, known in (("train", 16), ("eval", 8))}
    shown = re.search(r"--negative_pairs drew: (.*)\.", capsys.readouterr().out)
    assert shown and {part.split()[0]: int(part.split()[1]) for part in shown[1].split(", ")} == drawn


def test_random_pairs_that_are_too_far_apart(run, tmp_path):
    rows = [
        {"tokens": ["a", "b", *["the"] * words], "h": {"pos": [0, 1]}, "t": {"pos": [1, 2]}, "relation": label}
        for words, label in ((5, "P1"), (6, "Other"), (90, "P1"))
    ]
    for name, some in {"train": rows[:2], "test": rows[2:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    files = {f"{name}_file": tmp_path / f"{name}.jsonl" for name in ("train", "test")}
    metrics = run("do_train", "do_predict", **files, max_steps=1, max_seq_length=9, on_overflow="skip")
    assert metrics["test_samples"] == 1 and "test_false_positive_rate" not in metrics


def rows_of(path, *labels):
    row = {"text": "A cat naps.", "head": [2, 5], "tail": [6, 10]}
    path.write_text("".join(json.dumps({**row, "label": label}) + "\n" for label in labels))
    return {"train_file": path, "test_file": path}


def test_the_negative_label_is_named_everywhere(run, tmp_path, capsys, caplog):
    run("do_train", "do_predict", **rows_of(tmp_path / "data.jsonl", "No Relation", "P1"), max_steps=1)
    name, out = "No Relation", tmp_path / "out"
    assert f"The label {name!r} stands for no relation." in capsys.readouterr().out.splitlines()
    assert "is known to stand for no relation" not in caplog.text
    assert json.loads((out / "config.json").read_text())["negative_label"] == name
    assert f"Micro-F1 without {name}, the label of no relation: " in (out / "test_report.txt").read_text()
    card = ModelCard.load(out / "README.md")
    assert f"- negative_label: {name}" in card.text
    assert f"Micro-F1 without {name}" in {result.metric_name for result in card.data.eval_results}


def test_there_may_be_no_negative_label(run, tmp_path, caplog):
    run("do_train", "do_predict", **rows_of(tmp_path / "data.jsonl", "P1", "NA"), negative_label="", max_steps=1)
    assert "stand for no relation" not in caplog.text
    assert json.loads((tmp_path / "out" / "config.json").read_text())["negative_label"] == ""
    assert (tmp_path / "out" / "test_report.txt").read_text().endswith("No label stands for no relation.\n")
    assert "negative_label:" not in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"head": "pairwise", "entity_markers": "typed"}, "--entity_markers is not for --head pairwise"),
        ({"entity_markers": "typed"}, "an entity has no type, which typed entity markers name"),
        ({"negative_pairs": 1, "negative_label": ""}, 'a --negative_label that is not ""'),
    ],
)
def test_wrong_options(fails, demo, options, message):
    assert message in fails("do_train", train_file=demo.train_file, max_train_samples=4, **options)
