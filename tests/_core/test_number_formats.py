"""Numbers in words: outward where they are bounds, in full, and never a bound that promises more."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adversary._core.sentence_parts import (
    as_read,
    decimals_for,
    ends,
    exactly,
    failing,
    holding,
    how_often,
    in_100,
    in_percent,
    join_words,
    out_of,
    plain,
    points,
    sentence,
)

SLACK = Decimal("1e-15")
chances = st.floats(0.0, 1.0, allow_subnormal=False)


def read(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


@given(st.floats(1e-9, 1e9), st.booleans(), st.integers(2, 6))
def test_plain_numbers_are_rounded_outward_by_less_than_a_unit(x: float, upper: bool, digits: int) -> None:
    text, exact = plain(x, upper, digits), Decimal(repr(x))
    assert "e" not in text
    gap = (read(text) - exact) * (1 if upper else -1)
    assert -SLACK * exact <= gap <= exact * Decimal(10) ** (1 - digits)


@given(chances, st.booleans(), st.integers(0, 10))
def test_percentages_are_rounded_outward(p: float, upper: bool, decimals: int) -> None:
    gap = (read(in_percent(p, upper, decimals)) - 100 * Decimal(repr(p))) * (1 if upper else -1)
    assert -SLACK * 100 * Decimal(repr(p)) <= gap <= Decimal(10) ** -decimals


@given(st.tuples(chances, chances, chances).map(sorted))
def test_an_interval_holds_its_ends(three: list[float]) -> None:
    low, start, high = three
    down, up = (read(text) for text in ends(start, low, high))
    assert 0 <= down <= 100 * Decimal(repr(low)) * (1 + SLACK)
    assert 100 >= up >= 100 * Decimal(repr(high)) * (1 - SLACK)


@given(st.floats(1e-7, 0.4))
def test_an_interval_is_fine_enough_to_show_the_move(move: float) -> None:
    down, up = (read(text) for text in ends(0.5, 0.5 - move, 0.5 + move))
    assert up - 50 <= Decimal(100 * move) * Decimal("1.02")
    assert 50 - down <= Decimal(100 * move) * Decimal("1.02")


@given(chances)
def test_points_are_rounded_up(difference: float) -> None:
    exact, said = 100 * Decimal(repr(difference)), read(points(difference))
    assert exact * (1 - SLACK) <= said <= min(Decimal(100), exact * Decimal("1.02") + Decimal("1e-9"))


@given(st.floats(1e-8, 1.0 - 1e-8), st.integers(0, 3))
def test_starts_are_read_as_they_are_written(p: float, finer: int) -> None:
    rest = 0.5 * 10.0 ** (-1 - finer) * (1.0 - p) + 0.5 * 10.0 ** (-6 - finer)
    assert abs(as_read(p, finer) - p) <= 1e-12 + min(0.5 * 10.0 ** (-2 - finer) * p, rest)


@given(st.floats(1e-12, 0.999))
def test_failures_are_rounded_up_in_times(failure: float) -> None:
    failures, times = out_of(failure)
    assert times >= 100
    assert Decimal(repr(failure)) <= Decimal(failures) / times <= Decimal(repr(failure)) * Decimal("1.01")
    held = [int(part.replace(",", "")) for part in holding(failure).split() if part[0].isdigit()]
    assert held == [times - failures, times]


def test_times_are_said_as_people_say_them() -> None:
    assert (holding(0.05), failing(0.05)) == ("at least 95 times in 100", "at most 5 times in 100")
    assert (holding(0.01), failing(0.01)) == ("at least 99 times in 100", "at most once in 100")
    assert holding(1e-6) == "at least 999,999 times in 1,000,000"
    assert holding(1.0 / 3.0) == "at least 666 times in 1,000"


def test_the_published_intervals_are_rounded_outward() -> None:
    """F1: 48 to 52%, a factor of 1.1 and 2% were printed for 47.5 to 52.5%, 1.105 and 2.5%."""
    assert ends(0.5, 0.475016, 0.524984) == ("47.5", "52.5")
    assert (plain(1.105192, True), points(0.0249996)) == ("1.11", "2.5")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (plain(2.5, True), "2.5"),
        (plain(1096.63, True), "1,100"),
        (plain(float("inf"), True), "unlimited"),
        (plain(0.0, False), "0"),
        (exactly(1e-6), "0.000001"),
        (exactly(1e-20), "1e-20"),
        (exactly(2.0), "2"),
        (in_100(0.125), "12.5"),
        (in_100(1.0 / 864.0), "0.116"),
        (in_100(1e-13), "less than 0.0000000001"),
        (in_100(1e-9), "0.0000001"),
        (in_100(1.0 - 1e-13), "more than 99.9999"),
        (in_100(0.281251234, 3), "28.1251"),
        (in_100(1.0), "100"),
        (points(1.0 - 1e-14), "100"),
        (points(0.0), "0"),
        (join_words(["a"]), "a"),
        (join_words(["a", "b", "c"]), "a, b and c"),
        (join_words([]), ""),
        (sentence("the reader"), "The reader"),
        (str(decimals_for(0.0)), "0"),
        (str(decimals_for(0.001, digits=2)), "2"),
    ],
)
def test_numbers_read_well(text: str, expected: str) -> None:
    assert text == expected


def test_never_and_always_are_said_only_of_what_is_exact() -> None:
    assert [how_often(p) for p in (0.0, 1.0)] == ["never", "always"]
    assert "hardly ever" in how_often(5e-324)
    assert "nearly always" in how_often(float(np.nextafter(1.0, 0.0)))
    assert how_often(1e-6) == "0.0001 times in 100"
    assert how_often(0.81756) == "81.8 times in 100"
