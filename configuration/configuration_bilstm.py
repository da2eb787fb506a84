"""Configuration of the BiLSTM baseline."""

# No `from __future__ import annotations`: `@strict` checks the types and sees only strings with it.

from huggingface_hub.dataclasses import strict

from .scratch_encoder import ScratchEncoderConfig


@strict
class BiLSTMConfig(ScratchEncoderConfig):
    r"""
    Configuration of a [`BiLSTMModel`], the baseline of the Multi-Scale Transformer. Two layers have as many weights as
    three layers of a [`MSTransformerModel`] of the same width.

    Args:
        vocab_size (`int`, *optional*, defaults to 30000):
            Number of tokens in the vocabulary.
        embedding_size (`int`, *optional*):
            Width of the word vectors. A linear layer projects them if it differs from `hidden_size`; `None` means
            `hidden_size`.
        hidden_size (`int`, *optional*, defaults to 300):
            Width of the layers; each direction has one half.
        num_hidden_layers (`int`, *optional*, defaults to 2):
            Number of layers.
        hidden_act (`str`, *optional*, defaults to `"relu"`):
            Activation between the two layers of a sequence classifier.
        sentence_pairs (`bool`, *optional*, defaults to `False`):
            Whether a sequence classifier reads pairs of sentences, told apart by `token_type_ids`.
        crf (`bool`, *optional*, defaults to `False`):
            Whether a tagger scores tag sequences with a conditional random field (needs the package pytorch-crf).
        hidden_dropout_prob (`float`, *optional*, defaults to 0.1):
            Dropout of the embeddings, of the states of each layer, and before the classifier.
        classifier_dropout (`float`, *optional*):
            Dropout of the classifier; `None` means `hidden_dropout_prob`.
        word_dropout (`float`, *optional*, defaults to 0.0):
            Share of the tokens that training replaces by [UNK]. It trains the vector of unknown words.
        initializer_range (`float`, *optional*, defaults to 0.1):
            Standard deviation of the initial weights outside of the LSTM, whose own weights start as Xavier uniform.
            There is no layer norm to make up for a small one.
        pad_token_id (`int`, *optional*, defaults to 0):
            Id of the padding token.
        unk_token_id (`int`, *optional*, defaults to 1):
            Id of the token of unknown words, [UNK].

    Raises:
        `huggingface_hub.errors.StrictDataclassError`: A value has the wrong type, `hidden_size` is odd, or
            `word_dropout` is not between 0 and 1; the message names the field.

    Example:

    ```python
    >>> from msattn import BiLSTMConfig

    >>> config = BiLSTMConfig(vocab_size=20000, hidden_size=100)
    ```
    """

    model_type = "bilstm"
    keys_to_ignore_at_inference = ["hidden_states"]

    num_hidden_layers: int = 2
    initializer_range: float = 0.1

    def validate_layers(self):
        """Part of the `@strict` validation, which runs on construction."""
        if self.hidden_size % 2:
            raise ValueError(f"hidden_size must be even, one half a direction, got {self.hidden_size}")
