from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from transformers import (
    AutoModelForSequenceClassification,
    BartConfig,
    BertConfig,
    BertForMultipleChoice,
    BertForSequenceClassification,
    BertForTokenClassification,
    DistilBertForMaskedLM,
    FNetConfig,
    MegatronBertConfig,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2ForTokenClassification,
    SwinConfig,
    SwinForImageClassification,
    Trainer,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
)

from msattn import (
    BertPairwiseConfig,
    BertPairwiseForRelationClassification,
    GuidedTrainer,
    GuidingArguments,
    GuidingMixin,
    MSTransformerConfig,
    PairwiseConfig,
    PairwiseForRelationClassification,
    UserError,
    mdg_loss,
    pdg_loss,
)
from msattn.modeling import attention, attention_call
from msattn.modeling.attention_call import AttentionRefused
from msattn.training.accumulation import AccumulationMixin, batch_rows
from tests.plugin.training.guided_runs import logged, moves, one_step
from tests.tiny_encoders import BERT, tiny_encoder

SIZES = {**BERT, "initializer_range": 0.3, "pad_token_id": 0}
FAMILIES = {
    name: tiny_encoder(name, initializer_range=0.3, classifier_dropout_prob=0.0, seq_classif_dropout=0.0)
    for name in ("bert", "roberta", "albert", "electra", "distilbert", "modernbert")
}
GUIDED = GuidingArguments(mdg_weight=0.5, pdg_weight=0.01)
QUERIES = ("query", "q_lin", "Wqkv", "in_proj")


def build(config: PreTrainedConfig, attn_implementation: str | None = None, **changes):
    config = type(config).from_dict({**config.to_dict(), **changes})
    torch.manual_seed(0)
    return AutoModelForSequenceClassification.from_config(config, attn_implementation=attn_implementation)


def rows(count: int = 6, length: int = 8) -> Dataset:
    """Ragged examples: the last token of the odd ones is padding."""
    return Dataset.from_list(
        [
            {
                "input_ids": [3 + (7 * row + 5 * token * token) % 37 for token in range(length - row % 2)]
                + [0] * (row % 2),
                "attention_mask": [1] * (length - row % 2) + [0] * (row % 2),
                "labels": row % 2,
            }
            for row in range(count)
        ]
    )


class AccumulatingTrainer(AccumulationMixin, Trainer):
    """What a guided trainer is without guiding."""


def trainer_of(model, folder, guiding=GUIDED, kind=GuidedTrainer, data=None, loss=None, **args) -> AccumulatingTrainer:
    options = {"guiding": guiding} if issubclass(kind, GuidingMixin) else {}
    return kind(
        model if isinstance(model, torch.nn.Module) else None,
        one_step(folder, **args),
        train_dataset=rows() if data is None else data,
        compute_loss_func=loss,
        model_init=None if isinstance(model, torch.nn.Module) else model,
        **options,
    )


def assert_guided(trainer) -> None:
    assert all(gradient.isfinite().all() for gradient in moves(trainer).values())
    assert logged(trainer)[0]["mdg_loss"] > 0


@pytest.mark.parametrize(
    ("preset", "values"),
    [
        ({}, ("received", 1.0, "row", "row", "mean")),
        ({"guiding": "recommended"}, ("received", 1.0, "row", "row", "mean")),
        ({"guiding": "paper"}, ("received", 1.0, "row", "none", "sum")),
        ({"guiding": "official"}, ("official", 2.0, "row", "row", "mean")),
    ],
)
def test_presets(preset, values):
    names = ("guiding_axis", "guiding_temperature", "mdg_normalize", "pdg_normalize", "guiding_reduction")
    guiding = GuidingArguments(pdg_weight=0.1, **preset)
    assert tuple(getattr(guiding, name) for name in names) == values


def test_single_values():
    guiding = GuidingArguments(guiding="paper", guiding_kwargs={"pdg_normalize": "col"}, pdg_weight=0.1)
    assert (guiding.pdg_normalize, guiding.guiding_reduction) == ("col", "sum")
    assert guiding.weights == {"pdg_loss": 0.1}
    assert not GuidingArguments().weights


