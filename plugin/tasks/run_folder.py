"""The output folder of a run: whose results it holds, and which files are the run's own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate import PartialState
from transformers import TrainingArguments
from transformers.utils import logging

from msattn.arguments.experiment_arguments import ExperimentArguments
from msattn.errors import UserError
from msattn.results import read_json
from msattn.tasks.checkpoints import other_run, resumes, takes_last, warn_of_versions
from msattn.tasks.identity import versions
from msattn.trainers.fingerprint import NAME, differences, read_fingerprint, torn_files, write_fingerprint
from msattn.writing import no_torn_files, write_whole

logger = logging.get_logger(__name__)

# What a run has begun to write; a fingerprint takes its place in the end.
BEGUN = "_begun.json"
# Made by the run, but meant to be edited.
EDITED = ("README.md", NAME)
# The results of version 0.1, which wrote no fingerprint.
RESULTS = (
    *("*_results.json", "trainer_state.json", "training_args.bin", "config.json", "*.safetensors", "*_predictions.*"),
    *("*_report.txt", "results.md", "study.*", "mtl16.*", "checkpoint-*"),
)


@contextmanager
def written_folder(folder: RunFolder, scored: Mapping[str, str] | None = None) -> Iterator[None]:
    """
    Claims a folder, and writes its fingerprint if nothing fails until the end.

    Args:
        folder (`RunFolder`): The folder.
        scored (`Mapping[str, str]`, *optional*): The hash of the data behind each metric prefix.

    Raises:
        UserError: The folder holds the results of another run; see [`RunFolder.check`].
    """
    state, writes = PartialState(), folder.args.should_save
    folder.check()
    state.wait_for_everyone()
    if writes:
        folder.begin()
    state.wait_for_everyone()
    with no_torn_files(folder.path):
        yield
        if writes:
            folder.finish(scored or {})


class RunFolder:
    """
    The output folder of a run.

    Args:
        path (`Path`): The folder.
        identity (`Mapping[str, Any]`): What the run depends on; see [`~msattn.tasks.identity.identity_of`].
        args (`TrainingArguments`): Of the run.
        experiment_args (`ExperimentArguments`): With `resume_anyway` and `overwrite_output_dir`.
        model (`str`, *optional*):
            The folder of the model. A run that does not train adds its scores to the model's own folder.

    Attributes:
        changed (`list[str]`): What differed where the run was resumed by `--resume_anyway`.
    """

    def __init__(
        self,
        path: Path,
        identity: Mapping[str, Any],
        args: TrainingArguments,
        experiment_args: ExperimentArguments,
        model: str | None = None,
    ):
        self.path, self.identity, self.args, self.experiment_args = path, identity, args, experiment_args
        self.of_model = not args.do_train and model is not None and Path(model).resolve() == path.resolve()
        self.changed: list[str] = []
        self._scored: dict[str, str] = {}
        self._replaces = False

    def finished(self) -> dict[str, Any] | None:
        """
        The fingerprint of the finished run that is resumed; `None` if there is none.

        Raises:
            UserError: The finished run is another one, and `--resume_anyway` is not given.
        """
        if not (takes_last(self.args) and self.args.do_train):
            return None
        fingerprint = read_fingerprint(self.path)
        if fingerprint is None:
            return None
        if wrong := torn_files(self.path, fingerprint):
            logger.warning(f"{self.path} is a finished run that is damaged and passed over: {wrong[0]}.")
            return None
        if changed := differences(fingerprint["run"], self.identity):
            if not self.experiment_args.resume_anyway:
                raise UserError(other_run(str(self.path), changed, "--resume_anyway goes on all the same"))
            return None
        warn_of_versions(self.path, fingerprint)
        if self.args.should_save:
            (self.path / BEGUN).unlink(missing_ok=True)  # of a run that was killed at its very end
        self.changed, self._scored = fingerprint["resumed_anyway"], fingerprint["scored"]
        return fingerprint

    def check(self) -> None:
        """
        Checks that the run may write to the folder.

        Raises:
            UserError: The folder holds the results of another run, and neither `--overwrite_output_dir` nor, in a
                resumed run, `--resume_anyway` is given.
        """
        if self.of_model or not self._results():
            return
        before = self._before()
        changed = ["its results have no fingerprint"] if before is None else differences(before["run"], self.identity)
        if before is None and resumes(self.args) and any(self.path.glob("checkpoint-*")):
            return  # of version 0.1, which `find_checkpoint` warns about
        if not changed or (resumes(self.args) and self.experiment_args.resume_anyway):
            return
        self._replaces = self.experiment_args.overwrite_output_dir
        if not self._replaces:
            way_out = "--resume_anyway goes on all the same" if resumes(self.args) else "give another --output_dir"
            raise UserError(
                other_run(str(self.path), changed, f"{way_out}, --overwrite_output_dir replaces its results")
            )

    def begin(self) -> None:
        """Claims the folder for the run, after [`RunFolder.check`] and before anything else is written to it."""
        if self.of_model:
            return
        before = self._before()
        if self._replaces:
            self._delete(before)
            before = None
        self.path.mkdir(parents=True, exist_ok=True)
        foreign = {path.name for path in self.path.iterdir()} - {*EDITED, *self._results()}
        if before is not None:
            foreign &= set(before["foreign"])
        write_whole(self.path / BEGUN, json.dumps({"run": self.identity, "foreign": sorted(foreign)}) + "\n")
        (self.path / NAME).unlink(missing_ok=True)

    def finish(self, scored: Mapping[str, str]) -> None:
        """
        Writes the fingerprint of the finished run.

        Args:
            scored (`Mapping[str, str]`): The hash of the data behind each metric prefix.
        """
        before = self._before()
        if before is None:
            return  # the folder of a model that another program trained
        content = {
            "run": self.identity,
            "versions": versions(),
            "resumed_anyway": self.changed,
            "foreign": before["foreign"],
            **({name: value for name, value in before.items() if name != "files"} if self.of_model else {}),
            "scored": {**before.get("scored", self._scored), **scored},
        }
        others = {*before["foreign"], *EDITED}
        files = [path for path in self.path.iterdir() if path.is_file() and not path.name.startswith((".", "_"))]
        write_fingerprint(self.path, [path for path in files if path.name not in others], **content)
        (self.path / BEGUN).unlink(missing_ok=True)

    def results(self) -> dict[str, Any]:
        """The metrics of the finished run."""
        return read_json(self.path / "all_results.json")

    def _before(self) -> dict[str, Any] | None:
        """What the folder holds: a finished run, or one that was begun."""
        try:
            begun = json.loads((self.path / BEGUN).read_text(encoding="utf-8"))
            return {**begun, "files": self._results()}
        except (OSError, ValueError, TypeError):
            return read_fingerprint(self.path)

    def _results(self) -> list[str]:
        return sorted({path.name for pattern in RESULTS for path in self.path.glob(pattern)})

    def _delete(self, before: Mapping[str, Any] | None) -> None:
        names = {*(self._results() if before is None else before["files"]), NAME, BEGUN}
        checkpoints = {path.name for path in self.path.glob("checkpoint-*")}
        for name in sorted(names | checkpoints):
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
