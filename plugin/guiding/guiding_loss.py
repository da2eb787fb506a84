"""The guiding losses of what was read from a model's attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from msattn.errors import UserError
from msattn.modeling.attention_readings import Reading
from msattn.modeling.guiding_losses import mdg_loss, pdg_loss

if TYPE_CHECKING:
    from msattn.guiding.guiding_arguments import GuidingArguments


def guiding_loss(
    readings: Sequence[Reading], guiding: GuidingArguments
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """
    The guiding losses of attention that [`read_attention`] has read.

    Each forward pass has its own maps, which are those of its guided layers. The terms are means over the samples of
    all passes. Where some passes have gradients, those without, such as a reference model's, do not count.

    Args:
        readings (`Sequence[Reading]`): What was read, with the statistic `"received"`.
        guiding (`GuidingArguments`): Weights, layers and variants of the losses.

    Returns:
        The weighted sum, a scalar, and the unweighted terms, `"mdg_loss"` and `"pdg_loss"`, those with a weight.

    Raises:
        UserError: Nothing was read; `guided_layers` names a layer that was not; the layers of a pass attend to
            different tokens; or the arguments ask for full maps (`guiding_axis="official"`, `pattern_weight`).

    Example:

    ```python
    >>> with read_attention(model) as readings:
    ...     loss = model(**batch).loss
    >>> guided, terms = guiding_loss(readings, GuidingArguments(mdg_weight=0.01, pdg_weight=0.001))
    >>> (loss + guided).backward()
    ```
    """
    weights = guiding.weights
    if guiding.guiding_axis == "official" or "pattern_loss" in weights:
        raise UserError("guiding_loss knows column sums only: the axis official and patterns need full maps.")
    passes = guided_passes(readings, guiding)
    total = sum(real.shape[0] for _, real in passes)
    terms: dict[str, Any] = {}
    for vectors, real in passes:
        for name, term in map_terms(vectors, real, guiding).items():
            terms[name] = terms.get(name, 0.0) + term.to(passes[0][1].device) * (real.shape[0] / total)
    loss = sum((weights[name] * term for name, term in terms.items()), torch.zeros((), device=passes[0][1].device))
    return loss, terms


def guided_passes(
    readings: Sequence[Reading], guiding: GuidingArguments
) -> list[tuple[dict[int, torch.Tensor], torch.Tensor]]:
    """
    What the guided layers of each forward pass have received, `(batch, heads, tokens)` by layer, and which tokens are
    real, all of a pass on one device.

    Raises:
        UserError: As in [`guiding_loss`].
    """
    trained = [reading for reading in readings if reading["received"].requires_grad]
    passes: dict[int, dict[int, Reading]] = {}
    for reading in trained or readings:
        passes.setdefault(reading.forward, {})[reading.layer] = reading
    if not passes:
        raise UserError("no attention was read: no model that has any has run inside of read_attention.")
    found = []
    for layers in passes.values():
        named = guiding.guided_layers is not None
        chosen = [layer for layer in (guiding.layers(max(layers) + 1) if named else sorted(layers))]
        if missing := [layer for layer in chosen if layer not in layers]:
            raise UserError(f"guided_layers: layer {missing[0]} was not read.")
        real = layers[chosen[0]].real
        vectors = {layer: layers[layer]["received"].to(real.device) for layer in chosen}
        if len({vector.shape[::2] for vector in vectors.values()}) > 1:
            raise UserError(
                "the layers of a forward pass attend to different tokens: name those to compare in guided_layers."
            )
        found.append((vectors, real))
    return found


def map_terms(vectors: Mapping[int, torch.Tensor], real: torch.Tensor, guiding: Any) -> dict[str, torch.Tensor]:
    """The unweighted MDG and PDG losses of one forward pass, under the names of `GuidingArguments.weights`."""
    maps = torch.cat(list(vectors.values()), dim=1)
    terms = {}
    if guiding.mdg_weight:
        terms["mdg_loss"] = mdg_loss(
            maps, real, guiding.guiding_temperature, guiding.mdg_normalize, guiding.guiding_reduction
        )
    if guiding.pdg_weight:
        terms["pdg_loss"] = pdg_loss(maps, real, guiding.pdg_normalize, guiding.guiding_reduction)
    return terms
