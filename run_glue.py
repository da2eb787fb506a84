#!/usr/bin/env python
"""
Trains a classifier of sentences or sentence pairs: on a pre-trained encoder, with multi-scale fusion self-attention or
without, or from scratch, such as a Multi-Scale Transformer.
"""

from __future__ import annotations

from collections.abc import Sequence

from msattn.run import run
from msattn.tasks.sequence_classification import SequenceClassification


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the task."""
    run(SequenceClassification, argv)


if __name__ == "__main__":
    main()
