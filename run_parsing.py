#!/usr/bin/env python
"""
Trains a dependency parser that reads all of an encoder's attention, scores it and parses with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msattn.run import run
from msattn.tasks.dependency_parsing import DependencyParsing


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the task."""
    run(DependencyParsing, argv)


if __name__ == "__main__":
    main()
