"""Dataset readers, and the encoding of text as model inputs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msattn.data.files.word_vectors import read_word_vectors
    from msattn.data.formats.glue import GLUE_TASKS, read_glue
    from msattn.data.formats.mtl16 import MTL16_DOMAINS, read_mtl16
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
    from msattn.data.ranking import read_ranking, read_trec_ranking
    from msattn.data.relations import read_relations, relation_labels, to_relations
    from msattn.data.sentences import read_sentences, to_sentences
    from msattn.data.tagged_words import read_tagged_words, to_tagged_words
    from msattn.data.treebanks import read_treebank

# Most of them need datasets. The pipelines need other modules of this package only.
_LAZY = {
    "ENTITY_MARKERS": "inputs.entity_markers",
    "GLUE_TASKS": "formats.glue",
    "MTL16_DOMAINS": "formats.mtl16",
    "add_entity_markers": "inputs.entity_markers",
    "add_words": "inputs.word_tokenizer",
    "encode_relation_dataset": "inputs.entity_markers",
    "encode_relations": "inputs.entity_markers",
    "encode_sentences": "inputs.sentence_inputs",
    "encode_tagged_words": "inputs.tagging_inputs",
    "encode_treebank": "inputs.parser_inputs",
    "read_glue": "formats.glue",
    "read_mtl16": "formats.mtl16",
    "read_ranking": "ranking",
    "read_relations": "relations",
    "read_sentences": "sentences",
    "read_tagged_words": "tagged_words",
    "read_trec_ranking": "ranking",
    "read_treebank": "treebanks",
    "read_word_vectors": "files.word_vectors",
    "relation_labels": "relations",
    "to_relations": "relations",
    "to_sentences": "sentences",
    "to_tagged_words": "tagged_words",
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
    "read_tagged_words",
    "read_trec_ranking",
    "read_treebank",
    "read_word_vectors",
    "relation_labels",
    "to_relations",
    "to_sentences",
    "to_tagged_words",
    "train_word_tokenizer",
]
