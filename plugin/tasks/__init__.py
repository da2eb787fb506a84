"""The tasks that the scripts train, and the experiment and the studies that all of them share."""
