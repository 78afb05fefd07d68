"""From tolerated risk to epsilon: bounds against every release, closed forms against a search over all priors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary import RiskProfile, recommend_epsilon
from tests.oracles import budget as oracles

budget = adv.budget
STATISTICS = ("any", "count")
ULP = 2.0**-52
both_statistics = pytest.mark.parametrize("statistic", STATISTICS)


# ---------------------------------------------------------------------------------------------------------------------
# From epsilon to risk
# ---------------------------------------------------------------------------------------------------------------------

READERS = [(0.5, 0.1), (1.0, 0.3), (0.02, 1.0), (0.9, 1e-4), (1e-6, 0.7), (1.0, 1.0)]


@pytest.mark.parametrize(("p", "q"), READERS)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
def test_two_bins_attain_the_bound_and_one_count_its_own(p: float, q: float, epsilon: float) -> None:
    noise = oracles.geometric_noise(epsilon)
    for listed, statistic in ((oracles.two_bin_ratios, "any"), (oracles.one_count_ratios, "count")):
        ratios = listed(noise, p, q)
        upper = budget.relative_risk_bound(p, q, epsilon, statistic=statistic)
        lower = budget.relative_risk_bound(p, q, epsilon, "lower", statistic)
        assert (lower, upper) == pytest.approx(ratios, rel=1e-12)


@both_statistics
def test_no_release_allowed_by_the_definition_does_more(statistic: str) -> None:
    """Extremes over all probabilities of a release that epsilon-DP allows, found by linear programming."""
    for p, q, epsilon in [(0.5, 0.1, 0.5), (0.9, 0.02, 1.0), (0.2, 0.8, 0.1), (1.0, 0.3, 2.0)]:
        ends = oracles.bound_by_linear_programme(p, q, epsilon, statistic)
        ours = [budget.relative_risk_bound(p, q, epsilon, side, statistic) for side in ("lower", "upper")]
        assert ours == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize(("statistic", "bins"), [("any", 2), ("count", 1)])
def test_random_mechanisms_and_unsure_readers_stay_inside(statistic: str, bins: int) -> None:
    """Six kinds of release of a small table, to readers with any law of everybody else's records."""
    rng = np.random.default_rng(40)
    for _ in range(30):
        epsilon = rng.uniform(0.1, 2)
        mechanism = oracles.random_mechanism(rng, epsilon, top=3, releases=6, bins=bins)
        assert oracles.privacy_of(mechanism) <= epsilon * (1 + 1e-12)
        others = rng.dirichlet(np.full(9, 0.3)).reshape(3, 3)
        p, q = 1 - rng.uniform(0, 1, 2) ** 2
        seen = oracles.mechanism_ratios(mechanism, p, q, others)
        assert seen.largest <= budget.relative_risk_bound(p, q, epsilon, statistic=statistic) * (1 + 1e-12)
        assert seen.smallest >= budget.relative_risk_bound(p, q, epsilon, "lower", statistic) * (1 - 1e-12)


@both_statistics
def test_bounds_rise_with_epsilon_between_one_and_both_caps(statistic: str) -> None:
    rng = np.random.default_rng(41)
    p, q = 1 - rng.uniform(0, 1, (2, 500, 1))
    epsilon = np.linspace(0, 12, 60)
    upper = budget.relative_risk_bound(p, q, epsilon, statistic=statistic)
    lower = budget.relative_risk_bound(p, q, epsilon, "lower", statistic)
    slack = 1 + 4 * ULP
    assert np.all(np.diff(upper) >= -4 * ULP * upper[:, 1:])
    assert np.all(np.diff(lower) <= 4 * ULP)
    assert np.all((upper * slack >= 1) & (upper <= np.minimum(np.exp(2 * epsilon), 1 / (p * q)) * slack))
    assert np.all((lower <= slack) & (lower * slack >= np.exp(-2 * epsilon)))
    posterior = budget.absolute_risk_bound(p, q, epsilon, statistic=statistic)
    np.testing.assert_allclose(posterior, p * q * upper, rtol=1e-15)
    assert np.all((posterior > 0) & (posterior <= 1))
    if statistic == "any":
        assert np.all(budget.relative_risk_bound(p, q, epsilon, statistic="count") <= upper * slack)


def test_the_ends_of_epsilon() -> None:
    assert budget.relative_risk_bound(0.5, 0.1, 0.0) == pytest.approx(1.0, rel=1e-15)
    assert budget.relative_risk_bound(0.5, 0.1, math.inf) == pytest.approx(20.0, rel=1e-15)
    assert budget.relative_risk_bound(0.5, 0.1, math.inf, "lower") == 0.0
    assert budget.relative_risk_bound(0.5, 0.1, 900.0, "lower") == 0.0
    assert budget.absolute_risk_bound(0.5, 0.1, math.inf) == 1.0
    assert budget.relative_risk_bound(1.0, 1.0, math.inf, "lower") == 1.0
    assert budget.relative_risk_bound(1.0, 1.0, 5.0) == 1.0


# ---------------------------------------------------------------------------------------------------------------------
# From risk to epsilon
# ---------------------------------------------------------------------------------------------------------------------


def random_risks(rng: np.random.Generator, count: int) -> tuple[Any, Any, Any]:
    """Priors, some tiny and some 1, and ratios that they allow, some very near either end."""
    p, q = (
        np.where(rng.random(count) < 0.1, 1.0, np.where(rng.random(count) < 0.5, 1 - rng.random(count), x))
        for x in 10 ** rng.uniform(-9, 0, (2, count))
    )
    share = np.where(rng.random(count) < 0.3, 10 ** rng.uniform(-6, -1, count), rng.uniform(0.02, 0.98, count))
    return p, q, 1 + (np.minimum(1 / (p * q), 1e6) - 1) * share


