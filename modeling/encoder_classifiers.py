"""Classifiers of sentences and of tokens on an encoder trained from scratch."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_outputs import SequenceClassifierOutput, TokenClassifierOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from ..configuration.scratch_encoder import ScratchEncoderConfig
from .classification_node import classification_node, pair_features, split_pairs
from .crf import best_sequence_scores, crf_layer, crf_loss
from .hub_export import HubExportMixin
from .new_layers import classifier_dropout
from .real_tokens import checked_mask


class EncoderForSequenceClassification(HubExportMixin, PreTrainedModel):
    """
    Classification of sentences with a perceptron of two layers on the [`classification_node`]: single-label,
    multi-label or regression.

    With `config.sentence_pairs`, an input holds two sentences, told apart by `token_type_ids` (0 and 1) as tokenizers
    encode a pair. Padding collators, the Trainer and pipelines work unchanged. The encoder reads each sentence on its
    own, behind the [CLS] of the pair, and the classifier reads [u; v; |u - v|; u * v] of their nodes u and v.

    A family derives from its `PreTrainedModel` class first, then from this one, and sets `_encoder_class`.
    """

    _hub_auto_classes = ("AutoModelForSequenceClassification",)
    _encoder_class: ClassVar[type[PreTrainedModel]]
    # The loss is a mean over the batch: with gradient accumulation, the Trainer has to divide it.
    accepts_loss_kwargs = False

    def __init__(self, config: ScratchEncoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self._encoder_class(config))
        node = 2 * config.hidden_size
        self.dense = nn.Linear(4 * node if config.sentence_pairs else node, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = nn.Dropout(classifier_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | SequenceClassifierOutput:
        """
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
                0 in the first sentence and 1 in the second. Required with `config.sentence_pairs`, ignored without.
            labels (`torch.Tensor` of shape `(batch,)` or `(batch, num_labels)`, *optional*):
                Class indices, or floats for regression and multi-label classification (`config.problem_type`).

        Returns:
            `logits` of shape `(batch, num_labels)`. With sentence pairs, `hidden_states` and `attentions` are those of
            `2 * batch` sentences: both of the first pair, both of the second, and so on.

        Raises:
            ValueError: `config.sentence_pairs` is set and `token_type_ids` is missing, both or neither of `input_ids`
                and `inputs_embeds` are given, `attention_mask` is not `(batch, tokens)`, or there are more tokens than
                learned positions.
        """
        if self.config.sentence_pairs:
            input_ids, inputs_embeds, attention_mask = split_pairs(
                input_ids, inputs_embeds, attention_mask, token_type_ids
            )
        outputs = self.base_model(input_ids, attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kwargs)
        node = classification_node(outputs.last_hidden_state, attention_mask)
        if self.config.sentence_pairs:
            node = pair_features(node)
        logits = self.classifier(self.dropout(self.activation(self.dense(self.dropout(node)))))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class EncoderForTokenClassification(HubExportMixin, PreTrainedModel):
    """
    Tagging with a linear layer on the state of each token. With `config.crf`, a conditional random field scores tag
    sequences on top of it.

    A family derives from its `PreTrainedModel` class first, then from this one, and sets `_encoder_class`.
    """

    _hub_auto_classes = ("AutoModelForTokenClassification",)
    _encoder_class: ClassVar[type[PreTrainedModel]]

    def __init__(self, config: ScratchEncoderConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self._encoder_class(config))
        self.dropout = nn.Dropout(classifier_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.crf = crf_layer(config.num_labels) if config.crf else None
        self.post_init()

    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if module is self.crf:
            init.normal_(module.transitions, std=self.config.initializer_range)
            init.zeros_(module.start_transitions)
            init.zeros_(module.end_transitions)

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | TokenClassifierOutput:
        """
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor`, *optional*): Ignored; many tokenizers return them.
            labels (`torch.LongTensor` of shape `(batch, tokens)`, *optional*): Tags; -100 where there is none.
            num_items_in_batch (`torch.Tensor` or `int`, *optional*):
                Number of tags to divide the loss by, instead of those in `labels`. The Trainer passes it.

        Returns:
            `logits` of shape `(batch, tokens, num_labels)`. With `config.crf`, `loss` is -log p(labels | sentence)
            divided by the number of tags. `logits` are then the scores of single tags in training mode. In evaluation
            mode they are [`best_sequence_scores`], whose argmax is the best sequence.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, `attention_mask` is not
                `(batch, tokens)`, or there are more tokens than learned positions.
        """
        outputs = self.base_model(input_ids, attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kwargs)
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if self.crf is not None:
            # The last layer may be on another device than the inputs.
            attention_mask = checked_mask(input_ids, inputs_embeds, attention_mask).to(logits.device)
            if labels is not None:
                labels, tags = labels.to(logits.device), kwargs.get("num_items_in_batch")
                tags = (labels != -100).sum().clamp_min(1) if tags is None else torch.as_tensor(tags).to(logits.device)
                loss = crf_loss(self.crf, logits, labels, attention_mask).sum() / tags
            if not self.training:
                logits = best_sequence_scores(self.crf, logits, attention_mask)
        elif labels is not None:
            # `num_items_in_batch` is among the keywords: the mean is over all tags of an accumulated batch.
            loss = self.loss_function(logits=logits, labels=labels, config=self.config, **kwargs)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )
