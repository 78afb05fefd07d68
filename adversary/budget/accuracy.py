"""Accuracy at a choice of epsilon: error, probability of an exact release, and decisions reversed by noise.

A count is released with noise, once, and a decision compares a rate with a target. For geometric noise with
x = e^-epsilon, the standard deviation is sqrt(2 x) / (1 - x), a release is exact with probability tanh(epsilon / 2),
and a decision k steps from the target reverses with probability x^k / (1 + x) (Kazan's thesis, Example 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, Context
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import (
    DEFAULT_FAILURE,
    Floats,
    as_array,
    check_mapping,
    check_number,
    check_positive,
    check_whole,
    over_labels,
)
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.tables import Population, PublishedTable
from adversary.budget.forms import NOISES
from adversary.budget.recommend import BOUNDED, recommend_epsilon
from adversary.budget.release_budget import allocate, largest
from adversary.budget.risk_bounds import check_word, equivalent_epsilon
from adversary.budget.risk_profile import RiskProfile
from adversary.budget.verdict_on_guarantee import own_losses
from adversary.driver.columns import population, resolve_tables
from adversary.privacy.mechanisms import DiscreteGaussian, Exact, Mechanism, PerturbedCount, RangedNoise

if TYPE_CHECKING:
    import pandas as pd

SIDES = ("above", "below")

# A rate as a number, a Fraction, or written as one: "6/1000".
Rate = float | Fraction | str

_SIMPLE = 10**9
_DIGITS = Context(prec=4, rounding=ROUND_DOWN)

# Relative precision of the total of a split; the result is on the safe side.
SPLIT_PRECISION = 1e-6


def mechanism_for(kind: str, parameter: float) -> Mechanism:
    """Noise of a count that one person changes by 1, from its privacy parameter.

    Parameters
    ----------
    kind : "geometric" or "laplace", from epsilon; "discrete gaussian" or "gaussian", from rho
    parameter : epsilon or rho, nats, > 0; infinite for no noise, `Exact()`

    Returns
    -------
    Mechanism
    """
    _, mechanism = NOISES[check_word("kind", kind, tuple(NOISES))]
    return Exact() if parameter == np.inf else mechanism(parameter)


def prob_exact(mechanism: Mechanism) -> float:
    """Probability that a release equals the true count: P(noise = 0).

    tanh(epsilon / 2) for geometric noise; 0.0 for continuous noise.

    Parameters
    ----------
    mechanism : noise of one count

    Returns
    -------
    float in [0, 1].

    Raises
    ------
    TypeError : not a mechanism, or a clamped or rounded one, whose probability depends on the true count

    >>> from adversary.privacy.mechanisms import Geometric
    >>> round(prob_exact(Geometric(1.0)), 6)
    0.462117
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a noise law, such as Geometric(1.0), got {mechanism!r}")
    if mechanism.steps or isinstance(mechanism, PerturbedCount | RangedNoise):
        raise TypeError("the chance that such a count is exact depends on the count: ask its log_prob")
    return 0.0 if mechanism.is_continuous else float(np.exp(mechanism.log_prob(0, 0)))


def rmse(mechanism: Mechanism) -> float:
    """Root mean square error of a released count, in people: the standard deviation of the noise, which has mean 0.

    Parameters
    ----------
    mechanism : noise of one count, not clamped

    Returns
    -------
    float, >= 0; sqrt(2 x) / (1 - x) with x = e^-epsilon for geometric noise.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> round(rmse(Geometric(1.0)), 6)
    1.356962
    """
    return float(np.sqrt(mechanism.variance))


