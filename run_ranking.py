#!/usr/bin/env python
"""
Fine-tunes a cross-encoder for re-ranking, scores it, and writes its rankings.
"""

from __future__ import annotations

import sys

from msattn_command import train


def main() -> None:
    train("ranking", sys.argv[1:])


if __name__ == "__main__":
    main()
