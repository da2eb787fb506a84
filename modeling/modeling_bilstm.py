"""BiLSTM: the recurrent baseline of the Multi-Scale Transformer, with the same embeddings and the same classifiers."""

from __future__ import annotations

import torch
from torch import nn
from transformers import initialization as init
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple

from ..configuration.configuration_bilstm import BiLSTMConfig
from .modeling_ms_transformer import (
    MSTransformerEmbeddings,
    MSTransformerForSequenceClassification,
    MSTransformerForTokenClassification,
    MSTransformerPreTrainedModel,
    checked_mask,
)


class BiLSTMLayer(GradientCheckpointingLayer):
    """Torch's LSTM from left to right beside another one from right to left. Padding is zero."""

    def __init__(self, config: BiLSTMConfig):
        super().__init__()
        self.forwards = nn.LSTM(config.hidden_size, config.hidden_size // 2, batch_first=True)
        self.backwards = nn.LSTM(config.hidden_size, config.hidden_size // 2, batch_first=True)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        real = attention_mask.bool()
        # Not packed: a packed sequence has no fused kernel on a CPU and cannot be exported.
        ahead = read_real_tokens(self.forwards, states, real)
        back = read_real_tokens(self.backwards, states.flip(1), real.flip(1)).flip(1)
        return self.dropout(torch.cat([ahead, back], dim=-1).masked_fill(~real.unsqueeze(-1), 0))


class BiLSTMPreTrainedModel(MSTransformerPreTrainedModel):
    config_class = BiLSTMConfig
    base_model_prefix = "bilstm"
    _no_split_modules = ["BiLSTMLayer"]
    _supports_sdpa = False
    _supports_flex_attn = False

    def _init_weights(self, module: nn.Module):
        super()._init_weights(module)
        if isinstance(module, nn.LSTM):  # as later versions of Transformers do by themselves
            for weight in module.parameters():
                init.xavier_uniform_(weight) if weight.dim() > 1 else init.zeros_(weight)


class BiLSTMModel(BiLSTMPreTrainedModel):
    r"""
    The encoder. It can be exported, for one number of tokens. `torch.compile` leaves torch's LSTM out of its graph,
    unless `torch._dynamo.config.allow_rnn` is set.

    ```python
    >>> model = BiLSTMModel(BiLSTMConfig(vocab_size=20000))
    ```"""

    def __init__(self, config: BiLSTMConfig):
        super().__init__(config)
        self.embeddings = MSTransformerEmbeddings(config)
        self.layers = nn.ModuleList(BiLSTMLayer(config) for _ in range(config.num_hidden_layers))
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, ...] | BaseModelOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor`, *optional*): Not read; many tokenizers make them.
            inputs_embeds (`torch.Tensor` of shape `(batch, tokens, embedding_size)`, *optional*): Word vectors.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds`, or an `attention_mask` of another shape.
        """
        attention_mask = checked_mask(input_ids, inputs_embeds, attention_mask)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        hidden_states = [self.embeddings(input_ids, inputs_embeds, attention_mask)]
        for layer in self.layers:
            hidden_states.append(layer(hidden_states[-1], attention_mask))
        return BaseModelOutput(
            last_hidden_state=hidden_states[-1],
            hidden_states=tuple(hidden_states) if output_hidden_states else None,
        )


class BiLSTMForSequenceClassification(BiLSTMPreTrainedModel, MSTransformerForSequenceClassification):
    r"""
    Classification of sentences or pairs, see [`MSTransformerForSequenceClassification`].

    ```python
    >>> model = BiLSTMForSequenceClassification(BiLSTMConfig(num_labels=2))
    ```"""

    _encoder_class = BiLSTMModel


class BiLSTMForTokenClassification(BiLSTMPreTrainedModel, MSTransformerForTokenClassification):
    r"""
    Tagging, see [`MSTransformerForTokenClassification`].

    ```python
    >>> model = BiLSTMForTokenClassification(BiLSTMConfig(num_labels=17))
    ```"""

    _encoder_class = BiLSTMModel


def read_real_tokens(lstm: nn.LSTM, states: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """The output of `lstm` over the real tokens of each sentence, at their places; it reads padding after them all."""
    order = (~real).long().argsort(dim=-1, stable=True).unsqueeze(-1)
    output, _ = lstm(states.gather(1, order.expand_as(states)))
    return output.gather(1, order.argsort(dim=1).expand_as(output))


__all__ = [
    "BiLSTMForSequenceClassification",
    "BiLSTMForTokenClassification",
    "BiLSTMModel",
    "BiLSTMPreTrainedModel",
]
