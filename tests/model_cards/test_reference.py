"""The cards of the reference models: what they say, and the code that they show, with small stand-ins."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from transformers import BertConfig, BertModel

ROOT = Path(__file__).parents[2]
CARDS = ROOT / "model_cards"
RECIPES = sorted(path.stem for path in (CARDS / "reference" / "recipes").glob("*.yaml"))
# Every model but those that nobody has trained yet.
WRITTEN = sorted(path.stem for path in CARDS.glob("*.md") if path.stem != "TEMPLATE")
# Of https://huggingface.co/docs/hub/repositories-licenses
LICENCES = {"cc-by-3.0", "cc-by-4.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-sa-4.0", "other", "unknown"}
SECTIONS = [
    *("Use", "Data and licence", "Results", "Calibration", "Limits and bias", "Where it fails", "Size and speed"),
    "Training",
]
SMALL = (
    "--max_train_samples 20 --max_eval_samples 8 --max_predict_samples 8 --num_train_epochs 1 --use_cpu "
    "--report_to none --disable_tqdm true"
).split()
# An absolute path; `</e1>`, `outputs/model` and `https://site/page` are none.
ABSOLUTE_PATH = re.compile(r"(?<![\w.</])/\w|\b[A-Za-z]:\\|\bfile:")
WITHOUT_MSATTN = "import sys; sys.modules['msattn'] = None\n"


@pytest.fixture(scope="module")
def build():
    """The module that builds the models: a script, beside those that it imports."""
    sys.path.insert(0, str(CARDS / "reference"))
    import build

    yield build
    sys.path.remove(str(CARDS / "reference"))


def test_every_card_has_its_recipe():
    assert WRITTEN and set(WRITTEN) <= set(RECIPES)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_name_licence_and_data(name, build):
    recipe = build.recipe_of(name)
    assert recipe["license"] in LICENCES
    assert ("license_name" in recipe and "license_link" in recipe) == (recipe["license"] == "other")
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+", dataset) for dataset in recipe["datasets"])
    assert recipe["command"].startswith("msattn train ")


def test_paths_of_a_machine_are_recognised():
    for path in (Path.home() / "runs", tempfile.gettempdir(), ROOT, ROOT.as_uri(), "~/runs", "C:\\runs"):
        assert ABSOLUTE_PATH.search(f"saved to `{path}`")
    assert not ABSOLUTE_PATH.search("the <e1>dog</e1> and/or outputs/runs, ./runs, ../runs, https://site.org/page")


@pytest.mark.parametrize("name", WRITTEN)
def test_cards_follow_the_rules_of_the_hub(name, build):
    """The server checks the form of the model index, the licence and the names of data and base models."""
    recipe, text = build.recipe_of(name), (CARDS / f"{name}.md").read_text(encoding="utf-8")
    card = ModelCard(text)
    assert re.findall("^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert not ABSOLUTE_PATH.search(text) and "nan" not in text.split()
    assert (card.data.license, card.data.datasets) == (recipe["license"], recipe["datasets"])
    assert card.data.library_name == "transformers" and card.data.language == "en"
    assert card.data.pipeline_tag in (None, "text-classification", "token-classification", "text-ranking")
    # The index is read back as it was written, with one value per metric and split.
    index = yaml.safe_load(text.split("---\n")[1])["model-index"]
    assert [entry["name"] for entry in index] == [f"msattn-{name}"] == [card.data.model_name]
    scores = {(score.dataset_split, score.metric_type): score.metric_value for score in card.data.eval_results}
    assert len(scores) == len(card.data.eval_results)
    assert {score.dataset_type for score in card.data.eval_results} == set(recipe["datasets"])
    # The figures are those of the run.
    results = json.loads((CARDS / f"{name}.json").read_text(encoding="utf-8"))
    results = next(iter(results.get("seeds", {"": results}).values()))
    assert {round(value, 5) for value in results.values() if value != "percent"} >= set(scores.values())


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    """Untrained, with the tokenizer of MSATTN_ENCODER."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(os.environ["MSATTN_ENCODER"])
    folder = tmp_path_factory.mktemp("encoder")
    sizes = {"hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32}
    torch.manual_seed(0)
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_the_code_of_a_card_runs(name, build, encoder, tmp_path, monkeypatch):
    """By its recipe, on a few examples and with an untrained encoder. A committed card shows the same code."""
    if "MSATTN_DATA" not in os.environ:
        pytest.skip("MSATTN_DATA does not name the folder of the corpora")
    monkeypatch.chdir(tmp_path)
    run = Path("outputs", "runs", name)
    run.mkdir(parents=True)
    (run / "speed.md").write_text("Not measured.")
    card, data = build.build(name, os.environ["MSATTN_DATA"], str(encoder), None, *SMALL), tmp_path
    text = card.read_text(encoding="utf-8")
    assert re.findall("^## (.+)$", text, re.MULTILINE) == SECTIONS
    (entry,) = parse_eval_result_entries(yaml.safe_load((card.parent / ".eval_results" / f"{name}.yaml").read_text()))
    assert entry.dataset_id == build.recipe_of(name)["datasets"][0] and entry.value >= 0
    assert not [path for path in card.parent.iterdir() if path.name.startswith(("run.json", "training_args", "_"))]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    if name in WRITTEN:
        committed = (CARDS / f"{name}.md").read_text(encoding="utf-8")
        assert re.findall(r"```python\n(.*?)```", committed, re.DOTALL) == blocks
    for code in blocks:
        blocked = "" if "import msattn" in code else WITHOUT_MSATTN
        environment = {**os.environ, "HF_HOME": str(data / "home")}
        done = subprocess.run([sys.executable, "-c", blocked + code], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
