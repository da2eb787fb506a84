"""The attention of a multi-scale fusion layer for one sentence: from words to words and phrases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from msattn.configuration.max_tokens import most_tokens
from msattn.data.inputs.entity_markers import PLACES, encode_relations
from msattn.errors import TooFarApart, UserError
from msattn.modeling.evaluation_mode import evaluating
from msattn.plots.encoders import shown_tokens, texts_of

Span = tuple[int, int]


@dataclass(frozen=True)
class FusedAttention:
    """
    The attention of every token of a sentence to all tokens and phrases, averaged over heads.

    The weights are those of Eq. 17 of the multi-scale fusion paper.

    Args:
        tokens (`list[str]`): The N tokens.
        words (`np.ndarray` of shape `(N, N)`): Attention weights `[query, token]`.
        phrases (`dict[int, np.ndarray]`): Attention weights `[query, phrase]` of shape `(N, N)`, by scale.
        alignment (`str`, *optional*, defaults to `"causal"`):
            Whether phrase j ends at token j (`"causal"`) or is centred on it (`"same"`).
        head (`tuple[int, int]`, *optional*): The span `[start, end)` of the head entity in tokens, with its markers.
        tail (`tuple[int, int]`, *optional*): The span of the tail entity.
        label (`str`, *optional*): The predicted label of the sentence.

    Example:

    ```python
    >>> from msattn.plots import FusedAttention, fused_attention_html

    >>> attention = FusedAttention.from_model(model, tokenizer, "A cat sat.")
    >>> page = fused_attention_html(attention, "attention.html")
    ```
    """

    tokens: list[str]
    words: np.ndarray
    phrases: dict[int, np.ndarray]
    alignment: str = "causal"
    head: Span | None = None
    tail: Span | None = None
    label: str | None = None

    @classmethod
    def from_model(
        cls,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        text: str,
        head: Span | None = None,
        tail: Span | None = None,
        types: tuple[str | None, str | None] = (None, None),
        max_length: int | None = None,
        text_pair: str | None = None,
    ) -> FusedAttention:
        """
        Runs a multi-scale model on a sentence or a pair of texts and returns the attention of its last fusion layer.

        Args:
            model (`PreTrainedModel`): A model of the family `multiscale` or `multiscale_bert`.
            tokenizer (`PreTrainedTokenizerBase`): The tokenizer of the model.
            text (`str`): The sentence, truncated to `max_length`.
            head (`tuple[int, int]`, *optional*):
                The span `[start, end)` of the head entity in characters, for relation extraction.
            tail (`tuple[int, int]`, *optional*): The span of the tail entity.
            types (`tuple[str, str]`, *optional*): The types of head and tail, for a model whose markers name them.
            max_length (`int`, *optional*):
                The most tokens, such as the relation pipeline reads around two entities of a longer text. Default: the
                limit of the model.
            text_pair (`str`, *optional*): The second text, for a classifier of pairs.

        Raises:
            UserError: The model has no fusion layer or is exported, entities are missing for relation extraction, the
                entities do not fit into `max_length`, its markers name types and `types` does not, or there is
                no `text_pair` for a model of two texts, or one beside entities.
        """
        if not getattr(model.config, "fusion_layers", 0):
            raise UserError("The model has no fusion layer, so there is no fused attention to show.")
        if not hasattr(model, "modules"):
            raise UserError("An exported model gives no attention; take the checkpoint that it was exported from.")
        if head is None and getattr(model, "pooling", None) == "entity_start":
            raise UserError(
                "The model extracts relations: say which two entities of the text, head and tail, it reads."
            )
        if text_pair is None and texts_of(model.config) > 1:
            raise UserError("The model compares two texts: give the second one, text_pair, too.")
        if text_pair is not None and head is not None:
            raise UserError("The model reads entities of one text: leave out text_pair.")
        limit = min(filter(None, (max_length, tokenizer.model_max_length, most_tokens(model.config))))
        if head is not None and tail is not None:
            style = getattr(model.config, "entity_markers", None) or "plain"
            columns = encode_relations(tokenizer, [text], [head], [tail], limit, style=style, types=[types])
            encoded = {name: values[0] for name, values in columns.items()}
            if encoded["input_ids"] is None:
                raise TooFarApart(f"The entities are too far apart: both must fit into {limit} tokens.")
        else:
            encoded = dict(tokenizer(text, text_pair, truncation=True, max_length=limit))
        places = [encoded.get(name) for name in PLACES]
        if getattr(model, "pooling", None) not in ("entity_start", "r_bert"):
            encoded = {name: value for name, value in encoded.items() if name not in PLACES}
        inputs: dict[str, Any] = {k: torch.tensor([v], device=model.device) for k, v in encoded.items()}

        with torch.no_grad(), evaluating(model):
            outputs = model(**inputs, output_attentions=True, return_dict=True)

        tokens = shown_tokens(tokenizer, encoded["input_ids"])
        first = second = None
        if head is not None and tail is not None:
            first, second = ((start, end + 1) for start, end in zip(*places, strict=True))
        scales = model.config.scales
        mean = outputs.fusion_attentions[-1][0].cpu().double().mean(dim=0).numpy()
        words, *phrases = np.split(mean, 1 + len(scales), axis=1)
        label = _predicted_label(model, outputs)
        return cls(
            tokens, words, dict(zip(scales, phrases, strict=True)), model.config.conv_alignment, first, second, label
        )

    @property
    def entities(self) -> list[Span]:
        """The spans of the given entities, head first."""
        return [span for span in (self.head, self.tail) if span is not None]

    def phrase(self, scale: int, position: int) -> Span:
        """The span `[start, end)` of tokens that phrase `position` of a scale covers."""
        start = position - (scale - 1 if self.alignment == "causal" else scale // 2)
        return max(start, 0), min(start + scale, len(self.tokens))


def _predicted_label(model: PreTrainedModel, outputs: Any) -> str | None:
    """The class of the text from a single-label classifier, as its pipeline answers; `None` for other models."""
    config, logits = model.config, getattr(outputs, "logits", None)
    if (
        logits is None
        or logits.dim() != 2
        or config.num_labels < 2
        or config.problem_type == "multi_label_classification"
    ):
        return None
    scores = (logits[0].float() / (getattr(config, "calibration_temperature", None) or 1)).softmax(dim=-1).tolist()
    threshold, negative = (getattr(config, name, None) for name in ("decision_threshold", "negative_label"))
    if threshold is None or negative not in config.label2id:
        return config.id2label[max(config.id2label, key=scores.__getitem__)]
    best = max(config.id2label.keys() - {config.label2id[negative]}, key=scores.__getitem__)
    cuts = getattr(config, "relation_thresholds", None) or {}
    return config.id2label[best] if scores[best] >= cuts.get(config.id2label[best], threshold) else negative
