"""Measured on demand, never in CI:  uv run --group bench pytest tests/benchmarks/bench_composition.py -s

Certified composition of discrete Gaussians, construction included. Every figure is a median over repeats. The twin, in
the same run, is dp_accounting: each scale on a grid of 1e-4 (connecting the dots), composed with itself and then across
scales. Errors of both are against the middle of the certified bracket, whose width is printed too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from tests.benchmarks.stopwatch import median_seconds, processor_seconds, record
from tests.oracles.composition import COARSE_SCALES, Family, path_families

PATH = path_families(Path(__file__).parents[2] / "data" / "census2020_dhc_path_1.csv")
LEVELS = np.array([0.01, 0.05, 0.10])


def composition(families: list[Family]) -> Any:
    return sum(n * adv.DiscreteGaussian.from_rho(v / 2).privacy_loss() for v, _, n in families)


def epsilons(rho: float) -> Any:
    """42 points: rho + 2 sqrt(rho log(1 / d)) for d from 0.5 to 1e-20."""
    return rho + 2 * np.sqrt(rho * np.log(1 / np.geomspace(0.5, 1e-20, 42)))


WORKLOADS: dict[str, tuple[Callable[[], Any], float]] = {
    "a path of the DHC, 140 counts of 11 scales": (lambda: composition(PATH), 1e-11),
    "33 counts of 4 coarse scales, with revivals": (lambda: composition(COARSE_SCALES), 1e-11),
    "the redistricting release, 142 counts of 38 scales": (lambda: adv.census.pl94().loss, 1e-10),
}


def width(bounds: tuple[Any, Any]) -> Any:
    """Largest relative width of a bracket."""
    return ((bounds[1] - bounds[0]) / bounds[1]).max()


@pytest.mark.parametrize("name", WORKLOADS)
def test_delta_and_power_of_a_workload(name: str) -> None:
    """Delta at 42 epsilons, power at three levels and the whole trade-off, both ends of the bracket."""
    make, most = WORKLOADS[name]
    loss, levels = make(), np.linspace(0.0, 1.0, 1001)
    epsilon = epsilons(float(loss.rho))
    build = median_seconds(make, 10)
    delta = median_seconds(lambda: make().bracket.delta(epsilon), 10)
    ready = median_seconds(lambda: loss.bracket.delta(epsilon), 10)
    power = median_seconds(lambda: make().bracket.power(LEVELS), 5)
    whole = median_seconds(lambda: make().bracket.power(levels), 3)
    bounds, gap = loss.bracket.delta(epsilon), loss.bracket.power(LEVELS)
    print(f"\n{name}: {1e3 * build:.1f} ms to build; with it delta at 42 epsilons {1e3 * delta:.2f} ms "
          f"({1e3 * ready:.2f} without), power at three levels {1e3 * power:.1f} ms, at 1001 {1e3 * whole:.1f} ms;\n"
          f"   brackets: delta {width(bounds):.1e}, relative; power {(gap[1] - gap[0]).max():.1e}")  # fmt: skip
    assert width(bounds) <= most
    assert (gap[1] - gap[0]).max() <= 1e-10


def test_a_path_beside_a_grid() -> None:
    """dp_accounting's delta on the path, its time and its errors."""
    module = pytest.importorskip(
        "dp_accounting.pld.privacy_loss_distribution", reason="dp_accounting is missing: uv run --group bench"
    )
    loss = composition(PATH)
    epsilon = epsilons(float(loss.rho))

    def delta() -> Any:
        first, *others = (
            module.from_discrete_gaussian_mechanism(
                float(v) ** -0.5, value_discretization_interval=1e-4, use_connect_dots=True
            ).self_compose(n)
            for v, _, n in PATH
        )
        for other in others:
            first = first.compose(other)
        return np.array(first.get_delta_for_epsilon(list(epsilon)))

    theirs = median_seconds(delta, 5)
    ours = median_seconds(lambda: composition(PATH).bracket.delta(epsilon), 50)
    lower, upper = loss.bracket.delta(epsilon)
    middle = 0.5 * (lower + upper)
    error, own = np.abs(delta() / middle - 1), np.maximum(upper / middle - 1, 1 - lower / middle)
    print(f"\ndp_accounting on a grid of 1e-4: {theirs:.2f} s; certified: {1e3 * ours:.2f} ms; {theirs / ours:.0f}x")
    for least in (1e-4, 1e-8, 1e-12, 0.0):
        where = middle > least
        print(f"   delta above {least:g}: errors {error[where].min():.1e} to {error[where].max():.1e}, certified "
              f"{own[where].max():.1e}")  # fmt: skip


