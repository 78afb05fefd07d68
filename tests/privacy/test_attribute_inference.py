"""Guesses of an attribute: bounds under guarantees, exact success under noise, against brute force."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import adversary as adv
from adversary.privacy.decisions import attribute_bound, attribute_of_counts, attribute_of_report
from tests.tables import refusals


def by_listing(noise: Any, prior: list[float], reach: int = 40) -> float:
    """Every release of all counts: the largest joint probability of a value, added up."""
    y = np.arange(-reach, reach + 2)
    one, none = (np.exp(noise.log_prob(y, v)) for v in (1, 0))
    total = 0.0
    for release in product(range(y.size), repeat=len(prior)):
        likelihood = [np.prod([(one if v == w else none)[i] for w, i in enumerate(release)]) for v in range(len(prior))]
        total += float(np.max(np.multiply(prior, likelihood)))
    return total


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.8, 0.2], [1.0, 0.0]])
def test_counts_by_value_are_guessed_as_often_as_a_listing_says(prior: list[float]) -> None:
    for noise in (adv.Geometric(1.0), adv.DiscreteGaussian(1.0)):
        found = attribute_of_counts(noise, prior)
        assert found.expected == pytest.approx(by_listing(noise, prior), abs=1e-9)
        assert found.baseline <= found.expected <= found.worst


def test_three_values_with_ties() -> None:
    noise = adv.Geometric(2.0)
    for prior in ([1 / 3, 1 / 3, 1 / 3], [0.5, 0.3, 0.2], [0.45, 0.45, 0.1]):
        assert attribute_of_counts(noise, prior).expected == pytest.approx(by_listing(noise, prior, 11), abs=1e-8)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5),
    st.floats(0.05, 3.0),
)
@settings(max_examples=40, deadline=None)
def test_no_mechanism_passes_the_bound_of_its_guarantee(weights: list[float], epsilon: float) -> None:
    prior = np.array(weights) / np.sum(weights)
    bound = attribute_bound(adv.PureDP(epsilon), prior)
    report = attribute_of_report(adv.RandomizedResponse(epsilon, prior.size), prior)
    assert report.expected <= bound.expected * (1.0 + 1e-9)
    assert report.worst <= bound.worst * (1.0 + 1e-9)
    # two counts move where a value changes
    counts = attribute_of_counts(adv.Geometric(epsilon / 2.0), prior)
    assert counts.expected <= bound.expected * (1.0 + 1e-9)
    assert counts.worst <= bound.worst * (1.0 + 1e-9)
    removed = attribute_bound(adv.PureDP(epsilon / 2.0), prior, neighbours="unbounded")
    assert counts.expected <= removed.expected * (1.0 + 1e-9)


def test_two_values_attain_the_bound_of_pure_dp() -> None:
    epsilon = 1.3
    found = attribute_bound(adv.PureDP(epsilon), [0.5, 0.5])
    report = attribute_of_report(adv.RandomizedResponse(epsilon, 2), [0.5, 0.5])
    assert report.expected == pytest.approx(np.exp(epsilon) / (1.0 + np.exp(epsilon)), rel=1e-12)
    assert found.expected == pytest.approx(report.expected, rel=1e-6)
    assert found.advantage == pytest.approx(np.tanh(epsilon / 2.0) / 2.0, rel=1e-6)


@pytest.mark.parametrize(
    "guarantee", [adv.ZeroConcentratedDP(0.1), adv.GaussianDP(0.7), adv.ApproximateDP(0.5, 1e-3), adv.NoPrivacy()]
)
def test_a_bound_lies_between_the_best_guess_and_any_attack_from_it(guarantee: adv.Guarantee) -> None:
    for prior in ([0.5, 0.5], [0.7, 0.2, 0.1], [0.25] * 4):
        found = attribute_bound(guarantee, prior, neighbours="unbounded", failure=0.05)
        assert found.baseline == max(prior)
        assert found.baseline <= found.expected
        # a success rate of b without the release is at most f(b) with it, and f is concave
        assert found.expected <= float(adv.privacy.Guarantee.power(guarantee, max(prior))) * (1.0 + 1e-6)


test_what_is_no_attribute_is_refused = refusals(
    (lambda: attribute_bound(adv.PureDP(1.0), [1.0]), "prior must be probabilities of two values at least"),
    (lambda: attribute_bound(adv.PureDP(1.0), [0.5, 0.6]), "prior must add up to 1, got 1.1"),
    (lambda: attribute_bound(adv.PureDP(1.0), [0.5, 0.5], neighbours="some"), "neighbours must be one of unbounded"),
    (lambda: attribute_of_report(adv.Geometric(1.0), [0.5, 0.5]), "must be of a local report"),
    (lambda: attribute_of_counts(adv.Laplace(1.0), [0.5, 0.5]), "must be integer noise whose loss is listed"),
)
