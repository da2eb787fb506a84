"""Export to ONNX, and the exported models in the pipelines. An export takes some ten seconds."""

from __future__ import annotations

import json
import math
import pickle
from functools import partial

import pytest
import torch
import transformers
from transformers import (
    AutoConfig,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedConfig,
    pipeline,
)

import msattn
from msattn import (
    MSTransformerConfig,
    MSTransformerForTokenClassification,
    PairwiseConfig,
    PairwiseForRelationClassification,
    PairwiseParser,
)
from msattn.errors import UserError
from msattn.export import main
from msattn.onnx import exporter
from msattn.onnx.exporter import _compare
from msattn.predict import main as predict
from tests.tiny_models import SIZES, labelled, saved_model, tiny_relation_extractor, tiny_tokenizer

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

TEXT = {
    "text": "a dog in the house .",
    "entities": [{"start": 2, "end": 5}, {"start": 13, "end": 18}, {"start": 0, "end": 1}],
}


def encoder(**labels) -> BertConfig:
    return BertConfig(pad_token_id=0, **SIZES, **labels)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Saves a model with weights that matter, and its tokenizer."""

    def save(model):
        folder = tmp_path_factory.mktemp("checkpoint")
        torch.manual_seed(0)
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.3)
        saved_model(folder / "torch", model.eval())
        return folder

    return save


def rounded(result):
    """With numbers of four digits."""
    if isinstance(result, dict):
        return {key: rounded(value) for key, value in result.items()}
    if isinstance(result, float):
        return round(result, 4)
    return [*map(rounded, result)] if isinstance(result, list) else result


def assert_same_answers(task, folder, inputs, **options):
    """As from torch: one by one, in batches, and when called."""
    exported = msattn.onnx.load(folder / "onnx", threads=1)
    tokenizer = AutoTokenizer.from_pretrained(folder / "onnx")
    own = pipeline(task, model=exported, tokenizer=tokenizer)
    assert type(exported).__name__ == type(own.model).__name__ == exported.config.architectures[0]
    assert "'input_modalities': 'text'" in repr(own)
    expected = rounded(pipeline(task, model=str(folder / "torch"))(inputs, **options))
    assert rounded(own(inputs, **options)) == rounded(own(inputs, batch_size=3, **options)) == expected


SENTENCES = ["the dog wrote . a cat in the house wrote", "dog"]
MARKED = "the <e1>author</e1> of a <e2>book</e2> ."
TAGS = {"upos": ["NOUN", "VERB", "X"], "xpos": ["N", "V"]}


def parser(within: PreTrainedConfig | None = None, **tags) -> PairwiseParser:
    config = PairwiseConfig(encoder=within or encoder(), **tags, **labelled("root", "nsubj", "dep"))
    return PairwiseParser(config)


def adapted(family: str, **sizes) -> PreTrainedConfig:
    """An encoder that is not on the attention interface by itself."""
    return AutoConfig.for_model(family, pad_token_id=0, **SIZES, **sizes)


DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8, "type_vocab_size": 0}


def windows() -> BertForSequenceClassification:
    model = BertForSequenceClassification(encoder(**labelled("bad", "good")))
    return msattn.set_windows(model, [[1, None]], special_token_ids=[2, 3])


def distilbert() -> DistilBertForSequenceClassification:
    """Its tokenizer gives token types, which it does not read."""
    names = {"dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads"}
    sizes = {name: SIZES[of] for name, of in {**names, "hidden_dim": "intermediate_size"}.items()}
    config = DistilBertConfig(vocab_size=SIZES["vocab_size"], **sizes, **labelled("bad", "good"))
    return DistilBertForSequenceClassification(config)


def pairwise() -> PairwiseForRelationClassification:
    config = PairwiseConfig(encoder=encoder(), **labelled("a", "b", "no_relation"))
    return PairwiseForRelationClassification(config)


@pytest.mark.slow
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("task", "build", "inputs", "options"),
    [
        ("dependency-parsing", partial(parser, word_tags=TAGS), SENTENCES, {"k": 2}),
        ("relation-extraction", pairwise, [TEXT, {**TEXT, "pairs": [[0, 1]]}, MARKED], {"negative": "keep"}),
        ("text-classification", windows, SENTENCES, {}),
        ("text-classification", distilbert, ["the dog", "dog"], {}),
        ("dependency-parsing", partial(parser, adapted("mpnet")), SENTENCES, {"k": 2}),
        ("dependency-parsing", partial(parser, adapted("deberta-v2", **DEBERTA)), SENTENCES, {"k": 2}),
    ],
    ids=["parser with tags", "all pairs", "windows", "distilbert", "mpnet", "deberta"],
)
def test_exported_models_answer_alike(checkpoint, task, build, inputs, options):
    folder = checkpoint(build())
    parity = msattn.onnx.export(*loaded(folder), folder / "onnx")
    assert parity.difference < 1e-5 and parity.agreement == 1
    assert_same_answers(task, folder, inputs)
    assert_same_answers(task, folder, inputs, **options)


@pytest.mark.slow
@pytest.mark.heavy
def test_relations_of_marked_pairs_in_8_bits(checkpoint):
    folder = checkpoint(tiny_relation_extractor()[0])
    exact = msattn.onnx.export(*loaded(folder), folder / "onnx")
    assert exact.difference < 1e-5 and exact.agreement == 1 and exact.answers == 8
    assert_same_answers("relation-extraction", folder, [MARKED, TEXT])
    rough = msattn.onnx.export(*loaded(folder), folder / "int8", int8=True)
    assert exact.difference < rough.difference < 0.5
    nodes = {node.op_type for node in onnx.load(folder / "int8" / "model.onnx").graph.node}
    assert nodes & {"MatMulInteger", "DynamicQuantizeMatMul"}


def loaded(folder):
    names = json.loads((folder / "torch" / "config.json").read_text())["architectures"]
    kind = getattr(msattn, names[0], None) or getattr(transformers, names[0])
    return kind.from_pretrained(folder / "torch"), tiny_tokenizer()


@pytest.mark.slow
@pytest.mark.heavy
def test_the_commands(checkpoint, tmp_path, capsys):
    folder = checkpoint(parser())
    main(["onnx", str(folder / "torch"), str(folder / "onnx")])
    printed = capsys.readouterr().out
    # Each piece but the first and the last of each real sentence is a word: 14 and 9 tokens of 16, 5 or 7, ...
    assert "MiB in float32" in printed and "100.0% of " in printed
    (tmp_path / "lines").write_text("the dog .\n")
    for name in ("torch", "onnx"):
        predict([str(folder / name), str(tmp_path / "lines"), "--output", str(tmp_path / name)])
    assert (tmp_path / "torch").read_text() == (tmp_path / "onnx").read_text()
    with pytest.raises(UserError, match="takes input_ids, attention_mask, token_type_ids, word_index, not heads"):
        msattn.onnx.load(folder / "onnx")(heads=torch.zeros(1, 1))
    other = AutoTokenizer.from_pretrained(folder / "onnx")
    other.add_tokens(["unseen"])
    other.save_pretrained(folder / "onnx")
    with pytest.raises(UserError, match="no embeddings of some tokens"):
        predict([str(folder / "onnx"), str(tmp_path / "lines")])


def test_models_that_are_refused(tmp_path):
    pytest.importorskip("torchcrf")
    config = MSTransformerConfig(vocab_size=25, crf=True, hidden_size=16, num_attention_heads=2, **labelled("A", "B"))
    with pytest.raises(UserError, match="a tagger with a CRF is tied to one length"):
        msattn.onnx.export(MSTransformerForTokenClassification(config), tiny_tokenizer(), tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()
    model = BertForTokenClassification(encoder(**labelled("A", "B")))
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="the folder has the weights of a model"):
        msattn.onnx.export(model, tiny_tokenizer(), tmp_path)


def test_what_an_export_says_of_the_model(tmp_path, monkeypatch):
    model = BertForSequenceClassification(encoder(**labelled("A", "B")))
    monkeypatch.setattr(exporter, "MOST_BYTES", 2**12)
    with pytest.raises(UserError, match="GB in float32, and a file of ONNX holds less than"):
        msattn.onnx.export(model, tiny_tokenizer(), tmp_path / "onnx")
    monkeypatch.undo()
    monkeypatch.setattr(exporter, "_exported", lambda *args: onnx.ModelProto())
    monkeypatch.setattr(exporter, "OnnxModel", lambda *args, **options: None)
    monkeypatch.setattr(exporter, "_compare", lambda *args: exporter.Parity(0.0, 1.0, 1))
    msattn.onnx.export(model, tiny_tokenizer(), tmp_path / "onnx")
    assert AutoConfig.from_pretrained(tmp_path / "onnx").architectures == ["BertForSequenceClassification"]


def test_8_bits_that_cannot_be_written(tmp_path, monkeypatch):
    def full(*args, **options):
        raise ValueError("half a file")  # as protobuf, which reads what a full disk has cut

    monkeypatch.setattr("onnxruntime.quantization.quantize_dynamic", full)
    monkeypatch.setattr(exporter, "_exported", lambda *args: onnx.ModelProto())
    model = BertForSequenceClassification(encoder(**labelled("A", "B")))
    with pytest.raises(UserError, match=r"in 8-bit integers \(half a file\); .* needs room for two copies"):
        msattn.onnx.export(model, tiny_tokenizer(), tmp_path / "onnx", int8=True)
    assert not [*(tmp_path / "onnx").iterdir()]


def test_files_and_mistakes(tmp_path):
    with pytest.raises(UserError, match=r"there is no model\.onnx; write the folder by msattn export onnx"):
        msattn.onnx.load(tmp_path)
    encoder(**labelled("A", "B")).save_pretrained(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"no")
    with pytest.raises(UserError, match=r"model\.onnx: the file is no model of ONNX"):
        msattn.onnx.load(tmp_path)
    with pytest.raises(UserError, match="the model is exported already; give the checkpoint"):
        main(["onnx", str(tmp_path), str(tmp_path / "again")])
    given, found = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [1, 2]) for name in ("ids", "logits")
    )
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["ids"], ["logits"])], "graph", [given], [found])
    model = onnx.helper.make_model(graph, ir_version=9, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(UserError, match=r"model\.onnx: the file is not of msattn export onnx"):
        msattn.onnx.load(tmp_path)
    onnx.helper.set_model_props(model, {"msattn_inputs": "ids"})
    onnx.save(model, tmp_path / "model.onnx")
    exported = msattn.onnx.load(tmp_path, threads=1)
    copied = pickle.loads(pickle.dumps(exported))  # as `datasets` does with functions that hold it
    assert type(copied).__name__ == type(exported).__name__ and copied.threads == 1
    assert copied(ids=torch.tensor([[1, 2]])).logits.tolist() == [[1, 2]]


@pytest.mark.parametrize("place", [0, 1])
def test_an_output_that_is_no_number_is_no_parity(place):
    reference = {"logits": torch.tensor([[0.0, 2.0]])}
    found = [{"logits": torch.tensor([[0.0, 2.0]])} for _ in range(2)]
    assert _compare(lambda number: found[number], [{"number": 0}, {"number": 1}], [reference] * 2) == (0, 1, 2)
    one = [{"logits": values["logits"][:, :1]} for values in found]  # no classes
    assert _compare(lambda number: one[number], [{"number": 0}], [{"logits": torch.ones(1, 1)}]) == (1, 0, 0)
    found[place]["logits"][0, 0] = torch.nan
    difference = _compare(lambda number: found[number], [{"number": 0}, {"number": 1}], [reference] * 2).difference
    assert math.isnan(difference)
