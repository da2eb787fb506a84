"""Collects the guiding losses between two logs: their means, and whether they are finite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from msattn.errors import UserError


class _Batch(NamedTuple):
    """
    The finiteness check of a batch.

    Args:
        step (`int`): The training step, from 1.
        terms (`Sequence[str]`): The names of the loss terms.
        layers (`Sequence[int]`): The layer of each attention map.
        finite (`torch.Tensor` of shape `(terms + maps,)`):
            Whether each loss term and each map is finite, in the memory of the CPU.
        copied (`torch.cuda.Event`, *optional*): When it is there, if it comes from a GPU.
    """

    step: int
    terms: Sequence[str]
    layers: Sequence[int]
    finite: torch.Tensor
    copied: torch.cuda.Event | None


class GuidingRecord:
    """
    The loss terms since the last log.

    Values stay on the device as long as possible, as reading them would synchronize it with the CPU.
    """

    def __init__(self) -> None:
        self._sums: dict[str, torch.Tensor] = {}
        self._steps: dict[str, float] = {}
        self._last_batch: _Batch | None = None

    def add(
        self, step: int, terms: Mapping[str, torch.Tensor], share: float, vectors: Mapping[int, torch.Tensor]
    ) -> None:
        """
        Adds a batch.

        Args:
            step (`int`): The training step of the batch, from 1.
            terms (`Mapping[str, torch.Tensor]`): The loss terms, scalars, each multiplied by `share`.
            share (`float`): The fraction of the step's examples that is in the batch.
            vectors (`Mapping[int, torch.Tensor]`):
                What was read by guided layer, each of shape `(batch, maps, values)`; none in a step without guiding.
        """
        for name, term in terms.items():
            self._sums[name] = self._sums.get(name, 0.0) + term
            self._steps[name] = self._steps.get(name, 0.0) + share
        finite = torch.cat(
            [
                torch.stack(list(terms.values())).isfinite(),
                *(vector.isfinite().all(dim=-1).all(dim=0) for vector in vectors.values()),
            ]
        )
        layers = [layer for layer, vector in vectors.items() for _ in range(vector.shape[1])]
        self._last_batch = _Batch(step, list(terms), layers, *_to_cpu(finite))

    def check(self) -> None:
        """
        Checks the last batch. Call it one batch later: then the CPU waits for no more than its forward pass.

        Raises:
            UserError: A loss term or an attention map of the batch is not finite.
        """
        batch, self._last_batch = self._last_batch, None
        if batch is None:
            return
        if batch.copied is not None:
            batch.copied.synchronize()
        if batch.finite.all():
            return
        finite = batch.finite.tolist()
        terms = [name for name, fine in zip(batch.terms, finite, strict=False) if not fine] or ["loss"]
        layers = [layer for layer, fine in zip(batch.layers, finite[len(batch.terms) :], strict=True) if not fine]
        where = f"because of the attention of layer {layers[0]}" if layers else "while the attention of every layer is"
        raise UserError(
            f"step {batch.step}: {' and '.join(terms)} not finite, {where}; lower the learning rate or the weights, "
            "or train in bf16 or float32."
        )

    def take_means(self) -> dict[str, torch.Tensor]:
        """Returns the mean of each term over its steps since the last call, and resets them; empty without batches."""
        means = {name: total / self._steps[name] for name, total in self._sums.items()}
        self._sums, self._steps = {}, {}
        return means


def _to_cpu(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event | None]:
    """A copy that the CPU does not wait for, and when it is complete."""
    if not tensor.is_cuda:
        return tensor.cpu(), None
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    copy.copy_(tensor, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))
    return copy, event
