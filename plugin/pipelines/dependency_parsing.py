"""The pipeline `"dependency-parsing"`: predicts the head and relation of every word of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from transformers.utils import logging

from msattn.data.files.checked_text import check_text
from msattn.data.files.conllu_lines import TAG_CELLS, conllu_lines, conllu_lines_of_text, kept_tags, with_tree
from msattn.data.inputs.parser_windows import ParserCollator, sentence_windows
from msattn.data.inputs.piece_batches import piece_batches
from msattn.data.inputs.raw_text import Word, split_text
from msattn.data.inputs.word_labels import tag_words
from msattn.data.inputs.word_rules import language_of, word_spans
from msattn.errors import UserError, shown
from msattn.pipelines.text_pipeline import TextPipeline, given, refuse_others
from msattn.trees.parse_results import named_sentences
from msattn.trees.parses import (
    DECODERS,
    Parses,
    RankedTree,
    best_tags,
    decoder_of,
    parse_batch,
    ranked_trees,
    sentence_parses,
    temperature_of,
)
from msattn.trees.tree_decoding import joined_tree

logger = logging.get_logger(__name__)


class DependencyParsingPipeline(TextPipeline):
    """
    Dependency parsing pipeline for models of [`AutoModelForDependencyParsing`].

    An input is one of

    - a text, `"Dogs sleep. Cats eat mice."`, which is split into sentences and words;
    - a tokenized sentence, `{"words": ["The", "dog", "does", "n't", "sleep", "."]}`. Use the tokenization of the
      parser's treebank.

    Lists, datasets and generators of inputs work too; within a list, a sentence may also be a plain list of words.
    Sentences of similar length, and the windows of long ones, are batched together. Results have the order of the
    inputs.

    Example:

    ```python
    >>> import msattn
    >>> from transformers import pipeline

    >>> parse = pipeline("dependency-parsing", model="outputs/ewt", lang="en")
    >>> sentences = parse("Dogs sleep. Cats eat mice.")
    >>> sentences[0]
    [{'index': 1, 'word': 'Dogs', 'head': 2, 'relation': 'nsubj', 'score': 0.98, 'start': 0, 'end': 4,
      'space_after': ' '}, ...]
    >>> print(parse.to_conllu(sentences))
    ```
    """

    reads = ("word_index",)

    def _sanitize_parameters(
        self,
        decode: str | None = None,
        max_length: int | None = None,
        k: int | None = None,
        marginals: bool | None = None,
        fixed: Mapping[int, int] | None = None,
        word_tokenizer: Callable[[str], Any] | str | None = None,
        lang: str | None = None,
    ) -> tuple[dict, dict, dict]:
        refuse_others("decode", decode, DECODERS)
        language_of(lang)  # refuses those without rules
        reading = given(max_length=max_length, word_tokenizer=word_tokenizer, lang=lang)
        ranking = given(k=k, marginals=marginals, fixed=fixed)
        decoding = ranking | given(decode=decode)
        return reading | ranking, decoding, decoding

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Parses one or more texts or sentences.

        Args:
            inputs (`Any`): One input or many; see [`DependencyParsingPipeline`].
            decode (`str`, *optional*, defaults to `config.tree_decoder`, or `"mst"`):
                The best tree (`"mst"`), the best one without crossing arcs (`"eisner"`), the one with the highest
                expected number of correct heads (`"mbr"`, or `"mbr_eisner"` without crossing arcs), or the best head
                of each word, which may be no tree (`"greedy"`).
            word_tokenizer (`Callable` or `str`, *optional*):
                What splits texts into words and sentences: `"spacy:fr"`, `"stanza:fr"`, `"udpipe:FILE"`, a `Language`
                of spaCy, a pipeline of Stanza, the `process` of UDPipe, or any callable that returns words or lists of
                words. Default: built-in rules.
            lang (`str`, *optional*):
                The language of the built-in rules, such as `"en"`, which splits "don't" into two words. Default: rules
                for all languages, which split no contractions.
            max_length (`int`, *optional*):
                Most tokens that the model reads at a time. Default: the model's limit. Longer sentences are read in
                windows that overlap by half.
            k (`int`, *optional*):
                Return the k best trees, each with its probability. They may have crossing arcs, whatever the decoder
                of the checkpoint.
            marginals (`bool`, *optional*, defaults to `False`): Give each word the probability of its head.
            fixed (`Mapping[int, int]`, *optional*):
                Known heads: dependent to head, words counted from 1. If they need crossing arcs, a decoder without
                these is replaced by `"mst"` or `"mbr"`, with a warning.
            batch_size (`int`, *optional*, defaults to 1):
                Inputs whose sentences go through the model at once. Batches also have a budget of word pieces.

        Returns:
            A list of sentences for a text, a sentence for words, and a list or an iterator of them for many inputs.

            A sentence is a `list[dict]`. Each word has `index`, from 1 on; `word`; `head`, 0 for the root; `relation`;
            and `score`, the probability of both by the scores of the arcs into the word; 0 where the windows of a long
            sentence form a tree only with another head, which none of them has chosen. A parser that tags adds
            `upos`, `xpos`, `feats` or `lemma`, as in CoNLL-U. `marginals` adds `marginal`, the probability of the head
            over all trees. Words of a text also have `start` and `end`, their characters `[start, end)`, and
            `space_after`, the white space behind them; the first may have `space_before`. The words of a multi-word
            token such as "don't" have the span of the token, and its form as `token`. The arc scores of all
            probabilities are divided by `config.calibration_temperature`, which calibrates `marginal`, not `score`.

            With `k`, a sentence is a list of `{"words": list[dict], "probability": float}`, best first; the
            probability is that of the heads.

        Raises:
            UserError: The input is not a sentence or text; it is longer than the model reads, and one of `k`,
                `marginals` and `fixed` is given; `k` is given with a `decode` other than `"mst"`; no tree has the
                fixed heads, or heads are fixed in several sentences; or `word_tokenizer` does not return the
                words of the text.
        """
        if isinstance(inputs, (list, tuple)) and len(inputs) > 1 and all(_is_one_word(item) for item in inputs):
            logger.warning(
                f"each of the {len(inputs)} strings is parsed as a text of its own; for one sentence give "
                f'{{"words": {list(inputs[:3])!r:.60}...}}.'
            )
        if kwargs.get("fixed") is not None and isinstance(inputs, (list, tuple)) and len(inputs) > 1:
            raise UserError(f"fixed names the words of one sentence, and there are {len(inputs)}: give one at a time.")
        return super().__call__(inputs, **kwargs)

    def answers(
        self, inputs: list, batch_size: int, preprocess_params: dict, forward_params: dict, postprocess_params: dict
    ) -> Iterator:
        items = [self.preprocess(item, **preprocess_params) for item in inputs]
        rows = [(owner, window.inputs) for owner, item in enumerate(items) for window in item["windows"]]
        answers: list[Any] = [None] * len(rows)
        collate = ParserCollator(self.tokenizer)
        lengths = [len(row["input_ids"]) for _, row in rows]
        for batch in piece_batches(lengths, [owner for owner, _ in rows], batch_size):
            found = self.forward(collate([rows[number][1] for number in batch]), **forward_params)["answers"]
            for number, answer in zip(batch, found, strict=True):
                answers[number] = answer
        remaining = iter(answers)
        for item in items:
            own = [*islice(remaining, len(item["windows"]))]
            yield self.postprocess({**item, "answers": own}, **postprocess_params)

    def preprocess(
        self,
        inputs: Any,
        max_length: int | None = None,
        word_tokenizer: Callable[[str], Any] | None = None,
        lang: str | None = None,
        k: int | None = None,
        marginals: bool = False,
        fixed: Mapping[int, int] | None = None,
    ) -> dict[str, Any]:
        is_text = isinstance(inputs, str)
        sentences = split_text(inputs, word_tokenizer, lang) if is_text else [_words(inputs)]
        if fixed is not None and len(sentences) > 1:
            raise UserError(
                f"fixed names the words of one sentence, and the text has {len(sentences)}: {inputs[:80]!r}; give the "
                'sentence alone, as {"words": [...]}.'
            )
        limit = self.limit(max_length)
        windows = sentence_windows(self.tokenizer, [[word.text for word in words] for words in sentences], limit)
        for words, parts in zip(sentences, windows, strict=True):
            if len(parts) > 1 and (k is not None or marginals or fixed is not None):
                text = " ".join(word.text for word in words)
                raise UserError(
                    f"the sentence has more than {limit} tokens, and would be read in windows; k, marginals and fixed "
                    f"need it as a whole: {shown(text)}."
                )
        return {
            "sentences": sentences,
            "is_text": is_text,
            "windows": [window for parts in windows for window in parts],
            "owners": [number for number, parts in enumerate(windows) for _ in parts],
        }

    def _forward(
        self,
        model_inputs: dict[str, Any],
        decode: str | None = None,
        k: int | None = None,
        marginals: bool = False,
        fixed: Mapping[int, int] | None = None,
    ) -> dict[str, Any]:
        if k is not None and decode not in (None, "mst"):
            raise UserError(f"k: the best trees may have crossing arcs, as with mst; leave out decode={decode!r}.")
        decode, temperature = decode or decoder_of(self.model.config), temperature_of(self.model.config)
        if k is None and not marginals and fixed is None:
            _, parses = parse_batch(self.model, model_inputs, decode, temperature)
            return {"answers": list(parses.stacked())}
        outputs = self.model(**model_inputs)
        sizes = (model_inputs["word_index"].amax(dim=1) + 1).tolist()
        tags = best_tags(outputs)
        return {
            "answers": [
                (
                    ranked_trees(arcs[:size, :size], relations[:size, :size], k, fixed, decode, temperature),
                    {name: numbers[row, : size - 1] for name, numbers in tags.items()},
                )
                for row, (size, arcs, relations) in enumerate(
                    zip(sizes, outputs["arc_scores"], outputs["relation_logits"], strict=True)
                )
            ]
        }

    def postprocess(
        self,
        model_outputs: dict[str, Any],
        decode: str | None = None,
        k: int | None = None,
        marginals: bool = False,
        fixed: Mapping[int, int] | None = None,
    ) -> list:
        sentences, answers = model_outputs["sentences"], model_outputs["answers"]
        if not answers:
            # There is no text, or a sentence without words.
            nothing: list = [] if k is None or model_outputs["is_text"] else [{"words": [], "probability": 1.0}]
            return nothing
        if k is not None or marginals or fixed is not None:
            # A sentence is one window here.
            results = [
                [
                    {
                        "words": self._words_of(words, tree, tags, tree.marginals if marginals else None),
                        "probability": tree.probability,
                    }
                    for tree in trees
                ]
                for words, (trees, tags) in zip(sentences, answers, strict=True)
            ]
            results = results if k is not None else [trees[0]["words"] for trees in results]
        else:
            windows = [
                {"sentence": owner, "first": window.first, "start": window.kept[0], "stop": window.kept[1]}
                for owner, window in zip(model_outputs["owners"], model_outputs["windows"], strict=True)
            ]
            decode = decode or decoder_of(self.model.config)
            parses = sentence_parses(answers, windows, decode, [*self._tag_labels])
            results = [
                self._words_of(words, parse, parse.tags) for words, parse in zip(sentences, parses, strict=True)
            ]
        return results if model_outputs["is_text"] else results[0]

    @property
    def _tag_labels(self) -> Mapping[str, Sequence[str]]:
        # The code of an older checkpoint on the Hub has no such field.
        return getattr(self.model.config, "word_tags", None) or {}

    def _words_of(
        self,
        words: Sequence[Word],
        parse: Parses | RankedTree,
        numbers: Mapping[str, np.ndarray],
        marginals: np.ndarray | None = None,
    ) -> list[dict[str, Any]]:
        labels = self.model.config.id2label
        tags = tag_words(self._tag_labels, numbers, [word.text for word in words])
        result = []
        for number, word in enumerate(words):
            entry = {
                "index": number + 1,
                "word": word.text,
                "head": int(parse.heads[number]),
                "relation": labels[int(parse.relations[number])],
                "score": float(parse.scores[number]),
                **{name: cells[number] for name, cells in tags.items()},
            }
            if marginals is not None:
                entry["marginal"] = float(marginals[number])
            result.append(entry | word.columns if word.end else entry)
        return result

    def complete(self, sentences: Sequence[Mapping[str, Any]], **kwargs: Any) -> list[str]:
        """
        Parses sentences of CoNLL-U, and puts their trees and tags into their lines.

        A tree that is known in part is completed: those of its words that have a head and a relation keep them, and
        all words keep their tags. One that is known as a whole is replaced, with its tags.

        Args:
            sentences (`Sequence[Mapping]`):
                Each has `words` and `lines`, and may have `heads` and `relations`, as [`~msattn.data.read_treebank`]
                returns.
            **kwargs: As for [`__call__`], such as `batch_size`.

        Returns:
            `list[str]`: The lines of each sentence as one string.
        """
        known = [_known_heads(sentence) for sentence in sentences]
        unknown = [row for row, heads in zip(sentences, known, strict=True) if not heads]
        trees = iter(self([{"words": sentence["words"]} for sentence in unknown], **kwargs))
        written = []
        for sentence, heads in zip(sentences, known, strict=True):
            tree = self._parse_around(heads, sentence["words"], **kwargs) if heads else next(trees)
            for number in heads:
                if (relation := sentence["relations"][number - 1]) != "_":
                    tree[number - 1]["relation"] = relation
            written.append(_with_tree(sentence["lines"], tree, keep=bool(heads)))
        return written

    def _parse_around(self, heads: Mapping[int, int], words: Sequence[str], **kwargs: Any) -> list[dict[str, Any]]:
        """The tree of a sentence with known heads, which are put in afterwards if it is read in windows."""
        limit = self.limit(kwargs.get("max_length") or self._preprocess_params.get("max_length"))
        if len(sentence_windows(self.tokenizer, [words], limit)[0]) == 1:
            return self({"words": words}, fixed=heads, **kwargs)
        tree = self({"words": words}, **kwargs)
        scores = np.array([np.inf if word["index"] in heads else word["score"] for word in tree])
        chosen = np.array([heads.get(word["index"], word["head"]) for word in tree])
        for word, head in zip(tree, joined_tree(chosen, scores), strict=True):
            word["head"] = int(head)
        return tree

    @staticmethod
    def to_conllu(sentences: Sequence, name: str = "") -> str:
        """
        Converts results of the pipeline to CoNLL-U.

        `# sent_id` is the place of a sentence among the results, from 1: `3-2` is the second one of the third text.
        CoNLL-U has no sentence without words; its number is left out.

        Args:
            sentences (`Sequence`): A sentence, the sentences of a text, or a list of results.
            name (`str`, *optional*): What `# sent_id` starts with: `"7"` gives `7-2`. Default: nothing.

        Returns:
            `str`: The CoNLL-U text, with the columns ID, FORM, HEAD, DEPREL and MISC (spaces), and those that the
            parser tags.
        """
        written = []
        for place, words in named_sentences(sentences, name):
            lines_of = conllu_lines_of_text if "space_after" in words[0] else _conllu_lines
            written.append(_with_tree(lines_of(words, place), words))
        return "".join(written)


