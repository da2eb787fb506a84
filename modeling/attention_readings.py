"""Reads the attention of every forward pass of a model, whatever the model returns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from .attention_statistics import STATISTICS, attention_statistics
from .received_attention import READERS, AttentionRefused

# The attention implementations that report what they compute.
READABLE = ("received",)

Measure = Callable[..., Mapping[str, torch.Tensor]]


@dataclass
class Reading:
    """
    The statistics of one self-attention layer in one forward pass. `reading["received"]` is a statistic.

    Args:
        forward (`int`): The number of the pass, from 0. An encoder and a decoder count as two.
        layer (`int`): The number of the layer: its `layer_idx`, else its place in the pass, from 0.
        real (`torch.BoolTensor` of shape `(batch, keys)`): True at real tokens, false at padding.
        statistics (`Mapping[str, torch.Tensor]`): The statistics by name.
    """

    forward: int
    layer: int
    real: torch.Tensor
    statistics: Mapping[str, torch.Tensor]

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.statistics[name]


@dataclass
class _Pass:
    """A forward pass: its number, given to it with its first reading, and how many layers it has read."""

    number: int | None = None
    layers: int = 0


@dataclass
class Reader:
    """
    Collects the readings of attention layers.

    Args:
        layers (`Collection[int]`, *optional*): The layers that are read; all of them if `None`.
        needs_sums (`bool`): Whether column sums are read: they come with the output.
        measure (`Callable`, *optional*):
            A further reading: takes the arguments of [`attention_statistics`] up to `is_causal`, and by name
            `position_bias`, `softcap` and `sinks`, and returns statistics by name.
        readings (`list[Reading]`): Where readings go.
        passes (`list[_Pass]`): The forward passes that are going on, the innermost last.
        found (`set[int]`): The layers that were seen.
        count (`int`): The number of passes so far.
        closed (`bool`): Whether only recomputation is expected.
    """

    layers: Collection[int] | None
    needs_sums: bool
    measure: Measure | None
    readings: list[Reading] = field(default_factory=list)
    passes: list[_Pass] = field(default_factory=lambda: [_Pass()])
    found: set[int] = field(default_factory=set)
    count: int = 0
    closed: bool = False

    def reads(self, module: nn.Module) -> bool:
        """True for a layer that is read, or whose number is unknown; `add` then leaves it out."""
        number = getattr(module, "layer_idx", None)
        if number is not None and not self.closed:
            self.found.add(number)
        return self.layers is None or number is None or number in self.layers

    def add(
        self,
        module: nn.Module,
        real: torch.Tensor,
        received: torch.Tensor | None,
        inputs: Sequence[Any],
        special: Mapping[str, Any],
    ) -> None:
        """
        Adds what is read from a layer. Gradient checkpointing computes a layer again, which adds nothing.

        Args:
            module (`torch.nn.Module`): The layer.
            real (`torch.BoolTensor` of shape `(batch, keys)`): True at real tokens.
            received (`torch.Tensor`, *optional*): The column sums, if `needs_sums`.
            inputs, special: Positional and named arguments of `measure`.
        """
        statistics = {} if self.measure is None else dict(self.measure(*inputs, **special))
        if self.needs_sums and received is not None:
            statistics["received"] = received
        if self.closed or _in_backward():
            return
        now = self.passes[-1]
        if now.number is None:
            now.number, self.count = self.count, self.count + 1
        layer = getattr(module, "layer_idx", None)
        layer = now.layers if layer is None else layer
        now.layers += 1
        self.found.add(layer)
        if self.layers is None or layer in self.layers:
            self.readings.append(Reading(now.number, layer, real, statistics))

    def close(self) -> None:
        """Lets go of the readings. The reader may stay on layers that will be computed again."""
        self.readings, self.closed = [], True


@contextmanager
def read_attention(
    model: nn.Module,
    statistics: Sequence[str] = ("received",),
    layers: Collection[int] | None = None,
    **options: Any,
) -> Iterator[list[Reading]]:
    """
    Reads the self-attention of a model in every forward pass inside, with gradients, whatever the model returns.

    The model may be any module with models of Transformers inside: a bi-encoder, a `SentenceTransformer`, a PEFT or
    DDP wrapper. Inside, it uses the attention implementation `"received"`, and its own again afterwards. Its outputs
    do not change. Cross-attention is not read. With gradient checkpointing call `backward` inside, too, or load the
    model with `attn_implementation="received"`: its layers are computed again, and that must be the same computation.

    Args:
        model (`torch.nn.Module`): The model.
        statistics (`Sequence[str]`, *optional*, defaults to `("received",)`):
            Names of [`attention_statistics`].
        layers (`Collection[int]`, *optional*):
            Numbers of layers, from 0; all layers if `None`. The others cost nothing if layers know their number, as
            those of most models do.
        **options: `bands`, `columns`, `last_queries` and `places` of [`attention_statistics`].

    Yields:
        `list[Reading]`: The readings in the order of computation. It may be cleared between passes.

    Raises:
        AttentionRefused: The model has no model of Transformers inside, or one that is outside the attention
            interface, or it is compiled or a `torch.nn.DataParallel`.
        ValueError: A statistic is unknown, or a layer is not in the model; the latter after the block. During a pass:
            as in [`attention_statistics`].

    Example:

    ```python
    >>> from msattn import GuidingArguments, guiding_loss, read_attention

    >>> with read_attention(model) as readings:
    ...     loss = loss_of(model(**questions), model(**answers))
    >>> guided, terms = guiding_loss(readings, GuidingArguments(mdg_weight=0.01))
    >>> (loss + guided).backward()
    ```
    """
    statistics = (statistics,) if isinstance(statistics, str) else tuple(statistics)
    for name in statistics:
        if name not in STATISTICS:
            raise ValueError(f"statistics must be some of {', '.join(STATISTICS)}, got {name!r}")
    sums = statistics == ("received",) and not options
    measure = None if sums else partial(attention_statistics, statistics=statistics, **options)
    with read_passes(model, layers, sums, measure) as readings:
        yield readings


@contextmanager
def read_passes(
    model: nn.Module, layers: Collection[int] | None, needs_sums: bool, measure: Measure | None
) -> Iterator[list[Reading]]:
    """[`read_attention`] of anything; see [`Reader`] for the arguments."""
    if layers is not None and (wrong := [layer for layer in layers if layer < 0]):
        raise ValueError(f"layers must be numbers from 0, got {wrong[0]}")
    reader = Reader(layers, needs_sums, measure)
    previous = use_received(model)
    hooks = [
        hook
        for module in _callers(model)
        for hook in (
            module.register_forward_pre_hook(lambda *_: reader.passes.append(_Pass())),
            module.register_forward_hook(lambda *_: reader.passes.pop() and None, always_call=True),
        )
    ]
    modules = list(model.modules())
    for module in modules:
        open_readers = (one for one in module.__dict__.get(READERS, ()) if not one.closed)
        module.__dict__[READERS] = (*open_readers, reader)
    try:
        yield reader.readings
        if reader.found and layers is not None and (missing := set(layers) - reader.found):
            raise ValueError(f"layers: there is no layer {min(missing)}; the model has 0 to {max(reader.found)}")
    finally:
        for hook in hooks:
            hook.remove()
        if not any(getattr(module, "gradient_checkpointing", False) for module in modules):
            for module in modules:
                others = tuple(one for one in module.__dict__.pop(READERS) if one is not reader)
                if others:
                    module.__dict__[READERS] = others
        reader.close()
        restore(previous)


def use_received(model: nn.Module) -> list[tuple[PreTrainedConfig, str | None]]:
    """
    Switches the models of Transformers in a module to an implementation that can be read.

    Returns:
        The previous implementations, for [`restore`].

    Raises:
        AttentionRefused: See [`read_attention`].
    """
    models = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    name = type(model).__name__
    if not models:
        raise AttentionRefused(f"{name} has no model of Transformers inside: its attention cannot be read.")
    if any(hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) for module in model.modules()):
        raise AttentionRefused(f"{name} is compiled: its attention cannot be read; ask for output_attentions=True.")
    if any(isinstance(module, nn.DataParallel) and len(module.device_ids) > 1 for module in model.modules()):
        raise AttentionRefused(f"{name} runs in threads: its attention cannot be read; use DistributedDataParallel.")
    configs = [config for one in models for config in _configs(one.config)]
    previous = [(config, config._attn_implementation) for config in configs]
    for one in outermost_models(model):
        if one.config._attn_implementation not in READABLE:
            one.set_attn_implementation("received")
        if one.config._attn_implementation not in READABLE:
            restore(previous)
            raise AttentionRefused(outside_the_interface(one))
    return previous


def outermost_models(model: nn.Module) -> list[PreTrainedModel]:
    """The models of Transformers in a module, without those that are parts of others."""
    models = [module for module in model.modules() if isinstance(module, PreTrainedModel)]
    inner = {part for one in models for part in one.modules() if part is not one}
    return [one for one in models if one not in inner]


def restore(previous: Sequence[tuple[PreTrainedConfig, str | None]]) -> None:
    """Gives models the attention implementations back that [`use_received`] found."""
    for config, implementation in previous:
        config._attn_implementation_internal = implementation


def outside_the_interface(model: nn.Module) -> str:
    """The sentence for a model that has attention of its own."""
    return (
        f"{type(model).__name__} gives nothing away through the attention interface of Transformers: load it with "
        'attn_implementation="eager", and its full attention maps will be summed.'
    )


def _configs(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    yield config
    for name in config.sub_configs:
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig):
            yield from _configs(inner)


def _callers(model: nn.Module) -> list[nn.Module]:
    """
    The modules that are or contain a model of Transformers: the innermost of them that is being called is the pass.

    Not only the models: wrappers such as PEFT's call their `forward` past all hooks.
    """
    names = {
        name[:end]
        for name, module in model.named_modules()
        if isinstance(module, PreTrainedModel)
        for end in [0, len(name), *(at for at, letter in enumerate(name) if letter == ".")]
    }
    return [module for name, module in model.named_modules() if name in names]


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


__all__ = [
    "READABLE",
    "Reader",
    "Reading",
    "outermost_models",
    "outside_the_interface",
    "read_attention",
    "read_passes",
    "restore",
    "use_received",
]
