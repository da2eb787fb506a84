"""Measures how far attention heads look, and chooses windows for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from operator import index
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import pad
from transformers import PreTrainedModel

from .attention_readings import read_attention
from .attention_windows import owner_and_layers
from .evaluation_mode import evaluating


class Reach(NamedTuple):
    """
    How far heads look in texts.

    Args:
        beyond (`list[torch.Tensor]`):
            For each layer, the mean attention of each head to what is further away than 0, 1, ... tokens and not
            special, of shape `(heads, distances)`.
        tokens (`float`): The mean number of real tokens of a text.
    """

    beyond: list[torch.Tensor]
    tokens: float

    def windows(self, mass: float) -> list[list[int | None]]:
        """
        The least window of each head that keeps `mass` of its attention, unless it is wider than half of a text; see
        [`fit_windows`].
        """
        _check_mass(mass)
        # It falls, so the windows that lose too much come first.
        least = [(part > 1 - mass + 1e-6).sum(dim=-1).tolist() for part in self.beyond]
        return [[w if w <= self.tokens / 2 else None for w in row] for row in least]


def fit_windows(
    model: nn.Module,
    batches: Iterable[Mapping[str, torch.Tensor]],
    mass: float = 0.99,
    special_token_ids: Collection[int] = (),
) -> list[list[int | None]]:
    """
    Finds the windows that [`set_windows`] can give a model without taking much of its attention away.

    The window of a head is the smallest w for which the tokens that are not special give, on average, `mass` of
    their attention to special tokens and to tokens at most w away. A head that needs more than half of a text stays
    without a window. Weights do not change: measure afterwards what the windows cost.

    Args:
        model (`torch.nn.Module`): A model that [`set_windows`] takes.
        batches (`Iterable[Mapping[str, torch.Tensor]]`):
            Inputs of the model, or of the encoder of an encoder-decoder, with `input_ids` and `attention_mask`.
            `special_tokens_mask`, if there is one, says what is special.
        mass (`float`, *optional*, defaults to 0.99): The share of the attention that stays, above 0 and at most 1.
        special_token_ids (`Collection[int]`, *optional*): Ids of special tokens, as for [`set_windows`].

    Returns:
        `list[list[int | None]]`: The window of each head of each layer; `None` for no window.

    Raises:
        ValueError: `mass` is not above 0 and at most 1, a batch has no `input_ids`, or there is no token that is not
            special.
        AttentionRefused: A `ValueError`; see [`set_windows`] and [`read_attention`].

    Example:

    ```python
    >>> from msattn import fit_windows, set_windows

    >>> special = tokenizer.all_special_ids
    >>> set_windows(model, fit_windows(model, batches, special_token_ids=special), special)
    ```
    """
    _check_mass(mass)
    return head_reach(model, batches, special_token_ids).windows(mass)


def head_reach(
    model: nn.Module, batches: Iterable[Mapping[str, torch.Tensor]], special_token_ids: Collection[int] = ()
) -> Reach:
    """Measures how far the heads of a model look; see [`fit_windows`]."""
    ids = torch.tensor([index(one) for one in special_token_ids], dtype=torch.long)
    owner, layers = owner_and_layers(model)
    if owner.config.is_encoder_decoder or not isinstance(model, PreTrainedModel):  # such as a SentenceTransformer
        model = owner
    sums = [torch.zeros(heads, 0, dtype=torch.double) for heads in layers.values()]
    rows, tokens, texts = [0] * len(layers), 0, 0
    # Neither its place nor `layer_idx` is the row: ALBERT repeats layers, and hybrids count layers without attention.
    called: list[int] = []
    with ExitStack() as stack:
        stack.enter_context(evaluating(model))
        for row, layer in enumerate(layers):
            stack.enter_context(layer.register_forward_pre_hook(lambda *_, row=row: called.append(row)))
        for batch in batches:
            inputs = dict(batch)
            special = inputs.pop("special_tokens_mask", None)
            if "input_ids" not in inputs:
                raise ValueError("batches must have input_ids: they tell which tokens are special")
            words = inputs["input_ids"]
            real = inputs.get("attention_mask", torch.ones_like(words)).bool()
            special = torch.isin(words, ids.to(words.device)) if special is None else special.to(words.device).bool()
            counted = real & ~special
            places = torch.arange(words.shape[1], device=words.device).expand_as(words).masked_fill(~counted, -1)
            called.clear()
            with torch.no_grad(), read_attention(model, (), places=places) as readings:
                model(**inputs)
            for row, reading in zip(called, readings, strict=True):
                found = reading["distances"].cpu().double().sum(dim=0)
                longest = max(sums[row].shape[1], found.shape[1])
                before, found = (pad(part, (0, longest - part.shape[1])) for part in (sums[row], found))
                sums[row] = before + found
                rows[row] += int(counted.sum())
            tokens, texts = tokens + int(real.sum()), texts + len(words)
    if not all(rows):
        raise ValueError("batches must have tokens that are not special")
    beyond = [(part.flip(-1).cumsum(-1).flip(-1) - part) / count for part, count in zip(sums, rows, strict=True)]
    return Reach(beyond, tokens / texts)


def _check_mass(mass: float) -> None:
    if not 0 < mass <= 1:
        raise ValueError(f"mass must be above 0 and at most 1, got {mass}")
