"""The tasks behind the scripts, and the experiments and studies that they share."""
