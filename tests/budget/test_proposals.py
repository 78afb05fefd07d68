"""Earlier proposals: every nested pair of subsets by brute force, Theorem 5 as the common ground, edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.budget.proposals import (
    compare_proposals,
    inclusion_epsilon,
    lee_clifton_changes,
    lee_clifton_epsilon,
    participation_bound,
    participation_epsilon,
)
from adversary.budget.risk_bounds import absolute_risk_bound, epsilon_for_risk

STATISTICS: dict[str, Callable[[Any], Any]] = {
    "mean": np.mean,
    "sum": np.sum,
    "median": np.median,
    "max": np.max,
    "count of large": lambda values: np.count_nonzero(values > 2),
}


def brute_force(population: Sequence[float], statistic: Callable[[Any], Any]) -> tuple[float, float]:
    """(dT, dv) over every pair of subsets, from the definition."""
    people = range(len(population))

    def value(chosen: tuple[int, ...]) -> float:
        return float(statistic(np.array([population[i] for i in chosen])))

    larger = list(itertools.combinations(people, len(population) - 1))
    smaller = list(itertools.combinations(people, len(population) - 2))
    nested = [(a, b) for a in larger for b in smaller if set(b) < set(a)]
    moved = max(abs(value(a) - value(b)) for a, b in nested)
    return moved, max(abs(value(a) - value(b)) for a in larger for b in larger)


# Lee and Clifton


@given(st.lists(st.integers(-5, 9), min_size=3, max_size=7), st.sampled_from(sorted(STATISTICS)))
@settings(max_examples=150, deadline=None)
def test_changes_are_those_of_all_nested_pairs(population: list[int], name: str) -> None:
    moved, ranged = lee_clifton_changes(population, STATISTICS[name])
    assert (moved, ranged) == pytest.approx(brute_force(population, STATISTICS[name]), rel=1e-12, abs=1e-12)


def test_each_subset_is_asked_once() -> None:
    sizes: list[int] = []

    def statistic(values: Any) -> float:
        sizes.append(len(values))
        return float(values.sum())

    lee_clifton_changes(np.arange(120), statistic)
    assert sizes.count(119) == 120
    assert sizes.count(118) == 120 * 119 // 2
    assert len(sizes) == 120 * 121 // 2


def test_the_printed_smallest_value() -> None:
    assert lee_clifton_changes([1, 2, 3, 4], np.mean) == pytest.approx((5.0 / 6.0, 1.0), rel=1e-14)
    assert lee_clifton_epsilon([1, 2, 3, 4], np.mean, 1 / 3) == pytest.approx(5.0 / 6.0 * math.log(1.5), rel=1e-14)


def test_records_may_have_several_columns() -> None:
    people = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 5.0], [2.0, 2.0]])
    found = lee_clifton_changes(people, lambda rows: rows.prod(axis=1).sum())
    assert found == pytest.approx(brute_force([2.0, 3.0, 0.0, 4.0], np.sum), rel=1e-14)


def test_a_statistic_that_cannot_tell_who_is_absent_asks_for_nothing() -> None:
    assert lee_clifton_epsilon([1, 2, 3, 4], len, 0.5) == math.inf
    assert lee_clifton_epsilon([5.0, 5.0, 5.0], np.mean, 0.5) == math.inf
    assert lee_clifton_epsilon([0.1] * 7, np.mean, 0.5) == math.inf  # means of six differ in the last digit
    assert lee_clifton_epsilon([1, 2, 3, 4], len, [0.3, 0.5]).tolist() == [math.inf, math.inf]


# Ours, for the same question


@given(st.integers(2, 10_000), st.floats(1e-6, 1.0 - 1e-6))
@settings(max_examples=100, deadline=None)
def test_ours_is_theorem_5_for_the_one_absent(n: int, share: float) -> None:
    absolute = 1.0 / n + share * (1.0 - 1.0 / n)
    found = inclusion_epsilon(n, absolute)
    assert found == pytest.approx(epsilon_for_risk(1.0 / n, 1.0, n * absolute), rel=1e-6, abs=1e-12)
    assert absolute_risk_bound(1.0 / n, 1.0, max(found, 0.0)) == pytest.approx(absolute, rel=1e-9)


# Wood et al.


@given(st.floats(1e-6, 1.0 - 1e-6), st.floats(0.0, 12.0))
@settings(max_examples=150, deadline=None)
def test_taking_part_is_theorem_4_for_readers_sure_of_inclusion(absent: float, epsilon: float) -> None:
    upper, lower = (participation_bound(absent, epsilon, side) for side in ("upper", "lower"))
    assert upper == pytest.approx(absolute_risk_bound(1.0, absent, epsilon), rel=1e-12)
    assert lower == pytest.approx(absolute_risk_bound(1.0, absent, epsilon, "lower"), rel=1e-12)
    assert lower <= absent * (1 + 4e-15)
    assert absent <= upper * (1 + 4e-15)
    assert 1.0 - lower == pytest.approx(participation_bound(1.0 - absent, epsilon), rel=1e-9)


@given(st.floats(1e-3, 0.999), st.floats(0.0, 3.0), st.sampled_from(["upper", "lower"]))
@settings(max_examples=150, deadline=None)
def test_the_epsilon_of_taking_part_is_the_inverse(absent: float, epsilon: float, side: str) -> None:
    present = participation_bound(absent, epsilon, side)
    assert participation_epsilon(absent, present) == pytest.approx(epsilon, rel=1e-9, abs=1e-9)


# The table


def test_the_table_is_the_functions_it_names() -> None:
    population, absolutes = [1.0, 2.0, 3.0, 4.0, 8.0], [0.25, 0.5, 0.9]
    table = compare_proposals(population, STATISTICS, absolutes)
    assert {name: table[name].dims for name in table} == {
        "inclusion": ("absolute",),
        "participation": ("absolute",),
        "lee_clifton": ("statistic", "absolute"),
        "relative": ("statistic", "absolute"),
        "moved": ("statistic",),
        "ranged": ("statistic",),
    }
    np.testing.assert_array_equal(table["inclusion"], inclusion_epsilon(5, absolutes))
    np.testing.assert_allclose(table["participation"], table["inclusion"] / 2.0, rtol=1e-12)
    for name, statistic in STATISTICS.items():
        row = table.sel(statistic=name)
        np.testing.assert_allclose(row["lee_clifton"], lee_clifton_epsilon(population, statistic, absolutes))
        assert (row["moved"].item(), row["ranged"].item()) == lee_clifton_changes(population, statistic)
    np.testing.assert_allclose(table["relative"], table["lee_clifton"] / table["inclusion"], rtol=1e-12)
    assert table.attrs["population"] == 5


# Shapes and bad input


@pytest.mark.parametrize("n", range(2, 60))
def test_the_prior_itself_is_refused_whatever_its_last_digit(n: int) -> None:
    with pytest.raises(ValueError, match=r"absolute must be in \(1/n, 1\)"):
        inclusion_epsilon(n, 1.0 / n)


@pytest.mark.parametrize(("statistic", "population"), [(np.max, [0, 1, 2, 3]), (np.median, [0, 1, 2, 3])])
@pytest.mark.parametrize("offset", [0.0, 1e15, 1.6e15])
def test_large_values_keep_their_range(statistic: Any, population: list[int], offset: float) -> None:
    """Only rounding is taken for no range at all: an infinite epsilon would be the unsafe side."""
    assert lee_clifton_changes(np.array(population) + offset, statistic) == lee_clifton_changes(population, statistic)
