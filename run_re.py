#!/usr/bin/env python
"""
Fine-tunes an encoder with multi-scale fusion self-attention, pairwise attention or a baseline for relation extraction.

Without arguments it runs a small demonstration on a corpus and an encoder that it makes itself.
"""

from __future__ import annotations

import sys

from msattn.demo import run_demo
from msattn.run import run
from msattn.tasks.relation_extraction import RelationExtraction


def main() -> None:
    if len(sys.argv) == 1:
        run_demo()
    else:
        run(RelationExtraction)


if __name__ == "__main__":
    main()
