#!/usr/bin/env python
"""
Fine-tunes a cross-encoder for re-ranking, scores it, and writes its rankings.
"""

from __future__ import annotations

from msattn.run import run
from msattn.tasks.ranking import Ranking


def main() -> None:
    run(Ranking)


if __name__ == "__main__":
    main()
