#!/usr/bin/env python
"""
Fine-tunes an encoder with multi-scale fusion self-attention, pairwise attention or a baseline for relation extraction.

Without arguments it runs a small demonstration on a corpus and an encoder that it makes itself.
"""

from __future__ import annotations

import sys

from msattn_command import demo, train


def main() -> None:
    if len(sys.argv) == 1:
        demo()
    else:
        train("relations", sys.argv[1:])


if __name__ == "__main__":
    main()
