"""Measured on demand, never in CI:  uv run --group bench pytest tests/benchmarks/bench_composition.py -s

Certified composition of discrete Gaussians, construction included. Every figure is a median over repeats. The twin, in
the same run, is dp_accounting: each scale on a grid of 1e-4 (connecting the dots), composed with itself and then across
scales. Errors of both are against the middle of the certified bracket, whose width is printed too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from tests.benchmarks.stopwatch import median_seconds

PATH = Path(__file__).parents[2] / "data" / "census2020_dhc_path_1.csv"
LEVELS = np.array([0.01, 0.05, 0.10])
NANOSECONDS = 20.0
"""A generous guess of one exponential, sine or complex multiplication in NumPy, for the floors."""


def scales() -> dict[Fraction, int]:
    """v = 1 / sigma^2 of the 140 counts of the path, with multiplicities: every positive entry twice."""
    rows = PATH.read_text().split()[1:]
    entries = [Fraction(entry) for row in rows for entry in row.split(",")]
    return {v: 2 * times for v, times in Counter(entries).items() if v}


SCALES = scales()
COARSE = {Fraction(7, 20): 12, Fraction(7, 5): 2, Fraction(31, 3203): 16, Fraction(124, 3203): 3}


def epsilons(rho: float) -> Any:
    """42 points: rho + 2 sqrt(rho log(1 / d)) for d from 0.5 to 1e-20."""
    return rho + 2 * np.sqrt(rho * np.log(1 / np.geomspace(0.5, 1e-20, 42)))


def composition(families: dict[Fraction, int]) -> Any:
    return sum(n * adv.DiscreteGaussian.from_rho(v / 2).privacy_loss() for v, n in families.items())


def half_rho(families: dict[Fraction, int]) -> float:
    return float(sum(n * v for v, n in families.items())) / 2


def width(bounds: tuple[Any, Any]) -> Any:
    """Relative width of a bracket."""
    return (bounds[1] - bounds[0]) / bounds[1]


def floor(name: str, exponentials: float) -> str:
    return f"   floor: {exponentials:,.0f} {name}, {exponentials * NANOSECONDS * 1e-6:.3f} ms at {NANOSECONDS:.0f} ns"


def twin(grid: float) -> tuple[Callable[[], Any], Any]:
    """dp_accounting's delta on the path, and its module; skips the test where it is not installed."""
    module = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="dp_accounting is missing: uv run --group bench"
    )

    def delta() -> Any:
        total = None
        for v, n in SCALES.items():
            one = module.from_discrete_gaussian_mechanism(
                float(v) ** -0.5, value_discretization_interval=grid, use_connect_dots=True
            ).self_compose(n)
            total = one if total is None else total.compose(one)
        assert total is not None
        return np.array(total.get_delta_for_epsilon(list(epsilons(half_rho(SCALES)))))

    return delta, module


def test_profile_of_a_path() -> None:
    """140 counts, 11 scales."""
    rho = half_rho(SCALES)
    epsilon = epsilons(rho)
    seconds = median_seconds(lambda: composition(SCALES).bracket.delta(epsilon), 50)
    listed = [adv.DiscreteGaussian.from_rho(v / 2) for v, n in SCALES.items() for _ in range(n)]
    one_by_one = median_seconds(
        lambda: sum(noise.privacy_loss() for noise in listed).bracket.delta(epsilon),  # type: ignore[attr-defined]
        10,
    )
    loss = composition(SCALES)
    ready = median_seconds(lambda: loss.bracket.delta(epsilon), 50)
    bounds = loss.bracket.delta(epsilon)
    print(f"\n{sum(SCALES.values())} counts, {len(SCALES)} scales, rho {rho:.4f}: delta at 42 epsilons, both bounds")
    print(
        f"   {1e3 * seconds:.2f} ms with construction, {1e3 * ready:.2f} ms without, {1e3 * one_by_one:.1f} ms if the"
    )
    print(f"   140 losses are added one by one; widest bracket {width(bounds).max():.1e}, relative")
    print(f"   epsilon(1e-10) = {loss.epsilon(1e-10):.10f}")
    print(floor("exponentials of 19 nodes (11 scales x 7 waves, 42 phases)", 19 * (77 + 42)))
    assert width(bounds).max() <= 1e-11


