"""The pipeline `"relation-extraction"`: classifies the relations between the entities of a text."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import torch
from transformers import DataCollatorWithPadding, PreTrainedTokenizerBase, pipeline
from transformers.utils import logging

from msattn.configuration.max_tokens import most_tokens
from msattn.data.negative_label import find_negative_label
from msattn.errors import UserError
from msattn.pipelines.length_sorted import LOOKAHEAD, LengthSortedPipeline
from msattn.pipelines.relation_inputs import Sentence, around, is_plain_text, read_input, sequence_of

logger = logging.get_logger(__name__)

# Marked copies of a text that are encoded together, and pairs that are scored together in one pass.
COPIES = 32
PAIRS = 1024
# From this number of pairs on, a progress bar is shown.
MANY_PAIRS = 2000


class RelationExtractionPipeline(LengthSortedPipeline):
    """
    Relation extraction pipeline for models of [`AutoModelForRelationExtraction`].

    An input is one of

    - a text with marked entities, `"The <e1>author</e1> of a <e2>book</e2>."` (or `[E1]...[/E1]`);
    - `{"text": ..., "head": [start, end], "tail": [start, end]}`, with spans in characters, the end exclusive;
    - `{"tokens": [...], "head": [start, end], "tail": [start, end]}`, with spans in tokens, the end exclusive;
    - `{"text": ..., "entities": [{"start", "end", "label"}, ...]}`, or with `tokens`; the entities may be the output
      of a token-classification pipeline, and their `label` is optional unless the model's markers name types;
    - a spaCy `Doc`, with its `ents`;
    - a plain text, if `entities=` gives a model that finds them.

    The first three mark one pair, and their result is that of one relation. The others have any number of entities,
    and their result is a list of relations. Entities may overlap. Models with entity markers read a copy of the text
    for each pair, pairwise models score all pairs of a text in one pass. Texts may be longer than the model takes:
    each pair is read in a window around it.

    Lists, datasets and generators of inputs work too. With `batch_size`, texts of similar length are batched together.
    Results have the order of the inputs.

    Example:

    ```python
    >>> import msattn
    >>> from transformers import pipeline

    >>> extractor = pipeline("relation-extraction", model="outputs/semeval")
    >>> extractor("The <e1>author</e1> of a <e2>book</e2>.")
    {'label': 'Product-Producer(e2,e1)', 'score': 0.98,
     'head': {'start': 4, 'end': 10, 'text': 'author'}, 'tail': {'start': 16, 'end': 20, 'text': 'book'}}
    >>> extractor({"text": "The author of a book.", "entities": [{"start": 4, "end": 10}, {"start": 16, "end": 20}]})
    [{'head': {'start': 4, 'end': 10, 'text': 'author'}, 'tail': {'start': 16, 'end': 20, 'text': 'book'},
      'label': 'Product-Producer(e2,e1)', 'score': 0.98}]
    >>> extractor("Ann lives in Rome.", entities="dslim/bert-base-NER")
    ```
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args: Any, **kwargs: Any):
        self._taggers: dict[str, Any] = {}
        super().__init__(*args, **kwargs)
        parameters = inspect.signature(self.model.forward).parameters
        self.reads_pieces = "entity_pieces" in parameters
        if not self.reads_pieces and "entity_starts" not in parameters:
            raise UserError(
                f"{self.model.name_or_path or 'the model'} holds a {type(self.model).__name__}, which extracts no "
                "relations; give a checkpoint that run_re.py has trained."
            )
        if self.reads_pieces and not getattr(self.model, "scores_many_pairs", False):
            raise UserError(
                f"{self.model.name_or_path or 'the model'} brings code of version 0.1, which scores one pair at a "
                "time; leave out trust_remote_code=True, so that msattn's own code is used."
            )
        # Entity positions are counted from the left.
        self.tokenizer.padding_side = "right"
        config = self.model.config
        self.style = getattr(config, "entity_markers", None) or "plain"
        self.labels = [config.id2label[number] for number in range(config.num_labels)]
        self.negative = _negative(config, self.labels)

    def _sanitize_parameters(
        self,
        top_k: int | str | None = "",
        threshold: float | None = None,
        negative: str | None = None,
        on_error: str | None = None,
        entities: Any = None,
        pairs: Sequence | None = None,
        output_attentions: bool | None = None,
        max_length: int | None = None,
        **unknown: Any,
    ) -> tuple[dict, dict, dict]:
        for name in unknown:
            raise UserError(
                f"the relation extraction pipeline takes no {name}; it takes entities, pairs, top_k, threshold, "
                "negative, on_error, max_length, output_attentions and batch_size."
            )
        # top_k=None means all labels, so "" is the default.
        if top_k not in ("", None) and (not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1):
            raise UserError(f"top_k must be a whole number from 1 on, or None for all labels, not {top_k!r}.")
        if threshold is not None and (not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1):
            raise UserError(f"threshold must be a probability from 0 to 1, not {threshold!r}.")
        if max_length is not None and (
            not isinstance(max_length, int) or isinstance(max_length, bool) or max_length < 1
        ):
            raise UserError(f"max_length must be a whole number from 1 on, not {max_length!r}.")
        if pairs is not None and not isinstance(pairs, (list, tuple)):
            raise UserError(f'pairs must be a list such as [(0, 2)] or [("PER", "LOC")], not {pairs!r}.')
        if negative not in (None, "keep", "drop"):
            raise UserError(f'negative must be "keep" or "drop", not {negative!r}.')
        if on_error not in (None, "raise", "skip", "return"):
            raise UserError(f'on_error must be "raise", "skip" or "return", not {on_error!r}.')
        preprocess = {"max_length": max_length, "entities": self._tagger(entities), "pairs": pairs}
        forward = {"output_attentions": output_attentions}
        postprocess = {"threshold": threshold, "negative": negative, "on_error": on_error}
        given = [
            {name: value for name, value in part.items() if value is not None}
            for part in (preprocess, forward, postprocess)
        ]
        if top_k != "":
            given[2]["top_k"] = top_k
        return given[0], given[1], given[2]

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Extracts the relations of one or more inputs.

        Args:
            inputs (`Any`): One input or many; see [`RelationExtractionPipeline`].
            entities (`str` or `Pipeline`, *optional*):
                A token-classification model that finds the entities of plain texts: a folder, a name on the Hub, or a
                pipeline.
            pairs (`Sequence`, *optional*):
                Which of the entities to pair: numbers, `[(0, 2), ...]`, or types, `[("PER", "ORG"), ...]`; head first.
                Default: all ordered pairs.
            top_k (`int`, *optional*, defaults to 1):
                Number of relations a pair, best first; all of them for `None`. For one marked pair, the result is then
                a list, which has the negative label, too.
            threshold (`float`, *optional*):
                Lowest probability of a relation. Default, if `top_k` is 1: that of the model
                (`config.decision_threshold`), or else the relation has to be the most probable label.
            negative (`str`, *optional*, defaults to `"drop"`):
                Whether to `"keep"` pairs without a relation, with the label that stands for it, or to `"drop"` them.
                With `top_k` above 1, that label is one of those that are kept. One marked pair has a result in any
                case.
            on_error (`str`, *optional*, defaults to `"raise"`):
                What a bad input is: an error (`"raise"`), no relation (`"skip"`), or the result `{"error": message}`
                (`"return"`). If the entities of a pair are too far apart for the model, or it does not know their
                type, that concerns this pair alone, and its item of the list has `head`, `tail` and `error`.
            output_attentions (`bool`, *optional*, defaults to `False`):
                Whether to add `tokens` and `fusion_attentions`, with one array of shape
                `(heads, tokens, (1 + scales) * tokens)` per fusion layer. For one marked pair only.
            max_length (`int`, *optional*):
                Maximum number of tokens; longer texts are cut to a window around both entities. Default: the limit of
                the model and the tokenizer.
            batch_size (`int`, *optional*, defaults to 1): Number of inputs per batch.

        Returns:
            `dict[str, Any]` or `list[dict[str, Any]]`: `label`, `score` (probability), and `head` and `tail` with
            `start`, `end`, `text` and, if the input has it, `label`. Spans have the unit of the input: characters,
            without the marks of a marked text, or tokens. For an input with several entities, a list of these, best
            first. For many inputs, a list or an iterator of results.

        Raises:
            UserError: A span is out of range, empty or splits a word, a mark is missing or repeated, a pair names no
                two entities, the entities and the text between them exceed `max_length`, an argument has no such
                value, or `output_attentions` is set for a pairwise model or several entities.
        """
        if hasattr(inputs, "ents") and hasattr(inputs, "text"):  # a spaCy `Doc` is a sequence, too
            return super().__call__([inputs], **kwargs)[0]
        return super().__call__(inputs, **kwargs)

    def input_length(self, item: Any) -> int:
        """The approximate length of an input in characters."""
        units = sequence_of(item) if isinstance(item, Mapping) else getattr(item, "text", item)
        if isinstance(units, (list, tuple)):
            return sum(len(str(token)) + 1 for token in units)
        return len(units) if isinstance(units, str) else 0

    def run_single(self, inputs: Any, preprocess_params: dict, forward_params: dict, postprocess_params: dict) -> Any:
        return next(iter(self.get_iterator([inputs], 0, 1, preprocess_params, forward_params, postprocess_params)))

    def get_iterator(
        self,
        inputs: Any,
        num_workers: int,
        batch_size: int,
        preprocess_params: dict,
        forward_params: dict,
        postprocess_params: dict,
    ) -> Iterator:
        items = iter(inputs if isinstance(inputs, Iterable) else map(inputs.__getitem__, range(len(inputs))))
        while window := list(islice(items, LOOKAHEAD * batch_size if batch_size > 1 else 1)):
            yield from self._run(window, batch_size, preprocess_params, forward_params, postprocess_params)

    def _run(
        self, inputs: list, batch_size: int, preprocess_params: dict, forward_params: dict, postprocess_params: dict
    ) -> Iterator:
        max_length = preprocess_params.get("max_length")
        limits = (max_length, self.tokenizer.model_max_length, most_tokens(self.model.config))
        limit = min(limit for limit in limits if limit is not None)
        sentences: list[Sentence | UserError] = []
        for item in inputs:
            try:
                sentences.append(self.preprocess(item, **preprocess_params))
            except UserError as error:
                if postprocess_params.get("on_error", "raise") == "raise":
                    raise
                sentences.append(error)
        jobs = [
            (number, pair)
            for number, sentence in enumerate(sentences)
            if isinstance(sentence, Sentence)
            for pair in range(len(sentence.pairs))
        ]
        found: dict[tuple[int, int], Any] = {}
        run = self._one_pass if self.reads_pieces else self._copies
        with logging.tqdm(total=len(jobs), desc="Pairs", disable=len(jobs) < MANY_PAIRS, leave=False) as bar:
            for results in run(sentences, jobs, batch_size, limit, forward_params):
                found.update(results)
                bar.update(len(results))
        for number, sentence in enumerate(sentences):
            pairs = 0 if isinstance(sentence, UserError) else len(sentence.pairs)
            outcomes = [found[number, pair] for pair in range(pairs)]
            yield self.postprocess({"sentence": sentence, "outcomes": outcomes}, **postprocess_params)

    def preprocess(
        self, inputs: Any, max_length: int | None = None, entities: Any = None, pairs: Sequence | None = None
    ) -> Sentence:
        """The text, the entities and the pairs of an input; see [`RelationExtractionPipeline.__call__`]."""
        if entities is not None and is_plain_text(inputs):
            inputs = {"text": inputs, "entities": entities(inputs)}
        return read_input(inputs, pairs)

    def _tagger(self, entities: Any) -> Any:
        if entities is None or callable(entities):
            return entities
        if not isinstance(entities, str):
            raise UserError(
                f"entities must be a token-classification model, by name or as a pipeline, not {entities!r}."
            )
        if entities not in self._taggers:
            try:
                self._taggers[entities] = pipeline(
                    "token-classification", model=entities, aggregation_strategy="first", device=self.device
                )
            except (OSError, ValueError):
                raise UserError(
                    f"entities={entities!r}: it is neither the folder of a token-classification model nor its name on "
                    "the Hub."
                ) from None
        return self._taggers[entities]

    def _copies(
        self, sentences: Sequence, jobs: list[tuple[int, int]], batch_size: int, limit: int, forward_params: dict
    ) -> Iterator[dict]:
        """Reads a copy of the text with entity markers for each pair, in batches of similar length."""
        # Imported late, as `datasets` is slow to import.
        from msattn.data.inputs.entity_markers import encode_relations

        size = batch_size if all(sentences[number].marked for number, _ in jobs) else max(batch_size, COPIES)
        remaining = iter(jobs)
        while block := list(islice(remaining, LOOKAHEAD * size)):
            refused, rows = {}, {}
            for job in block:
                sentence = sentences[job[0]]
                head, tail = sentence.pairs[job[1]]
                try:
                    columns = encode_relations(
                        self.tokenizer,
                        [sentence.text],
                        [sentence.spans[head]],
                        [sentence.spans[tail]],
                        limit,
                        style=self.style,
                        types=[(sentence.types[head], sentence.types[tail])],
                    )
                except UserError as error:
                    refused[job] = error
                    continue
                if columns["input_ids"][0] is None:
                    refused[job] = _too_far(sentence, job[1], limit)
                else:
                    rows[job] = {name: values[0] for name, values in columns.items()}
            yield refused
            by_length = iter(sorted(rows, key=lambda job: -len(rows[job]["input_ids"])))
            while batch := list(islice(by_length, size)):
                several = not all(sentences[number].marked for number, _ in batch)
                inputs = DataCollatorWithPadding(self.tokenizer)([rows[job] for job in batch])
                outputs = self.forward({**inputs, "several": several}, **forward_params)
                yield dict(zip(batch, self._unbatched(outputs), strict=True))

    def _one_pass(
        self, sentences: Sequence, jobs: list[tuple[int, int]], batch_size: int, limit: int, forward_params: dict
    ) -> Iterator[dict]:
        """Reads each text once, or once a window, and scores all its pairs."""
        from msattn.data.inputs.entity_pieces import encode_entities, special_tokens, window_start

        begin, end = special_tokens(self.tokenizer)
        room, refused, texts = limit - len(begin) - len(end), {}, {}
        windows: dict[tuple[int, int], list] = defaultdict(list)
        for job in jobs:
            number, pair = job
            sentence = sentences[number]
            if number not in texts:
                texts[number] = encode_entities(self.tokenizer, sentence.text, sentence.spans)
            pieces = [texts[number].pieces[entity] for entity in sentence.pairs[pair]]
            every = list(chain(*pieces)) or [0]
            start = window_start(len(texts[number].ids), room, min(every), max(every) + 1)
            if start is None:
                refused[job] = _too_far(sentence, pair, limit)
            else:
                places = [[len(begin) + at - start for at in entity] for entity in pieces]
                windows[number, start].append((job, places))
        yield refused
        # Blocks of pairs of a window, longest windows first.
        blocks = [
            ([*begin, *texts[number].ids[start : start + room], *end], of_window[first : first + PAIRS])
            for (number, start), of_window in windows.items()
            for first in range(0, len(of_window), PAIRS)
        ]
        blocks.sort(key=lambda block: -len(block[0]))
        for first in range(0, len(blocks), batch_size):
            batch = blocks[first : first + batch_size]
            several = not all(sentences[job[0]].marked for _, of_window in batch for job, _ in of_window)
            inputs = DataCollatorWithPadding(self.tokenizer)([_row(self.tokenizer, ids) for ids, _ in batch])
            pairs = _padded_pieces([[pair for _, pair in of_window] for _, of_window in batch])
            outputs = self.forward({**inputs, "entity_pieces": pairs, "several": several}, **forward_params)
            yield {
                job: {"logits": logits}
                for (_, of_window), rows in zip(batch, outputs["logits"], strict=True)
                for (job, _), logits in zip(of_window, rows, strict=False)
            }

    def _forward(self, model_inputs: dict[str, Any], output_attentions: bool = False) -> dict[str, Any]:
        several = model_inputs.pop("several")
        if output_attentions and self.reads_pieces:
            raise UserError("the model reads the encoder's own attention, and has no fusion attention to return.")
        if output_attentions and several:
            raise UserError("output_attentions is for inputs that mark one pair.")
        outputs = self.model(**model_inputs, output_attentions=output_attentions)
        result = {"logits": outputs.logits}
        if output_attentions:
            attentions = outputs.fusion_attentions
            result["input_ids"] = model_inputs["input_ids"]
            result["attention_mask"] = model_inputs["attention_mask"]
            result["fusion_attentions"] = torch.stack(attentions, dim=1) if attentions else None
        return result

    def _unbatched(self, outputs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The rows of a batch: `logits` and, on request, the attention of the real tokens."""
        for row, logits in enumerate(outputs["logits"]):
            result: dict[str, Any] = {"logits": logits}
            if "input_ids" in outputs:
                tokens = int(outputs["attention_mask"][row].sum())
                ids = outputs["input_ids"][row, :tokens].tolist()
                attentions = outputs["fusion_attentions"]
                result["tokens"] = self.tokenizer.convert_ids_to_tokens(ids)
                result["fusion_attentions"] = [] if attentions is None else _unpadded(attentions[row], tokens)
            yield result

    def postprocess(
        self,
        model_outputs: dict[str, Any],
        top_k: int | str | None = "",
        threshold: float | None = None,
        negative: str = "drop",
        on_error: str = "raise",
    ) -> Any:
        """The relations of an input, from the outcomes of its pairs: logits or errors."""
        sentence, outcomes = model_outputs["sentence"], model_outputs["outcomes"]
        errors = [sentence] if isinstance(sentence, UserError) else [o for o in outcomes if isinstance(o, UserError)]
        if errors and on_error == "raise":
            if len(outcomes) > 1:
                raise UserError(f'{errors[0]} on_error="skip" leaves out such pairs, "return" says which they are.')
            raise errors[0]
        if isinstance(sentence, UserError) or (errors and sentence.marked):
            return [] if on_error == "skip" else {"error": str(errors[0])}
        if sentence.marked:
            return self._of_marked_pair(sentence, outcomes[0], top_k, threshold)
        relations, refused = [], []
        for (head, tail), outcome in zip(sentence.pairs, outcomes, strict=True):
            if isinstance(outcome, UserError):
                refused.append({**sentence.entities(head, tail), "error": str(outcome)})
            else:
                scored = self._relations(self._probabilities(outcome), top_k, threshold, negative == "keep")
                relations += [
                    {**sentence.entities(head, tail), "label": label, "score": score} for label, score in scored
                ]
        relations.sort(key=lambda relation: -relation["score"])
        if refused and on_error == "skip":
            logger.warning(f"{len(refused)} of {len(outcomes)} pairs were skipped; the first: {refused[0]['error']}")
        return relations + (refused if on_error == "return" else [])

    def _of_marked_pair(self, sentence: Sentence, outcome: dict, top_k: Any, threshold: float | None) -> Any:
        others = {name: value for name, value in outcome.items() if name != "logits"}
        probabilities = self._probabilities(outcome)
        if top_k in ("", 1):
            ranked: Sequence[tuple[str | None, float]] = self._relations(probabilities, 1, threshold, keep=True)
        else:
            ranked = sorted(zip(self.labels, probabilities, strict=True), key=lambda item: -item[1])[:top_k]
            ranked = [item for item in ranked if item[1] >= (threshold or 0)]
        if top_k == "":
            ranked = ranked or [(None, max(probabilities))]
        results = [{"label": label, "score": score, **sentence.entities(0, 1), **others} for label, score in ranked]
        return results[0] if top_k == "" else results

    def _probabilities(self, outcome: Mapping) -> list[float]:
        temperature = getattr(self.model.config, "calibration_temperature", None) or 1.0
        return (outcome["logits"].float() / temperature).softmax(dim=-1).tolist()

    def _relations(
        self, probabilities: list[float], top_k: Any, threshold: float | None, keep: bool
    ) -> list[tuple[str, float]]:
        """Labels and probabilities of the relations of a pair, best first, or those of the negative label."""
        ranked = sorted(zip(self.labels, probabilities, strict=True), key=lambda item: -item[1])
        none = [(label, score) for label, score in ranked if label == self.negative]
        if top_k in ("", 1):
            ranked, top_k = [item for item in ranked if item not in none][:1], 1
            if threshold is None:
                threshold = getattr(self.model.config, "decision_threshold", None)
                if none and threshold is None:
                    ranked = [item for item in ranked if item[1] >= none[0][1]]
        elif not keep:
            ranked = [item for item in ranked if item not in none]
        relations = [(label, score) for label, score in ranked[:top_k] if score >= (threshold or 0)]
        return relations or (none if keep else [])


