"""Multi-Scale Transformer: a small encoder, trained from scratch, whose heads look at windows of different scales."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from ..configuration.configuration_ms_transformer import MSTransformerConfig
from .crf import best_sequence_scores, crf_layer, crf_loss
from .hub_export import HubExportMixin
from .scale_aware_attention import attention_weights, scale_aware_attention

Windows = list[int | None] | torch.Tensor
# The attention implementations that name a way; SDPA leaves it to the window and the length.
METHODS = {"eager": "materialized", "flex_attention": "flex"}


class MSTransformerEmbeddings(nn.Module):
    """Word vectors in the width of the layers and, where the configuration asks for them, positions."""

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        width = config.embedding_size or config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.projection = nn.Linear(width, config.hidden_size) if width != config.hidden_size else nn.Identity()
        self.positions = config.position_embeddings
        if self.positions == "learned":
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        if inputs_embeds is None:
            inputs_embeds = self.word_embeddings(input_ids)
        states = self.projection(inputs_embeds)
        # Counted from the first real token, so that padding on the left moves nothing.
        positions = (attention_mask.long().cumsum(dim=-1) - 1).clamp_min(0)
        if self.positions == "learned":
            most = self.position_embeddings.num_embeddings
            if states.shape[1] > most:
                raise ValueError(
                    f"{states.shape[1]} tokens are more than the {most} learned positions (max_position_embeddings)"
                )
            states = states + self.position_embeddings(positions)
        elif self.positions == "sinusoidal":
            # Scaled as in "Attention Is All You Need": beside the waves, fresh words are too small to be learned from.
            width = states.shape[-1]
            states = states * width**0.5 + sinusoids(positions, width).to(states.dtype)
        return self.dropout(states)


class MSTransformerAttention(nn.Module):
    """Multi-scale multi-head self-attention: scale-aware attention of all heads and a projection of them together."""

    def __init__(self, config: MSTransformerConfig):
        super().__init__()
        self.config = config
        self.head_dim = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(
        self, states: torch.Tensor, windows: Windows, attention_mask: torch.Tensor, output_attentions: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        query, key, value = (
            layer(states).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        weights = None
        if output_attentions:
            weights = attention_weights(query, key, windows, attention_mask)
            if self.config.cls_global:
                unbounded = attention_weights(query, key, [None] * query.shape[1], attention_mask)
                weights = unbounded.where(first_token(attention_mask)[:, None, :, None], weights)
            heads = nn.functional.dropout(weights, dropout).to(value.dtype) @ value
        else:
            method = METHODS.get(self.config._attn_implementation)
            heads = scale_aware_attention(query, key, value, windows, attention_mask, dropout, method)
            if self.config.cls_global:
                first = first_token(attention_mask)
                real = attention_mask.bool()[:, None, None]
                one = query.masked_fill(~first[:, None, :, None], 0).sum(dim=2, keepdim=True)
                whole = nn.functional.scaled_dot_product_attention(
                    one, key, value, attn_mask=real | ~real.any(dim=-1, keepdim=True), dropout_p=dropout
                )
                heads = whole.where(first[:, None, :, None], heads)
        return self.output(heads.transpose(1, 2).flatten(-2)), weights


class MSTransformerFeedForward(nn.Module):
    def __init__(self, config: MSTransformerConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.output(self.activation(self.dense(states)))


class MSTransformerLayer(GradientCheckpointingLayer):
    """
    Attention and an activation, then a layer norm over their sum with the input. A feed-forward part, if there is one,
    is a second step of the same kind, and the activation is in it instead.
    """

    def __init__(self, config: MSTransformerConfig):
        super().__init__()
        self.attention = MSTransformerAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = None
        if config.intermediate_size:
            self.feed_forward = MSTransformerFeedForward(config)
            self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.activation = nn.Identity() if config.intermediate_size else ACT2FN[config.hidden_act]
        self.norm_first = config.norm == "pre"
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, states: torch.Tensor, windows: Windows, attention_mask: torch.Tensor, output_attentions: bool
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        inputs = self.attention_norm(states) if self.norm_first else states
        attended, weights = self.attention(inputs, windows, attention_mask, output_attentions)
        states = states + self.dropout(self.activation(attended))
        if not self.norm_first:
            states = self.attention_norm(states)
        if self.feed_forward is not None:
            inputs = self.feed_forward_norm(states) if self.norm_first else states
            states = states + self.dropout(self.feed_forward(inputs))
            if not self.norm_first:
                states = self.feed_forward_norm(states)
        return states, weights


class MSTransformerPreTrainedModel(HubExportMixin, PreTrainedModel):
    config_class = MSTransformerConfig
    base_model_prefix = "ms_transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["MSTransformerLayer"]
    _input_embed_layer = "word_embeddings"
    _supports_sdpa = True
    _supports_flex_attn = True

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        return True  # it is read in every pass; Transformers would look for its own attention interface


class MSTransformerModel(MSTransformerPreTrainedModel):
    r"""
    The encoder. Without positions, windows are all that tells it the order of the words: the states of a sentence in
    reverse are the states in reverse.

    ```python
    >>> model = MSTransformerModel(MSTransformerConfig(vocab_size=20000))
    ```"""

    def __init__(self, config: MSTransformerConfig):
        super().__init__(config)
        self.embeddings = MSTransformerEmbeddings(config)
        self.layers = nn.ModuleList(MSTransformerLayer(config) for _ in range(config.num_hidden_layers))
        last = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if config.norm == "pre" else nn.Identity()
        self.final_norm: nn.Module = last
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, ...] | BaseModelOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor`, *optional*): Not read; many tokenizers make them.
            inputs_embeds (`torch.Tensor` of shape `(batch, tokens, embedding_size)`, *optional*): Word vectors.
            output_attentions (`bool`, *optional*):
                Return the weights of every layer, `(batch, heads, tokens, tokens)`, which takes the whole matrix.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds`, an `attention_mask` of another shape, or
                more tokens than learned positions.
        """
        attention_mask = checked_mask(input_ids, inputs_embeds, attention_mask)
        output_attentions = self.config.output_attentions if output_attentions is None else output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states

        states = self.embeddings(input_ids, inputs_embeds, attention_mask)
        hidden_states, attentions = [states], []
        for layer, windows in zip(self.layers, layer_windows(self.config, attention_mask), strict=True):
            states, weights = layer(states, windows, attention_mask, output_attentions)
            hidden_states.append(states)
            attentions.append(weights)
        states = hidden_states[-1] = self.final_norm(states)
        return BaseModelOutput(
            last_hidden_state=states,
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class MSTransformerForSequenceClassification(MSTransformerPreTrainedModel):
    r"""
    Classification of sentences by [`classification_node`] and a perceptron of two layers: single-label, multi-label or
    regression.

    With `config.sentence_pairs`, an input is two sentences that `token_type_ids` tell apart (0 and 1): as tokenizers
    encode a pair, and as padding collators, the Trainer and pipelines know it. One encoder reads each sentence on its
    own, with the pair's [CLS] before it, and the classifier gets [u; v; |u - v|; u * v] of their nodes u and v.

    ```python
    >>> model = MSTransformerForSequenceClassification(MSTransformerConfig(sentence_pairs=True, num_labels=3))
    ```"""

    _hub_auto_classes = ("AutoModelForSequenceClassification",)
    _encoder_class: ClassVar[type[PreTrainedModel]] = MSTransformerModel
    # The loss is a mean over the batch: with gradient accumulation the Trainer has to divide it.
    accepts_loss_kwargs = False

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self._encoder_class(config))
        node = 2 * config.hidden_size
        self.dense = nn.Linear(4 * node if config.sentence_pairs else node, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = classifier_dropout(config)
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
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, ...] | SequenceClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor` of shape `(batch, tokens)`, *optional*):
                0 in the first sentence and 1 in the second; needed and read with `config.sentence_pairs` only.
            labels (`torch.Tensor` of shape `(batch,)` or `(batch, num_labels)`, *optional*):
                Class indices, or floats for regression and multi-label classification (`config.problem_type`).

        Returns:
            With pairs, `hidden_states` and `attentions` are those of `2 * batch` sentences: both of the first pair,
            both of the second, and so on.

        Raises:
            ValueError: `config.sentence_pairs` without `token_type_ids`, and what [`MSTransformerModel`] raises.
        """
        if self.config.sentence_pairs:
            input_ids, inputs_embeds, attention_mask = split_pairs(
                input_ids, inputs_embeds, attention_mask, token_type_ids
            )
        outputs = self.base_model(
            input_ids,
            attention_mask,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        node = classification_node(outputs.last_hidden_state, attention_mask)
        if self.config.sentence_pairs:
            first, second = node[0::2], node[1::2]
            node = torch.cat([first, second, (first - second).abs(), first * second], dim=-1)
        logits = self.classifier(self.dropout(self.activation(self.dense(self.dropout(node)))))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class MSTransformerForTokenClassification(MSTransformerPreTrainedModel):
    r"""
    Tagging: a linear layer on the state of each token. With `config.crf`, a conditional random field over its scores.

    ```python
    >>> config = MSTransformerConfig(scales=[1, 3, 5, 7, 9], alpha=1.0, num_labels=17)
    >>> model = MSTransformerForTokenClassification(config)
    ```"""

    _hub_auto_classes = ("AutoModelForTokenClassification",)
    _encoder_class: ClassVar[type[PreTrainedModel]] = MSTransformerModel

    def __init__(self, config: PreTrainedConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        setattr(self, self.base_model_prefix, self._encoder_class(config))
        self.dropout = classifier_dropout(config)
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
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, ...] | TokenClassifierOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor`, *optional*): Not read; many tokenizers make them.
            labels (`torch.LongTensor` of shape `(batch, tokens)`, *optional*): Tags; -100 where there is none.

        Returns:
            With `config.crf`, `loss` is -log p(labels | sentence), divided by the number of labels; `logits` of a
            model in training are the tags' scores by themselves, else those of [`best_sequence_scores`], the largest
            of which are the best sequence.
        """
        outputs = self.base_model(
            input_ids,
            attention_mask,
            inputs_embeds=inputs_embeds,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
            return_dict=True,
        )
        logits = self.classifier(self.dropout(outputs.last_hidden_state))
        loss = None
        if self.crf is not None:
            attention_mask = checked_mask(input_ids, inputs_embeds, attention_mask)
            if labels is not None:
                tags = kwargs.get("num_items_in_batch")
                tags = (labels != -100).sum().clamp_min(1) if tags is None else tags
                loss = crf_loss(self.crf, logits, labels, attention_mask).sum() / tags
            if not self.training:
                logits = best_sequence_scores(self.crf, logits, attention_mask)
        elif labels is not None:
            # The Trainer's `num_items_in_batch` is among the keywords: a mean over tags, however batches accumulate.
            loss = self.loss_function(logits=logits, labels=labels, config=self.config, **kwargs)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


def checked_mask(
    input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor | None
) -> torch.Tensor:
    """The attention mask of the inputs; all ones if there is none."""
    inputs = input_ids if inputs_embeds is None else inputs_embeds
    if inputs is None or (input_ids is not None and inputs_embeds is not None):
        raise ValueError("the model takes exactly one of input_ids or inputs_embeds")
    if attention_mask is None:
        return torch.ones(inputs.shape[:2], dtype=torch.long, device=inputs.device)
    if attention_mask.shape != inputs.shape[:2]:
        raise ValueError(
            f"attention_mask must be (batch, tokens) = {tuple(inputs.shape[:2])}, got {tuple(attention_mask.shape)}"
        )
    return attention_mask


def classifier_dropout(config: PreTrainedConfig) -> nn.Dropout:
    return nn.Dropout(config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout)


def layer_windows(config: MSTransformerConfig, attention_mask: torch.Tensor) -> list[Windows]:
    """
    The half-width of every head; `(batch, heads)` in a layer where one depends on the N real tokens of the sentence,
    as w = max(1, floor(N / q)).
    """
    lengths = attention_mask.bool().sum(dim=-1)
    halves: list[int | torch.Tensor | None] = []
    for scale in config.scales:
        width = (lengths // int(scale[2:])).clamp_min(1) if isinstance(scale, str) else scale
        halves.append(width if width is None or config.window == "half" else (width - 1) // 2)
    layers: list[Windows] = []
    for counts in config.heads_per_scale:
        heads = [half for half, count in zip(halves, counts, strict=True) for _ in range(count)]
        fixed = [half for half in heads if not isinstance(half, torch.Tensor)]
        if len(fixed) == len(heads):
            layers.append(fixed)
        else:
            unbounded = attention_mask.shape[1]
            columns = [lengths * 0 + (unbounded if half is None else half) for half in heads]
            layers.append(torch.stack(columns, dim=1))
    return layers


def first_token(attention_mask: torch.Tensor) -> torch.Tensor:
    """True at the first real token of each sentence, `(batch, tokens)`."""
    real = attention_mask.bool()
    return real & (real.cumsum(dim=-1) == 1)


def classification_node(hidden_states: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
    """
    The first token, [CLS], beside the maximum over the others.

    Args:
        hidden_states (`torch.Tensor` of shape `(batch, tokens, width)`): States of the tokens.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): Non-zero for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch, 2 * width)`; zero for what a sentence does not have.
    """
    if attention_mask is None:
        attention_mask = hidden_states.new_ones(hidden_states.shape[:2])
    first = first_token(attention_mask)
    others = (attention_mask.bool() & ~first).unsqueeze(-1)
    node = hidden_states.masked_fill(~first.unsqueeze(-1), 0).sum(dim=1)
    largest = hidden_states.masked_fill(~others, torch.finfo(hidden_states.dtype).min).amax(dim=1)
    return torch.cat([node, largest.masked_fill(~others.any(dim=1), 0)], dim=-1)


def split_pairs(
    input_ids: torch.Tensor | None,
    inputs_embeds: torch.Tensor | None,
    attention_mask: torch.Tensor | None,
    token_type_ids: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor]:
    """Pairs `(batch, tokens)` to their sentences `(2 * batch, tokens)`, each behind the pair's first token, [CLS]."""
    if token_type_ids is None:
        raise ValueError("sentence_pairs=True needs token_type_ids, 0 in the first sentence and 1 in the second")
    real = torch.ones_like(token_type_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
    second = token_type_ids.bool()
    real = torch.stack([real & ~second, real & second | first_token(real)], dim=1).flatten(0, 1)
    order = (~real).long().argsort(dim=-1, stable=True)
    if not torch.compiler.is_compiling():
        order = order[:, : max(1, int(real.sum(dim=-1).max()))]
    if input_ids is not None:
        input_ids = input_ids.repeat_interleave(2, dim=0).gather(1, order)
    if inputs_embeds is not None:
        every = order.unsqueeze(-1).expand(-1, -1, inputs_embeds.shape[-1])
        inputs_embeds = inputs_embeds.repeat_interleave(2, dim=0).gather(1, every)
    return input_ids, inputs_embeds, real.gather(1, order).long()


def sinusoids(positions: torch.Tensor, width: int) -> torch.Tensor:
    """Sines, then cosines, of the positions over wavelengths from 2π to 20,000π: `(*positions.shape, width)`."""
    rates = 10000 ** (-torch.arange(0, width, 2, device=positions.device) / width)
    angles = positions.unsqueeze(-1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :width]


__all__ = [
    "MSTransformerForSequenceClassification",
    "MSTransformerForTokenClassification",
    "MSTransformerModel",
    "MSTransformerPreTrainedModel",
]
