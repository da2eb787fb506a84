#!/usr/bin/env python
"""
Fine-tunes a cross-encoder for re-ranking, scores it, and writes its rankings.
"""

from __future__ import annotations

from collections.abc import Sequence

from msattn.run import run
from msattn.tasks.ranking import Ranking


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the task."""
    run(Ranking, argv)


if __name__ == "__main__":
    main()
