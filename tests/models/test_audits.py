"""Audits of audits: models of four fields against oracles of their own, their stated errors, and their calibration."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from numpy.typing import NDArray

import adversary as adv
from tests.audits import FIELDS, MODELS, Errors, errors

QUICK = (
    "ages of a known total",
    "rounded to threes",
    "non-response",
    "a sampled fraction",
)
"""Models whose audit takes less than a second."""
LONG = (
    "a block and its block group",
    "unknown overdispersion",
    "two waves",
    "late reports",
    "abundance by two visits",
    "capture and recapture",
    "removal",
    "false detections",
    "counts with an offset",
    "a logistic regression on 2,000 rows",
)
"""Models whose audit takes ten seconds and more: several counts that are summed over together."""
SEEDS = 20


def _marked(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.thorough] if name in LONG else [pytest.mark.slow] * (name not in QUICK)


EACH = [pytest.param(name, marks=_marked(name)) for name in MODELS]


def test_the_catalogue_has_fifty_models_of_four_fields() -> None:
    assert len(MODELS) == sum(map(len, FIELDS.values())) >= 50
    assert len(FIELDS) == 4


@pytest.mark.parametrize("name", EACH)
def test_an_audit_is_right(name: str) -> None:
    """Never ok and wrong, of one seed."""
    found = errors(MODELS[name](), 1)
    assert found.ok.mean() > 0.85
    assert np.abs(found.used).max() < 5
    assert np.abs(found.before).max() < 5


@pytest.mark.thorough
@pytest.mark.parametrize("name", MODELS)
def test_errors_of_twenty_audits_are_what_they_say(name: str) -> None:
    """Releases of one audit share their draws: of 20 seeds the root mean square of independent errors lies between 0.66
    and 1.33 with 95 %, and answers whose error is that of the smoothed tail have smaller ones."""
    found = Errors.joined(errors(MODELS[name](), seed) for seed in range(SEEDS))
    assert found.ok.mean() > 0.9
    assert np.abs(found.used).max() < 5
    assert np.abs(found.before).max() < 5
    if found.stated.size:
        assert np.sqrt((found.stated**2).mean()) < 1.5


def ranks(name: str, worlds: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ranks of truths of the prior in their posteriors, uniform if these are right, and the truths less P(in)."""
    one = MODELS[name]()
    drawn = pm.sample_prior_predictive(worlds, one.model, random_seed=rng.integers(2**31)).prior.isel(chain=0)
    truth, made = drawn["in"].values, {n: drawn[n].values for n in one.released}
    options = {"draws": worlds, "rng": 7, "progress": False, "simulate": lambda _, __: made}
    tree = adv.audit_model(one.model, {"in": 1}, released=list(one.released), **options)
    answer = tree["exact" if "exact" in tree.children else "estimate"].to_dataset()
    releases = tree["release"].to_dataset()
    listed = np.concatenate([releases[n].values.reshape(releases.sizes["release"], -1) for n in one.released], axis=1)
    flat = np.concatenate([made[n].reshape(worlds, -1) for n in one.released], axis=1)
    number = {tuple(row): i for i, row in enumerate(listed.tolist())}
    place = np.array([number[tuple(row)] for row in flat.tolist()])
    ok = np.ones(worlds, dtype=bool)
    if "status" in answer:
        ok = answer["status"].values[place] != "unreliable"
    p, inside = answer["posterior"].values[place][ok], truth[ok] == 1
    part = rng.random(p.size)
    return np.where(inside, 1 - p + part * p, part * (1 - p)), inside - p


def test_exact_audits_are_calibrated() -> None:
    found, off = ranks("non-response", 400, np.random.default_rng(45))
    assert st.kstest(found, "uniform").pvalue > 1e-3
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(off.size)


@pytest.mark.thorough
def test_audits_are_calibrated() -> None:
    """Truths and releases of the prior, of models without side data, which would weigh the worlds that PyMC draws."""
    rng = np.random.default_rng(45)
    every = [n for n in MODELS if n not in LONG and not (m := MODELS[n]().model).observed_RVs and not m.potentials]
    found, off = (np.concatenate(parts) for parts in zip(*(ranks(n, 60, rng) for n in every), strict=True))
    assert found.size > 1500
    assert st.kstest(found, "uniform").pvalue > 1e-3
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(off.size)