def misclassification_probability(mechanism: Mechanism, truth: ArrayLike, threshold: ArrayLike) -> Any:
    """Probability that the released and the true count are on different sides of a threshold ("count <= threshold").

    Parameters
    ----------
    mechanism : noise of the count
    truth : true counts, whole numbers
    threshold : whole numbers for integer noise; any finite numbers for continuous noise; broadcasts with `truth`

    Returns
    -------
    Probability, of the broadcast shape, with labels

    >>> from adversary.privacy.mechanisms import Geometric
    >>> round(misclassification_probability(Geometric(np.log(9.0)), truth=25, threshold=24), 12)
    0.1
    """
    if not isinstance(mechanism, Mechanism):
        raise TypeError(f"mechanism must be a noise law, such as Geometric(1.0), got {mechanism!r}")
    check_whole("truth", truth)
    if not mechanism.is_continuous:
        check_whole("threshold", threshold)
    elif not np.isfinite(given := check_number("threshold", threshold)).all():
        raise ValueError(f"threshold must be finite, got {given[~np.isfinite(given)].ravel()[0]}")
    return over_labels(
        lambda t, m: np.where(t > m, mechanism.cdf(m, t), mechanism.sf(m, t)),
        truth,
        threshold,
    )


class RateCounts(NamedTuple):
    """A rate decision in counts: the largest count at or below the target, and the true counts on either side of it.

    `below` is None where the rate would be negative.
    """

    threshold: int
    above: int
    below: int | None


def rate_counts(base: int, target: Rate, deviation: Rate) -> RateCounts:
    """floor(target base), and (target +- deviation) base to the nearest whole number, halves to the even one.

    Parameters
    ----------
    base : denominator of the rate, such as the number of births
    target, deviation : rates per person, >= 0; a float stands for the nearest simple fraction, so 0.29 of 100 is 29

    >>> rate_counts(4012, "6/1000", "1/4000")
    RateCounts(threshold=24, above=25, below=23)
    """
    people = int(check_whole("base", base, minimum=1))
    rate, off = _fraction("target", target), _fraction("deviation", deviation)
    below = round((rate - off) * people) if rate >= off else None
    return RateCounts(int(rate * people), round((rate + off) * people), below)


def switch_of_rate(mechanism: Mechanism, base: int, target: Rate, deviation: Rate) -> tuple[float, float]:
    """Probability that noise reverses the decision "the rate is at or below its target", at target + and - deviation.

    The released rate is at or below the target if the released count is at most floor(target base) or, with
    continuous noise, at most target base. For geometric noise this is Example 3 of Kazan's thesis. The second is NaN
    where target - deviation is negative.

    >>> above, below = switch_of_rate(mechanism_for("geometric", np.log(9.0)), 4012, "6/1000", "1/4000")
    >>> round(above, 12), round(below, 12)
    (0.1, 0.011111111111)
    """
    whole, above, below = rate_counts(base, target, deviation)
    threshold = float(_fraction("target", target) * base) if mechanism.is_continuous else whole
    over = misclassification_probability(mechanism, above, threshold)
    under = float("nan") if below is None else misclassification_probability(mechanism, below, threshold)
    return float(over), float(under)


