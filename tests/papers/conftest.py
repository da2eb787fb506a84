"""The scripts of papers/ and benchmarks/ are modules of no package: their folders are put on the path."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
for folder in (
    "benchmarks",
    "papers",
    *(f"papers/{paper}" for paper in ("fusion", "guiding", "multiscale_transformer", "pairwise")),
):
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))