def _negative(config: Any, labels: Sequence[str]) -> str | None:
    """The label of no relation: that of the configuration or, in older checkpoints, the one with such a meaning."""
    given = getattr(config, "negative_label", None)
    if given is not None:
        return given or None
    try:
        return find_negative_label(labels)
    except UserError as error:
        logger.warning(f"Every label counts as a relation: {error} Set config.negative_label to its name.")
        return None


def _too_far(sentence: Sentence, pair: int, limit: int) -> UserError:
    head, tail = (sentence.spans[entity] for entity in sentence.pairs[pair])
    start = min(head[0], tail[0])
    return UserError(
        f"the two entities and what lies between them do not fit in {limit} tokens: "
        f"{around(sentence.text, start, start)!r}."
    )


def _row(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> dict[str, list[int]]:
    row = {"input_ids": ids, "attention_mask": [1] * len(ids)}
    return {**row, "token_type_ids": [0] * len(ids)} if "token_type_ids" in tokenizer.model_input_names else row


def _padded_pieces(batch: list[list[list[list[int]]]]) -> torch.Tensor:
    """Positions of the pieces of both entities of each pair, `(batch, pairs, 2, m)`, -1 for none."""
    most = max(len(pairs) for pairs in batch)
    width = max(1, *(len(entity) for pairs in batch for pair in pairs for entity in pair))
    padded = torch.full((len(batch), most, 2, width), -1)
    for row, pairs in enumerate(batch):
        for column, pair in enumerate(pairs):
            for role, entity in enumerate(pair):
                padded[row, column, role, : len(entity)] = torch.tensor(entity, dtype=torch.long)
    return padded


def _unpadded(attentions: torch.Tensor, tokens: int) -> list:
    """Removes padding from `(layers, heads, padded, (1 + scales) * padded)`; returns one array per layer."""
    blocks = attentions.unflatten(-1, (-1, attentions.shape[-2]))
    return list(blocks[..., :tokens, :, :tokens].flatten(-2).float().numpy())
