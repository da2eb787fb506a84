"""BERT with pairwise scores, whose features include the attention maps: parsing and relation classification."""

from __future__ import annotations

from typing import ClassVar

from transformers import BertModel, BertPreTrainedModel

from ..configuration.configuration_bert_pairwise import BertPairwiseConfig
from .new_layers import NewLayers
from .pairwise_parsing import PairwiseParsing
from .pairwise_relations import PairwiseRelations
from .real_tokens import positions


class BertPairwisePreTrainedModel(NewLayers, BertPreTrainedModel):
    """Loading and saving of the family."""

    config_class = BertPairwiseConfig
    # Heads of a pre-training checkpoint that are not used here.
    _keys_to_ignore_on_load_unexpected = [r"pooler\.", r"^cls\."]
    _encoder_paths: ClassVar[tuple[str, ...]] = ("bert",)

    @staticmethod
    def _encoder_class(config: BertPairwiseConfig) -> type[BertModel]:
        return BertModel

    def add_encoder(self, config: BertPairwiseConfig) -> None:
        self.bert = BertModel(config, add_pooling_layer=False)

    def encode(self, input_ids, attention_mask, inputs_embeds, position_ids=None, token_type_ids=None, **kwargs):
        if position_ids is None and attention_mask is not None:
            position_ids = positions(attention_mask)
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

    ```python
    >>> model = BertPairwiseForRelationClassification.from_pretrained("google-bert/bert-base-uncased", num_labels=19)
    ```
    """