def conditioning(p: Any, q: Any, epsilon: Any, statistic: str) -> Any:
    """|d epsilon / d log ratio|, by differentiating Theorem 4."""
    x = np.exp(-epsilon)
    ratio = budget.relative_risk_bound(p, q, epsilon, statistic=statistic)
    slope = x * (1 - p * q) if statistic == "count" else 2 * x**2 * p * (1 - q) + x * (1 - p)
    with np.errstate(divide="ignore"):
        return 1 / (ratio * slope)


@pytest.mark.slow_cases("any")
@both_statistics
def test_epsilon_for_risk_against_forty_digits(statistic: str) -> None:
    rng = np.random.default_rng(42)
    p, q, ratio = random_risks(rng, 200)
    ours = budget.epsilon_for_risk(p, q, ratio, statistic)
    condition = conditioning(p, q, ours, statistic)
    for i in range(200):
        exact = float(oracles.exact_epsilon(p[i], q[i], ratio[i], statistic))
        assert ours[i] == pytest.approx(exact, rel=4 * ULP, abs=4 * ULP * max(1.0, condition[i]))


@both_statistics
def test_risk_and_epsilon_undo_each_other(statistic: str) -> None:
    """ratio -> epsilon -> ratio to 1e-12 always. epsilon -> ratio -> epsilon to 1e-12 where that is possible at all.

    A ratio carries a relative error of one ulp, which returns as |d epsilon / d log ratio| ulps of epsilon: without
    limit where the ratio is close to 1 / (p q), which large epsilons all come near.
    """
    rng = np.random.default_rng(43)
    p, q, ratio = random_risks(rng, 10_000)
    epsilon = budget.epsilon_for_risk(p, q, ratio, statistic)
    np.testing.assert_allclose(budget.relative_risk_bound(p, q, epsilon, statistic=statistic), ratio, rtol=1e-12)
    epsilon = np.where(rng.random(10_000) < 0.5, rng.uniform(0, 6, 10_000), 10 ** rng.uniform(-6, 1, 10_000))
    back = budget.epsilon_for_risk(
        p, q, budget.relative_risk_bound(p, q, epsilon, statistic=statistic), statistic=statistic
    )
    condition = conditioning(p, q, epsilon, statistic)
    error = np.abs(back - epsilon)
    well = condition < 400
    assert well.mean() > 0.7
    assert error[well].max() < 1e-12
    fair = condition < 1e12
    assert np.all(error[fair] <= 8 * ULP * (condition + epsilon)[fair])
    assert np.all(back[~fair] > 20)


@both_statistics
def test_at_most_one_over_the_prior_is_nothing_to_bound(statistic: str) -> None:
    """From 1 / (p q) on; one ulp below, an epsilon that is large and finite."""
    for p, q in [(0.5, 0.5), (0.25, 1.0), (1.0, 0.125)]:
        cap = 1 / (p * q)
        assert budget.epsilon_for_risk(p, q, cap, statistic) == math.inf
        assert budget.epsilon_for_risk(p, q, np.nextafter(cap, math.inf), statistic) == math.inf
        below = float(np.nextafter(cap, 0))
        exact = float(oracles.exact_epsilon(p, q, below, statistic))  # 1 / ratio - p q keeps no digit there
        assert budget.epsilon_for_risk(p, q, below, statistic) == pytest.approx(exact, abs=1.0)
    assert budget.epsilon_for_risk(0.3, 0.7, math.inf, statistic) == math.inf


def test_a_ratio_below_one_asks_for_a_negative_epsilon() -> None:
    """Minus the epsilon whose lower bound it is."""
    epsilon = budget.epsilon_for_risk(0.5, 0.2, 0.7)
    assert epsilon < 0
    assert budget.relative_risk_bound(0.5, 0.2, -epsilon, "lower") == pytest.approx(0.7, rel=1e-14)


# ---------------------------------------------------------------------------------------------------------------------
# Closed forms against a search over all priors
# ---------------------------------------------------------------------------------------------------------------------

KINDS = ("constant", "everywhere", "inclusion fixed", "value fixed", "ranges", "box", "point", "one reader")


class Drawn(NamedTuple):
    """max(absolute / (p q), ratio) on rectangles of priors: arrays over profiles."""

    kind: Any
    ratio: Any
    absolute: Any
    p0: Any
    p1: Any
    q0: Any
    q1: Any

    def profiles(self) -> Iterator[RiskProfile]:
        """Each by the constructor of its kind."""
        for kind, *row in zip(*self, strict=True):
            r, a, p0, p1, q0, q1 = (float(x) for x in row)
            yield {
                "constant": lambda r=r: RiskProfile.constant(r),
                "everywhere": lambda r=r, a=a: RiskProfile.ratio_or_absolute(r, a),
                "inclusion fixed": lambda r=r, a=a, p=p1: RiskProfile.ratio_or_absolute(r, a, inclusion=p),
                "value fixed": lambda r=r, a=a, q=q1: RiskProfile.ratio_or_absolute(r, a, value=q),
                "ranges": lambda r=r, a=a, p=(p0, p1), q=(q0, q1): RiskProfile.ratio_or_absolute(r, a, p, q),
                "box": lambda r=r, p=(p0, p1), q=(q0, q1): RiskProfile.box(r, inclusion=p, value=q),
                "point": lambda r=r, p=p1, q=q1: RiskProfile.point(r, p, q),
                "one reader": lambda r=r, a=a, p=p1, q=q1: RiskProfile.ratio_or_absolute(r, a, p, q),
            }[kind]()

    def optimum(self, statistic: str) -> oracles.Optimum:
        return oracles.global_optimum(
            lambda some: oracles.larger_of(self.ratio[some], self.absolute[some]),
            (self.p0, self.p1),
            (self.q0, self.q1),
            statistic,
        )

    def some(self, count: int) -> Drawn:
        return Drawn(*(column[:count] for column in self))


def stepped(x: Any, ulps: Any) -> Any:
    """Doubles moved by a few ulps, up or down."""
    for i in range(1, 1 + int(np.max(np.abs(ulps)))):
        x = np.where(ulps >= i, np.nextafter(x, 2), np.where(ulps <= -i, np.nextafter(x, -1), x))
    return x


