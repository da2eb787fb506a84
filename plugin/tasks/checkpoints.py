"""Which checkpoint a resumed run goes on from."""

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
    The folder that `--resume_from_checkpoint` means.

    `last` (or `true`) is the newest complete checkpoint of `args.output_dir`, or none where there is none yet. One
    that was being written when the run was killed, or when the disk was full, is passed over.

    Raises:
        UserError: The named folder is not a checkpoint.
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
    """Whether the Trainer wrote everything: its state comes last, and neither JSON nor weights break off."""
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        for weights in checkpoint.glob("*.safetensors"):
            with safe_open(weights, framework="pt"):
                pass
    except (OSError, ValueError, SafetensorError):
        return False
    return True
