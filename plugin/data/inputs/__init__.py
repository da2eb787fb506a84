"""Encodes examples as model inputs: entity markers, sub-words, windows and collators."""
