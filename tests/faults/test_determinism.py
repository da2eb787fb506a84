"""The same seed leaves the same; `tests/scripts/test_distributed.py` compares two processes with one."""

from __future__ import annotations

from tests.faults.runs import results


def test_the_same_seed_twice(tag, tmp_path):
    for name in ("first", "second", "other"):
        tag(tmp_path / name, "--seed", 2 if name == "other" else 1)
    first, second, other = (results(tmp_path / name) for name in ("first", "second", "other"))
    assert second == first
    assert other["model.safetensors"] != first["model.safetensors"]
