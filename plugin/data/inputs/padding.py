"""How batches are padded."""

from __future__ import annotations

from transformers import PreTrainedTokenizerBase


def pad_right(tokenizer: PreTrainedTokenizerBase) -> None:
    """Lets a tokenizer pad on the right; without a padding token, by another one: padding is masked, so any works."""
    tokenizer.padding_side = "right"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
