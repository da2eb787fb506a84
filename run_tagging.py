#!/usr/bin/env python
"""
Trains a tagger of words, with parts of speech or named entities for example: on a checkpoint that can classify tokens,
or from scratch.
"""

from __future__ import annotations

from collections.abc import Sequence

from msattn.run import run
from msattn.tasks.token_classification import TokenClassification


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the task."""
    run(TokenClassification, argv)


if __name__ == "__main__":
    main()
