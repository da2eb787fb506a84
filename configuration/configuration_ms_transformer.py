"""Configuration of the Multi-Scale Transformer."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

import re
from typing import Literal

from huggingface_hub.dataclasses import strict

from .heads_per_scale import heads_per_scale
from .scratch_encoder import ScratchEncoderConfig


@strict
class MSTransformerConfig(ScratchEncoderConfig):
    r"""
    Configuration of a [`MSTransformerModel`]: self-attention whose heads look at windows of different scales
    ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    Args:
        vocab_size (`int`, *optional*, defaults to 30000):
            Number of tokens in the vocabulary.
        embedding_size (`int`, *optional*):
            Width of the word vectors. A linear layer projects them if it differs from `hidden_size`; `None` means
            `hidden_size`.
        hidden_size (`int`, *optional*, defaults to 300):
            Width of the layers.
        num_hidden_layers (`int`, *optional*, defaults to 3):
            Number of layers.
        num_attention_heads (`int`, *optional*, defaults to 10):
            Heads of a layer.
        scales (`list`, *optional*, defaults to `(1, 3, "N/16", "N/8", "N/4")`):
            Windows of the heads, small to large: a number of tokens, `"N/q"` for a part of a sentence's N real tokens
            (N / q rounded down, at least 1), or `None` for no bound.
        window (`str`, *optional*, defaults to `"half"`):
            Whether a scale counts the tokens on either side (`"half"`) or the whole window around the token
            (`"full"`: 3 is one token on either side).
        alpha (`float`, *optional*, defaults to 0.5):
            How low layers divide their heads: above 0, small scales get more; see [`heads_per_scale`].
        decay (`str`, *optional*, defaults to `"1/l"`):
            How `alpha` fades from layer to layer: `"1/l"` or `"linear"`.
        cls_global (`bool`, *optional*, defaults to `False`):
            Whether the first token, [CLS], attends to the whole sentence in every head.
        hidden_act (`str`, *optional*, defaults to `"relu"`):
            Activation after the attention; with a feed-forward part, only inside that part.
        norm (`str`, *optional*, defaults to `"post"`):
            Layer norm after the residual sum (`"post"`), or before each part of a layer and after the last layer
            (`"pre"`).
        position_embeddings (`str`, *optional*):
            `"sinusoidal"` adds sines and cosines to the word vectors times √`hidden_size`; `"learned"` adds learned
            vectors to the word vectors. With `None`, only the windows depend on the order of the words.
        max_position_embeddings (`int`, *optional*, defaults to 512):
            Largest number of tokens with learned positions.
        intermediate_size (`int`, *optional*, defaults to 0):
            Width of the feed-forward part of each layer; 0 for none.
        sentence_pairs (`bool`, *optional*, defaults to `False`):
            Whether a sequence classifier reads pairs of sentences, told apart by `token_type_ids`.
        crf (`bool`, *optional*, defaults to `False`):
            Whether a tagger scores tag sequences with a conditional random field (needs the package pytorch-crf).
        hidden_dropout_prob (`float`, *optional*, defaults to 0.1):
            Dropout of the embeddings, of what each part of a layer adds, and before the classifier.
        attention_probs_dropout_prob (`float`, *optional*, defaults to 0.0):
            Dropout of the attention weights. Above 0, a CPU has no fused attention and needs more time and memory.
        classifier_dropout (`float`, *optional*):
            Dropout of the classifier; `None` means `hidden_dropout_prob`.
        word_dropout (`float`, *optional*, defaults to 0.0):
            Share of the tokens that training replaces by [UNK]. It trains the vector of unknown words.
        initializer_range (`float`, *optional*, defaults to 0.02):
            Standard deviation of the initial weights.
        layer_norm_eps (`float`, *optional*, defaults to 1e-05):
            Epsilon of the layer norms.
        pad_token_id (`int`, *optional*, defaults to 0):
            Id of the padding token.
        unk_token_id (`int`, *optional*, defaults to 1):
            Id of the token of unknown words, [UNK].

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type or is not among the options, a scale
            is not one of the three kinds, `num_attention_heads` does not divide `hidden_size`, or `word_dropout` is
            not between 0 and 1; the message names the field.

    Example:

    ```python
    >>> from msattn import MSTransformerConfig

    >>> MSTransformerConfig(num_hidden_layers=2).heads_per_scale
    [[5, 2, 2, 1, 0], [2, 2, 2, 2, 2]]
    >>> plain_transformer = MSTransformerConfig(
    ...     scales=[None], position_embeddings="sinusoidal", intermediate_size=1200
    ... )
    ```
    """

    model_type = "ms_transformer"
    keys_to_ignore_at_inference = ["hidden_states", "attentions"]

    num_hidden_layers: int = 3
    num_attention_heads: int = 10
    scales: tuple[int | str | None, ...] | list[int | str | None] = (1, 3, "N/16", "N/8", "N/4")
    window: Literal["half", "full"] = "half"
    alpha: float | int = 0.5
    decay: Literal["1/l", "linear"] = "1/l"
    cls_global: bool = False
    norm: Literal["post", "pre"] = "post"
    position_embeddings: Literal["sinusoidal", "learned"] | None = None
    max_position_embeddings: int = 512
    intermediate_size: int = 0
    attention_probs_dropout_prob: float | int = 0.0
    layer_norm_eps: float = 1e-5

    def __post_init__(self, **kwargs):
        self.scales = tuple(self.scales)  # JSON has only lists
        super().__post_init__(**kwargs)

    @property
    def heads_per_scale(self) -> list[list[int]]:
        """The number of heads of each scale, for each layer."""
        return heads_per_scale(
            self.alpha, len(self.scales), self.num_attention_heads, self.num_hidden_layers, self.decay
        )

    def validate_layers(self):
        """Part of the `@strict` validation, which runs on construction."""
        if self.num_hidden_layers < 0:
            raise ValueError(f"num_hidden_layers must be 0 or more, got {self.num_hidden_layers}")
        if self.num_attention_heads < 1 or self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads must divide hidden_size ({self.hidden_size}) into equal parts, "
                f"got {self.num_attention_heads}"
            )

    def validate_scales(self):
        """Part of the `@strict` validation, which runs on construction."""
        if not self.scales:
            raise ValueError("scales must have at least one entry, got none")
        for scale in self.scales:
            if isinstance(scale, str):
                valid = re.fullmatch(r"N/[1-9]\d*", scale) is not None
            else:
                valid = scale is None or scale >= 1
            if not valid:
                raise ValueError(f'a scale must be a whole number of at least 1, "N/q" or None, got {scale!r}')