@pytest.mark.parametrize(
    "values, message",
    [
        ({"guiding": "papers"}, "guiding must be one of recommended, paper, official, got 'papers'"),
        ({"mdg_weight": -0.1}, "mdg_weight -0.1: give 0 or more"),
        ({"guiding_kwargs": {"guide_every": 0}}, "^guide_every must be a positive whole number, got 0"),
        ({"guiding_kwargs": "guide_every=2"}, "guiding_kwargs guide_every=2: expected a JSON object such as"),
        ({"guiding_kwargs": {"guiding_temperature": 0.0}}, "guiding_temperature must be a positive number"),
        ({"guiding_kwargs": {"guiding_axis": "rows"}}, "guiding_axis must be one of received, official"),
        ({"guiding_kwargs": {"mdg_normalize": "rows"}}, "mdg_normalize must be one of none, row, col"),
        ({"guiding_kwargs": '{"guiding_reduction": "none"}'}, "guiding_reduction must be one of mean, sum"),
    ],
)
def test_mistakes_in_the_arguments(values, message):
    with pytest.raises(UserError, match=message):
        GuidingArguments(**{"mdg_weight": 0.1, **values})


def test_layers():
    assert GuidingArguments().layers(3) == [0, 1, 2]
    assert GuidingArguments(guided_layers=[-1, 0, 2]).layers(3) == [0, 2]
    assert GuidingArguments(guided_layers=0).layers(3) == [0]
    for layer in (3, -4):
        with pytest.raises(UserError, match=f"there is no layer {layer}; the model has 0 to 2"):
            GuidingArguments(guided_layers=[layer]).layers(3)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family(family, tmp_path):
    """The terms are those of eager maps, the task's loss is that of a plain run, and queries are guided."""
    model = build(FAMILIES[family])
    plain = build(FAMILIES[family], "eager").train()
    model.load_state_dict(plain.state_dict())
    trainer = trainer_of(model, tmp_path)
    seen = []
    model.register_forward_pre_hook(lambda model, _: seen.append(model.config._attn_implementation))
    gradients = moves(trainer)
    assert seen == ["received"] and model.config._attn_implementation == "sdpa"

    batch = {name: torch.tensor(rows()[name]) for name in ("input_ids", "attention_mask", "labels")}
    outputs = plain(**batch, output_attentions=True)
    real = batch["attention_mask"].float()
    received = torch.cat([torch.einsum("bhqk,bq->bhk", one, real) for one in outputs.attentions], dim=1)
    terms = {"mdg_loss": mdg_loss(received, real), "pdg_loss": pdg_loss(received, real)}
    (line,) = logged(trainer)
    assert line["task_loss"] == pytest.approx(outputs.loss.item(), rel=1e-4)
    for name, term in terms.items():
        assert line[name] == pytest.approx(term.item(), rel=1e-4)
    total = outputs.loss + 0.5 * terms["mdg_loss"] + 0.01 * terms["pdg_loss"]
    assert line["loss"] == pytest.approx(total.item(), rel=1e-3)

    total.backward()
    for name, weight in plain.named_parameters():
        torch.testing.assert_close(gradients[name], weight.grad, rtol=1e-2, atol=1e-3, msg=name)
    plain.zero_grad()
    plain(**batch).loss.backward()
    queries = [name for name, _ in plain.named_parameters() if any(query in name for query in QUERIES)]
    assert queries
    for name in queries:
        assert (gradients[name] - plain.get_parameter(name).grad).abs().max() > 1e-3, name


