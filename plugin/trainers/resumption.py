"""Checkpoints from which a training goes on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import TrainOutput, rotate_checkpoints

from msattn.trainers.fingerprint import NAME, differences, read_fingerprint, write_fingerprint
from msattn.trainers.termination import SaveOnTermination
from msattn.writing import no_torn_files

if TYPE_CHECKING:
    from transformers import Trainer as _Trainer
else:
    _Trainer = object  # the mixin works in front of any Trainer

# In a checkpoint from the first file that is written to the last.
UNFINISHED = "unfinished"


class ResumableMixin(_Trainer):
    """
    Makes a resumed training of any [`Trainer`] end as an uninterrupted one, in weights, logs and training loss.

    Each checkpoint ends with a fingerprint, `fingerprint.json`. A checkpoint that has one is complete.

    Args:
        *args: Positional arguments of the Trainer.
        fingerprint (`Mapping[str, Any]`, *optional*):
            What the fingerprint of each checkpoint says beside its files and the progress of training.
        **kwargs: Keyword arguments of the Trainer.

    Example:

    ```python
    >>> class MyTrainer(ResumableMixin, Trainer): ...
    ```
    """

    _tr_loss: torch.Tensor
    _total_loss_scalar: float
    _globalstep_last_logged: int

    def __init__(self, *args: Any, fingerprint: Mapping[str, Any] | None = None, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.fingerprint = dict(fingerprint or {})
        self._termination = SaveOnTermination()
        self.add_callback(self._termination)
        self.add_callback(_Progress(self))
        self._resumed: dict[str, Any] = {}

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, *args: Any, **kwargs: Any) -> TrainOutput:
        """As in [`Trainer`]. A checkpoint at the end of its training is not trained further."""
        self._resumed = {}
        if isinstance(resume_from_checkpoint, (str, Path)):
            resume_from_checkpoint = str(resume_from_checkpoint)
            # Otherwise early stopping would count from the beginning again.
            self.args.restore_callback_states_from_checkpoint = True
            before = read_fingerprint(Path(resume_from_checkpoint)) or {"run": {}}
            self._resumed = before.get("progress", {})
            if self._resumed.get("ended") and not differences(before["run"], self.fingerprint.get("run", {})):
                return self._end_again(resume_from_checkpoint)
        with self._termination.handled(self.args.world_size):
            return super().train(resume_from_checkpoint, *args, **kwargs)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """As in [`Trainer`]. The loss at the end of a resumed training is that of the whole training."""
        if "train_loss" in logs and self._resumed:
            logs["train_loss"] = self._total_loss_scalar / max(self.state.global_step, 1)
        super().log(logs, *args, **kwargs)

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial), f"checkpoint-{self.state.global_step}")
        progress = self.progress()
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / NAME).unlink(missing_ok=True)
            (folder / UNFINISHED).touch()
        # The older checkpoints are deleted once this one is complete.
        limit, self.args.save_total_limit = self.args.save_total_limit, None
        try:
            with no_torn_files(folder):
                super()._save_checkpoint(model, trial)
        finally:
            self.args.save_total_limit = limit
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            files = [path for path in folder.rglob("*") if path.is_file() and path.name not in (UNFINISHED, NAME)]
            write_fingerprint(folder, files, **{"run": {}, **self.fingerprint}, progress=progress)
            (folder / UNFINISHED).unlink()
            rotate_checkpoints(
                output_dir=str(folder.parent),
                save_total_limit=limit,
                best_model_checkpoint=self.state.best_model_checkpoint,
                use_mtime=True,
            )

    def progress(self) -> dict[str, Any]:
        """What a checkpoint has to know beside its files: sums that are logged later, and whether training ends."""
        return {
            "loss": self._total_loss_scalar,
            "loss_since_log": self.accelerator.gather(self._tr_loss.reshape(1)).mean().item(),
            "last_logged": self._globalstep_last_logged,
            "ended": self.control.should_training_stop,
        }

    def go_on(self, progress: Mapping[str, Any]) -> None:
        """Restores the `progress` of a checkpoint at the beginning of a resumed training."""
        self._total_loss_scalar = progress["loss"]
        self._tr_loss += progress["loss_since_log"]
        self._globalstep_last_logged = progress["last_logged"]

    def restore(self, folder: str | Path) -> None:
        """Restores the weights and the logs of a finished training from the folder that it was saved to."""
        self.state = TrainerState.load_from_json(str(Path(folder, "trainer_state.json")))
        self._load_from_checkpoint(str(folder))

    def _end_again(self, checkpoint: str) -> TrainOutput:
        """Ends a training whose last checkpoint is complete, but that was killed afterwards."""
        self.restore(checkpoint)
        if self.args.load_best_model_at_end and self.state.best_model_checkpoint is not None:
            self._load_best_model()
        loss = (self._resumed["loss"] + self._resumed["loss_since_log"]) / max(self.state.global_step, 1)
        metrics = {"train_loss": loss, "total_flos": self.state.total_flos}
        self._total_loss_scalar = self._resumed["loss"] + self._resumed["loss_since_log"]
        self.log(metrics)
        return TrainOutput(self.state.global_step, loss, metrics)


class _Progress(TrainerCallback):
    """Restores the progress of training, and defers a checkpoint until the epoch that ends with it is evaluated."""

    def __init__(self, trainer: ResumableMixin):
        self.trainer = trainer
        self.deferred = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.trainer._resumed:
            self.trainer.go_on(self.trainer._resumed)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        ends = control.should_training_stop or control.should_epoch_stop or float(state.epoch).is_integer()
        self.deferred = control.should_save and ends
        if self.deferred:
            control.should_save = False

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.deferred:
            control.should_save, self.deferred = True, False
