"""Helpers: theta series and tails against 40 digits, log-space sums, safe-side roots, argument checks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped, unused-ignore]
import numpy as np
import pytest

from adversary._core import gaussian_sums, numeric, shared_ranks, tied
from adversary._core.argument_checks import check_non_negative, check_positive, check_probability, check_whole


@pytest.mark.parametrize("rho", [1e-6, 0.01, 1.0, 3.1, 3.2, 20.0, 1e3])
@pytest.mark.parametrize("fraction", [0.0, 0.1, -0.37, 0.5, -0.5])
def test_log_theta_of_a_shifted_lattice(rho: float, fraction: float) -> None:
    with mpmath.workdps(50):
        r, f = mpmath.mpf(rho), mpmath.mpf(fraction)
        if rho < 1:
            waves = [
                2 * mpmath.exp(-(mpmath.pi**2) * k * k / r) * mpmath.cos(2 * mpmath.pi * k * f) for k in range(1, 8)
            ]
            total = mpmath.sqrt(mpmath.pi / r) * (1 + mpmath.fsum(waves))
        else:
            total = mpmath.fsum(mpmath.exp(-r * (k + f) ** 2) for k in range(-12, 13))
        expected = float(mpmath.log(total))
    assert gaussian_sums.log_theta(rho, fraction) == pytest.approx(expected, rel=1e-14, abs=1e-15)
    array = gaussian_sums.log_theta(rho, np.array([fraction, fraction]))
    np.testing.assert_allclose(array, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("rho", [1e-7, 6.2e-5, 0.01, 0.049, 0.051, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("z", [-30.0, -3.0, -0.4, 0.0, 0.3, 1.0, 6.0, 25.0])
def test_log_tail_sum_at_any_real_start(rho: float, z: float) -> None:
    """sum over i >= 0 of exp(-rho (start + i)^2), start = z standard deviations, here off the lattice."""
    start = z / math.sqrt(2 * rho) + 0.237
    with mpmath.workdps(40):
        r, s = mpmath.mpf(rho), mpmath.mpf(start)
        if rho < 1e-3:
            expected = _sum_by_euler_maclaurin(r, s)
        else:
            last = max(int(-start), 0) + int(14 / math.sqrt(rho)) + 12
            expected = mpmath.log(mpmath.fsum(mpmath.exp(-r * (s + i) ** 2) for i in range(last)))
    found = float(gaussian_sums.log_tail_sum(np.array(start), rho))
    assert found == pytest.approx(float(expected), rel=1e-13, abs=1e-13)


def _sum_by_euler_maclaurin(rho: Any, start: Any) -> Any:
    """log of half a first term, the integral, and corrections by odd derivatives, which die out for wide terms."""
    scale = mpmath.sqrt(rho)

    def derivative(n: int) -> Any:
        return (-scale) ** n * mpmath.hermite(n, scale * start)

    value = mpmath.sqrt(mpmath.pi) / (2 * scale) * mpmath.erfc(scale * start) * mpmath.exp(rho * start**2)
    value += mpmath.mpf(1) / 2
    for k in range(1, 9):
        value -= mpmath.bernoulli(2 * k) / mpmath.factorial(2 * k) * derivative(2 * k - 1)
    return mpmath.log(value) - rho * start**2


def test_log_tail_sum_keeps_shapes() -> None:
    assert gaussian_sums.log_tail_sum(np.zeros((2, 3)), 0.3).shape == (2, 3)
    assert gaussian_sums.log_tail_sum(0.5, 0.3).shape == ()
    assert gaussian_sums.log_tail_sum(np.zeros(0), 0.3).shape == (0,)
    starts = np.linspace(-200, 200, 999)
    together = gaussian_sums.log_tail_sum(starts, 0.01)
    np.testing.assert_allclose(
        together, [float(gaussian_sums.log_tail_sum(s, 0.01)) for s in starts], rtol=1e-13, atol=1e-13
    )
    assert np.all(np.diff(together) < 1e-13)


@pytest.mark.slow_cases("0.001-7e-05")
@pytest.mark.parametrize("rho", [1e-9, 2e-6, 7e-5, 3e-4, 0.3, 3.0, 60.0])
@pytest.mark.parametrize("step", [1e-3, 0.3, 1.0])
def test_rows_of_tail_sums_are_tail_sums(rho: float, step: float) -> None:
    starts = np.append(np.random.default_rng(3).normal(size=100), [-2.0, 3.0]) / np.sqrt(2.0 * rho)
    found = gaussian_sums.log_tail_sums(starts, step, 1000, rho)
    expected = gaussian_sums.log_tail_sum(starts[:, None] + step * np.arange(1000), rho)
    np.testing.assert_allclose(found, expected, rtol=2e-13, atol=2e-13)


def test_log_sum_exp_of_nothing_is_minus_infinity() -> None:
    x = np.array([[0.0, 1.0], [-np.inf, -np.inf], [-1e5, -1e5]])
    np.testing.assert_allclose(numeric.log_sum_exp(x), [math.log(1 + math.e), -np.inf, -1e5 + math.log(2)], rtol=1e-15)
    assert numeric.log_sum_exp(np.zeros((2, 0))).tolist() == [-np.inf, -np.inf]
    np.testing.assert_allclose(numeric.log_sum_exp(np.zeros((3, 2)), axis=0), math.log(3), rtol=1e-15)


def test_logit_has_its_limits() -> None:
    np.testing.assert_allclose(numeric.logit([0.0, 0.2, 0.5, 1.0]), [-np.inf, math.log(0.25), 0.0, np.inf], rtol=1e-15)


@pytest.mark.parametrize("loss", [-1e6, -800.0, -1.0, 0.0, 1e-9, 3.0, 600.0])
def test_posterior_ratio_has_its_limits(loss: float) -> None:
    assert numeric.posterior_ratio(1.0, loss) == 1.0
    assert numeric.posterior_ratio(0.0, loss) == pytest.approx(math.exp(loss), rel=1e-12)
    for p in (1e-9, 0.3, 0.999):
        expected = 1 / (p + (1 - p) * mpmath.exp(-mpmath.mpf(loss)))
        assert float(numeric.posterior_ratio(p, loss)) == pytest.approx(float(expected), rel=1e-12, abs=1e-300)


def test_posterior_ratio_of_infinite_losses() -> None:
    np.testing.assert_array_equal(numeric.posterior_ratio([0.0, 0.25, 1.0], np.inf), [np.inf, 4.0, 1.0])
    np.testing.assert_array_equal(numeric.posterior_ratio([0.0, 0.25, 1.0], -np.inf), [0.0, 0.0, 1.0])


def test_solving_ends_on_the_safe_side() -> None:
    for target in (1e-12, 0.3, 1.0, 7.0, 1e9):
        root = numeric.solve_decreasing(lambda x, t=target: t - x, 0.0, 1.0)
        assert root >= target
        assert root == pytest.approx(target, rel=1e-14)
    assert numeric.solve_decreasing(lambda x: -1.0, 0.5, 1.0) == 0.5
    assert numeric.solve_decreasing(lambda x: 1.0, 0.0, 1.0) == math.inf
    stepped = numeric.solve_decreasing(lambda x: 1.0 if x < 2.5 else -1.0, 0.0, 1.0)
    assert stepped >= 2.5
    assert stepped == pytest.approx(2.5, rel=1e-14)


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (
            check_probability,
            [0, 1, 0.5, np.array([0.0, 1.0]), Fraction(1, 3), np.float32(0.5), [0.1, 0.2]],
        ),
        (check_positive, [1e-300, 3, Fraction(1, 3), [1.0, 2.0]]),
        (check_non_negative, [0, 2.5, [0.0, 1.0]]),
        (check_whole, [0, -3, 2.0, np.int64(4), np.array([1.0, 2.0]), 2**53 - 1, [1, 2]]),
    ],
)
def test_checks_let_good_values_through(check: Any, good: list[Any]) -> None:
    for x in good:
        array = check("x", x)
        np.testing.assert_allclose(array, np.asarray(float(x) if isinstance(x, Fraction) else x, dtype=float))
        assert array.dtype == (np.int64 if check is check_whole else np.float64)


@pytest.mark.parametrize(
    ("check", "bad", "message"),
    [
        (check_probability, 1.1, r"x must be in \[0, 1\], got 1\.1"),
        (check_probability, -1e-9, r"x must be in \[0, 1\], got -1e-09"),
        (check_probability, math.nan, r"x must be in \[0, 1\], got nan"),
        (check_probability, [0.5, 2.0], r"x must be in \[0, 1\], got 2\.0"),
        (check_positive, 0, r"x must be positive and finite, got 0\.0"),
        (check_positive, math.inf, "x must be positive and finite, got inf"),
        (check_non_negative, -1, r"x must be non-negative and finite, got -1\.0"),
        (check_non_negative, math.nan, "x must be non-negative and finite, got nan"),
        (check_whole, 0.5, r"x must be a whole number between -2\^53 and 2\^53, got 0\.5"),
        (check_whole, [0, 2**53 + 1], r"x must be .* 2\^53, got 9007199254740992\.0"),
        (check_whole, np.array([-(2**63)]), r"x must be .* 2\^53, got -9\.2"),
        (check_whole, -(2**53), r"x must be .* 2\^53, got -9007199254740992\.0"),
        (check_whole, math.nan, "x must be a whole number.*got nan"),
        (check_whole, math.inf, "x must be a whole number.*got inf"),
        (check_whole, 2.0**60, "x must be a whole number between"),
        (check_whole, [1, 2.5], r"x must be a whole number.*got 2\.5"),
        (check_whole, np.array([2**60]), "x must be a whole number between"),
    ],
)
def test_checks_refuse_ranges_with_name_rule_and_value(check: Any, bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check("x", bad)


@pytest.mark.parametrize("check", [check_probability, check_positive, check_whole])
@pytest.mark.parametrize("bad", ["1", "one", None, True, ["a"], object(), {}], ids=lambda x: repr(x).split(" at ")[0])
def test_checks_refuse_kinds_with_name_and_value(check: Any, bad: Any) -> None:
    with pytest.raises(TypeError, match="x must be"):
        check("x", bad)


def test_check_whole_has_a_minimum() -> None:
    assert check_whole("x", 3, minimum=3) == 3
    with pytest.raises(ValueError, match="x must be at least 3, got 2"):
        check_whole("x", [5, 2], minimum=3)


def test_non_negative_may_be_infinite_when_told() -> None:
    assert check_non_negative("x", math.inf, finite=False) == math.inf


def test_scalars_in_scalars_out() -> None:
    assert isinstance(numeric.scalar_or_array(np.float64(1.0)), float)
    assert isinstance(numeric.scalar_or_array(np.array(1.0)), float)
    assert numeric.scalar_or_array(np.zeros(3)).shape == (3,)


def test_what_errors_do_not_tell_apart_is_tied() -> None:
    """Exactly equal but for rounding, or within three standard errors of the difference; never a NaN, nor infinity."""
    assert tied([0.3, 0.1 + 0.2, 0.2]).tolist() == [True, True, False]
    assert tied([1.0, 1.0 + 1e-6]).tolist() == [False, True]
    assert tied([1.0, 1.0 + 1e-6], 1e-6).tolist() == [True, True]
    assert tied([1.0, 1.1], [0.05, np.nan]).tolist() == [True, True]
    assert tied([5.0, np.inf, np.nan]).tolist() == [False, True, False]
    assert tied([5.0, 2.0, 2.0], largest=False).tolist() == [False, True, True]
    assert tied([np.nan, np.nan]).tolist() == [False, False]


def test_ranks_are_shared_by_what_cannot_be_told_apart() -> None:
    assert shared_ranks([0.7, 0.7, 0.6, 0.6, 0.5]).tolist() == [1, 1, 3, 3, 5]
    assert shared_ranks([0.70, 0.68, 0.66], 0.005).tolist() == [1, 1, 3]
    assert shared_ranks([]).tolist() == []


@pytest.mark.parametrize(("kind", "limit"), [(np.float16, 2**11), (np.float32, 2**24)])
def test_counts_that_a_small_type_may_have_rounded_are_refused(kind: Any, limit: int) -> None:
    """2^24 + 1 is 2^24 in float32: which of the two was meant nobody can tell."""
    assert check_whole("x", kind(limit - 1)) == limit - 1
    assert check_whole("x", np.array([3, 1 - limit], kind)).tolist() == [3, 1 - limit]
    assert check_whole("x", np.float64(limit + 1)) == limit + 1
    for value in (kind(limit + 1), np.array([0, -limit], kind), [kind(limit)]):
        with pytest.raises(ValueError, match=rf"x must be below 2\^\d\d .*{kind.__name__}.* give float64"):
            check_whole("x", value)
    with pytest.raises(ValueError, match="x must be a whole number"):
        check_whole("x", kind(0.5))
