"""Readers of data sets and the way from text to model inputs."""

from msattn.data.entity_markers import (
    ENTITY_MARKERS,
    add_entity_markers,
    encode_relation_dataset,
    encode_relations,
)
from msattn.data.glue import GLUE_TASKS, read_glue
from msattn.data.mtl16 import MTL16_DOMAINS, read_mtl16
from msattn.data.relations import read_relations, relation_labels, to_relations
from msattn.data.sentiment_trees import read_sentiment_trees
from msattn.data.snli import read_snli
from msattn.data.tagged_words import encode_tagged_words, read_tagged_words, to_tagged_words
from msattn.data.word_tokenizer import add_words, train_word_tokenizer
from msattn.data.word_vectors import read_word_vectors

__all__ = [
    "ENTITY_MARKERS",
    "GLUE_TASKS",
    "MTL16_DOMAINS",
    "add_entity_markers",
    "add_words",
    "encode_relation_dataset",
    "encode_relations",
    "encode_tagged_words",
    "read_glue",
    "read_mtl16",
    "read_relations",
    "read_sentiment_trees",
    "read_snli",
    "read_tagged_words",
    "read_word_vectors",
    "relation_labels",
    "to_relations",
    "to_tagged_words",
    "train_word_tokenizer",
]
