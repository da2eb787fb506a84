"""Fused hidden states, whatever encoder is below, and classifiers: pooling, a linear layer and the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from .attention import gives_attentions
from .hub_export import HubExportMixin
from .new_layers import classifier_dropout
from .real_tokens import checked_mask


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
    """The output of a classifier, with the `fusion_attentions` of a [`MultiScaleModelOutput`]."""

    fusion_attentions: tuple[torch.Tensor, ...] | None = None


class FusedModel:
    """An encoder, called by `encode`, and `fusion` on its states. A family derives from it first."""

    config: Any
    encode: Any
    encoder: Any
    fusion: Any

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        position_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleModelOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
                Numbers of the sentences; ignored if the encoder has none.
            position_ids (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
                Counted from the first real token by default; ignored if the encoder has none.
            output_attentions (`bool`, *optional*):
                Return `fusion_attentions`, and `attentions` if the attention implementation of the encoder has them
                (`"eager"`).

        Returns:
            `last_hidden_state` of shape `(batch, tokens, hidden_size)`. At padding it is zero, and with
            `fusion_residual` the encoder's; with `fusion_layers=0`, it is the encoder's.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, or `attention_mask` is not
                `(batch, tokens)`.
        """
        checked_mask(input_ids, inputs_embeds, attention_mask)
        if output_attentions is None:
            output_attentions = self.config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        outputs = self.encode(
            input_ids,
            attention_mask,
            inputs_embeds,
            position_ids,
            token_type_ids,
            output_attentions=output_attentions and gives_attentions(self.encoder.config._attn_implementation),
            output_hidden_states=output_hidden_states,
            **kwargs,
        )
        hidden_states, fusion_attentions = self.fusion(outputs.last_hidden_state, attention_mask, output_attentions)
        return MultiScaleModelOutput(
            last_hidden_state=hidden_states,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            fusion_attentions=fusion_attentions,
        )


