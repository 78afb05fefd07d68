"""Risk profiles converted to guarantees of other definitions, several releases, and a failure probability.

The result is the largest parameter of each release such that the `equivalent_epsilon` of all releases is at most the
profile's epsilon; for one release under pure DP it is that epsilon. Kazan et al. 2025, section 4.3, treat several
releases under (epsilon, delta)-DP.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import xarray as xr

from adversary._core import (
    DEFAULT_FAILURE,
    blocks,
    check_number,
    check_positive,
    check_probability,
    check_whole,
    failure_of,
    format_bound,
)
from adversary.budget.forms import COMPOSED, COMPOSITIONS, DEFINITIONS, NOISES, Form
from adversary.budget.recommend import (
    BOUNDED,
    UNATTAINABLE,
    UNCONSTRAINED,
    Recommendation,
    recommend_epsilon,
    rounded_down,
)
from adversary.budget.risk_profile import RiskProfile
from adversary.privacy import Guarantee
from adversary.privacy.losses import sampled_loss
from adversary.privacy.mechanisms import Gaussian

FORMS = (
    ("pure DP", "basic"),
    ("pure DP", "exact"),
    *(("approximate DP", composition) for composition in COMPOSITIONS),
    *((name, "exact") for name in (*DEFINITIONS, *NOISES) if name not in COMPOSED),
)
"""(definition or noise, composition) of every row of a `budget_table`."""

# Noise with slow sums, and a similar noise with fast ones whose solution starts the search.
SIMILAR = {"laplace": "geometric", "discrete gaussian": "gaussian"}

LEAST = 1e-50
"""Smallest epsilon that is converted: rho is of the order of its square, which would underflow."""


@dataclass(frozen=True)
class ReleaseBudget:
    """The largest parameter of a definition, or of a noise, with which several releases satisfy a risk profile.

    Parameters
    ----------
    parameter : of each release, in its `unit`: "epsilon", "rho" or "mu"; infinite where unconstrained; 0 or NaN where
        unattainable (with 0, releasing nothing would do)
    guarantee, total, two : of one release, of all, and of all for hypotheses two records apart (None: `total.group(2)`,
        or inclusion alone in question); all None without a positive, finite parameter
    failure : probability, under every truth, of a release beyond the profile
    delta, delta_each : of the total (epsilon, delta) of approximate DP, and of one release
    status : "bounded", "unattainable" or "unconstrained", as of a `Recommendation`
    recommended : what it is to keep
    """

    parameter: float
    unit: str
    definition: str
    guarantee: Guarantee | None = field(repr=False)
    total: Guarantee | None = field(repr=False)
    releases: int
    composition: str
    failure: float
    delta: float
    status: str
    delta_each: float
    two: Guarantee | None = field(repr=False)
    recommended: Recommendation = field(repr=False)

    @property
    def words(self) -> str:
        """The guarantee in one sentence, with its parameter rounded down."""
        profile = self.recommended.profile.words
        chance = failure_of(self.failure)
        each = "" if self.releases == 1 else f" in each of {self.releases} releases ({self.composition} composition)"
        if self.status == UNCONSTRAINED:
            return f"Every {self.unit} of {self.definition} keeps this profile ({profile})."
        if self.status == UNATTAINABLE:
            return f"No {self.unit} of {self.definition} above 0{each} keeps this profile {chance} ({profile})."
        if self.parameter == 0.0:
            return f"The {self.unit} of {self.definition}{each} that keeps it {chance} rounds to 0 ({profile})."
        delta = f" and delta = {self.delta_each:.6g}" if self.delta_each else ""
        return (
            f"{self.unit} = {format_bound(self.parameter, False)}{delta} of {self.definition}{each} is the largest "
            "that "
            f"keeps this profile {chance} ({profile})."
        )


def allocate(
    recommended: Recommendation | RiskProfile,
    definition: str = "pure DP",
    *,
    failure: float = 0.0,
    delta: float = 0.0,
    releases: int = 1,
    composition: str = "exact",
    delta_each: float = 0.0,
    round_down: int | None = None,
) -> ReleaseBudget:
    """The largest guarantee of each of several releases of the same data that together satisfy a risk profile.

    Adversaries are those of `relative_risk_bound`: their belief about everybody else does not depend on the target. The
    result is the largest parameter whose `equivalent_epsilon` is at most `recommended.loss`, on the safe side to a
    relative 1e-11 (1e-8 for sums of Laplace or discrete Gaussian noise).

    Parameters
    ----------
    recommended : a Recommendation, or a RiskProfile (for `statistic` "any")
    definition : "pure DP", "approximate DP", "zCDP", "Gaussian DP"; or noise added to counts, judged by its own exact
        loss: "geometric", "laplace", "discrete gaussian", "gaussian" (a person moves one count by 1, and two people, or
        one in another place, two counts)
    failure : tolerated probability of a release beyond the profile; at 0 only pure DP, and its noises, satisfy one
    releases : number of releases
    composition : "exact", with the failure that of the distribution of all releases; of pure and approximate DP also
        "basic", "advanced", "lattice" and "optimal", published ones through a total (epsilon, delta)
    delta, delta_each : of that total, and of one release of approximate DP; in "basic" and "exact" composition
        delta_each is delta / releases where it is 0
    round_down : decimals to keep of the parameter; unrounded where None

    >>> budget = allocate(RiskProfile.difference(0.2), "zCDP", failure=0.05, releases=12, round_down=4)
    >>> budget.parameter, budget.total
    (0.0009, ZeroConcentratedDP(rho=0.0108))
    """
    recommendation = _recommended(recommended)
    form = Form(definition, composition, releases, delta, delta_each)
    chance = float(check_probability("failure", failure))
    decimals = None if round_down is None else int(check_whole("round_down", round_down, minimum=0))
    values = recommendation.statistic == "any" and recommendation.profile.about_values
    parameter = _largest_of(form, recommendation, chance, values)
    status = BOUNDED if 0.0 < parameter < np.inf else UNCONSTRAINED if parameter == np.inf else UNATTAINABLE
    if status == BOUNDED and decimals is not None:
        parameter = rounded_down(parameter, decimals)
    one, total, two = (None,) * 3
    if 0.0 < parameter < np.inf:
        one, total, two = form.guarantees(parameter, values=values)
    return ReleaseBudget(
        parameter, form.unit, form.definition, one, total, form.releases, form.composition, chance, form.delta, status,
        form.delta_each, two, recommendation,
    )  # fmt: skip


def _recommended(given: Recommendation | RiskProfile) -> Recommendation:
    return given if isinstance(given, Recommendation) else recommend_epsilon(given)


def _largest_of(form: Form, recommendation: Recommendation, failure: float, values: bool) -> float:
    """Largest parameter of a form that satisfies a recommendation; infinite if all do, 0 or NaN if none above 0."""
    if recommendation.status != BOUNDED:
        return recommendation.loss
    if failure == 1.0:
        return float("inf")
    if recommendation.loss < LEAST and form.definition != "pure DP":
        return 0.0
    start = form.guess(recommendation.loss)
    if form.releases > 1 and form.definition in SIMILAR:
        start = _largest_of(replace(form, definition=SIMILAR[form.definition]), recommendation, failure, False) or start
    precision = 1e-8 if form.releases > 1 and form.definition in SIMILAR else 1e-11
    parameter = largest(lambda x: form.equivalent(x, failure, False), recommendation.loss, start, precision)
    if values and parameter > 0.0 and form.equivalent(parameter, failure, True) > recommendation.loss:
        parameter = largest(lambda x: form.equivalent(x, failure, True), recommendation.loss, parameter, precision)
    if parameter > 0.0 or form.definition in NOISES:
        return parameter
    return 0.0 if form.equivalent(0.0, failure, values) <= recommendation.loss else float("nan")


def largest(function: Callable[[float], float], limit: float, start: float, precision: float = 1e-11) -> float:
    """Largest x > 0 with function(x) <= limit, for an increasing function: 0.0 if there is none.

    Brent's method in log x, to this precision. The result is the largest evaluated x within the limit.
    """
    from scipy.optimize import brentq

    safe = 0.0

    def excess(log_x: float) -> float:
        nonlocal safe
        x = float(np.exp(log_x))
        value = function(x)
        safe = max(safe, x) if value <= limit else safe
        return float(np.log(np.clip(value / limit, 1e-3, 1e3)))

    here = middle = float(np.log(start))
    first = excess(here)
    step = -2.2 * first if first else -1e-9
    while True:
        there = here + step
        second = excess(there)
        if first * second <= 0.0:
            break
        if not -60.0 < there - middle < 60.0:
            return 0.0 if first > 0.0 else float("inf")
        here, first, step = there, second, 2.0 * step
    brentq(excess, here, there, xtol=precision)
    return safe


def budget_table(
    recommended: Recommendation | RiskProfile,
    releases: int = 1,
    *,
    failure: float = DEFAULT_FAILURE,
    delta: float = 1e-6,
    delta_each: float = 0.0,
    forms: Sequence[tuple[str, str]] = FORMS,
    progress: bool = False,
) -> xr.Dataset:
    """Table of `allocate` for every definition, noise and composition.

    Parameters
    ----------
    recommended, releases, failure, delta, delta_each : as for `allocate`
    forms : (definition or noise, composition) of every row
    progress : show a bar

    Returns
    -------
    Dataset of `parameter`, `unit`, `status`, `definition` and `composition`, dims ("form",)
    """
    recommendation = _recommended(recommended)
    rows = [
        allocate(
            recommendation, name, failure=failure, delta=delta, releases=releases, composition=how,
            delta_each=delta_each if name == "approximate DP" else 0.0,
        )
        for name, how in blocks.track(forms, "release budgets", enabled=progress)
    ]  # fmt: skip
    names = ("parameter", "unit", "status", "definition", "composition")
    table = xr.Dataset({name: ("form", np.array([getattr(row, name) for row in rows])) for name in names})
    table["parameter"].attrs["long_name"] = "parameter of each release"
    labels = [f"{name}, {how}" if name in COMPOSED else name for name, how in forms]
    settings = {"releases": releases, "failure": failure, "delta": delta, "delta_each": delta_each}
    return table.assign_coords(form=labels).assign_attrs(
        settings, epsilon=recommendation.loss, profile=recommendation.profile.words
    )


def release_curve(
    recommended: Recommendation | RiskProfile,
    releases: Sequence[int] = tuple(range(1, 13)),
    definition: str = "approximate DP",
    *,
    compositions: Sequence[str] | None = None,
    failure: float = DEFAULT_FAILURE,
    delta: float = 1e-6,
    delta_each: float = 0.0,
    progress: bool = False,
) -> xr.Dataset:
    """The parameter of each release from `allocate`, as a function of the number of releases.

    Parameters
    ----------
    recommended, definition, failure, delta, delta_each : as for `allocate`
    releases : numbers of releases
    compositions : every one the definition has, where None
    progress : show a bar

    Returns
    -------
    Dataset of `parameter` and `status`, dims ("composition", "releases")
    """
    recommendation = _recommended(recommended)
    ways = compositions or (COMPOSITIONS if definition in COMPOSED else ("exact",))
    cells = [
        allocate(
            recommendation, definition, failure=failure, delta=delta, releases=n, composition=how, delta_each=delta_each
        )
        for how, n in blocks.track(list(product(ways, releases)), "release budgets", enabled=progress)
    ]  # fmt: skip
    shape, dims = (len(ways), len(releases)), ("composition", "releases")
    curve = xr.Dataset(
        {
            name: (dims, np.array([getattr(cell, name) for cell in cells]).reshape(shape))
            for name in ("parameter", "status")
        },
        {"composition": list(ways), "releases": list(releases)},
    )
    curve["parameter"].attrs.update(long_name=f"{cells[0].unit} of each release", units=cells[0].unit)
    return curve.assign_attrs(definition=definition, failure=failure, delta=delta, delta_each=delta_each)


def releases_until(
    guarantee: Guarantee, measure: Callable[[Guarantee], float], limit: float, *, most: int = 2**20
) -> float:
    """The smallest number of releases with the same guarantee that together exceed a limit.

    Parameters
    ----------
    guarantee : of one release, or its privacy loss
    measure : the limited function of the joint guarantee, increasing in the number of releases: `lambda g:
        g.epsilon(1e-6)`, `lambda g: g.power(0.05)`, `lambda g: g.posterior_bounds(0.1)[1]`
    limit : the largest tolerated value
    most : largest number of releases that is tried

    Returns
    -------
    The smallest n with measure(n * guarantee) > limit; inf if `most` releases do not exceed it

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> releases_until(ZeroConcentratedDP(0.01), lambda g: g.epsilon(1e-6), 1.0)
    3
    """
    check_number("limit", limit)
    first = first_beyond(lambda n: measure(n * guarantee) <= limit, most)
    return np.inf if first is None else first


def first_beyond(within: Callable[[int], bool], most: int) -> int | None:
    """The smallest number of releases that exceeds a limit.

    Parameters
    ----------
    within : function of a number, True if that many releases are within the limit; once False, False for all larger
    most : largest number that is tried, >= 1

    Returns
    -------
    The smallest n >= 1 with `within(n)` False; None if `within(most)` is True

    >>> first_beyond(lambda n: n * n <= 50, 100)
    8
    """
    low, high, last = 0, 1, int(check_whole("most", most, minimum=1))
    while within(high):
        if high >= last:
            return None
        low, high = high, min(2 * high, last)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return high


def largest_each(
    family: Callable[[float], Guarantee],
    releases: int,
    measure: Callable[[Guarantee], float],
    limit: float,
    *,
    start: float = 0.1,
) -> float:
    """The inverse of composition: the largest parameter of each of several releases that together stay within a limit.

    Parameters
    ----------
    family : the guarantee of one release, or its privacy loss, of its parameter: `ZeroConcentratedDP`,
        `lambda x: ApproximateDP(x, 1e-8)`, `lambda s: Laplace(1 / s).privacy_loss()`; weaker for larger parameters
    releases : number of releases
    measure : the limited function of the joint guarantee: `lambda g: g.epsilon(1e-6)`
    limit : the largest tolerated value, > 0
    start : first parameter of the search

    Returns
    -------
    The parameter, on the safe side to a relative 1e-11; 0 if none stays within the limit, inf if all do

    >>> from adversary.privacy.definitions import PureDP
    >>> round(largest_each(PureDP, 10, lambda g: g.epsilon(0.0), 1.0), 9)
    0.1
    """
    count = int(check_whole("releases", releases, minimum=1))
    check_number("limit", limit)
    return largest(lambda x: measure(count * family(x)), limit, start)


def noise_multiplier(epsilon: float, delta: float, releases: int = 1, rate: float = 1.0) -> float:
    """Smallest sigma / sensitivity of Gaussian noise for (epsilon, delta)-DP of all releases on Poisson samples.

    Parameters
    ----------
    epsilon, delta : of all releases together, in both directions
    releases, rate : number of releases, and the probability in (0, 1] that each samples a record

    Returns
    -------
    Noise multiplier, > 0

    >>> round(noise_multiplier(2.0, 1e-5, releases=10, rate=0.01), 3)
    0.647
    """
    check_positive("epsilon", epsilon)
    check_positive("delta", check_probability("delta", delta))
    family = lambda x: sampled_loss(Gaussian(1.0 / x).privacy_loss(), rate)  # noqa: E731
    return 1.0 / largest_each(family, releases, lambda g: g.epsilon(delta), epsilon, start=1.0)
