"""Finds the checkpoint to resume training from."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from transformers import TrainingArguments
from transformers.utils import logging

from msattn.errors import UserError
from msattn.tasks.identity import versions
from msattn.trainers.fingerprint import NAME, differences, read_fingerprint, torn_files
from msattn.trainers.resumption import UNFINISHED

logger = logging.get_logger(__name__)

# What training needs beside the weights, and the files of which one holds it.
STATES = {
    "optimizer": ("optimizer.pt", "optimizer.bin", "optimizer_*", "global_step*"),
    "scheduler": ("scheduler.pt",),
    "random state": ("rng_state*.pth",),
}


class Resumed(NamedTuple):
    """
    The checkpoint that a run goes on from.

    Args:
        folder (`str`, *optional*): The checkpoint; `None` to start from the beginning.
        changed (`list[str]`): What differs between its run and this one, with `--resume_anyway`.
    """

    folder: str | None = None
    changed: list[str] = []


def resumes(args: TrainingArguments) -> bool:
    """Whether `--resume_from_checkpoint` asks for anything."""
    return args.resume_from_checkpoint is not None and str(args.resume_from_checkpoint).lower() != "false"


def takes_last(args: TrainingArguments) -> bool:
    """Whether `--resume_from_checkpoint` asks for the newest checkpoint."""
    return str(args.resume_from_checkpoint).lower() in ("last", "true")


def find_checkpoint(args: TrainingArguments, identity: Mapping[str, Any], anyway: bool = False) -> Resumed:
    """
    Resolves `--resume_from_checkpoint` to a folder.

    `last` (or `true`) selects the newest complete checkpoint in `args.output_dir`. Incomplete checkpoints, written
    while the run was killed or the disk was full, or copied in part, are passed over with a warning.

    Args:
        args (`TrainingArguments`): With `resume_from_checkpoint` and `output_dir`.
        identity (`Mapping[str, Any]`): What this run depends on; see [`~msattn.tasks.identity.identity_of`].
        anyway (`bool`, *optional*, defaults to `False`): Whether to take the checkpoint of another run.

    Returns:
        `Resumed`: The folder, and what differs.

    Raises:
        UserError: `--resume_from_checkpoint` names a folder that is not a complete checkpoint, the checkpoint has no
            optimizer, scheduler or random state, or it belongs to a run with other data, arguments or another model.
    """
    if not resumes(args):
        return Resumed()
    if not takes_last(args):
        folder = Path(str(args.resume_from_checkpoint))
        if wrong := what_is_torn(folder):
            raise UserError(
                f"--resume_from_checkpoint {folder}: the folder is not a complete checkpoint ({wrong}); try last."
            )
        return _accepted(folder, identity, anyway)
    numbered = ((re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in Path(args.output_dir).glob("*"))
    steps = sorted((int(match[1]), path) for match, path in numbered if match)
    for _, path in reversed(steps):
        if not (wrong := what_is_torn(path)):
            return _accepted(path, identity, anyway)
        logger.warning(f"{path} is incomplete and passed over: {wrong}.")
    return Resumed()


def what_is_torn(checkpoint: Path) -> str | None:
    """
    What shows that a checkpoint was not written or copied completely; `None` if it is complete.

    Checkpoints of version 0.1 have no fingerprint: their files have to be readable, and `trainer_state.json`, which
    comes last, has to be there.
    """
    if (fingerprint := read_fingerprint(checkpoint)) is not None:
        return next(iter(torn_files(checkpoint, fingerprint)), None)
    if (checkpoint / UNFINISHED).exists() or (checkpoint / NAME).exists():
        return "it was not written to the end"
    for name in ("trainer_state.json", "config.json"):
        try:
            json.loads((checkpoint / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if name == "trainer_state.json":
                return f"{name} is missing"
        except (OSError, ValueError):
            return f"{name} cannot be read"
    for weights in checkpoint.glob("*.safetensors"):
        try:
            with safe_open(weights, framework="pt"):
                pass
        except (OSError, SafetensorError):
            return f"{weights.name} cannot be read"
    # PyTorch saves ZIP archives, whose directory comes last.
    archives = [path for pattern in ("*.pt", "*.pth") for path in checkpoint.glob(pattern)]
    return next((f"{path.name} cannot be read" for path in archives if not zipfile.is_zipfile(path)), None)


def _accepted(folder: Path, identity: Mapping[str, Any], anyway: bool) -> Resumed:
    missing = [state for state, names in STATES.items() if not any(any(folder.glob(name)) for name in names)]
    if missing:
        raise UserError(
            f"{folder} cannot be resumed: it has no {' and no '.join(missing)}, as after --save_only_model; "
            "--model_name_or_path starts another training from its weights."
        )
    fingerprint = read_fingerprint(folder)
    if fingerprint is None:
        logger.warning(
            f"{folder} has no {NAME}, as version 0.1 wrote none: whether it is of this run cannot be checked."
        )
        return Resumed(str(folder))
    changed = differences(fingerprint["run"], identity)
    if changed and not anyway:
        raise UserError(other_run(str(folder), changed, "--resume_anyway takes it all the same"))
    warn_of_versions(folder, fingerprint)
    return Resumed(str(folder), [*fingerprint.get("resumed_anyway", []), *changed])


def other_run(what: str, changed: list[str], way_out: str) -> str:
    """The message that a folder belongs to another run."""
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return f"{what} belongs to another run ({', '.join(changed[:5])}{more}); {way_out}."


def warn_of_versions(folder: Path, fingerprint: Mapping[str, Any]) -> None:
    """Warns if other versions wrote a folder."""
    if changed := differences(fingerprint.get("versions", {}), versions()):
        logger.warning(f"{folder} was written by other versions ({', '.join(changed)}): last digits may differ.")
