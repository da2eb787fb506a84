"""Pipelines of Transformers for relation extraction and dependency parsing."""

# First of all: importing it registers the pipelines, which needs files of this folder.
import transformers.pipelines  # noqa: F401
