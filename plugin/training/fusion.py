"""Multi-scale fusion and its baselines, by `--head`."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from transformers import PreTrainedConfig

from msattn.configuration.any_encoder_config import COMPOSED_FAMILIES
from msattn.configuration.fusion_settings import FusionSettings
from msattn.errors import UserError
from msattn.training.arguments import ModelArguments
from msattn.training.checkpoints import config_fields

# Configuration fields by --head: the models in Table 1 of the multi-scale fusion paper, and controls without phrases.
FUSION_HEADS: dict[str | None, dict[str, Any]] = {
    "multiscale": {},
    "plain-attention": {"scales": (), "mask_mode": "none"},
    "cls": {"fusion_layers": 0, "pooling": "cls"},
    "mean": {"fusion_layers": 0, "pooling": "mean"},
    "entity-start": {"fusion_layers": 0, "pooling": "entity_start"},
    "r-bert": {"fusion_layers": 0, "pooling": "r_bert"},
}
# Configuration fields of the fusion layers.
LAYER_FIELDS = tuple(each.name for each in fields(FusionSettings))
# Fields of pairwise configurations that only parsers read.
PARSER_FIELDS = {"objective", "arc_size", "none_weight", "root", "word_tags"}


def choose_head(given: str | None, config: PreTrainedConfig, default: str) -> str | None:
    """
    `--head`, or the default for an encoder; `None` is the head of a checkpoint of this package.

    Raises:
        UserError: The checkpoint is one of this package, and `--head plain` is the classifier of Transformers.
    """
    if config.model_type not in COMPOSED_FAMILIES:
        return given or default
    if given == "plain":
        raise UserError(f"--head plain is the classifier of Transformers, and {config.name_or_path} has one of ours.")
    return given


def head_fields(head: str | None, args: ModelArguments, config: PreTrainedConfig) -> dict[str, Any]:
    """
    The configuration fields of a head.

    Args:
        head (`str` or `None`): The head. `None` keeps the fields of the checkpoint.
        args (`ModelArguments`): With `config_overrides`.
        config (`PreTrainedConfig`): The checkpoint's, which may be a baseline without fusion layers.

    Raises:
        UserError: `--config_overrides` has a field of fusion layers, and the head has none, or a field of parsers; or
            the head needs phrases, and neither `--config_overrides` nor the checkpoint has scales.
    """
    given, found = config_fields(args.config_overrides), dict(FUSION_HEADS.get(head, {}))
    for name in sorted(PARSER_FIELDS & given.keys()):
        raise UserError(f"--config_overrides {name}: only parsers read this field; leave it out.")
    layers = given.get("fusion_layers", getattr(config, "fusion_layers", 0))
    if head in ("multiscale", "plain-attention"):
        found["fusion_layers"] = layers = layers or 1
    elif head is not None:
        layers = found.get("fusion_layers", 0)
    # Under the classifier of Transformers, the Multi-Scale Transformer's scales are its own.
    own = config.to_dict() if head == "plain" else {}
    lost = [name for name in LAYER_FIELDS if given.get(name) and name not in own]
    if lost and not layers:
        what = f"the head {head}" if head else config.name_or_path
        value = f"{lost[0]}={given[lost[0]]}"
        raise UserError(f"--config_overrides {value}: {what} has no fusion layers; give --head multiscale.")
    if head == "multiscale" and not given.get("scales", getattr(config, "scales", True)):
        raise UserError(f"{config.name_or_path} attends to words only; give --config_overrides 'scales=[3]'.")
    return found


def fusion_card_fields(config: PreTrainedConfig) -> tuple[str, ...]:
    """The configuration fields that a model card lists."""
    return (*LAYER_FIELDS, "pooling") if getattr(config, "fusion_layers", 0) else ("fusion_layers", "pooling")