def test_the_checkpoint_is_that_of_a_plain_trainer(tmp_path):
    for kind in (GuidedTrainer, AccumulatingTrainer):
        trainer = trainer_of(build(FAMILIES["bert"]), tmp_path / kind.__name__, kind=kind, save_strategy="steps")
        trainer.train()
        trainer.save_model()
    guided, plain = (tmp_path / kind.__name__ for kind in (GuidedTrainer, AccumulatingTrainer))
    for checkpoint in ("", "checkpoint-1"):
        assert (guided / checkpoint / "config.json").read_text() == (plain / checkpoint / "config.json").read_text()
        weights = [load_file(folder / checkpoint / "model.safetensors") for folder in (guided, plain)]
        assert [(name, tensor.shape) for name, tensor in weights[0].items()] == [
            (name, tensor.shape) for name, tensor in weights[1].items()
        ]
    state = json.loads((guided / "checkpoint-1" / "trainer_state.json").read_text())
    assert {"task_loss", "mdg_loss", "pdg_loss"} <= state["log_history"][0].keys()


@pytest.mark.parametrize("guiding", [GuidingArguments(), GUIDED])
def test_evaluation_gathers_no_attentions(guiding, tmp_path):
    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, guiding)
    trainer.train()
    assert trainer.evaluate(rows(4))["eval_loss"] > 0
    assert trainer.predict(rows(4)).predictions.shape == (4, 2)
    assert ("mdg_loss" in logged(trainer)[0]) == bool(guiding.weights)
    assert not any("mdg_loss" in line for line in trainer.state.log_history if "loss" not in line)


def test_without_a_weight_it_is_a_plain_trainer(tmp_path):
    plain, guided = (
        moves(trainer_of(build(FAMILIES["bert"]), tmp_path, GuidingArguments(), kind=kind))
        for kind in (AccumulatingTrainer, GuidedTrainer)
    )
    for name, gradient in plain.items():
        assert torch.equal(gradient, guided[name])


def summed_loss(outputs, labels, num_items_in_batch=None):
    """A loss with class weights, normalised as the Trainer asks for it."""
    loss = torch.nn.functional.cross_entropy(outputs.logits, labels, torch.tensor([1.0, 3.0]), reduction="sum")
    return loss / (len(labels) if num_items_in_batch is None else num_items_in_batch)


@pytest.mark.parametrize("options", [{}, {"loss": summed_loss}, {"label_smoothing_factor": 0.1}])
@pytest.mark.parametrize("size", [3, 4])
def test_accumulation_is_one_large_batch(options, size, tmp_path):
    """Batches of 3 and 3, or of 4 and 2."""
    small = {
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": 2,
        "train_sampling_strategy": "random",
    }
    large, accumulated = (
        trainer_of(build(FAMILIES["bert"]), tmp_path, **options, **batches) for batches in ({}, small)
    )
    gradients = moves(large)
    for name, gradient in moves(accumulated).items():
        torch.testing.assert_close(gradient, gradients[name], rtol=1e-3, atol=2e-4, msg=name)
    for name in ("loss", "task_loss", "mdg_loss", "pdg_loss"):
        assert logged(accumulated)[0][name] == pytest.approx(logged(large)[0][name], rel=1e-4)


def token_rows(label) -> Dataset:
    """Ragged labels: those of the longer examples are many more."""
    data = [
        {"input_ids": [3 + (7 * row + 5 * token * token) % 37 for token in range(8)], "attention_mask": [1] * 8}
        for row in range(6)
    ]
    return Dataset.from_list(
        [
            {**example, "labels": [label(word) if word % 5 > row else -100 for word in example["input_ids"]]}
            for row, example in enumerate(data)
        ]
    )


MEAN_OVER_TOKENS = {
    "tagger": (BertForTokenClassification, "bert", 2),
    "tagger of generic code": (Qwen2ForTokenClassification, "qwen2", 2),
    "masked words": (DistilBertForMaskedLM, "distilbert", 37),
    "next words": (Qwen2ForCausalLM, "qwen2", 37),
}


