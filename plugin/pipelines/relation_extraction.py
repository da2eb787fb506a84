"""The pipeline `"relation-extraction"`: classifies the relations between the entities of a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    DataCollatorWithPadding,
    TokenClassificationPipeline,
)
from transformers.pipelines.token_classification import AggregationStrategy
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER
from transformers.utils import logging

from msattn.configuration.max_tokens import most_tokens
from msattn.data.files.checked_text import check_text
from msattn.data.negative_label import find_negative_label
from msattn.data.pair_rules import PairRules
from msattn.errors import TooFarApart, UserError
from msattn.pipelines.relation_inputs import WHERE, Sentence, around, check_pairs, read_input, text_alone
from msattn.pipelines.text_pipeline import LOOKAHEAD, TextPipeline, given, refuse_others
from msattn.pipelines.word_tagger import WordTagger

logger = logging.get_logger(__name__)

# Marked copies of a text that are encoded together, and pairs that are scored together in one pass.
COPIES = 32
PAIRS = 1024
# Pairs of a text from which on it is strange that most of them have a relation.
MANY = 6


class Outcomes:
    """
    What the model says of the pairs of a text.

    Args:
        sentence (`Sentence`): The text.
        labels (`int`): The number of labels.

    Attributes:
        logits (`torch.Tensor` of shape `(pairs, labels)`): 0 where a pair is refused.
        refused (`dict[int, UserError | None]`):
            What is wrong with pairs; `None` for those that are farther apart than the pairs of training.
    """

    def __init__(self, sentence: Sentence, labels: int):
        self.sentence = sentence
        self.logits = torch.zeros(len(sentence.pairs), labels)
        bad = sentence.bad
        self.refused: dict[int, UserError | None] = {
            pair: bad.get(head) or bad[tail]
            for pair, (head, tail) in enumerate(sentence.pairs if bad else ())
            if head in bad or tail in bad
        }

    def open(self) -> list[int]:
        """The pairs that are not refused."""
        return [pair for pair in range(len(self.sentence.pairs)) if pair not in self.refused]


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

    The first three mark one pair and give one relation, or a list with `top_k` or a model of several relations a pair.
    The others have any number of entities and give a list of relations. Entities may overlap. Models with entity
    markers read a copy of the text for each pair; pairwise models score all pairs of a text in one pass. Each pair of
    a long text is read in a window around it.

    Defaults are what training saw (`config.trained_pairs`): pairs of the types, order and distance of its related
    pairs, in windows as long as its texts. Of several entities, pairs that do not fit into such a window have no
    relation. `pairs`, `order`, `same_sentence` and `max_length` widen this. Checkpoints without `trained_pairs` pair
    all entities both ways.

    Lists, datasets and generators of inputs work, too. With `batch_size`, texts of similar length are batched
    together; results have the order of the inputs.

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

    reads = ("entity_pieces", "entity_starts", "entity_ends")

    def __init__(self, *args: Any, **kwargs: Any):
        self._taggers: dict[tuple, Any] = {}
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
        pairs: Sequence | str | None = None,
        max_length: int | None = None,
        order: str | None = None,
        same_sentence: bool | None = None,
        merge: bool | None = None,
        word_tokenizer: Callable[[str], Any] | str | None = None,
        lang: str | None = None,
    ) -> tuple[dict, dict, dict]:
        # top_k=None means all labels, so "" is the default.
        if top_k not in ("", None) and (not isinstance(top_k, int) or top_k < 1):
            raise UserError(f"top_k must be a whole number from 1 on, or None for all labels, not {top_k!r}.")
        if threshold is not None and not 0 <= threshold <= 1:
            raise UserError(f"threshold must be a probability from 0 to 1, not {threshold!r}.")
        refuse_others("negative", negative, ("keep", "drop"))
        refuse_others("on_error", on_error, ("raise", "skip", "return"))
        refuse_others("order", order, ("text", "both"))
        check_pairs(pairs)
        ranking = given(threshold=threshold, negative=negative, on_error=on_error, merge=merge) | (
            {} if top_k == "" else {"top_k": top_k}
        )
        tagger = self._tagger(entities, **given(word_tokenizer=word_tokenizer, lang=lang))
        reading = given(
            **{"max_length": max_length, "entities": tagger, "pairs": pairs},
            **{"order": order, "same_sentence": same_sentence},
        )
        return reading, {}, ranking

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Extracts the relations of one or more inputs.

        Args:
            inputs (`Any`): One input or many; see [`RelationExtractionPipeline`].
            entities (`str`, `Pipeline` or `WordTagger`, *optional*):
                A token-classification model that finds the entities of plain texts: a folder, a name on the Hub, a
                pipeline or a [`WordTagger`].
            word_tokenizer, lang (*optional*):
                What splits texts for the model that `entities` names; see [`WordTagger`].
            pairs (`Sequence` or `str`, *optional*):
                The entities to pair, head first, by number, `[(0, 2), ...]`, or by type, `[("PER", "ORG"), ...]`.
                Default: the types that have relations in training; `"all"`: any types.
            order (`str`, *optional*):
                `"text"` for pairs whose head comes first, `"both"` for both orders. Default: that of training. Pairs
                given by number may have any order and be in any sentences.
            same_sentence (`bool`, *optional*):
                `True` for pairs in one sentence, `False` for pairs of any sentences. Default: as far apart as those of
                training.
            merge (`bool`, *optional*, defaults to `False`):
                Whether to keep only one direction between two entities: that of the most probable relation.
            top_k (`int`, *optional*, defaults to 1):
                Number of relations a pair, best first; `None` for all. Default for a model with several relations a
                pair: all that reach their thresholds. With such a model, or if `top_k` is given, one marked pair gives
                a list. That of other models also ranks the negative label, unless `top_k` is 1.
            threshold (`float`, *optional*):
                Lowest probability of a relation. Default, if `top_k` is 1: that of the model
                (`config.relation_thresholds`, `config.decision_threshold`); without one, a relation must be the most
                probable label.
            negative (`str`, *optional*, defaults to `"drop"`):
                Whether to `"keep"` pairs without a relation, with the negative label, or to `"drop"` them. With
                `top_k` above 1, that label counts as one of the `top_k`. One marked pair always has a result.
            on_error (`str`, *optional*, defaults to `"raise"`):
                What to do with a bad input: raise (`"raise"`), return no relation (`"skip"`), or return
                `{"error": message}` (`"return"`). An entity that cannot be read or has an unknown type, and entities
                too far apart for `max_length`, concern only their own pairs, whose items have `head`, `tail` and
                `error`. The latter is raised for one marked pair only.
            max_length (`int`, *optional*):
                Maximum number of tokens; longer texts are cut to a window around both entities. Default: the limit of
                the model for one marked pair, else the length that covers 99 % of the training examples. Of several
                entities, pairs that do not fit have no relation, as in the scores of `run_re.py`.
            batch_size (`int`, *optional*, defaults to 1): Number of inputs per batch.

        Returns:
            `dict[str, Any]` or `list[dict[str, Any]]`: `label`, `score` (probability), and `head` and `tail` with
            `start`, `end`, `text` and, if the input has it, `label`. Spans have the unit of the input: characters,
            without the marks of a marked text, or tokens. For an input with several entities, a list of these, best
            first. For many inputs, a list or an iterator of results.

        Raises:
            UserError: A span is out of range, empty or splits a word; a mark is missing or repeated; a pair does not
                name two entities; the entities of a marked pair and the text between them exceed `max_length`; or an
                argument has an unknown value.
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
        outcomes = [
            None if isinstance(sentence, UserError) else Outcomes(sentence, len(self.labels)) for sentence in sentences
        ]
        run = self._one_pass if self.reads_pieces else self._copies
        run([outcome for outcome in outcomes if outcome is not None], batch_size, window, limit)
        for sentence, outcome in zip(sentences, outcomes, strict=True):
            yield self.postprocess({"sentence": sentence, "outcomes": outcome}, **postprocess_params)

    def preprocess(
        self,
        inputs: Any,
        max_length: int | None = None,
        entities: Any = None,
        pairs: Sequence | str | None = None,
        order: str | None = None,
        same_sentence: bool | None = None,
    ) -> Sentence:
        """The text, the entities and the pairs of an input; see [`RelationExtractionPipeline.__call__`]."""
        text = text_alone(inputs) if entities is not None else None
        if text is not None:
            inputs = {"text": text, "entities": entities(check_text(text, WHERE))}
        rules = PairRules.of(self.trained)
        if order is not None:
            rules = replace(rules, both_orders=order == "both")
        if same_sentence is not None:
            rules = replace(rules, sentences=0 if same_sentence else None)
        sentence = read_input(inputs, pairs, rules)
        if entities is not None and text is None:
            logger.warning_once(
                "Inputs with entities of their own keep them: leave them out for the tagger (entities=) to find some."
            )
        if not sentence.marked and not self.trained:
            logger.warning_once(
                "The checkpoint does not say which pairs it was trained on (config.trained_pairs), so entities are "
                "paired both ways, in windows as long as the model takes; order and max_length narrow that."
            )
        if not sentence.marked:
            self._warn_of_wider(max_length, pairs, order, same_sentence)
            if rules.types and pairs is None and {of for of in sentence.types if of} - rules.types.keys():
                logger.warning_once(
                    "Entities have types that training did not see, so all their pairs are asked for. Those of "
                    f"training: {', '.join(rules.types)}."
                )
        return sentence

    def _warn_of_wider(self, max_length: Any, pairs: Any, order: str | None, same_sentence: bool | None) -> None:
        """Says which arguments ask for more than training saw."""
        seen, chosen = PairRules.of(self.trained), {tuple(pair) for pair in pairs or ()}
        known = seen.types or {}
        unrelated = {(head, tail) for head, tails in known.items() for tail in known.keys() - tails}
        wider = {
            f"max_length={max_length}": (max_length or 0) > self.trained.get("max_length", VERY_LARGE_INTEGER),
            "order='both'": order == "both" and not seen.both_orders,
            "same_sentence=False": same_sentence is False and seen.sentences is not None,
            f"pairs={pairs!r}": bool(unrelated if pairs == "all" else unrelated & chosen),
        }
        if asked := [name for name, more in wider.items() if more]:
            logger.warning_once(
                f"{', '.join(asked)}: the model answers pairs such as had no relation in its training data "
                "(config.trained_pairs), so expect more wrong relations."
            )

    def _tagger(self, entities: Any, **splitting: Any) -> Any:
        if entities is None or callable(entities):
            if splitting:
                raise UserError(f"{' and '.join(splitting)}: give the name of a tagger as entities, too.")
            return _to_the_end(entities)
        if isinstance(entities, (list, tuple)):
            raise UserError(
                'entities= is a model that finds them; give your own beside the text: {"text": ..., "entities": ...}.'
            )
        key = (entities, *splitting.items())
        if key not in self._taggers:
            self._taggers[key] = WordTagger.from_pretrained(entities, self.device, **splitting).entities
        return self._taggers[key]

    def _copies(self, outcomes: Sequence[Outcomes], batch_size: int, window: int, limit: int) -> None:
        """Reads a copy of the text with entity markers for each pair, in batches of similar length."""
        size = batch_size if all(outcome.sentence.marked for outcome in outcomes) else max(batch_size, COPIES)
        remaining = ((outcome, pair) for outcome in outcomes for pair in outcome.open())
        while block := list(islice(remaining, LOOKAHEAD * size)):
            rows = []
            for outcome, of_text in groupby(block, key=itemgetter(0)):
                most = limit if outcome.sentence.marked else window
                rows += self._marked(outcome, [pair for _, pair in of_text], most, limit)
            by_length = iter(sorted(rows, key=lambda row: -len(row[2]["input_ids"])))
            while batch := list(islice(by_length, size)):
                inputs = DataCollatorWithPadding(self.tokenizer)([row for _, _, row in batch])
                for (outcome, pair, _), logits in zip(batch, self.forward(inputs)["logits"], strict=True):
                    outcome.logits[pair] = logits.float()

    def _marked(
        self, outcome: Outcomes, pairs: Sequence[int], most: int, limit: int
    ) -> list[tuple[Outcomes, int, dict]]:
        """The marked copies of a text for these pairs, except those that are refused."""
        # Imported late, as `datasets` is slow to import.
        from msattn.data.inputs.entity_markers import encode_relations

        sentence = outcome.sentence
        heads, tails = zip(*(sentence.pairs[pair] for pair in pairs), strict=True)
        try:
            columns = encode_relations(
                self.tokenizer,
                [sentence.text] * len(pairs),
                [sentence.spans[head] for head in heads],
                [sentence.spans[tail] for tail in tails],
                most,
                style=self.style,
                types=[(sentence.types[head], sentence.types[tail]) for head, tail in zip(heads, tails, strict=True)],
            )
        except UserError as error:  # an entity has no type, or an unknown one
            if len(pairs) > 1:
                return [row for pair in pairs for row in self._marked(outcome, [pair], most, limit)]
            outcome.refused[pairs[0]] = error
            return []
        if "entity_ends" not in self.parameters:  # an exported model that does not read them
            columns.pop("entity_ends", None)
        rows = []
        for number, pair in enumerate(pairs):
            if columns["input_ids"][number] is None:
                outcome.refused[pair] = _too_far(sentence, pair, most) if most == limit else None
            else:
                rows.append((outcome, pair, {name: values[number] for name, values in columns.items()}))
        return rows

    def _one_pass(self, outcomes: Sequence[Outcomes], batch_size: int, window: int, limit: int) -> None:
        """Reads each text once, or once a window, and scores all its pairs."""
        from msattn.data.inputs.entity_pieces import encode_entities, model_inputs, padded_pieces, special_tokens

        begin, end = special_tokens(self.tokenizer)
        windows: list[tuple[Outcomes, list[int], list[int], list[list[int]], torch.Tensor]] = []
        for outcome in outcomes:
            sentence = outcome.sentence
            text = encode_entities(self.tokenizer, sentence.text, sentence.spans)
            # One marked pair has the window that `run_re.py` gives it.
            most = limit if sentence.marked else window
            room = most - len(begin) - len(end)
            windows_of: dict[int, list[int]] = defaultdict(list)
            for pair in outcome.open():
                start = text.window(*sentence.pairs[pair], room, shared=not sentence.marked)
                if start is None:
                    outcome.refused[pair] = _too_far(sentence, pair, limit) if most == limit else None
                else:
                    windows_of[start].append(pair)
            for start, pairs in windows_of.items():
                # The entities of these pairs, and the pairs by their numbers among them.
                used, numbers = torch.tensor([sentence.pairs[pair] for pair in pairs]).unique(return_inverse=True)
                pieces = [[len(begin) + at - start for at in text.pieces[entity]] for entity in used.tolist()]
                ids = [*begin, *text.ids[start : start + room], *end]
                windows.append((outcome, pairs, ids, pieces, numbers))
        windows.sort(key=lambda each: -len(each[2]))
        for first in range(0, len(windows), batch_size):
            batch = windows[first : first + batch_size]
            rows = [model_inputs(self.tokenizer, ids) for _, _, ids, _, _ in batch]
            inputs = DataCollatorWithPadding(self.tokenizer)(rows)
            logits = self._scores(
                inputs,
                padded_pieces([each[3] for each in batch]),
                pad_sequence([each[4] for each in batch], batch_first=True),
            )
            for (outcome, pairs, *_), of_window in zip(batch, logits, strict=True):
                outcome.logits[pairs] = of_window[: len(pairs)].float()

    def _scores(self, inputs: Any, entities: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
        """The logits of pairs `(batch, pairs, 2)` of entities `(batch, entities, pieces)`."""
        if "entity_texts" in self.parameters:
            return self.forward({**inputs, "entity_pieces": entities, "entity_pairs": pairs})["logits"]
        # An exported model has no blocks of its own. One of an earlier version reads the pieces of each pair.
        rows = torch.arange(len(entities))[:, None, None]
        logits = []
        for block in pairs.split(PAIRS, dim=1):
            both = (
                {"entity_pieces": entities, "entity_pairs": block}
                if "entity_pairs" in self.parameters
                else {"entity_pieces": entities[rows, block]}
            )
            logits.append(self.forward({**inputs, **both})["logits"])
        return torch.cat(logits, dim=1)

    def _forward(self, model_inputs: dict[str, Any]) -> dict[str, Any]:
        return {"logits": self.model(**model_inputs).logits}

    def postprocess(
        self,
        model_outputs: dict[str, Any],
        top_k: int | str | None = "",
        threshold: float | None = None,
        negative: str = "drop",
        on_error: str = "raise",
        merge: bool = False,
    ) -> Any:
        """The relations of an input, from the [`Outcomes`] of its pairs."""
        sentence, outcomes = model_outputs["sentence"], model_outputs["outcomes"]
        pairs = 0 if outcomes is None else len(sentence.pairs)
        failed = {} if outcomes is None else {pair: error for pair, error in outcomes.refused.items() if error}
        errors = [sentence] if outcomes is None else [*sentence.bad.values(), *failed.values()]
        if on_error == "raise" and not sentence.marked:  # pairs that do not fit have no relation
            errors = [error for error in errors if not isinstance(error, TooFarApart)]
        if errors and on_error == "raise":
            if pairs > 1:
                raise UserError(f'{errors[0]} on_error="skip" leaves out such pairs, "return" says which they are.')
            raise errors[0]
        if outcomes is None or (errors and (sentence.marked or not pairs)):
            if on_error == "skip":
                logger.warning(f"An input was skipped: {errors[0]}")
            return [] if on_error == "skip" else {"error": str(errors[0])}
        probabilities = self._probabilities(outcomes.logits)
        if sentence.marked:
            return self._of_marked_pair(sentence, probabilities[0].tolist(), top_k, threshold)
        if len(outcomes.refused) > len(failed) or (failed and on_error == "raise"):
            logger.warning_once(
                "Some pairs of a text do not fit in the window, so they have no relation; max_length sets its length."
            )
        relations = []
        for pair in self._worth_a_look(probabilities, top_k, threshold, negative == "keep"):
            if pair not in outcomes.refused:
                scored = self._relations(probabilities[pair].tolist(), top_k, threshold, negative == "keep")
                ends = sentence.pairs[pair]
                relations += [{**sentence.entities(*ends), "label": label, "score": score} for label, score in scored]
        self._warn_of_many(relations, pairs)
        relations.sort(key=lambda relation: -relation["score"])
        if merge:
            relations = self._merged(relations)
        if failed and on_error == "skip":
            logger.warning(f"{len(failed)} of {pairs} pairs were skipped; the first: {next(iter(failed.values()))}")
        if on_error != "return":
            return relations
        return relations + [
            {**sentence.entities(*sentence.pairs[pair]), "error": str(error)} for pair, error in sorted(failed.items())
        ]

    def _worth_a_look(
        self, probabilities: torch.Tensor, top_k: Any, threshold: float | None, keep: bool
    ) -> Sequence[int]:
        """The pairs that may have a relation: of many, most have none."""
        if keep or self.negative is None or not (top_k == "" or (top_k == 1 and not self.several)):
            return range(len(probabilities))
        relations = [number for number, label in enumerate(self.labels) if label != self.negative]
        cuts = [self._cut(self.labels[number]) if threshold is None else threshold for number in relations]
        of_relations = probabilities[:, relations]
        related = (of_relations >= probabilities.new_tensor(cuts)).any(dim=-1)
        if threshold is None and getattr(self.model.config, "decision_threshold", None) is None and not self.several:
            related &= of_relations.amax(dim=-1) >= probabilities[:, self.labels.index(self.negative)]
        return related.nonzero().flatten().tolist()

    def _merged(self, relations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The relations, best first, without those of the direction that is less probable."""
        first: dict[tuple, tuple] = {}
        kept = []
        for relation in relations:
            ends = tuple((relation[role]["start"], relation[role]["end"]) for role in ("head", "tail"))
            if relation["label"] == self.negative or first.setdefault(tuple(sorted(ends)), ends) == ends:
                kept.append(relation)
        return kept

    def _warn_of_many(self, relations: Sequence[dict[str, Any]], pairs: int) -> None:
        related = {
            tuple(relation[role][bound] for role in ("head", "tail") for bound in ("start", "end"))
            for relation in relations
            if relation["label"] != self.negative
        }
        if pairs >= MANY and len(related) > pairs / 2:
            logger.warning_once(
                "More than half of all pairs of a text got a relation. Most pairs of a text have none: train on texts "
                "that list their entities, or raise threshold."
            )

    def _of_marked_pair(
        self, sentence: Sentence, probabilities: list[float], top_k: Any, threshold: float | None
    ) -> Any:
        if self.several or top_k in ("", 1):
            ranked: Sequence[tuple[str | None, float]] = self._relations(probabilities, top_k, threshold, keep=True)
        else:
            ranked = sorted(zip(self.labels, probabilities, strict=True), key=lambda item: -item[1])[:top_k]
            ranked = [item for item in ranked if item[1] >= (threshold or 0)]
        if top_k == "" and not self.several:
            ranked = ranked or [(None, max(probabilities))]
        results = [{"label": label, "score": score, **sentence.entities(0, 1)} for label, score in ranked]
        return results[0] if top_k == "" and not self.several else results

    def _probabilities(self, logits: torch.Tensor) -> torch.Tensor:
        scaled = logits / (getattr(self.model.config, "calibration_temperature", None) or 1.0)
        return scaled.sigmoid() if self.several else scaled.softmax(dim=-1)

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
    """What finds the entities of a text, and reads it to its end: token-classification pipelines cut long texts."""
    if isinstance(tagger, WordTagger):
        return tagger.entities
    if not (isinstance(tagger, TokenClassificationPipeline) and tagger.tokenizer.is_fast):
        return tagger
    # Without aggregation, its tokens are numbered window by window: they could not be joined.
    if tagger._postprocess_params.get("aggregation_strategy") in (None, AggregationStrategy.NONE):
        return WordTagger(tagger.model, tagger.tokenizer).entities
    longest = min(tagger.tokenizer.model_max_length, most_tokens(tagger.model.config) or VERY_LARGE_INTEGER)
    if longest >= VERY_LARGE_INTEGER:
        return tagger
    tagger = copy(tagger)
    tagger.tokenizer = copy(tagger.tokenizer)
    tagger.tokenizer.model_max_length = longest
    return partial(tagger, stride=longest // 4)


def _negative(config: Any, labels: Sequence[str]) -> str | None:
    """
    The label of no relation: that of the configuration or, in older checkpoints, the one with such a meaning.

    Raises:
        UserError: The configuration names a label, here or in `relation_thresholds`, that the model does not have.
    """
    given, thresholds = getattr(config, "negative_label", None), getattr(config, "relation_thresholds", None) or {}
    several = config.problem_type == "multi_label_classification"  # whose label of no relation is no class
    if unknown := {*thresholds, *([given] if given and not several else ())}.difference(labels):
        raise UserError(
            f"the configuration names the label {min(unknown)!r}, and the labels are {', '.join(labels)}: rename it "
            "in negative_label and relation_thresholds, too."
        )
    if given is not None:
        return given or None
    try:
        return find_negative_label(labels)
    except UserError as error:
        logger.warning(f"Every label counts as a relation: {error} Set config.negative_label to its name.")
        return None


def _too_far(sentence: Sentence, pair: int, limit: int) -> TooFarApart:
    head, tail = (sentence.spans[entity] for entity in sentence.pairs[pair])
    start = min(head[0], tail[0])
    return TooFarApart(
        f"the two entities and what lies between them do not fit in {limit} tokens: "
        f"{around(sentence.text, start, start)!r}."
    )
