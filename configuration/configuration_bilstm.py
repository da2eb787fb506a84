"""Configuration of the BiLSTM baseline."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN


@strict
class BiLSTMConfig(PreTrainedConfig):
    r"""
    Configuration of a [`BiLSTMModel`], the baseline of the Multi-Scale Transformer. Two layers have as many weights as
    three layers of a [`MSTransformerModel`] of the same width.

    Args:
        vocab_size (`int`, *optional*, defaults to 30000):
            Tokens of the vocabulary.
        embedding_size (`int`, *optional*):
            Width of the word vectors; a linear layer takes them to another `hidden_size`. `None`: `hidden_size`.
        hidden_size (`int`, *optional*, defaults to 300):
            Width of the layers: both directions, one half each.
        num_hidden_layers (`int`, *optional*, defaults to 2):
            Layers.
        hidden_act (`str`, *optional*, defaults to `"relu"`):
            Activation between the two layers of a sequence classifier.
        sentence_pairs (`bool`, *optional*, defaults to `False`):
            Whether a sequence classifier reads pairs of sentences, told apart by `token_type_ids`.
        crf (`bool`, *optional*, defaults to `False`):
            Whether a tagger has a conditional random field, from the package pytorch-crf, over the tags of a sentence.
        hidden_dropout_prob (`float`, *optional*, defaults to 0.1):
            Dropout of the embeddings, of each layer's states, and before the classifier.
        classifier_dropout (`float`, *optional*):
            Dropout of the classifier, if not `hidden_dropout_prob`.
        initializer_range (`float`, *optional*, defaults to 0.1):
            Standard deviation of the fresh weights outside of the LSTM, whose own are Xavier's. No norm makes up for
            small ones here.
        pad_token_id (`int`, *optional*, defaults to 0):
            The padding.

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: a value outside of what is allowed; the message names the field.

    Example:

    ```python
    >>> from msattn import BiLSTMConfig

    >>> config = BiLSTMConfig(vocab_size=20000, hidden_size=100)
    ```"""

    model_type = "bilstm"
    keys_to_ignore_at_inference = ["hidden_states"]
    # An LSTM knows the order. Not a field: the embeddings are those of the Multi-Scale Transformer, which asks.
    position_embeddings = None

    vocab_size: int = 30000
    embedding_size: int | None = None
    hidden_size: int = 300
    num_hidden_layers: int = 2
    hidden_act: str = "relu"
    sentence_pairs: bool = False
    crf: bool = False
    hidden_dropout_prob: float | int = 0.1
    classifier_dropout: float | int | None = None
    initializer_range: float = 0.1
    pad_token_id: int | None = 0

    def validate_layers(self):
        """Part of the `@strict` validation, which runs at construction."""
        for name in ("vocab_size", "hidden_size", "num_hidden_layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.embedding_size is not None and self.embedding_size < 1:
            raise ValueError(f"embedding_size must be at least 1 or None, got {self.embedding_size}")
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size must be even, one half a direction, got {self.hidden_size}")
        for name in ("hidden_dropout_prob", "classifier_dropout"):
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise ValueError(f"{name} must be a rate between 0 and 1, got {getattr(self, name)}")
        if self.hidden_act not in ACT2FN:
            raise ValueError(f"hidden_act must be one of {', '.join(ACT2FN)}, got {self.hidden_act!r}")

    @classmethod
    def from_dict(cls, config_dict, **kwargs):
        # Transformers sets the arguments of `from_pretrained` one by one, after the validation at construction.
        own = {name: kwargs.pop(name) for name in BiLSTMConfig.__annotations__ if name in kwargs}
        return super().from_dict(config_dict | own, **kwargs)


__all__ = ["BiLSTMConfig"]
