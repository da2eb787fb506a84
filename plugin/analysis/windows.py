"""How far the heads of a classifier look, and what windows cost it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import BatchEncoding, PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.attention_maps import Text
from msattn.analysis.classifiers import accuracy, check_classifier, labelled_batches
from msattn.errors import UserError
from msattn.modeling.attention_windows import set_windows
from msattn.modeling.received_attention import AttentionRefused
from msattn.modeling.window_fitting import head_reach


@dataclass(frozen=True)
class WindowCost:
    """
    What the windows of a mass cost.

    Args:
        mass (`float`): The share of the attention that each head keeps.
        reach (`np.ndarray` of shape `(layers, heads)`): The least window of each head that does.
        windowed (`np.ndarray` of shape `(layers, heads)`): Whether the head got it: half of a text is too wide.
        accuracy (`float`): The accuracy with these windows.
    """

    mass: float
    reach: np.ndarray
    windowed: np.ndarray
    accuracy: float


@dataclass(frozen=True)
class WindowCosts:
    """
    The cost of windows for a classifier.

    Args:
        accuracy (`float`): The accuracy without windows.
        costs (`list[WindowCost]`): With the windows of each mass.
        tokens (`float`): The mean number of tokens of a text that windows were fitted to.
        texts (`int`): Number of texts that accuracy was measured on.
    """

    accuracy: float
    costs: list[WindowCost]
    tokens: float
    texts: int


def window_costs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[Text],
    labels: Sequence[int],
    masses: Sequence[float] = (0.99,),
    fitting: Sequence[Text] | None = None,
    batch_size: int = 32,
) -> WindowCosts:
    """
    Fits windows to the heads of a classifier (see [`fit_windows`]), and measures its accuracy with them. Weights are
    not trained again; special tokens stay visible and see everything.

    Args:
        model (`PreTrainedModel`): A sequence classifier. It is not changed.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        texts (`Sequence[tuple[str, ...]]`): Sentences `(text,)` or pairs `(text, text_pair)`.
        labels (`Sequence[int]`): The class of each text.
        masses (`Sequence[float]`, *optional*, defaults to `(0.99,)`): Shares of the attention that heads keep.
        fitting (`Sequence[tuple[str, ...]]`, *optional*): The texts that windows are fitted to; `texts` if `None`.
        batch_size (`int`, *optional*, defaults to 32): Number of texts per batch.

    Returns:
        `WindowCosts`: Reach, windows and accuracies.

    Raises:
        UserError: The model is no classifier or takes no windows, or a mass is not above 0 and at most 1.
    """
    check_classifier(model)
    windowed = copy.deepcopy(model).eval()
    measured = labelled_batches(windowed, tokenizer, texts, labels, batch_size)
    fitted = measured
    if fitting is not None:
        fitted = labelled_batches(windowed, tokenizer, fitting, [0] * len(fitting), batch_size)
    special, costs = tokenizer.all_special_ids, []

    def unlabelled() -> Iterator[BatchEncoding]:
        for batch in fitted():
            batch.pop("labels")
            yield batch

    without = accuracy(windowed, measured)
    try:
        reach = head_reach(windowed, unlabelled(), special)
        for mass in masses:
            windows = reach.windows(mass)
            set_windows(windowed, windows, special)
            chosen = np.array([[window is not None for window in row] for row in windows])
            costs.append(WindowCost(mass, reach.least(mass).numpy(), chosen, accuracy(windowed, measured)))
    except (AttentionRefused, ValueError) as error:
        raise UserError(str(error)) from error
    return WindowCosts(without, costs, reach.tokens, len(texts))
