"""Which part of the training data a study takes."""

from __future__ import annotations

import pytest
from datasets import Dataset

from msattn import UserError
from msattn.tasks.experiment import Experiment
from msattn.tasks.study import training_part


def experiment(count: int = 50, groups: list | None = None) -> Experiment:
    data = Dataset.from_dict({"number": list(range(count))})
    return Experiment(None, {"train": data}, groups)


def part(fraction: float, **options) -> list[int]:
    return training_part(experiment(**options), fraction).train_dataset["number"][:]


def test_smaller_parts_lie_inside_larger_ones():
    parts = [part(fraction) for fraction in (0.1, 0.2, 0.5, 0.9, 1.0)]
    assert [len(numbers) for numbers in parts] == [5, 10, 25, 45, 50]
    for smaller, larger in zip(parts, parts[1:], strict=False):
        assert set(smaller) < set(larger)
        # Drawn, and not the first ones; but in the order of the file.
        assert smaller != larger[: len(smaller)]
        assert smaller == sorted(smaller)


def test_every_run_draws_the_same():
    assert part(0.3) == part(0.3)
    assert part(1.0) == list(range(50))


def test_groups_stay_whole():
    groups = [f"q{number // 5}" for number in range(50)]
    drawn = part(0.3, groups=groups)
    assert len(drawn) == 15 and len({groups[number] for number in drawn}) == 3


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan"), float("inf")])
def test_no_fraction(fraction):
    with pytest.raises(UserError, match="--train_fraction must be above 0 and at most 1, got"):
        part(fraction)


def test_nothing_left():
    with pytest.raises(UserError, match=r"--train_fraction 0\.001 leaves none of the 50 training examples"):
        part(0.001)
