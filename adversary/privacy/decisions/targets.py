"""Largest epsilon under which every adversary stays below a target, and lower bounds on epsilon from attacks.

A target caps a point of the precision-recall plane, an F-score or a posterior. The result is the largest parameter of a
noise family whose best test stays within the target. Families are "laplace" (epsilon), "any" mechanism that is
epsilon-DP or (epsilon, delta)-DP, and "gaussian", with a mu as its parameter because its epsilon depends on delta.
Table 1 of Liu, He, Chanyaswad, Wang and Mittal (2019) holds for Laplace noise; for other noise its epsilons are unsafe.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from adversary._core import (
    DEFAULT_FAILURE,
    Floats,
    align_arguments,
    as_array,
    broadcast_arguments,
    check_non_negative,
    check_number,
    check_probability,
    check_whole,
    has_labels,
    one_number,
)
from adversary.privacy.decisions.auxiliary import prior_odds
from adversary.privacy.decisions.calibration import SLACK, NoiseFamily, noise_family
from adversary.privacy.guarantee import Guarantee

# Status of a lower bound of 0 from an attack with reversed decisions: "in" is more frequent if the target is out.
REVERSED = "reversed: they separate the other way round"


class Target(float):
    """Noise parameter that meets a target: an epsilon in nats, or a mu of Gaussian noise; NaN if unattainable.

    Parameters
    ----------
    value : the parameter
    status : "attained": `value` is the largest parameter that meets the target; "unattainable": no parameter does, not
        even 0; "unconstrained": every parameter does, and `value` is infinite, or a lower bound of 0; `REVERSED`: a
        lower bound of 0 that would be positive if the attack's decisions were exchanged
    guarantee : with this parameter; None if the parameter is NaN or infinite
    unit : "epsilon" or "mu"; `target.guarantee.epsilon(delta)` and `.delta(epsilon)` convert a mu exactly
    """

    status: str
    guarantee: Guarantee | None
    unit: str

    def __new__(
        cls, value: float, status: str = "attained", guarantee: Guarantee | None = None, unit: str = "epsilon"
    ) -> Target:
        """A float with `status`, `guarantee` and `unit`."""
        target = super().__new__(cls, value)
        target.status, target.guarantee, target.unit = status, guarantee, unit
        return target

    @property
    def epsilon(self) -> float:
        """The number itself; refused for a mu, because Gaussian noise has an epsilon for each delta."""
        if self.unit != "epsilon":
            raise ValueError("epsilon must be queried of Gaussian noise at a delta, as target.guarantee.epsilon(delta)")
        return float(self)

    def __repr__(self) -> str:
        return f"<{self.unit} {float(self):.6g}, {self.status}>"


def epsilon_from_f_score(
    f: Any,
    beta: ArrayLike = 1.0,
    prior: ArrayLike = 0.5,
    mechanism: str = "laplace",
    allow_floor: bool = False,
    *,
    delta: float = 0.0,
) -> Any:
    """Largest epsilon at which no adversary's F_beta score exceeds f.

    Always deciding "in" scores (1 + beta^2) / (1 + beta^2 + r) for any release, so a target below that floor is
    unattainable. With the odds o = f / ((1 + beta^2)(1 - f)) and r = (1 - prior) / prior, epsilon is
    log(r o (1 + beta^2 o)) for Laplace noise and log(o (r + beta^2)) for any epsilon-DP mechanism.

    Parameters
    ----------
    f : target F-score, in [0, 1]
    beta : weight of recall relative to precision, >= 0
    prior : P(in), in [0, 1]; `f`, `beta` and `prior` are numbers, vectors (a dimension with the argument's name) or
        DataArrays
    mechanism : "laplace", "any" or "gaussian" (a mu)
    allow_floor : raise a target below the floor to the floor, at which epsilon is log(1 + beta^2 / r)
    delta : in [0, 1), above 0 for "any" only: the mechanism is (epsilon, delta)-DP, and the floor is higher

    Returns
    -------
    Target for numbers, in nats (a mu for Gaussian noise); otherwise a Dataset of the parameter and its `status`.

    Raises
    ------
    ValueError : an argument out of range, an unknown mechanism, or a delta above 0 for a mechanism other than "any"

    References: Liu et al. 2019, Table 1 and Equations 12, 18, 21, 24.

    >>> epsilon_from_f_score(0.9, beta=1.0), epsilon_from_f_score(0.55, beta=0.5)
    (<epsilon 3.20883, attained>, <epsilon nan, unattainable>)
    """
    family = noise_family(mechanism, delta)

    def rule(f: Floats, beta: Floats, prior: Floats) -> tuple[Floats, Any, Any]:
        f, prior = check_probability("f", f), check_probability("prior", prior)
        b2, r = check_non_negative("beta", beta) ** 2, as_array(prior_odds(prior))
        odds, floor = f / ((1.0 + b2) * (1.0 - f)), family.floor_odds(r, b2)
        possible = (odds >= floor * (1.0 - SLACK)) | allow_floor
        return family.from_odds(np.maximum(odds, floor), r, b2), possible, (f == 1.0) | (prior == 0.0)

    return _answer(family, rule, f=f, beta=beta, prior=prior)


def epsilon_from_point(
    precision: ArrayLike, recall: ArrayLike, prior: ArrayLike = 0.5, mechanism: str = "laplace", *, delta: float = 0.0
) -> Any:
    """Largest epsilon at which no test with this recall exceeds this precision.

    The point is the level a = recall (1 - precision) / (r precision) at power `recall`; the result is the smallest
    epsilon whose trade-off passes through it. A precision below the prior is unattainable. At recall 1 the precision
    equals the prior for every epsilon. As recall tends to 0 the target becomes the cap of `epsilon_from_posterior`.

    Parameters
    ----------
    precision, recall, prior : in [0, 1]; numbers, for a Target; vectors (a dimension with the argument's name) or
        DataArrays, for a Dataset
    mechanism : "laplace", "any" or "gaussian" (a mu)
    delta : in [0, 1), above 0 for "any" only: the mechanism is (epsilon, delta)-DP

    Returns
    -------
    Target in nats (a mu for Gaussian noise), or a Dataset of the parameter and its `status`.

    Raises
    ------
    ValueError : an argument out of range, an unknown mechanism, or a delta above 0 for a mechanism other than "any"

    >>> epsilon_from_point(0.9, 0.9, 0.5, "laplace"), epsilon_from_point(0.9, 0.9, 0.5, "any")
    (<epsilon 3.21888, attained>, <epsilon 2.19722, attained>)
    """
    family = noise_family(mechanism, delta)

    def rule(precision: Floats, recall: Floats, prior: Floats) -> tuple[Floats, Any, Any]:
        level, power, r = _levels(precision, recall, prior)
        cap, capped = family.capped(as_array(precision), r)
        reached = level <= np.maximum(power - family.delta, 0.0) * (1.0 + SLACK)
        epsilon, possible = np.where(power > 0, family.through(level, power), cap), np.where(power > 0, reached, capped)
        return epsilon, possible, (precision == 1.0) | (prior == 0.0) | (power == 1.0) & reached

    return _answer(family, rule, precision=precision, recall=recall, prior=prior)


def epsilon_from_posterior(cap: Any, prior: ArrayLike = 0.5, mechanism: str = "laplace", *, delta: float = 0.0) -> Any:
    """Largest epsilon at which no release raises the posterior above the cap: logit(cap) - logit(prior).

    Gaussian noise and every delta above 0 allow arbitrarily high posteriors: mu is 0, or the target is unattainable.

    Parameters
    ----------
    cap, prior : probabilities; numbers, for a Target; vectors (a dimension with the argument's name) or DataArrays, for
        a Dataset
    mechanism, delta : as in `epsilon_from_point`

    Returns
    -------
    Target or Dataset, as from `epsilon_from_point`.

    >>> epsilon_from_posterior(0.75, 0.5)
    <epsilon 1.09861, attained>
    """
    family = noise_family(mechanism, delta)

    def rule(cap: Floats, prior: Floats) -> tuple[Floats, Any, Any]:
        epsilon, possible = family.capped(check_probability("cap", cap), as_array(prior_odds(prior)))
        return epsilon, possible, (cap == 1.0) | (prior == 0.0)

    return _answer(family, rule, cap=cap, prior=prior)


def epsilon_lower_bound(
    precision: ArrayLike, recall: ArrayLike, prior: ArrayLike = 0.5, delta: float = 0.0, mechanism: str = "any"
) -> Target:
    """Lower bound on a mechanism's epsilon from the precision and recall of an attack on it.

    The attack at each point requires the epsilon whose best test passes through the point; the result is the largest
    over the points. Rates are treated as exact; use `epsilon_lower_bound_from_counts` for estimated rates.

    Parameters
    ----------
    precision, recall : of the attack, in [0, 1]; one point or arrays that broadcast
    prior : P(in) among the attack's trials, in [0, 1]
    delta : in [0, 1), above 0 for "any" only
    mechanism : "any", "laplace" or "gaussian" (a mu)

    Returns
    -------
    Target, "attained"; or 0, "unconstrained", if no point is better than guessing.

    Raises
    ------
    ValueError : an argument out of range, an unknown mechanism, or a delta above 0 for a mechanism other than "any"

    References: Liu et al. 2019, section 5.3.1, sharpened.

    >>> epsilon_lower_bound(0.9, 0.5)
    <epsilon 2.19722, attained>
    """
    points = broadcast_arguments({"precision": precision, "recall": recall, "prior": prior})
    level, power, _ = np.broadcast_arrays(*_levels(**points))
    return _bound(noise_family(mechanism, delta), level, power)


def epsilon_lower_bound_from_counts(
    hits: ArrayLike,
    positives: int,
    false_alarms: ArrayLike,
    negatives: int,
    *,
    failure: float = DEFAULT_FAILURE,
    delta: float = 0.0,
    mechanism: str = "any",
) -> Target:
    """Lower confidence bound on epsilon from the counts of an attack, with failure probability `failure`.

    Recall is replaced by its lower and the level by its upper Clopper-Pearson limit. The failure probability is divided
    equally between both and among the points (Bonferroni), which must be chosen before seeing the counts.

    Parameters
    ----------
    hits : trials decided "in" of those with the target in; one count, or one per point
    positives : number of trials with the target in, >= 1
    false_alarms : trials decided "in" of those with the target out; one count, or one per point
    negatives : number of trials with the target out, >= 1
    failure : probability that the bound is too high, in [0, 1]
    delta, mechanism : as in `epsilon_lower_bound`

    Returns
    -------
    Target, "attained"; 0, "unconstrained", if the counts imply no positive bound; 0, `REVERSED`, with a UserWarning, if
    they imply one only with "in" and "out" exchanged.

    Raises
    ------
    ValueError : more hits than trials, an argument out of range, or an unknown mechanism

    >>> epsilon_lower_bound_from_counts(90, 100, 10, 100)
    <epsilon 1.54215, attained>
    """
    points = broadcast_arguments({"hits": hits, "false_alarms": false_alarms})
    one_number("positives", positives), one_number("negatives", negatives)
    lower_bound, exchanged = _both_ways(**points, positives=positives, negatives=negatives, failure=failure,
                                  family=noise_family(mechanism, delta))  # fmt: skip
    return _or_reversed(
        lower_bound, exchanged, 'the attack says "in" more often where the target is out: exchange its answers'
    )


def epsilon_lower_bound_from_scores(
    present: ArrayLike, out: Any, failure: float = DEFAULT_FAILURE, delta: float = 0.0, mechanism: str = "any"
) -> Target:
    """Lower confidence bound on epsilon from an attack's scores, at the best of several thresholds.

    Thresholds are the scores of ranks 1, 2, 4, ... from the top among trials with the target out. The probability that
    a score exceeds that of rank k has the beta distribution of the Clopper-Pearson limit for k - 1 false alarms, for
    any distribution of the scores. Detections are counted in other trials. Bonferroni's correction covers both rates
    and all ranks.

    Parameters
    ----------
    present : scores of trials with the target in, (trial,); larger scores indicate "in"
    out : scores of independent trials with the target out, (trial,)
    failure : probability that the bound is too high, in [0, 1]
    delta, mechanism : as in `epsilon_lower_bound`

    Returns
    -------
    Target, "attained"; 0, "unconstrained", if the scores imply no positive bound; 0, `REVERSED`, with a UserWarning, if
    they imply one only with the opposite sign.

    Raises
    ------
    ValueError : scores that are not numbers, no scores, an argument out of range, or an unknown mechanism

    References: Jagielski, Ullman and Oprea 2020, section 3; David and Nagaraja 2003, section 2.3 (order statistics).

    >>> epsilon_lower_bound_from_scores(range(40, 140), range(100))
    <epsilon 1.59995, attained>
    """
    scores = [np.sort(np.ravel(check_number(name, x))) for name, x in (("present", present), ("out", out))]
    if not scores[0].size or not scores[1].size:
        raise ValueError(f"present and out must hold a score each, got {scores[0].size} and {scores[1].size}")

    family = noise_family(mechanism, delta)

    def bound(present: Floats, out: Floats) -> Target:
        rank = 2 ** np.arange(int(out.size).bit_length())
        rank = rank[rank <= out.size]
        hits = present.size - np.searchsorted(present, out[-rank], side="right")
        return _both_ways(hits, present.size, rank - 1, out.size, failure, family)[0]

    turned = bound(*(-one[::-1] for one in scores))
    return _or_reversed(bound(*scores), turned, "scores are larger where the target is out: turn their sign")


def confidence_limits(successes: Any, trials: Any, failure: float) -> tuple[Floats, Floats]:
    """Clopper-Pearson limits (lower, upper) of a probability, each with failure probability `failure`."""
    k, n = check_whole("successes", successes, minimum=0), check_whole("trials", trials, minimum=1)
    if (k > n).any():
        raise ValueError(f"successes must be at most trials, got {k.max()} of {n.max()}")
    check_probability("failure", failure)
    lower = np.where(k == 0, 0.0, betaincinv(np.maximum(k, 1), n - k + 1.0, failure))
    return lower, np.where(k == n, 1.0, betainccinv(k + 1.0, np.maximum(n - k, 1), failure))


def _levels(precision: Any, recall: Any, prior: Any) -> tuple[Floats, Floats, Floats]:
    """(level, power, prior odds) of points of the precision-recall plane; the precision is ignored at power 0."""
    power, r = check_probability("recall", recall), as_array(prior_odds(as_array(prior)))
    p = check_probability("precision", np.where(power > 0.0, as_array(precision), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        level = np.where(p == 1.0, 0.0, power * (1.0 - p) / (r * p))
    return level, power, r


def _bound(family: NoiseFamily, level: Floats, power: Floats) -> Target:
    """Lower bound on the parameter: the largest over the points."""
    with np.errstate(divide="ignore", invalid="ignore"):
        epsilon = np.where(power > np.minimum(level, 1.0), family.through(level, power), 0.0)
    largest = float(np.max(epsilon, initial=0.0))
    status = "attained" if largest > 0.0 else "unconstrained"
    return Target(largest, status, family.guarantee_at(largest), family.unit)


def _both_ways(
    hits: Any, positives: int, false_alarms: Any, negatives: int, failure: float, family: NoiseFamily
) -> tuple[Target, Target]:
    """Lower bounds from counts: of the attack as given, and with "in" and "out" exchanged."""
    share = float(check_probability("failure", failure)) / (2.0 * max(np.size(hits), np.size(false_alarms)))
    power, level = confidence_limits(hits, positives, share), confidence_limits(false_alarms, negatives, share)
    forward = _bound(family, *np.broadcast_arrays(level[1], power[0]))
    return forward, _bound(family, *np.broadcast_arrays(1.0 - level[0], 1.0 - power[1]))


def _or_reversed(lower_bound: Target, turned: Target, remedy: str) -> Target:
    """The bound; if it is 0 and that of the reversed attack is positive, with status `REVERSED` and a warning."""
    if lower_bound > 0.0 or turned == 0.0:
        return lower_bound
    warnings.warn(f"the lower bound is 0, but {REVERSED.partition(': ')[2]}: {remedy}", stacklevel=3)
    return Target(lower_bound, REVERSED, lower_bound.guarantee, lower_bound.unit)


def _answer(family: NoiseFamily, rule: Callable[..., Any], **arguments: Any) -> Any:
    """Target for scalars, Dataset otherwise, of rule(arrays) = (parameter, attainable, unconstrained)."""
    labelled = align_arguments({name: as_labelled(name, x) for name, x in arguments.items()})
    given = xr.broadcast(*labelled.values())
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        epsilon, possible, free = xr.apply_ufunc(rule, *given, output_core_dims=[[], [], []])
    value = np.maximum(epsilon, 0.0).where(possible).where(~free, np.inf)
    status = xr.full_like(value, "attained", dtype="U13")
    status = status.where(~np.isinf(value), "unconstrained").where(~np.isnan(value), "unattainable")
    if value.ndim:
        return xr.Dataset({family.unit: value, "status": status})
    return Target(float(value), str(status.values), family.guarantee_at(float(value)), family.unit)


def as_labelled(name: str, x: Any) -> xr.DataArray:
    """DataArray of an argument: a vector gets the argument's name as its dimension; a DataArray is unchanged."""
    x = align_arguments({name: x})[name]
    if has_labels(x):
        return x  # type: ignore[no-any-return]
    values = check_non_negative(name, x)
    if values.ndim > 1:
        raise ValueError(f"{name} must be a number, a vector or a DataArray, got {values.ndim} dimensions")
    return xr.DataArray(values, dims=[name] * values.ndim, coords={name: values} if values.ndim else None)
