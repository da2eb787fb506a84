"""Pushing to the Hub and loading from it, with msattn and without, against a test double on loopback."""

from __future__ import annotations

import json

import pytest

from tests.hub_double import TOKEN, HubDouble
from tests.light_site import run_code

pytestmark = pytest.mark.heavy

SENTENCE = "The <e1>author</e1> of a <e2>book</e2>."

WITH_MSATTN = """
import json, sys
import torch
import msattn
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments, pipeline
from tests.tiny_models import tiny_relation_extractor

folder, facts = sys.argv[1], {}
model, tokenizer = tiny_relation_extractor()
facts["first"] = model.push_to_hub("tester/relations").oid
tokenizer.push_to_hub("tester/relations")
with torch.no_grad():
    model.classifier.bias += 1.0
facts["second"] = model.push_to_hub("tester/relations", revision="main").oid
model.save_pretrained(f"{folder}/private", push_to_hub=True, repo_id="tester/private", private=True)

row = {"input_ids": [2, 21, 6, 22, 23, 7, 24, 3], "attention_mask": [1] * 8, "entity_starts": [1, 4], "labels": 0}
arguments = TrainingArguments(
    f"{folder}/trained", max_steps=1, per_device_train_batch_size=2, report_to=[], push_to_hub=True, use_cpu=True,
    hub_model_id="tester/trained", disable_tqdm=True,
)
trainer = Trainer(model, arguments, train_dataset=Dataset.from_list([row] * 2), processing_class=tokenizer)
trainer.train()
trainer.push_to_hub(tags=["relation-extraction"])

for name in ("tester/relations", "tester/private"):
    loaded = msattn.AutoModelForRelationExtraction.from_pretrained(name)
    assert type(loaded) is msattn.BertForMultiScaleRE
assert type(AutoModelForSequenceClassification.from_pretrained("tester/relations")) is msattn.BertForMultiScaleRE
facts["result"] = pipeline("relation-extraction", model="tester/relations")(sys.argv[2])
model = msattn.AutoModelForRelationExtraction.from_pretrained("tester/relations", revision=facts["first"])
facts["bias"] = model.classifier.bias.tolist()
ids = torch.tensor([row["input_ids"]])
facts["logits"] = loaded.eval()(ids, entity_starts=torch.tensor([[1, 4]])).logits.tolist()
json.dump(facts, open(f"{folder}/facts.json", "w"))
"""

WITHOUT_MSATTN = """
import json, sys
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

folder, first, facts = sys.argv[1], sys.argv[2], {}
for name, arguments in {"untrusted": {}, "private": {"trust_remote_code": True}}.items():
    source = "tester/private" if name == "private" else "tester/relations"
    try:
        AutoModelForSequenceClassification.from_pretrained(source, **arguments)
    except (OSError, ValueError) as error:
        facts[name] = f"{type(error).__name__}: {error}"

model = AutoModelForSequenceClassification.from_pretrained("tester/relations", trust_remote_code=True)
assert AutoConfig.from_pretrained("tester/relations", trust_remote_code=True).model_type == "multiscale_bert"
facts["tokens"] = AutoTokenizer.from_pretrained("tester/relations").tokenize("[E1] author [/E1]")
base = AutoModel.from_pretrained("tester/relations", trust_remote_code=True)
facts["classes"] = [type(model).__name__, type(base).__name__]
facts["modules"] = [type(model).__module__.partition(".")[0], type(base).__module__.partition(".")[0]]
ids, starts = torch.tensor([[2, 21, 6, 22, 23, 7, 24, 3]]), torch.tensor([[1, 4]])
facts["logits"] = model.eval()(ids, entity_starts=starts).logits.tolist()

model.save_pretrained(f"{folder}/again")
facts["auto_map"] = json.load(open(f"{folder}/again/config.json"))["auto_map"]
again = AutoModelForSequenceClassification.from_pretrained(f"{folder}/again", trust_remote_code=True)
facts["again"] = again.eval()(ids, entity_starts=starts).logits.tolist()

old = AutoModelForSequenceClassification.from_pretrained("tester/relations", revision=first, trust_remote_code=True)
facts["bias"] = old.classifier.bias.tolist()
json.dump(facts, open(f"{folder}/facts.json", "w"))
"""


