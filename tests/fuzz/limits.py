"""Limits of time and memory for a case, and how many cases there are."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, seed, settings

#: All cases together: `make test-fuzz` sets ten thousand.
CASES = int(os.environ.get("MSATTN_FUZZ_CASES", "200"))
SEED = int(os.environ.get("MSATTN_FUZZ_SEED", "0"))
SECONDS = 10
BYTES = 2 * 2**30


def fuzz(share: float) -> Callable[[Any], Any]:
    """Gives a test its share of all cases, the same ones for the same seed."""
    rules = settings(
        max_examples=max(1, round(share * CASES)),
        deadline=None,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    return lambda test: seed(SEED)(rules(test))


@contextmanager
def limits() -> Iterator[None]:
    """Raises `TimeoutError` after ten seconds of processor time and `MemoryError` at 2 GiB more than before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()

    def stop(*_: Any) -> None:
        raise TimeoutError(f"a case took over {SECONDS} seconds of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)
