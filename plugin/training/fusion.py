"""Multi-scale fusion and its baselines, by `--head`."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from msattn.errors import UserError
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import config_fields

# Configuration fields by --head: the models in Table 1 of the multi-scale fusion paper, and controls without phrases.
# `None` stands for heads of other classes: pairwise attention, and the classifier of Transformers.
FUSION_HEADS: dict[str | None, dict[str, Any] | None] = {
    "multiscale": {},
    "plain-attention": {"scales": (), "mask_mode": "none"},
    "cls": {"fusion_layers": 0, "pooling": "cls"},
    "mean": {"fusion_layers": 0, "pooling": "mean"},
    "entity-start": {"fusion_layers": 0, "pooling": "entity_start"},
    "r-bert": {"fusion_layers": 0, "pooling": "r_bert"},
    **dict.fromkeys((None, "pairwise", "plain")),
}
# Configuration fields that a model card lists.
FUSION_FIELDS = (
    *("scales", "mask_mode", "mask_temperature", "conv_alignment", "fusion_heads", "fusion_layers"),
    *("fusion_residual", "renormalize", "pooling"),
)


def head_fields(head: str | None, args: ModelArguments, config: PreTrainedConfig) -> dict[str, Any]:
    """
    The configuration fields of a `--head`.

    Args:
        head (`str` or `None`): The head. `None`, and a head that is none of fusion, keep the fields of the checkpoint.
        args (`ModelArguments`): With `config_overrides`.
        config (`PreTrainedConfig`): The checkpoint's, which may be a baseline without fusion layers.

    Raises:
        UserError: The head needs phrases, and neither `--config_overrides` nor the checkpoint has scales.
    """
    fields = FUSION_HEADS[head]
    if fields is None or "fusion_layers" in fields:
        return dict(fields or {})
    given = config_fields(args.config_overrides)
    if head == "multiscale" and not given.get("scales", getattr(config, "scales", True)):
        raise UserError(f"{config.name_or_path}: the model attends to words only; give --config_overrides scales=[3].")
    layers = given.get("fusion_layers", getattr(config, "fusion_layers", 1))
    return {**fields, "fusion_layers": max(1, layers)}
