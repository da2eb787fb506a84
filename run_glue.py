#!/usr/bin/env python
"""
Trains a classifier of sentences or sentence pairs: on a pre-trained encoder, with multi-scale fusion self-attention or
without, or from scratch, such as a Multi-Scale Transformer.
"""

from __future__ import annotations

import sys

from msattn_command import train


def main() -> None:
    train("glue", sys.argv[1:])


if __name__ == "__main__":
    main()
