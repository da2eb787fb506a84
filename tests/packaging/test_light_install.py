"""What works where only torch, Transformers and their own dependencies are installed beside msattn."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.hub_double import TOKEN, HubDouble

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
# The packages that moved to extras, and the largest dependencies that only training needs.
ABSENT = "accelerate datasets entmax evaluate matplotlib onnxruntime pandas pyarrow pytrec_eval scipy seqeval sklearn"

LOAD_RUN_AND_SAVE = """
import sys
from importlib.util import find_spec
assert not [name for name in %r.split() if find_spec(name)]

for extra, module in {"analysis": "msattn.analysis", "train": "msattn.metrics.tagging"}.items():
    try:
        __import__(module)
    except ImportError as error:
        assert f"pip install 'msattn[{extra}]'" in str(error), error
    else:
        raise AssertionError(module)

import msattn
from transformers import BertConfig, pipeline
from tests.tiny_models import tiny_relation_extractor

folder = sys.argv[1]
text = "The <e1>author</e1> of a <e2>book</e2>."
model, tokenizer = tiny_relation_extractor()
for saved in (model, tokenizer):
    saved.save_pretrained(f"{folder}/relations")
    saved.push_to_hub("tester/relations")
extract = pipeline("relation-extraction", model=f"{folder}/relations")
expected = extract(text)
assert expected["head"]["text"] == "author", expected
assert pipeline("relation-extraction", model="tester/relations")(text) == expected
extract.save_pretrained(f"{folder}/again")
assert pipeline("relation-extraction", model=f"{folder}/again")(text) == expected

names = {"id2label": {0: "root", 1: "nsubj"}, "label2id": {"root": 0, "nsubj": 1}}
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
encoder = BertConfig(vocab_size=len(tokenizer), **sizes)
parser = msattn.PairwiseParser(msattn.PairwiseConfig(encoder=encoder, **names))
for saved in (parser, tokenizer):
    saved.save_pretrained(f"{folder}/parser")
parse = pipeline("dependency-parsing", model=f"{folder}/parser")
(sentence,) = parse("the dog wrote .")
assert [word["word"] for word in sentence] == ["the", "dog", "wrote", "."], sentence
assert parse.to_conllu([sentence]).count("\\n") == 7
"""

# `modeling` and `configuration` travel with the checkpoint.
WITHOUT_MSATTN = """
import sys
from importlib.util import find_spec
assert find_spec("msattn") is None and find_spec("datasets") is None

from transformers import AutoModel, AutoModelForSequenceClassification

folder = sys.argv[1]
for source in (f"{folder}/relations", "tester/relations"):
    model = AutoModelForSequenceClassification.from_pretrained(source, trust_remote_code=True)
    assert type(model).__name__ == "BertForMultiScaleRE", type(model)
assert type(AutoModel.from_pretrained(f"{folder}/parser", trust_remote_code=True)).__name__ == "PairwiseParser"
model.save_pretrained(f"{folder}/from-there")
"""


def distributions(*roots: str) -> list[metadata.Distribution]:
    """The distributions of that name, and those that they require."""
    names, found = list(roots), {}
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop()).lower()
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another platform
            continue
        if name not in found:
            found[name] = distribution
            needed = [line for line in distribution.requires or () if "extra ==" not in line]
            names += [re.match(r"[\w.-]+", line)[0] for line in needed]
    return [*found.values()]


@pytest.fixture(scope="module")
def light_site(tmp_path_factory):
    """A folder with links to nothing but these packages."""
    site = tmp_path_factory.mktemp("light") / "site"
    site.mkdir()
    for distribution in distributions("torch", "transformers"):
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    return site


@pytest.fixture(scope="module")
def msattn_site(tmp_path_factory):
    site = tmp_path_factory.mktemp("msattn") / "site"
    site.mkdir()
    (site / "msattn").symlink_to(find_spec("msattn").submodule_search_locations[0])
    information = Path(metadata.distribution("msattn").locate_file("")).glob("msattn-*.dist-info")
    for folder in information:
        (site / folder.name).symlink_to(folder)
    return site


def test_models_load_run_and_save_with_torch_and_transformers_alone(light_site, msattn_site, tmp_path):
    """Also without msattn, from the folder and from the Hub."""

    def run(code: str, *path: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "COV"))}
        environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, path)),
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": TOKEN,
            "NO_PROXY": "127.0.0.1",
        }
        # -S: without the packages of the environment that runs the tests.
        done = subprocess.run([sys.executable, "-S", "-c", code, tmp_path], env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()

    with HubDouble() as hub:
        run(LOAD_RUN_AND_SAVE % ABSENT, msattn_site, light_site, ROOT)
        run(WITHOUT_MSATTN, light_site)
    assert (tmp_path / "from-there" / "model.safetensors").is_file()
