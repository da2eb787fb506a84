"""The pipeline `"relation-extraction"`: classifies the relations between the entities of a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
from transformers import (
    DataCollatorWithPadding,
    PreTrainedTokenizerBase,
    TokenClassificationPipeline,
    pipeline,
)
from transformers.pipelines.token_classification import AggregationStrategy
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn.configuration.max_tokens import most_tokens
from msattn.data.negative_label import find_negative_label
from msattn.errors import UserError
from msattn.pipelines.relation_inputs import Sentence, around, is_plain_text, read_input
from msattn.pipelines.text_pipeline import LOOKAHEAD, TextPipeline, given, refuse_others

logger = logging.get_logger(__name__)

# Marked copies of a text that are encoded together, and pairs that are scored together in one pass.
COPIES = 32
PAIRS = 1024
# Pairs of a text from which on it is strange that most of them have a relation.
MANY = 6


class RelationExtractionPipeline(TextPipeline):
    """
    Relation extraction pipeline for models of [`AutoModelForRelationExtraction`].

    An input is one of

    - a text with marked entities, `"The <e1>author</e1> of a <e2>book</e2>."` (or `[E1]...[/E1]`);
    - `{"text": ..., "head": [start, end], "tail": [start, end]}`, with spans in characters, the end exclusive;
    - `{"tokens": [...], "head": [start, end], "tail": [start, end]}`, with spans in tokens, the end exclusive;
    - `{"text": ..., "entities": [{"start", "end", "label"}, ...]}`, or with `tokens`; the entities may be the output
      of a token-classification pipeline, and their `label` is optional unless the model's markers name types;
    - a spaCy `Doc` or `Span`, with its `ents`; offsets count from its start;
    - a plain text, if `entities=` gives a model that finds them.

    The first three mark one pair, and their result is that of one relation. The others have any number of entities,
    and their result is a list of relations. Entities may overlap. Models with entity markers read a copy of the text
    for each pair, pairwise models score all pairs of a text in one pass. Texts may be longer than the model takes:
    each pair is read in a window around it.

    What training saw (`config.trained_pairs`) is the default: windows are as long as its texts, and heads come before
    tails if its related pairs did. Of several entities, pairs that do not fit in such a window have no relation.
    `max_length` and `order` widen it. Checkpoints that do not say what training saw pair all entities both ways.

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

    reads = ("entity_pieces", "entity_starts")

    def __init__(self, *args: Any, **kwargs: Any):
        self._taggers: dict[str, Any] = {}
        super().__init__(*args, **kwargs)
        config = self.model.config
        self.reads_pieces = "entity_pieces" in self.parameters
        self.style = getattr(config, "entity_markers", None) or "plain"
        self.labels = [config.id2label[number] for number in range(config.num_labels)]
        self.negative = _negative(config, self.labels)
        self.several = getattr(config, "problem_type", None) == "multi_label_classification"
        self.trained = getattr(config, "trained_pairs", None) or {}

    def _sanitize_parameters(
        self,
        top_k: int | str | None = "",
        threshold: float | None = None,
        negative: str | None = None,
        on_error: str | None = None,
        entities: Any = None,
        pairs: Sequence | None = None,
        max_length: int | None = None,
        order: str | None = None,
    ) -> tuple[dict, dict, dict]:
        # top_k=None means all labels, so "" is the default.
        if top_k not in ("", None) and (not isinstance(top_k, int) or top_k < 1):
            raise UserError(f"top_k must be a whole number from 1 on, or None for all labels, not {top_k!r}.")
        if threshold is not None and not 0 <= threshold <= 1:
            raise UserError(f"threshold must be a probability from 0 to 1, not {threshold!r}.")
        refuse_others("negative", negative, ("keep", "drop"))
        refuse_others("on_error", on_error, ("raise", "skip", "return"))
        refuse_others("order", order, ("text", "both"))
        ranking = given(threshold=threshold, negative=negative, on_error=on_error) | (
            {} if top_k == "" else {"top_k": top_k}
        )
        reading = given(max_length=max_length, entities=self._tagger(entities), pairs=pairs, order=order)
        return reading, {}, ranking

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
                Default: all pairs.
            order (`str`, *optional*):
                `"text"` for pairs whose head comes first, `"both"` for both orders. Default: that of training. Pairs
                of numbers are taken in any order.
            top_k (`int`, *optional*, defaults to 1):
                Number of relations a pair, best first; all of them for `None`. For one marked pair, the result is then
                a list, which has the negative label, too. Default for a model with several relations a pair: all that
                reach their thresholds; the result of one marked pair is a list.
            threshold (`float`, *optional*):
                Lowest probability of a relation. Default, if `top_k` is 1: that of the model
                (`config.relation_thresholds`, `config.decision_threshold`), or else the relation has to be the most
                probable label.
            negative (`str`, *optional*, defaults to `"drop"`):
                Whether to `"keep"` pairs without a relation, with the label that stands for it, or to `"drop"` them.
                With `top_k` above 1, that label is one of those that are kept. One marked pair has a result in any
                case.
            on_error (`str`, *optional*, defaults to `"raise"`):
                What a bad input is: an error (`"raise"`), no relation (`"skip"`), or the result `{"error": message}`
                (`"return"`). If an entity cannot be read, the model does not know its type, or two entities
                are too far apart for `max_length`, that concerns these pairs alone, and their items of the list have
                `head`, `tail` and `error`.
            max_length (`int`, *optional*):
                Maximum number of tokens; longer texts are cut to a window around both entities. Default: the length
                that covers 99 % of the training examples; one marked pair may take up to the limit of the model.
            batch_size (`int`, *optional*, defaults to 1): Number of inputs per batch.

        Returns:
            `dict[str, Any]` or `list[dict[str, Any]]`: `label`, `score` (probability), and `head` and `tail` with
            `start`, `end`, `text` and, if the input has it, `label`. Spans have the unit of the input: characters,
            without the marks of a marked text, or tokens. For an input with several entities, a list of these, best
            first. For many inputs, a list or an iterator of results.

        Raises:
            UserError: A span is out of range, empty or splits a word, a mark is missing or repeated, a pair names no
                two entities, the entities and the text between them exceed `max_length`, or an argument has no such
                value.
        """
        if hasattr(inputs, "ents") and hasattr(inputs, "text"):  # spaCy's `Doc` and `Span` are sequences, too
            return super().__call__([inputs], **kwargs)[0]
        return super().__call__(inputs, **kwargs)

    def answers(
        self, inputs: list, batch_size: int, preprocess_params: dict, forward_params: dict, postprocess_params: dict
    ) -> Iterator:
        asked = preprocess_params.get("max_length")
        limit = self.limit(asked)
        window = min(limit, self.trained.get("max_length", limit)) if asked is None else limit
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
        for number, pair in jobs:
            sentence: Any = sentences[number]
            first, second = (sentence.bad.get(entity) for entity in sentence.pairs[pair])
            if bad := first or second:
                found[number, pair] = bad
        jobs = [job for job in jobs if job not in found]
        run = self._one_pass if self.reads_pieces else self._copies
        for results in run(sentences, jobs, batch_size, window, limit):
            found.update(results)
        for number, sentence in enumerate(sentences):
            pairs = 0 if isinstance(sentence, UserError) else len(sentence.pairs)
            outcomes = [found[number, pair] for pair in range(pairs)]
            yield self.postprocess({"sentence": sentence, "outcomes": outcomes}, **postprocess_params)

    def preprocess(
        self,
        inputs: Any,
        max_length: int | None = None,
        entities: Any = None,
        pairs: Sequence | None = None,
        order: str | None = None,
    ) -> Sentence:
        """The text, the entities and the pairs of an input; see [`RelationExtractionPipeline.__call__`]."""
        if entities is not None and is_plain_text(inputs):
            inputs = {"text": inputs, "entities": entities(inputs)}
        sentence = read_input(
            inputs, pairs, self.trained.get("both_orders", True) if order is None else order == "both"
        )
        if not sentence.marked and not self.trained:
            logger.warning_once(
                "The checkpoint does not say which pairs it was trained on (config.trained_pairs), so entities are "
                "paired both ways, in windows as long as the model takes; order and max_length narrow that."
            )
        return sentence

    def _tagger(self, entities: Any) -> Any:
        if entities is None or callable(entities):
            return _to_the_end(entities)
        if entities not in self._taggers:
            tagger = pipeline("token-classification", model=entities, aggregation_strategy="first", device=self.device)
            self._taggers[entities] = _to_the_end(tagger)
        return self._taggers[entities]

    def _copies(
        self, sentences: Sequence, jobs: list[tuple[int, int]], batch_size: int, window: int, limit: int
    ) -> Iterator[dict]:
        """Reads a copy of the text with entity markers for each pair, in batches of similar length."""
        # Imported late, as `datasets` is slow to import.
        from msattn.data.inputs.entity_markers import encode_relations

        size = batch_size if all(sentences[number].marked for number, _ in jobs) else max(batch_size, COPIES)
        remaining = iter(jobs)
        while block := list(islice(remaining, LOOKAHEAD * size)):
            refused: dict[tuple[int, int], Any] = {}
            rows = {}
            for job in block:
                sentence = sentences[job[0]]
                head, tail = sentence.pairs[job[1]]
                try:
                    for most in dict.fromkeys((window, limit) if sentence.marked else (window,)):
                        columns = encode_relations(
                            self.tokenizer,
                            [sentence.text],
                            [sentence.spans[head]],
                            [sentence.spans[tail]],
                            most,
                            style=self.style,
                            types=[(sentence.types[head], sentence.types[tail])],
                        )
                        if columns["input_ids"][0] is not None:
                            break
                except UserError as error:
                    refused[job] = error
                    continue
                if columns["input_ids"][0] is None:
                    refused[job] = _too_far(sentence, job[1], most) if most == limit else None
                else:
                    rows[job] = {name: values[0] for name, values in columns.items()}
            yield refused
            by_length = iter(sorted(rows, key=lambda job: -len(rows[job]["input_ids"])))
            while batch := list(islice(by_length, size)):
                inputs = DataCollatorWithPadding(self.tokenizer)([rows[job] for job in batch])
                yield dict(zip(batch, self.forward(inputs)["logits"], strict=True))

    def _one_pass(
        self, sentences: Sequence, jobs: list[tuple[int, int]], batch_size: int, window: int, limit: int
    ) -> Iterator[dict]:
        """Reads each text once, or once a window, and scores all its pairs."""
        from msattn.data.inputs.entity_pieces import encode_entities, special_tokens, window_start

        begin, end = special_tokens(self.tokenizer)
        refused: dict[tuple[int, int], Any] = {}
        texts = {}
        windows: dict[tuple[int, int, int], list] = defaultdict(list)
        for job in jobs:
            number, pair = job
            sentence = sentences[number]
            if number not in texts:
                texts[number] = encode_entities(self.tokenizer, sentence.text, sentence.spans)
            pieces = [texts[number].pieces[entity] for entity in sentence.pairs[pair]]
            every = list(chain(*pieces)) or [0]
            for most in dict.fromkeys((window, limit) if sentence.marked else (window,)):
                room = most - len(begin) - len(end)
                start = window_start(len(texts[number].ids), room, min(every), max(every) + 1)
                if start is not None:
                    break
            if start is None:
                refused[job] = _too_far(sentence, pair, most) if most == limit else None
            else:
                places = [[len(begin) + at - start for at in entity] for entity in pieces]
                windows[number, start, room].append((job, places))
        yield refused
        # Blocks of pairs of a window, longest windows first.
        blocks = [
            ([*begin, *texts[number].ids[start : start + room], *end], of_window[first : first + PAIRS])
            for (number, start, room), of_window in windows.items()
            for first in range(0, len(of_window), PAIRS)
        ]
        blocks.sort(key=lambda block: -len(block[0]))
        for first in range(0, len(blocks), batch_size):
            batch = blocks[first : first + batch_size]
            inputs = DataCollatorWithPadding(self.tokenizer)([_row(self.tokenizer, ids) for ids, _ in batch])
            inputs["entity_pieces"] = _padded_pieces([[pair for _, pair in of_window] for _, of_window in batch])
            logits = self.forward(inputs)["logits"]
            yield {
                job: of_pair
                for (_, of_window), of_text in zip(batch, logits, strict=True)
                for (job, _), of_pair in zip(of_window, of_text, strict=False)
            }

    def _forward(self, model_inputs: dict[str, Any]) -> dict[str, Any]:
        return {"logits": self.model(**model_inputs).logits}

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
        failed = [o for o in outcomes if isinstance(o, UserError)]
        errors = [sentence] if isinstance(sentence, UserError) else [*sentence.bad.values(), *failed]
        if errors and on_error == "raise":
            if len(outcomes) > 1:
                raise UserError(f'{errors[0]} on_error="skip" leaves out such pairs, "return" says which they are.')
            raise errors[0]
        if isinstance(sentence, UserError) or (errors and (sentence.marked or not outcomes)):
            return [] if on_error == "skip" else {"error": str(errors[0])}
        if sentence.marked:
            return self._of_marked_pair(sentence, outcomes[0], top_k, threshold)
        relations, refused = [], []
        if far := sum(outcome is None for outcome in outcomes):
            logger.warning_once(
                f"{far} of the {len(outcomes)} pairs of a text are farther apart than those of training and have no "
                "relation; max_length widens the window."
            )
        for (head, tail), outcome in zip(sentence.pairs, outcomes, strict=True):
            if outcome is None:
                continue
            if isinstance(outcome, UserError):
                refused.append({**sentence.entities(head, tail), "error": str(outcome)})
            else:
                scored = self._relations(self._probabilities(outcome), top_k, threshold, negative == "keep")
                relations += [
                    {**sentence.entities(head, tail), "label": label, "score": score} for label, score in scored
                ]
        self._warn_of_many(relations, len(outcomes))
        relations.sort(key=lambda relation: -relation["score"])
        if refused and on_error == "skip":
            logger.warning(f"{len(refused)} of {len(outcomes)} pairs were skipped; the first: {refused[0]['error']}")
        return relations + (refused if on_error == "return" else [])

    def _warn_of_many(self, relations: Sequence[dict[str, Any]], pairs: int) -> None:
        related = {
            tuple(relation[role][bound] for role in ("head", "tail") for bound in ("start", "end"))
            for relation in relations
            if relation["label"] != self.negative
        }
        if pairs >= MANY and len(related) > pairs / 2:
            logger.warning_once(
                f"{len(related)} of the {pairs} pairs of a text got a relation. Most pairs of a text have none: "
                "train on texts that list their entities, or raise threshold."
            )

    def _of_marked_pair(self, sentence: Sentence, logits: torch.Tensor, top_k: Any, threshold: float | None) -> Any:
        probabilities = self._probabilities(logits)
        if self.several or top_k in ("", 1):
            ranked: Sequence[tuple[str | None, float]] = self._relations(probabilities, top_k, threshold, keep=True)
        else:
            ranked = sorted(zip(self.labels, probabilities, strict=True), key=lambda item: -item[1])[:top_k]
            ranked = [item for item in ranked if item[1] >= (threshold or 0)]
        if top_k == "" and not self.several:
            ranked = ranked or [(None, max(probabilities))]
        results = [{"label": label, "score": score, **sentence.entities(0, 1)} for label, score in ranked]
        return results[0] if top_k == "" and not self.several else results

    def _probabilities(self, logits: torch.Tensor) -> list[float]:
        scaled = logits.float() / (getattr(self.model.config, "calibration_temperature", None) or 1.0)
        return (scaled.sigmoid() if self.several else scaled.softmax(dim=-1)).tolist()

    def _relations(
        self, probabilities: list[float], top_k: Any, threshold: float | None, keep: bool
    ) -> list[tuple[str, float]]:
        """Labels and probabilities of the relations of a pair, best first, or those of the negative label."""
        ranked = sorted(zip(self.labels, probabilities, strict=True), key=lambda item: -item[1])
        none = [(label, score) for label, score in ranked if label == self.negative]
        stored = threshold is None and (top_k == "" or (top_k == 1 and not self.several))
        if self.several:
            none = [(self.negative, 1 - ranked[0][1])] if self.negative else []
            top_k = None if top_k == "" else top_k
        elif top_k in ("", 1):
            ranked, top_k = [item for item in ranked if item not in none][:1], 1
            if none and stored and getattr(self.model.config, "decision_threshold", None) is None:
                ranked = [item for item in ranked if item[1] >= none[0][1]]
        elif not keep:
            ranked = [item for item in ranked if item not in none]
        relations = [item for item in ranked[:top_k] if item[1] >= (self._cut(item[0]) if stored else threshold or 0)]
        return relations or (none if keep else [])

    def _cut(self, label: str) -> float:
        """The threshold of a relation."""
        config = self.model.config
        own = (getattr(config, "relation_thresholds", None) or {}).get(label)
        every = getattr(config, "decision_threshold", None)
        return own if own is not None else every if every is not None else 0.5 if self.several else 0.0


def _to_the_end(tagger: Any) -> Any:
    """A tagger that reads long texts in overlapping windows: token-classification pipelines cut them otherwise."""
    own = isinstance(tagger, TokenClassificationPipeline) and tagger.tokenizer.is_fast
    # Without aggregation, its tokens are numbered window by window, and `_merged` could not join them.
    if not own or tagger._postprocess_params.get("aggregation_strategy") in (None, AggregationStrategy.NONE):
        return tagger
    longest = min(tagger.tokenizer.model_max_length, most_tokens(tagger.model.config) or VERY_LARGE_INTEGER)
    if longest >= VERY_LARGE_INTEGER:
        return tagger
    tagger.tokenizer.model_max_length = longest
    return partial(tagger, stride=longest // 4)


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
