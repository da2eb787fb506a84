"""Word embeddings with positions, for encoders trained from scratch."""

from __future__ import annotations

import torch
from torch import nn

from ..configuration.scratch_encoder import ScratchEncoderConfig
from .real_tokens import first_token


class WordEmbeddings(nn.Module):
    """
    Word vectors, projected to the width of the layers, plus position embeddings.

    Training replaces a share of the tokens, `config.word_dropout`, by [UNK]. The first token, [CLS], and padding stay.

    Args:
        config ([`ScratchEncoderConfig`]): Sizes and dropout.
        positions (`str`, *optional*):
            `"sinusoidal"`, or `"learned"` for up to `config.max_position_embeddings` tokens. `None` for no positions.
    """

    def __init__(self, config: ScratchEncoderConfig, positions: str | None = None):
        super().__init__()
        width = config.embedding_size or config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=config.pad_token_id)
        self.projection = nn.Linear(width, config.hidden_size) if width != config.hidden_size else nn.Identity()
        self.word_dropout, self.unknown = config.word_dropout, config.unk_token_id
        self.positions = positions
        if positions == "learned":
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(
        self, input_ids: torch.Tensor | None, inputs_embeds: torch.Tensor | None, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """
        Args:
            input_ids (`torch.LongTensor` of shape `(batch, tokens)`, *optional*): Read without `inputs_embeds`.
            inputs_embeds (`torch.Tensor` of shape `(batch, tokens, embedding_size)`, *optional*): Word vectors.
            attention_mask (`torch.Tensor` of shape `(batch, tokens)`): 1 for real tokens, 0 for padding.

        Returns:
            `torch.Tensor` of shape `(batch, tokens, hidden_size)`

        Raises:
            ValueError: There are more tokens than learned positions.
        """
        if inputs_embeds is None:
            if self.training and self.word_dropout and input_ids is not None:
                inner = attention_mask.bool() & ~first_token(attention_mask)
                dropped = inner & (torch.rand(inner.shape, device=inner.device) < self.word_dropout)
                input_ids = input_ids.masked_fill(dropped, self.unknown)
            inputs_embeds = self.word_embeddings(input_ids)
        states = self.projection(inputs_embeds)
        # Counted from the first real token, so that padding on the left moves nothing.
        positions = (attention_mask.long().cumsum(dim=-1) - 1).clamp_min(0)
        if self.positions == "learned":
            most = self.position_embeddings.num_embeddings
            if positions.shape[1] > most:
                raise ValueError(
                    f"{positions.shape[1]} tokens are more than the {most} learned positions (max_position_embeddings)"
                )
            states = states + self.position_embeddings(positions)
        elif self.positions == "sinusoidal":
            # Scaled as in "Attention Is All You Need": unscaled, initial word vectors are too small beside the waves.
            width = states.shape[-1]
            states = states * width**0.5 + sinusoids(positions, width).to(states.dtype)
        return self.dropout(states)


def sinusoids(positions: torch.Tensor, width: int) -> torch.Tensor:
    """
    Sinusoidal position embeddings: sines, then cosines, over wavelengths from 2π to 20,000π.

    Args:
        positions (`torch.Tensor` of shape `(...)`): Positions.
        width (`int`): Number of sines and cosines together.

    Returns:
        `torch.Tensor` of shape `(..., width)`
    """
    rates = 10000 ** (-torch.arange(0, width, 2, device=positions.device) / width)
    angles = positions.unsqueeze(-1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)[..., :width]
