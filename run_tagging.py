#!/usr/bin/env python
"""
Trains a tagger of words, with parts of speech or named entities for example: on a checkpoint that can classify tokens,
or from scratch.
"""

from __future__ import annotations

import sys

from msattn_command import train


def main() -> None:
    train("tagging", sys.argv[1:])


if __name__ == "__main__":
    main()