class _FusionClassifier(HubExportMixin, PreTrainedModel):
    """
    Base model, pooling, dropout and one linear layer, which both tasks share.

    Raises:
        ValueError: `config.pooling` is not among the `poolings` of the class, or it reads the first token and the
            encoder is causal.
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
        if self.pooling in ("cls", "r_bert") and getattr(self.base_model, "is_causal", False):
            raise ValueError(
                f'pooling="{self.pooling}" reads the first token, which sees no other in a causal encoder such as '
                f'{config.encoder.model_type!r}; use "mean", "max" or "last"'
            )
        self.dropout = nn.Dropout(classifier_dropout(config))
        vectors = {"entity_start": 2, "r_bert": 3}.get(self.pooling, 1)
        if self.pooling == "r_bert":
            self.sentence_layer = nn.Linear(config.hidden_size, config.hidden_size)
            self.entity_layer = nn.Linear(config.hidden_size, config.hidden_size)
        setattr(self, self._classifier_name, nn.Linear(vectors * config.hidden_size, config.num_labels))
        self.post_init()

    def _classify(
        self,
        attention_mask: torch.Tensor | None,
        entities: tuple[torch.Tensor | None, torch.Tensor | None],
        labels: Any,
        **inputs: Any,
    ) -> MultiScaleClassifierOutput:
        outputs = self.base_model(attention_mask=attention_mask, return_dict=True, **inputs)
        hidden_states = outputs.last_hidden_state
        if attention_mask is None:
            attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
        pooled = pool(hidden_states, attention_mask, self.pooling, *entities)
        if self.pooling == "r_bert":
            sentence, *ends = self.dropout(pooled.tanh()).chunk(3, dim=-1)
            pooled = torch.cat([self.sentence_layer(sentence), *map(self.entity_layer, ends)], dim=-1)
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
    Relation extraction from the two start markers, from a pooled sentence, or from both entities and the sentence.

    The last, `pooling="r_bert"`, is the head of "Enriching Pre-trained Language Model with Entity Information for
    Relation Classification" (Wu and He 2019, Eq. 1 to 4): the first token and the mean of each entity go through tanh,
    dropout and a linear layer, which both entities share.

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
    poolings: ClassVar[tuple[str, ...]] = ("entity_start", "mean", "cls", "max", "r_bert")

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        entity_starts: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        entity_ends: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            entity_starts (`torch.LongTensor` of shape `(batch, 2)`):
                Positions of the start markers of the two entities. Required with `pooling="entity_start"` and
                `"r_bert"`, ignored without.
            labels (`torch.Tensor` of shape `(batch,)` or `(batch, num_labels)`, *optional*):
                Relations in `[0, config.num_labels)`, or floats for regression and multi-label classification
                (`config.problem_type`).
            entity_ends (`torch.LongTensor` of shape `(batch, 2)`, *optional*):
                Positions of the end markers. Required with `pooling="r_bert"`, ignored without.

        Returns:
            `logits` of shape `(batch, num_labels)`.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, `attention_mask` is not
                `(batch, tokens)`, or the pooling needs `entity_starts` or `entity_ends` and it is missing or not
                `(batch, 2)`.
        """
        return self._classify(
            attention_mask,
            (entity_starts, entity_ends),
            labels,
            input_ids=input_ids,
            token_type_ids=token_type_ids,
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
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | MultiScaleClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            labels (`torch.Tensor` of shape `(batch,)` or `(batch, num_labels)`, *optional*):
                Class indices, or floats for regression and multi-label classification (`config.problem_type`).

        Returns:
            `logits` of shape `(batch, num_labels)`.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, or `attention_mask` is not
                `(batch, tokens)`.
        """
        return self._classify(
            attention_mask,
            (None, None),
            labels,
            input_ids=input_ids,
            token_type_ids=token_type_ids,
            **kwargs,
        )


def pool(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    pooling: str,
    entity_starts: torch.Tensor | None = None,
    entity_ends: torch.Tensor | None = None,
) -> torch.Tensor:
    """
    One vector for each sentence, from real tokens only.

    Args:
        hidden_states (`torch.Tensor` of shape `(batch, tokens, width)`): States of the tokens.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`): Non-zero for real tokens.
        pooling (`str`):
            `"mean"`, `"max"`, `"cls"` (the first real token), `"last"` (the last real token), `"entity_start"`, or
            `"r_bert"` (the first real token, then the mean of what lies between the markers of each entity).
        entity_starts (`torch.LongTensor` of shape `(batch, 2)`, *optional*): For `"entity_start"` and `"r_bert"`.
        entity_ends (`torch.LongTensor` of shape `(batch, 2)`, *optional*): For `"r_bert"`.

    Returns:
        `torch.Tensor` of shape `(batch, width)`, twice as wide for `"entity_start"`, three times for `"r_bert"`

    Raises:
        ValueError: The pooling needs `entity_starts` or `entity_ends`, and it is missing or not `(batch, 2)`.
    """
    # The last layer may be on another device than the inputs.
    real = attention_mask.to(hidden_states.device).bool().unsqueeze(-1)
    if pooling == "mean":
        return hidden_states.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp_min(1)
    if pooling == "max":
        return hidden_states.masked_fill(~real, torch.finfo(hidden_states.dtype).min).amax(dim=1)
    if pooling == "r_bert":
        starts = _markers(entity_starts, "entity_starts", pooling, hidden_states)
        ends = _markers(entity_ends, "entity_ends", pooling, hidden_states)
        order = torch.arange(hidden_states.shape[1], device=hidden_states.device)
        inside = (order > starts.unsqueeze(-1)) & (order < ends.unsqueeze(-1))
        mean = inside.to(hidden_states.dtype) / inside.sum(dim=-1, keepdim=True).clamp_min(1)
        return torch.cat([pool(hidden_states, attention_mask, "cls"), (mean @ hidden_states).flatten(1)], dim=1)
    if pooling == "entity_start":
        positions = _markers(entity_starts, "entity_starts", pooling, hidden_states)
    elif pooling == "last":
        order = torch.arange(real.shape[1], device=real.device)
        positions = (real.squeeze(-1) * order).argmax(dim=1, keepdim=True)
    else:
        positions = real.squeeze(-1).int().argmax(dim=1, keepdim=True)
    rows = torch.arange(hidden_states.shape[0], device=hidden_states.device).unsqueeze(-1)
    return hidden_states[rows, positions].flatten(1)


def _markers(places: torch.Tensor | None, name: str, pooling: str, hidden_states: torch.Tensor) -> torch.Tensor:
    if places is None or places.shape != (hidden_states.shape[0], 2):
        got = None if places is None else tuple(places.shape)
        raise ValueError(f'pooling="{pooling}" needs {name} of shape (batch, 2), got {got}')
    return places.to(hidden_states.device)