def _known_heads(sentence: Mapping[str, Any]) -> dict[int, int]:
    """The heads of a sentence that is annotated in part, by dependent."""
    heads = sentence.get("heads") or []
    return {number: head for number, head in enumerate(heads, 1) if head >= 0} if -1 in heads else {}


def _conllu_lines(words: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    return conllu_lines([word["word"] for word in words], name)


def _with_tree(lines: Sequence[str], words: Sequence[Mapping[str, Any]], keep: bool = False) -> str:
    tags = {name: [word[name] for word in words] for name in TAG_CELLS if name in words[0]}
    tags = kept_tags(lines, tags) if keep else tags
    heads, relations = ([word[name] for word in words] for name in ("head", "relation"))
    return with_tree(lines, heads, relations, **tags)


def _is_one_word(item: Any) -> bool:
    return isinstance(item, str) and len([*islice(word_spans(item), 2)]) == 1


def _words(inputs: Any) -> list[Word]:
    words = inputs.get("words") if isinstance(inputs, Mapping) else inputs
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise UserError(f'a sentence is a text, a list of words, or {{"words": [...]}}, not {shown(inputs)}.')
    for word in words:
        check_text(word, f"the word {shown(word)}")
        if not word or not {*word}.isdisjoint("\t\r\n"):
            raise UserError(f"a word has at least one letter, and neither tabs nor line ends; {shown(word)} is none.")
    return [Word(word) for word in words]
