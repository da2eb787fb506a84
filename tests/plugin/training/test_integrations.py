"""Guiding in the trainers of other packages, which `pip install msattn[integrations]` brings."""

from __future__ import annotations

import pytest
import torch
from datasets import Dataset
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from msattn import GuidingArguments, GuidingMixin, guiding_loss, mdg_loss, read_attention
from tests.tiny_models import tiny_tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")
SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GUIDING = GuidingArguments(mdg_weight=0.5)
ARGUMENTS = {
    "max_steps": 1,
    "per_device_train_batch_size": 4,
    "logging_steps": 1,
    "learning_rate": 1e-3,
    "max_grad_norm": 0.0,
    "optim": "sgd",
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
}
LEFT = ["a dog in a house", "the cat", "The author wrote a book.", "the book"]
RIGHT = ["the dog", "a cat in the house", "a book", "the author wrote the book in a house"]


def logged(trainer) -> dict[str, float]:
    (line,) = (line for line in trainer.state.log_history if "mdg_loss" in line)
    return line


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
    torch.manual_seed(0)
    BertModel(BertConfig(**SIZES, **NO_DROPOUT, vocab_size=len(tokenizer))).save_pretrained(tmp_path / "bert")
    tokenizer.save_pretrained(tmp_path / "bert")
    model = package.SentenceTransformer(
        modules=[modules.Transformer(str(tmp_path / "bert")), modules.Pooling(16)], device="cpu"
    )
    encoder = next(module for module in model.modules() if isinstance(module, BertModel))
    terms = [mdg_of(encoder, tokenizer(texts, padding=True, return_tensors="pt")) for texts in (LEFT, RIGHT)]
    arguments = package.SentenceTransformerTrainingArguments(
        str(tmp_path), **ARGUMENTS, gradient_checkpointing=checkpointing
    )
    trainer = Guided(
        model,
        arguments,
        train_dataset=Dataset.from_dict({"anchor": LEFT, "positive": RIGHT}),
        loss=losses.MultipleNegativesRankingLoss(model),
        guiding=GUIDING,
    )
    before = encoder.encoder.layer[0].attention.self.query.weight.detach().clone()
    trainer.train()
    line = logged(trainer)
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
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id))
    batch = tokenizer([f"{text}{tokenizer.eos_token}" for text in RIGHT], padding=True, return_tensors="pt")
    batch.pop("token_type_ids", None)
    term = mdg_of(model, batch)
    trainer = Guided(
        model,
        package.SFTConfig(str(tmp_path), **ARGUMENTS, max_length=32),
        train_dataset=Dataset.from_dict({"text": RIGHT}),
        processing_class=tokenizer,
        guiding=GUIDING,
    )
    trainer.train()
    line = logged(trainer)
    assert line["mdg_loss"] == pytest.approx(term.item(), rel=1e-3)
    assert line["loss"] == pytest.approx(line["task_loss"] + 0.5 * line["mdg_loss"], rel=1e-3)


def test_peft():
    """A bare encoder, whose adapter calls it past all hooks, twice; only the adapter learns."""
    package = pytest.importorskip("peft")
    tokenizer = tiny_tokenizer()
    torch.manual_seed(0)
    encoder = BertModel(BertConfig(**SIZES, **NO_DROPOUT, vocab_size=len(tokenizer)))
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
