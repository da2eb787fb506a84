"""
`run_re.py`, where `--head multiscale` can have another fusion layer: `--variant NAME`. With `fusion_residual=true`,
all but `norm` start as the identity, by a value projection of zeros:

- `zero`: nothing else.
- `norm`: queries and keys, those of the mask as well, read a LayerNorm of the states.
- `norm-zero`: the LayerNorm and the zeros.
- `segments-zero`: the phrase of a word is the mean of the part that it lies in, before, between or after the starts of
  both entities, through a linear layer (`scales=[1]`).

Queries at the markers alone need no variant: with one layer and `pooling=entity_start`, the defaults, the classifier
reads the output at the markers, which depends on no other query. What is trained is scored at once: a saved variant
loads as a layer of the package, without its changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from msattn.errors import UserError
from msattn.modeling import multiscale_fusion
from msattn.modeling.multiscale_fusion import MultiScaleFusion
from msattn.scripts import run_re
from msattn.training.checkpoints import load_model


class NormedFusion(MultiScaleFusion):
    """A LayerNorm before queries and keys."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.norm = nn.LayerNorm(self.value.in_features)

    def _attention(self, words: torch.Tensor, stack: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        return super()._attention(self.norm(words), self.norm(stack), real)


class SegmentFusion(MultiScaleFusion):
    """The phrase of a word is the mean of the part of the sentence, cut at both entities, that it lies in."""

    entity_starts: torch.Tensor

    def _convolve(self, conv: nn.Module, width: int, words: torch.Tensor) -> torch.Tensor:
        order = torch.arange(words.shape[1], device=words.device)
        part = (order >= self.entity_starts.unsqueeze(-1)).sum(dim=1)  # (batch, tokens): 0, 1 or 2
        real = words.any(dim=-1)  # padding is zero
        same = (part.unsqueeze(1) == part.unsqueeze(2)) & real.unsqueeze(1)
        mean = same.to(words.dtype) / same.sum(dim=-1, keepdim=True).clamp_min(1)
        return super()._convolve(conv, width, mean @ words)


VARIANTS = {"zero": MultiScaleFusion, "norm": NormedFusion, "norm-zero": NormedFusion, "segments-zero": SegmentFusion}


@dataclass
class VariantArguments(run_re.RelationModelArguments):
    """With the name of the layer."""

    variant: str | None = field(default=None, metadata={"help": "The layer.", "choices": [*VARIANTS]})


def load_variant(model_class: type, model_args: VariantArguments, *args: Any, **kwargs: Any) -> nn.Module:
    """What the script loads, with a variant as its fusion layer."""
    if model_args.variant is None:
        return load_model(model_class, model_args, *args, **kwargs)
    if model_args.head != "multiscale" or kwargs["refuse_new_weights"]:
        raise UserError("--variant needs --do_train and --head multiscale.")
    with patch.object(multiscale_fusion, "MultiScaleFusion", VARIANTS[model_args.variant]):
        model = load_model(model_class, model_args, *args, **kwargs)
    if model_args.variant.endswith("zero"):
        for layer in model.base_model.fusion:
            nn.init.zeros_(layer.value.weight)
    # `MultiScaleModel` does not pass the markers on to the layer.
    model.register_forward_pre_hook(
        lambda _, args, inputs: setattr(SegmentFusion, "entity_starts", inputs["entity_starts"]), with_kwargs=True
    )
    return model


def main(argv: Sequence[str] | None = None) -> None:
    """As `run_re.py`."""
    with patch.multiple(run_re, RelationModelArguments=VariantArguments, load_model=load_variant):
        run_re.main(argv)


if __name__ == "__main__":
    main()
