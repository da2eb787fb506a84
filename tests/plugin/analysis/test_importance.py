from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DebertaV2ForSequenceClassification,
    PreTrainedModel,
)

from msattn import UserError
from msattn.analysis import head_importance, plot_importance, removal_order
from msattn.analysis.__main__ import main
from tests.plugin.analysis.tiny_encoders import CONFIGS, SIZES
from tests.tiny_models import tiny_tokenizer

TEXTS = [("the dog",), ("the author wrote the book",), ("a house",), ("the house the dog",), ("book",)]
LABELS = [0, 1, 1, 0, 1]


def classifier(**changes) -> PreTrainedModel:
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(**SIZES, **changes))


def test_importance_is_the_mean_of_absolute_gradients():
    """Against columns of the output projection, one text and one head at a time."""
    model, tokenizer = classifier(), tiny_tokenizer()
    found = head_importance(model, tokenizer, TEXTS, LABELS, steps=4, batch_size=2)
    assert model.training and found.texts == 5 and found.majority == 0.6
    model.eval()
    expected = np.zeros((2, 4))
    for text, label in zip(TEXTS, LABELS, strict=True):
        inputs = tokenizer(*text, return_tensors="pt")
        for layer, head in np.ndindex(2, 4):
            weight = model.bert.encoder.layer[layer].attention.output.dense.weight
            columns = slice(8 * head, 8 * head + 8)
            (gradient,) = torch.autograd.grad(cross_entropy(model(**inputs).logits, torch.tensor([label])), weight)
            expected[layer, head] += abs((gradient[:, columns] * weight[:, columns]).sum().item())
    np.testing.assert_allclose(found.importances, expected / 5, rtol=1e-4, atol=1e-7)

    assert found.removed == [0, 2, 4, 6, 8]
    order = removal_order(found.importances)
    for count, accuracy in zip(found.removed, found.accuracies, strict=True):
        without = classifier().eval()
        for layer, head in zip(*np.unravel_index(order[:count], (2, 4)), strict=True):
            with torch.no_grad():
                without.bert.encoder.layer[layer].attention.output.dense.weight[:, 8 * head : 8 * head + 8] = 0
        guesses = [without(**tokenizer(*text, return_tensors="pt")).logits.argmax().item() for text in TEXTS]
        assert accuracy == pytest.approx(np.mean(np.equal(guesses, LABELS)))


def test_order_within_layers_of_unit_length():
    importances = np.array([[3.0, 4.0], [0.0, 0.1], [0.0, 0.0]])
    assert removal_order(importances).tolist() == [2, 4, 5, 0, 1, 3]


@pytest.fixture
def folder(tmp_path):
    classifier(id2label={0: "animal", 1: "thing"}, label2id={"animal": 0, "thing": 1}).save_pretrained(tmp_path / "m")
    tiny_tokenizer().save_pretrained(tmp_path / "m")
    rows = [{"text": text, "label": ("animal", "thing")[label]} for (text,), label in zip(TEXTS, LABELS, strict=True)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def test_command(folder, capsys):
    argv = ["importance", "--model", str(folder / "m"), "--file", str(folder / "texts.jsonl"), "--steps", "2"]
    main([*argv, "--output", str(folder / "found.json"), str(folder / "found.svg"), "--max_eval_samples", "4"])
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    assert np.shape(found["importance"]) == (2, 4) and found["removed"] == [0, 4, 8] and found["texts"] == 4
    out = capsys.readouterr().out
    assert "| 8 | 100 % |" in out and "| layer | mean importance |" in out
    texts = re.findall(r"<text[^>]*>(.*?)</text>", (folder / "found.svg").read_text(encoding="utf-8"))
    assert "heads removed (%; dashed: the most frequent class)" in texts


def test_mistakes(folder):
    def fails(message: str, *flags: str) -> None:
        with pytest.raises(UserError, match=message):
            main(["importance", "--model", str(folder / "m"), *flags])

    table = folder / "other.jsonl"
    table.write_text('{"text": "dog", "kind": "plant"}\n', encoding="utf-8")
    fails("other.jsonl: the sentences have no labels in 'label'", "--file", str(table))
    wrong = ("--file", str(table), "--label_column_name", "kind")
    fails("does not know the label 'plant'; it knows animal, thing", *wrong)
    fails("--steps must be at least 1, not 0", *wrong, "--steps", "0")
    tokenizer = tiny_tokenizer()
    with pytest.raises(UserError, match="has no classes of which one is right"):
        head_importance(classifier(num_labels=1), tokenizer, TEXTS, LABELS)
    with pytest.raises(UserError, match="no layer on the attention interface"):
        head_importance(DebertaV2ForSequenceClassification(CONFIGS["deberta"]), tokenizer, TEXTS, LABELS)
    with pytest.raises(UserError, match="saved as .png or .svg"):
        plot_importance(head_importance(classifier(), tokenizer, TEXTS, LABELS, steps=1), folder / "a.gif")
