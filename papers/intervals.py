"""
Intervals, tests and power for the mean difference of two settings, from runs with seeds on the same examples.

A difference has two independent errors. Seeds: with k of them, Student's t with k - 1 degrees of freedom. Examples:
the test data are a sample, and all seeds share it; hundreds of examples make this error normal. The variances add, and
the quantile is the mean of both quantiles with the variances as weights (Cochran and Cox, Experimental Designs, 1950).
Three seeds may agree by chance: an error is at least that of answers which each seed draws anew, as examples tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import nct, norm, t

LEVEL, POWER = 0.05, 0.8


class Difference(NamedTuple):
    """The mean difference of k seeds, with the standard errors from seeds, from examples, and the least from seeds."""

    mean: float
    seeds: int
    seed_error: float
    example_error: float
    least_error: float = 0.0

    def errors(self, of_seeds: float, of_examples: float) -> float:
        """So many standard errors of each kind, with their variances as weights."""
        variances = np.array([self.seed_error**2, self.example_error**2])
        both = float(variances @ [of_seeds, of_examples] / np.sqrt(variances.sum())) if variances.any() else 0.0
        return max(both, of_examples * float(np.hypot(self.least_error, self.example_error)))

    def half_width(self, alpha: float = LEVEL) -> float:
        """Half of the two-sided interval that misses with probability alpha."""
        tails = 1 - alpha / 2
        return self.errors(t.ppf(tails, self.seeds - 1), norm.ppf(tails))

    def p_value(self, against: float) -> float:
        """The smallest alpha whose interval leaves out a difference, two-sided."""
        distance = abs(self.mean - against)
        if not distance:
            return 1.0
        if self.half_width(1e-12) <= distance:
            return 1e-12
        return float(brentq(lambda alpha: self.half_width(alpha) - distance, 1e-12, 1))

    def p_equivalence(self, bound: float) -> float:
        """The two one-sided tests: the p-value of "the difference is below -bound or above bound"."""
        sides = (self.p_value(-bound) / 2, self.p_value(bound) / 2)
        return max(sides) if abs(self.mean) < bound else 1.0

    def detects(self) -> float:
        """The smallest difference from the margin that the two-sided test finds with a probability of 0.8."""
        freedom, tails = self.seeds - 1, 1 - LEVEL / 2
        of_seeds = brentq(lambda d: nct.sf(t.ppf(tails, freedom), freedom, d) - POWER, 1, 100)
        return self.errors(of_seeds, norm.ppf(tails) + norm.ppf(POWER))


def of_examples(differences: np.ndarray) -> Difference:
    """
    From the differences of pseudo-values, `(seeds, examples)`.

    The mean over examples of a seed holds that seed's own error; what examples add is their variance over the mean of
    all seeds, less the part that each seed draws anew (two-way random effects).
    """
    seeds, examples = differences.shape
    by_seed, by_example = differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - by_seed[:, None] - by_example + differences.mean()
    own = (rest**2).sum() / (seeds - 1) / (examples - 1)
    shared = max(0.0, by_example.var(ddof=1) - own / seeds) / examples
    errors = (by_seed.std(ddof=1) / seeds**0.5, shared**0.5, (own / examples / seeds) ** 0.5)
    return Difference(float(by_seed.mean()), seeds, *errors)


def of_seeds(differences: Sequence[float], example_error: float) -> Difference:
    """From the difference of each seed; the error of examples is given."""
    values = np.asarray(differences, dtype=float)
    return Difference(float(values.mean()), len(values), float(values.std(ddof=1)) / len(values) ** 0.5, example_error)


def example_bound(scores: Sequence[float], examples: int) -> float:
    """
    The most that examples can add to the error of a difference of two shares in percent, as if the right answers of
    the two settings were independent: p (1 - p) / n each.
    """
    shares = np.asarray(scores) / 100
    return float(100 * np.sqrt((shares * (1 - shares) / examples).sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: adjusted p-values in the given order."""
    adjusted = [0.0] * len(p_values)
    most = 0.0
    for rank, place in enumerate(np.argsort(p_values, kind="stable")):
        most = max(most, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = most
    return adjusted
