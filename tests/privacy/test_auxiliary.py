"""Prior odds: from coefficients within their domain, and exactly from joint laws, where the coefficients bound them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.privacy.decisions.auxiliary import (
    coefficients_from_joint,
    conditional_priors,
    largest_correlation,
    odds_from_coefficients,
    prior_from_coefficients,
    prior_from_odds,
    prior_odds,
)
from tests.tables import refusals

SHARES = st.floats(0.0, 1.0)


def law(weights: list[float], **sizes: int) -> xr.DataArray:
    """A joint law with these dimensions; values are named 0, 1, ..."""
    table = np.array(weights).reshape(tuple(sizes.values()))
    return xr.DataArray(table / table.sum(), dims=list(sizes), coords={name: np.arange(n) for name, n in sizes.items()})


def joints(value: int = 2) -> st.SearchStrategy[xr.DataArray]:
    """Random joint laws of a value, a correlated record of three values and a past of two; zeros allowed."""
    entry = st.one_of(st.just(0.0), st.floats(0.01, 1.0))
    table = st.lists(entry, min_size=value * 6, max_size=value * 6).filter(lambda w: sum(w) > 0.5)
    return table.map(lambda w: law(w, value=value, other=3, past=2))


# Odds and priors


@given(st.floats(1e-9, 1.0))
def test_odds_and_prior_are_inverse(prior: float) -> None:
    assert prior_from_odds(prior_odds(prior)) == pytest.approx(prior, rel=1e-12)


def test_rare_targets_have_odds_above_one_and_are_never_clipped() -> None:
    assert prior_odds(0.1) == pytest.approx(9.0, rel=1e-15)
    assert prior_odds(0.0) == math.inf
    assert prior_odds(1.0) == 0.0
    assert prior_from_odds(math.inf) == 0.0


def test_odds_keep_shapes_and_labels() -> None:
    prior = xr.DataArray([0.5, 0.1], dims="reader", coords={"reader": ["a", "b"]})
    assert prior_odds(prior).reader.values.tolist() == ["a", "b"]
    assert isinstance(prior_odds(0.5), float)
    assert prior_odds([0.5, 0.2]).shape == (2,)
    rho_c = xr.DataArray([0.0, 0.1, 0.2], dims="rho_c", coords={"rho_c": [0.0, 0.1, 0.2]})
    assert odds_from_coefficients(prior * 0, rho_c).dims == ("reader", "rho_c")
    assert odds_from_coefficients([[0.1], [0.2]], [0.1, 0.05]).shape == (2, 2)


# Coefficients


@given(SHARES, SHARES, SHARES)
def test_coefficients_give_odds_exactly_where_they_go_together(rho_p: float, rho_c: float, rho_t: float) -> None:
    product = (2 - rho_p) * (1 - rho_c) * (1 - rho_t)
    if product < 1 - 1e-9:
        with pytest.raises(ValueError, match=r"must be at least 1"):
            odds_from_coefficients(rho_p, rho_c, rho_t)
    elif product > 1 + 1e-9:
        r = odds_from_coefficients(rho_p, rho_c, rho_t)
        assert 0 <= r <= 1
        assert r == pytest.approx(1 - rho_p - (2 - rho_p) * (rho_c + rho_t * (1 - rho_c)), abs=1e-12)  # as published
        assert prior_from_coefficients(rho_p, rho_c, rho_t) == pytest.approx(1 / product, rel=1e-12)


@given(st.floats(0.0, 0.99), st.floats(0.0, 0.4))
def test_at_the_largest_correlation_the_value_is_certain(rho_p: float, rho_c: float) -> None:
    if (2 - rho_p) * (1 - rho_c) < 1:
        return
    rho_t = largest_correlation(rho_p, rho_c)
    assert odds_from_coefficients(rho_p, rho_c, rho_t) == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(ValueError, match=r"must be at least 1"):
        odds_from_coefficients(rho_p, rho_c, min(1.0, rho_t + 1e-6))


# Joint laws


def slow_coefficients(joint: xr.DataArray) -> tuple[float, float, float]:
    """The published definitions, by loops over every value and context (the other record first, the past last)."""
    p = joint.transpose("value", "other", "past").values
    values, others, pasts = (range(n) for n in p.shape)

    def of(value: int, other: int | None = None, past: int | None = None) -> tuple[float, float]:
        block = p[:, slice(None) if other is None else [other]][:, :, slice(None) if past is None else [past]]
        return float(block[value].sum()), float(block.sum())

    alone = [of(v)[0] for v in values]
    rho_p = 1 - min(a / b for a, b in itertools.product(alone, alone) if b > 0)
    updates, later = [1.0], [1.0]
    for v, o in itertools.product(values, others):
        here, context = of(v, o)
        if here > 0:
            updates.append(alone[v] / (here / context))
        for t in pasts:
            now, dated = of(v, o, t)
            if now > 0:
                later.append((here / context) / (now / dated))
    return rho_p, 1 - min(updates), 1 - min(later)


@settings(deadline=None, max_examples=40)
@given(joints())
def test_coefficients_of_a_joint_law_are_the_published_ratios(joint: xr.DataArray) -> None:
    found = coefficients_from_joint(joint)
    rhos = [float(found[name]) for name in ("rho_p", "rho_c", "rho_t")]
    assert rhos == pytest.approx(slow_coefficients(joint), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 4).flatmap(joints))
def test_implied_odds_are_never_above_the_smallest_true_ones(joint: xr.DataArray) -> None:
    found = coefficients_from_joint(joint)
    if str(found["status"].values) == "attained":
        assert float(found["odds"]) <= float(found["smallest_odds"]) + 1e-9
    else:
        assert math.isnan(float(found["odds"]))


@settings(deadline=None, max_examples=40)
@given(joints(3))
def test_exact_priors_average_to_the_prior(joint: xr.DataArray) -> None:
    found = conditional_priors(joint)
    average = (found["prior"].fillna(0.0) * found["context"]).sum(["other", "past"])
    xr.testing.assert_allclose(average, joint.sum(["other", "past"]))
    possible = found["prior"].where(found["context"] > 0, drop=True)
    assert float(np.nanmax(np.abs(possible.sum("value", skipna=False) - 1))) < 1e-12
    np.testing.assert_allclose(prior_from_odds(found["odds"].fillna(0.0)).where(found["context"] > 0), found["prior"])


def test_a_pair_of_values_is_compared_between_themselves() -> None:
    joint = law([0.2, 0.1, 0.3, 0.1, 0.1, 0.2], value=3, other=2)
    found = conditional_priors(joint, pair=(0, 2))
    assert found["value"].values.tolist() == [0, 2]
    np.testing.assert_allclose(found["prior"].sel(value=0), [0.2 / 0.3, 0.1 / 0.3])
    np.testing.assert_allclose(found["odds"].sel(value=2), [2.0, 0.5])


def test_a_law_of_the_value_alone_needs_no_other_dimension() -> None:
    found = coefficients_from_joint(law([0.6, 0.4], value=2))
    assert float(found["odds"]) == pytest.approx(2 / 3, abs=1e-12)
    assert conditional_priors(law([0.6, 0.4], value=2))["prior"].dims == ("value",)


# Bad input


test_bad_input_is_named = refusals(
    (lambda: odds_from_coefficients(0.2, 0.5), "must be at least 1, got 0.9 at rho_p = 0.2, rho_c = 0.5"),
    (lambda: largest_correlation(0.2, 0.5), "must be at least 1"),
    (lambda: conditional_priors(law([1.0], value=1)), "at least two entries"),
    (lambda: conditional_priors(law([0.5, 0.5], value=2) * 0.9), "joint must sum to 1, got 0.9"),
)
