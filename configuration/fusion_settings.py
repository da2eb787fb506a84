"""What the configurations of models with multi-scale fusion share."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from dataclasses import dataclass
from typing import Literal

from .local_pipelines import LocalPipelines


@dataclass(kw_only=True, init=False, repr=False, eq=False)
class FusionSettings(LocalPipelines):
    r"""
    The fields of the fusion layers and their checks. A configuration derives from it first, then from its own base.

    Args:
        scales (`tuple[int, ...]`, *optional*, defaults to `(3,)`):
            Phrase lengths k in words, one convolution each (Eq. 3 and 4). Empty for words only.
        mask_mode (`str`, *optional*, defaults to `"hard"`):
            How the word mask of Eq. 13 is computed: `"hard"` (the paper; its query and key get no gradient), `"ste"`
            (the same values with a straight-through gradient), `"sigmoid"`, `"entmax"`, or `"none"` (no mask). See
            [`MultiScaleFusion`].
        mask_temperature (`float`, *optional*, defaults to 0.1):
            Temperature of `"ste"` and `"sigmoid"`, in units of the uniform attention level 1/n.
        conv_alignment (`str`, *optional*, defaults to `"causal"`):
            Whether phrase j ends at word j (`"causal"`, Eq. 3) or is centred on it (`"same"`).
        fusion_heads (`int`, *optional*, defaults to 1):
            Heads of the fusion attention; the paper has one.
        fusion_layers (`int`, *optional*, defaults to 1):
            Fusion layers on top of the encoder; 0 is the plain encoder with the same classifier.
        fusion_residual (`bool`, *optional*, defaults to `False`):
            Whether to add the input of each fusion layer to its output.
        renormalize (`bool`, *optional*, defaults to `False`):
            Whether to scale every row of the masked attention (Eq. 17) back to a sum of 1.
    """

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
        # Where two models share an Auto class, Transformers iterates over `architectures`.
        self.architectures: list[str] = self.architectures or []
        super().__post_init__(**kwargs)  # type: ignore[misc]

    def validate_fusion(self):
        """Part of the `@strict` validation, which runs on construction."""
        if any(scale < 1 for scale in self.scales) or len(set(self.scales)) < len(self.scales):
            raise ValueError(f"scales must be different whole numbers of at least 1, got {list(self.scales)}")
        if not 0 < self.mask_temperature < float("inf"):
            raise ValueError(f"mask_temperature must be above 0 and finite, got {self.mask_temperature}")
        width = self.hidden_size  # type: ignore[attr-defined]
        if self.fusion_heads < 1 or width % self.fusion_heads:
            raise ValueError(
                f"fusion_heads must divide hidden_size ({width}) into equal parts, got {self.fusion_heads}"
            )
        if self.fusion_layers < 0:
            raise ValueError(f"fusion_layers must be 0 or more, got {self.fusion_layers}")


__all__ = ["FusionSettings"]