def drawn(rng: np.random.Generator, count: int, straddling: float = 0.7) -> Drawn:
    """Random profiles of every kind; a share of them within two ulps of a boundary between two cases.

    Boundaries: p = a/r; q = a/r; q = 1/(r + 1); p1 q0 = a/r; p0 q0 = a/r; a/r = q = 1/(r + 1), all at once.
    """

    def priors() -> Any:
        u = rng.random(count)
        return np.where(u < 0.1, 1.0, np.where(u < 0.6, 1 - rng.random(count), 10 ** rng.uniform(-5, 0, count)))

    kind = rng.choice(KINDS, count)
    ratio = 1 + np.exp(rng.normal(0, 1.5, count))
    absolute = np.where(rng.random(count) < 0.5, rng.random(count), 10 ** rng.uniform(-6, 0, count))
    (p0, p1), (q0, q1) = np.sort([priors(), priors()], axis=0), np.sort([priors(), priors()], axis=0)
    p0, q0 = np.where(rng.random(count) < 0.2, 0.0, p0), np.where(rng.random(count) < 0.2, 0.0, q0)
    boundary = np.where(rng.random(count) < straddling, rng.integers(0, 6, count), -1)
    ulps, more = rng.integers(-2, 3, (2, count))
    absolute = np.where(boundary == 5, np.minimum(stepped(ratio / (ratio + 1), ulps), 1), absolute)
    switch, turn = absolute / ratio, 1 / (ratio + 1)
    p1 = np.where(boundary == 0, stepped(switch, ulps), p1)
    q0 = np.where(boundary == 1, stepped(switch, ulps), q0)
    q0 = np.where((boundary == 2) | (boundary == 5), stepped(turn, more), q0)
    q0 = np.where(boundary == 3, stepped(np.minimum(switch / p1, 1), ulps), q0)
    p0 = np.where(boundary == 4, stepped(np.minimum(switch / np.maximum(q0, 1e-9), 1), ulps), p0)
    p0, p1, q0, q1 = (np.clip(x, 0, 1) for x in (p0, np.maximum(p0, p1), q0, np.maximum(q0, q1)))
    everyone = np.isin(kind, ("constant", "everywhere"))
    free_p, free_q = everyone | (kind == "value fixed"), everyone | (kind == "inclusion fixed")
    one_p = np.isin(kind, ("inclusion fixed", "point", "one reader"))
    one_q = np.isin(kind, ("value fixed", "point", "one reader"))
    q1 = np.where(free_q, 1.0, np.where(one_q & (q0 > 0), q0, q1))
    p1 = np.where(free_p, 1.0, p1)
    return Drawn(
        kind=kind,
        ratio=ratio,
        absolute=np.where(np.isin(kind, ("constant", "box", "point")), 0.0, absolute),
        p0=np.where(one_p, p1, np.where(free_p, 0.0, p0)),
        p1=p1,
        q0=np.where(one_q, q1, np.where(free_q, 0.0, q0)),
        q1=q1,
    )


