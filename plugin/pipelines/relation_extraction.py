"""The pipeline `"relation-extraction"`: classifies the relation between two marked entities of a sentence."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch.nn.functional import pad

from msattn.configuration.max_tokens import most_tokens
from msattn.errors import UserError
from msattn.pipelines.length_sorted import LengthSortedPipeline


class RelationExtractionPipeline(LengthSortedPipeline):
    """
    Relation extraction pipeline for models of [`AutoModelForRelationExtraction`].

    An input is one of

    - a text with marked entities, `"The <e1>author</e1> of a <e2>book</e2>."` (or `[E1]...[/E1]`);
    - `{"text": ..., "head": [start, end], "tail": [start, end]}`, with spans in characters, the end exclusive;
    - `{"tokens": [...], "head": [start, end], "tail": [start, end]}`, with spans in tokens, the end exclusive.

    Lists, datasets and generators of inputs work too. With `batch_size`, sentences of similar length are batched
    together. Results have the order of the inputs.

    Example:

    ```python
    >>> import msattn
    >>> from transformers import pipeline

    >>> extractor = pipeline("relation-extraction", model="outputs/semeval")
    >>> extractor("The <e1>author</e1> of a <e2>book</e2>.")
    {'label': 'Product-Producer(e2,e1)', 'score': 0.98,
     'head': {'start': 4, 'end': 10, 'text': 'author'}, 'tail': {'start': 16, 'end': 20, 'text': 'book'}}
    ```
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        parameters = inspect.signature(self.model.forward).parameters
        self.reads_pieces = "entity_pieces" in parameters
        if not self.reads_pieces and "entity_starts" not in parameters:
            raise UserError(
                f"{self.model.name_or_path or 'the model'} holds a {type(self.model).__name__}, which extracts no "
                "relations; give a checkpoint that run_re.py has trained."
            )
        # Entity positions are counted from the left.
        self.tokenizer.padding_side = "right"
        # Pairwise models read texts without markers, and their tokenizer lacks them.
        self.marking_tokenizer = copy.deepcopy(self.tokenizer) if self.reads_pieces else self.tokenizer
        if self.reads_pieces:
            from msattn.data.inputs.entity_markers import add_entity_markers

            add_entity_markers(self.marking_tokenizer)

    def _sanitize_parameters(
        self, top_k: int | str | None = "", output_attentions: bool | None = None, max_length: int | None = None
    ) -> tuple[dict, dict, dict]:
        # top_k=None means all labels, so "" is the default.
        postprocess_params = {} if top_k == "" else {"top_k": top_k}
        forward_params = {} if output_attentions is None else {"output_attentions": output_attentions}
        preprocess_params = {} if max_length is None else {"max_length": max_length}
        return preprocess_params, forward_params, postprocess_params

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Extracts the relation of one or more inputs.

        Args:
            inputs (`Any`): One input or many; see [`RelationExtractionPipeline`].
            top_k (`int`, *optional*):
                Return a list of the `top_k` best relations, best first; all of them for `None`. Default: the best
                relation, not in a list.
            output_attentions (`bool`, *optional*, defaults to `False`):
                Whether to add `tokens` and `fusion_attentions`, with one array of shape
                `(heads, tokens, (1 + scales) * tokens)` per fusion layer.
            max_length (`int`, *optional*):
                Maximum number of tokens; longer texts are cut to a window around both entities. Default: the limit of
                the model and the tokenizer.
            batch_size (`int`, *optional*, defaults to 1): Number of inputs per batch.

        Returns:
            `dict[str, Any]`: `label`, `score` (probability), and `head` and `tail` with `start`, `end` and `text`.
            Spans have the unit of the input: characters, without the marks of a marked text, or tokens. For many
            inputs, a list or an iterator of dictionaries.

        Raises:
            UserError: A span is out of range, empty, overlaps the other or splits a word, a mark is missing or
                repeated, the entities and the text between them exceed `max_length`, or `output_attentions` is set for
                a pairwise model.
        """
        return super().__call__(inputs, **kwargs)

    def input_length(self, item: Any) -> int:
        """The approximate length of an input in characters."""
        return _length(item)

    def preprocess(self, inputs: Any, max_length: int | None = None) -> dict[str, Any]:
        # Imported late, as `datasets` is slow to import.
        from msattn.data.inputs.entity_markers import encode_relations, without_markers

        example = _example(inputs)
        limits = (max_length, self.tokenizer.model_max_length, most_tokens(self.model.config))
        limit = min(limit for limit in limits if limit is not None)
        encoded = encode_relations(
            self.marking_tokenizer, [example["text"]], [example["head"]], [example["tail"]], limit
        )
        if encoded["input_ids"][0] is None:
            start = min(example["head"][0], example["tail"][0])
            raise UserError(
                f"the two entities and what lies between them do not fit in {limit} tokens: "
                f"{_around(example['text'], start, start)!r}."
            )
        if self.reads_pieces:
            encoded = without_markers(encoded, self.marking_tokenizer)
            for role, pieces in zip(("head", "tail"), *encoded.pop("entity_pieces"), strict=True):
                # Shifted by 1, as the pipeline pads batches with 0.
                encoded[f"{role}_pieces"] = [[1 + piece for piece in pieces] or [0]]
        return {"example": example, **{name: torch.tensor(rows) for name, rows in encoded.items()}}

    def _forward(self, model_inputs: dict[str, Any], output_attentions: bool = False) -> dict[str, Any]:
        example = model_inputs.pop("example")
        if self.reads_pieces:
            if output_attentions:
                raise UserError("the model reads the encoder's own attention, and has no fusion attention to return.")
            pieces = [model_inputs.pop(f"{role}_pieces") - 1 for role in ("head", "tail")]
            width = max(part.shape[1] for part in pieces)
            padded = [pad(part, (0, width - part.shape[1]), value=-1) for part in pieces]
            model_inputs["entity_pieces"] = torch.stack(padded, dim=1)
        outputs = self.model(**model_inputs, output_attentions=output_attentions)
        result = {"logits": outputs.logits, "example": example}
        if output_attentions:
            attentions = outputs.fusion_attentions
            result["input_ids"] = model_inputs["input_ids"]
            result["attention_mask"] = model_inputs["attention_mask"]
            result["fusion_attentions"] = torch.stack(attentions, dim=1) if attentions else None
        return result

    def postprocess(self, model_outputs: dict[str, Any], top_k: int | str | None = "") -> Any:
        example = model_outputs["example"]
        common = {role: example["given"][role] for role in ("head", "tail")}
        if "input_ids" in model_outputs:
            tokens = int(model_outputs["attention_mask"].sum())
            common["tokens"] = self.tokenizer.convert_ids_to_tokens(model_outputs["input_ids"][0, :tokens].tolist())
            common["fusion_attentions"] = _unpadded(model_outputs["fusion_attentions"], tokens)
        scores = model_outputs["logits"][0].float().softmax(dim=-1)
        ranked = scores.argsort(descending=True).tolist()[: 1 if top_k == "" else top_k]
        labels = self.model.config.id2label
        results = [{"label": labels[index], "score": scores[index].item(), **common} for index in ranked]
        return results[0] if top_k == "" else results


def _units(row: Mapping) -> str | Sequence | None:
    """The sequence that the spans of an input index: its tokens or its text."""
    return next((row[name] for name in ("token", "tokens", "text", "sentence") if row.get(name) is not None), None)


def _length(item: Any) -> int:
    """The approximate length of an input in characters. Invalid inputs are rejected later."""
    units = _units(item) if isinstance(item, Mapping) else item
    if isinstance(units, (list, tuple)):
        return sum(len(str(token)) + 1 for token in units)
    return len(units) if isinstance(units, str) else 0


def _example(inputs: Any) -> dict[str, Any]:
    """Validates an input and converts its spans to characters; `given` keeps them in the unit of the input."""
    from msattn.data.corpora.relation_rows import relation_row

    row = {"text": re.sub(r"\[(/?)E([12])\]", r"<\1e\2>", inputs)} if isinstance(inputs, str) else inputs
    try:
        example = relation_row(row, "the input")
    except UserError as error:
        raise UserError(f"{error}{_quoted(row, str(error))}") from None
    text, units = example["text"], _units(row)
    given = {}
    for role in ("head", "tail"):
        start, end = example[role]
        words = text[start:end]
        if isinstance(units, list):
            starts = [0, *accumulate(len(token) + 1 for token in units)]
            start, end = starts.index(start), starts.index(end + 1)
        elif units == text:
            _check_border(text, start, end, role)
        given[role] = {"start": start, "end": end, "text": words}
    return {**example, "given": given}


def _check_border(text: str, start: int, end: int, role: str) -> None:
    """
    Raises `UserError` if a span boundary is between two letters or two digits.

    Letters without case are allowed: most scripts without case do not separate words by spaces, or attach particles.
    """
    for offset in (start, end):
        pair = text[offset - 1 : offset + 1] if offset else ""
        if len(pair) == 2 and (all(map(_is_cased, pair)) or pair.isdecimal()):
            raise UserError(
                f"the input: the {role} span [{start}, {end}) cuts a word, {text[start:end]!r} in "
                f"{_around(text, start, end)!r}; count its characters again, or mark it as <e1>...</e1> if meant."
            )


def _is_cased(character: str) -> bool:
    return character.isupper() or character.islower()


def _quoted(row: Any, message: str) -> str:
    """The end of an error message: the text around the span that it is about."""
    units = _units(row) if isinstance(row, Mapping) else None
    if not isinstance(units, (str, list)):
        return ""
    role = "tail" if "the tail" in message else "head"
    span = row.get(role, row.get(role[0]))
    if not (isinstance(span, (list, tuple)) and len(span) == 2 and all(isinstance(bound, int) for bound in span)):
        span = (0, 0)
    return f" The text there: {_around(units, *span)!r}."


def _around(units: str | Sequence, start: int, end: int) -> str:
    """A span with its context: 40 characters or 8 tokens on each side."""
    reach = 40 if isinstance(units, str) else 8
    first = max(0, min(start, len(units)) - reach)
    last = max(0, min(end, len(units))) + reach
    cut = units[first:last]
    words = cut if isinstance(cut, str) else " ".join(map(str, cut))
    return f"{'...' if first else ''}{words}{'...' if last < len(units) else ''}"


def _unpadded(attentions: torch.Tensor | None, tokens: int) -> list:
    """Removes padding from `(1, layers, heads, padded, (1 + scales) * padded)`; returns one array per layer."""
    if attentions is None:
        return []
    blocks = attentions[0].unflatten(-1, (-1, attentions.shape[-2]))
    return list(blocks[..., :tokens, :, :tokens].flatten(-2).float().numpy())
