"""The base of both pipelines: reads any iterable, and batches blocks of inputs by length."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from copy import copy
from itertools import islice
from types import NoneType
from typing import Any

from torch.utils.data import Dataset
from transformers.pipelines.base import ChunkPipeline

from msattn.configuration.max_tokens import most_tokens
from msattn.errors import UserError, missing_weights

# Batches that are sorted by length at a time: enough for little padding, few enough for streaming.
LOOKAHEAD = 64


class TextPipeline(ChunkPipeline):
    """
    A pipeline that takes any iterable, and whose subclasses answer blocks of inputs in `answers`.

    Raises:
        UserError: The model takes no argument named in `reads`, or its checkpoint lacked weights.
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    # Arguments of the model, of which it takes one.
    reads: tuple[str, ...] = ()

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        model: Any = getattr(self.model, "_orig_mod", self.model)  # of a compiled one
        self.parameters = frozenset(inspect.signature(model.forward).parameters)  # which can be pickled
        if not self.parameters & {*self.reads}:
            name, kind = self.model.name_or_path or "the model", type(self.model).__name__
            merge = "; save model.merge_and_unload() and load that" * hasattr(self.model, "merge_and_unload")
            raise UserError(f"{name} holds a {kind}, which is no model for {self.task or 'this pipeline'}{merge}.")
        if random := getattr(self.model, "_random_weights", ()):
            raise missing_weights(self.model.name_or_path, random)
        # Positions of words and entities are counted from the left.
        self.tokenizer = copy(self.tokenizer)  # type: ignore[has-type]
        self.tokenizer.padding_side = "right"

    def __getstate__(self) -> dict[str, Any]:
        # Transformers leaves hooks on a model that has run, which cannot be pickled, and sets them again.
        for module in self.model.modules():
            for key, hook in [*module._forward_hooks.items()]:
                if getattr(hook, "__name__", "") == "output_capturing_hook":
                    del module._forward_hooks[key]
            module.__dict__.pop("_output_capturing_hooks_installed", None)
        return self.__dict__

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Runs the pipeline.

        Args:
            inputs (`Any`): An input, or an iterable, dataset or generator of inputs.
            **kwargs: Keyword arguments of the pipeline.
        """
        if isinstance(inputs, Iterable) and not isinstance(inputs, (str, bytes, Mapping, list, Dataset)):
            inputs = list(inputs) if isinstance(inputs, Sized) else (item for item in inputs)
        return [] if inputs == [] else super().__call__(inputs, **kwargs)

    def get_iterator(
        self,
        inputs: Any,
        num_workers: int,
        batch_size: int,
        preprocess_params: dict,
        forward_params: dict,
        postprocess_params: dict,
    ) -> Iterator:
        check_batch_size(batch_size)
        self.model.eval()  # a training leaves its model with dropout
        items = iter(inputs if isinstance(inputs, Iterable) else map(inputs.__getitem__, range(len(inputs))))
        # Without batches, an input is answered before the next one is read.
        while block := list(islice(items, LOOKAHEAD * batch_size if batch_size > 1 else 1)):
            yield from self.answers(block, batch_size, preprocess_params, forward_params, postprocess_params)

    @abstractmethod
    def answers(
        self, inputs: list, batch_size: int, preprocess_params: dict, forward_params: dict, postprocess_params: dict
    ) -> Iterator:
        """The result of each input, in order."""

    def limit(self, max_length: int | None) -> int:
        """The most tokens of an input."""
        if not isinstance(max_length, (int, NoneType)):
            raise UserError(f"max_length is a number of tokens, not {max_length!r}.")
        limits = (self.tokenizer.model_max_length, most_tokens(self.model.config))
        most = min(limit for limit in limits if limit is not None)
        if max_length is not None and not 0 < max_length <= most:
            raise UserError(f"max_length={max_length}: the checkpoint reads 1 to {most} tokens.")
        return max_length or most


def check_batch_size(batch_size: int) -> None:
    """Raises `UserError` if a batch would have no room."""
    if batch_size < 1:
        raise UserError(f"batch_size is a whole number from 1 on, not {batch_size!r}.")


def refuse_others(name: str, value: Any, choices: Sequence[Any]) -> None:
    """
    Raises:
        UserError: An argument has a value that is none of its choices, nor `None`.
    """
    if value is not None and value not in choices:
        raise UserError(f"{name} is one of {', '.join(map(str, choices))}, not {value!r}.")


def given(**options: Any) -> dict[str, Any]:
    """The options that are not `None`."""
    return {name: value for name, value in options.items() if value is not None}
