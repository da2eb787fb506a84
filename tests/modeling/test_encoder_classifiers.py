from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments, pipeline
from transformers.modeling_outputs import BaseModelOutput

from msattn import (
    BiLSTMForSequenceClassification,
    BiLSTMForTokenClassification,
    MSTransformerConfig,
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
)
from msattn.modeling.classification_node import classification_node
from msattn.modeling.crf import crf_loss
from tests.common import SCRATCH, TOLERANCE, TaggingTester, assert_fresh
from tests.tiny_models import tiny_tokenizer

PAIRS = [("the author of a book", "dog"), ("a", "the author wrote the book ."), ("", "")]


class Classifier(TaggingTester):
    """Builds models of one class; its checks run in the tests of the family."""

    def __init__(self, model_class):
        self.model_class = model_class

    def config(self, **changes):
        windowed = self.model_class.config_class is MSTransformerConfig
        own = {"num_attention_heads": 4, "scales": (1, "N/4", None)} if windowed else {}
        return self.model_class.config_class(**{**SCRATCH, **own, **changes})


@pytest.fixture(params=[MSTransformerForSequenceClassification, BiLSTMForSequenceClassification])
def sentences(request):
    return Classifier(request.param)


@pytest.fixture(params=[MSTransformerForTokenClassification, BiLSTMForTokenClassification])
def tokens(request):
    return Classifier(request.param)


def encoded(pairs) -> dict[str, torch.Tensor]:
    return dict(tiny_tokenizer()(*map(list, zip(*pairs, strict=True)), padding=True, return_tensors="pt"))


def test_classifier_reads_the_node(sentences):
    model = sentences.build()
    inputs = sentences.inputs(model.config)
    states = model.base_model(**inputs).last_hidden_state
    nodes = [torch.cat([states[i, 0], states[i, 1:n].amax(dim=0)]) for i, n in enumerate(sentences.lengths)]
    expected = model.classifier(model.dense(torch.stack(nodes)).relu())
    torch.testing.assert_close(model(**inputs).logits, expected)


def test_node_reads_real_tokens_only():
    states = torch.arange(20.0).view(2, 5, 2) - 30
    mask = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 0, 0]])
    assert classification_node(states, mask).tolist() == [[-28, -27, -24, -23], [-16, -15, 0, 0]]
    assert not classification_node(states, torch.zeros(2, 5)).any()


class TestSentencePairs:
    def test_each_sentence_is_read_on_its_own(self, sentences):
        model = sentences.build(sentence_pairs=True)
        batch = encoded(PAIRS[:2])
        logits = model(**batch).logits
        for i, (first, second) in enumerate(zip(*self.parts(batch), strict=True)):
            u, v = (
                classification_node(model.base_model(ids.unsqueeze(0)).last_hidden_state) for ids in (first, second)
            )
            expected = model.classifier(model.dense(torch.cat([u, v, (u - v).abs(), u * v], dim=-1)).relu())
            torch.testing.assert_close(logits[i : i + 1], expected, **TOLERANCE)
        vectors = model.get_input_embeddings()(batch.pop("input_ids"))
        torch.testing.assert_close(model(**batch, inputs_embeds=vectors).logits, logits)

    def parts(self, batch) -> list[list[torch.Tensor]]:
        real, types = batch["attention_mask"].bool(), batch["token_type_ids"]
        types = torch.cat([torch.full_like(types[:, :1], -1), types[:, 1:]], dim=1)  # [CLS] stands before both
        return [
            [
                ids[mask & ((of == side) | (of == -1))]
                for ids, mask, of in zip(batch["input_ids"], real, types, strict=True)
            ]
            for side in (0, 1)
        ]

    def test_padding_and_neighbours_change_nothing(self, sentences):
        model = sentences.build(sentence_pairs=True)
        together = model(**encoded(PAIRS)).logits
        alone = torch.cat([model(**encoded([pair])).logits for pair in PAIRS])
        torch.testing.assert_close(together, alone, **TOLERANCE)

    def test_without_token_types(self, sentences):
        model = sentences.build(sentence_pairs=True)
        with pytest.raises(ValueError, match="sentence_pairs=True needs token_type_ids, 0 in the first"):
            model(input_ids=torch.ones(1, 4, dtype=torch.long))

    def test_trainer_collator_and_pipeline(self, sentences, tmp_path):
        """Pairs in the form that a tokenizer gives them reach the model through all of these."""
        tokenizer = tiny_tokenizer()
        model = sentences.build(sentence_pairs=True, num_labels=2)
        texts = [("the author", "the book of a"), ("a dog in the house", "cat"), ("taxi", "a")]
        rows = [{**tokenizer(*pair), "labels": i % 2} for i, pair in enumerate(texts)]
        arguments = TrainingArguments(tmp_path, max_steps=2, per_device_train_batch_size=3, report_to=[], use_cpu=True)
        trainer = Trainer(model, arguments, DataCollatorWithPadding(tokenizer), train_dataset=rows, eval_dataset=rows)
        trainer.train()
        logits = torch.tensor(trainer.predict(rows).predictions)
        classifier = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        for pair, expected in zip(texts, logits.softmax(-1), strict=True):
            found = classifier([{"text": pair[0], "text_pair": pair[1]}], top_k=None)[0]
            scores = {row["label"]: row["score"] for row in found}
            torch.testing.assert_close(torch.tensor([scores["LABEL_0"], scores["LABEL_1"]]), expected, **TOLERANCE)


