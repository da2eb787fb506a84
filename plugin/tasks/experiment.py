"""Experiments: train, evaluate and predict with one or more seeds, and save metrics and model cards."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from datasets import Dataset
from transformers import EarlyStoppingCallback, TrainingArguments, set_seed

from msattn.arguments.experiment_arguments import ExperimentArguments
from msattn.errors import UserError
from msattn.guiding.guiding_arguments import GuidingArguments
from msattn.results import seed_table, summarize, write_json
from msattn.tasks.checkpoints import Resumed, find_checkpoint
from msattn.tasks.identity import arguments_of, identity_of, rows_hash, versions
from msattn.tasks.map_measures import MapMeasures, measured_maps
from msattn.tasks.model_card import write_model_card
from msattn.tasks.run_folder import RunFolder, written_folder
from msattn.tasks.sentence_stream import SentenceStream
from msattn.tasks.task import GuidedFineTuningTrainer, Task
from msattn.writing import write_whole


@dataclass
class Experiment:
    """
    A task with its encoded data, ready to be trained and evaluated.

    Args:
        task (`Task`): The task.
        datasets (`Mapping[str, datasets.Dataset]`): Model inputs by metric prefix; see [`Task.load`].
        train_groups (`Sequence`, *optional*):
            The group of each training example, such as the query of a candidate. Subsets of the training data never
            split a group.
    """

    task: Task
    datasets: Mapping[str, Dataset]
    train_groups: Sequence | None = None

    @classmethod
    def of(cls, task: Task) -> Experiment:
        """Reads and encodes the data of a task."""
        return cls(task, task.load(), task.train_groups())

    @property
    def train_dataset(self) -> Dataset | None:
        """The encoded training data; `None` if the task does not train."""
        return self.datasets.get("train")

    @property
    def eval_dataset(self) -> Dataset | None:
        """The validation set that selects and calibrates the model; `None` if there is none."""
        return next(iter(self.datasets_of("eval", "dev").values()), None)

    def datasets_of(self, *kinds: str) -> dict[str, Dataset]:
        """The datasets whose metric prefix belongs to `kinds`; `eval` includes `eval_mm`, for example."""
        return {prefix: data for prefix, data in self.datasets.items() if prefix.partition("_")[0] in kinds}

    def run(
        self,
        args: TrainingArguments,
        experiment_args: ExperimentArguments,
        guiding: GuidingArguments | None = None,
    ) -> dict[str, float]:
        """
        Trains, evaluates and predicts, once per seed. If guiding takes part, the metrics have the mean cosine of two
        attention maps and their mean entropy in bits, beside each score.

        Args:
            args (`TrainingArguments`): The training arguments.
            experiment_args (`ExperimentArguments`): Seeds and early stopping.
            guiding (`GuidingArguments`, *optional*): Attention guiding. Default: that of the task.

        Returns:
            `dict[str, float]`: The metrics. With `--seeds`, their means, and their sample standard deviations as
            `*_std`.

        Raises:
            UserError: A checkpoint cannot be resumed or loaded, or `--metric_for_best_model` is not a metric.
        """
        guiding = guiding or self.task.guiding
        if not experiment_args.seeds:
            return self._run(args, experiment_args, guiding)
        identity = {"holds": "seeds", **arguments_of(self.task, args, experiment_args, guiding)}
        with written_folder(RunFolder(Path(args.output_dir), identity, args, experiment_args)):
            runs = {}
            for seed in experiment_args.seeds:
                seeded = copy.copy(args)
                seeded.seed = seed
                seeded.output_dir = str(Path(args.output_dir) / f"seed-{seed}")
                runs[seed] = self._run(seeded, experiment_args, guiding)
            summary = summarize(list(runs.values()))
            if args.should_save:
                write_json(Path(args.output_dir) / "all_results.json", {**summary, "seeds": runs})
                write_whole(Path(args.output_dir) / "results.md", seed_table(runs) + "\n")
        if args.should_log:
            print(seed_table(runs))
        return summary

    def _run(
        self, args: TrainingArguments, experiment_args: ExperimentArguments, guiding: GuidingArguments
    ) -> dict[str, float]:
        set_seed(args.seed)
        trainer = self._trainer(args, experiment_args, guiding)
        scored = self.datasets_of(*(("eval", "dev") if args.do_eval else ()), *(("test",) if args.do_predict else ()))
        hashes = {
            prefix: dataset.hash if isinstance(dataset, SentenceStream) else rows_hash(dataset)
            for prefix, dataset in scored.items()
        }
        identity = identity_of(self.task, trainer.model, args, self.datasets, experiment_args, guiding)
        if not args.do_train:
            identity |= {f"data.{prefix}": value for prefix, value in hashes.items()}
        folder = RunFolder(
            Path(args.output_dir), identity, args, experiment_args, self.task.model_args.model_name_or_path
        )
        finished = folder.finished()
        results: dict[str, float] = {}
        if finished is not None:
            results = folder.results()
            scored = {name: data for name, data in scored.items() if finished["scored"].get(name) != hashes[name]}
            if not scored:
                if args.should_log:
                    print(f"{folder.path}: finished before; these are its figures.", flush=True)
                return results
        resumed = Resumed()
        if args.do_train and finished is None:
            resumed = find_checkpoint(args, identity, experiment_args.resume_anyway)
            folder.changed = resumed.changed
        measured = guiding.weights or experiment_args.guide_doses
        with written_folder(folder, hashes):
            trainer.fingerprint = {"run": identity, "versions": versions(), "resumed_anyway": folder.changed}
            if finished is not None:
                trainer.restore(folder.path)
                self.task.recall(trainer, folder.path)
            elif args.do_train and self.train_dataset is not None:
                results |= self._train(trainer, resumed.folder)
            for prefix, dataset in scored.items():
                if isinstance(dataset, SentenceStream):
                    metrics = self.task.predict_stream(trainer, prefix, dataset, [identity, hashes[prefix]])
                    results |= _record(trainer, prefix, metrics)
                    continue
                with measured_maps(trainer.model) if measured else nullcontext(MapMeasures()) as maps:
                    output = trainer.predict(dataset, metric_key_prefix=prefix)
                further = self.task.further_metrics(trainer, prefix)
                metrics = output.metrics | {f"{prefix}_{name}": value for name, value in further.items()}
                metrics |= maps.means(trainer, prefix) if measured else {}
                results |= _record(trainer, prefix, metrics | {f"{prefix}_samples": len(dataset)})
                if trainer.is_world_process_zero():
                    self.task.write_predictions(prefix, output.predictions, folder.path)
            if args.do_train:
                if trainer.is_world_process_zero():
                    card = self.task.card()
                    language = self.task.data_args.language or card.language
                    write_model_card(folder.path, trainer, replace(card, language=language), results)
                if args.push_to_hub:
                    trainer.push_to_hub()
        return results

    def _trainer(
        self, args: TrainingArguments, experiment_args: ExperimentArguments, guiding: GuidingArguments
    ) -> GuidedFineTuningTrainer:
        task, patience = self.task, experiment_args.early_stopping_patience
        if args.ddp_find_unused_parameters is None:
            # All trained parameters get gradients in every step; DDP's search for unused ones would cost time.
            args.ddp_find_unused_parameters = False
        if args.device.type == "cpu":
            # As --use_cpu does; PyTorch would warn before each pass.
            args.dataloader_pin_memory = False
        return task.trainer_class(
            model=task.model(),
            args=args,
            train_dataset=self.train_dataset,
            # A single dataset, not a dict: the metrics are then named eval_f1 instead of eval_eval_f1.
            eval_dataset=self.eval_dataset,
            processing_class=task.tokenizer,
            data_collator=task.collator_class(
                task.tokenizer, pad_to_multiple_of=8 if args.fp16 or args.bf16 else None
            ),
            compute_metrics=task.metrics,
            callbacks=None if patience is None else [EarlyStoppingCallback(early_stopping_patience=patience)],
            new_layers_learning_rate=task.model_args.new_layers_learning_rate,
            embedding_learning_rate=task.model_args.embedding_learning_rate,
            compute_loss_func=task.loss,
            guiding=guiding,
        )

    def _train(self, trainer: GuidedFineTuningTrainer, checkpoint: str | None) -> dict[str, float]:
        try:
            output = trainer.train(resume_from_checkpoint=checkpoint)
        except KeyError as error:
            if "metric_for_best_model" not in str(error):
                raise
            raise UserError(f"--metric_for_best_model: {error.args[0]}") from error
        except (RuntimeError, ValueError) as error:
            # PyTorch's messages on weights and on an optimizer of another model.
            if "loading state_dict" not in str(error) and "loaded state dict" not in str(error):
                raise
            raise UserError(f"{checkpoint}: the checkpoint is of another model; its weights do not fit.") from error
        if self.eval_dataset is not None:
            self.task.calibrate(trainer, self.eval_dataset)
        trainer.save_model()
        trainer.save_state()
        if trainer.args.should_save:
            # The Trainer merges into an existing file, which may hold the scores of an earlier model.
            Path(trainer.args.output_dir, "all_results.json").unlink(missing_ok=True)
        return _record(trainer, "train", {**output.metrics, "train_samples": len(trainer.train_dataset)})


def check_arguments(args: TrainingArguments, experiment_args: ExperimentArguments) -> None:
    """
    Checks the arguments before any data are read.

    Args:
        args (`TrainingArguments`): The training arguments.
        experiment_args (`ExperimentArguments`): Seeds and early stopping.

    Raises:
        UserError: `--early_stopping_patience` is set without `--load_best_model_at_end`, `--seeds` repeats a seed, or
            `--seeds` is combined with `--push_to_hub`.
    """
    if experiment_args.early_stopping_patience is not None and not args.load_best_model_at_end:
        raise UserError("--early_stopping_patience needs --load_best_model_at_end and --metric_for_best_model.")
    seeds = experiment_args.seeds or []
    if len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds {' '.join(map(str, seeds))}: one is named twice.")
    if seeds and args.push_to_hub:
        raise UserError("--push_to_hub takes one model: give --seed N in place of --seeds.")


def _record(trainer: GuidedFineTuningTrainer, split: str, metrics: dict[str, float]) -> dict[str, float]:
    trainer.log_metrics(split, metrics)
    trainer.save_metrics(split, metrics)
    return metrics
