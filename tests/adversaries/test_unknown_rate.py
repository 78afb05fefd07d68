"""Beliefs with an unknown rate, and PreliZ laws as beliefs, against integrals, scipy and brute force."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad

import adversary as adv
from adversary.adversaries.beliefs.elicited import PrelizLaw
from tests.catalogue import DG


@pytest.mark.parametrize(("shape", "rate", "exposure"), [(3.0, 1.0, 1.0), (0.5, 2.0, 27.0), (40.0, 8.0, 0.3)])
def test_gamma_poisson_is_the_poisson_averaged_over_a_gamma_rate(shape: float, rate: float, exposure: float) -> None:
    belief = adv.GammaPoisson(shape, rate, exposure)
    prior = scipy.stats.gamma(shape, scale=1 / rate)
    for k in (0, 1, 4, 15):
        wanted = quad(
            lambda x, k=k: prior.pdf(x) * scipy.stats.poisson(x * exposure).pmf(k),
            *(float(prior.ppf(q)) for q in (1e-14, 1 - 1e-14)),
            limit=400,
            epsabs=0,
            epsrel=1e-9,
        )[0]
        assert np.exp(belief.log_prob(k + 2, 2)) == pytest.approx(wanted, rel=1e-6), k


def test_gamma_poisson_is_scipys_negative_binomial_far_into_the_tail() -> None:
    belief, k = adv.GammaPoisson(2.5, 0.7, 3.0), np.array([0, 1, 10, 100, 1000])
    assert belief.log_prob(k, 0) == pytest.approx(scipy.stats.nbinom(2.5, 0.7 / 3.7).logpmf(k), rel=1e-10)
    assert belief.log_prob(2, 3) == -np.inf
    low, high = belief.window(0) or (0, 0)
    assert low == 0
    assert scipy.stats.nbinom(2.5, 0.7 / 3.7).sf(high) <= 1e-18 < scipy.stats.nbinom(2.5, 0.7 / 3.7).sf(high // 2)


def test_beta_binomial_is_scipys() -> None:
    belief, k = adv.BetaBinomial(40, 1.5, 9.0), np.arange(41)
    assert belief.log_prob(k + 1, 1) == pytest.approx(scipy.stats.betabinom(40, 1.5, 9.0).logpmf(k), rel=1e-9)
    assert belief.log_prob(42, 1) == -np.inf
    assert belief.support(1) == (1, 41)


@pytest.mark.parametrize(
    ("belief", "law"),
    [
        (adv.GammaPoisson(3.0, 1.5, 2.0), scipy.stats.nbinom(3.0, 1.5 / 3.5)),
        (adv.BetaBinomial(12, 2.0, 3.0), scipy.stats.betabinom(12, 2.0, 3.0)),
    ],
)
def test_a_reader_with_an_unknown_rate_is_the_reader_with_its_marginal_law(belief: adv.Belief, law: Any) -> None:
    plan = adv.Plan([adv.Level("block", DG(0.3), siblings=4), adv.Level("tract", DG(0.2))])
    for target in ("posterior_mean", "prob_correct"):
        a, b = (
            adv.audit(plan, adv.Adversary(0.2, beliefs={"tract": held}), {"block": 1, "tract": 3})["risk"][
                target
            ].item()
            for held in (belief, adv.Others(law))
        )
        assert a == pytest.approx(b, rel=1e-10)


def test_an_unknown_rate_leaves_the_reader_less_sure_of_the_others_than_a_known_one() -> None:
    assert adv.GammaPoisson(2.0, 1.0).window(0)[1] > adv.Others(scipy.stats.poisson(2.0)).window(0)[1]  # type: ignore[index]


PRELIZ: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "poisson": (lambda pz: pz.Poisson(mu=2.5), scipy.stats.poisson(2.5)),
    "negative binomial": (lambda pz: pz.NegativeBinomial(mu=3.0, alpha=2.0), scipy.stats.nbinom(2.0, 0.4)),
    "binomial": (lambda pz: pz.Binomial(n=5, p=0.3), scipy.stats.binom(5, 0.3)),
    "beta binomial": (lambda pz: pz.BetaBinomial(alpha=1.0, beta=2.0, n=10), scipy.stats.betabinom(10, 1.0, 2.0)),
    "discrete uniform": (lambda pz: pz.DiscreteUniform(lower=2, upper=5), scipy.stats.randint(2, 6)),
}


@pytest.mark.slow_cases("beta binomial")
@pytest.mark.parametrize("name", PRELIZ)
def test_preliz_laws_are_beliefs_like_scipys(name: str) -> None:
    import preliz

    make, law = PRELIZ[name]
    elicited, same = adv.Others(make(preliz)), adv.Others(law)
    k = np.arange(0, 14)
    a, b = elicited.log_prob(k + 1, 1), same.log_prob(k + 1, 1)
    assert np.array_equal(np.isneginf(a), np.isneginf(b))
    assert a[np.isfinite(a)] == pytest.approx(b[np.isfinite(b)], rel=1e-9)
    assert elicited.support(1) == same.support(1)
    low, high = elicited.window(0)  # type: ignore[misc]
    assert law.sf(high) <= 1e-18
    assert law.cdf(low - 1) <= 1e-18
    plan = adv.Plan([adv.Level("block", DG(0.3), siblings=4), adv.Level("tract", DG(0.2))])
    release = plan.observe({"block": 2, "tract": 3}, {"block": 1})
    bare = adv.Adversary(0.3, beliefs={"tract": make(preliz)})
    wanted = adv.Adversary(0.3, beliefs={"tract": law}).posterior(plan, release)["log_odds"].item()
    assert bare.posterior(plan, release)["log_odds"].item() == pytest.approx(wanted, abs=1e-9)


def test_preliz_laws_pickle_and_print() -> None:
    import preliz

    belief = adv.Others(preliz.Poisson(mu=2.5))
    again = pickle.loads(pickle.dumps(belief))
    assert again.log_prob(3, 0) == belief.log_prob(3, 0)
    assert repr(belief) == "Others(Poisson(mu=2.5))"
    assert adv.Each(preliz.Poisson(mu=2.5)).with_count(2).log_prob(3, 0) == pytest.approx(
        scipy.stats.poisson(5.0).logpmf(3), rel=1e-9
    )


def test_tails_of_a_preliz_law_are_bounds_that_stay_accurate() -> None:
    import preliz

    law = PrelizLaw(preliz.Poisson(mu=3.0))
    for k in (10, 20, 40, 60):
        exact = scipy.stats.poisson(3.0).sf(k)
        assert exact * (1 - 1e-9) <= law.sf(k) <= 1.5 * exact


def test_continuous_and_unfinished_preliz_laws_are_refused() -> None:
    import preliz

    with pytest.raises(ValueError, match="discrete"):
        adv.Others(preliz.Normal(mu=0, sigma=1))
    with pytest.raises(ValueError, match="all its parameters"):
        adv.Others(preliz.Poisson())
