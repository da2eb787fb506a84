"""The pipeline `"dependency-parsing"`: predicts the head and relation of every word of a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from transformers.pipelines.base import ChunkPipeline

from msattn.errors import UserError, shown
from msattn.pipelines.length_sorted import LengthSortedPipeline
from msattn.trees.parses import DECODERS, Parses, RankedTree, parse_batch, ranked_trees, sentence_parses


class DependencyParsingPipeline(LengthSortedPipeline, ChunkPipeline):
    """
    Dependency parsing pipeline for models of [`AutoModelForDependencyParsing`].

    An input is one of

    - a text of one sentence, `"The dog doesn't sleep."`, which is split into words (with inner apostrophes) and
      punctuation marks;
    - a tokenized sentence, `{"words": ["The", "dog", "does", "n't", "sleep", "."]}`. Use the tokenization of the
      parser's treebank.

    Lists, datasets and generators of inputs work too; within a list, a sentence may also be a plain list of words.
    With `batch_size`, sentences of similar length are batched together. Results have the order of the inputs.

    Example:

    ```python
    >>> import msattn
    >>> from transformers import pipeline

    >>> parse = pipeline("dependency-parsing", model="outputs/ewt")
    >>> parse("Dogs sleep.")
    [{'index': 1, 'word': 'Dogs', 'head': 2, 'relation': 'nsubj', 'score': 0.98},
     {'index': 2, 'word': 'sleep', 'head': 0, 'relation': 'root', 'score': 0.99},
     {'index': 3, 'word': '.', 'head': 2, 'relation': 'punct', 'score': 0.99}]
    >>> print(parse.to_conllu(parse("Dogs sleep.")))
    ```
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if "word_index" not in inspect.signature(self.model.forward).parameters:
            raise UserError(
                f"{self.model.name_or_path or 'the model'} holds a {type(self.model).__name__}, which parses nothing; "
                "give a checkpoint that run_parsing.py has trained."
            )
        # Word positions are counted from the left.
        self.tokenizer.padding_side = "right"

    def _sanitize_parameters(
        self,
        decode: str | None = None,
        max_length: int | None = None,
        long_sentences: str | None = None,
        k: int | None = None,
        marginals: bool | None = None,
        fixed: Mapping[int, int] | None = None,
    ) -> tuple[dict, dict, dict]:
        for name, value, choices in (
            ("decode", decode, DECODERS),
            ("long_sentences", long_sentences, ("window", "error")),
        ):
            if value not in (None, *choices):
                raise UserError(f"{name} is one of {', '.join(choices)}, not {value!r}.")
        decoding = {} if decode is None else {"decode": decode}
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise UserError(f"k is a number of trees, 1 or more, not {k!r}.")
        if k is not None and decode not in (None, "mst"):
            raise UserError(
                f"the k best trees are those with the highest scores; give k or decode={decode!r}, not both."
            )
        whole = k is not None or bool(marginals) or fixed is not None
        ranking = {"k": k, "marginals": marginals, "fixed": fixed}
        ranking = {name: value for name, value in ranking.items() if value is not None}
        preprocess_params = {
            "max_length": max_length,
            "long_sentences": long_sentences,
            "whole": whole or None,
        }
        preprocess_params = {name: value for name, value in preprocess_params.items() if value is not None}
        return preprocess_params, {**decoding, **ranking}, {**decoding, **ranking}

    def __call__(self, inputs: Any, **kwargs: Any) -> Any:
        """
        Parses one or more sentences.

        Args:
            inputs (`Any`): One input or many; see [`DependencyParsingPipeline`].
            decode (`str`, *optional*, defaults to `"mst"`):
                The best tree (`"mst"`), the best one without crossing arcs (`"eisner"`), the one with the most right
                heads to be expected (`"mbr"`), or the best head of each word, which may be no tree (`"greedy"`).
            max_length (`int`, *optional*): Most tokens the model reads at a time; the model's own limit if not given.
            long_sentences (`str`, *optional*, defaults to `"window"`):
                What to do with a longer sentence: windows that overlap by half (`"window"`), or `"error"`.
            k (`int`, *optional*): Return the best trees, as many as these, each with its probability.
            marginals (`bool`, *optional*, defaults to `False`): Give each word the probability of its head.
            fixed (`Mapping[int, int]`, *optional*): Heads that are known: dependent to head, words counted from 1.
            batch_size (`int`, *optional*, defaults to 1): Sentences that go through the model at once.

        Returns:
            `list[dict]` for a sentence, or a list or an iterator of them as with every pipeline: of each word `index`,
            from 1 on, `word`, `head`, 0 for the root, `relation`, and `score`, how probable both are by the scores of
            the arcs into the word. With `marginals`, also `marginal`, how probable the head is over all trees. With
            `k`, a list of `{"words": list[dict], "probability": float}`, best first; the probability is that of the
            heads.

        Raises:
            UserError: What was given is no sentence; or it is longer than the model reads, and `long_sentences` is
                `"error"` or one of `k`, `marginals` and `fixed` is given; or no tree has the fixed heads.
        """
        return super().__call__(inputs, **kwargs)

    def input_length(self, item: Any) -> int:
        """The approximate length of an input in characters."""
        words = item.get("words") if isinstance(item, Mapping) else item
        return sum(len(str(word)) + 1 for word in words) if isinstance(words, (list, tuple)) else len(str(words))

    def preprocess(
        self, inputs: Any, max_length: int | None = None, long_sentences: str = "window", whole: bool = False
    ) -> Iterator[dict[str, Any]]:
        # Imported late, as `datasets` is slow to import.
        from msattn.data.inputs.parser_inputs import parser_inputs

        words = _words(inputs)
        limits = (max_length, self.tokenizer.model_max_length, self.model.config.max_position_embeddings)
        limit = min(limit for limit in limits if limit is not None)
        # A sentence without words still needs a model input, for the batch.
        (windows,) = parser_inputs(self.tokenizer, [words or [""]], limit)
        if long_sentences == "error" and (len(windows) > 1 or windows[0].cut):
            raise UserError(f"the sentence has more than {limit} tokens: {' '.join(words)[:80]!r}.")
        if whole and len(windows) > 1:
            raise UserError(
                f"the sentence has more than {limit} tokens, and would be read in windows; k, marginals and fixed "
                f"need it as a whole: {' '.join(words)[:80]!r}."
            )
        for number, window in enumerate(windows, start=1):
            start, stop = window.kept
            tensors = {name: torch.tensor([row]) for name, row in window.inputs.items()}
            # Shifted by 1, as the pipeline pads batches with 0.
            yield {
                **tensors,
                "word_index": tensors["word_index"] + 1,
                "words": words,
                "window": {"sentence": 0, "first": window.first, "start": start, "stop": stop},
                "is_last": number == len(windows),
            }

    def _forward(
        self,
        model_inputs: dict[str, Any],
        decode: str = "mst",
        k: int | None = None,
        marginals: bool = False,
        fixed: Mapping[int, int] | None = None,
    ) -> dict[str, Any]:
        about = {name: model_inputs.pop(name) for name in ("words", "window", "is_last")}
        word_index = model_inputs.pop("word_index") - 1
        if k is not None or marginals or fixed is not None:
            outputs = self.model(**model_inputs, word_index=word_index)
            # Alone, a sentence is not in a list.
            batched = isinstance(about["window"], list)
            sizes = [len(words) + 1 for words in (about["words"] if batched else [about["words"]])]
            trees = [
                ranked_trees(arcs[:size, :size], relations[:size, :size], k, fixed, decode)
                for size, arcs, relations in zip(sizes, outputs["arc_scores"], outputs["relation_logits"], strict=True)
            ]
            return {"trees": trees if batched else trees[0], **about}
        _, parses = parse_batch(self.model, {**model_inputs, "word_index": word_index}, decode)
        return {"parses": torch.from_numpy(np.stack(parses, axis=-1)), **about}

    def postprocess(
        self,
        model_outputs: list[dict[str, Any]],
        decode: str = "mst",
        k: int | None = None,
        marginals: bool = False,
        fixed: Mapping[int, int] | None = None,
    ) -> list[dict[str, Any]]:
        words = model_outputs[0]["words"]
        if "trees" in model_outputs[0]:
            trees = [
                {
                    "words": self._words_of(words, tree, tree.marginals if marginals else None),
                    "probability": tree.probability,
                }
                for tree in model_outputs[0]["trees"]
            ]
            return trees if k is not None else trees[0]["words"]
        answers = [output["parses"][0].numpy() for output in model_outputs]
        (parse,) = sentence_parses(answers, [output["window"] for output in model_outputs], decode)
        return self._words_of(words, parse)

    def _words_of(
        self, words: Sequence[str], parse: Parses | RankedTree, marginals: np.ndarray | None = None
    ) -> list[dict[str, Any]]:
        labels = self.model.config.id2label
        result = [
            {
                "index": index,
                "word": word,
                "head": int(parse.heads[index - 1]),
                "relation": labels[int(parse.relations[index - 1])],
                "score": float(parse.scores[index - 1]),
            }
            for index, word in enumerate(words, start=1)
        ]
        for word, marginal in zip(result, [] if marginals is None else marginals, strict=marginals is not None):
            word["marginal"] = float(marginal)
        return result

    @staticmethod
    def to_conllu(sentences: Sequence) -> str:
        """
        Converts results of the pipeline to CoNLL-U.

        Args:
            sentences (`Sequence`): The result for one sentence, or a list of results.

        Returns:
            `str`: The CoNLL-U text, with the columns ID, FORM, HEAD and DEPREL.
        """
        from msattn.data.corpora.treebanks import conllu_lines
        from msattn.data.files.conllu import with_tree

        several = sentences if sentences and isinstance(sentences[0], Sequence) else [sentences]
        columns = (
            [[word[name] for word in sentence] for name in ("word", "head", "relation")] for sentence in several
        )
        return "".join(with_tree(conllu_lines(words), heads, relations) for words, heads, relations in columns)

    @staticmethod
    def to_displacy(sentence: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        """
        Converts a result to the input of spaCy's `displacy.render(..., style="dep", manual=True)`.

        displaCy draws no arc for the root. [`~msattn.analysis.arc_diagram`] does, and works without spaCy.

        Args:
            sentence (`Sequence[Mapping[str, Any]]`): The result for one sentence.
        """
        arcs = [
            {
                "start": min(word["head"], word["index"]) - 1,
                "end": max(word["head"], word["index"]) - 1,
                "label": word["relation"],
                "dir": "left" if word["index"] < word["head"] else "right",
            }
            for word in sentence
            if word["head"]
        ]
        return {"words": [{"text": word["word"], "tag": ""} for word in sentence], "arcs": arcs}


def _words(inputs: Any) -> list[str]:
    from msattn.data.files.text_lines import check_text

    words = inputs.get("words") if isinstance(inputs, Mapping) else inputs
    if isinstance(words, str):
        check_text(words, "the input")
        from msattn.data.inputs.words import split_words

        return split_words(words)
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise UserError(f'a sentence is a text, a list of words, or {{"words": [...]}}, not {shown(inputs)}.')
    for word in words:
        if not word or set(word) & set("\t\r\n"):
            raise UserError(f"a word has at least one letter, and neither tabs nor line ends; {shown(word)} is none.")
        check_text(word, "the input")
    return list(words)