def run(code, hub, folder, *arguments, **options):
    run_code(
        code,
        folder,
        *arguments,
        HF_ENDPOINT=hub.url,
        HF_HOME=str(folder / "home"),
        HF_HUB_DISABLE_XET="1",
        HF_HUB_DISABLE_PROGRESS_BARS="1",
        NO_PROXY="127.0.0.1",
        **options,
    )
    return json.loads((folder / "facts.json").read_text())


@pytest.fixture(scope="module")
def hub():
    with HubDouble() as double:
        yield double


@pytest.fixture(scope="module")
def with_msattn(hub, tmp_path_factory):
    return run(WITH_MSATTN, hub, tmp_path_factory.mktemp("with"), SENTENCE, HF_TOKEN=TOKEN)


@pytest.fixture(scope="module")
def without_msattn(hub, with_msattn, light_site, tmp_path_factory):
    return run(WITHOUT_MSATTN, hub, tmp_path_factory.mktemp("without"), with_msattn["first"], packages=[light_site])


def test_a_push_carries_weights_code_tokenizer_and_card(hub, with_msattn):
    files = hub.files("tester/relations")
    assert {
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "configuration_multiscale_bert.py",
        "modeling_multiscale_bert.py",
        "pipeline_relation_extraction.py",
    } <= set(files)
    assert b"from .configuration_multiscale_bert import " in files["modeling_multiscale_bert.py"]
    assert with_msattn["result"]["head"] == {"start": 4, "end": 10, "text": "author"}


def test_save_pretrained_can_push_to_a_private_repository(hub, with_msattn):
    assert hub.repositories["tester/private"].private
    assert {"model.safetensors", "modeling_multiscale_bert.py"} <= set(hub.files("tester/private"))


def test_the_trainer_pushes_the_code_with_the_model(hub, with_msattn):
    files = hub.files("tester/trained")
    assert {"README.md", "model.safetensors", "modeling_multiscale_bert.py", "pipeline_relation_extraction.py"} <= set(
        files
    )
    assert b"relation-extraction" in files["README.md"]


def test_a_revision_loads_as_it_was(with_msattn, without_msattn):
    assert with_msattn["first"] != with_msattn["second"]
    assert with_msattn["bias"] == without_msattn["bias"] == [0.0, 0.0, 0.0]


def test_remote_code_loads_without_msattn_and_gives_the_same_results(with_msattn, without_msattn):
    assert without_msattn["classes"] == ["BertForMultiScaleRE", "MultiScaleBertModel"]
    assert without_msattn["modules"] == ["transformers_modules"] * 2
    assert without_msattn["tokens"] == ["[E1]", "author", "[/E1]"]
    assert without_msattn["logits"][0] == pytest.approx(with_msattn["logits"][0], abs=1e-6)


def test_what_remote_code_saves_stands_on_its_own(without_msattn):
    assert without_msattn["again"][0] == pytest.approx(without_msattn["logits"][0], abs=1e-6)
    assert without_msattn["auto_map"] == {
        "AutoConfig": "configuration_multiscale_bert.MultiScaleBertConfig",
        "AutoModel": "modeling_multiscale_bert.MultiScaleBertModel",
        "AutoModelForRelationExtraction": "modeling_multiscale_bert.BertForMultiScaleRE",
        "AutoModelForSequenceClassification": "modeling_multiscale_bert.BertForMultiScaleRE",
    }


def test_remote_code_needs_consent(without_msattn):
    assert "trust_remote_code=True" in without_msattn["untrusted"]


def test_a_private_repository_needs_a_token(without_msattn):
    assert "tester/private" in without_msattn["private"]
    assert "private repo" in without_msattn["private"]
