"""Dataclasses that define the command-line arguments."""
