"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_models.py -s

One hierarchical model with an unknown continuous rate, fitted to a thousand different releases with one compile; and
its exact twin in the same run: a gamma rate of Poisson counts is a negative binomial law of the others, which the exact
engine reads. Times are of the two commands a user gives.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import nutpie
import pymc as pm
import pytest
import scipy.stats as st

import adversary as adv
from adversary.models import noise
from adversary.models.fitting import fit_releases
from adversary.models.fitting.marginalised import Marginalised
from tests.benchmarks.stopwatch import median_seconds

RHO = [float(adv.census.DETAILED_RHO[level]) for level in ("block", "block group")]
PLAN = adv.Plan(
    [
        adv.Level("block", adv.DiscreteGaussian.from_rho(RHO[0]), siblings=27),
        adv.Level("block group", adv.DiscreteGaussian.from_rho(RHO[1])),
    ]
)
TWIN = adv.Adversary(0.5, 0, {"block group": adv.Others(st.nbinom(3, 0.5))})
TRUTH = {"block": 1, "block group": 4, "in": 1}
RELEASES = 1400
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


def test_a_thousand_releases_of_a_model_with_an_unknown_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[float] = []
    honest = nutpie.compile_pymc_model

    def counted(*arguments: Any, **options: Any) -> Any:
        start = perf_counter()
        result = honest(*arguments, **options)
        compiled.append(perf_counter() - start)
        return result

    monkeypatch.setattr(nutpie, "compile_pymc_model", counted)
    start = perf_counter()
    tree = adv.audit(PLAN, unknown_rate(), TRUTH, draws=RELEASES, rng=1, progress=False)
    seconds = perf_counter() - start
    fitted = tree["release"].sizes["release"]
    release = tree["release"].to_dataset()[["noisy", "sibling_sum"]]
    exact_seconds = median_seconds(lambda: TWIN.posterior(PLAN, release), 5)
    exact = TWIN.posterior(PLAN, release)["posterior"].values
    estimate = tree["estimate"]
    off = (estimate["posterior"].values - exact) / estimate["mcse"].values
    risk = tree["risk"]
    per_fit = (seconds - sum(compiled)) / fitted
    print(f"\n{fitted} different releases audited in {seconds:.0f} s, {len(compiled)} compile of {sum(compiled):.1f} s")
    print(f"   {1e3 * per_fit:.1f} ms a fit of {fit_releases.FITS}; status {risk['status'].item()}")
    print(
        f"   smallest ESS {estimate['ess'].values.min():.0f}, largest R-hat {estimate['r_hat'].values.max():.3f}, "
        f"mean error {estimate['mcse'].values.mean():.4f}"
    )
    print(f"   against the exact twin: mean z {off.mean():+.2f}, spread {off.std():.2f}, largest {abs(off).max():.1f}")
    print(
        f"   expected posterior {float(risk['posterior_mean']):.4f} +- "
        f"{float(risk['mcse'].sel(measure='posterior_mean')):.4f}, exact on the same releases "
        f"{float(tree['release']['weight'].values @ exact):.4f}"
    )
    each = exact_seconds / fitted
    print(f"exact twin: {exact_seconds * 1e3:.1f} ms for all, {1e6 * each:.2f} us each: a {per_fit / each:,.0f}th")
    assert len(compiled) == 1
    assert fitted >= 1000
    assert seconds < 180
    assert per_fit >= 1000 * each
    assert risk["status"].item() == "ok"


def test_where_the_time_of_a_fit_goes() -> None:
    fitter = Marginalised.of(unknown_rate(), ("noisy[block]", "sibling_sum[block]", "noisy[block group]"), rng=1)
    data = adv.observed(PLAN.release(TRUTH, 2, 64))
    table, row = fitter.tables(data)[..., 0], fitter.row(data, 0)
    points = fitter.sample(table, row, fit_releases.FITS, 1)[0].reshape(-1, 1)
    parts = {
        "tables of 64 releases": lambda: fitter.tables(data),
        "nutpie": lambda: fitter.sample(table, row, fit_releases.FITS, 1),
        "probability of the target at its draws": lambda: fitter.chances(points, table, row),
        "discrete latents at its draws": lambda: fitter.latents(points, table, row, np.random.default_rng(1)),
        "one fit in all": lambda: fit_releases.fit_once(
            fitter, table, row, fit_releases.FITS, np.random.SeedSequence(1)
        ),
    }
    print()
    for name, part in parts.items():
        print(f"   {name}: {1e3 * median_seconds(part, 20):.2f} ms")
