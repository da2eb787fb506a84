"""Readers for published corpora and local files."""