@pytest.mark.parametrize("kind, family, classes", MEAN_OVER_TOKENS.values(), ids=MEAN_OVER_TOKENS)
def test_a_mean_over_tokens_accumulates(kind, family, classes, tmp_path):
    """Some models divide by the labels of the whole step, some by those of a batch."""
    qwen = {**SIZES, "num_key_value_heads": 1}
    config = {**FAMILIES, "qwen2": Qwen2Config(**qwen)}[family]
    losses = []
    for size in (6, 4, 2):
        torch.manual_seed(0)
        model = kind(type(config).from_dict({**config.to_dict(), "num_labels": 2}))
        batches = {"per_device_train_batch_size": size, "gradient_accumulation_steps": -(-6 // size)}
        data = token_rows(lambda word: word % classes)
        trainer = trainer_of(model, tmp_path, data=data, train_sampling_strategy="random", **batches)
        losses.append((moves(trainer), logged(trainer)[0]))
    for gradients, log in losses[1:]:
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, losses[0][0][name], rtol=1e-3, atol=2e-4, msg=name)
        for name in ("task_loss", "mdg_loss", "pdg_loss"):
            assert log[name] == pytest.approx(losses[0][1][name], rel=1e-4)


def test_batches_of_prompts(tmp_path):
    """TRL's GRPOTrainer has them."""
    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, gradient_accumulation_steps=2)
    trainer.get_batch_samples(iter([[{"prompt": "a"}, {"prompt": "b"}]] * 2), 2, trainer.args.device)
    assert trainer.share({"prompt_ids": torch.ones(2, 4)}) == 1 / 2


class TwoReplicas(torch.nn.Module):
    """As `torch.nn.DataParallel` on two GPUs: a loss for each half of the batch."""

    def __init__(self, module: torch.nn.Module):
        super().__init__()
        self.module = module

    def forward(self, num_items_in_batch=None, **inputs):
        halves = ({name: value[part] for name, value in inputs.items()} for part in (slice(3), slice(3, 6)))
        return {"loss": torch.stack([self.module(**half).loss for half in halves])}


def test_the_loss_of_replicas_is_their_mean(tmp_path):
    model = build(FAMILIES["bert"])
    trainer = trainer_of(model, tmp_path, kind=AccumulatingTrainer)
    trainer.args._n_gpu, trainer.current_gradient_accumulation_steps = 2, 1
    batch = trainer.data_collator(list(rows()))
    loss = trainer.compute_loss(TwoReplicas(model), batch, num_items_in_batch=torch.full((2, 1), 6))
    torch.testing.assert_close(loss.mean(), model(**batch).loss)


def test_logs_are_means_over_the_steps(tmp_path):
    every, third = (
        trainer_of(build(FAMILIES["bert"]), tmp_path, max_steps=3, logging_steps=steps) for steps in (1, 3)
    )
    every.train()
    third.train()
    for name in ("task_loss", "mdg_loss", "pdg_loss"):
        mean = sum(line[name] for line in logged(every)) / 3
        assert logged(third)[0][name] == pytest.approx(mean, rel=1e-4)


def test_a_second_training_logs_its_own_steps(tmp_path):
    again, fresh = (
        trainer_of(build(FAMILIES["bert"]), tmp_path, max_steps=3, logging_steps=2, learning_rate=0.0)
        for _ in range(2)
    )
    again.train()
    again.train_dataset = fresh.train_dataset = rows(6, 5)
    again.train()
    fresh.train()
    assert logged(again)[0]["mdg_loss"] == pytest.approx(logged(fresh)[0]["mdg_loss"], rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
        # Some seventy graphs.
        pytest.param({"torch_compile": True, "torch_compile_backend": "aot_eager"}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.heavy
def test_checkpointing_and_compilation_change_nothing(options, tmp_path):
    expected = moves(trainer_of(build(FAMILIES["bert"]), tmp_path))
    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, **options)
    for name, gradient in moves(trainer).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=2e-4, msg=name)
    assert "mdg_loss" in logged(trainer)[0]


def test_attention_without_a_gradient_is_refused(tmp_path):
    reentrant = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}
    frozen = build(FAMILIES["bert"])
    frozen.bert.requires_grad_(False)
    for model, options in ((build(FAMILIES["bert"]), reentrant), (frozen, {})):
        with pytest.raises(UserError, match="the guided attention has no gradient"):
            trainer_of(model, tmp_path, **options).train()


