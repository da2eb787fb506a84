"""Trainers: accumulation, learning rates of new layers, attention guiding, batches of similar length."""
