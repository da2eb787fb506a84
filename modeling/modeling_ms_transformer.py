"""Multi-Scale Transformer: a small encoder, trained from scratch, whose heads attend to windows of several scales."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from ..configuration.configuration_ms_transformer import MSTransformerConfig
from .attention import read_layer
from .attention_call import AttentionCall, refuse_rows
from .encoder_classifiers import EncoderForSequenceClassification, EncoderForTokenClassification
from .hub_export import HubExportMixin
from .real_tokens import ask_once, checked_mask, first_token
from .window_attention import limits_of, window_attention
from .word_embeddings import WordEmbeddings

Windows = list[int | None] | torch.Tensor


class MSTransformerAttention(nn.Module):
    """Multi-scale multi-head self-attention: scale-aware attention in all heads, then one projection of them."""

    #: `read_attention` reads it, though it is not on the attention interface.
    is_readable = True

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
        """
        Args:
            states (`torch.Tensor` of shape `(batch, tokens, hidden_size)`): Hidden states.
            windows (`list[int | None]` or `torch.LongTensor` of shape `(batch, heads)`): See [`layer_windows`].
            attention_mask (`torch.BoolTensor` of shape `(batch, tokens)`): Real tokens, of [`ask_once`].
            output_attentions (`bool`): Return the weights as well.

        Returns:
            The output `(batch, tokens, hidden_size)`, and the weights `(batch, heads, tokens, tokens)`, their sums
            over the queries under `"received"`, or `None`.
        """
        query, key, value = (
            layer(states).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        mask = partial(self._mask, query, windows, attention_mask)
        read_layer(self, query, key, mask)
        if output_attentions and self.config._attn_implementation == "received":
            weights = AttentionCall.of(query, key, mask()).sums()
            heads = self._heads(query, key, value, windows, attention_mask, dropout)
        elif output_attentions or self.config._attn_implementation == "eager":
            maps, _ = AttentionCall.of(query, key, mask()).scores.weights()
            weights = maps.masked_fill(~attention_mask[:, None, :, None], 0)
            dropped = nn.functional.dropout(weights, dropout).to(value.dtype)
            heads = (dropped @ value).transpose(1, 2)
        else:
            heads = self._heads(query, key, value, windows, attention_mask, dropout)
        return self.output(heads.flatten(-2)), weights if output_attentions else None

    def _mask(self, query: torch.Tensor, windows: Windows, attention_mask: torch.Tensor) -> torch.Tensor:
        """True at the keys that a query sees, `(batch, heads or 1, tokens, tokens)`; padding sees nothing."""
        places = torch.arange(query.shape[2], device=query.device)
        visible = (places[:, None] - places).abs() <= limits_of(windows, query.device)[..., None, None]
        if self.config.cls_global:
            visible = visible | first_token(attention_mask)[:, None, :, None]
        return visible & attention_mask[:, None, None] & attention_mask[:, None, :, None]

    def _heads(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        windows: Windows,
        attention_mask: torch.Tensor,
        dropout: float,
    ) -> torch.Tensor:
        """The output of every head, `(batch, tokens, heads, head_dim)`, without the weights."""
        heads = window_attention(query, key, value, windows, real=attention_mask, dropout=dropout)
        if self.config.cls_global:
            first = first_token(attention_mask)
            real = attention_mask[:, None, None]
            one = query.masked_fill(~first[:, None, :, None], 0).sum(dim=2, keepdim=True)
            whole = nn.functional.scaled_dot_product_attention(
                one, key, value, attn_mask=real | ~real.any(dim=-1, keepdim=True), dropout_p=dropout
            )
            heads = whole.transpose(1, 2).where(first[:, :, None, None], heads)
        return heads


class MSTransformerLayer(GradientCheckpointingLayer):
    """
    Attention and an activation, added to the input, with a layer norm after the sum or before the attention.

    With `config.intermediate_size`, a feed-forward part follows in the same form, with the only activation inside it.
    """

    def __init__(self, config: MSTransformerConfig):
        super().__init__()
        self.attention = MSTransformerAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = None
        if config.intermediate_size:
            dense = nn.Linear(config.hidden_size, config.intermediate_size)
            output = nn.Linear(config.intermediate_size, config.hidden_size)
            parts = OrderedDict(dense=dense, activation=ACT2FN[config.hidden_act], output=output)
            self.feed_forward = nn.Sequential(parts)
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
    """Loading, saving and the attention implementations of the family."""

    config_class = MSTransformerConfig
    base_model_prefix = "ms_transformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["MSTransformerLayer"]
    _input_embed_layer = "word_embeddings"
    _supports_sdpa = True

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        # Every forward pass reads it. Transformers would say no, as its own attention interface is not used here.
        return True


class MSTransformerModel(MSTransformerPreTrainedModel):
    r"""
    A stack of layers whose heads attend within windows of different scales ("Multi-Scale Self-Attention for Text
    Classification", AAAI 2020). Without position embeddings, only the windows depend on the order of the words: a
    reversed sentence has the same states, reversed.

    ```python
    >>> model = MSTransformerModel(MSTransformerConfig(vocab_size=20000))
    ```
    """

    #: Its layers take no keyword arguments.
    drops_keywords = True

    def __init__(self, config: MSTransformerConfig):
        super().__init__(config)
        self.embeddings = WordEmbeddings(config, config.position_embeddings)
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
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | BaseModelOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor`, *optional*): Ignored; many tokenizers return them.
            inputs_embeds (`torch.Tensor` of shape `(batch, tokens, embedding_size)`, *optional*): Word vectors.
            output_attentions (`bool`, *optional*):
                Return the attention weights of every layer, `(batch, heads, tokens, tokens)`. They are then computed
                in full, which takes memory in the square of the tokens. Under the attention implementation
                `"received"`, they are the column sums, `(batch, heads, tokens)`.

        Raises:
            AttentionRefused: `rows` is given.
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, `attention_mask` is not
                `(batch, tokens)`, or there are more tokens than learned positions.
        """
        refuse_rows(self, kwargs)
        attention_mask = checked_mask(input_ids, inputs_embeds, attention_mask)
        output_attentions = self.config.output_attentions if output_attentions is None else output_attentions
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states

        states = self.embeddings(input_ids, inputs_embeds, attention_mask)
        attention_mask = ask_once(attention_mask)
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


class MSTransformerForSequenceClassification(MSTransformerPreTrainedModel, EncoderForSequenceClassification):
    r"""
    Classification of sentences: two linear layers on the first token's state and the maximum over the others. With
    `config.sentence_pairs`, both sentences of a pair are encoded separately and compared as [u; v; |u - v|; u * v].

    ```python
    >>> model = MSTransformerForSequenceClassification(MSTransformerConfig(sentence_pairs=True, num_labels=3))
    ```
    """

    _encoder_class = MSTransformerModel


class MSTransformerForTokenClassification(MSTransformerPreTrainedModel, EncoderForTokenClassification):
    r"""
    Tagging: a linear layer on the state of each token and, with `config.crf`, a conditional random field.

    ```python
    >>> config = MSTransformerConfig(scales=[1, 3, 5, 7, 9], alpha=1.0, num_labels=17)
    >>> model = MSTransformerForTokenClassification(config)
    ```
    """

    _encoder_class = MSTransformerModel


def layer_windows(config: MSTransformerConfig, attention_mask: torch.Tensor) -> list[Windows]:
    """
    The tokens that each head of each layer sees on either side.

    Args:
        config ([`MSTransformerConfig`]): Scales and heads.
        attention_mask (`torch.Tensor` of shape `(batch, tokens)`): Non-zero for real tokens.

    Returns:
        `list`: For each layer, the windows of its heads, `None` for no bound. If one of them depends on the N real
        tokens of a sentence, as w = max(1, floor(N / q)), they are a `torch.LongTensor` of shape `(batch, heads)`.
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
