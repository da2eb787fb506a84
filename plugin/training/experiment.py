"""One experiment: train, evaluate and predict with one seed or with several, and leave a record of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import (
    DataCollatorWithPadding,
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
    set_seed,
)
from transformers.utils import logging

from msattn.errors import UserError
from msattn.training.checkpoints import last_checkpoint
from msattn.training.guided_trainer import GuidedTrainer
from msattn.training.guiding_arguments import GuidingArguments
from msattn.training.model_card import ModelCardFacts, write_model_card
from msattn.training.results import seed_table, summarize, write_json
from msattn.training.trainer import FineTuningTrainer

logger = logging.get_logger(__name__)


@dataclass
class ExperimentArguments:
    """How often and how long."""

    seeds: list[int] | None = field(
        default=None, metadata={"help": "Run once a seed, in folders seed-N, and report mean and spread."}
    )
    early_stopping_patience: int | None = field(
        default=None,
        metadata={"help": "Stop when --metric_for_best_model has not improved for so many evaluations."},
    )
    train_fraction: list[float] | None = field(
        default=None,
        metadata={
            "help": "Train with this part of the training data, such as 0.2. Several are a study: a run each, in "
            "folders fraction-N, a smaller part inside a larger one, and a table and a plot."
        },
    )
    guide_each_layer: bool = field(
        default=False,
        metadata={"help": "A study: a run a layer, in folders layer-N, that guides no other, and a table and a plot."},
    )


class GuidedFineTuningTrainer(GuidedTrainer, FineTuningTrainer):
    """A [`FineTuningTrainer`] that guides the attention, if it is asked to."""


@dataclass
class Experiment:
    """
    What the scripts share once their data are ready.

    Args:
        model_init (`Callable`): Builds the model; called after the seed is set.
        tokenizer (`PreTrainedTokenizerBase`): Pads the batches and is saved with the model.
        compute_metrics (`Callable`): `EvalPrediction` to a dict of numbers.
        card (`ModelCardFacts`): What the model card says about task and data.
        train_dataset (`datasets.Dataset`, *optional*): Encoded training examples.
        train_groups (`Sequence`, *optional*):
            The group of each, such as the query of a candidate: a part of the training data has whole groups.
        eval_datasets (`Mapping[str, datasets.Dataset]`): Encoded development sets by metric prefix.
        test_datasets (`Mapping[str, datasets.Dataset]`): The same for `--do_predict`. Labels are optional.
        write_predictions (`Callable`, *optional*): `(prefix, logits, folder)`, called for each set that was scored.
        new_layers_learning_rate (`float`, *optional*): See [`FineTuningTrainer`].
        compute_loss_func (`Callable`, *optional*): See [`Trainer`]; the model's own loss if `None`.
        collator_class (`Callable`, *optional*): Makes the collator from the tokenizer and `pad_to_multiple_of`.
        trainer_class (`Callable`, *optional*): Makes the Trainer.
    """

    model_init: Callable[[], PreTrainedModel]
    tokenizer: PreTrainedTokenizerBase
    compute_metrics: Callable[[EvalPrediction], dict[str, float]]
    card: ModelCardFacts
    train_dataset: Dataset | None = None
    train_groups: Sequence | None = None
    eval_datasets: Mapping[str, Dataset] = field(default_factory=dict)
    test_datasets: Mapping[str, Dataset] = field(default_factory=dict)
    write_predictions: Callable[[str, np.ndarray, Path], None] | None = None
    new_layers_learning_rate: float | None = None
    compute_loss_func: Callable[..., torch.Tensor] | None = None
    collator_class: Callable[..., Any] = DataCollatorWithPadding
    trainer_class: Callable[..., GuidedFineTuningTrainer] = GuidedFineTuningTrainer

    def run(
        self,
        args: TrainingArguments,
        experiment_args: ExperimentArguments,
        guiding: GuidingArguments | None = None,
    ) -> dict[str, float]:
        """
        Runs every seed.

        Args:
            args (`TrainingArguments`): How to train.
            experiment_args (`ExperimentArguments`): How often.
            guiding (`GuidingArguments`, *optional*): How the attention is guided, if at all.

        Returns:
            `dict[str, float]`: The metrics; over several seeds their means, with their standard deviations as `*_std`.

        Raises:
            UserError: The arguments ask for what is not there, or do not go together.
        """
        self.check(args, experiment_args)
        guiding = guiding or GuidingArguments()
        if not experiment_args.seeds:
            return self._run(args, experiment_args, guiding)
        runs = {}
        for seed in experiment_args.seeds:
            seeded = copy.copy(args)
            seeded.seed = seed
            seeded.output_dir = str(Path(args.output_dir) / f"seed-{seed}")
            runs[seed] = self._run(seeded, experiment_args, guiding)
        summary = summarize(list(runs.values()))
        if args.should_save:
            write_json(Path(args.output_dir) / "all_results.json", {**summary, "seeds": runs})
            (Path(args.output_dir) / "results.md").write_text(seed_table(runs) + "\n", encoding="utf-8")
        if args.should_log:
            print(seed_table(runs))
        return summary

    def check(self, args: TrainingArguments, experiment_args: ExperimentArguments) -> None:
        """
        Checks that the arguments can be run.

        Raises:
            UserError: They ask for what is not there, or do not go together.
        """
        for wanted, data, what in (
            (args.do_train, self.train_dataset, "do_train needs training data"),
            (args.do_eval, self.eval_datasets, "do_eval needs validation data"),
            (args.do_predict, self.test_datasets, "do_predict needs test data"),
        ):
            if wanted and not data:
                raise UserError(f"--{what}, and none was given.")
        if not (args.do_train or args.do_eval or args.do_predict):
            raise UserError("there is nothing to do: give at least one of --do_train, --do_eval and --do_predict.")
        if args.do_train and args.eval_strategy != "no" and not self.eval_datasets:
            raise UserError(f"--eval_strategy {args.eval_strategy.value} needs validation data, and none was given.")
        if experiment_args.early_stopping_patience is not None and not args.load_best_model_at_end:
            raise UserError("--early_stopping_patience needs --load_best_model_at_end and --metric_for_best_model.")
        seeds = experiment_args.seeds or []
        if len(set(seeds)) < len(seeds):
            raise UserError(f"--seeds {' '.join(map(str, seeds))}: one is named twice.")
        if seeds and args.push_to_hub:
            raise UserError("--push_to_hub takes one model: give --seed N in place of --seeds.")

    def _run(
        self, args: TrainingArguments, experiment_args: ExperimentArguments, guiding: GuidingArguments
    ) -> dict[str, float]:
        set_seed(args.seed)
        if args.ddp_find_unused_parameters is None:
            # All that is trained takes part in every step; by default the Trainer has each step searched for the rest.
            args.ddp_find_unused_parameters = False
        patience = experiment_args.early_stopping_patience
        # One development set is passed as it is: its metrics are then called eval_f1 and not eval_eval_f1.
        trainer = self.trainer_class(
            model=self.model_init(),
            args=args,
            train_dataset=self.train_dataset,
            eval_dataset=next(iter(self.eval_datasets.values()), None),
            processing_class=self.tokenizer,
            data_collator=self.collator_class(
                self.tokenizer, pad_to_multiple_of=8 if args.fp16 or args.bf16 else None
            ),
            compute_metrics=self.compute_metrics,
            callbacks=None if patience is None else [EarlyStoppingCallback(early_stopping_patience=patience)],
            new_layers_learning_rate=self.new_layers_learning_rate,
            compute_loss_func=self.compute_loss_func,
            guiding=guiding,
        )
        results: dict[str, float] = {}

        def record(split: str, metrics: dict[str, float]) -> None:
            trainer.log_metrics(split, metrics)
            trainer.save_metrics(split, metrics)
            results.update(metrics)

        if args.do_train and self.train_dataset is not None:
            try:
                output = trainer.train(resume_from_checkpoint=last_checkpoint(args))
            except KeyError as error:
                if "metric_for_best_model" not in str(error):
                    raise
                raise UserError(f"--metric_for_best_model: {error.args[0]}") from error
            trainer.save_model()
            trainer.save_state()
            if args.should_save:
                # The Trainer adds to what is there: scores of another model that was trained into the same folder.
                Path(args.output_dir, "all_results.json").unlink(missing_ok=True)
            record("train", {**output.metrics, "train_samples": len(self.train_dataset)})
        wanted = {**(self.eval_datasets if args.do_eval else {}), **(self.test_datasets if args.do_predict else {})}
        for prefix, dataset in wanted.items():
            output = trainer.predict(dataset, metric_key_prefix=prefix)
            record(prefix, {**output.metrics, f"{prefix}_samples": len(dataset)})
            if self.write_predictions and trainer.is_world_process_zero():
                self.write_predictions(prefix, output.predictions, Path(args.output_dir))
        if args.do_train:
            if trainer.is_world_process_zero():
                write_model_card(Path(args.output_dir), trainer, self.card, results)
            if args.push_to_hub:
                trainer.push_to_hub()
        return results
