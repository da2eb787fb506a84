"""Checks the values of arguments against the type hints of their dataclasses, ranges included."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from accelerate.utils import DynamoBackend
from transformers import TrainingArguments

from msattn.errors import UserError, shown


@dataclass(frozen=True)
class Range:
    """
    The range of a number, as the second part of `Annotated[int, Range(1)]`.

    Args:
        low (`float`): The lowest value.
        high (`float`, *optional*): The highest value. Default: any finite number; for whole numbers, 2**31 - 1.
        above (`bool`, *optional*, defaults to `False`): Whether `low` itself is out of the range.
        below (`bool`, *optional*, defaults to `False`): Whether `high` itself is out of the range.
    """

    low: float
    high: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: float) -> bool:
        low = value > self.low if self.above else value >= self.low
        most = 2**31 - 1 if isinstance(value, int) and self.high == math.inf else self.high
        return low and (value < most if self.below else value <= most)

    def __str__(self) -> str:
        low = f"above {self.low}" if self.above else f"of at least {self.low}"
        if self.high == math.inf:
            return low
        return f"{low} and below {self.high}" if self.below else f"{low} and at most {self.high}"


@dataclass(frozen=True)
class JsonObject:
    """
    A JSON object as a text, as the second part of `Annotated[str, JsonObject()]`.

    Args:
        names (`tuple[str, ...]`, *optional*): The names that it may have. Default: any.
    """

    names: tuple[str, ...] = ()

    def __contains__(self, value: Any) -> bool:
        try:
            value = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and (not self.names or value.keys() <= set(self.names))

    def __str__(self) -> str:
        return "that is a JSON object" + (f" of {', '.join(self.names)}" if self.names else "")


#: A number of things, of which there has to be one.
Count = Annotated[int, Range(1)]
#: A whole number that may be 0.
Whole = Annotated[int, Range(0)]
#: A number above 0.
Positive = Annotated[float, Range(0, above=True)]
#: The size of a layer.
Size = Annotated[int, Range(1, 2**14)]
#: A number that may be 0.
NotNegative = Annotated[float, Range(0)]
#: A part of a whole.
Share = Annotated[float, Range(0, 1)]
#: A seed that NumPy and PyTorch both take.
Seed = Annotated[int, Range(0, 2**32 - 1)]

CHECKPOINTING = Annotated[
    dict | str,
    JsonObject(("use_reentrant", "preserve_rng_state", "determinism_check", "context_fn", "debug", "early_stop")),
]

# Arguments of Transformers, whose own hints have no range and whose values fail late or not at all.
TRAINING: dict[str, Any] = {
    **dict.fromkeys(
        (
            "per_device_train_batch_size",
            "per_device_eval_batch_size",
            "gradient_accumulation_steps",
            "eval_accumulation_steps",
            "dataloader_prefetch_factor",
            "torch_empty_cache_steps",
            "ddp_bucket_cap_mb",
            "ddp_timeout",
        ),
        Count,
    ),
    **dict.fromkeys(
        (
            "weight_decay",
            "adam_epsilon",
            "max_grad_norm",
            "warmup_steps",
            "warmup_ratio",
            "neftune_noise_alpha",
            "eval_delay",
        ),
        NotNegative,
    ),
    **dict.fromkeys(("num_train_epochs", "logging_steps", "eval_steps", "save_steps"), Positive),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), Annotated[float, Range(0, 1, below=True)]),
    **dict.fromkeys(("seed", "data_seed"), Seed),
    # Beyond that the first step leaves weights that no later one mends.
    "learning_rate": Annotated[float, Range(0, 1000)],
    "label_smoothing_factor": Annotated[float, Range(0, 1, below=True)],
    "dataloader_num_workers": Annotated[int, Range(0, 1024)],
    "save_total_limit": Whole,
    "max_steps": Count | Literal[-1],
    "lr_scheduler_kwargs": Annotated[dict | str, JsonObject()],
    "gradient_checkpointing_kwargs": CHECKPOINTING,
    "activation_checkpointing_kwargs": CHECKPOINTING,
    "torch_compile_backend": Literal[tuple(backend.value.lower() for backend in DynamoBackend)],
    "torch_compile_mode": Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"],
}


def check_values(dataclass_types: tuple[type, ...], values: Mapping[str, Any]) -> None:
    """
    Checks values against the type hints of the fields that they are for. A field's default is never refused.

    Args:
        dataclass_types (`tuple[type, ...]`): The dataclasses of the arguments.
        values (`Mapping[str, Any]`): Values by name; a missing one is not checked.

    Raises:
        UserError: A value has another type, is out of its range, is not finite, or is a text with bytes that are not
            UTF-8.
    """
    for dataclass_type in dataclass_types:
        hints = get_type_hints(dataclass_type, include_extras=True)
        hints |= TRAINING if issubclass(dataclass_type, TrainingArguments) else {}
        for field in fields(dataclass_type):
            if field.name not in values:
                continue
            value, hint = values[field.name], hints[field.name]
            if value is None or (type(value) is type(field.default) and value == field.default):
                continue
            if not _is_text(value):
                raise UserError(f"--{field.name}: {shown(value)} is not UTF-8 text, or holds a NUL.")
            if not _fits(value, hint):
                too_large = "; that is too large" if isinstance(value, int) and value > 2**31 - 1 else ""
                raise UserError(f"--{field.name} must be {_expected(hint)}, not {shown(value)}{too_large}.")
            # The parser checks the choices of a command line, but not those of a list in a file.
            choices = field.metadata.get("choices")
            if choices and isinstance(value, list) and not set(value) <= set(choices):
                raise UserError(f"--{field.name} takes some of {', '.join(choices)}, not {shown(value)}.")


def _is_text(value: Any) -> bool:
    """Whether the strings of a value are UTF-8 without NUL, as file names and files must be."""
    texts = (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
    try:
        return b"\0" not in "".join(texts).encode()
    except UnicodeEncodeError:
        return False


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _fits(value, inner[0]) and all(value in limits for limits in inner[1:])
    if origin in (Union, UnionType):
        return any(map(partial(_fits, value), inner))
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in inner)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, inner[0]) for item in value)
    if hint is float:
        return type(value) in (int, float) and abs(value) < 1e300
    if isinstance(hint, type) and issubclass(hint, Enum):
        return isinstance(value, (str, Enum))
    if isinstance(origin or hint, type):
        plain = origin or hint
        return isinstance(value, plain) and (plain is bool or not isinstance(value, bool))
    return True


def _expected(hint: Any) -> str:
    """What a hint asks for, in words."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return f"{_expected(inner[0])} {' and '.join(map(str, inner[1:]))}"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_expected(each) for each in inner if each is not NoneType))
    if origin is Literal:
        return " or ".join(map(str, inner))
    if origin is list:
        return f"a list, each item {_expected(inner[0])}"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "a name"
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", dict: "an object"}
    return names.get(origin or hint, "another value")
