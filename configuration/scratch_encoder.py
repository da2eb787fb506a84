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
        self._check_sizes("vocab_size", "hidden_size")
        if self.embedding_size is not None and self.embedding_size < 1:
            raise ValueError(f"embedding_size must be at least 1 or None, got {self.embedding_size}")
        self._check_rates("hidden_dropout_prob", "classifier_dropout", "word_dropout")
        if self.word_dropout and not 0 <= self.unk_token_id < self.vocab_size:
            raise ValueError(f"unk_token_id must be one of the {self.vocab_size} tokens, got {self.unk_token_id}")

    def _check_sizes(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def _check_rates(self, *names: str) -> None:
        for name in names:
            if not 0 <= (getattr(self, name) or 0) <= 1:
                raise ValueError(f"{name} must be a rate between 0 and 1, got {getattr(self, name)}")
