"""What tasks on whole texts share: their model inputs, and a warning if some are truncated."""

from __future__ import annotations

from collections.abc import Sequence

from datasets import Dataset
from transformers.utils import logging

from msattn.arguments.ranking_arguments import RankingDataArguments
from msattn.data.inputs.sentence_inputs import encode_sentences
from msattn.tasks.task import Task

logger = logging.get_logger(__name__)


class TextTask(Task):
    """A [`Task`] whose examples are texts or pairs of texts, of at most `max_length` tokens."""

    data_args: RankingDataArguments
    max_length: int | None

    def encode_texts(self, prefix: str, dataset: Dataset, columns: Sequence[str]) -> Dataset:
        """
        Tokenizes texts; see [`~msattn.data.inputs.sentence_inputs.encode_sentences`].

        Args:
            prefix (`str`): The prefix of the metrics; only `"train"` gets the words that patterns need.
            dataset (`datasets.Dataset`): The texts, and `label` if there are labels.
            columns (`Sequence[str]`): The one or two columns of text.
        """
        encoded, truncated = encode_sentences(
            dataset,
            self.tokenizer,
            columns,
            self.max_length,
            self.data_args.pad_to_max_length,
            self.data_args.preprocessing_num_workers,
            self.guiding.needs_words and prefix == "train",
        )
        if truncated:
            logger.warning(
                f"{prefix}: {truncated} of {len(encoded)} examples are longer than {self.max_length} tokens and were "
                "truncated (--max_seq_length)."
            )
        return encoded
