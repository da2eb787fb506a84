"""The dataclasses behind the command-line arguments."""
