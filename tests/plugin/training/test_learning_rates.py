"""The learning rates that a run chooses."""

from __future__ import annotations

import dataclasses
import re

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    default_data_collator,
)

from msattn import MultiScaleForRelationExtraction, PairwiseForRelationClassification, UserError
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import load_model
from msattn.training.dependency_parsing import STEPS, ParserTrainingArguments
from msattn.training.learning_rates import (
    DEPTH,
    ENCODER_RATE,
    SCORE_STEP,
    SCRATCH_RATE,
    WIDTH,
    FineTuningArguments,
    encoder_rate,
    for_another_trainer,
    new_output_layers,
    output_rate,
    read_rate,
    start_at_rates,
)
from msattn.training.trainer import FineTuningTrainer
from tests.tiny_models import saved_encoder, tiny_tokenizer

LABELS = {"id2label": dict(enumerate("abcde")), "label2id": {label: number for number, label in enumerate("abcde")}}
BATCH = {
    "input_ids": torch.tensor([[2, 21, 5, 22, 6, 23, 7, 24, 3], [2, 21, 8, 22, 23, 9, 24, 3, 0]]),
    "attention_mask": torch.tensor([[1] * 9, [1] * 8 + [0]]),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder with states like those of one 384 wide, for which the rate is below its bound."""
    folder = saved_encoder(tmp_path_factory.mktemp("encoder"), layers=1)
    model = AutoModelForSequenceClassification.from_pretrained(folder, **LABELS)
    torch.nn.init.constant_(model.bert.encoder.layer[-1].output.LayerNorm.weight, 20.0)
    model.bert.save_pretrained(folder)
    return folder


def loaded(model_class, folder, **fields):
    return load_model(model_class, ModelArguments(str(folder)), tiny_tokenizer(), **LABELS, **fields)


def test_a_trainer_before_that_of_the_run_leaves_signals_alone(tmp_path):
    args = FineTuningArguments(str(tmp_path), use_cpu=True, enable_jit_checkpoint=True)
    assert not for_another_trainer(args).enable_jit_checkpoint and args.enable_jit_checkpoint


@pytest.mark.parametrize("width, layers, rate", [(128, 2, 2e-4), (384, 6, 2e-4), (768, 12, 1e-4), (1024, 24, 3.75e-5)])
def test_large_encoders_learn_at_lower_rates(width, layers, rate):
    config = BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=2)
    assert encoder_rate(config) == pytest.approx(rate)


def test_what_the_flag_takes():
    assert [read_rate(given) for given in ("auto", None, "1e-3", 0.5)] == ["auto", None, 1e-3, 0.5]
    for wrong in ("fast", "-1", "nan"):
        with pytest.raises(UserError, match=f"--new_layers_learning_rate {wrong}: expected auto or a number"):
            read_rate(wrong)


@pytest.mark.parametrize(
    "model_class, fields, names",
    [
        (MultiScaleForRelationExtraction, {"scales": [3], "fusion_residual": True}, ["multiscale_classifier"]),
        (MultiScaleForRelationExtraction, {"fusion_layers": 0}, ["multiscale_classifier"]),
        (AutoModelForTokenClassification, {}, ["classifier"]),
        (
            PairwiseForRelationClassification,
            {},
            ["classifier.states.head", "classifier.states.dependent", "classifier.attention"],
        ),
    ],
)
def test_a_step_moves_a_score_by_the_same_amount(model_class, fields, names, encoder):
    model = loaded(model_class, encoder, **fields)
    assert list(new_output_layers(model)) == names
    start_at_rates(model, torch.tensor([0.5, 0.1, 0.1, 0.1, 0.01]))
    biases = [bias for name in names if (bias := model.get_submodule(name).bias) is not None]
    assert sum(biases).sigmoid().tolist() == pytest.approx([0.5, 0.1, 0.1, 0.1, 0.01])
    spans = {"entity_starts": torch.tensor([[1, 5], [1, 4]])}
    if model_class is PairwiseForRelationClassification:
        spans = {"entity_pieces": torch.tensor([[[2], [6]], [[2], [5]]])}
    if model_class is AutoModelForTokenClassification:
        spans = {}
    model.double()
    rate = output_rate(model, {**BATCH, **spans})
    assert rate < 1e-2 and model.training is False

    # Each weight moves by the rate in the direction that raises the scores most, as in a first step of Adam.
    inputs = {name: [] for name in names}
    for name in names:
        model.get_submodule(name).register_forward_pre_hook(lambda _, given, name=name: inputs[name].append(given[0]))
    with torch.no_grad():
        model(**BATCH, **spans)
    moved = sum((rate * given[0].sign() * given[0]).sum(dim=-1).mean().item() for given in inputs.values())
    assert moved == pytest.approx(SCORE_STEP, rel=0.05)  # the rate has two digits


def rates(tmp_path, model, **given):
    """Learning rates by parameter after a training without steps."""
    args = FineTuningArguments(str(tmp_path), use_cpu=True, report_to="none", disable_tqdm=True, max_steps=1)
    rows = [{"input_ids": [2, 21, 5, 22, 6, 23, 7, 24, 3], "entity_starts": [1, 5], "labels": 1}] * 4
    trainer = FineTuningTrainer(model, args, train_dataset=rows, data_collator=default_data_collator, **given)
    trainer.train()
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = trainer.optimizer.param_groups
    return trainer, {names[weight]: group["initial_lr"] for group in groups for weight in group["params"]}


def test_only_new_output_layers_learn_at_the_chosen_rate(encoder, tmp_path, capsys):
    trainer, found = rates(
        tmp_path, loaded(MultiScaleForRelationExtraction, encoder, scales=[3]), new_layers_learning_rate="auto"
    )
    chosen = trainer.output_layers_learning_rate
    assert 2e-4 < chosen <= 1e-2
    own = {name for name, rate in found.items() if rate == chosen}
    assert own == {"multiscale_classifier.weight", "multiscale_classifier.bias"}
    assert {rate for name, rate in found.items() if name not in own} == {2e-4}
    said = (
        f"The learning rate is 0.0002, and {chosen:g} for the new output layers: multiscale_classifier (--new_layers"
    )
    assert said in capsys.readouterr().out

    # The trained model has no new layer: it goes on at one rate.
    trainer.save_model()
    again, found = rates(tmp_path, loaded(MultiScaleForRelationExtraction, tmp_path), new_layers_learning_rate="auto")
    assert again.output_layers_learning_rate is None and {*found.values()} == {2e-4}
    assert AutoConfig.from_pretrained(tmp_path).num_labels == 5


@pytest.mark.parametrize(
    "arguments, name, numbers",
    [
        (FineTuningArguments, "learning_rate", {WIDTH, DEPTH, ENCODER_RATE, SCRATCH_RATE}),
        (ParserTrainingArguments, "num_train_epochs", {3, STEPS}),
    ],
)
def test_the_help_names_the_defaults(arguments, name, numbers):
    """It is read without running the code, so it cannot be put together from them."""
    (field,) = (field for field in dataclasses.fields(arguments) if field.name == name)
    assert {*map(float, re.findall(r"\d+(?:e-\d+)?", field.metadata["help"]))} == numbers
