"""Dataset readers, and the encoding of text as model inputs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msattn.data.corpora.glue import GLUE_TASKS, read_glue
    from msattn.data.corpora.mtl16 import MTL16_DOMAINS, read_mtl16
    from msattn.data.corpora.ranking import read_ranking
    from msattn.data.corpora.relations import read_relations, relation_labels, to_relations
    from msattn.data.corpora.sentences import read_sentences
    from msattn.data.corpora.sentiment_trees import read_sentiment_trees
    from msattn.data.corpora.snli import read_snli
    from msattn.data.corpora.tagged_words import read_tagged_words, to_tagged_words
    from msattn.data.corpora.trec import read_trec_ranking
    from msattn.data.corpora.treebanks import read_treebank
    from msattn.data.files.word_vectors import read_word_vectors
    from msattn.data.inputs.entity_markers import (
        ENTITY_MARKERS,
        add_entity_markers,
        encode_relation_dataset,
        encode_relations,
    )
    from msattn.data.inputs.parser_inputs import encode_treebank
    from msattn.data.inputs.sentence_inputs import encode_sentences
    from msattn.data.inputs.tagging_inputs import encode_tagged_words
    from msattn.data.inputs.word_tokenizer import add_words, train_word_tokenizer

# Most of them need datasets. The pipelines need other modules of this package only.
_LAZY = {
    "ENTITY_MARKERS": "inputs.entity_markers",
    "GLUE_TASKS": "corpora.glue",
    "MTL16_DOMAINS": "corpora.mtl16",
    "add_entity_markers": "inputs.entity_markers",
    "add_words": "inputs.word_tokenizer",
    "encode_relation_dataset": "inputs.entity_markers",
    "encode_relations": "inputs.entity_markers",
    "encode_sentences": "inputs.sentence_inputs",
    "encode_tagged_words": "inputs.tagging_inputs",
    "encode_treebank": "inputs.parser_inputs",
    "read_glue": "corpora.glue",
    "read_mtl16": "corpora.mtl16",
    "read_ranking": "corpora.ranking",
    "read_relations": "corpora.relations",
    "read_sentences": "corpora.sentences",
    "read_sentiment_trees": "corpora.sentiment_trees",
    "read_snli": "corpora.snli",
    "read_tagged_words": "corpora.tagged_words",
    "read_trec_ranking": "corpora.trec",
    "read_treebank": "corpora.treebanks",
    "read_word_vectors": "files.word_vectors",
    "relation_labels": "corpora.relations",
    "to_relations": "corpora.relations",
    "to_tagged_words": "corpora.tagged_words",
    "train_word_tokenizer": "inputs.word_tokenizer",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'msattn.data' has no attribute {name!r}")
    return getattr(import_module(f"msattn.data.{_LAZY[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY} - {"annotations", "import_module", "TYPE_CHECKING", "Any"})


__all__ = [
    "ENTITY_MARKERS",
    "GLUE_TASKS",
    "MTL16_DOMAINS",
    "add_entity_markers",
    "add_words",
    "encode_relation_dataset",
    "encode_relations",
    "encode_sentences",
    "encode_tagged_words",
    "encode_treebank",
    "read_glue",
    "read_mtl16",
    "read_ranking",
    "read_relations",
    "read_sentences",
    "read_sentiment_trees",
    "read_snli",
    "read_tagged_words",
    "read_trec_ranking",
    "read_treebank",
    "read_word_vectors",
    "relation_labels",
    "to_relations",
    "to_tagged_words",
    "train_word_tokenizer",
]
