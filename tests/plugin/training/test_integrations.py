"""Guiding in the trainers of other packages, which `pip install msattn[integrations]` brings."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from transformers import BertForSequenceClassification, BertModel, LlamaForCausalLM

from msattn import GuidingArguments, GuidingMixin, UserError, guiding_loss, mdg_loss, read_attention, set_windows
from tests.plugin.training.guided_runs import ONE_STEP, logged
from tests.tiny_encoders import tiny_encoder
from tests.tiny_models import saved_model, tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")
GUIDING = GuidingArguments(mdg_weight=0.5)
LEFT = ["a dog in a house", "the cat", "The author wrote a book.", "the book"]
RIGHT = ["the dog", "a cat in the house", "a book", "the author wrote the book in a house"]


def tiny(family: str, tokenizer, **changes):
    torch.manual_seed(0)
    return tiny_encoder(family, vocab_size=len(tokenizer), initializer_range=0.3, **changes)


def mdg_of(model, batch) -> torch.Tensor:
    """From eager maps."""
    model.set_attn_implementation("eager")
    maps = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    real = batch["attention_mask"]
    return mdg_loss(torch.cat([(one * real[:, None, :, None]).sum(-2) for one in maps], dim=1), real)


@pytest.mark.parametrize("checkpointing", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sentence_transformers(checkpointing, tmp_path):
    """Two passes a step, each with its own loss."""
    package = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import losses, modules

    class Guided(GuidingMixin, package.SentenceTransformerTrainer):
        pass

    tokenizer = tiny_tokenizer()
    folder = saved_model(tmp_path / "bert", BertModel(tiny("bert", tokenizer)))
    model = package.SentenceTransformer(modules=[modules.Transformer(folder), modules.Pooling(32)], device="cpu")
    encoder = next(module for module in model.modules() if isinstance(module, BertModel))
    terms = [mdg_of(encoder, tokenizer(texts, padding=True, return_tensors="pt")) for texts in (LEFT, RIGHT)]
    arguments = package.SentenceTransformerTrainingArguments(
        str(tmp_path), **ONE_STEP, gradient_checkpointing=checkpointing
    )
    trainer = Guided(
        model,
        arguments,
        train_dataset=Dataset.from_dict({"anchor": LEFT, "positive": RIGHT}),
        loss=losses.MultipleNegativesRankingLoss(model),
        guiding=GUIDING,
    )
    patterns = GuidingArguments(patterns=["period"], pattern_weight=0.1)
    with pytest.raises(UserError, match="without room for the targets of patterns; first, next and prev need none"):
        Guided(model, arguments, train_dataset=trainer.train_dataset, loss=trainer.loss, guiding=patterns)
    before = encoder.encoder.layer[0].attention.self.query.weight.detach().clone()
    trainer.train()
    (line,) = logged(trainer)
    assert line["mdg_loss"] == pytest.approx((sum(terms) / 2).item(), rel=1e-4)
    assert line["loss"] == pytest.approx(line["task_loss"] + 0.5 * line["mdg_loss"], rel=1e-3)
    assert not torch.equal(encoder.encoder.layer[0].attention.self.query.weight, before)
    assert encoder.config._attn_implementation == "sdpa"


def test_trl(tmp_path):
    package = pytest.importorskip("trl")

    class Guided(GuidingMixin, package.SFTTrainer):
        pass

    tokenizer = tiny_tokenizer()
    tokenizer.eos_token = tokenizer.sep_token
    model = LlamaForCausalLM(tiny("llama", tokenizer))
    batch = tokenizer([f"{text}{tokenizer.eos_token}" for text in RIGHT], padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    term = mdg_of(model, batch)
    batches = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
    trainer = Guided(
        model,
        package.SFTConfig(str(tmp_path), **{**ONE_STEP, **batches}, max_length=32),
        train_dataset=Dataset.from_dict({"text": RIGHT}),
        processing_class=tokenizer,
        guiding=GUIDING,
    )
    trainer.train()
    (line,) = logged(trainer)
    assert line["mdg_loss"] == pytest.approx(term.item(), rel=1e-3)
    assert line["loss"] == pytest.approx(line["task_loss"] + 0.5 * line["mdg_loss"], rel=1e-3)
    assert not trainer._metrics["eval"]


def test_peft():
    """A bare encoder, whose adapter calls it past all hooks, twice; only the adapter learns."""
    package = pytest.importorskip("peft")
    tokenizer = tiny_tokenizer()
    encoder = BertModel(tiny("bert", tokenizer))
    batches = [dict(tokenizer(texts, padding=True, return_tensors="pt")) for texts in (LEFT, RIGHT[:2])]
    terms = [mdg_of(encoder, batch) for batch in batches]
    model = package.get_peft_model(encoder, package.LoraConfig(target_modules=["query"], r=2))
    with read_attention(model) as readings:
        for batch in batches:
            model(**batch)
    assert [(reading.forward, reading.layer) for reading in readings] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    loss, found = guiding_loss(readings, GUIDING)
    torch.testing.assert_close(found["mdg_loss"], (4 * terms[0] + 2 * terms[1]) / 6)
    loss.backward()
    learned = [name for name, weight in model.named_parameters() if weight.grad is not None and weight.grad.any()]
    assert learned and all("lora_B" in name for name in learned)


def test_cross_encoder_trainer(tmp_path):
    """It takes the labels out of the batch; the weight is that of the whole batch all the same."""
    package = pytest.importorskip("sentence_transformers")

    class Guided(GuidingMixin, package.CrossEncoderTrainer):
        pass

    tokenizer = tiny_tokenizer()
    model = BertForSequenceClassification(tiny("bert", tokenizer, num_labels=1))
    model = package.CrossEncoder(saved_model(tmp_path / "model", model), device="cpu", max_length=32)
    data = Dataset.from_dict({"left": LEFT, "right": RIGHT, "label": [1.0, 0.0, 1.0, 0.0]})
    args = package.CrossEncoderTrainingArguments(str(tmp_path / "out"), **ONE_STEP)
    trainer = Guided(model, args, train_dataset=data, guiding=GUIDING)
    trainer.train()
    (line,) = logged(trainer)
    assert line["loss"] == pytest.approx(line["task_loss"] + 0.5 * line["mdg_loss"], rel=1e-3)


def test_windows_in_a_sentence_transformer(tmp_path):
    """It calls `forward` past all hooks; the special tokens are found all the same."""
    package = pytest.importorskip("sentence_transformers")
    from sentence_transformers.sentence_transformer import modules

    tokenizer = tiny_tokenizer()
    folder = saved_model(tmp_path, BertModel(tiny("bert", tokenizer)))
    model = package.SentenceTransformer(modules=[modules.Transformer(folder), modules.Pooling(32)], device="cpu")
    whole = model.encode(LEFT)
    inner = next(one for one in model.modules() if isinstance(one, BertModel))
    set_windows(inner, 1, special_token_ids=tokenizer.all_special_ids)
    batch = tokenizer(LEFT, padding=True, return_tensors="pt")
    with torch.no_grad():
        states, real = inner(**batch)[0], batch["attention_mask"].unsqueeze(-1)
    expected = (states * real).sum(1) / real.sum(1)
    found = torch.tensor(model.encode(LEFT))
    torch.testing.assert_close(found, expected)
    assert not torch.allclose(found, torch.tensor(whole), atol=1e-3)
