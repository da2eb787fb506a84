"""What works where only torch, Transformers and their own dependencies are installed beside msattn."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.light_site import ROOT, run_code

pytestmark = pytest.mark.heavy

# The packages that moved to extras, and the largest dependencies that only training needs.
ABSENT = "accelerate datasets entmax evaluate matplotlib onnxruntime pandas pyarrow pytrec_eval scipy seqeval sklearn"

LOAD_RUN_AND_SAVE = """
import sys
from importlib.util import find_spec
assert not [name for name in %r.split() if find_spec(name)]

for extra, module in {"train": "msattn.metrics.tagging"}.items():
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
extract = pipeline("relation-extraction", model=f"{folder}/relations")
expected = extract(text)
assert expected["head"]["text"] == "author", expected
extract.save_pretrained(f"{folder}/again")
found = pipeline("relation-extraction", model=f"{folder}/again")(text)
assert abs(found.pop("score") - expected.pop("score")) < 1e-5 and found == expected

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
    """`tests/modeling/test_checkpoints_without_msattn.py` goes on without msattn."""
    run_code(LOAD_RUN_AND_SAVE % ABSENT, tmp_path, packages=[msattn_site, light_site, ROOT])
