"""Trainers: gradient accumulation, learning rates of new layers, attention guiding, length-grouped batches."""
