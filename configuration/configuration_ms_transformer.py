"""Configuration of the Multi-Scale Transformer."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

import re
from typing import Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from .heads_per_scale import heads_per_scale


@strict
class MSTransformerConfig(PreTrainedConfig):
    r"""
    Configuration of a [`MSTransformerModel`]: self-attention whose heads look at windows of different scales
    ("Multi-Scale Self-Attention for Text Classification", AAAI 2020).

    Args:
        vocab_size (`int`, *optional*, defaults to 30000):
            Tokens of the vocabulary.
        embedding_size (`int`, *optional*):
            Width of the word vectors; a linear layer takes them to another `hidden_size`. `None`: `hidden_size`.
        hidden_size (`int`, *optional*, defaults to 300):
            Width of the layers.
        num_hidden_layers (`int`, *optional*, defaults to 3):
            Layers.
        num_attention_heads (`int`, *optional*, defaults to 10):
            Heads of a layer.
        scales (`list`, *optional*, defaults to `(1, 3, "N/16", "N/8", "N/4")`):
            Windows of the heads, small to large: tokens as a whole number, `"N/q"` for that part of a sentence's real
            tokens (rounded down, at least 1), or `None` for no bound.
        window (`str`, *optional*, defaults to `"half"`):
            Whether a scale counts the tokens on either side (`"half"`) or the whole window around the token
            (`"full"`: 3 is one token on either side).
        alpha (`float`, *optional*, defaults to 0.5):
            How low layers divide their heads: above 0 small scales get more, see [`heads_per_scale`].
        decay (`str`, *optional*, defaults to `"1/l"`):
            How `alpha` fades from layer to layer: `"1/l"` or `"linear"`.
        cls_global (`bool`, *optional*, defaults to `False`):
            Whether the first token, [CLS], sees the whole sentence in every head.
        hidden_act (`str`, *optional*, defaults to `"relu"`):
            Activation after the attention; with a feed-forward part, inside of that only.
        norm (`str`, *optional*, defaults to `"post"`):
            Layer norm after the residual sum (`"post"`) or before each part of a layer and after the last (`"pre"`).
        position_embeddings (`str`, *optional*):
            `"sinusoidal"`, added to the word vectors times √`hidden_size`, or `"learned"`, added to them as they are.
            `None`: windows are all that knows the order.
        max_position_embeddings (`int`, *optional*, defaults to 512):
            Most tokens that learned positions can count.
        intermediate_size (`int`, *optional*, defaults to 0):
            Width of the feed-forward part of each layer; 0: none.
        sentence_pairs (`bool`, *optional*, defaults to `False`):
            Whether a sequence classifier reads pairs of sentences, told apart by `token_type_ids`.
        crf (`bool`, *optional*, defaults to `False`):
            Whether a tagger has a conditional random field, from the package pytorch-crf, over the tags of a sentence.
        hidden_dropout_prob (`float`, *optional*, defaults to 0.1):
            Dropout of the embeddings, of what each part of a layer adds, and before the classifier.
        attention_probs_dropout_prob (`float`, *optional*, defaults to 0.0):
            Dropout of the attention weights. Above 0, a CPU has no fused attention and needs more time and memory.
        classifier_dropout (`float`, *optional*):
            Dropout of the classifier, if not `hidden_dropout_prob`.
        initializer_range (`float`, *optional*, defaults to 0.02):
            Standard deviation of the fresh weights.
        layer_norm_eps (`float`, *optional*, defaults to 1e-05):
            Epsilon of the layer norms.
        pad_token_id (`int`, *optional*, defaults to 0):
            The padding.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: a value outside of what is allowed; the message names the field.

    Example:

    ```python
    >>> from msattn import MSTransformerConfig

    >>> MSTransformerConfig(num_hidden_layers=2).heads_per_scale
    [[5, 2, 2, 1, 0], [2, 2, 2, 2, 2]]
    >>> plain_transformer = MSTransformerConfig(
    ...     scales=[None], position_embeddings="sinusoidal", intermediate_size=1200
    ... )
    ```"""

    model_type = "ms_transformer"
    keys_to_ignore_at_inference = ["hidden_states", "attentions"]

    vocab_size: int = 30000
    embedding_size: int | None = None
    hidden_size: int = 300
    num_hidden_layers: int = 3
    num_attention_heads: int = 10
    scales: tuple[int | str | None, ...] | list[int | str | None] = (1, 3, "N/16", "N/8", "N/4")
    window: Literal["half", "full"] = "half"
    alpha: float | int = 0.5
    decay: Literal["1/l", "linear"] = "1/l"
    cls_global: bool = False
    hidden_act: str = "relu"
    norm: Literal["post", "pre"] = "post"
    position_embeddings: Literal["sinusoidal", "learned"] | None = None
    max_position_embeddings: int = 512
    intermediate_size: int = 0
    sentence_pairs: bool = False
    crf: bool = False
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.0
    classifier_dropout: float | int | None = None
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-5
    pad_token_id: int | None = 0

    def __post_init__(self, **kwargs):
        self.scales = tuple(self.scales)  # JSON knows only lists
        super().__post_init__(**kwargs)

    @property
    def heads_per_scale(self) -> list[list[int]]:
        """For each layer, the heads of each scale."""
        return heads_per_scale(
            self.alpha, len(self.scales), self.num_attention_heads, self.num_hidden_layers, self.decay
        )

    def validate_layers(self):
        """Part of the `@strict` validation, which runs at construction."""
        for scale in self.scales:
            if isinstance(scale, str):
                right = re.fullmatch(r"N/[1-9]\d*", scale) is not None
            else:
                right = scale is None or scale >= 1
            if not right:
                raise ValueError(f'a scale must be a whole number of at least 1, "N/q" or None, got {scale!r}')
        sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.embedding_size is not None and self.embedding_size < 1:
            raise ValueError(f"embedding_size must be at least 1 or None, got {self.embedding_size}")
        if self.intermediate_size < 0:
            raise ValueError(f"intermediate_size must be 0 or more, got {self.intermediate_size}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads must divide hidden_size ({self.hidden_size}) into equal parts, "
                f"got {self.num_attention_heads}"
            )
        if not self.scales:
            raise ValueError("scales must have at least one entry, got none")
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise ValueError(f"{name} must be a rate between 0 and 1, got {getattr(self, name)}")
        if self.hidden_act not in ACT2FN:
            raise ValueError(f"hidden_act must be one of {', '.join(ACT2FN)}, got {self.hidden_act!r}")
        self.heads_per_scale  # noqa: B018  checks alpha

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        # Transformers sets the arguments of `from_pretrained` one by one, after the validation at construction.
        own = {name: kwargs.pop(name) for name in MSTransformerConfig.__annotations__ if name in kwargs}
        return super().from_dict(config_dict | own, **kwargs)


__all__ = ["MSTransformerConfig"]
