"""Saves a checkpoint when the process is told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback
from transformers.utils import logging

from msattn.errors import Terminated

logger = logging.get_logger(__name__)


class SaveOnTermination(TrainerCallback):
    """
    Saves a checkpoint on SIGTERM, after the step that is being computed, and ends the training.

    With several processes, which would have to agree on the step, SIGTERM ends the run without a checkpoint.

    Raises:
        Terminated: The checkpoint is saved.
    """

    def __init__(self) -> None:
        self.received = False

    @contextmanager
    def handled(self, processes: int) -> Iterator[None]:
        """Handles SIGTERM inside; only the main thread of a process can."""
        if processes > 1 or threading.current_thread() is not threading.main_thread():
            yield
            return
        self.received = False
        before = signal.signal(signal.SIGTERM, self._receive)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.received:
            args.save_only_model = False  # this checkpoint is there to be resumed
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.received:
            raise Terminated(
                f"stopped by SIGTERM: checkpoint-{state.global_step} is saved to {args.output_dir}; the same command "
                "with --resume_from_checkpoint last goes on from it."
            )

    def _receive(self, number: int, frame: Any) -> None:
        self.received = True
        logger.warning("SIGTERM: a checkpoint is saved after this step.")
