"""Finds the checkpoint to resume training from."""

from __future__ import annotations

import json
import re
from pathlib import Path

from safetensors import SafetensorError, safe_open
from transformers import TrainingArguments
from transformers.utils import logging

from msattn.errors import UserError

logger = logging.get_logger(__name__)


def last_checkpoint(args: TrainingArguments) -> str | None:
    """
    Resolves `--resume_from_checkpoint` to a folder.

    `last` (or `true`) selects the newest complete checkpoint in `args.output_dir`. Incomplete checkpoints, written
    while the run was killed or the disk was full, are skipped.

    Args:
        args (`TrainingArguments`): With `resume_from_checkpoint` and `output_dir`.

    Returns:
        `str` or `None`: The folder; `None` to start from the beginning.

    Raises:
        UserError: `--resume_from_checkpoint` names a folder that is not a complete checkpoint.
    """
    wanted = args.resume_from_checkpoint
    if wanted is None or str(wanted).lower() == "false":
        return None
    if str(wanted).lower() not in ("last", "true"):
        if not is_complete(Path(wanted)):
            raise UserError(f"--resume_from_checkpoint {wanted}: the folder is not a complete checkpoint; try last.")
        return str(wanted)
    numbered = ((re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in Path(args.output_dir).glob("*"))
    steps = sorted((int(match[1]), path) for match, path in numbered if match)
    for _, path in reversed(steps):
        if is_complete(path):
            return str(path)
        logger.warning(f"{path} is incomplete and passed over.")
    return None


def is_complete(checkpoint: Path) -> bool:
    """Whether a checkpoint was written completely: `trainer_state.json`, which comes last, and all weights load."""
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        for weights in checkpoint.glob("*.safetensors"):
            with safe_open(weights, framework="pt"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    return True
