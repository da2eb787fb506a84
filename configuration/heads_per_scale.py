"""Divides the heads of each layer among the scales."""

import math
from itertools import accumulate


def heads_per_scale(
    alpha: float, num_scales: int, num_heads: int, num_layers: int, decay: str = "1/l"
) -> list[list[int]]:
    r"""
    Heads of each scale in each layer of a Multi-Scale Transformer ("Multi-Scale Self-Attention for Text
    Classification", AAAI 2020).

    The K scales are ordered from small to large. Layer l of L has z_K = 0 and z_k = z_{k+1} + step. The softmax of z
    is the share of the heads of each scale, and n_1 + ... + n_k is the running sum of the shares, rounded up. The step
    is `alpha` times a decay. It is zero in the last layer, which divides its heads evenly.

    Args:
        alpha (`float`):
            Above 0, low layers have more heads with small scales; below 0, with large ones. 0 divides them evenly.
        num_scales (`int`):
            Number K of scales.
        num_heads (`int`):
            Heads of a layer.
        num_layers (`int`):
            Number L of layers.
        decay (`str`, *optional*, defaults to `"1/l"`):
            `"1/l"`, or `"linear"` for (L - l) / (L - 1). With up to three layers they are the same.

    Returns:
        `list[list[int]]`: The number of heads of each scale, for each layer.

    Example:

    ```python
    >>> heads_per_scale(alpha=0.5, num_scales=5, num_heads=10, num_layers=3)
    [[5, 2, 2, 1, 0], [4, 2, 2, 1, 1], [2, 2, 2, 2, 2]]
    ```
    """
    layers = []
    for layer in range(1, num_layers + 1):
        fading = {"1/l": 1 / layer, "linear": (num_layers - layer) / max(num_layers - 1, 1)}
        step = alpha * fading[decay] if layer < num_layers else 0.0
        largest = num_scales - 1 if step > 0 else 0
        weights = [math.exp(step * (rank - largest)) for rank in reversed(range(num_scales))]
        shares = [num_heads * weight / sum(weights) for weight in weights]
        # The small number keeps a rounding error from lifting a whole running sum to the next one.
        ends = [math.ceil(total - 1e-9) for total in accumulate(shares[:-1])] + [num_heads]
        layers.append([end - start for start, end in zip([0, *ends], ends, strict=False)])
    return layers
