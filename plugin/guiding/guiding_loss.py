"""The guiding losses of what was read from a model's attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from msattn.errors import UserError
from msattn.guiding.guiding_arguments import USUAL, GuidingArguments
from msattn.modeling.attention_call import AttentionCall
from msattn.modeling.attention_patterns import pattern_distances
from msattn.modeling.attention_readings import Reading
from msattn.modeling.guiding_losses import mdg_loss, pdg_loss

# The statistic that `measure_patterns` reads.
DISTANCES = "patterns"


def guiding_loss(
    readings: Sequence[Reading], guiding: GuidingArguments
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """
    MDG and PDG of attention that [`read_attention`] has read.

    Each forward pass has its own maps, which are those of its guided layers. The terms are means over the samples of
    all passes. Where some passes have gradients, those without, such as a reference model's, do not count.

    Args:
        readings (`Sequence[Reading]`): What was read, with the statistic `"received"`.
        guiding (`GuidingArguments`): Weights, layers and variants of the losses.

    Returns:
        The weighted sum, a scalar, and the unweighted terms, `"mdg_loss"` and `"pdg_loss"`, those with a weight.

    Raises:
        UserError: Nothing was read, or nothing that has a gradient, unless under `torch.no_grad()`; `guided_layers`
            names a layer that was not read; the layers of a pass attend to different tokens; or the arguments ask for
            what [`GuidedTrainer`] alone can do (`guiding_axis="official"`, `pattern_weight`, `pattern_heads`,
            `guide_every`, `guiding_tokens`, `guiding_decay`).

    Example:

    ```python
    >>> with read_attention(model) as readings:
    ...     loss = model(**batch).loss
    >>> guided, terms = guiding_loss(readings, GuidingArguments(mdg_weight=0.01, pdg_weight=0.0001))
    >>> (loss + guided).backward()
    ```
    """
    weights = guiding.weights
    for name, usual in {"guiding_axis": "received", "pattern_weight": 0, **USUAL}.items():
        if (value := getattr(guiding, name)) != usual:
            raise UserError(f"guiding_loss does not know {name}={value}: use GuidedTrainer.")
    if torch.is_grad_enabled():
        check_gradient(readings)
    terms = guiding_terms(guided_passes(readings, guiding), guiding)
    loss = sum(
        (weights[name] * term for name, term in terms.items()), readings[0].real.new_zeros((), dtype=torch.float)
    )
    return loss, terms


def guided_passes(readings: Sequence[Reading], guiding: GuidingArguments) -> list[dict[int, Reading]]:
    """
    The readings of the guided layers of each forward pass, by layer.

    Raises:
        UserError: Nothing was read, or not the layers that `guided_layers` names.
    """
    if not readings:
        raise UserError("no attention was read: no model that has any has run inside of read_attention.")
    trained = {reading.forward for reading in readings if has_gradient(reading)}
    passes: dict[int, dict[int, Reading]] = {}
    for reading in readings:  # frozen layers of a pass stay: they are among its maps in evaluation, too
        if not trained or reading.forward in trained:
            passes.setdefault(reading.forward, {})[reading.layer] = reading
    for forward, layers in passes.items():
        chosen = sorted(layers) if guiding.guided_layers is None else guiding.layers(max(layers) + 1)
        if missing := [layer for layer in chosen if layer not in layers]:
            raise UserError(f"guided_layers: layer {missing[0]} was not read.")
        passes[forward] = {layer: layers[layer] for layer in chosen}
    return list(passes.values())


def has_gradient(reading: Reading) -> bool:
    """Whether a loss of what was read would train the model."""
    return any(statistic.requires_grad for statistic in reading.statistics.values())


def check_gradient(readings: Sequence[Reading]) -> None:
    """
    Raises:
        UserError: Attention was read, and none of it has a gradient.
    """
    if readings and not any(map(has_gradient, readings)):
        raise UserError(
            "the guided attention has no gradient: its layers are frozen, their gradient checkpointing is reentrant "
            '(gradient_checkpointing_kwargs={"use_reentrant": false} is what works), or the loss runs the model, or '
            "returns a pass of it, without gradients, as Cached losses do."
        )


def guiding_terms(passes: Sequence[Mapping[int, Reading]], guiding: Any) -> dict[str, torch.Tensor]:
    """
    The unweighted losses, under the names of `GuidingArguments.weights`.

    Args:
        passes (`Sequence[Mapping[int, Reading]]`): See [`guided_passes`].
        guiding (`GuidingArguments`): Weights and variants of the losses; those without a weight are left out.

    Raises:
        UserError: The layers of a pass attend to different tokens.
    """
    sizes = [next(iter(layers.values())).real.shape[0] for layers in passes]
    terms: dict[str, Any] = {}
    for layers, size in zip(passes, sizes, strict=True):
        for name, term in _terms_of_pass(layers, guiding).items():
            part = term * (size / sum(sizes))
            terms[name] = terms[name] + part.to(terms[name].device) if name in terms else part
    return terms


def _terms_of_pass(layers: Mapping[int, Reading], guiding: Any) -> dict[str, torch.Tensor]:
    real = next(iter(layers.values())).real
    terms = {}
    if guiding.mdg_weight or guiding.pdg_weight:
        vectors = [reading["received"].to(real.device) for reading in layers.values()]
        if len({vector.shape[::2] for vector in vectors}) > 1:
            raise UserError(
                "the layers of a forward pass attend to different tokens: name those to compare in guided_layers."
            )
        maps = torch.cat(vectors, dim=1)
        if guiding.mdg_weight:
            terms["mdg_loss"] = mdg_loss(
                maps, real, guiding.guiding_temperature, guiding.mdg_normalize, guiding.guiding_reduction
            )
        if guiding.pdg_weight:
            terms["pdg_loss"] = pdg_loss(maps, real, guiding.pdg_normalize, guiding.guiding_reduction)
    if guiding.pattern_weight:
        distances = torch.stack([reading[DISTANCES].to(real.device) for reading in layers.values()])
        # A mean over heads and samples, and a sum over layers and patterns.
        terms["pattern_loss"] = distances.mean(dim=1).sum()
    return terms


def measure_patterns(
    call: AttentionCall, guiding: GuidingArguments, targets: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """
    Measures the distance to each pattern, `(batch, patterns)`, as the `Reader` of the pattern loss.

    Args:
        call (`AttentionCall`): What a layer computes.
        guiding (`GuidingArguments`): Which heads are guided to which pattern.
        targets (`Mapping[str, torch.Tensor]`): The targets of patterns that depend on the text.

    Raises:
        UserError: The targets are not those of the tokens of this forward pass.
    """
    query, key = call.scores.query, call.scores.key
    heads_of = guiding.heads(query.shape[1])
    # Patterns take heads from the first one on.
    sizes = [heads.stop - heads.start for heads in heads_of.values()]
    parts = call.split([*sizes, query.shape[1] - sum(sizes)])
    distances = []
    for pattern, part in zip(heads_of, parts, strict=False):
        target = targets.get(pattern, pattern)
        if isinstance(target, torch.Tensor) and target.shape[:2] != (query.shape[0], key.shape[2]):
            raise UserError(
                f"the pattern {pattern} has targets for {tuple(target.shape[:2])} tokens, and a forward pass has "
                f"{(query.shape[0], key.shape[2])}: it needs a model that reads the batch as it is, in one pass."
            )
        distances.append(pattern_distances(part, target))
    return {DISTANCES: torch.stack([distance.mean(dim=1) for distance in distances], dim=1)}