def test_bfloat16(tmp_path):
    exact, mixed = (trainer_of(build(FAMILIES["bert"]), tmp_path, bf16=bf16) for bf16 in (False, True))
    exact.train()
    mixed.train()
    for name in ("mdg_loss", "pdg_loss"):
        assert logged(mixed)[0][name] == pytest.approx(logged(exact)[0][name], rel=0.02)


@pytest.mark.parametrize("axis", ["received", "official"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_official_axis_teaches_nothing_without_dropout(axis, dropout, tmp_path):
    guiding = GuidingArguments(
        guiding="official", guiding_kwargs={"guiding_axis": axis}, mdg_weight=1.0, pdg_weight=1.0
    )
    changes = {"attention_probs_dropout_prob": dropout}
    seed = {"seed": 3}
    plain = moves(trainer_of(build(FAMILIES["bert"], "eager", **changes), tmp_path, GuidingArguments(), **seed))
    trainer = trainer_of(build(FAMILIES["bert"], **changes), tmp_path, guiding, **seed)
    guided = moves(trainer)
    name = "bert.encoder.layer.1.attention.self.query.weight"
    same = torch.allclose(guided[name], plain[name], rtol=1e-3, atol=1e-4)
    assert same == (axis == "official" and not dropout)
    assert logged(trainer)[0]["mdg_loss"] > 0
    assert trainer.model.config._attn_implementation == "sdpa"


def test_one_layer(tmp_path, caplog):
    """Nothing above a guided layer is guided."""
    plain = moves(trainer_of(build(FAMILIES["bert"]), tmp_path, GuidingArguments()))
    guiding = GuidingArguments(mdg_weight=1.0, guided_layers=[0])
    guided = moves(trainer_of(build(FAMILIES["bert"]), tmp_path, guiding))
    first, second = (f"bert.encoder.layer.{layer}.attention.self.query.weight" for layer in (0, 1))
    assert not torch.allclose(plain[first], guided[first], atol=1e-3)
    torch.testing.assert_close(plain[second], guided[second], rtol=1e-3, atol=2e-4)
    caplog.clear()
    moves(trainer_of(build(FAMILIES["bert"]), tmp_path, replace(guiding, patterns=["next"])))
    assert caplog.text.count("no head is guided to a pattern") == 1


@pytest.mark.parametrize("taken_away", [False, True])
def test_model_init(taken_away, tmp_path):
    trainer = trainer_of(lambda: build(FAMILIES["bert"]), tmp_path)
    if taken_away:  # as Ray's search for hyperparameters does before each training
        trainer.model = None
    trainer.train()
    assert "mdg_loss" in logged(trainer)[0] and trainer.model.config._attn_implementation == "sdpa"


def test_a_second_trainer_leaves_the_attention_as_it_was(tmp_path):
    model = build(FAMILIES["bert"])
    first, second = (trainer_of(model, tmp_path) for _ in range(2))
    for trainer in (second, first):
        trainer.train()
        assert model.config._attn_implementation == "sdpa" and "mdg_loss" in logged(trainer)[0]


@pytest.mark.parametrize("logging_strategy", ["steps", "no"])
def test_a_loss_without_guiding_is_refused(tmp_path, logging_strategy):
    class Weighted(GuidedTrainer):
        def compute_loss(self, model, inputs, *args, **kwargs):
            return model(**inputs).loss

    with pytest.raises(UserError, match="Weighted computes a loss without guiding: .* give the loss as compute_loss_"):
        trainer_of(build(FAMILIES["bert"]), tmp_path, kind=Weighted, logging_strategy=logging_strategy).train()


def test_a_second_pass_without_a_gradient(tmp_path):
    """TRL's SFTTrainer returns the outputs of one."""

    class Twice(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            loss = super().compute_loss(model, inputs, False, num_items_in_batch)
            with torch.no_grad():
                outputs = model(**inputs)
            return (loss, outputs) if return_outputs else loss

    class GuidedTwice(GuidingMixin, Twice):
        pass

    expected = moves(trainer_of(build(FAMILIES["bert"]), tmp_path))
    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, kind=GuidedTwice)
    for name, gradient in moves(trainer).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=2e-4, msg=name)


def test_a_subclass_that_logs_a_loss_of_its_own(tmp_path):
    class Logging(GuidedTrainer):
        def compute_loss(self, *args, **kwargs):
            self.log({"loss": 1.0, "mine": 2.0})
            return super().compute_loss(*args, **kwargs)

    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, kind=Logging, max_steps=2)
    trainer.train()
    assert sum("mine" in line for line in trainer.state.log_history) == 2
    assert any("mdg_loss" in line for line in logged(trainer))


