"""BERT with multi-scale fusion self-attention (BERT-MS): relation extraction and sequence classification."""

from __future__ import annotations

from transformers import BertModel, BertPreTrainedModel

from ..configuration.configuration_multiscale_bert import MultiScaleBertConfig
from .fusion_classifiers import FusedModel, FusionForRelationExtraction, FusionForSequenceClassification
from .multiscale_fusion import FusionStack
from .new_layers import NewLayers
from .real_tokens import positions


class MultiScaleBertPreTrainedModel(NewLayers, BertPreTrainedModel):
    """Loading and saving of the family."""

    config_class = MultiScaleBertConfig
    _encoder_paths = ("bert.embeddings", "bert.encoder")
    # Heads of a pre-training checkpoint that are not used here.
    _keys_to_ignore_on_load_unexpected = [r"pooler\.", r"^cls\."]

    def _after_loading(self) -> None:
        self.base_model.fusion.freeze_unreachable()


class MultiScaleBertModel(FusedModel, MultiScaleBertPreTrainedModel, BertModel):
    r"""
    BERT followed by `config.fusion_layers` layers of [`MultiScaleFusion`]; `last_hidden_state` is S of Eq. 19.

    The weights of the encoder have the names of [`BertModel`]. So `from_pretrained` loads any BERT checkpoint and
    initializes only the fusion layers:

    ```python
    >>> model = MultiScaleBertModel.from_pretrained("google-bert/bert-base-uncased", scales=[3, 5])
    ```
    """

    _encoder_paths = ("embeddings", "encoder")

    def __init__(self, config: MultiScaleBertConfig):
        super().__init__(config, add_pooling_layer=False)
        self.fusion = FusionStack(config)
        self.post_init()

    def encode(self, input_ids, attention_mask, inputs_embeds, position_ids=None, token_type_ids=None, **kwargs):
        if position_ids is None and attention_mask is not None:
            position_ids = positions(attention_mask)
        return BertModel.forward(
            self,
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            use_cache=False,
            return_dict=True,
            **kwargs,
        )


class BertForMultiScaleRE(MultiScaleBertPreTrainedModel, FusionForRelationExtraction):
    r"""
    Relation extraction with BERT-MS: the relation between two marked entities of a sentence.

    The classifier reads the final states of the two start markers, concatenated (`pooling="entity_start"`, like the
    BERT-Entity baseline), or a pooled sentence. With `fusion_layers=0`, the model is that baseline; with
    `pooling="cls"` as well, it is plain BERT.

    ```python
    >>> model = BertForMultiScaleRE.from_pretrained("google-bert/bert-base-uncased", scales=[3, 5], num_labels=19)
    ```
    """

    _base_class = MultiScaleBertModel
    _classifier_name = "classifier"


class BertForMultiScaleSequenceClassification(MultiScaleBertPreTrainedModel, FusionForSequenceClassification):
    r"""
    Classification of sentences and sentence pairs with BERT-MS: single-label, multi-label or regression.

    ```python
    >>> model = BertForMultiScaleSequenceClassification.from_pretrained("google-bert/bert-base-uncased", scales=[3])
    ```
    """

    _base_class = MultiScaleBertModel
    _classifier_name = "classifier"
