"""The Trainer of the scripts: attention guiding, learning rates of new layers, batches with little padding."""

from __future__ import annotations

import math
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import broadcast_object_list, send_to_device
from datasets import Dataset
from torch.utils.data import DataLoader, Sampler
from transformers import EarlyStoppingCallback, PrinterCallback, ProgressCallback, Trainer, TrainingArguments
from transformers.integrations import is_deepspeed_zero3_enabled
from transformers.trainer_utils import EvalLoopOutput, HubStrategy, PredictionOutput, TrainOutput, sort_checkpoints
from transformers.utils import logging

from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.training.accumulation import batch_rows
from msattn.training.guiding_mixin import GuidingMixin
from msattn.training.learning_rates import AUTO, encoder_rate, is_new, new_output_layers, output_rate, read_rate
from msattn.training.length_samplers import (
    RepeatableLengthGroupedSampler,
    TextSampler,
    longest_first,
    rows_by_text,
    token_counts,
)
from msattn.training.terminal import NO_SCORES, UNSEEN, BarCallback, LineCallback, scores_text

logger = logging.get_logger(__name__)

# Training examples by which the rate of new output layers is chosen.
MEASURED = 32


class FineTuningTrainer(GuidingMixin, Trainer):
    r"""
    A [`GuidedTrainer`] with separate learning rates for the randomly initialized layers above a pre-trained encoder,
    and for the token embeddings.

    It stops if a logged loss, or a weight to be saved, becomes NaN or infinite.

    Args:
        model (`PreTrainedModel`): The model.
        args (`TrainingArguments`): The training arguments. A `learning_rate` of `None` becomes [`encoder_rate`].
        guiding (`GuidingArguments`, *optional*): Attention guiding. Default: none.
        new_layers_learning_rate (`float` or `"auto"`, *optional*):
            Learning rate of the new layers: all parameters outside the encoder. Schedule and weight decay are shared
            with the other parameters. `"auto"`: [`output_rate`] for the new output layers, and `args.learning_rate`
            for all else. Default: `args.learning_rate`.
        embedding_learning_rate (`float`, *optional*):
            Learning rate of the token embeddings; 0 freezes them. Default: `args.learning_rate`.
        **kwargs: Keyword arguments of [`Trainer`].

    Raises:
        UserError: `args.hub_model_id` is an address, or the loss has no labels for `args.label_smoothing_factor`.
    """

    def __init__(
        self,
        model: Any,
        args: TrainingArguments,
        guiding: GuidingArguments | None = None,
        new_layers_learning_rate: str | float | None = None,
        embedding_learning_rate: float | None = None,
        **kwargs: Any,
    ):
        if args.device.type == "cpu":
            args.dataloader_pin_memory = False  # as --use_cpu does; PyTorch would warn before each pass
        if args.learning_rate is None:
            args.learning_rate = encoder_rate(model.config)
        if "://" in (args.hub_model_id or ""):
            raise UserError("--hub_model_id is NAME or OWNER/NAME, not an address, which may hold a token.")
        super().__init__(model, args, guiding=guiding or GuidingArguments(), **kwargs)
        several = ("regression", "multi_label_classification")
        own_loss = self.compute_loss_func or not self.label_names or getattr(model.config, "crf", False)
        if args.label_smoothing_factor and (own_loss or model.config.problem_type in several):
            raise UserError("--label_smoothing_factor is for labels of which a text, a pair or a word has one.")
        for stock, ours in ((ProgressCallback, BarCallback), (PrinterCallback, LineCallback)):
            if self.pop_callback(stock):  # a notebook has another one
                self.add_callback(ours)
        self.new_layers_learning_rate = read_rate(new_layers_learning_rate)
        self.output_layers_learning_rate: float | None = None  # which "auto" chooses
        self.embedding_learning_rate = embedding_learning_rate
        self._terminated: int | None = None
        self._weights: list[torch.Tensor] = []  # of the rows of an evaluation
        self.args.logging_nan_inf_filter = False  # it would hide what `log` stops at
        if embedding_learning_rate == 0:  # saves their gradients, too
            self.model.get_input_embeddings().requires_grad_(False)
        if self.args.hub_token is not None:
            self.args.hub_token = UnsavedToken(self.args.hub_token)
        ignored = Path(self.args.output_dir, ".gitignore")
        if self.args.push_to_hub and self.args.should_save and not ignored.exists():
            # Which the Hub heeds: the texts of the data, and the encoder of --mlm_epochs, stay here.
            ignored.parent.mkdir(parents=True, exist_ok=True)
            ignored.write_text("*_predictions.*\nmlm/\n", encoding="utf-8")
        plugin = getattr(self.accelerator.state, "fsdp_plugin", None)
        # The Trainers of a run share the plugin: the last one names its blocks.
        if plugin is not None and plugin.transformer_cls_names_to_wrap in (None, getattr(plugin, "own_blocks", None)):
            plugin.transformer_cls_names_to_wrap = plugin.own_blocks = _blocks(self.model)

    def create_optimizer(self, *args: Any) -> torch.optim.Optimizer:
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(*args)
        if fresh:
            model = args[0] if args else self.model
            new: tuple[Any, Any] = (is_new, self.new_layers_learning_rate)
            if self.new_layers_learning_rate == AUTO:
                new = (_is_new_output, self.output_layers_learning_rate)
            for belongs, rate in (new, (_is_embedding, self.embedding_learning_rate)):
                if rate not in (None, self.args.learning_rate):
                    named = ((name.removeprefix("module."), tensor) for name, tensor in model.named_parameters())
                    _move(optimizer, {tensor for name, tensor in named if belongs(name, self.model)}, rate)
        return optimizer

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> Sampler | None:
        dataset = self.train_dataset if train_dataset is None else train_dataset
        by_length = self.args.train_sampling_strategy == "group_by_length"
        if not isinstance(dataset, Dataset) or self.args.train_sampling_strategy in ("sequential", "batch_rebalance"):
            return super()._get_train_sampler(train_dataset)
        batch, lengths = self.args.train_batch_size * self.args.gradient_accumulation_steps, token_counts(dataset)
        first = self.args.seed if self.args.data_seed is None else self.args.data_seed

        def seed() -> int:
            return first + int(self.state.epoch or 0)

        if getattr(self.data_collator, "shares", False):
            texts = rows_by_text(dataset)
            if len(texts) < len(lengths):
                return TextSampler(batch, texts, lengths if by_length else [1] * len(lengths), seed)
        if not by_length:
            return super()._get_train_sampler(train_dataset)
        return RepeatableLengthGroupedSampler(batch, lengths, seed)

    def _get_eval_sampler(self, eval_dataset: Dataset) -> Any:
        return longest_first(eval_dataset)

    def _get_dataloader(self, *args: Any, **kwargs: Any) -> DataLoader:
        """`--dataloader_drop_last` is for training: all examples are scored and predicted."""
        drops = self.args.dataloader_drop_last
        self.args.dataloader_drop_last = drops and kwargs.get("is_training", False)
        try:
            return super()._get_dataloader(*args, **kwargs)
        finally:
            self.args.dataloader_drop_last = drops

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """As in [`Trainer`], but the loss is the mean over all words or pairs that are scored, not over batches."""
        self._weights = []
        if self.accelerator.is_fsdp2:  # which prepares no model without its optimizer
            self.model = self._evaluated_model()
        output = super().evaluation_loop(*args, **kwargs)
        if self._weights and (name := f"{kwargs.get('metric_key_prefix', 'eval')}_loss") in output.metrics:
            output.metrics[name] = (output.metrics[name] / torch.cat(self._weights).mean()).item()
        return output

    def _evaluated_model(self) -> Any:
        """The model that is being trained, or one that is whole in each process."""
        if self.accelerator._models:
            return self.model
        return self.accelerator.prepare_model(self.model, device_placement=True, evaluation_mode=True)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """As in [`Trainer`], but in an evaluation the mean over the batch of this process, which is weighed below."""
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch if model.training else None)

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, *args: Any, **kwargs: Any
    ) -> tuple[Any, Any, Any]:
        loss, logits, labels = super().prediction_step(model, inputs, prediction_loss_only, *args, **kwargs)
        if loss is not None and labels is not None:
            # The Trainer weighs batches by their rows, some of which accelerate repeats to fill the last batches;
            # `evaluation_loop` divides by these weights.
            weight = torch.as_tensor(self._labelled(inputs) / batch_rows(inputs), device=loss.device)
            loss = loss * weight
            self._weights.append(self.accelerator.gather_for_metrics(weight.repeat(self.args.eval_batch_size)))
        # Some models, such as T5, return further tensors behind the logits.
        return loss, logits[0] if isinstance(logits, tuple) else logits, labels

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """
        As in [`Trainer`], but without a draw from the random numbers of the training.

        A run that resumes from a checkpoint of an epoch's last step does not repeat the evaluation after it.

        Raises:
            UserError: `--metric_for_best_model` is none of the scores in a training.
        """
        with torch.random.fork_rng(devices=[]):  # a DataLoader draws on the CPU
            metrics = super().evaluate(*args, **kwargs)
        name = self.args.metric_for_best_model
        whole = self.is_in_train and "metric_key_prefix" not in kwargs  # not one of several sets
        if whole and name and f"eval_{name.removeprefix('eval_')}" not in metrics:
            found = ", ".join(each.removeprefix("eval_") for each in metrics if not each.endswith((*UNSEEN, "epoch")))
            raise UserError(f"--metric_for_best_model {name}: there is no such score; there are {found}.")
        return metrics

    def predict(self, test_dataset: Dataset, *args: Any, **kwargs: Any) -> PredictionOutput:
        """As in [`Trainer`]. The predictions are in dataset order, although the batches are sorted by length."""
        output = super().predict(test_dataset, *args, **kwargs)
        back = np.argsort(list(self._get_eval_sampler(test_dataset)))
        labels = None if output.label_ids is None else output.label_ids[back]
        return PredictionOutput(output.predictions[back], labels, output.metrics)

    def train(self, *args: Any, **kwargs: Any) -> TrainOutput:
        """
        As in [`Trainer`].

        Raises:
            UserError: SIGTERM ended the training (`--enable_jit_checkpoint`): a model that is half trained is neither
                saved as the result nor scored.
        """
        if self.new_layers_learning_rate == AUTO and new_output_layers(self.model):
            self._choose_output_rate()
        elif isinstance(self.new_layers_learning_rate, float) and self.args.should_log:
            rates = f"{self.args.learning_rate:g}, and {self.new_layers_learning_rate:g} for the new layers"
            print(f"The learning rate is {rates}.")
        output = super().train(*args, **kwargs)
        if self._terminated is not None:
            raise UserError(
                f"stopped by SIGTERM: checkpoint-{self._terminated} is saved to {self.args.output_dir}; the same "
                "command with --resume_from_checkpoint last goes on from it."
            )
        return output

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """
        As in [`Trainer`].

        Raises:
            UserError: The training loss is NaN or infinite.
        """
        super().log(logs, *args, **kwargs)
        for name in ("loss", "train_loss"):
            value = logs.get(name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(self._diverged(f"the loss is {value}"))

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        """
        As in [`Trainer`].

        Raises:
            UserError: A weight is NaN or infinite. Nothing is written.
        """
        self._check_weights()
        super().save_model(*args, **kwargs)

    def _load_callback_state(self) -> None:
        """As in [`Trainer`], but early stopping goes on counting with the patience of this run."""
        stored = self.state.stateful_callbacks.get(EarlyStoppingCallback.__name__, {})
        for callback in self.callback_handler.callbacks:
            if type(callback) is EarlyStoppingCallback:
                stored["args"] = callback.state()["args"]
        super()._load_callback_state()

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self._check_weights()
        # A checkpoint that the schedule did not ask for is that of a signal.
        terminated = self.control.should_training_stop and not self.control.should_save
        if terminated:
            self._terminated = self.state.global_step
        self._date_checkpoints()
        super()._save_checkpoint(*args, **kwargs)
        if terminated:  # Transformers does not tell callbacks of it, and with a limit of 1 would delete it
            self.callback_handler.on_save(self.args, self.state, self.control)
            self.args.save_total_limit = None

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """As in [`Trainer`], with the code that the configuration names."""
        if self.is_world_process_zero() and self.args.hub_strategy != HubStrategy.END:
            for path in Path(checkpoint_folder).glob("*.py"):
                target = Path(self.args.output_dir, path.name)
                if not target.exists() or target.read_bytes() != path.read_bytes():  # a push may be reading it
                    shutil.copy(path, target)
        super()._push_from_checkpoint(checkpoint_folder)

    def _date_checkpoints(self) -> None:
        """
        Dates checkpoints of the future before now: the Trainer keeps those changed last, and after a clock was set
        back it would delete each one that it has just written.
        """
        checkpoints, now = sort_checkpoints(self.args.output_dir), time.time()
        if self.args.should_save and any(os.path.getmtime(path) > now for path in checkpoints):
            for age, path in enumerate(reversed(checkpoints), start=1):
                os.utime(path, (now - age, now - age))

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """As in [`Trainer`], but keeps an existing `README.md`, such as the detailed card of a script."""
        if not Path(self.args.output_dir, "README.md").exists():
            super().create_model_card(*args, **kwargs)

    def record(self, prefix: str, metrics: dict[str, float]) -> dict[str, float]:
        """
        Prints scores and saves all metrics, and that scores are in percent, to `<prefix>_results.json` and
        `all_results.json`. Returns them.
        """
        if prefix == "train" and self.args.should_save:
            # The Trainer merges into an existing file, which may hold the scores of an earlier model.
            Path(self.args.output_dir, "all_results.json").unlink(missing_ok=True)
        unit = {} if all(name.endswith(NO_SCORES) for name in metrics) else {"unit": "percent"}
        if prefix != "train" and self.is_world_process_zero():
            print(scores_text(prefix, metrics, self.args.output_dir))
        self.save_metrics(prefix, metrics | unit)
        return metrics

    def _choose_output_rate(self) -> None:
        if is_deepspeed_zero3_enabled():
            logger.warning(
                "--new_layers_learning_rate auto runs the model once, which ZeRO-3 has sharded: new layers learn at "
                "--learning_rate; give a number, such as ten times as much."
            )
            return
        chosen = [0.0]
        if self.is_world_process_zero():
            data: Any = self.train_dataset
            collate = self._get_collator_with_removed_columns(self.data_collator)
            rows = [data[row] for row in range(min(MEASURED, len(data)))]
            batch = send_to_device(collate(rows), self.model.device)
            batch.pop("pattern_targets", None)  # for guiding, not for the model
            if self.compute_loss_func is not None:  # as in each step; those of distillation are no class ids
                batch.pop("labels", None)
            chosen = [output_rate(self.model, batch)]
        (self.output_layers_learning_rate,) = broadcast_object_list(chosen)
        if self.args.should_log:
            print(
                f"The learning rate is {self.args.learning_rate:g}, and {chosen[0]:g} for the new output layers: "
                f"{', '.join(new_output_layers(self.model))} (--new_layers_learning_rate auto)."
            )

    def _check_weights(self) -> None:
        with torch.no_grad():
            # Under FSDP a process looks at its own part.
            parts = (getattr(weight, "to_local", lambda weight=weight: weight)() for weight in self.model.parameters())
            finite = [part.isfinite().all().to(self.args.device) for part in parts if part.is_floating_point()]
            # One value crosses from the device, and all processes stop together.
            every = self.accelerator.gather(torch.stack(finite).all().reshape(1)).all()
        if not every:
            raise UserError(self._diverged("a weight is NaN or infinite"))

    def _diverged(self, what: str) -> str:
        return (
            f"step {self.state.global_step}: {what}, at a learning rate of {self.args.learning_rate:g}; lower "
            f"--learning_rate or --max_grad_norm. What {self.args.output_dir} held before is unchanged."
        )


class UnsavedToken(str):
    """A token that pickles as `None`: the Trainer saves its arguments with the model and pushes them."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _move(optimizer: torch.optim.Optimizer, parameters: set[torch.nn.Parameter], learning_rate: float) -> None:
    """Moves parameters to groups of their own, with this learning rate."""
    for group in list(optimizer.param_groups):
        moved = [parameter for parameter in group["params"] if parameter in parameters]
        if moved:
            group["params"] = [parameter for parameter in group["params"] if parameter not in parameters]
            optimizer.add_param_group({**group, "params": moved, "lr": learning_rate})


def _blocks(model: Any) -> list[str]:
    """The classes of blocks that the model names, but those around the embeddings, which accelerate shards itself."""
    embeddings = model.get_input_embeddings()
    found = {type(module).__name__: module for module in model.modules()}
    named = found.keys() & set(model._no_split_modules or ())
    return sorted(name for name in named if all(part is not embeddings for part in found[name].modules()))


def _is_new_output(name: str, model: Any) -> bool:
    """Whether the parameter belongs to a new layer that gives the scores."""
    return name.rpartition(".")[0] in new_output_layers(model)


def _is_embedding(name: str, model: Any) -> bool:
    """Whether the parameter belongs to the token embeddings."""
    embeddings = model.get_input_embeddings()
    return any(module is embeddings and name.startswith(f"{place}.") for place, module in model.named_modules())
