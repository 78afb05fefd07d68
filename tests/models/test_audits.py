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
    "removal",
    "false detections",
    "counts with an offset",
)
"""Models whose audit takes ten seconds and more: several counts that are summed over together."""
SEEDS = 20
SMALLEST_RMS, LARGEST_RMS = 0.7, 1.3


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
    """The root mean square is at most 1.3 as far as 20 audits can tell: by no more than two of its own sampling errors
    above, of 0.16 where the audits' errors are independent. Stated errors of one model may be too large, as those of a
    smoothed tail or of places without draws are."""
    found = Errors.joined(errors(MODELS[name](), seed) for seed in range(SEEDS))
    assert found.ok.mean() > 0.9
    assert np.abs(found.used).max() < 5
    assert np.abs(found.before).max() < 5
    if found.stated.size:
        rms, error = found.rms
        assert rms < LARGEST_RMS + 2 * error


@pytest.mark.thorough
def test_errors_of_many_models_together_are_what_they_say() -> None:
    """Of two audits of each model that is quick enough the sampling error supports the limits as they are."""
    names = [name for name in MODELS if name not in LONG]
    found = Errors.joined(errors(MODELS[name](), seed) for name in names for seed in range(2))
    rms, error = found.rms
    assert error < 0.15
    assert SMALLEST_RMS < rms < LARGEST_RMS


@pytest.mark.parametrize("size", [20, 4000])
def test_the_sampling_error_of_a_root_mean_square(size: int) -> None:
    """That of independent normal errors, one for each audit however many releases share it."""
    rng = np.random.default_rng(size)
    shared = rng.normal(size=size)
    each = [Errors(np.ones(5, dtype=bool), np.full(5, z), np.zeros(1), np.zeros(5, dtype=np.int64)) for z in shared]
    rms, error = Errors.joined(each).rms
    assert rms == pytest.approx(np.sqrt((shared**2).mean()))
    assert error == pytest.approx(1 / np.sqrt(2 * size), rel=0.5 if size < 100 else 0.15)


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
    check_calibration(*ranks("non-response", 400, np.random.default_rng(45)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a trait of unknown share", "occupancy"])
def test_weighed_audits_are_calibrated(name: str) -> None:
    check_calibration(*ranks(name, 300, np.random.default_rng(46)))


def check_calibration(found: NDArray[np.float64], off: NDArray[np.float64]) -> None:
    """Uniform ranks, and truths that are in as often as their posteriors say."""
    assert st.kstest(found, "uniform").pvalue > 1e-3
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(off.size)


@pytest.mark.thorough
def test_audits_are_calibrated() -> None:
    """Truths and releases of the prior, of models without side data, which would weigh the worlds that PyMC draws."""
    rng = np.random.default_rng(45)
    every = [n for n in MODELS if n not in LONG and not (m := MODELS[n]().model).observed_RVs and not m.potentials]
    found, off = (np.concatenate(parts) for parts in zip(*(ranks(n, 60, rng) for n in every), strict=True))
    assert found.size > 1500
    check_calibration(found, off)