def tradeoff_table(
    profiles: Mapping[str, RiskProfile],
    *,
    base: int,
    target: Rate,
    deviations: Iterable[Rate],
    noise: str = "geometric",
    statistic: str = "any",
    round_down: int | None = None,
    failure: float = DEFAULT_FAILURE,
    releases: int = 1,
) -> xr.Dataset:
    """Table of risk profiles: the epsilon that each allows, and the resulting accuracy of a count and its rate.

    Parameters
    ----------
    profiles : risk profiles by name
    base, target, deviations : of the rate, as in `rate_counts`
    noise : kind of `mechanism_for`. One release with geometric or Laplace noise has the recommended epsilon, rounded as
        requested; for Gaussian noise, and for several releases, it is the largest parameter that satisfies the profile
        except with probability `failure`
    statistic, round_down : as for `recommend_epsilon`
    failure : probability of a release beyond the profile
    releases : number of releases of the same data, together within the profile (`allocate`); accuracy is of one of them

    Returns
    -------
    Dataset of `epsilon`, `status`, `parameter`, `sd`, `rmse` and `prob_exact`, dims ("profile",); `switch`, dims
    ("profile", "deviation", "side"), side "above" or "below" the target; `true_count`, dims ("deviation", "side").
    If no epsilon above 0 satisfies the profile, noise and probabilities are NaN; if every epsilon does, those of no
    noise.
    """
    if not profiles or not isinstance(profiles, Mapping):
        raise TypeError(f"profiles must be a mapping of names to risk profiles, not empty, got {profiles!r}")
    unit, _ = NOISES[check_word("noise", noise, tuple(NOISES))]
    rates = [_fraction("deviation", deviation) for deviation in deviations]
    counts = [rate_counts(base, target, rate) for rate in rates]
    recommended = {
        name: recommend_epsilon(p, statistic=statistic, round_down=round_down) for name, p in profiles.items()
    }
    parameters = [
        one.epsilon
        if not one.epsilon > 0.0 or (unit == "epsilon" and releases == 1)
        else allocate(replace(one, loss=one.epsilon), noise, failure=failure, releases=releases).parameter
        for one in recommended.values()
    ]
    noises = [mechanism_for(noise, x) if x > 0.0 else None for x in parameters]
    ways = [[switch_of_rate(m, base, target, rate) if m else (np.nan,) * 2 for rate in rates] for m in noises]
    errors = [rmse(m) if m else np.nan for m in noises]
    table = xr.Dataset(
        {
            "epsilon": ("profile", [one.epsilon for one in recommended.values()]),
            "status": ("profile", [one.status for one in recommended.values()]),
            "parameter": ("profile", parameters),
            "sd": ("profile", errors),
            "rmse": ("profile", errors),
            "prob_exact": ("profile", [prob_exact(m) if m else np.nan for m in noises]),
            "switch": (("profile", "deviation", "side"), np.reshape(ways, (len(noises), len(rates), len(SIDES)))),
            "true_count": (
                ("deviation", "side"),
                [[np.nan if t is None else float(t) for t in (c.above, c.below)] for c in counts],
            ),
        },
        coords={"profile": list(profiles), "deviation": [float(rate) for rate in rates], "side": list(SIDES)},
        attrs={"noise": noise, "base": int(base), "target": float(_fraction("target", target)), "statistic": statistic},
    )
    table["parameter"].attrs["units"] = unit
    threshold = rate_counts(base, target, 0.0).threshold
    return table.assign_attrs(threshold=threshold, failure=float(failure), releases=int(releases))


def _simple(rate: float) -> Fraction:
    """The simple fraction that a float stands for, such as 1/3 for 0.3333333333333333; else its shortest decimal."""
    near = Fraction(rate).limit_denominator(_SIMPLE)
    return near if float(near) == rate else Fraction(repr(rate))


def _fraction(name: str, rate: Rate) -> Fraction:
    """A rate as a fraction; ValueError, naming the argument, if negative, and TypeError if it is not a number."""
    if isinstance(rate, bool) or not isinstance(rate, str | Fraction | float | int | np.floating | np.integer):
        raise TypeError(f'{name} must be a rate, such as 0.006 or "6/1000", got {rate!r}')
    try:
        exact = Fraction(rate) if isinstance(rate, str | Fraction) else _simple(float(rate))
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f'{name} must be a rate, such as 0.006 or "6/1000", got {rate!r}') from None
    if exact < 0:
        raise ValueError(f"{name} must be non-negative, got {rate}")
    return exact


