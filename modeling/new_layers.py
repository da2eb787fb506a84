"""New layers on a pre-trained encoder, and a check that adapters (PEFT) do not leave them random."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn
from transformers.utils import logging

from .hub_export import HubExportMixin

logger = logging.get_logger(__name__)


class NewLayers(HubExportMixin):
    """A model with new layers on an encoder. Training checks that adapters (PEFT) leave none of them random."""

    #: Where the encoder, or each of its parts, is in a model of the class.
    _encoder_paths: ClassVar[tuple[str, ...]] = ("encoder",)

    def train(self, mode: bool = True) -> Any:
        """
        Raises:
            ValueError: A layer on top of a freshly wrapped encoder has no weight that is trained.
        """
        if mode and self._random_weights:
            check_new_layers(self, *self._encoder_paths)
        return super().train(mode)


def classifier_dropout(config: Any) -> float:
    """`config.classifier_dropout`, or `config.hidden_dropout_prob` if it is `None`."""
    return config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout


def new_modules(model: nn.Module, *encoder_paths: str) -> list[str]:
    """The outermost modules with weights that are no part of the encoder, such as `["arcs", "relations"]`."""
    parents = encoder_paths[0].split(".")[:-1]
    found: dict[str, None] = {}
    for name, _ in model.named_parameters():
        if name.startswith(tuple(f"{path}." for path in encoder_paths)):
            continue
        parts = name.split(".")
        depth = len(parents) + 1 if parts[: len(parents)] == parents else 1
        if isinstance(model.get_submodule(".".join(parts[:depth])), nn.ModuleList):  # which PEFT does not replace
            depth += 1
        found[".".join(parts[:depth])] = None
    return list(found)


def check_new_layers(model: Any, *encoder_paths: str) -> None:
    """
    Check that the random layers on top of an encoder are trained. Warns if only a part of one is.

    Args:
        model (`torch.nn.Module`): The loaded model, in which adapters may have replaced modules.
        *encoder_paths (`str`): Where the encoder, or each of its parts, is in it.

    Raises:
        ValueError: A random layer has no weight that requires a gradient.
    """
    layers = new_modules(model, *encoder_paths)
    modules = [layer for layer in layers if any(name.startswith(f"{layer}.") for name in model._random_weights)]
    base = encoder_paths[0].rpartition(".")[0]
    names = [name.removeprefix(f"{base}.") for name in modules]
    advice = f"name {'it' if len(names) == 1 else 'them'} in the adapter's configuration, modules_to_save={names}"
    for module in modules:
        weights = dict(model.get_submodule(module).named_parameters())
        if not any(weight.requires_grad for weight in weights.values()):
            raise ValueError(f"{module} is new and random, and none of its weights is trained; {advice}")
        frozen = [
            name
            for name, weight in weights.items()
            if not weight.requires_grad and "original_module" not in name.split(".") and "mask_" not in name
        ]
        if frozen:
            logger.warning(f"{module}.{frozen[0]} is new and random, and is not trained; {advice}")
