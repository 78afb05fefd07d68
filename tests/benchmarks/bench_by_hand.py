"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_by_hand.py -s

A thousand different releases of a block and its block group, read by an adversary who knows the rate of the trait, or
has a beta law of it: by `audit_model`, by refitting with `pm.sample` (a few releases, the rest extrapolated), and by a
function of NumPy and SciPy, whose lines are counted. All must agree. README quotes the first line printed.
"""

from __future__ import annotations

import inspect
import logging
from time import process_time
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from scipy import stats

import adversary as adv
from adversary.models import noise

BLOCK, GROUP = adv.DiscreteGaussian.from_rho(0.005), adv.DiscreteGaussian.from_rho(0.005)
OWN, OTHERS, PRIOR, RATE = 6, 40, 0.3, 0.25
RELEASES = 3000
"""Drawn; rather more than a thousand of them differ."""
REFITS = 3


def by_model(*, unknown_rate: bool) -> pm.Model:
    """Counts of six people beside the target and of forty in the other blocks, and noise on both levels."""
    with pm.Model() as model:
        rate = pm.Beta("rate", 4.0, 12.0) if unknown_rate else np.float64(RATE)
        present = pm.Bernoulli("in", np.float64(PRIOR))
        own, others = pm.Binomial("own", OWN, rate), pm.Binomial("others", OTHERS, rate)
        noise.released("noisy[block]", BLOCK, own + present)
        noise.released("noisy[group]", GROUP, own + present + others)
    return model


def by_hand(block: Any, group: Any) -> Any:
    own, others = np.arange(OWN + 1), np.arange(OTHERS + 1)
    chance_own, chance_others = stats.binom.pmf(own, OWN, RATE), stats.binom.pmf(others, OTHERS, RATE)
    evidence = []
    for present, prior in ((0, 1.0 - PRIOR), (1, PRIOR)):
        of_block = np.exp(BLOCK.log_prob(block[:, None], own + present)) * chance_own
        of_group = np.exp(GROUP.log_prob(group[:, None, None], own[:, None] + present + others)) @ chance_others
        evidence.append(prior * (of_block * of_group).sum(axis=1))
    return evidence[1] / (evidence[0] + evidence[1])


def by_hand_without_the_rate(block: Any, group: Any) -> Any:
    own, others = np.arange(OWN + 1), np.arange(OTHERS + 1)
    node, weight = np.polynomial.legendre.leggauss(80)
    rate = (node + 1.0) / 2.0
    weight = weight * stats.beta(4.0, 12.0).pdf(rate)
    chance_own = stats.binom.pmf(own, OWN, rate[:, None])
    chance_others = stats.binom.pmf(others, OTHERS, rate[:, None])
    evidence = []
    for present, prior in ((0, 1.0 - PRIOR), (1, PRIOR)):
        of_block = np.exp(BLOCK.log_prob(block[:, None], own + present))
        of_group = np.exp(GROUP.log_prob(group[:, None, None], own[:, None] + present + others))
        joint = np.einsum("nks,qs->nqk", of_group, chance_others) * chance_own
        evidence.append(prior * np.einsum("q,nqk,nk->n", weight, joint, of_block))
    return evidence[1] / (evidence[0] + evidence[1])


def refitted(release: xr.Dataset, i: int, *, unknown_rate: bool) -> tuple[float, float]:
    """Processor seconds and the posterior of one release by PyMC's own sampler."""
    data = {name: int(release[name][i]) for name in ("noisy[block]", "noisy[group]")}
    start = process_time()
    with pm.observe(by_model(unknown_rate=unknown_rate), data):
        options: dict[str, Any] = {"chains": 4, "cores": 1, "random_seed": i, "progressbar": False}
        drawn = pm.sample(1000, tune=500, nuts_sampler="pymc", **options)
    return process_time() - start, float(drawn["posterior"]["in"].mean())


def compared(title: str, hand: Any, *, unknown_rate: bool) -> float:
    """Seconds of refitting over those of the toolkit."""
    start = process_time()
    options: dict[str, Any] = {"released": ["noisy[block]", "noisy[group]"], "draws": RELEASES, "rng": 1}
    tree = adv.audit_model(by_model(unknown_rate=unknown_rate), {"in": 1}, progress=False, **options)
    seconds = process_time() - start
    release = tree["release"].to_dataset()
    count = release.sizes["release"]
    start = process_time()
    right = hand(release["noisy[block]"].values, release["noisy[group]"].values)
    numpy_seconds = process_time() - start
    lines = len(inspect.getsource(hand).splitlines())
    refitted(release, 0, unknown_rate=unknown_rate)  # compiles what the others use
    fits = [refitted(release, i, unknown_rate=unknown_rate) for i in range(REFITS)]
    refit = float(np.mean([one for one, _ in fits]))
    found = tree["estimate" if unknown_rate else "exact"].to_dataset()
    off = np.abs(found["posterior"].values - right).max()
    fits_off = max(abs(chance - right[i]) for i, (_, chance) in enumerate(fits))
    print(
        f"\n{title}: 1,000 releases in {1e3 * seconds / count:.1f} s of processor time; refitting takes {refit:.2f} s "
        f"a release ({REFITS} measured), {1e3 * refit:,.0f} s; by hand in NumPy {lines} lines ({numpy_seconds:.2f} s)"
        f"\n   {count} different releases; furthest from by hand {off:.1e}, refits {fits_off:.1e}"
    )
    assert count >= 1000
    assert off < (0.05 if unknown_rate else 1e-12)
    if unknown_rate:
        ok = found["status"].values == "ok"
        assert ok.mean() > 0.99
        assert (np.abs(found["posterior"].values - right)[ok] < 5 * found["mcse"].values[ok]).all()
    return refit * count / seconds


def test_a_thousand_releases_of_two_levels() -> None:
    logging.getLogger("pymc").setLevel(logging.ERROR)
    assert compared("rate known", by_hand, unknown_rate=False) > 50
    assert compared("rate unknown", by_hand_without_the_rate, unknown_rate=True) > 50
