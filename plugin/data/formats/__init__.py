"""Readers of published formats, one file each."""