def test_layers_that_are_not_guided_compute_nothing(tmp_path, monkeypatch):
    model, sums = build(FAMILIES["bert"]), []
    blocked = attention_call.BlockedAttention.apply
    monkeypatch.setattr(
        attention_call.BlockedAttention, "apply", lambda *inputs: (sums.append(1), blocked(*inputs))[1]
    )
    trainer_of(model, tmp_path, GuidingArguments(mdg_weight=1.0, guided_layers=[-1])).train()
    assert len(sums) == 1
    model.set_attn_implementation("received")
    batch = {"input_ids": torch.tensor([rows()[0]["input_ids"]]), "output_attentions": True}
    assert [attention.shape[-1] for attention in model(**batch).attentions] == [8, 8]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_every_third_step(checkpointing, tmp_path, monkeypatch):
    """The others are those of a plain trainer, and nothing stays with the model."""
    sums = []
    blocked = attention_call.BlockedAttention.apply
    monkeypatch.setattr(
        attention_call.BlockedAttention, "apply", lambda *inputs: (sums.append(1), blocked(*inputs))[1]
    )
    guiding = GuidingArguments(mdg_weight=0.5, guiding_kwargs={"guide_every": 3})
    options = {"max_steps": 5, "gradient_checkpointing": checkpointing}
    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, guiding, **options)
    trainer.train()
    assert not any(hasattr(module, attention.READERS) for module in trainer.model.modules())
    assert ["mdg_loss" in line for line in logged(trainer)] == [True, False, False, True, False]
    assert len(sums) == 2 * 2 * (1 + checkpointing)  # layers are computed again
    for line in logged(trainer):
        assert line["loss"] == pytest.approx(line["task_loss"] + 0.5 * line.get("mdg_loss", 0), rel=1e-3)
    longer = trainer_of(build(FAMILIES["bert"]), tmp_path, guiding, **options, logging_steps=5)
    longer.train()
    guided = [line["mdg_loss"] for line in logged(trainer) if "mdg_loss" in line]
    assert logged(longer)[0]["mdg_loss"] == pytest.approx(sum(guided) / 2, rel=1e-4)


def test_choices_are_rows(tmp_path):
    torch.manual_seed(0)
    model = BertForMultipleChoice(FAMILIES["bert"])
    data = [
        {name: [row[name], row[name][::-1]] for name in ("input_ids", "attention_mask")} | {"labels": row["labels"]}
        for row in rows()
    ]
    trainer = trainer_of(model, tmp_path, data=Dataset.from_list(data))
    assert_guided(trainer)


SPEECH = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "conv_dim": (8, 8),
    "conv_kernel": (4, 4),
    "conv_stride": (3, 2),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 8,
    "mask_time_prob": 0.0,
}


def test_frames_of_speech(tmp_path):
    """The mask is that of the samples; the model knows which frames they become."""
    torch.manual_seed(0)
    model = Wav2Vec2ForSequenceClassification(Wav2Vec2Config(**SPEECH, feat_extract_norm="layer"))
    data = [
        {"input_values": [math.sin(i * (row + 1)) for i in range(200)], "attention_mask": [1] * length + [0] * rest}
        | {"labels": row % 2}
        for row, (length, rest) in enumerate([(200, 0), (120, 80)] * 3)
    ]
    trainer = trainer_of(model, tmp_path, data=Dataset.from_list(data))
    assert_guided(trainer)