def assert_same(ours: Any, theirs: Any, tolerance: float) -> None:
    """Equal, infinities included, to a tolerance that is relative above 1."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))
    finite = np.isfinite(theirs)
    np.testing.assert_allclose(ours[finite], theirs[finite], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("statistic", "count"), [("any", 3_000), ("count", 1_000)])
def test_closed_forms_are_the_optimum_over_all_priors(statistic: str, count: int) -> None:
    """Value, and a reader who needs just that: their own epsilon, at the limit where a prior is 0."""
    them = drawn(np.random.default_rng(46), count)
    found = [recommend_epsilon(one, statistic=statistic, method="closed") for one in them.profiles()]
    epsilon = np.array([one.epsilon for one in found])
    assert_same(epsilon, them.optimum(statistic).epsilon, 1e-10)
    assert {one.method for one in found} == {"closed"}
    assert [one.status for one in found] == ["unconstrained" if math.isinf(x) else "bounded" for x in epsilon]
    p, q = (np.array([getattr(one, name) for one in found]) for name in ("inclusion", "value"))
    np.testing.assert_array_equal(np.isnan(p) & np.isnan(q), np.isinf(epsilon))
    bounded = np.isfinite(epsilon)
    slack = oracles.larger_of(them.ratio[bounded], them.absolute[bounded])
    at_p, at_q = p[bounded][:, None, None], q[bounded][:, None, None]
    own = oracles.pointwise_epsilon(at_p, at_q, slack(at_p, at_q), statistic).ravel()
    np.testing.assert_allclose(own, epsilon[bounded], rtol=1e-9, atol=1e-9)
    inside = (p >= them.p0) & (p <= them.p1) & (q >= them.q0) & (q <= them.q1)
    assert np.all(inside[bounded])
    attained = np.array([one.attained for one in found])
    assert not np.any(attained & ((p == 0) | (q == 0)))
    assert not np.any(attained & ~bounded)


@both_statistics
def test_differences_are_the_optimum_over_all_priors(statistic: str) -> None:
    b = np.concatenate([np.random.default_rng(47).uniform(0, 1, 500), [1e-9, 1e-4, 1 - 1e-6]])
    optimum = oracles.global_optimum(lambda some: oracles.gain_of(b[some]), (0 * b, 1 + 0 * b), (0, 1), statistic)
    ours = [recommend_epsilon(RiskProfile.difference(float(x)), statistic=statistic).epsilon for x in b]
    np.testing.assert_allclose(ours, optimum.epsilon, rtol=1e-9, atol=1e-15)
    times = 1 if statistic == "any" else 2
    np.testing.assert_allclose(ours, times * 2 * np.arctanh(b), rtol=1e-12)


@pytest.mark.parametrize(
    ("statistic", "count"),
    [
        ("any", 150),
        ("count", 150),
        pytest.param("any", 1_500, marks=pytest.mark.thorough),
        pytest.param("count", 400, marks=pytest.mark.thorough),
    ],
)
def test_the_search_brackets_the_optimum(statistic: str, count: int) -> None:
    """Its lower end is the answer, so never too large; close, unless the absolute tolerance is close to 1."""
    them = drawn(np.random.default_rng(48), count)
    found = [recommend_epsilon(one, statistic=statistic, method="numeric") for one in them.profiles()]
    lower, upper = np.array([one.bracket for one in found]).T
    epsilon = np.array([one.epsilon for one in found])
    truth = them.optimum(statistic).epsilon
    assert {one.method for one in found} == {"certified search"}
    assert np.all(epsilon == lower)
    assert np.all(lower <= truth * (1 + 1e-12) + 1e-13)
    assert np.all(upper >= truth * (1 - 1e-12) - 1e-13)
    easy = (them.absolute < 0.9) & np.isfinite(truth)
    np.testing.assert_allclose(epsilon[easy], truth[easy], rtol=1e-7, atol=1e-7)
    assert np.isinf(epsilon[np.isinf(truth) & (them.absolute < 0.9)]).all()


# ---------------------------------------------------------------------------------------------------------------------
# What every profile keeps
# ---------------------------------------------------------------------------------------------------------------------


def relaxed(p: Any, q: Any) -> Any:
    return 1.5 + 0.02 / (p + q * q)


def steps(p: Any, q: Any) -> Any:
    return np.where(p <= 0.5, np.where(q <= 0.3, 6.0, 2.5), np.where(q <= 0.3, 4.0, 3.0))


CATALOGUE: dict[str, RiskProfile] = {
    "constant": RiskProfile.constant(3.0),
    "constant, close to 1": RiskProfile.constant(1.01),
    "everywhere": RiskProfile.ratio_or_absolute(3.0, 0.25),
    "inclusion fixed, below a/r": RiskProfile.ratio_or_absolute(3.0, 0.3, inclusion=0.05),
    "inclusion fixed, above a/r": RiskProfile.ratio_or_absolute(3.0, 0.025, inclusion=0.05),
    "value fixed at 1": RiskProfile.ratio_or_absolute(2.0, 0.25, value=1),
    "value fixed, below a/r": RiskProfile.ratio_or_absolute(3.0, 0.25, value=0.05),
    "value fixed, middle": RiskProfile.ratio_or_absolute(3.0, 0.25, value=0.2),
    "value fixed, above": RiskProfile.ratio_or_absolute(3.0, 0.25, value=0.6),
    "ranges": RiskProfile.ratio_or_absolute(2.5, 0.2, inclusion=(0.1, 0.6), value=(0.3, 0.9)),
    "no ratio": RiskProfile.ratio_or_absolute(1.0, 0.4, inclusion=(0.0, 0.5), value=(0.0, 0.7)),
    "box, low q": RiskProfile.box(3.0, inclusion=(0.2, 1.0), value=(0.0, 1.0)),
    "box, high q": RiskProfile.box(3.0, inclusion=(0.0, 0.6), value=(0.5, 1.0)),
    "box, nothing to bound": RiskProfile.box(3.0, inclusion=(0.5, 1.0), value=(0.8, 1.0)),
    "difference": RiskProfile.difference(0.2),
    "point": RiskProfile.point(1.5, 0.5, 1.0),
    "custom, declared": RiskProfile.custom(relaxed, decreasing=True),
    "custom": RiskProfile.custom(relaxed),
    "custom, steps": RiskProfile.custom(steps),
    "minimum": RiskProfile.difference(0.2).minimum(RiskProfile.constant(4.0), RiskProfile.box(1.5, (0, 0.2), (0.6, 1))),
    "within": RiskProfile.difference(0.2).within(inclusion=(0.8, 1.0), value=(0.6, 1.0)),
    "minimum within": RiskProfile.constant(4.0).minimum(RiskProfile.difference(0.2)).within(value=(0.5, 1.0)),
}
every_profile = pytest.mark.parametrize("name", CATALOGUE)


def grids(profile: RiskProfile) -> Iterator[tuple[Any, Any]]:
    """A thousand priors of either kind, evenly spaced over the profile's readers, and again by logarithms."""
    (p0, p1), (q0, q1) = profile.domain
    even = [high - (high - low) * np.linspace(0, 1, 1000, endpoint=low > 0) for low, high in ((p0, p1), (q0, q1))]
    by_log = [np.geomspace(max(low, 1e-9), high, 1000) for low, high in ((p0, p1), (q0, q1))]
    for p, q in (even, by_log):
        yield np.unique(p)[:, None], np.unique(q)


@both_statistics
@every_profile
def test_the_recommendation_keeps_the_profile_for_a_million_readers(name: str, statistic: str) -> None:
    """Unrounded to 1e-12, relative; rounded down without exception."""
    profile = CATALOGUE[name]
    exact = recommend_epsilon(profile, statistic=statistic)
    rounded = recommend_epsilon(profile, statistic=statistic, round_down=2)
    assert rounded.epsilon <= exact.epsilon
    assert rounded.epsilon == math.inf or exact.epsilon - rounded.epsilon < 0.01
    for p, q in grids(profile):
        tolerated = profile(p, q)
        open_ = budget.relative_risk_bound(p, q, exact.epsilon, statistic=statistic)
        assert np.all(open_ <= tolerated * (1 + 1e-12))
        if rounded.epsilon < exact.epsilon:
            assert np.all(budget.relative_risk_bound(p, q, rounded.epsilon, statistic=statistic) <= tolerated)


@both_statistics
@every_profile
def test_no_larger_epsilon_would_do(name: str, statistic: str) -> None:
    """The reader named is broken by a little more, or, where only approached, one close to them."""
    profile = CATALOGUE[name]
    found = recommend_epsilon(profile, statistic=statistic)
    if found.status == "unconstrained":
        assert name == "box, nothing to bound"
        return
    p, q = (max(x, 1e-9) for x in (found.inclusion, found.value))
    assert budget.relative_risk_bound(p, q, found.epsilon + 1e-6, statistic=statistic) > profile(p, q)
    assert found.attained == (found.inclusion > 0 and found.value > 0)
    assert found.bracket[0] <= found.epsilon <= found.bracket[1] * (1 + 1e-15)


