"""BiLSTM: the recurrent baseline of the Multi-Scale Transformer, with the same embeddings and classifiers."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.processing_utils import Unpack
from transformers.utils import TransformersKwargs, can_return_tuple

from ..configuration.configuration_bilstm import BiLSTMConfig
from .encoder_classifiers import EncoderForSequenceClassification, EncoderForTokenClassification
from .hub_export import HubExportMixin
from .real_tokens import checked_mask, real_tokens_first
from .word_embeddings import WordEmbeddings


class BiLSTMLayer(GradientCheckpointingLayer):
    """One LSTM of torch from left to right and another from right to left, side by side; zero at padding."""

    def __init__(self, config: BiLSTMConfig):
        super().__init__()
        self.forwards = nn.LSTM(config.hidden_size, config.hidden_size // 2, batch_first=True)
        self.backwards = nn.LSTM(config.hidden_size, config.hidden_size // 2, batch_first=True)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, states: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        real = attention_mask.bool()
        # No packed sequences: they have no fused kernel on a CPU and cannot be exported.
        ahead = read_real_tokens(self.forwards, states, real)
        back = read_real_tokens(self.backwards, states.flip(1), real.flip(1)).flip(1)
        return self.dropout(torch.cat([ahead, back], dim=-1).masked_fill(~real.unsqueeze(-1), 0))


class BiLSTMPreTrainedModel(HubExportMixin, PreTrainedModel):
    """Loading and saving of the family."""

    config_class = BiLSTMConfig
    base_model_prefix = "bilstm"
    supports_gradient_checkpointing = True
    _no_split_modules = ["BiLSTMLayer"]
    _input_embed_layer = "word_embeddings"


class BiLSTMModel(BiLSTMPreTrainedModel):
    r"""
    The encoder. `torch.export` ties it to one length. `torch.compile` leaves the LSTM out of its graph unless
    `torch._dynamo.config.allow_rnn` is set.

    ```python
    >>> model = BiLSTMModel(BiLSTMConfig(vocab_size=20000))
    ```
    """

    def __init__(self, config: BiLSTMConfig):
        super().__init__(config)
        self.embeddings = WordEmbeddings(config)
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
        **kwargs: Unpack[TransformersKwargs],
    ) -> tuple[torch.Tensor, ...] | BaseModelOutput:
        r"""
        Args:
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`, *optional*): 1 for real tokens, 0 for padding.
            token_type_ids (`torch.Tensor`, *optional*): Ignored; many tokenizers return them.
            inputs_embeds (`torch.Tensor` of shape `(batch, tokens, embedding_size)`, *optional*): Word vectors.

        Raises:
            ValueError: Both or neither of `input_ids` and `inputs_embeds` are given, or `attention_mask` is not
                `(batch, tokens)`.
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


class BiLSTMForSequenceClassification(BiLSTMPreTrainedModel, EncoderForSequenceClassification):
    r"""
    Classification of sentences or pairs, see [`EncoderForSequenceClassification`].

    ```python
    >>> model = BiLSTMForSequenceClassification(BiLSTMConfig(num_labels=2))
    ```
    """

    _encoder_class = BiLSTMModel


class BiLSTMForTokenClassification(BiLSTMPreTrainedModel, EncoderForTokenClassification):
    r"""
    Tagging, see [`EncoderForTokenClassification`].

    ```python
    >>> model = BiLSTMForTokenClassification(BiLSTMConfig(num_labels=17))
    ```
    """

    _encoder_class = BiLSTMModel


def read_real_tokens(lstm: nn.LSTM, states: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
    """
    The output of an LSTM over the real tokens of each sentence, which reads padding last.

    Args:
        lstm (`torch.nn.LSTM`): With `batch_first=True`.
        states (`torch.Tensor` of shape `(batch, tokens, width)`): Its input.
        real (`torch.BoolTensor` of shape `(batch, tokens)`): True for real tokens.

    Returns:
        `torch.Tensor` of shape `(batch, tokens, hidden_size)`: In the order of the input.
    """
    order = real_tokens_first(real).unsqueeze(-1)
    states = states.gather(1, order.expand_as(states))
    output = lstm(states)[0]
    return output.gather(1, order.argsort(dim=1).expand_as(output))
