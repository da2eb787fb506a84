"""Arguments of attention guiding, and the targets of its attention patterns."""