@every_profile
def test_profiles_are_ratios_from_one_to_infinity_that_broadcast(name: str) -> None:
    profile = CATALOGUE[name]
    p, q = np.linspace(0.01, 1, 7)[:, None], np.linspace(0.02, 1, 5)
    tolerated = profile(p, q)
    assert tolerated.shape == (7, 5)
    assert tolerated.dtype == np.float64
    assert np.all(tolerated >= 1)
    one = profile(0.01, 0.02)
    assert isinstance(one, float)
    assert one == tolerated[0, 0]
    labelled = profile(xr.DataArray(p[:, 0], dims="somebody"), xr.DataArray(q, dims="trait"))
    assert labelled.dims == ("somebody", "trait")
    np.testing.assert_array_equal(labelled, tolerated)
    assert isinstance(profile.words, str)
    assert profile.words


@pytest.mark.slow_cases("count")
@both_statistics
def test_epsilon_of_a_minimum_is_the_least_epsilon(statistic: str) -> None:
    rng = np.random.default_rng(51)
    names = [name for name in CATALOGUE if not name.startswith("custom")]
    for _ in range(40):
        chosen = [CATALOGUE[name] for name in rng.choice(names, rng.integers(2, 5), replace=False)]
        together = recommend_epsilon(chosen[0].minimum(*chosen[1:]), statistic=statistic)
        alone = [recommend_epsilon(one, statistic=statistic) for one in chosen]
        least = min(alone, key=lambda one: one.epsilon)
        assert together.epsilon == least.epsilon
        assert (together.inclusion, together.value) == pytest.approx((least.inclusion, least.value), nan_ok=True)
        p, q = 1 - rng.uniform(0, 1, (2, 100))
        np.testing.assert_array_equal(chosen[0].minimum(*chosen[1:])(p, q), np.min([one(p, q) for one in chosen], 0))


@both_statistics
def test_within_is_the_optimum_over_the_rectangle(statistic: str) -> None:
    """A difference on rectangles has no closed form unless its own reader is inside."""
    rng = np.random.default_rng(52)
    for _ in range(25):
        (p0, p1), (q0, q1) = np.sort(rng.uniform(0.01, 1, (2, 2)), axis=1).tolist()
        b = float(rng.uniform(0.01, 0.6))
        found = recommend_epsilon(RiskProfile.difference(b).within((p0, p1), (q0, q1)), statistic=statistic)
        truth = oracles.global_optimum(lambda some, b=b: oracles.gain_of([b]), ([p0], [p1]), ([q0], [q1]), statistic)
        assert_same(found.epsilon, truth.epsilon[0], 2e-9)
        box = RiskProfile.constant(3.0).within((p0, p1), (q0, q1))
        same = RiskProfile.box(3.0, (p0, p1), (q0, q1))
        assert (
            recommend_epsilon(box, statistic=statistic).epsilon == recommend_epsilon(same, statistic=statistic).epsilon
        )


def test_a_profile_ignores_readers_outside_its_domain() -> None:
    assert RiskProfile.point(1.5, 0.5, 1.0)(0.5, 1.0) == 1.5
    assert RiskProfile.point(1.5, 0.5, 1.0)(0.5, np.nextafter(1.0, 0)) == math.inf
    assert RiskProfile.ratio_or_absolute(3.0, 0.1, value=1)(0.2, 0.9) == math.inf
    assert RiskProfile.constant(2.0).within(inclusion=(0.5, 1.0))(0.4, 0.1) == math.inf
    nobody = recommend_epsilon(RiskProfile.point(3.0, 0.1, 0.1).within(inclusion=(0.5, 1.0)))
    assert (nobody.epsilon, nobody.status) == (math.inf, "unconstrained")


# ---------------------------------------------------------------------------------------------------------------------
# Functions of the user
# ---------------------------------------------------------------------------------------------------------------------


def table_optimum(p: Any, q: Any, table: Any, statistic: str) -> float:
    """Infimum for a function that is constant on every cell between the edges p and q: at a corner of some cell."""
    ends = [
        oracles.pointwise_epsilon(a, b, 1 / table - a * b, statistic)
        for a in (p[:-1, None], p[1:, None])
        for b in (q[:-1], q[1:])
    ]
    return float(np.min(ends))


def random_table(rng: np.random.Generator, *, decreasing: bool) -> tuple[Any, Any, Any]:
    """Edges at least 0.03 apart, and ratios between them, some infinite."""
    size = int(rng.integers(2, 6))
    edges: list[Any] = []
    while len(edges) < 2:
        edge = np.concatenate([[0], np.sort(rng.random(size - 1)), [1]])
        edges += [edge] if np.diff(edge).min() > 0.03 else []
    table = 1 + rng.exponential(3, (size, size))
    table[rng.random((size, size)) < 0.15] = np.inf
    if decreasing:
        table = np.minimum.accumulate(np.minimum.accumulate(table, 0), 1)
    return *edges, table


@pytest.mark.slow_cases("any-False", "count-False")
@pytest.mark.parametrize("decreasing", [True, False])
@both_statistics
def test_functions_that_jump(statistic: str, decreasing: bool) -> None:
    """Tables of ratios whose jumps include either side."""
    rng = np.random.default_rng(53)
    for _ in range(15):
        p_edges, q_edges, table = random_table(rng, decreasing=decreasing)
        side = str(rng.choice(["left", "right"]))

        def function(p: Any, q: Any, edges: Any = (p_edges, q_edges), table: Any = table, side: str = side) -> Any:
            i, j = (
                np.clip(np.searchsorted(edge, x, side) - 1, 0, len(edge) - 2)  # type: ignore[call-overload]
                for edge, x in zip(edges, (p, q), strict=True)
            )
            return table[i, j]

        truth = table_optimum(p_edges, q_edges, table, statistic)
        found = recommend_epsilon(RiskProfile.custom(function, decreasing=decreasing), statistic=statistic)
        assert found.epsilon <= truth * (1 + 1e-12)
        assert_same(found.epsilon, truth, 1e-7)
        assert found.method == ("certified search" if decreasing else "search")
        assert (found.bracket[0] > 0) == (decreasing and truth > 0)


