"""`papers/intervals.py` on simulated runs with known effects: coverage, false verdicts and power."""

from __future__ import annotations

import intervals
import numpy as np
import pytest
from intervals import Difference, holm, of_examples, of_seeds
from scipy.stats import ttest_1samp

# The deviations of seeds, of examples, and of both together; 300 examples.
DESIGNS = {"seeds": (1.0, 0.0, 1.0), "both": (0.1, 1.0, 1.0), "examples": (0.0, 1.0, 1.0)}
RUNS = 2000


@pytest.mark.parametrize("spread", DESIGNS.values(), ids=DESIGNS)
@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_coverage_false_verdicts_and_power(seeds, spread):
    draw = np.random.default_rng(seeds)
    of_seed, of_example, of_both = spread
    true = Difference(0.0, seeds, (of_seed**2 / seeds + of_both**2 / 300 / seeds) ** 0.5, of_example / 300**0.5)
    effect = true.detects()
    covered = held = failed = same = found = 0
    for _ in range(RUNS):
        noise = (
            of_seed * draw.standard_normal((seeds, 1))
            + of_example * draw.standard_normal(300)
            + of_both * draw.standard_normal((seeds, 300))
        )
        seen = of_examples(noise)
        half = seen.half_width()
        covered += abs(seen.mean) <= half
        held += seen.mean > half
        failed += seen.mean < -half
        # A true difference as large as the bound is not "none".
        same += abs(effect + seen.mean) + seen.half_width(0.1) < effect
        found += seen.mean + effect > half
    # With three seeds and both kinds of error, Cochran's mean of quantiles is on the safe side by two points.
    assert 0.93 <= covered / RUNS <= (0.98 if seeds == 3 else 0.97)
    assert max(held, failed) / RUNS <= 0.05
    assert same / RUNS <= 0.05 + 3 * (0.05 * 0.95 / RUNS) ** 0.5
    assert 0.76 <= found / RUNS <= 0.84


def test_with_seeds_alone_it_is_the_t_test():
    values = [0.3, 0.8, 0.1, 0.9]
    seen = of_seeds(values, 0.0)
    assert seen.p_value(0) == pytest.approx(ttest_1samp(values, 0).pvalue, rel=1e-6)
    assert seen.half_width() == pytest.approx(ttest_1samp(values, 0).confidence_interval().high - seen.mean)
    assert seen.p_equivalence(2) == pytest.approx(ttest_1samp(values, 2, alternative="less").pvalue, rel=1e-6)
    assert seen.p_equivalence(0.2) == 1


def test_seeds_that_agree_by_chance_leave_the_error_of_their_answers():
    answers = np.random.default_rng(0).standard_normal((3, 300))
    seen = of_examples(answers - answers.mean(axis=1, keepdims=True))
    assert seen.seed_error == pytest.approx(0, abs=1e-9)
    assert seen.half_width() == pytest.approx(1.96 * (1 / 900 + seen.example_error**2) ** 0.5, rel=0.05)


def test_equal_runs_have_no_error():
    seen = of_seeds([0.0, 0.0, 0.0], 0.0)
    assert seen.half_width() == 0 and seen.p_value(0) == 1 and seen.p_equivalence(0.1) < 0.05


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_the_bound_of_examples_is_that_of_independent_answers():
    assert intervals.example_bound([50, 50], 100) == pytest.approx(100 * (0.25 / 100 * 2) ** 0.5)
