"""Resuming: what a run depends on is written beside each checkpoint, and compared before training goes on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.utils import logging

from msattn.errors import UserError
from msattn.training.learning_rates import read_rate

logger = logging.get_logger(__name__)

RECORD = "run.json"
# Training arguments that change the weights.
TRAINING = (
    *("seed", "data_seed", "learning_rate", "weight_decay", "lr_scheduler_type", "warmup_steps", "optim"),
    *("num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "max_grad_norm"),
    *("label_smoothing_factor", "train_sampling_strategy", "bf16", "fp16", "adam_beta1", "adam_beta2", "adam_epsilon"),
    *("lr_scheduler_kwargs", "dataloader_drop_last", "neftune_noise_alpha", "optim_args", "world_size"),
)
# Those of which the optimizer goes on with what the checkpoint has, besides learning rates.
OF_OPTIMIZER = ("weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon")
RATES = ("learning_rate", "new_layers_learning_rate", "embedding_learning_rate")
# Arguments that the data or the weights stand for.
ELSEWHERE = re.compile(
    r"(?!dependency_).*_(files?|dir)|max_(eval|predict)_samples|preprocessing_num_workers|encoding|dataset_.*"
)


class RunRecord(TrainerCallback):
    """
    Writes `run.json` beside each checkpoint: what the training depends on.

    Args:
        args (`TrainingArguments`): The training arguments.
        train_dataset (`datasets.Dataset`): The encoded training data.
        *others: The other argument dataclasses of the script.
    """

    def __init__(self, args: TrainingArguments, train_dataset: Dataset, *others: Any):
        values = {name: getattr(args, name, None) for name in TRAINING}
        for arguments in others:
            values |= {field.name: getattr(arguments, field.name) for field in fields(arguments)}
        plain = {name: value for name, value in values.items() if not ELSEWHERE.fullmatch(name)}
        # As it is read back.
        self.facts = json.loads(json.dumps({**plain, "training data": rows_hash(train_dataset)}, default=str))

    def on_save(self, args: TrainingArguments, state: Any, control: Any, **kwargs: Any) -> None:
        """Writes the file, in the main process."""
        if state.is_world_process_zero:
            path = Path(args.output_dir, f"checkpoint-{state.global_step}", RECORD)
            path.write_text(json.dumps(self.facts, indent=2) + "\n", encoding="utf-8")


def record_and_resume(trainer: Trainer, *others: Any) -> str | None:
    """
    Lets the Trainer record its run beside each checkpoint, and finds the checkpoint to go on from.

    Args:
        trainer (`Trainer`): The Trainer, before training.
        *others: The argument dataclasses of the script besides `TrainingArguments`.

    Returns:
        `str` or `None`: See [`find_checkpoint`]; `None` for a run that does not train.
    """
    if not trainer.args.do_train:
        return None
    record = RunRecord(trainer.args, trainer.train_dataset, *others)
    trainer.add_callback(record)
    return find_checkpoint(trainer.args, record)


def find_checkpoint(args: TrainingArguments, record: RunRecord) -> str | None:
    """
    The checkpoint that `--resume_from_checkpoint` names, for [`Trainer.train`].

    `last` (or `true`) is the newest complete one of this run in `--output_dir`, else of any; a checkpoint that was
    being written when the run was killed is passed over. If the checkpoint is of a run with other arguments or data, a
    warning says what differs. Learning rates, weight decay, betas and epsilon cannot differ: they go on as the
    checkpoint's optimizer has them.

    Args:
        args (`TrainingArguments`): With `resume_from_checkpoint`.
        record (`RunRecord`): What this run depends on.

    Returns:
        `str` or `None`: The folder; `None` to train from the beginning.

    Raises:
        UserError: The folder does not exist, has no state of the optimizer (`--save_only_model`), or is of a run with
            other learning rates, weight decay, betas or epsilon of Adam.
    """
    asked = str(args.resume_from_checkpoint or "false")
    if asked.lower() == "false":
        return None
    if asked.lower() in ("last", "true"):
        numbered = ((re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in Path(args.output_dir).glob("*"))
        found = sorted((int(match[1]), path) for match, path in numbered if match)
        complete = [path for _, path in found if _is_complete(path)]
        if not complete:
            logger.warning(f"{args.output_dir} holds no complete checkpoint: training starts from the beginning.")
            return None
        own = [path for path in complete if _record(path) == record.facts]  # not those of another run in the folder
        folder = (own or complete)[-1]
    else:
        folder = Path(asked)
        if not folder.is_dir():
            raise UserError(f"--resume_from_checkpoint {folder}: there is no such folder; last takes the newest one.")
    if not [*folder.glob("optimizer*"), *folder.glob("global_step*")]:
        raise UserError(
            f"--resume_from_checkpoint {folder}: it has no state of the optimizer, as after --save_only_model; "
            "--model_name_or_path starts another training from its weights."
        )
    _warn_of_differences(folder, record.facts)
    # Otherwise early stopping would count from the beginning again.
    args.restore_callback_states_from_checkpoint = True
    return str(folder)


def rows_hash(dataset: Dataset) -> str:
    """A hash of the rows of a dataset and their order, not of where they lie."""
    digest = hashlib.blake2b(digest_size=16)
    for table in dataset.with_format("arrow").iter(10_000):
        # Taken rows are copied: a slice would be hashed with what lies around it.
        rows = table.replace_schema_metadata().take(list(range(len(table)))).combine_chunks()
        for batch in rows.to_batches():
            digest.update(batch.serialize())
    return digest.hexdigest()


def _is_complete(folder: Path) -> bool:
    """
    Whether the Trainer has written its last file of a checkpoint to the end.

    It deletes older checkpoints only after that, so a half deleted one is never the newest complete one.
    """
    try:
        json.loads((folder / TRAINER_STATE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True


def _record(folder: Path) -> Any:
    """What the run of a checkpoint depends on; `None` if it is not known."""
    try:
        return json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _warn_of_differences(folder: Path, facts: Mapping[str, Any]) -> None:
    before = _record(folder)
    if before is None:
        logger.warning(
            f"{folder} has no {RECORD}: whether it belongs to this run cannot be checked; give its learning rates."
        )
        return
    rates, asked = _rates(before), _rates(facts)
    if rates != asked:
        flags = " ".join(f"--{name} {rate}" for name, rate in zip(RATES, rates, strict=True))
        raise UserError(f"{folder} is of a run with other learning rates, and goes on with {flags} only.")
    # A record of an older version lacks names.
    changed = {name: before.get(name) for name in sorted({*before} - {*RATES}) if before.get(name) != facts.get(name)}
    if kept := [f"--{name} {changed[name]}" for name in OF_OPTIMIZER if name in changed]:
        raise UserError(f"{folder} is of a run with another optimizer, and goes on with {' '.join(kept)} only.")
    if changed:
        differences = ", ".join(f"{name} {value} -> {facts.get(name)}" for name, value in changed.items())
        logger.warning(f"{folder} is of a run that differs from this one: {differences}.")


def _rates(facts: Mapping[str, Any]) -> list[Any]:
    """The values of `RATES`. `None` is the first; for new layers, it was so before version 0.3."""
    rates = [read_rate(facts.get(name)) for name in RATES]
    return [rates[0] if rate is None else rate for rate in rates]
