"""The attack models: their stories, their names and dims, and what they refuse. The numbers are in test_zoo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st

import adversary as adv
from adversary import models

DG = adv.DiscreteGaussian.from_rho
BLOCK = adv.Plan([adv.Level("block", DG(0.8))])
BOTH = adv.Plan([adv.Level("block", DG(0.8))], cells=2)
TRACT = adv.Plan([adv.Level("block", DG(0.8), siblings=3), adv.Level("tract", DG(0.8))])
RHO1 = 2.56 * 165 / 4099 * 3945 / 4097


def test_a_record_is_in_one_of_two_cells() -> None:
    for build in (models.misreport, models.unknown_attribute):
        prior = pm.sample_prior_predictive(200, model=build(BOTH, 0.3, (4, 1)), random_seed=1).prior
        assert (prior["record"].sum("cell") == 1).all()
        assert (prior["record"].isel(cell=0) == prior["in"]).all()
        assert (prior["count"] == prior["record"] + np.array([4, 1])).all()


def test_intervening_on_the_record_moves_both_cells() -> None:
    model = pm.do(models.misreport(BOTH, 0.3, (4, 1)), {"in": 0})
    assert pm.draw(model["count"]).tolist() == [4, 2]


def test_who_responded_is_counted() -> None:
    model = models.participation(BLOCK, 0.9, 6)
    prior = pm.sample_prior_predictive(300, model=model, random_seed=2).prior
    assert (prior["count"] == 6 + prior["in"]).all()
    assert model.coords["level"] == ("block",)


def test_three_unknown_people_with_a_binomial_prior() -> None:
    plan = adv.Plan([adv.Level("block", DG(RHO1))])
    model = models.all_but(plan, st.binom(3, 0.5))
    result = adv.enumerate_posterior(model, {"noisy[block]": 2}, ["in", "count"])
    expected = [0.092178, 0.372417, 0.411266, 0.124139]
    assert result["probability[count]"].values == pytest.approx(expected, abs=5e-7)
    assert float(result["posterior[in]"]) == pytest.approx(np.arange(4) @ expected / 3, abs=1e-6)
    assert float(result["prior[in]"]) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize(("pmf", "answer"), [([1.0, 0.0], 0.0), ([0.0, 0.0, 1.0], 1.0)])
def test_a_count_that_settles_the_target(pmf: list[float], answer: float) -> None:
    result = adv.enumerate_posterior(models.all_but(BLOCK, pmf, 2), {"noisy[block]": 3})
    assert float(result.posterior) == answer


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: models.participation(BOTH), "did not respond is in no cell"),
    (lambda: models.misreport(TRACT), "level 'block' has siblings: give the reader of"),
    (lambda: models.unknown_attribute(BLOCK, 1.5), r"prior must be in \[0, 1\], got 1\.5"),
    (lambda: models.misreport(BLOCK, 0.5, (1, 2)), "one for each of 1 cells"),
    (lambda: models.misreport(BLOCK, 0.5, -1), "known must be at least 0, got -1"),
    (lambda: models.all_but(BOTH, [0.5, 0.5]), "all_but is about one cell"),
    (lambda: models.all_but(BLOCK, [1.0]), "at least one unknown person"),
    (lambda: models.all_but(BLOCK, [0.4, 0.5]), "must sum to one"),
    (lambda: models.all_but(BLOCK, st.poisson(1)), "truncate it"),
    (lambda: models.unique_target([]), "got an empty sequence"),
    (lambda: models.sequential([]), "got an empty sequence"),
    (lambda: models.sequential([DG(0.1)], -1), "known must be at least 0"),
]