@both_statistics
def test_a_function_that_is_a_built_in_profile_gets_its_answer(statistic: str) -> None:
    """Declared decreasing it is certified; undeclared it is a search that claims no lower end.

    Of one count, every reader on the curve p q = a / r binds, and the bracket is wider.
    """

    def tolerated(p: Any, q: Any) -> Any:
        return np.maximum(0.25 / (p * q), 3.0)

    truth = recommend_epsilon(RiskProfile.ratio_or_absolute(3.0, 0.25), statistic=statistic)
    for decreasing, method in ((True, "certified search"), (False, "search")):
        found = recommend_epsilon(RiskProfile.custom(tolerated, decreasing=decreasing), statistic=statistic)
        assert found.epsilon == pytest.approx(truth.epsilon, abs=5e-9 if statistic == "any" else 2e-4)
        assert found.epsilon <= truth.epsilon + 1e-15
        assert found.inclusion * found.value == pytest.approx(truth.inclusion * truth.value, rel=1e-6)
        assert found.method == method
        assert found.bracket[0] == (found.epsilon if decreasing else 0.0)
        assert found.bracket[1] >= truth.epsilon


@pytest.mark.slow
@both_statistics
def test_random_landscapes_are_never_overestimated(statistic: str) -> None:
    """A tolerance lowered by a few bells, at least 0.02 wide; the truth from a zoom on each of a hundred squares."""
    rng = np.random.default_rng(3)
    low = np.repeat(np.arange(10), 10) / 10, np.tile(np.arange(10), 10) / 10
    squares = [(x, np.minimum(x + 0.1, 1)) for x in low]
    for _ in range(8):
        bells = [(*rng.random(2), 10 ** rng.uniform(-1.7, -0.3), rng.uniform(0.2, 0.95)) for _ in range(3)]
        top = 1 + 10 ** rng.uniform(0, 0.8)

        def landscape(p: Any, q: Any, bells: Any = bells, top: float = top) -> Any:
            depth = [h * np.exp(-0.5 * ((p - a) ** 2 + (q - b) ** 2) / w**2) for a, b, w, h in bells]
            return 1 + (top - 1) * (1 - np.max(depth, axis=0))

        truth = oracles.global_optimum(
            lambda some, f=landscape: lambda p, q: 1 / f(p, q) - p * q, *squares, statistic, zooms=40
        ).epsilon.min()
        found = recommend_epsilon(RiskProfile.custom(landscape), statistic=statistic).epsilon
        assert truth * (1 - 1e-3) < found < truth * (1 + 1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda p, q: 1 + p,
        lambda p, q: 1 + q,
        lambda p, q: 3 + 0.1 * p - 0.05 * q,
        lambda p, q: np.where(p < 0.5, 2.0, 3.0),
        lambda p, q: np.where((abs(p - 0.3719) < 0.1) & (abs(q - 0.6113) < 0.1), 1.2, 5.0),
        lambda p, q: np.where((abs(p - 0.3719) < 0.1) & (abs(q - 0.6113) < 0.1), 5.0, 1.2),
    ],
)
def test_functions_falsely_declared_decreasing_are_refused(function: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(ValueError, match="declared decreasing must not rise"):
        recommend_epsilon(RiskProfile.custom(function, decreasing=True))


def test_a_function_of_single_numbers_is_asked_one_by_one() -> None:
    """`if` and `max` of numbers: no warning, the same answer."""

    def cautious(p: float, q: float) -> float:
        if p * q > 0.2:
            return max(2.0, 3.0 - math.sqrt(p))
        return 4.0

    profile = RiskProfile.custom(cautious)
    assert profile(0.5, 0.5) == max(2.0, 3.0 - math.sqrt(0.5))
    np.testing.assert_array_equal(profile([0.1, 1.0], 1.0), [4.0, 2.0])
    same = RiskProfile.custom(lambda p, q: np.where(p * q > 0.2, np.maximum(2.0, 3.0 - np.sqrt(p)), 4.0))
    assert recommend_epsilon(profile).epsilon == recommend_epsilon(same).epsilon


def test_functions_that_answer_with_one_number_are_constant() -> None:
    assert recommend_epsilon(RiskProfile.custom(lambda p, q: 3)).epsilon == pytest.approx(0.5 * math.log(3), abs=1e-9)
    np.testing.assert_array_equal(RiskProfile.custom(lambda p, q: 3)([0.1, 0.2], 0.5), [3.0, 3.0])


# ---------------------------------------------------------------------------------------------------------------------
# Answers that are not a number to use
# ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "profile",
    [
        RiskProfile.constant(1.0),
        RiskProfile.ratio_or_absolute(1.0, 0.25),
        RiskProfile.ratio_or_absolute(1.0, 0.25, inclusion=0.3),
        RiskProfile.point(1.0, 0.5, 0.5),
        RiskProfile.custom(lambda p, q: 1.0 + 0 * p * q),
        RiskProfile.constant(3.0).minimum(RiskProfile.point(1.0, 0.5, 0.5)),
    ],
)
@both_statistics
def test_no_information_at_all_is_unattainable_with_epsilon_zero(profile: RiskProfile, statistic: str) -> None:
    found = recommend_epsilon(profile, statistic=statistic, round_down=2)
    assert (found.epsilon, found.status) == (0.0, "unattainable")
    assert "No epsilon above 0" in found.words


@pytest.mark.parametrize("below", [1.0 - 1e-15, 0.9, 0.0, -1.0, -math.inf])
@pytest.mark.parametrize("where", ["everywhere", "above a half"])
@pytest.mark.parametrize("decreasing", [True, False])
def test_less_than_no_information_is_refused_with_its_reader(below: float, where: str, decreasing: bool) -> None:
    profile = RiskProfile.custom(
        lambda p, q: np.where((p > 0.5) | (where == "everywhere"), below, 3.0) + 0 * q, decreasing=decreasing
    )
    for one in (profile, profile.minimum(RiskProfile.constant(2.0)), profile.within(inclusion=(0.1, 1.0))):
        with pytest.raises(ValueError, match=rf"in \[1, inf\] everywhere, got {below:.6g} at \(p, q\) = \("):
            recommend_epsilon(one)
    with pytest.raises(ValueError, match=r"at \(p, q\) = \(0\.75, 0\.5\)"):
        profile(0.75, 0.5)


