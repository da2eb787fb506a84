"""How many cases there are, and which."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, seed, settings

#: All cases together: `make test-fuzz` sets ten thousand.
CASES = int(os.environ.get("MSATTN_FUZZ_CASES", "200"))
SEED = int(os.environ.get("MSATTN_FUZZ_SEED", "0"))


def fuzz(share: float) -> Callable[[Any], Any]:
    """Gives a test its share of all cases, the same ones for the same seed. A case takes ten seconds at most."""
    rules = settings(
        max_examples=max(1, round(share * CASES)),
        deadline=10_000,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(SEED)(rules(test))
