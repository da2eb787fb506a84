"""
`run_re.py` with another fusion layer, `--variant NAME`, for `--head multiscale` of one layer and one head.

- `zero`: the value projection starts at zero; with `fusion_residual=true` the layer starts as the identity.
- `norm-zero`: queries and keys also read the output of a LayerNorm.
- `segments-zero`: the phrase of a word is the mean of the part it lies in, before, between or after the starts of the
  two entities, through a linear layer (`scales=[1]`).

Queries at the markers alone need no variant: the classifier reads one layer's output at the markers, and the output
at a word depends on no other query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from msattn.modeling.multiscale_fusion import MultiScaleFusion
from msattn.scripts import run_re
from msattn.training.checkpoints import load_model


class NormedFusion(MultiScaleFusion):
    """LayerNorm before queries and keys, those of the mask as well."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.norm = nn.LayerNorm(self.value.in_features)

    def _attention(self, words: torch.Tensor, stack: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        return super()._attention(self.norm(words), self.norm(stack), real)


class SegmentFusion(MultiScaleFusion):
    """The phrase of a word is the part of the sentence around both entities that it lies in."""

    entity_starts: torch.Tensor

    def _convolve(self, conv: nn.Module, width: int, words: torch.Tensor) -> torch.Tensor:
        order = torch.arange(words.shape[1], device=words.device)
        part = (order >= self.entity_starts.unsqueeze(-1)).sum(dim=1)  # (batch, tokens): 0, 1 or 2
        real = words.any(dim=-1)  # padding is zero
        same = (part.unsqueeze(1) == part.unsqueeze(2)) & real.unsqueeze(1)
        mean = same.to(words.dtype) / same.sum(dim=-1, keepdim=True).clamp_min(1)
        return super()._convolve(conv, width, mean @ words)


VARIANTS = {"zero": MultiScaleFusion, "norm-zero": NormedFusion, "segments-zero": SegmentFusion}


@dataclass
class VariantArguments(run_re.RelationModelArguments):
    """With the name of the layer."""

    variant: str = field(default="zero", metadata={"help": "The layer.", "choices": [*VARIANTS]})


def load_variant(model_class: type, model_args: VariantArguments, *args: Any, **kwargs: Any) -> nn.Module:
    """What the script loads, with one layer of a variant instead of its own."""
    model = load_model(model_class, model_args, *args, **kwargs)
    config = model.config
    layer = VARIANTS[model_args.variant](config.hidden_size, config.scales, mask_mode=config.mask_mode)
    layer.load_state_dict(model.base_model.fusion[0].state_dict(), strict=False)
    nn.init.zeros_(layer.value.weight)
    model.base_model.fusion[0] = layer
    # `MultiScaleModel` does not pass the markers on to the layer.
    model.register_forward_pre_hook(
        lambda _, args, inputs: setattr(layer, "entity_starts", inputs["entity_starts"]), with_kwargs=True
    )
    return model


def main(argv: Sequence[str] | None = None) -> None:
    """As `run_re.py`."""
    with patch.multiple(run_re, RelationModelArguments=VariantArguments, load_model=load_variant):
        run_re.main(argv)


if __name__ == "__main__":
    main()
