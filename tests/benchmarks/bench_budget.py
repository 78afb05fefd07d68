"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_budget.py -s

Every figure is a median over repeats, and every claim a ratio against a twin in the same run: the double loop over
priors, one call of a scalar function per cell, that a script would write.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import adversary as adv
from adversary import RiskProfile
from tests.benchmarks.stopwatch import median_seconds

CELLS = 1000
PRIORS = np.arange(1, CELLS + 1) / CELLS
PROFILE = RiskProfile.ratio_or_absolute(3.0, 0.25)

MOST = 0.1
"""Seconds that a million cells may take."""


def risk(p: float, q: float) -> float:
    """Theorem 4 for one reader, at epsilon 1."""
    x = math.exp(-1.0)
    return 1 / (p * q + x * x * p * (1 - q) + x * (1 - p))


def epsilon(p: float, q: float) -> float:
    """Theorem 5 for one reader, at what PROFILE tolerates."""
    c = 1 / max(0.25 / (p * q), 3.0) - p * q
    if c <= 0:
        return math.inf
    return math.log(((1 - p) + math.sqrt((1 - p) ** 2 + 4 * p * (1 - q) * c)) / (2 * c))


def looped(function: Callable[[float, float], float], priors: list[float]) -> list[list[float]]:
    """The double loop."""
    return [[function(p, q) for q in priors] for p in priors]


@pytest.mark.parametrize(("asked", "scalar", "quantity"), [(1.0, risk, "ratio"), (PROFILE, epsilon, "epsilon")])
def test_a_million_cells(asked: object, scalar: Callable[[float, float], float], quantity: str) -> None:
    """What an epsilon leaves open, and what a profile asks of each reader; and the same of a single count."""
    surface = adv.budget.risk_surface
    seconds = median_seconds(lambda: surface(asked, PRIORS, PRIORS), 20)
    count = median_seconds(lambda: surface(asked, PRIORS, PRIORS, statistic="count"), 20)
    loop = median_seconds(lambda: looped(scalar, PRIORS.tolist()), 3)
    print(f"\n1e6 cells, {quantity}: {1e3 * seconds:.1f} ms, of a single count {1e3 * count:.1f} ms; "
          f"double loop: {loop:.2f} s, ratio {loop / seconds:.0f}")  # fmt: skip
    assert max(seconds, count) < MOST
    some = PRIORS[::50]
    np.testing.assert_allclose(surface(asked, some, some)[quantity], looped(scalar, some.tolist()), rtol=1e-12)


@pytest.mark.parametrize("statistic", ["any", "count"])
def test_one_recommendation(statistic: str) -> None:
    """Closed, by the certified search, of a function undeclared; and the scan of a million cells it replaces."""
    custom = RiskProfile.custom(lambda p, q: np.maximum(0.25 / (p * q), 3.0), decreasing=True)
    undeclared = RiskProfile.custom(lambda p, q: np.maximum(0.25 / (p * q), 3.0))
    runs: dict[str, Callable[[], adv.Recommendation]] = {
        "closed": lambda: adv.recommend_epsilon(PROFILE, statistic=statistic, method="closed"),
        "numeric": lambda: adv.recommend_epsilon(PROFILE, statistic=statistic, method="numeric"),
        "custom, declared": lambda: adv.recommend_epsilon(custom, statistic=statistic),
        "custom": lambda: adv.recommend_epsilon(undeclared, statistic=statistic),
    }
    loop = median_seconds(lambda: min(map(min, looped(epsilon, PRIORS.tolist()))), 3)
    exact = runs["closed"]().epsilon
    print(f"\nscan of 1e6 cells: {loop:.2f} s")
    for name, run in runs.items():
        seconds, found = median_seconds(run, 20), run()
        print(f"   {name} ({statistic}): {1e3 * seconds:.3f} ms, {loop / seconds:.0f} times faster; {found.method}, "
              f"{found.epsilon - exact:+.1e} from the closed form")  # fmt: skip
        assert found.epsilon <= exact + 1e-12
