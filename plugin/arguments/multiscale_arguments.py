"""Arguments that choose a BERT-MS, or one of its baselines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from msattn.arguments.pretrained import FLAG, ModelArguments, load_config
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
    """The model: what is left out stays as the checkpoint has it, or as the paper has it for a plain BERT."""

    scales: list[int] | None = field(default=None, metadata={"help": "Phrase lengths, such as 3 or 3 5."})
    mask_mode: str | None = field(
        default=None,
        metadata={
            "help": "Mask between words and phrases: hard (the paper's), ste, sigmoid, entmax or none.",
            "choices": ["hard", "ste", "sigmoid", "entmax", "none"],
        },
    )
    mask_temperature: float | None = field(default=None, metadata={"help": "Temperature of ste and sigmoid."})
    conv_alignment: str | None = field(
        default=None,
        metadata={"help": "A phrase ends at its word (causal) or is centred (same).", "choices": ["causal", "same"]},
    )
    fusion_heads: int | None = field(default=None, metadata={"help": "Heads of the fusion attention."})
    fusion_layers: int | None = field(default=None, metadata={"help": "Fusion layers; 0 is the plain BERT."})
    fusion_residual: bool | None = field(
        default=None, metadata={"help": "Add a fusion layer's input to its output.", **FLAG}
    )
    renormalize: bool | None = field(
        default=None, metadata={"help": "Let the rows of the masked attention sum to 1.", **FLAG}
    )
    pooling: str | None = field(
        default=None,
        metadata={
            "help": "What the classifier reads.",
            "choices": ["mean", "cls", "max", "entity_start"],
        },
    )

    def config_overrides(self) -> dict[str, Any]:
        """The fields of the model's configuration that were given."""
        values = {name: getattr(self, name) for name in MULTISCALE_FIELDS}
        return {name: value for name, value in values.items() if value is not None}


def head_fields(args: MultiScaleArguments, fields: dict[str, Any]) -> dict[str, Any]:
    """
    The fields of the configuration that a head stands for, fusion layers included.

    Args:
        args (`MultiScaleArguments`): Names the checkpoint, which may be one of a baseline without such layers.
        fields (`dict[str, Any]`):
            What tells the head from others. Without `fusion_layers` there is at least one: as many as the arguments
            or else the checkpoint say.

    Raises:
        UserError: The head takes the scales of the checkpoint, which has none.
    """
    if "fusion_layers" in fields:
        return fields
    config = load_config(args)
    if "scales" not in fields and not (args.scales or getattr(config, "scales", True)):
        raise UserError(f"{args.model_name_or_path}: the model attends to words only; give this --head its --scales.")
    layers = getattr(config, "fusion_layers", 1) if args.fusion_layers is None else args.fusion_layers
    return {**fields, "fusion_layers": max(1, layers)}
