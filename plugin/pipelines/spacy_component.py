"""The component `"msattn_parser"` of spaCy's pipelines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from spacy.attrs import DEP, HEAD
from spacy.language import Language
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.tokens import Doc, MorphAnalysis, Token
from spacy.util import minibatch
from transformers import pipeline

from msattn.data.inputs.outside_tokenizers import outside_words
from msattn.errors import UserError
from msattn.trees.parses import decoder_of


@Language.factory(
    "msattn_parser",
    default_config={"decode": None, "batch_size": 32, "device": "cpu"},
    assigns=[
        *("token.dep", "token.head", "token.is_sent_start", "doc.sents"),
        *("token.pos", "token.tag", "token.morph", "token.lemma"),
    ],
)
def make_parser(nlp: Language, name: str, model: str, decode: str | None, batch_size: int, device: str) -> SpacyParser:
    """
    The component for `nlp.add_pipe("msattn_parser", config={"model": ...})`.

    Args:
        nlp (`spacy.Language`): The pipeline.
        name (`str`): The name of the component.
        model (`str`): A parser: a folder, or a repository of the Hub.
        decode (`str`, *optional*):
            The tree decoder, `"mst"`, `"eisner"`, `"mbr"` or `"mbr_eisner"`; see [`DependencyParsingPipeline`].
            Default: that of the checkpoint, or `"mst"` if that is `"greedy"`.
        batch_size (`int`): Sentences that go through the model at once.
        device (`str`): Where the model runs, such as `"cuda:0"`.

    Raises:
        UserError: `decode` is `"greedy"`, whose heads may be no tree, or no decoder.
    """
    if decode == "greedy":
        raise UserError('spaCy needs trees, and the heads of decode="greedy" may be none; give mst, eisner or mbr.')
    parse = pipeline("dependency-parsing", model=model, decode=decode, device=device)
    if decoder_of(parse.model.config) == "greedy":
        parse.model.config.tree_decoder = "mst"
    return SpacyParser(parse, batch_size)


class SpacyComponent(ABC):
    """
    A component of spaCy that reads several documents at once.

    Args:
        run (`Pipeline`): The pipeline.
        batch_size (`int`): Texts that go through the model at once.
    """

    def __init__(self, run: Any, batch_size: int):
        self.run = run
        self.batch_size = batch_size

    def __call__(self, doc: Doc) -> Doc:
        """Reads a document."""
        self.read([doc])
        return doc

    def pipe(self, docs: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """
        Reads a stream of documents.

        Args:
            docs (`Iterable[Doc]`): The documents.
            batch_size (`int`, *optional*, defaults to 128): Documents that are read at once.

        Yields:
            `Doc`: The same documents.
        """
        for group in minibatch(docs, size=batch_size):
            self.read(group)
            yield from group

    @abstractmethod
    def read(self, docs: Sequence[Doc]) -> None:
        """Adds to documents what the pipeline finds."""


class SpacyParser(SpacyComponent):
    """
    Sets the head (`token.head`) and the relation (`token.dep_`) of each token of a `Doc`, and with them its sentences;
    of a parser that tags also `token.pos_` (UPOS), `token.tag_` (XPOS), `token.morph` (FEATS) and `token.lemma_`.

    Sentences are those of an earlier component, such as spaCy's `"sentencizer"`. Our rules decide the boundaries
    (`token.is_sent_start`) that it leaves unset. As in spaCy's own parsers, the relation of a root is `"ROOT"`, and a
    token of white space depends on the one before. White space has no tags, and `token.pos_` stays empty where UPOS is
    none of Universal Dependencies.
    """

    def read(self, docs: Sequence[Doc]) -> None:
        sentences = [_sentences(doc) for doc in docs]
        words = [
            {"words": [" ".join(doc[i].text.split()) for i in part]}  # a merged token may hold a line end
            for doc, parts in zip(docs, sentences, strict=True)
            for part in parts
        ]
        results = iter(self.run(words, batch_size=self.batch_size))
        for doc, parts in zip(docs, sentences, strict=True):
            _annotate(doc, parts, [next(results) for _ in parts])


def _sentences(doc: Doc) -> list[list[int]]:
    """The tokens of each sentence, without white space."""
    at = {token.idx: token.i for token in doc}
    return [[at[start] for _, start, _ in words] for words in outside_words(lambda _: doc, doc.text)]


def _annotate(doc: Doc, sentences: Sequence[Sequence[int]], results: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    # White space depends on the token before it, and at the start on the first word.
    heads = np.full(len(doc), -1)
    relations = ["dep"] * len(doc)
    first = sentences[0][0] if sentences else 0
    heads[:first] = first - np.arange(first)
    for part, words in zip(sentences, results, strict=True):
        for i, word in zip(part, words, strict=True):
            heads[i] = part[word["head"] - 1] - i if word["head"] else 0
            relations[i] = word["relation"] if word["head"] else "ROOT"
            _tag(doc[i], word)
    if sentences:
        numbers = [doc.vocab.strings.add(relation) for relation in relations]
        # Its distances are signed, in unsigned numbers.
        table: Any = np.stack([heads.astype(np.uint64), np.array(numbers, dtype=np.uint64)], axis=1)
        doc.from_array([HEAD, DEP], table)


def _tag(token: Token, word: Mapping[str, Any]) -> None:
    if "upos" in word:
        token.pos = PARTS_OF_SPEECH.get(word["upos"], 0)
    if "xpos" in word:
        token.tag_ = word["xpos"]
    if "feats" in word:
        token.morph = MorphAnalysis(token.vocab, word["feats"])
    if "lemma" in word:
        token.lemma_ = word["lemma"]
