"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_budget.py -s

Every figure is a median over repeats, and every claim a ratio against a twin in the same run: the double loop over
priors, one call of a scalar function per cell, that a script would write; and the floor, the dearest operations of the
formula alone, on as many cells.
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


def tolerated(p: float, q: float) -> float:
    """r* of PROFILE, for one reader."""
    return max(0.25 / (p * q), 3.0)


def scalar_risk(p: float, q: float, epsilon: float) -> float:
    """Theorem 4 for one reader."""
    x = math.exp(-epsilon)
    return 1 / (p * q + x * x * p * (1 - q) + x * (1 - p))


def scalar_epsilon(p: float, q: float, ratio: float) -> float:
    """Theorem 5 for one reader."""
    c = 1 / ratio - p * q
    if c <= 0:
        return math.inf
    return math.log(((1 - p) + math.sqrt((1 - p) ** 2 + 4 * p * (1 - q) * c)) / (2 * c))


def looped(function: Callable[[float, float], float], priors: list[float]) -> list[list[float]]:
    """The double loop."""
    return [[function(p, q) for q in priors] for p in priors]


def told(what: str, seconds: float, loop: float, floor: float, of: str) -> None:
    """One line of figures."""
    print(f"\n1e6 cells of {what}: {1e3 * seconds:.1f} ms; double loop: {loop:.2f} s, ratio {loop / seconds:.0f};")
    print(f"   floor, {of}: {1e3 * floor:.1f} ms, {seconds / floor:.1f} times that")


def in_place(*functions: np.ufunc) -> float:
    """Seconds of numpy functions of a million doubles, one after another, in memory that is there already."""
    given = PRIORS[:, None] * PRIORS
    out = np.empty_like(given)

    def run() -> None:
        functions[0](given, out=out)
        for function in functions[1:]:
            function(out, out=out)

    return median_seconds(run, 20)


def test_a_million_cells_of_risk() -> None:
    """Ratio and posterior that an epsilon leaves open; and the same of a single count."""

    def risk(p: float, q: float) -> float:
        return scalar_risk(p, q, 1.0)

    surface = adv.budget.risk_surface
    seconds = median_seconds(lambda: surface(1.0, PRIORS, PRIORS), 20)
    count = median_seconds(lambda: surface(1.0, PRIORS, PRIORS, statistic="count"), 20)
    loop = median_seconds(lambda: looped(risk, PRIORS.tolist()), 3)
    told("risk", seconds, loop, in_place(np.reciprocal), "one division each")
    print(f"   of a single count: {1e3 * count:.1f} ms")
    assert max(seconds, count) < MOST
    some = PRIORS[::50]
    np.testing.assert_allclose(surface(1.0, some, some)["ratio"], looped(risk, some.tolist()), rtol=1e-13)


def test_a_million_cells_of_a_profile() -> None:
    """Tolerated ratio and the epsilon each reader needs; and the same of a single count."""

    def epsilon(p: float, q: float) -> float:
        return scalar_epsilon(p, q, tolerated(p, q))

    surface = adv.budget.risk_surface
    seconds = median_seconds(lambda: surface(PROFILE, PRIORS, PRIORS), 20)
    count = median_seconds(lambda: surface(PROFILE, PRIORS, PRIORS, statistic="count"), 20)
    loop = median_seconds(lambda: looped(epsilon, PRIORS.tolist()), 3)
    floor = in_place(np.reciprocal, np.sqrt, np.log)
    told("a profile", seconds, loop, floor, "one division, square root and logarithm each")
    print(f"   of a single count: {1e3 * count:.1f} ms")
    assert max(seconds, count) < MOST
    some = PRIORS[::50]
    np.testing.assert_allclose(surface(PROFILE, some, some)["epsilon"], looped(epsilon, some.tolist()), rtol=1e-12)


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

    def scan() -> float:
        return min(map(min, looped(lambda p, q: scalar_epsilon(p, q, tolerated(p, q)), PRIORS.tolist())))

    loop = median_seconds(scan, 3)
    exact = runs["closed"]().epsilon
    print(f"\nscan of 1e6 cells: {loop:.2f} s, {scan() - 0.5 * math.log(2.75 / 0.75):+.1e} from the optimum of any")
    for name, run in runs.items():
        seconds = median_seconds(run, 20)
        found = run()
        print(
            f"   {name} ({statistic}): {1e3 * seconds:.3f} ms, {loop / seconds:.0f} times faster; {found.method}, "
            f"{found.epsilon - exact:+.1e} from the closed form"
        )
        assert found.epsilon <= exact + 1e-12
