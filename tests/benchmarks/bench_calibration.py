"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_calibration.py -s

Calibration by simulation of one model with discrete latents: all posteriors enumerated at once, against simuk, which
samples every posterior with `pm.sample` and compiles it anew. The twin runs on the same model in the same run, in the
faster of two ways to compile, with a quarter of PyMC's draws; figures are per simulation, compilation included.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytest
from pymc.pytensorf import compile as compile_random

import adversary as adv
from adversary import models
from adversary.models.calibration.simulation_based import calibrate, uniformity
from adversary.models.enumeration.batched_graphs import NUMPY_MODE
from adversary.models.importance import PriorPredictive
from tests.benchmarks.stopwatch import PLAN, median_seconds, once

READER = adv.Adversary(0.5, 0, {"block group": adv.Uniform(40)})
FEW = 8
SETTINGS = {"draws": 500, "tune": 500, "chains": 2, "cores": 1}


def model() -> pm.Model:
    return models.hierarchical_counts(PLAN, READER)


def continuous() -> pm.Model:
    """An unknown rate behind counts of six years."""
    with pm.Model() as one:
        rate = pm.Gamma("rate", 4.0, 2.0)
        models.noise.released("noisy", adv.Gaussian(2.0), rate * np.linspace(0.8, 1.3, 6))
    return one


def twin_seconds(mode: Any, ready: pm.Model, target: str = "in") -> float:
    """Seconds of one of simuk's simulations, its prior draws included."""
    simuk = pytest.importorskip("simuk", reason="simuk is missing: uv run --group dev")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    released = [v for v in ready.free_RVs if v.name.startswith(("noisy", "sibling_sum"))]
    observed = pm.observe(ready, {v.name: np.zeros(v.shape.eval(), v.dtype) for v in released})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, and of what simuk does with xarray
        check = simuk.SBC(
            observed,
            num_simulations=FEW,
            seed=1,
            progress_bar=False,
            sample_kwargs={**SETTINGS, "compile_kwargs": {"mode": mode}},
        )
        seconds = once(check.run_simulations)
    assert check.simulations["prior_sbc"][target].sizes["draw"] == FEW
    return seconds / FEW


def test_simulations_per_second() -> None:
    ready = model()
    rows = []
    for simulations in (1000, 20_000):
        options: dict[str, Any] = {"simulations": simulations, "rng": 1, "progress": False}
        rows.append((simulations, median_seconds(lambda options=options: calibrate(ready, **options), 3)))
    twins = {"NumPy": twin_seconds(NUMPY_MODE, ready), "Numba": twin_seconds("NUMBA", ready)}
    theirs = min(twins.values())
    print(f"\nsimuk: {', '.join(f'{seconds:.2f} s a simulation in {mode}' for mode, seconds in twins.items())}")
    for simulations, seconds in rows:
        print(
            f"   {simulations} simulations enumerated: {seconds:.2f} s with compilation, {simulations / seconds:,.0f} "
            f"a second, {theirs * simulations / seconds:,.0f} times simuk's"
        )
    trees = [calibrate(ready, progress=False) for _ in range(10)]
    seconds = median_seconds(lambda: uniformity(trees[0]), 5)
    p_values = " ".join(f"{float(uniformity(tree)['overall']):.3f}" for tree in trees)
    print(f"   tests of uniformity: {1e3 * seconds:.1f} ms; overall p-values of ten fresh seeds: {p_values}")
    assert theirs * rows[0][0] / rows[0][1] > 20


def test_simulations_per_second_with_a_continuous_latent() -> None:
    ready, simulations = continuous(), 1000
    seconds = median_seconds(lambda: calibrate(ready, simulations=simulations, rng=1, progress=False), 1)
    theirs = min(twin_seconds(mode, ready, "rate") for mode in (NUMPY_MODE, "NUMBA"))
    print(
        f"\nweighed draws, likelihood included: {1e3 * seconds / simulations:.1f} ms a simulation, simuk {theirs:.2f} s"
    )
    assert theirs * simulations / seconds > 10


def test_prior_draws() -> None:
    """Whole worlds, latents and release, three ways."""
    ready, rng = model(), np.random.default_rng(1)
    names = [v.name for v in ready.basic_RVs]
    prior = PriorPredictive.of(ready, names)
    ours = median_seconds(lambda: prior.draw(10_000, rng), 5) / 10_000
    one = compile_random([], ready.basic_RVs, mode=NUMPY_MODE)
    looped = median_seconds(lambda: [one() for _ in range(500)], 3) / 500
    with ready:
        options: dict[str, Any] = {"compile_kwargs": {"mode": NUMPY_MODE}, "random_seed": 1}
        logging.getLogger("pymc").setLevel(logging.ERROR)
        stock = median_seconds(lambda: pm.sample_prior_predictive(500, **options), 3) / 500
    print(f"\none world of {len(names)} variables: {1e6 * ours:.1f} us at once, {1e6 * looped:.0f} us one by one,")
    print(f"   {1e6 * stock:.0f} us by pm.sample_prior_predictive; ratios {looped / ours:.0f} and {stock / ours:.0f}")