@pytest.mark.parametrize("decreasing", [True, False])
@both_statistics
def test_a_function_that_is_infinite_everywhere_limits_nothing_and_is_warned_of(
    decreasing: bool, statistic: str
) -> None:
    profile = RiskProfile.custom(lambda p, q: np.inf + 0 * p * q, decreasing=decreasing)
    for one in (profile, profile.within(inclusion=(0.1, 0.4))):
        with pytest.warns(RuntimeWarning, match="tolerates every ratio for every adversary"):
            found = recommend_epsilon(one, statistic=statistic)
        assert (found.epsilon, found.status, found.attained) == (math.inf, "unconstrained", False)


@pytest.mark.parametrize(
    "profile",
    [
        RiskProfile.constant(math.inf),
        RiskProfile.ratio_or_absolute(3.0, 1.0),
        RiskProfile.box(3.0, inclusion=(0.5, 1.0), value=(0.8, 1.0)),
        RiskProfile.point(1.0, 1.0, 1.0),
        RiskProfile.point(4.0, 0.5, 0.5),
        RiskProfile.constant(math.inf).minimum(RiskProfile.point(4.0, 0.5, 0.5)),
    ],
)
@both_statistics
def test_what_every_epsilon_keeps_is_unconstrained(profile: RiskProfile, statistic: str) -> None:
    found = recommend_epsilon(profile, statistic=statistic, round_down=2)
    assert (found.epsilon, found.status, found.attained) == (math.inf, "unconstrained", False)
    assert math.isnan(found.inclusion)
    assert math.isnan(found.value)
    assert "very epsilon" in found.words


@pytest.mark.parametrize("decreasing", [True, False])
def test_a_search_never_says_unattainable_of_what_an_epsilon_keeps(decreasing: bool) -> None:
    """1 / (p q) is what no posterior passes; rounding makes it ever so slightly less."""
    found = recommend_epsilon(RiskProfile.custom(lambda p, q: 1 / (p * q), decreasing=decreasing))
    assert found.status != "unattainable"


def test_round_down_never_rounds_up() -> None:
    rng = np.random.default_rng(54)
    for ratio in (1 + rng.exponential(2, 200)).tolist():
        exact = recommend_epsilon(RiskProfile.constant(ratio)).epsilon
        for decimals in (0, 1, 2, 5, 12, 30):
            rounded = recommend_epsilon(RiskProfile.constant(ratio), round_down=decimals).epsilon
            assert exact - 10.0**-decimals - 1e-15 < rounded <= exact
    assert recommend_epsilon(RiskProfile.constant(3.0)).epsilon == pytest.approx(0.5 * math.log(3.0), rel=1e-15)
    tiny = recommend_epsilon(RiskProfile.constant(1.001), round_down=2)
    assert (tiny.epsilon, tiny.status) == (0.0, "bounded")


# ---------------------------------------------------------------------------------------------------------------------
# Labels and refusals
# ---------------------------------------------------------------------------------------------------------------------


def test_scalars_in_scalars_out_and_labels_are_kept() -> None:
    people = xr.DataArray([0.1, 0.5, 1.0], dims="reader", coords={"reader": ["a", "b", "c"]})
    for function in (budget.relative_risk_bound, budget.absolute_risk_bound, budget.epsilon_for_risk):
        assert type(function(0.5, 0.25, 2)) is float
        assert function([0.5, 0.25], [[0.1], [0.2], [0.3]], 2.0).shape == (3, 2)
        kept = function(people, 0.25, xr.DataArray([1.0, 2.0], dims="size"))
        assert kept.dims == ("reader", "size")
        assert kept["reader"].values.tolist() == ["a", "b", "c"]
        assert float(kept[1, 1]) == function(0.5, 0.25, 2.0)


def test_surfaces_are_labelled_by_the_priors() -> None:
    p, q = [0.1, 0.5, 1.0], [0.25, 0.75]
    open_ = budget.risk_surface(1.0, p, q)
    assert set(open_.data_vars) == {"ratio", "posterior"}
    assert open_["ratio"].dims == ("inclusion", "value")
    assert float(open_["ratio"].sel(inclusion=0.5, value=0.25)) == budget.relative_risk_bound(0.5, 0.25, 1.0)
    np.testing.assert_allclose(open_["posterior"], budget.absolute_risk_bound(np.array(p)[:, None], q, 1.0), rtol=1e-15)
    profile = RiskProfile.ratio_or_absolute(3.0, 0.25)
    for statistic in STATISTICS:
        asked = budget.risk_surface(profile, p, q, statistic=statistic)
        assert set(asked.data_vars) == {"tolerated", "epsilon"}
        np.testing.assert_array_equal(asked["tolerated"], profile(np.array(p)[:, None], q))
        own = budget.epsilon_for_risk(np.array(p)[:, None], q, asked["tolerated"].values, statistic)
        np.testing.assert_array_equal(asked["epsilon"], own)
    usual = budget.risk_surface(profile)
    assert usual["epsilon"].dims == ("inclusion", "value")
    assert float(usual["inclusion"].max()) == float(usual["value"].max()) == 1.0
    assert float(usual["epsilon"].min()) >= recommend_epsilon(profile).epsilon


PRIORS: list[tuple[Any, type[Exception]]] = [
    (0.0, ValueError),
    (-0.1, ValueError),
    (1.1, ValueError),
    (math.nan, ValueError),
    ([0.5, 0.0], ValueError),
    ("half", TypeError),
    (True, TypeError),
    (None, TypeError),
]


