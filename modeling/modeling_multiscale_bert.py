"""BERT with multi-scale fusion self-attention (BERT-MS): relation extraction and sequence classification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from transformers import BertModel, BertPreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling, SequenceClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from ..configuration.configuration_multiscale_bert import MultiScaleBertConfig
from .hub_export import HubExportMixin
from .multiscale_fusion import MultiScaleFusion


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


class MultiScaleBertPreTrainedModel(HubExportMixin, BertPreTrainedModel):
    """Loading and saving of the family."""

    config_class = MultiScaleBertConfig
    #: Sub-modules of the base model that a pre-trained checkpoint does not have. All outside of it are new anyway.
    new_layers: ClassVar[tuple[str, ...]] = ("bert.fusion",)
    # Heads of a pre-training checkpoint that are not used here.
    _keys_to_ignore_on_load_unexpected = [r"pooler\.", r"^cls\."]
    # The loss is a mean over the batch: with gradient accumulation, the Trainer has to divide it.
    accepts_loss_kwargs = False

    @classmethod
    def from_pretrained(cls, *args, **kwargs):
        loaded = super().from_pretrained(*args, **kwargs)
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        for module in model.modules():
            if isinstance(module, MultiScaleFusion):
                module.freeze_unreachable()  # loading replaces the parameters
        return loaded


class MultiScaleBertModel(MultiScaleBertPreTrainedModel, BertModel):
    r"""
    BERT followed by `config.fusion_layers` layers of [`MultiScaleFusion`]; `last_hidden_state` is S of Eq. 19.

    The weights of the encoder have the names of [`BertModel`]. So `from_pretrained` loads any BERT checkpoint and
    initializes only the fusion layers:

    ```python
    >>> model = MultiScaleBertModel.from_pretrained("google-bert/bert-base-uncased", scales=[3, 5])
    ```
    """

    new_layers = ("fusion",)

    def __init__(self, config: MultiScaleBertConfig, add_pooling_layer: bool = False):
        super().__init__(config, add_pooling_layer=add_pooling_layer)
        self.fusion = nn.ModuleList(
            MultiScaleFusion(
                config.hidden_size,
                config.scales,
                num_heads=config.fusion_heads,
                mask_mode=config.mask_mode,
                conv_alignment=config.conv_alignment,
                mask_temperature=config.mask_temperature,
                renormalize=config.renormalize,
            )
            for _ in range(config.fusion_layers)
        )
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
        fused = (self.config._attn_implementation or "").startswith(("sdpa", "flash", "flex"))
        outputs = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions and not fused,
            use_cache=False,
            return_dict=True,
            **kwargs,
        )
        hidden_states, fusion_attentions = self._fuse(outputs.last_hidden_state, attention_mask, output_attentions)
        return MultiScaleModelOutput(
            last_hidden_state=hidden_states,
            pooler_output=self.pooler(hidden_states) if self.pooler is not None else None,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            fusion_attentions=fusion_attentions,
        )

    def _fuse(
        self, hidden_states: torch.Tensor, attention_mask: torch.Tensor | None, output_attentions: bool
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, ...] | None]:
        """The states after the last fusion layer, and the attention of every layer or `None`."""
        attentions = []
        for layer in self.fusion:
            inputs = (hidden_states, attention_mask, output_attentions)
            if self.gradient_checkpointing and self.training:
                fusion, attention = self._gradient_checkpointing_func(layer.__call__, *inputs)
            else:
                fusion, attention = layer(*inputs)
            hidden_states = hidden_states + fusion if self.config.fusion_residual else fusion
            attentions.append(attention)
        return hidden_states, tuple(attentions) if output_attentions else None


class _MultiScaleClassifier(MultiScaleBertPreTrainedModel):
    """
    Encoder, fusion, pooling and one linear layer, which both tasks share.

    Raises:
        ValueError: `config.pooling` is not among the `poolings` of the class.
    """

    default_pooling: str
    poolings: tuple[str, ...]

    def __init__(self, config: MultiScaleBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.loss_type = "ForSequenceClassification"
        self.pooling = config.pooling or self.default_pooling
        if self.pooling not in self.poolings:
            raise ValueError(
                f"pooling of {type(self).__name__} must be one of {', '.join(self.poolings)}, got {self.pooling!r}"
            )
        self.bert = MultiScaleBertModel(config)
        dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
        self.dropout = nn.Dropout(dropout)
        width = 2 * config.hidden_size if self.pooling == "entity_start" else config.hidden_size
        self.classifier = nn.Linear(width, config.num_labels)
        self.post_init()

    def _classify(
        self,
        input_ids: torch.Tensor | None,
        attention_mask: torch.Tensor | None,
        inputs_embeds: torch.Tensor | None,
        entity_starts: torch.Tensor | None,
        labels: torch.Tensor | None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> MultiScaleClassifierOutput:
        outputs = self.bert(
            input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kwargs
        )
        hidden_states = outputs.last_hidden_state
        if attention_mask is None:
            attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
        pooled = pool(hidden_states, attention_mask, self.pooling, entity_starts)
        logits = self.classifier(self.dropout(pooled))
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


class BertForMultiScaleRE(_MultiScaleClassifier):
    r"""
    Relation extraction with BERT-MS: the relation between two marked entities of a sentence.

    The classifier reads the final states of the two start markers, concatenated (`pooling="entity_start"`, like the
    BERT-Entity baseline), or a pooled sentence. With `fusion_layers=0`, the model is that baseline; with
    `pooling="cls"` as well, it is plain BERT.

    ```python
    >>> model = BertForMultiScaleRE.from_pretrained("google-bert/bert-base-uncased", scales=[3, 5], num_labels=19)
    ```
    """

    _hub_auto_classes = ("AutoModelForRelationExtraction", "AutoModelForSequenceClassification")
    default_pooling = "entity_start"
    poolings = ("entity_start", "mean", "cls", "max")

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
            input_ids,
            attention_mask,
            inputs_embeds,
            entity_starts,
            labels,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
            **kwargs,
        )


class BertForMultiScaleSequenceClassification(_MultiScaleClassifier):
    r"""
    Classification of sentences and sentence pairs with BERT-MS: single-label, multi-label or regression.

    ```python
    >>> model = BertForMultiScaleSequenceClassification.from_pretrained("google-bert/bert-base-uncased", scales=[3])
    ```
    """

    _hub_auto_classes = ("AutoModelForSequenceClassification",)
    default_pooling = "mean"
    poolings = ("mean", "cls", "max")

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
            input_ids,
            attention_mask,
            inputs_embeds,
            None,
            labels,
            token_type_ids=token_type_ids,
            position_ids=position_ids,
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
        pooling (`str`): `"mean"`, `"max"`, `"cls"` (the first real token) or `"entity_start"`.
        entity_starts (`torch.LongTensor` of shape `(batch, 2)`, *optional*): Positions for `"entity_start"`.

    Returns:
        `torch.Tensor` of shape `(batch, width)`, or `(batch, 2 * width)` for `"entity_start"`

    Raises:
        ValueError: `entity_starts` is missing or not `(batch, 2)` with `"entity_start"`.
    """
    real = attention_mask.bool().unsqueeze(-1)
    if pooling == "mean":
        return hidden_states.masked_fill(~real, 0).sum(dim=1) / real.sum(dim=1).clamp_min(1)
    if pooling == "max":
        return hidden_states.masked_fill(~real, torch.finfo(hidden_states.dtype).min).amax(dim=1)
    if pooling == "entity_start":
        if entity_starts is None or entity_starts.shape != (hidden_states.shape[0], 2):
            got = None if entity_starts is None else tuple(entity_starts.shape)
            raise ValueError(f'pooling="entity_start" needs entity_starts of shape (batch, 2), got {got}')
        positions = entity_starts
    else:
        positions = real.squeeze(-1).int().argmax(dim=1, keepdim=True)
    rows = torch.arange(hidden_states.shape[0], device=hidden_states.device).unsqueeze(-1)
    return hidden_states[rows, positions].flatten(1)


__all__ = [
    "BertForMultiScaleRE",
    "BertForMultiScaleSequenceClassification",
    "MultiScaleBertModel",
    "MultiScaleBertPreTrainedModel",
]
