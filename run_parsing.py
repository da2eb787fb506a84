#!/usr/bin/env python
"""
Trains a dependency parser that reads all of an encoder's attention, scores it and parses with it.
"""

from __future__ import annotations

import sys

from msattn_command import train


def main() -> None:
    train("parsing", sys.argv[1:])


if __name__ == "__main__":
    main()
