"""The Transformers Trainer with attention guiding."""

from __future__ import annotations

from transformers import Trainer

from msattn.training.guiding_mixin import GuidingMixin


class GuidedTrainer(GuidingMixin, Trainer):
    r"""
    A [`Trainer`] that adds attention guiding to the loss of any encoder; see [`GuidingMixin`].

    Example:

    ```python
    >>> from msattn import GuidedTrainer, GuidingArguments

    >>> trainer = GuidedTrainer(model, args, train_dataset=dataset, guiding=GuidingArguments(mdg_weight=0.01))
    >>> trainer.train()
    ```
    """
