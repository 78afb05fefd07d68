"""Losses of different kinds together: any order, with nothing, with what is certain, with labels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.privacy.losses.composition import compose_losses
from adversary.privacy.losses.lattice import LatticeLoss
from tests.tables import DATA, refusals

KINDS: dict[str, Any] = {
    "narrow": adv.DiscreteGaussian(1.7).privacy_loss(),
    "wide": adv.DiscreteGaussian(13.37).privacy_loss(),
    "response": adv.RandomizedResponse(0.7).privacy_loss(),
    "laplace": adv.Laplace(2.0).privacy_loss(),
    "gaussian": adv.Gaussian(1.5).privacy_loss(),
    "geometric": adv.Geometric(0.5).privacy_loss(),
}


def told(loss: Any) -> Any:
    return np.concatenate([loss.delta(np.array([-1.0, 0.5, 2.0])), [loss.epsilon(1e-6), loss.power(0.05)]])


@pytest.mark.slow_cases("narrow, wide, geometric", "narrow, wide, response")
@pytest.mark.parametrize("names", list(itertools.combinations(KINDS, 3)), ids=", ".join)
def test_three_kinds_compose_in_any_order(names: tuple[str, str, str]) -> None:
    x, y, z = (KINDS[name] for name in names)
    first = told(sum([x, y, z]))
    for a, b, c in ((x, z, y), (y, x, z), (z, y, x)):  # each pair together, and each alone on either side
        np.testing.assert_allclose(told((a + b) + c), first, rtol=1e-12, atol=1e-30)
        np.testing.assert_allclose(told(a + (b + c)), first, rtol=1e-12, atol=1e-30)


@pytest.mark.parametrize("name", KINDS)
def test_what_reveals_nothing_changes_nothing(name: str) -> None:
    loss = KINDS[name]
    for nothing in (adv.GaussianDP(0.0), adv.Laplace(1.0).privacy_loss(0), adv.Gaussian(1.0).privacy_loss(0)):
        np.testing.assert_array_equal(told(loss + nothing), told(loss))


def test_groups_of_a_pair_with_certain_outcomes_keep_them() -> None:
    """Two steps, by hand: the first reaches power 1/4096 at no level; the second takes that to almost one."""
    loss = LatticeLoss.from_probs([0, 1, 0], [99 / 4096, 1 / 4096, 999 / 1024])
    assert loss.group(2).delta(1.0) == pytest.approx(1 - np.e / 4096**2, abs=1e-12)
    loss = LatticeLoss.from_probs(np.array([601, 0.5, 0, 1446.5]) / 2048, [297 / 2048, 1 / 32, 843 / 1024, 1 / 2048])
    level = np.linspace(0.0, 1.0, 4001)
    iterated = loss.power(loss.power(level))
    assert loss.group(2).delta(1.0) >= np.max(iterated - np.e * level) - 1e-12
    np.testing.assert_allclose(loss.group(2).power(level), iterated, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_cdf_at_a_quantile_reaches_its_share(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = LatticeLoss.from_probs(rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))).posterior(0.5)
    for truth in ("in", "out"):
        for q in (0.05, 0.3, 0.5, 0.95):
            assert law.cdf(law.quantile(q, truth), truth) >= q - 1e-12


def test_kullback_leibler_divergences_add_up() -> None:
    assert adv.census.pl94().loss.renyi(1.0) == pytest.approx(2.63, rel=1e-14)
    assert adv.census.pl94().loss.kl_divergence == pytest.approx(2.63, rel=1e-14)
    one = adv.Laplace(1.0).privacy_loss()
    assert one.renyi(1.0) == pytest.approx(1.0 + np.exp(-1.0) - 1.0, rel=1e-12)
    assert (2 * one).renyi(1.0) == pytest.approx(2 * np.exp(-1.0), rel=1e-12)
    assert (one + KINDS["narrow"]).renyi(1.0) == pytest.approx(np.exp(-1.0) + 0.5 / 1.7**2, rel=1e-9)
    assert np.isinf(adv.ApproximateDP(1.0, 0.1).worst_pair.renyi(1.0))


@pytest.mark.parametrize("name", KINDS)
def test_probabilistic_epsilon_undoes_probabilistic_delta(name: str) -> None:
    loss = KINDS[name]
    failures = np.array([0.01, 0.1, 0.5])
    found = loss.probabilistic_epsilon(failures)
    assert np.all(loss.probabilistic_delta(found) <= failures)
    assert np.all((loss.probabilistic_delta(found * (1 - 1e-9)) >= failures) | (found == 0.0))


def test_many_small_deltas_never_give_a_number_beyond_the_largest_loss() -> None:
    two = 2 * adv.Laplace(1.0).privacy_loss()
    assert two.epsilon([1e-12, 1e-16, 1e-20, 0.0]) == pytest.approx([2.0, 2.0, 2.0, 2.0], abs=1e-4)


def test_deltas_below_the_grid_are_answered_from_the_moments() -> None:
    noise = adv.Gaussian(2.0).privacy_loss()
    loss = noise + adv.Laplace(1.5).privacy_loss() + adv.Laplace(7.0).privacy_loss()
    delta = np.array([1e-20, 1e-25, 1e-27, 1e-100, 1e-300, 5e-324])
    found = loss.epsilon(delta)
    assert np.all(np.diff(found) > 0.0)
    alone = noise.epsilon(delta)
    assert np.all((found >= alone) & (found <= alone + 1 / 1.5 + 1 / 7.0 + 0.25))


@pytest.mark.parametrize("name", [*KINDS, "census", "mixed", "rounded"])
def test_labels_are_kept_everywhere(name: str) -> None:
    x = xr.DataArray([0.1, 0.5], dims="x", coords={"x": ["a", "b"]})
    more = {
        "census": adv.census.pl94().loss,
        "mixed": KINDS["gaussian"] + KINDS["geometric"],
        "rounded": 2 * KINDS["laplace"],
    }
    loss = KINDS.get(name) or more[name]
    law, laws = loss.posterior(0.3), loss.posterior(x)
    answers = [*loss.tail(x), *loss.bracket.delta(x), *loss.bracket.power(x), loss.delta(x), loss.power(x)]
    answers += [loss.epsilon(x), laws.mean("in"), law.cdf(x, "in"), laws.cdf(0.4, "out"), laws.quantile(0.5, "out")]
    for answer in answers:
        assert answer.dims == ("x",)
        assert answer.coords["x"].values.tolist() == ["a", "b"]


def test_census_path_has_a_posterior_law() -> None:
    """140 noises are Gaussian to 1e-6, and prior-averaged posteriors return to the prior."""
    loss, shadow = (
        adv.census.dhc(DATA / "census2020_dhc_path_1.csv").loss,
        adv.GaussianDP(np.sqrt(2 * 4.9622)).worst_pair,
    )
    for prior in (0.01, 0.5):
        mean = {truth: loss.posterior(prior).mean(truth) for truth in ("in", "out")}
        assert mean["in"] == pytest.approx(shadow.posterior(prior).mean("in"), abs=1e-6)
        assert prior * mean["in"] + (1 - prior) * mean["out"] == pytest.approx(prior, abs=1e-9)


test_bad_input_is_named = refusals(
    (lambda: compose_losses([KINDS["wide"], "x"]), "losses are composed with losses.*'x'", TypeError),
    (lambda: adv.PureDP(1.0).delta("x"), "epsilon must be a number.*'x'", TypeError),
    (lambda: adv.PureDP(1.0).loss_bound(chance=0.1), "takes one argument, failure", TypeError),
    (lambda: LatticeLoss.from_log_probs([0.0], [0.0, 0.0]), "the same outcomes, got 1 and 2"),
    (lambda: LatticeLoss(np.array([0.0, 1.0]), np.log([0.5, 0.5]), np.log([0.5, 0.5])), "losses must be log_p - log_q"),
)


def test_a_promise_below_the_truth_is_proved_false_where_the_bracket_is_narrower() -> None:
    two = [adv.Gaussian(2.19), adv.Laplace(18.3), adv.Laplace(2.41)]
    loss = compose_losses([noise.privacy_loss(1, 2) for noise in two])
    for epsilon, share in ((0.0, 0.99), (3.0, 0.99), (6.0, 0.97)):
        low, high = loss.bracket.delta(epsilon)
        assert share * high < low < high
        assert not adv.ApproximateDP(epsilon, share * high).is_satisfied_by(loss)
        assert adv.ApproximateDP(epsilon, high).is_satisfied_by(loss)
