"""From rows to the examples of published corpora, and of one's own files."""
