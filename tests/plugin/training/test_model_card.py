from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard
from transformers import TrainingArguments

from msattn.training.arguments import DataArguments
from msattn.training.dependency_parsing import parsing_card
from msattn.training.model_card import ModelCardFacts, markdown_text, write_model_card
from msattn.training.trainer import FineTuningTrainer
from tests.tiny_models import tiny_relation_extractor

RESULTS = {"eval_f1": 81.234567, "test_f1": 80.5, "test_accuracy": 84, "test_loss": 0.3}


@pytest.fixture
def facts() -> ModelCardFacts:
    return ModelCardFacts(
        task_type="relation-extraction",
        dataset_type="someone/relations",
        dataset_name="Relations",
        metrics={"f1": "Micro-F1", "accuracy": "Accuracy"},
        usage=lambda name: f'pipeline("relation-extraction", model="{name}")',
        description="A relation extractor.",
        tags=["relation-extraction"],
        config_fields=["scales", "mask_mode"],
        carries_pipeline=True,
    )


def card_of(folder, facts, results=RESULTS, base="", **args) -> ModelCard:
    model, _ = tiny_relation_extractor()
    model.config._name_or_path = base
    trainer = FineTuningTrainer(model, TrainingArguments(str(folder), use_cpu=True, **args))
    trainer.state.log_history = [
        {"loss": 1.5, "step": 10, "epoch": 1.0},
        {"eval_loss": 1.25, "eval_f1": 60.0, "step": 10, "epoch": 1.0},
        {"eval_loss": 1.0, "eval_f1": 62.5, "eval_uncalibrated_f1": 61.75, "step": 20, "epoch": 2.0},
        {"train_loss": 1.5, "train_runtime": 1.0, "step": 20, "epoch": 2.0},
    ]
    folder.mkdir(exist_ok=True)
    return ModelCard.load(write_model_card(trainer, facts, results))


@pytest.mark.parametrize(("code", "lang"), [("en", ', lang="en"'), ("cs", "")])
def test_a_parser_splits_by_the_rules_of_its_language(code, lang):
    files = DataArguments(train_file=f"{code}_pdt-ud-train.conllu")
    facts = parsing_card(SimpleNamespace(features="emb", word_tags=None), files)
    assert f'model="a/parser"{lang}, trust' in facts.usage("a/parser") and facts.language == code


def test_results_are_a_model_index(tmp_path, facts):
    card = card_of(tmp_path / "extractor", facts)
    assert card.data.model_name == "extractor"
    found = [(r.dataset_split, r.metric_type, r.metric_name, r.metric_value) for r in card.data.eval_results]
    assert sorted(found) == [
        ("test", "accuracy", "Accuracy", 84),
        ("test", "f1", "Micro-F1", 80.5),
        ("validation", "f1", "Micro-F1", 81.23457),
    ]
    assert {result.dataset_type for result in card.data.eval_results} == {"someone/relations"}
    assert card.data.datasets == ["someone/relations"]
    assert card.data.tags == ["msattn", "relation-extraction"]
    assert "pipeline_tag" not in card.content and card.data.language is None


def test_text_tells_how_it_was_trained(tmp_path, facts):
    text = card_of(tmp_path / "extractor", facts, learning_rate=3e-5, seed=7).text
    assert "| validation | Micro-F1 | 81.23 |" in text
    assert "- learning_rate: 3e-05" in text and "- seed: 7" in text
    assert "- scales: (3,)" in text and "- mask_mode: hard" in text
    assert "| 1.5" in text and "1.25" in text and "60.0" in text
    assert f"| 60.0 | {'':15} |" in text and "| 62.5 | 61.75 " in text  # the first epoch lacks a score
    assert f'model="{tmp_path / "extractor"}"' in text


def test_the_command_can_be_repeated_and_holds_no_secret(tmp_path, facts, monkeypatch):
    secrets = ["--token", "hf_first", "--hub-token=hf_second", "--hub_token", "hf_third"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/run_re.py", "--train_file", "my data.txt", *secrets, "--do_train"])
    text = card_of(tmp_path / "extractor", facts).text
    assert "hf_" not in text
    shown = "run_re.py --train_file 'my data.txt' --token ... --hub-token=... --hub_token ... --do_train"
    assert f"\n{shown}\n" in text


@pytest.mark.parametrize(
    "name", ['a "quoted" b', "a\nb", "a\r\n---\r\nb", "a\u2028b", "a\x85b", "a: b # c", "{{ a }}"]
)
def test_names_may_hold_anything(name, tmp_path, facts):
    named = replace(facts, dataset_name=name, dataset_type=name, description=name, metrics={"f1": name})
    card = card_of(tmp_path / name, named)
    assert card.data.model_name.split() == name.split()
    assert all(result.dataset_name.split() == name.split() for result in card.data.eval_results)
    (code,) = re.findall("```python\n(.*?)\n```", card.text, re.S)
    assert ast.parse(code).body[-1].value.keywords[0].value.value == str(tmp_path / name)


def test_nothing_in_a_text_is_a_link():
    assert markdown_text(r"[a](b) [a\](b)") == r"[a\](b) [a\\\](b)"


def test_a_pipeline_that_travels_and_one_of_transformers(tmp_path, facts):
    text = card_of(tmp_path / "pipeline", facts).text
    assert "With Transformers alone:" in text and "The model and its pipeline load from the code" in text
    card = card_of(tmp_path / "model", replace(facts, carries_pipeline=False, language="he"))
    assert (
        "With msattn installed:" in card.text and "import msattn\nfrom transformers import pipeline\n\n" in card.text
    )
    assert (card.data.pipeline_tag, card.data.language) == ("relation-extraction", "he")


@pytest.mark.parametrize("base", ["google-bert/bert-base-uncased", "", "."])
def test_base_model_is_one_of_the_hub(base, tmp_path, facts):
    card = card_of(tmp_path / "extractor", facts, base=base, hub_model_id="me/extractor")
    assert card.data.base_model == (base if "/" in base else None) and 'model="me/extractor"' in card.text


def test_without_results_there_is_no_model_index(tmp_path, facts):
    card = card_of(tmp_path / "extractor", facts, results={})
    assert card.data.eval_results is None
    assert "model-index" not in card.content
