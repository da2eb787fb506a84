"""The fields of a configuration that a model uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def _is_fused(config: Any) -> bool:
    return getattr(config, "fusion_layers", 1) > 0


_FUSION = ("scales", "mask_mode", "conv_alignment", "fusion_heads", "fusion_residual", "renormalize")
# By field: whether the model reads it.
_READ: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_FUSION, _is_fused),
    "conv_alignment": lambda config: _is_fused(config) and bool(config.scales),
    "mask_temperature": lambda config: _is_fused(config) and config.mask_mode in ("ste", "sigmoid"),
    "arc_size": lambda config: config.objective == "head_select" and config.scorer == "biaffine",
    "relation_size": lambda config: config.scorer == "biaffine",
    "none_weight": lambda config: config.objective == "pairs",
    "attention_scale": lambda config: "att" in config.features,
    **dict.fromkeys(("scorer", "layer_mix"), lambda config: "emb" in config.features),
    "word_state": lambda config: "emb" in config.features or bool(config.word_tags),
    "negative_label": lambda config: bool(config.negative_label),
}


def used_fields(config: Any, names: Sequence[str]) -> dict[str, Any]:
    """
    The values of the fields that a model uses; `None` counts as not used.

    Args:
        config (`PreTrainedConfig`): The configuration.
        names (`Sequence[str]`): Names of fields that it has.
    """
    values = {name: getattr(config, name) for name in names if name not in _READ or _READ[name](config)}
    return {name: value for name, value in values.items() if value is not None}