@pytest.mark.parametrize(("bad", "error"), PRIORS)
@pytest.mark.parametrize("function", ["relative_risk_bound", "absolute_risk_bound", "epsilon_for_risk"])
def test_priors_outside_zero_to_one_are_refused_by_name(function: str, bad: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="inclusion"):
        getattr(budget, function)(bad, 0.5, 2.0)
    with pytest.raises(error, match="value"):
        getattr(budget, function)(0.5, bad, 2.0)


@pytest.mark.parametrize(
    "bad", [(0.6, 0.2), (-0.1, 0.5), (0.5, 1.1), (0.0, 0.0), (math.nan, 1.0), (0.0, math.nan), (0.1, 0.2, 0.3)]
)
def test_reversed_and_impossible_rectangles_are_refused(bad: Any) -> None:
    for refused in (
        lambda: RiskProfile.box(3.0, inclusion=bad),
        lambda: RiskProfile.ratio_or_absolute(3.0, 0.1, inclusion=bad),
        lambda: RiskProfile.constant(3.0).within(inclusion=bad),
    ):
        with pytest.raises(ValueError, match="inclusion"):
            refused()
    with pytest.raises(ValueError, match="value"):
        RiskProfile.box(3.0, value=bad)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (0.999, ValueError),
        (0.0, ValueError),
        (-2.0, ValueError),
        (math.nan, ValueError),
        ("3", TypeError),
        (True, TypeError),
        (None, TypeError),
        ([2.0, 3.0], TypeError),
    ],
)
def test_ratios_below_one_are_refused(bad: Any, error: type[Exception]) -> None:
    for refused in (
        lambda: RiskProfile.constant(bad),
        lambda: RiskProfile.ratio_or_absolute(bad, 0.1),
        lambda: RiskProfile.box(bad),
        lambda: RiskProfile.point(bad, 0.5, 0.5),
    ):
        with pytest.raises(error, match="ratio"):
            refused()


def test_a_difference_is_strictly_between_zero_and_one() -> None:
    for b in (0.0, 1.0):
        with pytest.raises(ValueError, match="b must be"):
            RiskProfile.difference(b)


@pytest.mark.parametrize(
    ("function", "error", "match"),
    [
        (lambda p, q: np.nan * p * q, ValueError, "nan at"),
        (lambda p, q: np.where((p > 0.5) & (q > 0.5), np.nan, 3.0), ValueError, "nan at"),
        (lambda p, q: np.log(p - 2.0), ValueError, "nan at"),
        (lambda p, q: np.ones(3), TypeError, "shape"),
        (lambda p, q: np.ones((2, 2)), TypeError, "shape"),
        (lambda p, q: "3", TypeError, "custom profile must return"),
        (lambda p, q: None, TypeError, "custom profile must return"),
        (lambda p, q: p > 0.5, TypeError, "custom profile must return"),
        (lambda p, q: 3 + 0j, TypeError, "custom profile must return"),
        (lambda p, q: 1 / 0, ZeroDivisionError, "division"),
    ],
)
def test_functions_that_do_not_answer_are_refused(
    function: Callable[[Any, Any], Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        recommend_epsilon(RiskProfile.custom(function))


def test_a_function_cannot_change_the_search() -> None:
    """It is given copies."""

    def careless(p: Any, q: Any) -> Any:
        p *= 0.5
        return 3.0 + 0 * q

    assert recommend_epsilon(RiskProfile.custom(careless)).epsilon == pytest.approx(0.5 * math.log(3), abs=1e-9)


def test_valleys_aslant_to_the_axes_are_followed_to_their_end() -> None:
    """An undeclared function; a reader on the valley's floor would need less than a window of fixed width finds."""

    def valley(p: Any, q: Any) -> Any:
        return 1.12 + 104 * np.abs(q - 0.446 * p) + 0.3 * np.abs(p - 0.4745)

    found = recommend_epsilon(RiskProfile.custom(valley))
    assert found.epsilon <= adv.budget.epsilon_for_risk(0.4745, 0.446 * 0.4745, 1.12) * (1 + 1e-9)
    assert "proves nothing" in found.words


def test_a_profile_of_adversaries_who_cannot_rise_so_far_limits_nothing_and_warns_of_nothing() -> None:
    nobody = RiskProfile.difference(0.7).within(inclusion=(1e-300, 1e-300), value=(1e-12, 1e-12))
    assert recommend_epsilon(nobody).status == "unconstrained"
    three = RiskProfile.constant(3.0)
    assert recommend_epsilon(nobody.minimum(three)).epsilon == recommend_epsilon(three).epsilon


def test_what_a_search_has_not_met_is_not_said_to_be_safe() -> None:
    thin = RiskProfile.custom(lambda p, q: np.where((p > 0.3) & (p < 0.3001), 2.0, np.inf) + 0 * q)
    with pytest.warns(RuntimeWarning, match="tolerates every ratio for every adversary given"):
        found = recommend_epsilon(thin)
    assert (found.status, found.method) == ("unconstrained", "search")
    assert "proves nothing" in found.words
    with pytest.warns(RuntimeWarning, match="tolerates every ratio for every adversary given"):
        assert "proves nothing" in adv.budget.verdict(thin, adv.PureDP(50.0)).words


def test_tolerances_are_never_told_smaller_than_they_are() -> None:
    assert "1.23458" in RiskProfile.constant(1.2345749).words
    assert "20.0001 percentage points" in RiskProfile.difference(0.20000044).words
    assert "25%" in RiskProfile.ratio_or_absolute(3, 0.25).words


def test_several_readers_may_bind() -> None:
    """At value 1 / (r + 1) every inclusion prior does (Lemma 9): nobody is said to be the only one."""
    found = recommend_epsilon(RiskProfile.ratio_or_absolute(3.0, 0.0, value=0.25))
    assert found.inclusion == 1.0
    assert "none needs less" in found.words
    rounded = recommend_epsilon(RiskProfile.difference(0.2), round_down=1).words
    assert "epsilon = 0.4, rounded down from 0.405, is the largest" in rounded