SAMPLED: dict[str, tuple[float, float, int, float]] = {
    "1,000 steps at rate 0.01": (0.01, 0.8136, 1_000, 1e-4),
    "100,000 steps at rate 0.01": (0.01, 3.0, 100_000, 1e-4),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_gaussians_from_both_sides(name: str) -> None:
    """Epsilon at delta 1e-5; the twin is an upper end (connecting the dots) and, by rounding down, a lower one."""
    distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    rate, sigma, steps, grid = SAMPLED[name]

    def ours() -> tuple[float, float]:
        loss = steps * adv.sampled_loss(adv.Gaussian(sigma).privacy_loss(), rate)
        low, high = loss.bracket.epsilon(1e-5)
        return float(low), float(high)

    def theirs(pessimistic: bool) -> float:
        made = distributions.from_gaussian_mechanism(
            sigma, sampling_prob=rate, value_discretization_interval=grid, use_connect_dots=pessimistic,
            pessimistic_estimate=pessimistic,
        )  # fmt: skip
        return float(made.self_compose(steps).get_epsilon_for_delta(1e-5))

    seconds = median_seconds(ours, 3), median_seconds(lambda: (theirs(False), theirs(True)), 3)
    low, high = ours()
    under, over = theirs(False), theirs(True)
    print(
        f"\n{name}: ours [{low:.6g}, {high:.6g}] {seconds[0]:.2f} s; twin [{under:.6g}, {over:.6g}] {seconds[1]:.2f} s"
    )
    print(f"  ratio of time {seconds[0] / seconds[1]:.2f}, of width {(high - low) / (over - under):.4f}")
    assert low <= over
    assert under <= high


COMPOSED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], float, float]] = {
    "10,000 geometric losses of epsilon 0.01": (
        lambda: 10_000 * adv.Geometric(0.01).privacy_loss(),
        lambda module: module.from_discrete_laplace_mechanism(0.01, value_discretization_interval=1e-4).self_compose(
            10_000
        ),
        0.5,
        0.010,
    ),
    "100 Laplace losses of epsilon 0.1, with a bracket": (
        lambda: 100 * adv.Laplace(10.0).privacy_loss(),
        lambda module: module.from_laplace_mechanism(10.0, value_discretization_interval=1e-4).self_compose(100),
        1.0,
        0.030,
    ),
}
"""By name: ours, the twin's, the epsilon at which delta is read, and the goal in seconds."""


@pytest.mark.parametrize("name", COMPOSED)
def test_many_equal_losses(name: str) -> None:
    """Delta of the composition, construction included; the twin on a grid of 1e-4."""
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    make, theirs, epsilon, most = COMPOSED[name]
    seconds = processor_seconds(lambda: make().bracket.delta(epsilon), 20)
    twin = processor_seconds(lambda: theirs(module).get_delta_for_epsilon(epsilon), 5)
    record(name, seconds, "dp_accounting, grid 1e-4", twin, most=most)
    low, high = (float(one) for one in make().bracket.delta(epsilon))
    print(f"\n{name}: bracket {(high - low) / high:.1e} wide, relative; twin off by "
          f"{theirs(module).get_delta_for_epsilon(epsilon) / high - 1.0:+.1e}")  # fmt: skip
    assert (high - low) / high <= 1e-8
