"""Adversaries who differ in their prior only are audited together: their answers are those of each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import adversary as adv
from adversary.adversaries.path import settle_truth
from adversary.adversaries.risk.law_fingerprint import law_fingerprint
from adversary.driver import EVERYTHING, with_posteriors
from adversary.driver.run_audit import FEW

DG = adv.DiscreteGaussian.from_rho
TWO = adv.Plan([adv.Level("block", DG(2.0), siblings=3), adv.Level("tract", DG(2.0))])
EXACT = adv.Plan([adv.Level("block", DG(2.0), siblings=3), adv.Level("tract", adv.Exact())])
SMOOTH = adv.Plan([adv.Level("block", adv.Gaussian(1.5))])
DRAWN = adv.Plan([adv.Level("block", adv.Laplace(0.7), siblings=3), adv.Level("tract", adv.Laplace(0.8))])
FLAT, POISSON = {"tract": adv.Uniform()}, {"tract": adv.Others(stats.poisson(2.0))}
PRIORS = (1e-9, 0.02, 0.5, 0.97)
TRUTH = {"block": 1, "tract": 3}

CASES: dict[str, tuple[adv.Plan, dict[str, Any], dict[str, Any]]] = {
    "two levels": (TWO, FLAT, TRUTH),
    "an exact level": (EXACT, POISSON, TRUTH),
    "a density": (SMOOTH, {}, {"block": 1}),
    "simulated": (DRAWN, {"tract": adv.Uniform(9)}, TRUTH),
}


def audit(plan: adv.Plan, who: Any, truth: dict[str, Any]) -> xr.DataTree:
    return adv.audit(
        plan,
        who,
        truth,
        guarantee=adv.ZeroConcentratedDP(0.9),
        profile=lambda *_: 1.3,
        draws=200,
        rng=1,
        progress=False,
    )


def check_alike(tree: xr.DataTree, name: str, alone: xr.DataTree) -> None:
    """The answers about one adversary of many are those of an audit of that adversary alone."""
    assert set(alone.children) <= set(tree.children)
    for group in alone.children:
        many, one = (with_posteriors(each[group].to_dataset()) for each in (tree, alone))
        many = many.sel(adversary=name, drop=True) if "adversary" in many.dims else many
        for variable in set(one.data_vars) - {"ratio", "pmf"} if group == "exact" else one.data_vars:
            assert many[variable].dims == one[variable].dims
            assert group == "tolerated" or many[variable].attrs == one[variable].attrs  # an estimate where one is
            if one[variable].dtype.kind in "fi":
                tiny = {"mcse": 1e-12, "difference_mean": 1e-15, "advantage": 1e-15}.get(str(variable), 1e-300)
                np.testing.assert_allclose(many[variable], one[variable], rtol=1e-10, atol=tiny, err_msg=str(variable))
            else:
                assert (many[variable].values == one[variable].values).all()


@pytest.mark.parametrize(
    "name", [name if name != "simulated" else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_each_of_several_is_answered_as_if_alone(name: str) -> None:
    plan, beliefs, truth = CASES[name]
    who = {str(prior): adv.Adversary(prior, 0, beliefs) for prior in PRIORS}
    tree = audit(plan, who, truth)
    assert tree["exact"]["posterior"].dims == ("adversary", "release")
    for label in (str(PRIORS[0]), str(PRIORS[-1])):
        check_alike(tree, label, audit(plan, who[label], truth))


def test_of_many_log_bayes_factors_are_there_once() -> None:
    who = {f"a{i}": adv.Adversary((i + 1) / (FEW + 3), 0, {"tract": adv.Others([0.2, 0.3, 0.5])}) for i in range(FEW)}
    who |= {"sure": adv.Adversary(1.0, 0, FLAT), "z": adv.Adversary(0.2, 0, FLAT), "b": adv.Adversary(0.9, 0, FLAT)}
    tree = audit(TWO, who, TRUTH)
    exact = tree["exact"].to_dataset()
    assert list(exact["adversary"].values) == list(who)
    assert exact.sizes["law"] == 3  # beliefs of equal content, one who is certain, and two who differ in their prior
    assert "posterior" not in exact
    assert tree.attrs["posterior"].startswith("expit(prior_log_odds + log_bayes_factor")
    for label in ("a0", "sure", "b"):
        check_alike(tree, label, audit(TWO, who[label], TRUTH))
    drawn = adv.to_draws(tree, rng=1)["posterior"]["P(in)"].mean(("chain", "draw"))
    np.testing.assert_allclose(drawn, tree["risk"]["posterior_mean"], atol=0.02)


@pytest.mark.slow
def test_every_further_group_of_several() -> None:
    who = {str(prior): adv.Adversary(prior, 0, FLAT) for prior in PRIORS}
    tree, alone = (
        adv.audit(
            TWO,
            some,
            TRUTH,
            also=EVERYTHING,
            alternatives={"half": (TWO.scaled(0.5), some, TRUTH)},
            rng=1,
            progress=False,
        )
        for some in (who, who["0.02"])
    )
    check_alike(tree, "0.02", alone)


def test_laws_of_all_priors_are_stored_under_one_name() -> None:
    names = {
        law_fingerprint(TWO, one, settle_truth(TWO, one, TRUTH))
        for one in (adv.Adversary(prior, 0, FLAT) for prior in PRIORS)
    }
    assert len(names) == 1
