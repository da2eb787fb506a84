"""Classifiers on fused hidden states, whatever encoder is below: pooling, a linear layer and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .hub_export import HubExportMixin
from .new_layers import classifier_dropout


@dataclass
class MultiScaleModelOutput(BaseModelOutputWithPooling):
    """
    The output of a base model, with the attention of the fusion layers.

    Args:
        fusion_attentions (`tuple[torch.Tensor]`, *optional*):
            Given `output_attentions=True`: for each fusion layer, the weights of the words, then those of the phrases
            of each scale (Eq. 17), `(batch, fusion_heads, tokens, (1 + scales) * tokens)`.
    """

    fusion_attentions: tuple[torch.Tensor, ...] | None = None


@dataclass
class MultiScaleClassifierOutput(SequenceClassifierOutput):
    """The output of a sequence classifier, with the `fusion_attentions` of a [`MultiScaleModelOutput`]."""

    fusion_attentions: tuple[torch.Tensor, ...] | None = None


class _FusionClassifier(HubExportMixin, PreTrainedModel):
    """
    Base model, pooling, dropout and one linear layer, which both tasks share.

    Raises:
        ValueError: `config.pooling` is not among the `poolings` of the class, or it is `"cls"` and the encoder is
            causal.
    """

    default_pooling: ClassVar[str]
    poolings: ClassVar[tuple[str, ...]]
    _base_class: ClassVar[type[PreTrainedModel]]
    #: Name of the linear layer. With a stock head's name it would take that head's weights from a foreign checkpoint,
    #: because Transformers keeps the name of a key whose mapped name is missing.
    _classifier_name: ClassVar[str] = "multiscale_classifier"
    # The loss is a mean over the batch: with gradient accumulation, the Trainer has to divide it.
    accepts_loss_kwargs = False

    def __init__(self, config: Any):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.loss_type = "ForSequenceClassification"
        self.pooling = config.pooling or self.default_pooling
        if self.pooling not in self.poolings:
            raise ValueError(
                f"pooling of {type(self).__name__} must be one of {', '.join(self.poolings)}, got {self.pooling!r}"
            )
        setattr(self, self.base_model_prefix, self._base_class(config))
        if self.pooling == "cls" and getattr(self.base_model, "is_causal", False):
            raise ValueError(
                f'pooling="cls" reads the first token, which sees no other in a causal encoder such as '
                f'{config.encoder.model_type!r}; use "mean", "max" or "last"'
            )
        self.dropout = nn.Dropout(classifier_dropout(config))
        width = 2 * config.hidden_size if self.pooling == "entity_start" else config.hidden_size
        setattr(self, self._classifier_name, nn.Linear(width, config.num_labels))
        self.post_init()

    def _classify(
        self, attention_mask: torch.Tensor | None, entity_starts: torch.Tensor | None, labels: Any, **inputs: Any
    ) -> MultiScaleClassifierOutput:
        outputs = self.base_model(attention_mask=attention_mask, return_dict=True, **inputs)
        hidden_states = outputs.last_hidden_state
        if attention_mask is None:
            attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
        pooled = pool(hidden_states, attention_mask, self.pooling, entity_starts)
        logits = getattr(self, self._classifier_name)(self.dropout(pooled))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return MultiScaleClassifierOutput(
            loss=loss,
            logits=logits,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            fusion_attentions=outputs.fusion_attentions,
        )


class FusionForRelationExtraction(_FusionClassifier):
    """
    Relation extraction from the two start markers or from a pooled sentence.

    A family derives from its `PreTrainedModel` class first, then from this one, and sets `_base_class`.
    """

    _hub_auto_classes = ("AutoModelForRelationExtraction", "AutoModelForSequenceClassification")
    _hub_pipelines = {
        "relation-extraction": (
            "pipelines/relation_extraction.py",
            "RelationExtractionPipeline",
            "AutoModelForSequenceClassification",
        )
    }
    default_pooling = "entity_start"
    poolings: ClassVar[tuple[str, ...]] = ("entity_start", "mean", "cls", "max")

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        entity_starts: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            entity_starts (`torch.LongTensor` of shape `(batch, 2)`):
                Positions of the start markers of the two entities. Required with `pooling="entity_start"`, ignored
                without.
            labels (`torch.Tensor` of shape `(batch,)` or `(batch, num_labels)`, *optional*):
                Relations in `[0, config.num_labels)`, or floats for regression and multi-label classification
                (`config.problem_type`).

        Raises:
            ValueError: `attention_mask` is not `(batch, tokens)`, or `entity_starts` is missing or not `(batch, 2)`
                with `pooling="entity_start"`.
        """
        return self._classify(
            attention_mask,
            entity_starts,
            labels,
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )


class FusionForSequenceClassification(_FusionClassifier):
    """
    Classification of pooled sentences and sentence pairs: single-label, multi-label or regression.

    A family derives from its `PreTrainedModel` class first, then from this one, and sets `_base_class`.
    """

    _hub_auto_classes = ("AutoModelForSequenceClassification",)
    default_pooling = "mean"
    poolings: ClassVar[tuple[str, ...]] = ("mean", "cls", "max")

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            labels (`torch.Tensor` of shape `(batch,)` or `(batch, num_labels)`, *optional*):
                Class indices, or floats for regression and multi-label classification (`config.problem_type`).

        Raises:
            ValueError: `attention_mask` is not `(batch, tokens)`.
        """
        return self._classify(
            attention_mask,
            None,
            labels,
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )


def pool(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    pooling: str,
    entity_starts: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    One vector for each sentence, from real tokens only.

    Args:
        hidden_states (`torch.Tensor` of shape `(batch, tokens, width)`): States of the tokens.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`): Non-zero for real tokens.
        pooling (`str`):
            `"mean"`, `"max"`, `"cls"` (the first real token), `"last"` (the last real token) or `"entity_start"`.
        entity_starts (`torch.LongTensor` of shape `(batch, 2)`, *optional*): Positions for `"entity_start"`.

    Returns:
        `torch.Tensor` of shape `(batch, width)`, or `(batch, 2 * width)` for `"entity_start"`

    Raises:
        ValueError: `entity_starts` is missing or not `(batch, 2)` with `"entity_start"`.
    """
    # The last layer may be on another device than the inputs.
    real = attention_mask.to(hidden_states.device).bool().unsqueeze(-1)
    if pooling == "mean":
        return hidden_states.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp_min(1)
    if pooling == "max":
        return hidden_states.masked_fill(~real, torch.finfo(hidden_states.dtype).min).amax(dim=1)
    if pooling == "entity_start":
        if entity_starts is None or entity_starts.shape != (hidden_states.shape[0], 2):
            got = None if entity_starts is None else tuple(entity_starts.shape)
            raise ValueError(f'pooling="entity_start" needs entity_starts of shape (batch, 2), got {got}')
        positions = entity_starts.to(hidden_states.device)
    elif pooling == "last":
        order = torch.arange(real.shape[1], device=real.device)
        positions = (real.squeeze(-1) * order).argmax(dim=1, keepdim=True)
    else:
        positions = real.squeeze(-1).int().argmax(dim=1, keepdim=True)
    rows = torch.arange(hidden_states.shape[0], device=hidden_states.device).unsqueeze(-1)
    return hidden_states[rows, positions].flatten(1)


__all__ = [
    "FusionForRelationExtraction",
    "FusionForSequenceClassification",
    "MultiScaleClassifierOutput",
    "MultiScaleModelOutput",
    "pool",
]
