"""BERT with pairwise scores, whose features include the attention maps: parsing and relation classification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from transformers import BertModel, BertPreTrainedModel

from ..configuration.configuration_bert_pairwise import BertPairwiseConfig
from .hub_export import HubExportMixin
from .pairwise_models import PairwiseParserOutput, PairwiseParsing, PairwiseRelations, states_at


class BertPairwisePreTrainedModel(HubExportMixin, BertPreTrainedModel):
    """Loading and saving of the family."""

    config_class = BertPairwiseConfig
    #: Sub-modules of the base model that a pre-trained checkpoint does not have.
    new_layers: ClassVar[tuple[str, ...]] = ()
    # Heads of a pre-training checkpoint that are not used here.
    _keys_to_ignore_on_load_unexpected = [r"pooler\.", r"^cls\."]
    _encoder_name = "bert"

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        loaded = super().from_pretrained(*args, **kwargs)
        (loaded[0] if isinstance(loaded, tuple) else loaded)._freeze()  # loading replaces the parameters
        return loaded

    def _add_encoder(self, config: BertPairwiseConfig) -> None:
        self.bert = BertModel(config, add_pooling_layer=False)

    def encode(self, input_ids, attention_mask, inputs_embeds, position_ids=None, token_type_ids=None, **kwargs):
        return self.bert(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )


class BertPairwiseParser(BertPairwisePreTrainedModel, PairwiseParsing):
    r"""
    A [`PairwiseParser`] whose encoder is BERT; [CLS] stands for ROOT.

    ```python
    >>> parser = BertPairwiseParser.from_pretrained("google-bert/bert-base-uncased", num_labels=40)
    ```
    """


class BertPairwiseForRelationClassification(BertPairwisePreTrainedModel, PairwiseRelations):
    r"""
    A [`PairwiseForRelationClassification`] whose encoder is BERT.

    Only the rows of the attention that are needed are computed, outside of the layers and without dropout, so the
    encoder may use any attention implementation.

    ```python
    >>> model = BertPairwiseForRelationClassification.from_pretrained("google-bert/bert-base-uncased", num_labels=19)
    ```
    """

    _rows_from = "output_hidden_states"

    def _piece_rows(
        self, outputs: Any, attention_mask: torch.Tensor | None, entities: torch.Tensor
    ) -> Iterator[torch.Tensor]:
        for layer, states in zip(self.bert.encoder.layer, outputs.hidden_states[:-1], strict=True):
            yield _piece_attention(layer.attention.self, states, attention_mask, entities)


def _piece_attention(
    attention: Any, states: torch.Tensor, attention_mask: torch.Tensor | None, pieces: torch.Tensor
) -> torch.Tensor:
    """
    Attention of some pieces to all tokens in one layer of BERT, before dropout.

    Args:
        attention (`BertSelfAttention`): The layer's self-attention.
        states (`torch.Tensor` of shape `(batch, tokens, width)`): The input of the layer.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
        pieces (`torch.LongTensor` of shape `(batch, entities, m)`): Positions; -1 counts as 0.

    Returns:
        `torch.Tensor` of shape `(batch, heads, entities * m, tokens)`
    """
    # The modules are called, never their weights read: adapters and quantized layers stand in their places.
    heads, size = attention.num_attention_heads, attention.attention_head_size
    queries = attention.query(states_at(states, pieces)).flatten(1, 2).unflatten(-1, (heads, size)).transpose(1, 2)
    keys = attention.key(states).unflatten(-1, (heads, size)).transpose(1, 2)
    scores = queries @ keys.mT * attention.scaling
    if attention_mask is not None:
        scores = scores.masked_fill(attention_mask[:, None, None] == 0, torch.finfo(scores.dtype).min)
    return scores.softmax(dim=-1)


__all__ = [
    "BertPairwiseForRelationClassification",
    "BertPairwiseParser",
    "BertPairwisePreTrainedModel",
    "PairwiseParserOutput",
]
