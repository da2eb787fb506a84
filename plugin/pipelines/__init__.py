"""Pipelines of Transformers for relation extraction and dependency parsing."""
