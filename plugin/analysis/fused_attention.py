"""The attention of a multi-scale fusion layer for one sentence: from words to words and phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from msattn.analysis.arguments import load_config
from msattn.configuration.configuration_multiscale import MultiScaleConfig
from msattn.configuration.configuration_multiscale_bert import MultiScaleBertConfig
from msattn.configuration.max_tokens import most_tokens
from msattn.data.inputs.entity_markers import encode_relations
from msattn.errors import UserError
from msattn.modeling import modeling_multiscale, modeling_multiscale_bert
from msattn.modeling.evaluation_mode import evaluating

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

    Raises:
        UserError: There are no tokens, `alignment` is unknown, weights have the wrong shape or are negative or not
            finite, or an entity is out of range.

    Example:

    ```python
    >>> from msattn.analysis import FusedAttention, plot_fused_attention

    >>> attention = FusedAttention.from_model(model, tokenizer, "A cat sat.")
    >>> plot_fused_attention(attention, "cat", "attention.png")
    ```
    """

    tokens: list[str]
    words: np.ndarray
    phrases: dict[int, np.ndarray]
    alignment: str = "causal"
    head: Span | None = None
    tail: Span | None = None
    label: str | None = None

    def __post_init__(self):
        shape = (len(self.tokens), len(self.tokens))
        if not self.tokens:
            raise UserError("There is no token to show the attention of.")
        if self.alignment not in ("causal", "same"):
            raise UserError(f'alignment must be "causal" or "same", not {self.alignment!r}.')
        for name, weights in {"words": self.words, **{f"phrases[{k}]": self.phrases[k] for k in self.phrases}}.items():
            if weights.shape != shape:
                raise UserError(f"{name} must have the shape {shape} for {shape[0]} tokens, not {weights.shape}.")
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                raise UserError(f"{name} must hold attention weights: finite and not negative.")
        for entity in self.entities:
            if not 0 <= entity[0] < entity[1] <= shape[0]:
                raise UserError(f"An entity must be [start, end) within the {shape[0]} tokens, not {list(entity)}.")

    @classmethod
    def from_output(
        cls,
        attentions: torch.Tensor | np.ndarray,
        tokens: Sequence[str],
        scales: Sequence[int],
        alignment: str = "causal",
        head: Span | None = None,
        tail: Span | None = None,
        label: str | None = None,
    ) -> FusedAttention:
        """
        Converts the `fusion_attentions` of a sentence, from a model or the pipeline with `output_attentions=True`.

        Args:
            attentions (`torch.Tensor` or `np.ndarray` of shape `(heads, N, (1 + len(scales)) * N)`):
                The attention of one fusion layer, without padding.
            tokens (`Sequence[str]`): The N tokens.
            scales (`Sequence[int]`): The scales in the order of the model's configuration.
            alignment (`str`, *optional*, defaults to `"causal"`): As for [`FusedAttention`].
            head (`tuple[int, int]`, *optional*): As for [`FusedAttention`].
            tail (`tuple[int, int]`, *optional*): As for [`FusedAttention`].
            label (`str`, *optional*): As for [`FusedAttention`].

        Raises:
            UserError: The shape of `attentions` does not match `tokens` and `scales`.
        """
        attentions = torch.as_tensor(attentions)
        width = (1 + len(scales)) * len(tokens)
        if attentions.dim() != 3 or tuple(attentions.shape[1:]) != (len(tokens), width):
            raise UserError(
                f"The attention of {len(tokens)} tokens with {len(scales)} scales must have the shape "
                f"(heads, {len(tokens)}, {width}), not {tuple(attentions.shape)}."
            )
        mean = attentions.detach().double().mean(dim=0).cpu().numpy()
        words, *phrases = np.split(mean, 1 + len(scales), axis=1)
        return cls(list(tokens), words, dict(zip(scales, phrases, strict=True)), alignment, head, tail, label)

    @classmethod
    def from_model(
        cls,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        text: str,
        head: Span | None = None,
        tail: Span | None = None,
        types: tuple[str | None, str | None] = (None, None),
    ) -> FusedAttention:
        """
        Runs a multi-scale model on a sentence and returns the attention of its last fusion layer.

        Args:
            model (`PreTrainedModel`): A model of the family `multiscale` or `multiscale_bert`.
            tokenizer (`PreTrainedTokenizerBase`): The tokenizer of the model.
            text (`str`): The sentence, truncated to the limit of the model.
            head (`tuple[int, int]`, *optional*):
                The span `[start, end)` of the head entity in characters, for relation extraction.
            tail (`tuple[int, int]`, *optional*): The span of the tail entity.
            types (`tuple[str, str]`, *optional*): The types of head and tail, for a model whose markers name them.

        Raises:
            UserError: The model has no fusion layer, entities are missing for relation extraction, only one entity is
                given, the entities do not fit into the limit of the model, or its markers name types and `types` does
                not.
        """
        if not getattr(model.config, "fusion_layers", 0):
            raise UserError("The model has no fusion layer, so there is no fused attention to show.")
        if (head is None) != (tail is None):
            raise UserError("Give both entities, head and tail, or neither.")
        if head is None and getattr(model, "pooling", None) == "entity_start":
            raise UserError(
                "The model extracts relations: say which two entities of the text, head and tail, it reads."
            )
        limit = min(tokenizer.model_max_length, most_tokens(model.config) or tokenizer.model_max_length)
        if head is not None and tail is not None:
            style = getattr(model.config, "entity_markers", None) or "plain"
            columns = encode_relations(tokenizer, [text], [head], [tail], limit, style=style, types=[types])
            encoded = {name: values[0] for name, values in columns.items()}
            if encoded["input_ids"] is None:
                raise UserError(f"The entities are too far apart: both must fit into {limit} tokens.")
        else:
            encoded = dict(tokenizer(text, truncation=True, max_length=limit))
        starts = encoded.pop("entity_starts", None)
        inputs: dict[str, Any] = {k: torch.tensor([v], device=model.device) for k, v in encoded.items()}
        if getattr(model, "pooling", None) == "entity_start":
            inputs["entity_starts"] = torch.tensor([starts], device=model.device)

        with torch.no_grad(), evaluating(model):
            outputs = model(**inputs, output_attentions=True, return_dict=True)

        tokens = tokenizer.convert_ids_to_tokens(encoded["input_ids"])
        entities: list[Span | None] = [None, None]
        if head is not None and tail is not None:
            entities = [
                (start, _closing(tokens, start, tokenizer.tokenize(text[slice(*span)])) + 1)
                for start, span in zip(starts, (head, tail), strict=True)
            ]
        return cls.from_output(
            outputs.fusion_attentions[-1][0],
            tokens,
            model.config.scales,
            model.config.conv_alignment,
            head=entities[0],
            tail=entities[1],
            label=_predicted_label(model, outputs),
        )

    @property
    def entities(self) -> list[Span]:
        """The spans of the given entities, head first."""
        return [span for span in (self.head, self.tail) if span is not None]

    def phrase(self, scale: int, position: int) -> Span:
        """The span `[start, end)` of tokens that phrase `position` of a scale covers."""
        start = position - (scale - 1 if self.alignment == "causal" else scale // 2)
        return max(start, 0), min(start + scale, len(self.tokens))

    def positions(self, query: int | str | Sequence[int | str] | None = None) -> list[int]:
        """
        Resolves a query to token positions.

        Args:
            query (`int`, `str` or a sequence of them, *optional*):
                Positions or words. A word matches merged sub-words, ignoring case. Default: the first token of each
                entity, or all tokens without entities.

        Raises:
            UserError: The position is out of range, or the word is not in the sentence.
        """
        if query is None:
            return [start for start, _ in self.entities] or list(range(len(self.tokens)))
        if not isinstance(query, (int, str)):
            return list(dict.fromkeys(position for part in query for position in self.positions(part)))
        if isinstance(query, int):
            if not 0 <= query < len(self.tokens):
                raise UserError(f"There is no token {query}: the sentence has the tokens 0 to {len(self.tokens) - 1}.")
            return [query]
        merged: list[tuple[str, list[int]]] = []
        for position, token in enumerate(self.tokens):
            if token.startswith("##") and merged:
                merged[-1] = (merged[-1][0] + token[2:], [*merged[-1][1], position])
            else:
                merged.append((token, [position]))
        found = [position for word, positions in merged if word.lower() == query.lower() for position in positions]
        if not found:
            raise UserError(f"There is no word {query!r} in the sentence: {' '.join(word for word, _ in merged)}")
        return found


def load_fusion_model(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """
    Loads a multi-scale checkpoint, with its task head, and its tokenizer.

    Args:
        name (`str`): A local folder or a name on the Hub.

    Raises:
        UserError: The model does not exist, or is of another family.
    """
    config = load_config(name)
    architecture = (config.architectures or [config.model_type])[0]
    files = {
        MultiScaleConfig.model_type: modeling_multiscale,
        MultiScaleBertConfig.model_type: modeling_multiscale_bert,
    }
    modeling = files.get(config.model_type)
    if not hasattr(modeling, architecture):
        raise UserError(f"--model {name}: the model is a {architecture}, which has no fused attention.")
    return getattr(modeling, architecture).from_pretrained(name), AutoTokenizer.from_pretrained(name)


def _closing(tokens: list[str], start: int, entity: list[str]) -> int:
    """The position of the marker that closes an entity: `[/E1]`, `[/E1:PER]`, or the sign that has opened it."""
    opening = tokens[start]
    if opening.startswith("[E"):
        return tokens.index(f"[/{opening[1:]}", start)
    # Typed punctuation; the entity itself may hold the sign.
    signs = [position for position in range(start + 1, len(tokens)) if tokens[position] == opening]
    return signs[entity.count(opening)]


def _predicted_label(model: PreTrainedModel, outputs: Any) -> str | None:
    """The predicted class of a single-label classifier; `None` for other models."""
    logits = getattr(outputs, "logits", None)
    if logits is None or model.config.num_labels < 2 or model.config.problem_type == "multi_label_classification":
        return None
    return model.config.id2label[int(logits[0].argmax())]
