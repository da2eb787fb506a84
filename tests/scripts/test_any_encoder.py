"""The scripts on encoders of every kind, each with its own kind of tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    pipeline,
)

import run_glue
import run_parsing
import run_re
import run_tagging
from msattn import (
    AutoModelForDependencyParsing,
    AutoModelForRelationExtraction,
    MultiScaleForRelationExtraction,
    MultiScaleForSequenceClassification,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from msattn.data.treebanks import read_treebank
from msattn.errors import UserError
from tests.tiny_encoders import CAUSAL_FAMILIES, FAMILIES, saved_tiny_encoder
from tests.tiny_tokenizers import KIND_OF

SENTENCES = [
    ("The author of a large book wrote .".split(), [2, 7, 6, 6, 6, 2, 0, 7]),
    (["Dogs", "do", "n't", "like", "\u200b", "你好", "!"], [4, 4, 4, 0, 4, 4, 4]),
] * 3
RELATIONS = [
    {"text": "The author of a large book.", "h": {"pos": [4, 10]}, "t": {"pos": [22, 26]}, "relation": "writes"},
    {"text": "Dogs ignored the cats.", "h": {"pos": [17, 21]}, "t": {"pos": [0, 4]}, "relation": "Other"},
] * 3


@pytest.fixture(params=[pytest.param(name, marks=[] if name == "t5" else pytest.mark.slow) for name in FAMILIES])
def family(request):
    return request.param


@pytest.fixture
def encoder(family, tmp_path) -> Path:
    return saved_tiny_encoder(family, tmp_path / "encoder")


@pytest.fixture
def treebank(write) -> Path:
    lines = []
    for words, heads in SENTENCES:
        for number, (word, head) in enumerate(zip(words, heads, strict=True), start=1):
            lines.append(f"{number}\t{word}\t_\t{'X' if head else 'Y'}\t_\t_\t{head}\tr{head % 2}\t_\t_\n")
        lines.append("\n")
    return write("".join(lines), "trees.conllu")


@pytest.fixture
def relations(write) -> Path:
    return write(RELATIONS, "relations.jsonl")


def test_parsing(run_into, treebank, encoder, family):
    data = {"train_file": treebank, "test_file": treebank}
    out = run_into(run_parsing, "do_train", "do_predict", model_name_or_path=encoder, **data, max_seq_length=20)
    model = AutoModelForDependencyParsing.from_pretrained(out)
    assert type(model) is PairwiseParser and model.config.encoder.model_type == family
    kind = KIND_OF[family]
    assert model.config.root == ("learned" if "without" in kind or "alone" in kind else "token")
    written = read_treebank(out / "test_predictions.conllu")
    assert written["words"][:] == [words for words, _ in SENTENCES]
    parse = pipeline("dependency-parsing", model=str(out), device="cpu")
    parsed = parse([{"words": words} for words, _ in SENTENCES], batch_size=4, max_length=20)
    assert [[word["word"] for word in sentence] for sentence in parsed] == [words for words, _ in SENTENCES]
    for sentence, heads in zip(parsed, written["heads"][:], strict=True):
        assert [word["head"] for word in sentence] == heads


@pytest.mark.slow
@pytest.mark.parametrize("head", ["cls", "entity-start", "r-bert", "multiscale", "plain-attention", "pairwise"])
def test_relations(run_into, relations, encoder, family, head):
    options = {"model_name_or_path": encoder, "train_file": relations, "test_file": relations, "head": head}
    if head in ("cls", "r-bert") and family in CAUSAL_FAMILIES:
        with pytest.raises(UserError, match=f"causal encoder such as {family!r}"):
            run_into(run_re, "do_train", **options)
        return
    out = run_into(run_re, "do_train", "do_predict", **options)
    model = AutoModelForRelationExtraction.from_pretrained(out)
    expected = PairwiseForRelationClassification if head == "pairwise" else MultiScaleForRelationExtraction
    assert type(model) is expected and model.config.encoder.model_type == family
    extract = pipeline("relation-extraction", model=str(out), device="cpu")
    rows = [{"text": row["text"], "head": row["h"]["pos"], "tail": row["t"]["pos"]} for row in RELATIONS]
    for row, found in zip(rows, extract(rows, batch_size=4), strict=True):
        alone = extract(row)
        assert found["score"] == pytest.approx(alone["score"], abs=1e-5) and found["head"] == alone["head"]
    # The checkpoint says which model it is of.
    again = run_into(run_re, "do_predict", model_name_or_path=out, test_file=relations, into="again")
    assert (again / "test_predictions.tsv").read_text() == (out / "test_predictions.tsv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("head", ["plain", "cls", "plain-attention", "multiscale"])
def test_sentences(run_into, write, encoder, family, head):
    rows = write([{"text": row["text"], "label": row["relation"]} for row in RELATIONS], "texts.jsonl")
    options = {"model_name_or_path": encoder, "train_file": rows, "test_file": rows, "head": head}
    has_classifier = type(AutoConfig.from_pretrained(encoder)) in AutoModelForSequenceClassification._model_mapping
    if (head == "cls" and family in CAUSAL_FAMILIES) or (head == "plain" and not has_classifier):
        with pytest.raises(UserError, match="causal encoder such as|Unrecognized configuration class"):
            run_into(run_glue, "do_train", **options)
        return
    out = run_into(run_glue, "do_train", "do_predict", **options)
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert (type(model) is MultiScaleForSequenceClassification) == (head != "plain")
    again = run_into(run_glue, "do_predict", model_name_or_path=out, test_file=rows, into="again")
    assert (again / "test_predictions.tsv").read_text() == (out / "test_predictions.tsv").read_text()


@pytest.mark.slow
def test_tags(run_into, treebank, encoder):
    files = {"train_file": treebank, "test_file": treebank}
    if type(AutoConfig.from_pretrained(encoder)) not in AutoModelForTokenClassification._model_mapping:
        with pytest.raises(UserError, match="Unrecognized configuration class"):  # as of Gemma-3
            run_into(run_tagging, "do_train", model_name_or_path=encoder, **files)
        return
    out = run_into(run_tagging, "do_train", "do_predict", model_name_or_path=encoder, **files)
    text = (out / "test_predictions.conll").read_text(encoding="utf-8")
    found = [[line.split("\t")[0] for line in block.split("\n")] for block in text.strip("\n").split("\n\n")]
    assert found == [words for words, _ in SENTENCES]
