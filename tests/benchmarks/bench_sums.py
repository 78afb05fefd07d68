"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_sums.py -s

Sums over discrete latents: one by one where they factorise, against the same model's joint states; states enumerated a
second and bytes a state. Times are of compiled models.
"""

from __future__ import annotations

import tracemalloc
from functools import partial
from time import perf_counter
from unittest import mock

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import adversary as adv
from adversary.models.enumeration import Components, compile_enumerator
from adversary.models.noise import released
from tests.benchmarks.stopwatch import median_seconds

SHARE = np.array([0.5, 0.3, 0.2])


def block_groups() -> pm.Model:
    """Three blocks of three categories, their shares drawn from a Dirichlet law each, and one person's record."""
    with pm.Model() as model:
        record = pm.Categorical("record", p=SHARE)
        others = pm.DirichletMultinomial("others", n=np.array([7, 8, 9]), a=4.0 * SHARE, shape=(3, 3))
        pm.Deterministic("in", pm.math.eq(record, 0).astype("int64"))
        released("noisy", adv.Geometric(0.7), pt.inc_subtensor(others[0, record], 1))
    return model


def counts(number: int, size: int) -> pm.Model:
    """A total of counts that somebody is in: one component."""
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.3)
        others = [pm.Binomial(f"others {i}", size, 0.4) for i in range(number)]
        weighted = sum((i + 1) * one for i, one in enumerate(others))
        released("noisy", adv.Geometric(1.0), weighted + present)
    return model


def test_factorised_against_joint_enumeration() -> None:
    """The same model, its components added up one by one and all together."""
    seen = {"noisy": np.random.default_rng(1).integers(0, 5, size=(20, 3, 3))}
    apart = compile_enumerator(block_groups(), ["noisy"])
    with mock.patch.object(Components, "of", lambda grid, *unused: Components.whole(grid)):
        together = compile_enumerator(block_groups(), ["noisy"])
    start = perf_counter()
    joint = together(seen)
    seconds = perf_counter() - start
    each = median_seconds(partial(apart, seen), 5)
    off = np.abs(joint["posterior"].values - apart(seen)["posterior"].values).max()
    print(f"\n{together.states} joint states {seconds:.2f} s, {apart.states} in components {each:.4f} s")
    print(f"   {seconds / each:,.0f} times; largest difference {off:.1e}")
    assert off < 1e-12
    assert seconds / each >= 100


def test_states_a_second() -> None:
    """A hundred thousand states of one component, and how much memory twenty million need."""
    run = compile_enumerator(counts(4, 15), ["noisy"])
    seconds = median_seconds(partial(run, {"noisy": 40}), 7)
    rate = run.states / seconds
    print(f"\n{run.states} states: {seconds:.3f} s, {1e5 / rate:.3f} s for 1e5")
    tracemalloc.start()
    large = compile_enumerator(counts(6, 14), ["noisy"])
    small, _ = tracemalloc.get_traced_memory()
    start = perf_counter()
    large({"noisy": 100})
    seconds = perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    held, most = small / large.states, peak / large.states
    print(f"{large.states} states: {seconds:.1f} s, {held:.1f} bytes a state for all releases, {most:.1f} at most")
    assert 1e5 / rate <= 0.1
    assert most <= 8
