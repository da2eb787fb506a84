"""Configuration of BERT with pairwise scores, whose features include the attention maps."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from huggingface_hub.dataclasses import strict

from .bert_family import BertFamilyConfig
from .pairwise_settings import PairwiseSettings


@strict
class BertPairwiseConfig(PairwiseSettings, BertFamilyConfig):
    r"""
    Configuration of a [`BertPairwiseParser`] or a [`BertPairwiseForRelationClassification`]: [`PairwiseConfig`] and
    [`BertConfig`] in one, for checkpoints with BERT built in. New models take [`PairwiseConfig`].

    `classifier_dropout`, or `hidden_dropout_prob` if it is `None`, applies to the hidden states of the words and
    inside the biaffine layers.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: As for [`PairwiseConfig`], or `is_decoder` is set.

    Example:

    ```python
    >>> from msattn import BertPairwiseConfig, BertPairwiseParser

    >>> config = BertPairwiseConfig(objective="head_select", scorer="biaffine", num_labels=40)
    >>> parser = BertPairwiseParser(config)
    ```
    """

    model_type = "bert_pairwise"