@pytest.mark.parametrize("model_class", [BiLSTMForSequenceClassification, BiLSTMForTokenClassification])
def test_the_head_is_on_another_device(model_class, monkeypatch):
    # The real one looks at values.
    monkeypatch.setattr(
        "torchcrf.CRF.forward", lambda crf, logits, tags, real, reduction: logits[:, 0, 0] * tags[:, 0]
    )
    model = Classifier(model_class).build(crf=True).train().to("meta")
    base = Classifier(type(model.base_model)).build()
    base.register_forward_hook(lambda _, args, out: BaseModelOutput(out.last_hidden_state.to("meta")))
    setattr(model, model.base_model_prefix, base)
    ids = torch.ones(2, 5, dtype=torch.long)
    labels = ids if model_class is BiLSTMForTokenClassification else ids[:, 0]
    for count in (None, ids.sum()):
        outputs = model(ids, ids, labels=labels, num_items_in_batch=count)
        assert outputs.loss.device == outputs.logits.device == torch.device("meta")
    model.eval()(ids, ids)


@pytest.mark.parametrize("crf", [False, True])
def test_loss_is_a_mean_over_tags(tokens, crf):
    model = tokens.build(crf=crf)
    inputs, labels = tokens.inputs(model.config), tokens.labels(model.config)
    scores = model.classifier(model.base_model(**inputs).last_hidden_state)
    if crf:
        expected = crf_loss(model.crf, scores, labels, inputs["attention_mask"]).sum()
    else:
        expected = nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="sum")
    torch.testing.assert_close(model(**inputs, labels=labels).loss, expected / 24)
    torch.testing.assert_close(model(**inputs, labels=labels, num_items_in_batch=48).loss, expected / 48)


class TestConditionalRandomField:
    def test_largest_logits_are_the_best_sequence(self, tokens):
        model = tokens.build(crf=True)
        inputs = tokens.inputs(model.config)
        scores = model.train()(**inputs).logits
        best = model.crf.decode(scores, inputs["attention_mask"].bool())
        predicted = model.eval()(**inputs).logits.argmax(-1)
        assert [predicted[row, : len(sequence)].tolist() for row, sequence in enumerate(best)] == best

    def test_a_checkpoint_without_crf_gets_a_fresh_one(self, tokens, tmp_path):
        plain = tokens.build()
        plain.save_pretrained(tmp_path)
        model = tokens.model_class.from_pretrained(tmp_path, crf=True)
        assert torch.equal(model.classifier.weight, plain.classifier.weight)
        for name, weight in model.crf.named_parameters():
            assert_fresh(name, weight, model.config.initializer_range)
