"""From examples to model inputs: markers, words and their pieces, windows, collators."""
