"""A learned mix of hidden states from several layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


class LayerMix(nn.Module):
    r"""
    γ Σ_l softmax(w)_l h_l over the last layers of an encoder (Peters et al. 2018), as in SuPar and AllenNLP.

    w starts at 0, which is the mean of the layers, and γ at 1.

    Args:
        num_layers (`int`): Number of layers.
    """

    def __init__(self, num_layers: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(num_layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, layers: Sequence[torch.Tensor]) -> torch.Tensor:
        """
        Args:
            layers (`Sequence[torch.Tensor]` of shape `(..., width)`): The hidden states of each layer.

        Returns:
            `torch.Tensor` of shape `(..., width)`
        """
        weights = self.scale * self.weight.softmax(dim=0)
        device = layers[-1].device
        return sum(weight * states.to(device) for weight, states in zip(weights, layers, strict=True))
