"""Warns if a model does not know many of the tokens that it reads."""

from __future__ import annotations

import pyarrow.compute as pc
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

logger = logging.get_logger(__name__)

# The share of unknown tokens that a warning tells.
MANY = 0.05


def unknown_share(dataset: Dataset, tokenizer: PreTrainedTokenizerBase) -> float:
    """
    The share of the unknown token among the tokens of a text, without [CLS], padding and the like.

    Args:
        dataset (`datasets.Dataset`): Model inputs with the column `input_ids`.
        tokenizer (`PreTrainedTokenizerBase`): What made them; 0 if it has no unknown token.
    """
    if tokenizer.unk_token_id is None:
        return 0.0
    ids = pc.list_flatten(dataset.select_columns("input_ids").with_format("arrow")[:]["input_ids"], recursive=True)
    counts = {pair["values"]: pair["counts"] for pair in pc.value_counts(ids).to_pylist()}
    unknown = counts.get(tokenizer.unk_token_id, 0)
    special = sum(counts.get(number, 0) for number in set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
    return unknown / max(1, len(ids) - special)


def warn_of_unknown(prefix: str, dataset: Dataset, tokenizer: PreTrainedTokenizerBase) -> None:
    """Warns if more than `MANY` of the tokens of a split are unknown; see [`unknown_share`]."""
    share = unknown_share(dataset, tokenizer)
    if share > MANY:
        logger.warning(
            f"{prefix}: {share:.1%} of the tokens are unknown to the model ({tokenizer.unk_token}). Words have to be "
            "split as in training. From scratch, --pretokenized or an encoder's sub-words (--word_vectors) may help."
        )