def test_models_whose_attention_is_not_that_of_tokens(tmp_path):
    sizes = {"image_size": 8, "patch_size": 2, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2}
    with pytest.raises(UserError, match=r"swin has other heads in each stage \(num_attention_heads=\[1, 2\]\)"):
        trainer_of(SwinForImageClassification(SwinConfig(**sizes)), tmp_path)


def test_a_model_that_drops_tokens(tmp_path):
    """What is real is known where attention is."""

    class Pooled(BertForSequenceClassification):
        def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
            return super().forward(input_ids[:, ::2], attention_mask[:, ::2], labels=labels, **kwargs)

    trainer = trainer_of(Pooled(FAMILIES["bert"]), tmp_path)
    trainer.train()
    assert logged(trainer)[0]["mdg_loss"] > 0
    with pytest.raises(UserError, match="Pooled attends to 4 places in 6 rows, .* 8 tokens in 6"):
        trainer_of(Pooled(FAMILIES["bert"]), tmp_path, GuidingArguments(guiding="official", mdg_weight=1)).train()


def test_a_model_that_is_refused_by_name(tmp_path, monkeypatch):
    def refuse(module, kwargs):
        raise AttentionRefused("BertSelfAttention gives its attention indices")

    monkeypatch.setattr(attention, "_refuse_unknown", refuse)
    with pytest.raises(UserError, match="BertForSequenceClassification cannot be guided: BertSelfAttention gives its"):
        trainer_of(build(FAMILIES["bert"]), tmp_path).train()


class Wrapped(PreTrainedModel):
    """A model whose configuration does not say how many layers it has."""

    config_class = PreTrainedConfig

    def __init__(self, config):
        super().__init__(config)
        self.inner = build(FAMILIES["bert"], "eager")
        self.post_init()

    def forward(self, input_ids, attention_mask=None, labels=None, **kwargs):
        return self.inner(input_ids, attention_mask, labels=labels, **kwargs)


def test_a_configuration_without_layers(tmp_path):
    trainer = trainer_of(Wrapped(PreTrainedConfig()), tmp_path)
    trainer.train()
    assert logged(trainer)[0]["mdg_loss"] > 0
    with pytest.raises(UserError, match="there is no layer 2; the model has 0 to 1"):
        trainer_of(Wrapped(PreTrainedConfig()), tmp_path, GuidingArguments(mdg_weight=1, guided_layers=[2])).train()


def test_pairwise_attention_is_guided(tmp_path):
    config = BertPairwiseConfig(**{**SIZES, "num_labels": 2})
    data = rows().map(lambda row: {"entity_pieces": [[1], [4]]})
    trainer = trainer_of(BertPairwiseForRelationClassification(config), tmp_path, data=data)
    assert_guided(trainer)


def test_the_official_axis_restores_the_attention_of_an_encoder(tmp_path):
    config = PairwiseConfig(encoder=BertConfig(**SIZES), num_labels=2)
    model = PairwiseForRelationClassification(config)
    before = [model.config._attn_implementation, model.config.encoder._attn_implementation]
    data = rows().map(lambda row: {"entity_pieces": [[1], [4]]})
    trainer_of(model, tmp_path, GuidingArguments(guiding="official", mdg_weight=1.0), data=data).train()
    assert [model.config._attn_implementation, model.config.encoder._attn_implementation] == before


def test_the_rows_of_a_batch_with_a_name():
    assert batch_rows({"dataset_name": "nli", "input_ids": torch.ones(3, 2)}) == 3


def test_a_model_outside_the_attention_interface(tmp_path):
    config = MegatronBertConfig(**SIZES)
    gradients = moves(trainer := trainer_of(build(config), tmp_path))
    plain = moves(trainer_of(build(config), tmp_path, GuidingArguments()))
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert (gradients[name] - plain[name]).abs().max() > 1e-3
    assert {"task_loss", "mdg_loss", "pdg_loss"} <= logged(trainer)[0].keys()


