"""Numbers that a run cannot have end in a sentence that names their flag."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import pytest
from transformers import TrainingArguments

from msattn import UserError
from msattn.training.arguments import DataArguments, ModelArguments
from msattn.training.from_scratch import ScratchArguments
from msattn.training.learning_rates import FineTuningArguments
from msattn.training.masked_lm import MaskedLMArguments
from run_ranking import RankingDataArguments
from run_re import RelationDataArguments


@pytest.mark.parametrize(
    ("arguments", "name", "wrong", "least"),
    [
        (DataArguments, "split_seed", -1, 0),
        (DataArguments, "train_fraction", math.nan, 0),
        (DataArguments, "preprocessing_num_workers", -1, 0),
        (DataArguments, "early_stopping_patience", 0, 1),
        (DataArguments, "max_predict_samples", 0, 1),
        (RankingDataArguments, "max_train_samples", 0, 1),
        (RankingDataArguments, "train_negatives", -1, 0),
        (RelationDataArguments, "max_eval_samples", 0, 1),
        (RelationDataArguments, "negative_pairs", -1, 0),
        (ModelArguments, "embedding_learning_rate", -0.5, 0),
        (MaskedLMArguments, "mlm_epochs", -1, 0),
        (partial(MaskedLMArguments, mlm_epochs=1), "mlm_learning_rate", -1, 0),
        (ScratchArguments, "vocabulary_size", 4, 5),
        (FineTuningArguments, "seed", -1, 0),
        (FineTuningArguments, "learning_rate", math.nan, 0),
        (FineTuningArguments, "gradient_accumulation_steps", 0, 1),
        (FineTuningArguments, "per_device_train_batch_size", 0, 1),
        (FineTuningArguments, "per_device_eval_batch_size", 0, 1),
    ],
)
def test_a_number_that_is_too_small(arguments, name, wrong, least):
    with pytest.raises(UserError, match=f"^--{name} {wrong}: give {least} or more.$"):
        arguments(**{name: wrong})
    arguments(**{name: least})


@pytest.mark.parametrize(
    ("metric", "greater"),
    [("mse", False), ("eval_ece", False), ("false_positives", False), ("loss", False), ("pearson", True)],
)
def test_the_best_error_is_the_lowest(metric, greater):
    def given(**changes):
        return FineTuningArguments(use_cpu=True, metric_for_best_model=metric, **changes).greater_is_better

    assert given() is greater and given(greater_is_better=True) is True


@pytest.mark.parametrize(
    "flag", [{"prediction_loss_only": True}, {"batch_eval_metrics": True}, {"eval_do_concat_batches": False}]
)
def test_answers_are_kept(flag):
    with pytest.raises(UserError, match=f"--{[*flag][0]}.* leave no answers"):
        FineTuningArguments(use_cpu=True, **flag)


def test_columns_are_removed():
    with pytest.raises(UserError, match="--remove_unused_columns False gives the model columns"):
        FineTuningArguments(use_cpu=True, remove_unused_columns=False)


@pytest.mark.parametrize("optim", ["galore_adamw_layerwise", "adalomo", "schedule_free_adamw"])
def test_optimizers_that_do_not_fit(optim):
    with pytest.raises(UserError, match=f"^--optim {optim} .*: take another one.$"):
        FineTuningArguments(optim=optim, use_cpu=True)


def test_optimizers_of_deepspeed(monkeypatch):
    check = TrainingArguments.__post_init__

    def configured(self):
        check(self)
        self.deepspeed_plugin = SimpleNamespace(deepspeed_config={"scheduler": {"type": "WarmupLR"}})

    monkeypatch.setattr(TrainingArguments, "__post_init__", configured)
    with pytest.raises(UserError, match="the DeepSpeed configuration names an optimizer or a scheduler"):
        FineTuningArguments(use_cpu=True)


def test_checkpoints_are_saved_where_the_best_is_looked_for():
    given = {"eval_strategy": "steps", "load_best_model_at_end": True, "use_cpu": True}
    args = FineTuningArguments(**given)
    assert args.save_steps == args.eval_steps == args.logging_steps == 0.1
    assert FineTuningArguments(**given, eval_steps=20, save_steps=40).save_steps == 40


def test_weights_that_evaluation_would_round():
    with pytest.raises(UserError, match="round the weights to be saved"):
        FineTuningArguments(do_train=True, bf16_full_eval=True, use_cpu=True)
