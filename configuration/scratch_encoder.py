"""Fields of encoders trained from scratch: word vectors, dropout and classifiers."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from transformers import PreTrainedConfig

from .own_fields import OwnFields


class ScratchEncoderConfig(OwnFields, PreTrainedConfig):
    """
    The fields that [`WordEmbeddings`] and the classifiers of `encoder_classifiers` read.

    The subclasses document them, and are decorated with `@strict`, which checks them on construction.
    """

    vocab_size: int = 30000
    embedding_size: int | None = None
    hidden_size: int = 300
    hidden_act: str = "relu"
    sentence_pairs: bool = False
    crf: bool = False
    hidden_dropout_prob: float | int = 0.1
    classifier_dropout: float | int | None = None
    word_dropout: float | int = 0.0
    initializer_range: float = 0.02
    pad_token_id: int | None = 0
    unk_token_id: int = 1

    def validate_encoder(self):
        """Part of the `@strict` validation, which runs on construction."""
        if not 0 <= self.word_dropout <= 1:
            raise ValueError(f"word_dropout must be a rate between 0 and 1, got {self.word_dropout}")
