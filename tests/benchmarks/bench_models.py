"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_models.py -s

One hierarchical model with an unknown continuous rate, asked about a thousand different releases by draws of its prior;
beside it nutpie, PyMC's own sampler, and its exact twin: a gamma rate of Poisson counts is a negative binomial law of
the others, which the exact engine reads. Discrete models by enumeration, a hundred thousand releases at once. Times
are of the commands a user gives.
"""

from __future__ import annotations

import warnings
from functools import partial
from time import perf_counter
from typing import Any

import pymc as pm
import scipy.stats as st

import adversary as adv
from adversary import models
from adversary.models import noise
from adversary.models.enumeration import compile_enumerator
from tests.benchmarks.stopwatch import PLAN, median_seconds

TWIN = adv.Adversary(0.5, 0, {"block group": adv.Others(st.nbinom(3, 0.5))})
TRUTH = {"block": 1, "block group": 4, "in": 1}
RELEASES = 1500
"""Drawn; rather more than a thousand of them differ."""


def unknown_rate() -> pm.Model:
    """in ~ Bernoulli(1/2), rate ~ Gamma(3, 1), others ~ Poisson(rate) up to 60, and the plan's three releases."""
    low, high = (level.mechanism for level in PLAN.levels)
    with pm.Model() as model:
        present = pm.Bernoulli("in", 0.5)
        others = pm.Truncated("others", pm.Poisson.dist(pm.Gamma("rate", 3, 1)), upper=60)
        noise.released("noisy[block]", low, present)
        noise.released("sibling_sum[block]", low, others, 27)
        noise.released("noisy[block group]", high, present + others)
    return model


def compound(release: Any, i: int) -> float:
    """Seconds of one release by PyMC's own compound step: NUTS for the rate, Metropolis for what is discrete."""
    data = {name: value[i] for name, value in adv.observed(release).items()}
    with pm.observe(unknown_rate(), data):
        start = perf_counter()
        pm.sample(1000, tune=500, chains=2, cores=1, nuts_sampler="pymc", progressbar=False, random_seed=i)
    return perf_counter() - start


def test_a_thousand_releases_of_a_model_with_an_unknown_rate() -> None:
    """By weighed draws of the prior, by nutpie release by release, by PyMC's own sampler, and by the exact twin."""
    options: dict[str, Any] = {"rng": 1, "progress": False}
    start = perf_counter()
    tree = adv.audit(PLAN, unknown_rate(), TRUTH, draws=RELEASES, **options)
    seconds = perf_counter() - start
    count = tree["release"].sizes["release"]
    start = perf_counter()
    few = adv.audit(PLAN, unknown_rate(), TRUTH, engine="mcmc", draws=100, **options)
    refits = (perf_counter() - start) / few["release"].sizes["release"]
    release = tree["release"].to_dataset()[["noisy", "sibling_sum"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = min(compound(release, i) for i in range(3))
    exact_seconds = median_seconds(lambda: TWIN.posterior(PLAN, release), 5)
    exact = TWIN.posterior(PLAN, release)["posterior"].values
    each, estimate, risk = seconds / count, tree["estimate"], tree["risk"]
    off = (estimate["posterior"].values - exact) / estimate["mcse"].values
    errors = [float(one["estimate"]["mcse"].mean()) for one in (tree, few)]
    print(f"\n{count} different releases audited in {seconds:.1f} s: {1e3 * each:.2f} ms each, all in")
    worse = errors[1] / errors[0]
    print(f"   a release by nutpie: {1e3 * refits:.0f} ms, {refits / each:.0f} times; error {worse:.0f} times")
    print(f"   a release by PyMC's own compound step: {own:.2f} s, {own / each:,.0f} times")
    print(f"   smallest ESS {estimate['ess'].values.min():.0f}, largest k-hat {estimate['k_hat'].values.max():.2f}")
    print(f"   against the exact twin: mean z {off.mean():+.2f}, spread {off.std():.2f}, largest {abs(off).max():.1f}")
    print(f"   the twin: {1e6 * exact_seconds / count:.2f} us each, a {each * count / exact_seconds:,.0f}th")
    assert count >= 1000
    assert risk["status"].item() == "ok"
    assert abs(off).max() < 5
    assert own / each >= 200


def test_a_hundred_thousand_releases_by_enumeration() -> None:
    """Of the model of two levels that the toolkit builds, each looked at by itself, and of one block's count."""
    plan, flat = PLAN, adv.Adversary(0.5, 0, {"block group": adv.Uniform()})
    single = adv.Plan([adv.Level("block", plan.levels[0].mechanism)])
    told = {
        "two levels, others up to 40": (plan, models.hierarchical_counts(plan, flat, upper=40)),
        "one block": (single, models.hierarchical_counts(single, adv.Adversary())),
    }
    print()
    for name, (published, model) in told.items():
        release = published.release({"block": 1, "block group": 1} if published is plan else {"block": 1}, 5, 100_000)
        data = adv.observed(release)
        enumerator = compile_enumerator(model, tuple(data))
        seconds = median_seconds(partial(enumerator, data), 3)
        reader = flat if published is plan else adv.Adversary()
        exact = median_seconds(partial(reader.posterior, published, release), 3)
        print(f"   {name}: {seconds:.3f} s, {10 * seconds:.2f} us each; {seconds / exact:.0f} times exact's")
