"""Arguments for multi-scale fusion and its baselines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from transformers import PreTrainedConfig

from msattn.argument_values import Count, Positive, Range
from msattn.arguments.memory import refuse_too_large
from msattn.arguments.pretrained import FLAG, ModelArguments, load_config
from msattn.configuration.max_tokens import most_tokens
from msattn.errors import UserError

MULTISCALE_FIELDS = (
    "scales",
    "mask_mode",
    "mask_temperature",
    "conv_alignment",
    "fusion_heads",
    "fusion_layers",
    "fusion_residual",
    "renormalize",
    "pooling",
)


@dataclass
class MultiScaleArguments(ModelArguments):
    """
    Checkpoint and hyperparameters of multi-scale fusion.

    Omitted hyperparameters come from the checkpoint; for an encoder, from the multi-scale fusion paper.
    """

    scales: list[Count] | None = field(default=None, metadata={"help": "Phrase lengths in words, such as 3 or 3 5."})
    mask_mode: str | None = field(
        default=None,
        metadata={
            "help": "Mask that selects between words and phrases: hard (as in the paper), ste (straight-through "
            "estimator), sigmoid, entmax or none.",
            "choices": ["hard", "ste", "sigmoid", "entmax", "none"],
        },
    )
    mask_temperature: Positive | None = field(
        default=None, metadata={"help": "Temperature of the ste and sigmoid masks."}
    )
    conv_alignment: str | None = field(
        default=None,
        metadata={
            "help": "Position of the convolution window: ending at the word (causal) or centred on it (same).",
            "choices": ["causal", "same"],
        },
    )
    fusion_heads: Count | None = field(
        default=None, metadata={"help": "Number of attention heads in each fusion layer."}
    )
    fusion_layers: Annotated[int, Range(0, 1000)] | None = field(
        default=None, metadata={"help": "Number of fusion layers; 0 for the encoder alone."}
    )
    fusion_residual: bool | None = field(
        default=None, metadata={"help": "Add a residual connection around each fusion layer.", **FLAG}
    )
    renormalize: bool | None = field(
        default=None, metadata={"help": "Renormalize the masked attention so that its rows sum to 1.", **FLAG}
    )
    pooling: str | None = field(
        default=None,
        metadata={
            "help": "Pooling of the token states for the classifier.",
            "choices": ["mean", "cls", "max", "last", "entity_start"],
        },
    )

    def config_overrides(self) -> dict[str, Any]:
        """The configuration fields that were set on the command line."""
        values = {name: getattr(self, name) for name in MULTISCALE_FIELDS}
        return {name: value for name, value in values.items() if value is not None}

    def check(self, config: PreTrainedConfig) -> None:
        """
        Checks that phrases are no longer than the model's input, and that the fusion layers fit into memory.

        Raises:
            UserError: One of `--scales` is longer, or the layers do not fit.
        """
        if not self.scales and not self.fusion_layers:
            return
        scales = self.scales or getattr(config, "scales", None) or []
        size = getattr(config.get_text_config(), "hidden_size", 0)
        most, longest = most_tokens(config), max(scales, default=0)
        if most is not None and longest > most:
            raise UserError(
                f"--scales {longest}: a phrase cannot be longer than the {most} tokens that the model reads; its "
                f"convolution alone would take {4 * longest * size**2 / 1e9:,.1f} GB."
            )
        layers = max(1, self.fusion_layers or getattr(config, "fusion_layers", 1))
        refuse_too_large(layers * (sum(scales) + 6) * size**2, "--scales and --fusion_layers")


def head_fields(args: MultiScaleArguments, fields: dict[str, Any]) -> dict[str, Any]:
    """
    The configuration fields of a `--head`, with `fusion_layers` filled in.

    Args:
        args (`MultiScaleArguments`): Model arguments. The checkpoint may be a baseline without fusion layers.
        fields (`dict[str, Any]`):
            The fields that define the head. If `fusion_layers` is missing, it is taken from `args` or else from the
            checkpoint, and is at least 1.

    Returns:
        `dict[str, Any]`: Overrides for the model's configuration.

    Raises:
        UserError: The head needs scales, and neither `args` nor the checkpoint has any.
    """
    if "fusion_layers" in fields:
        return fields
    config = load_config(args)
    if "scales" not in fields and not (args.scales or getattr(config, "scales", True)):
        raise UserError(f"{args.model_name_or_path}: the model attends to words only; give this --head its --scales.")
    layers = getattr(config, "fusion_layers", 1) if args.fusion_layers is None else args.fusion_layers
    return {**fields, "fusion_layers": max(1, layers)}