@pytest.mark.parametrize("grid", [1e-4])
def test_profile_of_a_path_by_a_grid(grid: float) -> None:
    delta, _ = twin(grid)
    epsilon = epsilons(half_rho(SCALES))
    theirs = median_seconds(delta, 5)
    ours = median_seconds(lambda: composition(SCALES).bracket.delta(epsilon), 50)
    lower, upper = composition(SCALES).bracket.delta(epsilon)
    middle = 0.5 * (lower + upper)
    error, own = np.abs(delta() / middle - 1), np.maximum(upper / middle - 1, 1 - lower / middle)
    print(
        f"\ndp_accounting on a grid of {grid:g}: {theirs:.2f} s; certified: {1e3 * ours:.2f} ms; {theirs / ours:.0f}x"
    )
    for least in (1e-4, 1e-8, 1e-12, 0.0):
        where = middle > least
        print(
            f"   delta above {least:g}: errors {error[where].min():.1e} to {error[where].max():.1e} against a certified"
            f" {own[where].max():.1e}: {np.median(error[where] / own[where]):.1e} times, in the median"
        )
    print(f"   the smallest delta is {middle.min():.1e}; the grid says {delta().min():.1e}")


def test_profile_of_few_coarse_scales() -> None:
    """33 counts, 4 scales: lattice revivals."""
    epsilon = np.array([0.0, 1, 2, 3, 6, 10, 15, 20, 25, 30])
    many = epsilons(half_rho(COARSE))
    ten = median_seconds(lambda: composition(COARSE).bracket.delta(epsilon), 10)
    seconds = median_seconds(lambda: composition(COARSE).bracket.delta(many), 10)
    bounds = composition(COARSE).bracket.delta(many)
    power = median_seconds(lambda: composition(COARSE).bracket.power(LEVELS), 5)
    gap = composition(COARSE).bracket.power(LEVELS)
    print(f"\n{sum(COARSE.values())} counts, {len(COARSE)} coarse scales: {1e3 * ten:.1f} ms for 10 epsilons,")
    print(f"   {1e3 * seconds:.1f} ms for 42; widest bracket {width(bounds).max():.1e}, relative;")
    print(f"   power at three levels: {1e3 * power:.1f} ms, gap {(gap[1] - gap[0]).max():.1e}")
    print(floor("exponentials of 10,900 nodes (4 scales x 7 waves; phases by blocks)", 10_900 * 30))
    assert width(bounds).max() <= 1e-11


def test_the_redistricting_release() -> None:
    """142 counts, 38 scales, no usable lattice: a bracket."""
    epsilon = epsilons(2.63)
    build = median_seconds(lambda: adv.census.pl94().loss, 10)
    delta = median_seconds(lambda: adv.census.pl94().loss.bracket.delta(epsilon), 10)
    power = median_seconds(lambda: adv.census.pl94().loss.bracket.power(LEVELS), 10)

    def both() -> None:
        loss = adv.census.pl94().loss
        loss.bracket.delta(epsilon)
        loss.bracket.power(LEVELS)

    together = median_seconds(both, 10)
    loss = adv.census.pl94().loss
    bounds, gap = loss.bracket.delta(epsilon), loss.bracket.power(LEVELS)
    print(f"\nfull 2020 redistricting release: {1e3 * build:.1f} ms to build, {1e3 * delta:.1f} ms with delta at 42")
    print(f"   epsilons, {1e3 * power:.1f} ms with power at three levels, {1e3 * together:.1f} ms with both; widest")
    print(f"   bracket of delta {width(bounds).max():.1e}, relative; of power {(gap[1] - gap[0]).max():.1e};")
    print(f"   power {np.array2string(gap[1], precision=10)}")
    print(floor("exponentials of 37 nodes (38 scales x 7 waves, 42 phases)", 37 * (266 + 42)))
    assert width(bounds).max() <= 1e-10
    assert (gap[1] - gap[0]).max() <= 1e-10


def test_whole_trade_off_of_a_path() -> None:
    levels = np.linspace(0.0, 1.0, 1001)
    seconds = median_seconds(lambda: composition(SCALES).bracket.power(levels), 10)
    lower, upper = composition(SCALES).bracket.power(levels)
    print(f"\n1001 points of the path's trade-off, both bounds, with construction: {1e3 * seconds:.1f} ms; widest gap")
    print(f"   {(upper - lower).max():.1e}; area under the curve {np.trapezoid(upper, levels):.6f}")
    print(floor("exponentials of 19 nodes (1001 phases, delta and a tail, 3 rounds)", 19 * 1001 * 2 * 3))
    assert math.isclose(upper[-1], 1.0)
