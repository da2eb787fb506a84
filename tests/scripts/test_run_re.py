"""`run_re.py` from its arguments to the files that it leaves behind."""

from __future__ import annotations

import json
import statistics

import pytest
import yaml
from huggingface_hub import ModelCard
from transformers import AutoTokenizer, pipeline

from msattn import AutoModelForRelationExtraction, UserError
from msattn.data.relations import read_relations
from msattn.metrics.semeval import score_semeval
from tests.scripts.relation_runs import arguments, logged, read_json, run, same_weights

TIMINGS = ("_runtime", "_per_second")


def scores(metrics: dict) -> dict:
    return {name: value for name, value in metrics.items() if not name.endswith(TIMINGS)}


@pytest.fixture(scope="module")
def options(demo) -> dict:
    """One run, as it stands in an argument file."""
    return {
        "model_name_or_path": str(demo.encoder),
        "train_file": str(demo.train_file),
        "validation_file": str(demo.validation_file),
        "test_file": str(demo.test_file),
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
        "head": "multiscale",
        "config_overrides": ["scales=[3, 5]", "mask_mode=ste", "fusion_residual=true"],
        "num_train_epochs": 3,
        "learning_rate": 1e-3,
        "span_ends": "exclusive",
        "max_train_samples": 160,
        "max_eval_samples": 24,
        "max_predict_samples": 40,
        "per_device_train_batch_size": 16,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
    }


@pytest.fixture(scope="module")
def trained(options, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    file = folder / "arguments.json"
    file.write_text(json.dumps({**options, "output_dir": str(folder / "model")}))
    run([str(file)])
    return folder / "model"


def test_leaves_a_model_and_a_record(trained, demo):
    losses = logged(trained)
    assert statistics.fmean(losses[-10:]) < losses[0]

    metrics = read_json(trained / "all_results.json")
    assert (metrics["train_samples"], metrics["eval_samples"], metrics["test_samples"]) == (160, 24, 40)
    for split in ("train", "eval", "test"):
        assert read_json(trained / f"{split}_results.json").items() <= metrics.items()

    model = AutoModelForRelationExtraction.from_pretrained(trained)
    tokenizer = AutoTokenizer.from_pretrained(trained)
    assert (model.config.scales, model.config.mask_mode, model.config.fusion_residual) == ((3, 5), "ste", True)
    assert model.config.vocab_size == len(tokenizer) == model.get_input_embeddings().num_embeddings
    assert model.config.span_ends == "exclusive"
    assert model.config.id2label[0] == "Cause-Effect(e1,e2)" and model.config.num_labels == 10

    rows = [line.split("\t") for line in (trained / "test_predictions.tsv").read_text().splitlines()]
    gold = read_relations(demo.test_file).select(range(40))
    assert [identifier for identifier, _ in rows] == gold["id"]
    official = score_semeval([label for _, label in rows], gold["label"])
    for name in ("f1", "accuracy"):
        assert metrics[f"test_{name}"] == pytest.approx(official[name])
    report = (trained / "test_report.txt").read_text()
    assert f"Official macro-F1: {metrics['test_f1']:.2f}" in report


def test_model_card_carries_the_results(trained):
    card = ModelCard.load(trained / "README.md")
    metrics = read_json(trained / "all_results.json")
    results = {(r.dataset_split, r.metric_type, r.metric_name): r.metric_value for r in card.data.eval_results}
    assert results[("test", "f1", "Official macro-F1")] == round(metrics["test_f1"], 5)
    assert results[("validation", "accuracy", "Accuracy")] == round(metrics["eval_accuracy"], 5)
    assert "multi-scale-attention" in card.data.tags
    assert 'pipeline("relation-extraction"' in card.text and "trust_remote_code=True)" in card.text


def test_the_same_seed_gives_the_same_numbers_and_weights(trained, options, tmp_path):
    file = tmp_path / "arguments.yaml"
    file.write_text(yaml.safe_dump({**options, "output_dir": str(tmp_path / "model")}))
    run([str(file)])
    assert logged(tmp_path / "model") == logged(trained)
    assert scores(read_json(tmp_path / "model/all_results.json")) == scores(read_json(trained / "all_results.json"))
    assert same_weights(tmp_path / "model", trained)


def test_training_again_leaves_no_scores_of_the_last_model(demo, tmp_path):
    small = {"max_steps": 1, "max_train_samples": 8, "max_predict_samples": 8}
    run(arguments(demo, tmp_path, "do_train", "do_predict", test_file=demo.test_file, **small))
    assert "test_f1" in read_json(tmp_path / "all_results.json")
    run(arguments(demo, tmp_path, "do_train", **small))
    assert "test_f1" not in read_json(tmp_path / "all_results.json")


def test_scores_a_trained_checkpoint_on_a_test_file_alone(trained, demo, tmp_path):
    output = tmp_path / "scored"
    no_training = {"model_name_or_path": trained, "train_file": None, "max_train_samples": None}
    run(arguments(demo, output, "do_predict", test_file=demo.test_file, max_predict_samples=40, **no_training))
    expected = {name: value for name, value in read_json(trained / "test_results.json").items() if name != "epoch"}
    found = read_json(output / "test_results.json")
    for name, value in scores(expected).items():
        assert found[name] == pytest.approx(value, abs=1e-4), name
    assert (output / "test_predictions.tsv").read_text() == (trained / "test_predictions.tsv").read_text()
    assert not (output / "README.md").exists()


def test_predicts_an_unlabelled_test_file(trained, demo, tmp_path):
    blocks = demo.test_file.read_text().split("\n\n")[:12]
    unlabelled = tmp_path / "unlabelled.txt"
    unlabelled.write_text("".join(block.splitlines()[0] + "\n" for block in blocks))
    output = tmp_path / "predicted"
    no_training = {"model_name_or_path": trained, "train_file": None, "max_train_samples": None}
    run(arguments(demo, output, "do_predict", test_file=unlabelled, **no_training))
    lines = (output / "test_predictions.tsv").read_text().splitlines()
    assert lines == (trained / "test_predictions.tsv").read_text().splitlines()[:12]
    assert not (output / "test_report.txt").exists()
    assert "test_f1" not in read_json(output / "test_results.json")


def test_label_file_orders_the_labels_and_may_hold_more(demo, tmp_path):
    labels = sorted(set(read_relations(demo.train_file)["label"]), reverse=True) + ["Entity-Origin(e1,e2)"]
    file = tmp_path / "labels.json"
    file.write_text(json.dumps(labels))
    run(arguments(demo, tmp_path / "model", "do_train", label_file=file, max_steps=1, max_train_samples=8))
    model = AutoModelForRelationExtraction.from_pretrained(tmp_path / "model")
    assert [model.config.id2label[number] for number in range(11)] == labels
    assert (model.config.fusion_layers, model.config.pooling) == (0, "entity_start")  # the default head
    # Whatever is only scored keeps its labels and their order.
    scored = {"model_name_or_path": tmp_path / "model", "max_eval_samples": 4}
    run(arguments(demo, tmp_path / "scored", "do_eval", validation_split_percentage=1, **scored))
    # Other programs write the numbers of labels in the order of strings.
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "id2label": dict(sorted(config["id2label"].items()))}))
    run(arguments(demo, tmp_path / "scored", "do_eval", validation_file=demo.test_file, **scored))
    file.write_text(json.dumps(labels[::-1]))
    with pytest.raises(UserError, match=r"the labels of the classifier in another order: .* is number 0, not 10\."):
        run(arguments(demo, tmp_path / "scored", "do_eval", label_file=file, validation_file=demo.test_file, **scored))
    # A run without them takes a new classification head.
    again = {"model_name_or_path": tmp_path / "model", "max_steps": 1, "max_train_samples": 8}
    run(arguments(demo, tmp_path / "again", "do_train", "ignore_mismatched_sizes", **again))
    assert AutoModelForRelationExtraction.from_pretrained(tmp_path / "again").config.num_labels < 11


