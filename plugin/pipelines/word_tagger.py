"""Tags the words of texts as a tagger was trained: each word has the tag of its first sub-word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import islice
from typing import Any

import torch
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from msattn.configuration.max_tokens import most_tokens
from msattn.data.inputs.entity_tags import ENTITY_TAG, entity_spans
from msattn.data.inputs.raw_text import words_to_tag
from msattn.data.inputs.word_pieces import inputs_of, sentence_parts
from msattn.data.inputs.word_rules import language_of
from msattn.errors import UserError, missing_weights
from msattn.pipelines.text_pipeline import check_batch_size

logger = logging.get_logger(__name__)


class WordTagger:
    """
    Tags words, as the scores of `run_tagging.py` count them.

    The pipeline `"token-classification"` of Transformers tells words by spaces or by the marks of sub-words. So it
    joins `Rome` and the full stop behind it, or reads the tags of sub-words that training left out.

    Args:
        model (`PreTrainedModel`): A token classifier.
        tokenizer (`PreTrainedTokenizerBase`): Its tokenizer.
        word_tokenizer (`Callable` or `str`, *optional*):
            What splits texts into words, such as `"spacy:ja"`; see [`DependencyParsingPipeline`]. Give this or `lang`
            if the words of the training were split otherwise than by the built-in rules without a language.
        lang (`str`, *optional*): The language of the built-in rules, such as `"en"`, which splits "Rome's".

    Raises:
        UserError: The tokenizer is not a fast one, or there are no rules for the language.

    Example:

    ```python
    >>> from msattn.pipelines.word_tagger import WordTagger

    >>> WordTagger.from_pretrained("outputs/tagger").entities("Ann lives in Rome.")
    [{'start': 0, 'end': 3, 'text': 'Ann', 'label': 'PER', 'score': 0.99},
     {'start': 13, 'end': 17, 'text': 'Rome', 'label': 'LOC', 'score': 0.98}]
    ```
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        word_tokenizer: Callable[[str], Any] | str | None = None,
        lang: str | None = None,
    ):
        language_of(lang)  # refuses those without rules
        if not tokenizer.is_fast:
            raise UserError(f"{tokenizer.name_or_path}: the tokenizer has to be a fast one, with a tokenizer.json.")
        tokenizer = copy(tokenizer)
        tokenizer.padding_side = "right"  # words are found from the left
        self.model, self.tokenizer = model, tokenizer
        self.split = partial(words_to_tag, word_tokenizer=word_tokenizer, lang=lang)
        self.collator = DataCollatorWithPadding(tokenizer)
        self.limit = min(tokenizer.model_max_length, most_tokens(model.config) or tokenizer.model_max_length)

    @classmethod
    def from_pretrained(cls, name: str, device: torch.device | str = "cpu", **splitting: Any) -> WordTagger:
        """
        Loads a tagger.

        Args:
            name (`str`): A folder, or a name on the Hub.
            device (`torch.device` or `str`, *optional*, defaults to `"cpu"`): Where it runs.
            **splitting: `word_tokenizer` and `lang`; see [`WordTagger`].

        Raises:
            UserError: The checkpoint lacks weights of a tagger, or [`WordTagger`] refuses it.
        """
        model, info = AutoModelForTokenClassification.from_pretrained(name, output_loading_info=True)
        if missing := sorted(info["missing_keys"]):
            raise missing_weights(name, missing)
        return cls(model.to(device), AutoTokenizer.from_pretrained(name), **splitting)

    def __call__(self, sentences: Sequence[Sequence[str]], batch_size: int = 32) -> list[list[tuple[str, float]]]:
        """
        The tag of each word, and its probability. Texts that are too long are split between sentences, single
        sentences between words.

        Args:
            sentences (`Sequence[Sequence[str]]`): The words of each sentence.
            batch_size (`int`, *optional*, defaults to 32): Sentences, or parts of them, in a batch.

        Raises:
            UserError: `batch_size` is below 1.
        """
        check_batch_size(batch_size)
        self.model.eval()  # a training leaves its model with dropout
        tags: list[list[tuple[str, float]]] = [[] for _ in sentences]
        parts_of = enumerate(sentence_parts(self.tokenizer, sentences, self.limit))
        parts = ((number, *part) for number, parts in parts_of for part in parts)
        names, cut = self.model.config.id2label, 0
        while block := list(islice(parts, batch_size)):
            rows = [inputs_of(pieces.encoding, self.tokenizer) for _, pieces, _ in block]
            batch = self.collator(rows).to(self.model.device)
            with torch.inference_mode():
                best = self.model(**batch).logits.float().softmax(dim=-1).max(dim=-1)
            answers = zip(block, best.indices.tolist(), best.values.tolist(), strict=True)
            for (number, pieces, truncated), labels, scores in answers:
                tags[number] += [(names[labels[start]], scores[start]) for start in pieces.starts]
                cut += truncated
        if cut:
            logger.warning(f"of {cut} words only the first {self.limit} tokens are read.")
        return tags

    def words(self, text: str) -> list[dict[str, Any]]:
        """The words of a text: `start`, `end`, `text`, `label` and `score`."""
        words = self.split(text)
        (tags,) = self([[word for word, _, _ in words]]) if words else ([],)
        return [
            {"start": start, "end": end, "text": word, "label": tag, "score": score}
            for (word, start, end), (tag, score) in zip(words, tags, strict=True)
        ]

    def entities(self, text: str) -> list[dict[str, Any]]:
        """The entities of a text, as of `words`; the score is the mean of those of its words."""
        words = self.words(text)
        tags = [tag if ENTITY_TAG.fullmatch(tag := word["label"]) else f"I-{tag}" for word in words]
        found = []
        for first, behind, label in entity_spans(tags):
            start, end = words[first]["start"], words[behind - 1]["end"]
            score = sum(word["score"] for word in words[first:behind]) / (behind - first)
            found.append({"start": start, "end": end, "text": text[start:end], "label": label, "score": score})
        return found
