"""Learning rates that a run does not give: of an encoder by its size, of new output layers by what they read."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel, TrainingArguments

from msattn.errors import UserError, refuse_below
from msattn.modeling.evaluation_mode import evaluating

AUTO = "auto"
# Chosen on development data (papers/learning_rates). The encoder's is that of MiniLM, 384 wide; MPNet, 768 wide and 12
# layers deep, learned best with half of it. Deeper encoders are unstable at such rates.
ENCODER_RATE, WIDTH, DEPTH = 2e-4, 384, 12
# The rate of a model that is trained from scratch (docs/ms_transformer.md).
SCRATCH_RATE = 2e-3
# How far a step of the optimizer may move a score, and the most that a rate may be for it.
SCORE_STEP, MOST = 1.0, 1e-2
# The ends of the names of scores that are better if they are lower, beside the loss.
ERRORS = ("mse", "ece", "false_positives")


@dataclass
class FineTuningArguments(TrainingArguments):
    """Those of Transformers, with a learning rate that depends on the encoder, with warm-up and ten logs a run."""

    learning_rate: float | None = field(
        default=None,
        metadata={
            "help": "Default: 2e-4 for an encoder 384 wide, less for a wider one or one of more than 12 layers; 2e-3 "
            "for a model that is trained from scratch."
        },
    )
    # Transformers' flag needs a value.
    disable_tqdm: bool = field(default=False, metadata={"help": "Print lines in place of progress bars."})
    warmup_steps: float = field(default=0.1, metadata={"help": "Steps of warm-up, or their share of all steps."})
    logging_steps: float = field(default=0.1, metadata={"help": "Steps between logs, or their share of all steps."})

    def __post_init__(self) -> None:
        refuse_below(self, seed=0, learning_rate=0, gradient_accumulation_steps=1)
        refuse_below(self, per_device_train_batch_size=1, per_device_eval_batch_size=1)
        unset = getattr(self, "greater_is_better", None) is None
        if unset and str(self.metric_for_best_model).endswith(ERRORS):
            self.greater_is_better = False
        by_steps = self.eval_strategy == self.save_strategy == "steps"
        unset_steps = self.eval_steps is None and getattr(self, "save_steps", None) == 500  # Transformers' default
        if self.load_best_model_at_end and by_steps and unset_steps:
            self.save_steps = self.logging_steps  # as evaluations do
        super().__post_init__()
        if self.do_train and (self.fp16_full_eval or self.bf16_full_eval):
            raise UserError("--bf16_full_eval and --fp16_full_eval round the weights to be saved; train with --bf16.")
        if self.deepspeed_plugin and {"optimizer", "scheduler"} & self.deepspeed_plugin.deepspeed_config.keys():
            raise UserError(
                "the DeepSpeed configuration names an optimizer or a scheduler, which have one learning rate for all "
                "layers: leave both out, and give --optim and --lr_scheduler_type."
            )
        optim = self.optim.value
        if optim.endswith("layerwise") or "lomo" in optim:
            raise UserError(f"--optim {optim} has one learning rate for all layers: take another one.")
        if optim.startswith("schedule_free"):
            raise UserError(f"--optim {optim} saves other weights than those that are scored: take another one.")
        if not self.remove_unused_columns:
            raise UserError("--remove_unused_columns False gives the model columns that it cannot take: leave it out.")
        if self.prediction_loss_only or self.batch_eval_metrics or not self.eval_do_concat_batches:
            raise UserError(
                "--prediction_loss_only, --batch_eval_metrics and --eval_do_concat_batches False leave no answers to "
                "score and write."
            )


def for_another_trainer(args: TrainingArguments) -> Any:
    """A copy of the arguments for a Trainer before that of the run: it neither evaluates nor saves checkpoints."""
    own = copy.copy(args)
    own.eval_strategy = own.save_strategy = "no"
    own.eval_on_start = own.load_best_model_at_end = own.push_to_hub = own.enable_jit_checkpoint = False
    return own


def encoder_rate(config: PreTrainedConfig) -> float:
    """The learning rate of a pre-trained encoder of this width and depth."""
    config = config.get_text_config()
    depth = getattr(config, "num_hidden_layers", None) or DEPTH
    return ENCODER_RATE * min(1, WIDTH / config.hidden_size) * min(1, DEPTH / depth)


def read_rate(given: str | float | None) -> str | float | None:
    """
    The value of `--new_layers_learning_rate`: `"auto"`, a number, or `None`.

    Raises:
        UserError: It is none of these, or negative.
    """
    if given is None or given == AUTO:
        return given
    try:
        if (rate := float(given)) >= 0:
            return rate
    except ValueError:
        pass
    raise UserError(f"--new_layers_learning_rate {given}: expected auto or a number such as 1e-3.")


def is_new(name: str, model: PreTrainedModel) -> bool:
    """Whether the parameter belongs to a new layer, not to the pre-trained encoder."""
    paths = getattr(model, "_encoder_paths", (model.base_model_prefix,))
    return not name.startswith(tuple(f"{path}." for path in paths))


def new_output_layers(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """
    The linear layers that give the scores of the labels and whose weights are new, by name.

    `model.new_weights` names the new weights; [`load_model`] sets it. Without it, no layer is new.
    """
    new = getattr(model, "new_weights", ())
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == model.config.num_labels and f"{name}.weight" in new
    }


def start_at_rates(model: PreTrainedModel, rates: torch.Tensor) -> None:
    """
    Sets the bias of the new output layers so that sigmoids begin at the rate of each label ("Focal Loss for Dense
    Object Detection", Lin et al. 2017).

    From a half, the first steps would do nothing but lower all scores, and Adam remembers how steep these were.

    Args:
        model (`PreTrainedModel`): The model before training.
        rates (`torch.Tensor` of shape `(labels,)`): The share of the examples that have each label.
    """
    biases = [layer.bias for layer in new_output_layers(model).values() if layer.bias is not None]
    with torch.no_grad():
        for bias in biases:  # a score is the sum of them
            bias.copy_(torch.logit(rates) / len(biases))


def output_rate(model: PreTrainedModel, batch: Mapping[str, Any]) -> float:
    r"""
    The learning rate of the new output layers, of which a model has at least one.

    A step of Adam moves each weight by up to the rate, and so a score W h + b by up to rate · ‖h‖₁. This rate makes it
    1 for the mean ‖h‖₁ of a batch. Encoders whose last LayerNorm has small gains need a larger one.

    Args:
        model (`PreTrainedModel`): The model before training.
        batch (`Mapping[str, Any]`): Its inputs.

    Returns:
        `float`: Rounded to two digits, and at most 1e-2.
    """
    sizes: list[float] = []

    def measure(layer: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        sizes.append(inputs[0].float().norm(p=1, dim=-1).mean().item())

    hooks = [layer.register_forward_pre_hook(measure) for layer in new_output_layers(model).values()]
    with evaluating(model), torch.no_grad():
        model(**batch)
    for hook in hooks:
        hook.remove()
    return float(f"{min(MOST, SCORE_STEP / sum(sizes)):.2g}")
