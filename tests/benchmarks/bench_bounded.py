"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_bounded.py -s

Every figure is a median over repeats or, of a whole cell, one run after a small one that does not count; limits are
asked of the least, since what else a machine does can only add to it. The twin is our own compiled Gibbs sampler (the
corrected one) with the 20,000 draws of the published study, in the same run.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.bounded.thesis.statistics_gibbs import gibbs
from tests.benchmarks.stopwatch import all_seconds, median_seconds

EXAMPLE = adv.bounded.BoundedRelease(34.302683, 2224.8001, 43, (0.25, 0.25), (0, 100))
"""Example 4 of the thesis, its units."""
PRIORS = {"flat": "flat", "informative": adv.bounded.NormalInverseGamma(12.5, 1, 1, 3.8)}
DRAWS = 20_000
MOST = {"one": 10e-3, "each of many": 2e-3, "a cell": 60.0}
"""Seconds that the work may take."""
PUBLISHED = (10.0, 20.0)
"""Core hours of the published code, for one cell."""


def interval(release: Any, prior: Any, constrained: bool) -> Any:
    """What is timed: from the release to the ends of the 95 % interval."""
    return adv.bounded.posterior(release, prior, constrained).hdi("mu", 0.95)


def sampled(release: Any, prior: Any, constrained: bool, thin: int = 1) -> Any:
    """Draws of mu of one chain; too few effective ones are reported, not warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = gibbs(release, prior, constrained, draws=DRAWS, burn=1000, chains=1, thin=thin, rng=1)
    return tree["posterior"]["mu"]


def shortest(draws: Any, prob: float = 0.95) -> Any:
    """The shortest interval that holds `prob` of the draws."""
    x = np.sort(np.ravel(draws))
    held = int(np.ceil(prob * x.size))
    i = int(np.argmin(x[held - 1 :] - x[: x.size - held + 1]))
    return np.array([x[i], x[i + held - 1]])


def one_by_one(released: Any, count: int) -> list[Any]:
    """The first of many releases, each on its own."""
    pairs = zip(released.mean[:count], released.variance[:count], strict=True)
    return [adv.bounded.BoundedRelease(mean, variance, released.n, released.epsilon) for mean, variance in pairs]


def ends(interval: Any) -> str:
    """An interval as text."""
    return "[{:.2f}, {:.2f}]".format(*interval)


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("prior", PRIORS)
def test_one_posterior_with_its_interval(prior: str, constrained: bool) -> None:
    """Beside the sampler's time and answer, and the answer of a chain fifty times as long."""
    case = (EXAMPLE, PRIORS[prior], constrained)
    times, twin = all_seconds(lambda: interval(*case), 50), median_seconds(lambda: sampled(*case), 5)
    seconds, least = float(np.median(times)), min(times)
    draws, long = sampled(*case), sampled(*case, thin=50)
    print(f"\n{prior}, constrained={constrained}: {1e3 * seconds:.2f} ms, at least {1e3 * least:.2f}, "
          f"{ends(interval(*case))};")  # fmt: skip
    print(f"   {DRAWS:,} Gibbs sweeps: {1e3 * twin:.0f} ms, {twin / seconds:.0f} times that, {ends(shortest(draws))}, "
          f"ESS {draws.attrs['ess']:.0f}")  # fmt: skip
    print(f"   {50 * DRAWS:,} sweeps: {ends(shortest(long))}, ESS {long.attrs['ess']:.0f}")
    assert least < MOST["one"]
    np.testing.assert_allclose(interval(*case), shortest(long), atol=1.5)


@pytest.mark.parametrize("constrained", [True, False])
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_ten_thousand_releases_at_once(n: int, constrained: bool) -> None:
    """Releases as in the thesis's study, epsilon 0.1 + 0.1."""
    rng = np.random.default_rng(1)
    released = adv.bounded.BoundedRelease.of(rng.beta(4, 4, (10_000, n)), (0.1, 0.1), rng=rng)
    few = one_by_one(released, 5)
    times = [x / 10_000 for x in all_seconds(lambda: interval(released, "flat", constrained), 5)]
    seconds, least = float(np.median(times)), min(times)
    one = median_seconds(lambda: [interval(release, "flat", constrained) for release in few], 5) / len(few)
    twin = median_seconds(lambda: [sampled(release, "flat", constrained) for release in few], 3) / len(few)
    print(f"\nn = {n}, constrained={constrained}: {1e6 * seconds:.0f} us each of 10,000, at least "
          f"{1e6 * least:.0f}; {1e6 * one:.0f} us alone;")  # fmt: skip
    print(f"   {DRAWS:,} Gibbs sweeps {1e6 * twin:.0f} us, {twin / seconds:.0f} times as long")
    together = interval(released, "flat", constrained)[:5]
    np.testing.assert_allclose(together, [interval(release, "flat", constrained) for release in few], atol=1e-6)
    assert least < MOST["each of many"]


def test_a_cell_of_the_published_study() -> None:
    """10,000 data sets drawn, released and analysed; the sampler's time for them by that of a hundred."""
    design: dict[str, Any] = {"n": 100, "truths": (0.1, 0.04), "epsilon": 0.1, "constrained": True}
    adv.bounded.coverage_study(**design, datasets=10, rng=1)
    start = perf_counter()
    study = adv.bounded.coverage_study(**design, datasets=10_000, rng=1).squeeze().sel(estimate="mode")
    seconds = perf_counter() - start
    rng = np.random.default_rng(1)
    data = np.clip(rng.normal(0.1, 0.04, (100, 100)), 0, 1)
    released = adv.bounded.BoundedRelease.of(data, (0.1, 0.1), rng=rng)
    some = one_by_one(released, 100)
    start = perf_counter()
    theirs = [shortest(sampled(release, "flat", True)) for release in some]
    twin = (perf_counter() - start) * 10_000 / len(some)
    print(
        f"\na cell: {seconds:.1f} s; Gibbs, {DRAWS:,} sweeps for each: {twin:.0f} s, {twin / seconds:.0f} times that;"
    )
    print(f"   published: {PUBLISHED[0]:.0f} to {PUBLISHED[1]:.0f} core hours, or {3600 * PUBLISHED[0] / seconds:.0f} "
          "times that and more")  # fmt: skip
    for name, value in (("length", 0.4115), ("coverage", 0.9283), ("rmse", 0.1064)):
        found, error = float(study[name]), float(study[f"{name}_mcse"])
        print(f"   {name}: {found:.4f} ± {error:.4f}, published {value}")
    ours = interval(released, "flat", True)
    print(f"   mean ends of a hundred: exact {ends(ours.mean(0))}, sampler {ends(np.mean(theirs, axis=0))}; "
          f"mean length {np.diff(ours).mean():.4f}, {np.diff(theirs).mean():.4f}")  # fmt: skip
    assert seconds < MOST["a cell"]
