"""Multi-scale fusion self-attention on any encoder: relation extraction, classification and tagging."""

from __future__ import annotations

import torch
from torch import nn
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from ..configuration.configuration_multiscale import MultiScaleConfig
from .any_encoder import AnyEncoderPreTrainedModel
from .fusion_classifiers import (
    FusedModel,
    FusionForRelationExtraction,
    FusionForSequenceClassification,
    MultiScaleClassifierOutput,
)
from .multiscale_fusion import FusionStack
from .new_layers import classifier_dropout


class MultiScalePreTrainedModel(AnyEncoderPreTrainedModel):
    """Loading and saving of the family; see [`MultiScaleModel`] for what can be loaded."""

    config_class = MultiScaleConfig
    base_model_prefix = "multiscale"
    _encoder_paths = ("multiscale.encoder",)
    _no_split_modules = ["MultiScaleFusion"]

    @property
    def classifier(self) -> nn.Module | None:
        """The head, under the name by which PEFT looks for it; `None` for the base model."""
        return getattr(self, "multiscale_classifier", None)

    def _after_loading(self) -> None:
        self.base_model.fusion.freeze_unreachable()


class MultiScaleModel(FusedModel, MultiScalePreTrainedModel):
    r"""
    An encoder of any family followed by `config.fusion_layers` layers of [`MultiScaleFusion`]; `last_hidden_state` is
    S of Eq. 19.

    `from_pretrained` loads checkpoints of this family and those of encoders: BERT, RoBERTa, ModernBERT, the encoder of
    T5, Llama and others that `AutoModel` knows. Only the fusion layers of the latter are initialized:

    ```python
    >>> model = MultiScaleModel.from_pretrained("FacebookAI/roberta-base", scales=[3, 5])
    >>> model.config.encoder.model_type
    'roberta'
    ```
    """

    _encoder_paths = ("encoder",)

    def __init__(self, config: MultiScaleConfig):
        super().__init__(config)
        self.add_encoder(config)
        self.fusion = FusionStack(config)
        self.post_init()


class MultiScaleForRelationExtraction(MultiScalePreTrainedModel, FusionForRelationExtraction):
    r"""
    Relation extraction with multi-scale fusion on any encoder: the relation between two marked entities of a sentence.

    The classifier reads the final states of the two start markers, concatenated (`pooling="entity_start"`), or a
    pooled sentence. `fusion_layers=0` is the encoder with the same classifier.

    ```python
    >>> model = MultiScaleForRelationExtraction.from_pretrained(
    ...     "answerdotai/ModernBERT-base", scales=[3, 5], num_labels=19
    ... )
    ```
    """

    _base_class = MultiScaleModel
    poolings = (*FusionForRelationExtraction.poolings, "last")


class MultiScaleForSequenceClassification(MultiScalePreTrainedModel, FusionForSequenceClassification):
    r"""
    Classification of sentences and sentence pairs with multi-scale fusion on any encoder.

    ```python
    >>> model = MultiScaleForSequenceClassification.from_pretrained("microsoft/deberta-v3-base", scales=[3])
    ```
    """

    _base_class = MultiScaleModel
    poolings = ("mean", "cls", "max", "last")


class MultiScaleForTokenClassification(MultiScalePreTrainedModel):
    r"""
    Tagging with multi-scale fusion on any encoder: a linear layer on the fused state of each token.

    ```python
    >>> model = MultiScaleForTokenClassification.from_pretrained("FacebookAI/xlm-roberta-base", num_labels=17)
    ```
    """

    _base_class = MultiScaleModel
    _hub_auto_classes = ("AutoModelForTokenClassification",)

    def __init__(self, config: MultiScaleConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.multiscale = self._base_class(config)
        self.dropout = nn.Dropout(classifier_dropout(config))
        self.multiscale_classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: torch.Tensor | int | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            labels (`torch.LongTensor` of shape `(batch, tokens)`, *optional*): Tags; -100 where there is none.
            num_items_in_batch (`torch.Tensor` or `int`, *optional*):
                Number of tags to divide the loss by, instead of those in `labels`. The Trainer passes it.

        Returns:
            `logits` of shape `(batch, tokens, num_labels)`

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, or `attention_mask` is not
                `(batch, tokens)`.
        """
        outputs = self.multiscale(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            return_dict=True,
            **kwargs,
        )
        logits = self.multiscale_classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if labels is not None:
            loss = self.loss_function(
                logits=logits, labels=labels, config=self.config, num_items_in_batch=num_items_in_batch
            )
        return MultiScaleClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            fusion_attentions=outputs.fusion_attentions,
        )
