"""Readers of data sets and the way from text to model inputs."""

from msattn.data.entity_markers import (
    ENTITY_MARKERS,
    add_entity_markers,
    encode_relation_dataset,
    encode_relations,
)
from msattn.data.glue import GLUE_TASKS, read_glue
from msattn.data.relations import read_relations, relation_labels, to_relations

__all__ = [
    "ENTITY_MARKERS",
    "GLUE_TASKS",
    "add_entity_markers",
    "encode_relation_dataset",
    "encode_relations",
    "read_glue",
    "read_relations",
    "relation_labels",
    "to_relations",
]
