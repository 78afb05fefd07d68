"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_spine.py -s

A made-up state of five levels with the 2020 Census's shares of the budget; block groups have rates of their own, seven
blocks in ten are empty. Figures leave compiling out. The twins are a straightforward inference with untilted FFTs on a
dense grid, and PyMC's sampler, on one block group of 30 blocks, in the same run.

Not measured, since no machine had more than two cores: 300,000 blocks end to end with 4, 8 and 16 workers, a million
blocks with workers, a table of a million cells with workers. Of one worker's processor time 85 % is spent in compiled
code, without the interpreter's lock: two threads are at most 1.74 times as fast as one, 16 at most 4.9 times; more
takes processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pytest

import adversary as adv
from tests.benchmarks.stopwatch import median_seconds, record

spine = adv.spine
LEVELS = ("state", "county", "tract", "block group", "block")
RHO = np.array([0.0504877959, 0.0513777347, 0.0504162067, 0.2464845096, 0.0992263542])
"""By level, the optimised block group in place of the plain one."""
MOST = {200_000: 5.0, 1_000_000: 25.0}
"""Seconds that a state of so many blocks may take, with every posterior and every membership ratio."""
GIBIBYTES = 1.0
TOLERANCE = 1e-12


def state(blocks: int, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """(tree, true counts, noisy counts, rho) of a made-up state."""
    sizes = [1, max(1, blocks // 2000), max(1, blocks // 90), max(1, blocks // 30), blocks]
    starts = np.cumsum([0, *sizes])
    parent = [np.array([-1])]
    for i in range(1, 5):
        extra = rng.integers(0, sizes[i - 1], sizes[i] - sizes[i - 1])
        parent.append(starts[i - 1] + np.sort(np.concatenate([np.arange(sizes[i - 1]), extra])))
    level = np.repeat(np.arange(5), sizes)
    parents = np.concatenate(parent)
    tree = spine.Tree(np.char.mod("%08d", np.arange(level.size)), level, LEVELS, parents)
    rate = rng.choice([0.01, 0.1, 0.5, 1.0, 3.0, 10.0], sizes[3], p=[0.3, 0.3, 0.2, 0.1, 0.07, 0.03])
    counts = np.zeros(level.size)
    counts[starts[4] :] = rng.poisson(rng.gamma(0.5, rate[parents[starts[4] :] - starts[3]] / 0.5))
    for i in range(4, 0, -1):
        here = slice(starts[i], starts[i + 1])
        counts += np.bincount(parents[here], counts[here], counts.size)
    rho = RHO[level]
    noise = [adv.DiscreteGaussian.from_rho(r).sample(np.zeros(n, int), rng) for r, n in zip(RHO, sizes, strict=True)]
    return tree, counts, counts + np.concatenate(noise), rho


def whole(tree: Any, counts: Any, noisy: Any, rho: Any, prior: Any = None) -> tuple[Any, Any]:
    """What is timed: the posterior of every unit and the membership ratio of every block."""
    found = spine.posterior(tree, noisy, rho, prior, tolerance=TOLERANCE)
    return found, found.membership(known=np.maximum(counts[tree.leaves] - 1, 0))


PRIORS = {"shared rate": None, "flat": spine.Flat(), "negative binomial": spine.NegativeBinomial(0.5, 0.9)}


@pytest.mark.parametrize("blocks", MOST)
@pytest.mark.parametrize("prior", PRIORS)
def test_a_state_on_one_core(blocks: int, prior: str) -> None:
    """Time, ledger and proven error."""
    whole(*state(200, np.random.default_rng(1)), PRIORS[prior])
    case = state(blocks, np.random.default_rng(2020))
    start = perf_counter()
    found, members = whole(*case, PRIORS[prior])
    seconds = perf_counter() - start
    settled = np.bincount(members["status"].values, minlength=len(spine.STATUS))
    window = found.solutions[0].messages.windows["size"].mean()
    print(f"\n{blocks:,} blocks, {prior}: {seconds:.2f} s, {1e6 * seconds / len(case[0]):.1f} us per unit, "
          f"{window:.1f} entries, dropped {found.truncation_bound:.1e}, largest proven error of a log Bayes factor "
          f"{float(members['error'].max()):.1e}; {dict(zip(spine.STATUS, settled.tolist(), strict=True))}")  # fmt: skip
    error = float(np.sqrt(((found.mean.values - case[1])[case[0].leaves] ** 2).mean()))
    print(f"   root mean square error of blocks {error:.3f}, as published {np.sqrt(0.5 / RHO[-1]):.3f}")
    record(f"spine of {blocks:,} blocks, {prior}", seconds, most=MOST[blocks])
    assert found.status == "ok"
    assert seconds < MOST[blocks]


def test_memory_of_a_state() -> None:
    """The largest resident set of a process of its own, machine code at hand."""
    code = (
        "import numpy as np\n"
        "from tests.benchmarks.bench_spine import state, whole\n"
        "whole(*state(200_000, np.random.default_rng(1)))\n"
        "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd())
    held = int(done.stdout) / 2**20
    print(f"\n200,000 blocks: {held:.2f} GiB at most")
    assert held < GIBIBYTES


def test_time_per_unit_is_constant() -> None:
    """The table: medians, set-up apart, which is what one block group of 30 blocks takes."""
    rng = np.random.default_rng(7)
    setup = median_seconds(partial(whole, *state(30, rng)), 30)
    print(f"\nset-up {1e3 * setup:.2f} ms")
    times = {}
    for blocks, repeats in ((2_000, 31), (20_000, 9), (200_000, 5), (1_000_000, 3)):
        case = state(blocks, rng)
        seconds = median_seconds(partial(whole, *case), repeats)
        times[blocks] = (seconds - setup) / len(case[0])
        print(f"{blocks:>9,} blocks: {1e6 * times[blocks]:6.2f} us per unit; with set-up {seconds:.3f} s")
    assert max(times.values()) < 1.2 * min(times.values())


def test_two_workers_against_one() -> None:
    """Eight cells of 20,000 blocks in threads; processor time beside, since cores may be shared."""
    tree, counts, _, rho = state(20_000, np.random.default_rng(3))
    rng = np.random.default_rng(4)
    noisy = counts[:, None] + np.rint(rng.normal(0, np.sqrt(0.5 / rho)[:, None], (counts.size, 8)))
    seconds, used = {}, {}
    for workers in (1, 2):
        run = partial(spine.posterior, tree, noisy, rho, workers=workers)
        found = run()
        start = process_time()
        run().membership(known=0, workers=workers)
        used[workers] = process_time() - start
        seconds[workers] = median_seconds(
            lambda found=found, run=run, w=workers: run().membership(known=0, workers=w), 3
        )
    print(f"\n8 cells: {seconds[1]:.2f} s with one worker, {seconds[2]:.2f} s with two, {seconds[1] / seconds[2]:.2f} "
          f"times; processor time {used[1]:.2f} and {used[2]:.2f} s; {os.cpu_count()} cores, "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
    record("spine of 20,000 blocks and 8 cells, two workers", seconds[2], "one worker", seconds[1], times=1.0 / 1.7)
    assert seconds[1] / seconds[2] > 1.7


def dense_fft(noisy: Any, rho: Any, most: int) -> Any:
    """Posterior means of the blocks of one group, flat prior: all counts to `most`, sums of the others by FFT."""
    x = np.arange(most)
    leaf = np.exp(-rho[1:, None] * (noisy[1:, None] - x) ** 2)
    top = np.exp(-rho[0] * (noisy[0] - np.arange(2 * most * leaf.shape[0])) ** 2)
    size = top.size
    waves = np.fft.rfft(leaf, size)
    means = []
    for k in range(leaf.shape[0]):
        others = np.fft.irfft(np.prod(np.delete(waves, k, axis=0), axis=0), size)
        told = np.fft.irfft(np.fft.rfft(top) * np.conj(np.fft.rfft(others)), size)[:most]
        p = leaf[k] * told
        means.append(p @ x / p.sum())
    return np.array(means)


def test_one_block_group_against_dense_ffts_and_pymc() -> None:
    """Thirty blocks: time and answers."""
    import pymc as pm

    rng = np.random.default_rng(5)
    tree = spine.Tree.of({"group": None} | {f"{i}": "group" for i in range(30)})
    counts = rng.poisson(rng.gamma(0.5, 2.0, 30))
    rho = np.array([RHO[3], *[RHO[4]] * 30])
    noisy = np.rint(np.concatenate([[counts.sum()], counts]) + rng.normal(0, np.sqrt(0.5 / rho)))
    ours = spine.posterior(tree, noisy, rho, spine.Flat())
    seconds = median_seconds(lambda: spine.posterior(tree, noisy, rho, spine.Flat()).membership(known=0), 30)
    dense = median_seconds(lambda: dense_fft(noisy, rho, 80), 10)
    start = perf_counter()
    with pm.Model(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = pm.DiscreteUniform("x", 0, 80, shape=30)
        pm.Potential("blocks", -(rho[1:] * (noisy[1:] - x) ** 2).sum())
        pm.Potential("group", -rho[0] * (noisy[0] - x.sum()) ** 2)
        draws = pm.sample(500, tune=500, chains=2, cores=1, progressbar=False, random_seed=1,
                          compute_convergence_checks=False)  # fmt: skip
    sampled = perf_counter() - start
    theirs = draws["posterior"]["x"].mean(("chain", "draw")).values
    means = ours.mean.values[1:]
    wrong = np.abs(dense_fft(noisy, rho, 80) - means).max()
    print(f"\n30 blocks: {1e3 * seconds:.2f} ms with labels; dense FFTs {1e3 * dense:.1f} ms, {dense / seconds:.0f} "
          f"times, wrong by up to {wrong:.1e}; PyMC {sampled:.1f} s, {sampled / seconds:,.0f} times, "
          f"off by up to {np.abs(theirs - means).max():.2f}")  # fmt: skip
    assert seconds < dense < sampled
    empty = np.zeros(31)
    exact = spine.posterior(tree, empty, rho, spine.Flat()).mean.values[1:].sum()
    print(f"   all observed at 0: total {exact:.4f}, dense FFTs {dense_fft(empty, rho, 80).sum():.4f}")
