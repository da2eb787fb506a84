"""BERT with multi-scale fusion self-attention (BERT-MS): relation extraction and sequence classification."""

from __future__ import annotations

from typing import ClassVar

import torch
from transformers import BertModel, BertPreTrainedModel
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from ..configuration.configuration_multiscale_bert import MultiScaleBertConfig
from .attention import gives_attentions
from .fusion_classifiers import (
    FusionForRelationExtraction,
    FusionForSequenceClassification,
    MultiScaleModelOutput,
)
from .hub_export import HubExportMixin
from .multiscale_fusion import FusionStack
from .new_layers import check_new_layers
from .real_tokens import positions


class MultiScaleBertPreTrainedModel(HubExportMixin, BertPreTrainedModel):
    """Loading and saving of the family."""

    config_class = MultiScaleBertConfig
    #: Sub-modules of the base model that a pre-trained checkpoint does not have. All outside of it are new anyway.
    new_layers: ClassVar[tuple[str, ...]] = ("bert.fusion",)
    # Heads of a pre-training checkpoint that are not used here.
    _keys_to_ignore_on_load_unexpected = [r"pooler\.", r"^cls\."]

    def train(self, mode: bool = True):
        """As in [`MultiScaleModel`]: raises `ValueError` if adapters (PEFT) leave a random layer frozen."""
        if mode and self._random_weights:
            base = "" if self.base_model is self else f"{self.base_model_prefix}."
            check_new_layers(self, f"{base}embeddings", f"{base}encoder")
        return super().train(mode)

    def _after_loading(self) -> None:
        self.base_model.fusion.freeze_unreachable()


class MultiScaleBertModel(MultiScaleBertPreTrainedModel, BertModel):
    r"""
    BERT followed by `config.fusion_layers` layers of [`MultiScaleFusion`]; `last_hidden_state` is S of Eq. 19.

    The weights of the encoder have the names of [`BertModel`]. So `from_pretrained` loads any BERT checkpoint and
    initializes only the fusion layers:

    ```python
    >>> model = MultiScaleBertModel.from_pretrained("google-bert/bert-base-uncased", scales=[3, 5])
    ```
    """

    def __init__(self, config: MultiScaleBertConfig, add_pooling_layer: bool = False):
        super().__init__(config, add_pooling_layer=add_pooling_layer)
        self.fusion = FusionStack(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleModelOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            output_attentions (`bool`, *optional*):
                Return `fusion_attentions`, and `attentions` if the attention implementation of the encoder has them
                (`"eager"`).

        Raises:
            ValueError: `attention_mask` is not of shape `(batch, tokens)`.
        """
        if attention_mask is not None and attention_mask.dim() != 2:
            raise ValueError(f"attention_mask must be (batch, tokens), got the shape {tuple(attention_mask.shape)}")
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if position_ids is None and attention_mask is not None:
            position_ids = positions(attention_mask)
        outputs = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions and gives_attentions(self.config._attn_implementation),
            use_cache=False,
            return_dict=True,
            **kwargs,
        )
        hidden_states, fusion_attentions = self.fusion(outputs.last_hidden_state, attention_mask, output_attentions)
        return MultiScaleModelOutput(
            last_hidden_state=hidden_states,
            pooler_output=self.pooler(hidden_states) if self.pooler is not None else None,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            fusion_attentions=fusion_attentions,
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
