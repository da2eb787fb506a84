"""The importance of attention heads, by the gradient of a gate, and the score of a classifier as heads go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import Text
from msattn.analysis.classifiers import Batches, accuracy, check_classifier, labelled_batches
from msattn.errors import UserError
from msattn.modeling.evaluation_mode import evaluating
from msattn.modeling.head_gates import gated, gated_layers
from msattn.modeling.received_attention import AttentionRefused


@dataclass(frozen=True)
class HeadImportance:
    """
    The importance of the heads of a classifier.

    Args:
        importances (`np.ndarray` of shape `(layers, heads)`): The mean of |∂loss / ∂gate| over the texts.
        removed (`list[int]`): Numbers of heads removed, in the order of [`removal_order`].
        accuracies (`list[float]`): The accuracy without them.
        majority (`float`): The share of the most frequent class.
        texts (`int`): Number of texts.
    """

    importances: np.ndarray
    removed: list[int]
    accuracies: list[float]
    majority: float
    texts: int


def head_importance(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    labels: Sequence[int],
    steps: int = 10,
    batch_size: int = 32,
) -> HeadImportance:
    """
    Measures what each head is worth to a classifier ("Are Sixteen Heads Really Better than One?", Michel et al. 2019).

    The importance of a head is the mean of |∂loss / ∂gate| over the texts, for a gate of 1 on its output; see
    [`head_gates`]. Then heads are removed, the least important first, and the accuracy is measured after each step.
    No head is trained again.

    Args:
        model (`PreTrainedModel`): A sequence classifier. Its mode is restored afterwards.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.
        labels (`Sequence[int]`): The class of each text.
        steps (`int`, *optional*, defaults to 10): Number of steps from all heads to none.
        batch_size (`int`, *optional*, defaults to 32): Number of texts per batch.

    Returns:
        `HeadImportance`: Importances and accuracies.

    Raises:
        UserError: The model is no classifier, is outside of the attention interface, or has layers with different
            numbers of heads.
    """
    check_classifier(model)
    try:
        heads = set(gated_layers(model).values())
    except AttentionRefused as refused:
        raise UserError(str(refused)) from refused
    if len(heads) > 1:
        raise UserError(f"{type(model).__name__} has layers of {' and '.join(map(str, sorted(heads)))} heads.")
    batches = labelled_batches(model, tokenizer, texts, labels, batch_size)
    with evaluating(model):
        importances = _importances(model, batches, len(texts))
        order = removal_order(importances)
        removed = np.linspace(0, len(order), steps + 1).round().astype(int).tolist()
        accuracies = [_accuracy(model, batches, order[:count], importances.shape) for count in removed]
    majority = float(np.bincount(labels).max()) / len(labels)
    return HeadImportance(importances, removed, accuracies, majority, len(texts))


def removal_order(importances: np.ndarray) -> np.ndarray:
    """
    The heads from the least to the most important one, after each layer is scaled to unit length (Michel et al. 2019).

    Args:
        importances (`np.ndarray` of shape `(layers, heads)`): The importances.

    Returns:
        `np.ndarray` of shape `(layers · heads,)`: Indices into the flattened importances.
    """
    lengths = np.linalg.norm(importances, axis=1, keepdims=True)
    return np.argsort((importances / np.maximum(lengths, np.finfo(float).tiny)).ravel(), kind="stable")


def _importances(model: PreTrainedModel, batches: Batches, texts: int) -> np.ndarray:
    layers = gated_layers(model)
    total = torch.zeros(len(layers), max(layers.values()), device=model.device)
    for batch in batches():
        labels = batch.pop("labels")
        # Gates of their own for each text: the mean is of absolute values.
        gates = torch.ones(len(labels), *total.shape, device=model.device, requires_grad=True)
        with gated(model, gates):
            loss = cross_entropy(model(**batch).logits.float(), labels, reduction="sum")
            total += torch.autograd.grad(loss, gates)[0].abs().sum(dim=0)
    return (total / texts).cpu().double().numpy()


def _accuracy(model: PreTrainedModel, batches: Batches, removed: np.ndarray, shape: tuple[int, ...]) -> float:
    gates = torch.ones(shape, device=model.device)
    gates.view(-1)[torch.from_numpy(removed)] = 0
    with gated(model, gates):
        return accuracy(model, batches)