@pytest.mark.parametrize(
    "features", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("emb", "att")), "emb+att"]
)
def test_pairwise_attention(features, demo, tmp_path):
    out = tmp_path / "model"
    options = {"head": "pairwise", "test_file": demo.test_file, "max_predict_samples": 8, "max_steps": 2}
    fields = [f"features={features}", "freeze_encoder=true"]
    run(arguments(demo, out, "do_train", "do_predict", **options, config_overrides=fields))
    config = read_json(out / "config.json")
    assert config["architectures"] == ["PairwiseForRelationClassification"]
    assert (config["features"], config["freeze_encoder"]) == (features, True)
    # Its tokenizer knows no markers, and the checkpoint says which head it has.
    assert "[E1]" not in (out / "tokenizer.json").read_text(encoding="utf-8")
    again = tmp_path / "again"
    options = {"model_name_or_path": out, "train_file": None, "max_train_samples": None, "max_predict_samples": 8}
    run(arguments(demo, again, "do_predict", test_file=demo.test_file, **options))
    assert (again / "test_predictions.tsv").read_text() == (out / "test_predictions.tsv").read_text()

    extract = pipeline("relation-extraction", model=str(out), device="cpu")
    rows = [
        "The <e1>storm</e1> caused heavy <e2>damage in the old town</e2>.",
        "<e2>Rain</e2> and <e1>storms</e1>.",
    ] * 2
    alone = [extract(row) for row in rows]
    for result, expected in zip(extract(rows, batch_size=3), alone, strict=True):
        assert result["score"] == pytest.approx(expected["score"], abs=1e-5)
        assert {**result, "score": 0} == {**expected, "score": 0}
