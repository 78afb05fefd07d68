"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_curves.py -s

One size grows by steps while all else stands. Printed are processor seconds, the exponent of the last three sizes, and
cliffs: a step between neighbours that takes over three times what the size grew by, beyond the time of small work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import numpy as np
import pytest

import adversary as adv
from tests.benchmarks.stopwatch import PLAN, record

LONGEST = 15.0
"""Processor seconds of a point after which a curve ends."""
CLIFF, SMALL = 3.0, 0.05
"""Times the growth of the size, and the processor seconds below which a step counts for nothing."""
READER = adv.Adversary(0.5, 0, {"block group": adv.Uniform()})
TRUTH = {"block": 1, "block group": 1}
Gaussian = adv.DiscreteGaussian.from_rho


def levels(number: int, rho: float = 0.1) -> tuple[adv.Plan, adv.Adversary, dict[str, int]]:
    """A plan of so many levels, an adversary and a truth."""
    names = [f"level {i}" for i in range(number)]
    siblings = [9, *[4] * (number - 2), None][-number:] if number > 1 else [None]
    plan = adv.Plan(
        [
            adv.Level(name, Gaussian(rho), **({} if many is None else {"siblings": many}))
            for name, many in zip(names, siblings, strict=True)
        ]
    )
    beliefs = {name: adv.Uniform() for name in names[1:]}
    return plan, adv.Adversary(0.5, 0, beliefs), {name: 1 + 2 * i for i, name in enumerate(names)}


def audit_of(number: int, rho: float = 0.1) -> Callable[[], Any]:
    plan, adversary, truth = levels(number, rho)
    return lambda: adv.audit(plan, adversary, truth, progress=False)


def posteriors(draws: int) -> Callable[[], Any]:
    release = PLAN.release(TRUTH, 1, draws)
    return lambda: READER.posterior(PLAN, release)


def adversaries(number: int) -> Callable[[], Any]:
    beliefs = {"block group": adv.Uniform()}
    every = {f"{i}": adv.Adversary((i + 1) / (number + 2), 0, beliefs) for i in range(number)}
    return lambda: adv.audit(PLAN, every, TRUTH, progress=False)


def counted(count: int) -> Callable[[], Any]:
    adversary = adv.Adversary(0.5, count - 1, {"block group": adv.Uniform()})
    return lambda: adv.audit(PLAN, adversary, {"block": count, "block group": 12 * count}, progress=False)


CURVES: dict[str, tuple[Callable[[Any], Callable[[], Any]], Sequence[float]]] = {
    "audit by levels": (audit_of, (1, 2, 3, 4, 5, 6, 8)),
    "audit of two levels by 1 / rho": (lambda x: audit_of(2, 1.0 / x), (1e-2, 1e-1, 1, 10, 1e2, 1e3, 1e4)),
    "audit of three levels by 1 / rho": (lambda x: audit_of(3, 1.0 / x), (1e-2, 1e-1, 1, 10, 1e2, 1e3, 1e4)),
    "audit by adversaries who differ in their prior": (adversaries, (1, 10, 100, 1000)),
    "audit by count": (counted, (1, 10, 100, 1000, 10**4, 10**5, 10**6)),
    "posteriors of drawn releases": (posteriors, (1000, 10**4, 10**5, 10**6)),
    "draws of releases": (lambda n: lambda: PLAN.release(TRUTH, 1, n), (1000, 10**4, 10**5, 10**6)),
    "equal losses, rho 0.5 in all": (lambda n: lambda: (n * Gaussian(0.5 / n).privacy_loss()).delta(1.0),
                                     (1, 10, 100, 1000, 10**4, 10**5)),
    "geometric losses, epsilon 1 / sqrt(n) each": (
        lambda n: lambda: (n * adv.Geometric(n**-0.5).privacy_loss()).delta(0.5), (1, 10, 100, 1000, 10**4)),
    "Laplace losses, epsilon 1 in all": (
        lambda n: lambda: (n * adv.Laplace(float(n)).privacy_loss()).delta(0.5), (1, 10, 100, 1000, 10**4)),
}  # fmt: skip
"""By name, what makes the work of a size, and the sizes."""


def processor_seconds(work: Callable[[], Any], repeats: int = 2) -> float:
    """The least over repeats, of one where it takes long."""
    best, total = np.inf, 0.0
    for _ in range(repeats):
        start = process_time()
        work()
        took = process_time() - start
        best, total = min(best, took), total + took
        if total > LONGEST:
            break
    return float(best)


def cliffs(sizes: Sequence[float], seconds: Sequence[float]) -> list[str]:
    """Steps between neighbouring sizes that take over `CLIFF` times what the size grew by."""
    steps = zip(sizes, sizes[1:], seconds, seconds[1:], strict=False)
    return [
        f"{a:g} to {b:g}: {s:.3f} to {t:.3f} s"
        for a, b, s, t in steps
        if t > SMALL and t > CLIFF * (b / a) * max(s, SMALL / CLIFF)
    ]


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_has_no_cliff(name: str) -> None:
    make, sizes = CURVES[name]
    measured: list[float] = []
    for size in sizes:
        measured.append(processor_seconds(make(size)))
        if measured[-1] > LONGEST:
            break
    reached = sizes[: len(measured)]
    exponent = np.polyfit(np.log(reached[-3:]), np.log(measured[-3:]), 1)[0] if len(reached) > 2 else np.nan
    print(f"\n{name}: exponent {exponent:.2f}")
    print("   " + ", ".join(f"{size:g}: {1e3 * one:.1f} ms" for size, one in zip(reached, measured, strict=True)))
    growth = [reached[i + 1] / reached[i] for i in range(len(reached) - 1)]
    pairs = zip(measured, measured[1:], growth, strict=False)
    step = int(np.argmax([b / (g * max(a, SMALL / CLIFF)) for a, b, g in pairs]))
    before = growth[step] * max(measured[step], SMALL / CLIFF)
    item = f"{name}: steepest step, to {reached[step + 1]:g}"
    record(item, measured[step + 1], f"{growth[step]:.3g} times that of {reached[step]:g}", before, times=CLIFF)
    steep = cliffs(reached, measured)
    for line in steep:
        print(f"   cliff, {line}")
    assert not steep
