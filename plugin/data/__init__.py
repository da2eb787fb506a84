"""Dataset readers, and the encoding of text as model inputs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msattn.data.files.word_vectors import read_word_vectors
    from msattn.data.formats.glue import GLUE_TASKS, read_glue
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
    from msattn.data.relations import read_relations, to_relations
    from msattn.data.sentences import read_sentences, to_sentences
    from msattn.data.tagged_words import read_tagged_words, to_tagged_words
    from msattn.data.treebanks import read_treebank

# The names of each module, imported on first use. Most need datasets; the pipelines need none of them.
_NAMES = {
    "files.word_vectors": "read_word_vectors",
    "formats.glue": "GLUE_TASKS read_glue",
    "inputs.entity_markers": "ENTITY_MARKERS add_entity_markers encode_relation_dataset encode_relations",
    "inputs.parser_inputs": "encode_treebank",
    "inputs.sentence_inputs": "encode_sentences",
    "inputs.tagging_inputs": "encode_tagged_words",
    "inputs.word_tokenizer": "add_words train_word_tokenizer",
    "ranking": "read_ranking read_trec_ranking",
    "relations": "read_relations to_relations",
    "sentences": "read_sentences to_sentences",
    "tagged_words": "read_tagged_words to_tagged_words",
    "treebanks": "read_treebank",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [
    "add_entity_markers",
    "encode_relations",
    "encode_sentences",
    "encode_tagged_words",
    "encode_treebank",
    "read_glue",
    "read_ranking",
    "read_relations",
    "read_sentences",
    "read_tagged_words",
    "read_treebank",
    "read_word_vectors",
    "train_word_tokenizer",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'msattn.data' has no attribute {name!r}")
    return getattr(import_module(f"msattn.data.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