def split_rho(
    data: Population | pd.DataFrame,
    tables: Mapping[str, Sequence[str]],
    profile: RiskProfile,
    *,
    weights: Mapping[str, float] | None = None,
    failure: float = DEFAULT_FAILURE,
    statistic: str = "any",
    releases: int = 1,
) -> xr.Dataset:
    """Split of rho between several tables with the smallest error, such that together they satisfy a risk profile.

    The error of a table is the standard deviation of its noise over its mean count. For a given total, the weighted sum
    of squared errors is smallest with rho proportional to sqrt(weight) / mean count (the variance is 1 / (2 rho)). The
    total is the largest with which the loss of all discrete Gaussian noise together satisfies the profile. Each rho is
    rounded down.

    Parameters
    ----------
    data : people by places and features, or a table as `audit_tables` takes it
    tables : columns of each table by its name; one person is in one cell of each
    profile : the tolerated risk, for every adversary whose beliefs about others do not depend on the person
    weights : of the tables, by name, > 0; 1 by default
    failure : tolerated probability of a release beyond the profile
    statistic : "any", or "count" if only one count is published
    releases : number of publications of the same people, each with this rho

    Returns
    -------
    Dataset, dim `table`: `rho`, `weight`, `mean_count`, `deviation` of the noise (people), `error` (deviation /
    mean count) and `even_error` (with the same total split evenly); `total`, the sum of rho; `loss` of all releases and
    `allowed`, the epsilon that the profile allows, nats

    Raises
    ------
    ValueError : no table, an unknown column, a table without people, a weight of an unknown table or not above 0, or a
        profile that no rho above 0 satisfies, or every rho

    >>> import pandas as pd
    >>> town = pd.DataFrame({"block": ["a", "b"], "tract": ["t", "t"], "people": [10, 30]})
    >>> split = split_rho(town, {"block": ["block"], "tract": ["tract"]}, RiskProfile.difference(0.2))
    >>> split["rho"].values.tolist(), bool(split["loss"] <= split["allowed"])
    ([0.009971, 0.004985], True)
    """
    check_mapping("tables", tables, "{'district: age': ['district', 'age']}")
    if not tables:
        raise ValueError("tables must be at least one, got none")
    # A placeholder: only the columns of the tables are used.
    noise = DiscreteGaussian(1.0)
    published = [PublishedTable(tuple(by), noise, name) for name, by in tables.items()]
    people = data if isinstance(data, Population) else population(data, published)
    counted = [people.table(one.by, one.name).answer(people.counts) for one in resolve_tables(published, people)]
    means = np.array([float(one.mean()) for one in counted])
    if not means.all():
        raise ValueError("the counts are all 0: no split has a smaller relative error than another")
    given = dict(weights or {})
    if unknown := [name for name in given if name not in tables]:
        raise ValueError(f"weights: no table {unknown[0]!r}; there are {', '.join(tables)}")
    weight = as_array(check_positive("weights", [float(given.get(name, 1.0)) for name in tables]))
    shares = np.sqrt(weight) / means
    shares = shares / shares.sum()
    recommended = recommend_epsilon(profile, statistic=statistic)
    if recommended.status != BOUNDED:
        raise ValueError(f"no rho is the largest: {recommended.words}")
    values = statistic == "any" and profile.about_values

    def loss(rho: Floats) -> float:
        noises = [DiscreteGaussian.from_rho(float(one)) for one in rho]
        *several, last = (Level(name, noise, 0) for name, noise in zip(tables, noises, strict=True))
        one, two = own_losses(Plan([*several, replace(last, siblings=None)]), statistic)
        both = None if two is None else releases * two
        return equivalent_epsilon(releases * one, failure, values=values, two=both)

    start = allocate(recommended, "zCDP", failure=failure, releases=releases).parameter
    total = largest(lambda x: loss(x * shares), recommended.loss, start, SPLIT_PRECISION) if start > 0.0 else 0.0
    rho = np.array([float(_DIGITS.create_decimal_from_float(one)) for one in total * shares])
    if not rho.all():
        raise ValueError(f"no rho above 0 keeps the profile with failure {failure:g}: {recommended.words}")
    deviation, even = (
        np.sqrt([DiscreteGaussian.from_rho(float(one)).variance for one in part])
        for part in (rho, np.full(rho.size, rho.sum() / rho.size))
    )
    columns = {"rho": rho, "weight": weight, "mean_count": means, "deviation": deviation, "error": deviation / means}
    columns["even_error"] = even / means
    whole = {"total": rho.sum(), "loss": loss(rho), "allowed": recommended.loss}
    return xr.Dataset({k: ("table", v) for k, v in columns.items()} | whole, {"table": list(tables)})
