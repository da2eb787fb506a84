"""Fields of all configurations with multi-scale fusion."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from dataclasses import dataclass
from typing import Literal


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class FusionSettings:
    """
    The fields of the fusion layers and their checks. [`MultiScaleConfig`] documents them.

    A configuration derives from it first, then from its own base.
    """

    keys_to_ignore_at_inference = ["past_key_values", "fusion_attentions", "hidden_states", "attentions"]

    scales: tuple[int, ...] | list[int] = (3,)
    mask_mode: Literal["hard", "ste", "sigmoid", "entmax", "none"] = "hard"
    mask_temperature: float | int = 0.1
    conv_alignment: Literal["causal", "same"] = "causal"
    fusion_heads: int = 1
    fusion_layers: int = 1
    fusion_residual: bool = False
    renormalize: bool = False

    def __post_init__(self, **kwargs):
        self.scales = tuple(self.scales)  # JSON has only lists
        super().__post_init__(**kwargs)  # type: ignore[misc]

    def validate_fusion(self):
        """Part of the `@strict` validation, which runs on construction."""
        if not self.mask_temperature > 0:  # nor NaN
            raise ValueError(f"mask_temperature must be above 0, got {self.mask_temperature}")
        width = self.hidden_size  # type: ignore[attr-defined]
        if self.fusion_heads < 1 or width % self.fusion_heads:
            raise ValueError(
                f"fusion_heads must divide hidden_size ({width}) into equal parts, got {self.fusion_heads}"
            )
        if self.fusion_layers < 0:
            raise ValueError(f"fusion_layers must be 0 or more, got {self.fusion_layers}")
