"""Audits of audits: models of four fields against oracles of their own, their stated errors, and their calibration."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st

import adversary as adv
from tests.audits import FIELDS, MODELS, Errors, errors

QUICK = (
    "ages of a known total",
    "rounded to threes",
    "non-response",
    "a sampled fraction",
    "lost tags",
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


@pytest.mark.thorough
def test_audits_are_calibrated() -> None:
    """Truths and releases of the prior: the rank of the truth in its posterior is uniform, over models together."""
    rng, ranks, surprise, variance = np.random.default_rng(45), [], 0.0, 0.0
    for name in sorted(MODELS):
        one = MODELS[name]()
        if one.model.observed_RVs or one.model.potentials:
            continue  # side data weigh the worlds that PyMC draws
        worlds = pm.sample_prior_predictive(60, one.model, random_seed=rng.integers(2**31)).prior.isel(chain=0)
        truth, made = worlds["in"].values, {n: worlds[n].values for n in one.released}
        tree = adv.audit_model(
            one.model, {"in": 1}, released=list(one.released), simulate=lambda _, __, made=made: made, draws=60, rng=7,
            progress=False,
        )  # fmt: skip
        answer = tree["exact" if "exact" in tree.children else "estimate"].to_dataset()
        columns = [tree["release"][n].values.reshape(tree["release"].sizes["release"], -1) for n in one.released]
        listed = {tuple(row): i for i, row in enumerate(np.concatenate(columns, axis=1).tolist())}
        flat = np.concatenate([made[n].reshape(len(truth), -1) for n in one.released], axis=1)
        place = np.array([listed[tuple(row)] for row in flat.tolist()])
        ok = np.ones(len(truth), bool) if "status" not in answer else answer["status"].values[place] != "unreliable"
        p = answer["posterior"].values[place][ok]
        inside, part = truth[ok] == 1, rng.random(ok.sum())
        ranks.append(np.where(inside, 1 - p + part * p, part * (1 - p)))
        surprise, variance = surprise + (inside - p).sum(), variance + (p * (1 - p)).sum()
    every = np.concatenate(ranks)
    assert every.size > 2000
    assert st.kstest(every, "uniform").pvalue > 1e-3
    assert abs(surprise) < 4 * np.sqrt(variance)