def test_models_without_attentions(tmp_path):
    sizes = {name: SIZES[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size")}
    with pytest.raises(UserError, match="FNetModel has no attention"):
        trainer_of(build(FNetConfig(**sizes)), tmp_path).train()
    with pytest.raises(UserError, match="Linear returns no attentions"):
        trainer_of(torch.nn.Linear(2, 2), tmp_path)
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    both = build(BartConfig(vocab_size=100, **sizes, eos_token_id=50, pad_token_id=0))
    data = rows().map(lambda row: {"input_ids": [*row["input_ids"][:-1], 50], "attention_mask": [1] * 8})
    with pytest.raises(UserError, match="BartForSequenceClassification has an encoder and a decoder"):
        trainer_of(both, tmp_path, data=data).train()


def test_pairs_that_are_read_apart(tmp_path):
    sizes = {"vocab_size": 60, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 2}
    model = build(MSTransformerConfig(**sizes, sentence_pairs=True), "eager")
    with pytest.raises(UserError, match="attends to the sentences of a pair apart.*sentence_pairs=False"):
        trainer_of(model, tmp_path)
    trainer = trainer_of(build(MSTransformerConfig(**sizes), "eager"), tmp_path)
    assert all(gradient.isfinite().all() for gradient in moves(trainer).values())


def test_a_term_that_is_not_finite(tmp_path):
    model = build(FAMILIES["bert"])
    with torch.no_grad():
        model.bert.encoder.layer[1].attention.self.query.weight[0, 0] = torch.nan
    with pytest.raises(UserError, match="step 2: task_loss and mdg_loss and pdg_loss not finite"):
        trainer_of(model, tmp_path, max_steps=2, logging_steps=5).train()


def test_padding_one_token_and_a_batch_of_one(tmp_path):
    row = rows(2, 1)[0]
    for example in (row, {**row, "attention_mask": [0]}):
        trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, data=Dataset.from_list([example]))
        assert all(gradient.isfinite().all() for gradient in moves(trainer).values())


def test_words_alone_are_compared(tmp_path):
    """MDG of the maps without rows and columns of special tokens."""
    model = build(FAMILIES["bert"])
    data = rows()
    batch = {name: torch.tensor(data[name]) for name in ("input_ids", "attention_mask")}
    tokenizer = SimpleNamespace(all_special_ids=[10, 17])
    kept = batch["attention_mask"].bool() & ~torch.isin(batch["input_ids"], torch.tensor([10, 17]))
    model.set_attn_implementation("eager")
    maps = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    vectors = torch.cat([(one * kept[:, None, :, None]).sum(-2) for one in maps], dim=1)
    guiding = GuidingArguments(mdg_weight=0.5, guiding_kwargs={"guiding_tokens": "words"})
    with pytest.raises(UserError, match="works neither .* gradient checkpointing"):
        trainer_of(model, tmp_path, guiding, gradient_checkpointing=True)
    trainer = trainer_of(model, tmp_path, guiding)
    with pytest.raises(UserError, match="guiding_tokens=words needs the tokenizer"):
        trainer.train()
    trainer.processing_class = tokenizer
    trainer.train()
    assert logged(trainer)[0]["mdg_loss"] == pytest.approx(mdg_loss(vectors, kept).item(), rel=1e-4)


def test_the_weights_decay(tmp_path):
    decay = {"guiding_decay": "linear"}
    guiding = GuidingArguments(mdg_weight=0.5, patterns=["first"], pattern_weight=3.0, guiding_kwargs=decay)
    trainer = trainer_of(build(FAMILIES["bert"]), tmp_path, guiding, max_steps=4)
    trainer.train()
    for line, part in zip(logged(trainer), (1, 0.75, 0.5, 0.25), strict=True):
        guided = part * (0.5 * line["mdg_loss"] + 3 * line["pattern_loss"])
        assert line["loss"] == pytest.approx(line["task_loss"] + guided, rel=1e-3)
