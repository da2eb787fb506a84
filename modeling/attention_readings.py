"""Reads the attention of every forward pass of a model, whatever the model returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import ModelOutput, logging

from .attention import READERS
from .attention_adapters import (
    OURS,
    adapt,
    inner_models,
    is_attention_layer,
    is_compiled,
    is_outside,
    switch_attention,
)
from .attention_call import AttentionCall, AttentionRefused
from .attention_statistics import RECEIVED, Statistics

logger = logging.get_logger(__name__)

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
    """
    A forward pass: its number, given to it with its first reading, how many layers it has read, and which of its
    tokens are left out, `(batch, tokens)`.
    """

    number: int | None = None
    layers: int = 0
    left_out: torch.Tensor | None = None


@dataclass
class Reader:
    """
    Collects the readings of attention layers.

    Args:
        layers (`Collection[int]`, *optional*): The layers that are read; all of them if `None`.
        needs_sums (`bool`): Whether column sums are read: they come with the output.
        measure (`Callable`, *optional*):
            A further reading: takes an [`AttentionCall`] and returns statistics by name.
        of_maps (`Callable`): What is read from whole maps: takes them, and the tokens that count and the real ones,
            `(batch, tokens)`.
        special_ids (`Collection[int]`): Ids of tokens that are neither queries of the sums nor real.
        checkpointed (`bool`): Whether layers are computed again in the backward pass, outside of every forward pass.
        readings (`list[Reading]`): Where readings go.
        passes (`list[_Pass]`): The forward passes that are going on, the innermost last.
        found (`set[int]`): The layers that were seen.
        count (`int`): The number of passes so far.
        closed (`bool`): Whether only recomputation is expected.
    """

    layers: Collection[int] | None = None
    needs_sums: bool = True
    measure: Measure | None = None
    of_maps: Measure = RECEIVED.of_maps
    special_ids: Collection[int] = ()
    checkpointed: bool = False
    readings: list[Reading] = field(default_factory=list)
    passes: list[_Pass] = field(default_factory=lambda: [_Pass()])
    found: set[int] = field(default_factory=set)
    count: int = 0
    closed: bool = False

    def see(self, module: nn.Module, inputs: tuple, named: Mapping[str, Any]) -> None:
        """A hook of the token embeddings: notes which tokens of the pass are left out."""
        ids = inputs[0] if inputs else named["input"]
        if not torch.is_floating_point(ids):
            self.passes[-1].left_out = torch.isin(ids, torch.tensor(list(self.special_ids), device=ids.device))

    def left_out(self, batch: int, queries: int, keys: int) -> torch.Tensor | None:
        """
        The tokens that are left out of a layer of these sizes in the pass that is going on, `(batch, tokens)`.

        Raises:
            AttentionRefused: Their ids are not known.
        """
        if not self.special_ids:
            return None
        tokens = self.passes[-1].left_out
        if tokens is None or tokens.shape != (batch, queries) or queries != keys:
            raise AttentionRefused(
                "special tokens are left out by their ids: give the model input_ids, one for each token that its "
                "layers attend to, without gradient checkpointing."
            )
        return tokens

    def counted(self, call: AttentionCall) -> AttentionCall:
        """The call without the queries that are left out."""
        (batch, _, queries, _), keys = call.scores.query.shape, call.scores.key.shape[2]
        return call.without(self.left_out(batch, queries, keys))

    def reads(self, number: int | None) -> bool:
        """True for a layer that is read, or whose number is unknown; `record` then leaves it out."""
        if self.closed and not torch.is_grad_enabled():
            return False  # nothing is computed again without gradients
        if number is not None and not self.closed:
            self.found.add(number)
        return self.layers is None or number is None or number in self.layers

    def add(self, module: nn.Module, call: AttentionCall, received: torch.Tensor | None) -> None:
        """
        Adds what is read from a layer. Gradient checkpointing computes a layer again, which adds nothing.

        Args:
            module (`torch.nn.Module`): The layer.
            call (`AttentionCall`): What it computes.
            received (`torch.Tensor`, *optional*): The column sums, if `needs_sums`.
        """
        statistics = {} if self.measure is None else dict(self.measure(call))
        if received is not None:
            statistics["received"] = received
        self.record(getattr(module, "layer_idx", None), call.real, statistics)

    def record(self, layer: int | None, real: torch.Tensor, statistics: Mapping[str, torch.Tensor]) -> None:
        """Adds the statistics of a layer to the forward pass that is going on."""
        if self.closed or (self.checkpointed and len(self.passes) == 1):
            return
        now = self.passes[-1]
        if now.left_out is not None:
            real = real & ~now.left_out
        if now.number is None:
            now.number, self.count = self.count, self.count + 1
        layer = now.layers if layer is None else layer
        now.layers += 1
        if self.reads(layer):
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
    do not change. Models that compute their softmax themselves are asked for their whole maps, which are read after
    dropout; the log says so. Cross-attention is not read. With gradient checkpointing call `backward` inside, too, or
    load the model with `attn_implementation="received"`: its layers are computed again, and that must be the same
    computation.

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
        AttentionRefused: A `ValueError`. The model has no model of Transformers inside, or one without attention or
            whose attention cannot be returned, or it is compiled or a `torch.nn.DataParallel`.
        ValueError: A layer is not in the model; after the block. During a pass: as in [`attention_statistics`].

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
    asked = Statistics(statistics, **options)
    sums = asked == RECEIVED
    with read_passes(model, Reader(layers, sums, None if sums else asked.of_call, asked.of_maps)) as readings:
        yield readings


@contextmanager
def read_passes(model: nn.Module, reader: Reader) -> Iterator[list[Reading]]:
    """[`read_attention`] of whatever a reader reads."""
    modules = list(model.modules())
    reader.checkpointed = any(
        getattr(module, "gradient_checkpointing", False) or hasattr(module, "_checkpoint_wrapped_module")  # FSDP's own
        for module in modules
    )
    previous = use_received(model)
    hooks = []
    for one in inner_models(model):
        if one.config._attn_implementation not in OURS:
            hooks += _ask_for_maps(one, reader)  # before those that end the pass
        if reader.special_ids:
            hooks.append(one.get_input_embeddings().register_forward_pre_hook(reader.see, with_kwargs=True))
    for module in dict.fromkeys(_callers(model)):
        hooks.append(module.register_forward_pre_hook(lambda *_: reader.passes.append(_Pass())))
        hooks.append(module.register_forward_hook(lambda *_: reader.passes.pop() and None, always_call=True))
    forget_closed(modules)
    for module in modules:
        module.__dict__[READERS] = (*module.__dict__.get(READERS, ()), reader)
    try:
        yield reader.readings
        if reader.found and (missing := set(reader.layers or ()) - reader.found):
            raise ValueError(f"layers: there is no layer {min(missing)}; the model has 0 to {max(reader.found)}")
    finally:
        for hook in hooks:
            hook.remove()
        reader.close()
        if not (reader.checkpointed and torch.is_grad_enabled()):
            forget_closed(modules)
        restore(previous)


def forget_closed(modules: Iterable[nn.Module]) -> None:
    """Takes readers away that were left for gradient checkpointing, which computes layers again."""
    for module in modules:
        if still := tuple(one for one in module.__dict__.pop(READERS, ()) if not one.closed):
            module.__dict__[READERS] = still


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
    if is_compiled(model):
        raise AttentionRefused(f"{name} is compiled: its attention cannot be read; ask for output_attentions=True.")
    if any(isinstance(module, nn.DataParallel) and len(module.device_ids) > 1 for module in model.modules()):
        raise AttentionRefused(f"{name} runs in threads: its attention cannot be read; use DistributedDataParallel.")
    adapt(model)
    for one in inner_models(model):
        if any(is_attention_layer(module) or hasattr(module, "is_readable") for module in one.modules()):
            continue
        if not is_outside(type(one)):
            raise AttentionRefused(f"{type(one).__name__} has no attention: there is nothing to read.")
        returns_maps = "output_attentions" in inspect.signature(one.forward).parameters
        if not returns_maps or one.config.is_encoder_decoder:
            raise AttentionRefused(f"{type(one).__name__} returns no self-attention maps: it cannot be read.")
    configs = [config for one in models for config in all_configs(one.config)]
    previous = [(config, config._attn_implementation) for config in configs]
    for one in models:
        if one.config._attn_implementation not in OURS:
            switch_attention(one, "received")
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


def _ask_for_maps(model: PreTrainedModel, reader: Reader) -> list[Any]:
    """Hooks that read the maps which a model returns, and hand on only what its caller has asked for."""
    logger.warning_once(
        f"{type(model).__name__} computes its softmax itself: its whole attention maps are read, after dropout. That "
        "costs their memory."
    )
    asked: list[tuple[bool, bool]] = []
    signature = inspect.signature(model.forward)

    def ask(module: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
        given = signature.bind_partial(*args, **kwargs).arguments
        wanted = [given.get(name) for name in ("output_attentions", "return_dict")]
        default = (module.config.output_attentions, module.config.return_dict)
        asked.append(tuple(own if one is None else one for one, own in zip(wanted, default, strict=True)))
        return args, {**kwargs, "output_attentions": True, "return_dict": True}

    def take(module: Any, args: tuple, kwargs: dict[str, Any], outputs: ModelOutput) -> Any:
        given = signature.bind_partial(*args, **kwargs).arguments
        for layer, maps in enumerate(outputs.attentions or ()):
            if reader.reads(layer):
                real = real_places(module, maps, given.get("attention_mask"))
                left_out = reader.left_out(maps.shape[0], maps.shape[2], maps.shape[-1])
                counted = real if left_out is None else real & ~left_out
                reader.record(layer, real, dict(reader.of_maps(maps, counted, real)))
        attentions, return_dict = asked.pop()
        if not attentions:
            outputs = type(outputs)(**{name: value for name, value in outputs.items() if name != "attentions"})
        return outputs if return_dict else outputs.to_tuple()

    return [
        model.register_forward_pre_hook(ask, with_kwargs=True),
        model.register_forward_hook(take, with_kwargs=True),
    ]


def real_places(model: nn.Module, maps: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """
    True at the real places that a model attends to, `(batch, tokens)`.

    Args:
        model (`torch.nn.Module`): The model.
        maps (`torch.Tensor` of shape `(batch, heads, ..., tokens)`): What it has returned for a layer.
        mask (`torch.Tensor` of shape `(..., tokens)`, *optional*): Its attention mask.

    Raises:
        AttentionRefused: The mask is not that of the places.
    """
    places = (maps.shape[0], maps.shape[-1])
    if mask is None:
        return torch.ones(places, dtype=torch.bool, device=maps.device)
    mask = mask.flatten(0, -2)  # the choices of a question are rows of their own
    frames = getattr(model, "_get_feature_vector_attention_mask", None)
    if frames is not None and mask.shape[1] != places[1]:  # speech: the mask is that of the samples
        mask = frames(places[1], mask)
    if mask.shape != places:
        raise AttentionRefused(
            f"{type(model).__name__} attends to {places[1]} places in {places[0]} rows, and its inputs are "
            f"{mask.shape[1]} tokens in {mask.shape[0]}: its attention cannot be read."
        )
    return mask.to(maps.device).bool()


def all_configs(config: PreTrainedConfig) -> Iterator[PreTrainedConfig]:
    """A configuration and those inside of it."""
    yield config
    for name in config.sub_configs:
        if isinstance(inner := getattr(config, name, None), PreTrainedConfig):
            yield from all_configs(inner)


def _callers(model: nn.Module) -> list[nn.Module]:
    """
    The modules that are or contain a model of Transformers: the innermost of them that is being called is the pass.

    Not only the models: wrappers such as PEFT's call their `forward` past all hooks.
    """
    inside = [caller for child in model.children() for caller in _callers(child)]
    return [model, *inside] if inside or isinstance(model, PreTrainedModel) else inside
