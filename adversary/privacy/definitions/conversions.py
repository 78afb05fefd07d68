"""Published conversions between privacy definitions, as functions of numbers.

Each is a formula of a paper under its usual name. Guarantees use a sharper rule where one exists; these serve
comparison. Sources: Kazan et al. 2025, "Interpreting differential privacy in terms of disclosure risk" (theorems
numbered as in Chapter 5 of Kazan's thesis); Kifer et al. 2022, "Bayesian and frequentist semantics for common
variations of differential privacy".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri

from adversary._core import (
    Floats,
    check_non_negative,
    check_probability,
    posterior_ratio,
    scalar_or_array,
)


def pure_mu(epsilon: float) -> float:
    """The Gaussian DP parameter that pure epsilon-DP implies: mu = -2 Phi^-1(1 / (1 + e^epsilon)).

    Parameters
    ----------
    epsilon : nats, >= 0

    Returns
    -------
    mu, >= 0.

    References: Dong, Roth and Su 2022. Both trade-offs meet the diagonal at 1 / (1 + e^epsilon), and that of pure DP is
    linear up to there.

    >>> round(pure_mu(1.0), 6)
    1.232035
    """
    return -2.0 * float(ndtri(expit(-float(check_non_negative("epsilon", epsilon)))))


def mu_of_rho(rho: float) -> float:
    """The Gaussian DP parameter of Gaussian noise with zCDP parameter rho: mu = sqrt(2 rho).

    Parameters
    ----------
    rho : nats, >= 0; large values do not overflow

    >>> mu_of_rho(0.5), round(mu_of_rho(1e308) / 1e154, 12)
    (1.0, 1.414213562373)
    """
    check_non_negative("rho", rho)
    return float(np.sqrt(2.0 * rho) if rho < 1e307 else 2.0 * np.sqrt(0.5 * rho))


# Power and level under (epsilon, delta)-DP


def power_bounds(epsilon: float, delta: float, level: ArrayLike) -> tuple[Any, Any]:
    """Lower and upper bound on the power of a test of exactly this level under (epsilon, delta)-DP.

    upper = min(e^epsilon a + delta, 1 - e^-epsilon (1 - a - delta)) and lower(a) = 1 - upper(1 - a).
    Lower is clipped to [0, a], upper to [a, 1].

    Parameters
    ----------
    epsilon : nats, >= 0
    delta : in [0, 1]
    level : a = P(reject | Q), in [0, 1]; a number or an array

    Returns
    -------
    (lower, upper), each of the shape of `level`.

    Raises
    ------
    ValueError : an argument out of range

    References: Kifer et al. 2022, Theorem 6.2; Theorem 6.1 at delta 0.

    >>> [round(float(side), 6) for side in power_bounds(1.0, 0.01, 0.05)]
    [0.014715, 0.145914]
    """
    e, d = float(check_non_negative("epsilon", epsilon)), float(check_probability("delta", delta))
    a = check_probability("level", level)
    with np.errstate(divide="ignore"):
        rise, fall = np.minimum(np.log(a) + e, 0.0), np.minimum(np.log1p(-a) + e, 0.0)
    upper = np.minimum(np.exp(rise) + d, -np.expm1(-e) + np.exp(-e) * (a + d))
    lower = np.maximum(-np.expm1(fall) - d, np.exp(-e) * (a - d))
    return scalar_or_array(np.clip(lower, 0.0, a)), scalar_or_array(np.clip(upper, a, 1.0))


# Approximate and probabilistic DP


def probabilistic_epsilon(epsilon: ArrayLike, delta: ArrayLike, failure: ArrayLike) -> Any:
    """Smallest e' for which (epsilon, delta)-DP implies (e', failure)-probabilistic DP, for failure > delta.

    e' = epsilon + log1p(delta (1 + e^-epsilon) / (failure - delta)); at delta 0 it is epsilon.

    Parameters
    ----------
    epsilon : nats, >= 0
    delta : in [0, 1)
    failure : probability of |L| > e', in [0, 1]; all three are numbers or arrays that broadcast

    Returns
    -------
    e' in nats, of the broadcast shape.

    Raises
    ------
    ValueError : failure <= delta where delta > 0, or an argument out of range

    References: Kazan's thesis, Theorem 35.

    >>> round(probabilistic_epsilon(1.0, 1e-6, 1e-4), 6)
    1.013722
    """
    e, d = check_non_negative("epsilon", epsilon), check_delta("delta", delta)
    f = check_probability("failure", failure)
    room = f - d
    if (refused := (d > 0.0) & (room <= 0.0)).any():
        raise ValueError("failure must be greater than delta, got {} and {}".format(*_first_refused(refused, f, d)))
    wide = room > 1e-15 * d
    excess = np.log1p(d * (1.0 + np.exp(-e)) / np.where(wide, room, 1.0))
    return scalar_or_array(e + np.where(d == 0.0, 0.0, np.where(wide, excess, np.inf)))


# Priors at which a bounded loss changes beliefs most


def worst_prior(loss: float, criterion: str = "difference") -> tuple[float, float]:
    """Prior at which a loss within [-loss, loss] changes a belief most, and that change.

    Parameters
    ----------
    loss : bound on the absolute privacy loss, in nats, may be infinite
    criterion : "difference", posterior - prior, largest at 1 / (1 + e^(loss/2)); "fall", prior - posterior, largest
        at the mirror image; "ratio", posterior / prior, which tends to e^loss as the prior tends to 0

    Returns
    -------
    (prior, value of the criterion).

    Raises
    ------
    ValueError : an unknown criterion, or a negative loss

    References: Kazan's thesis, Lemma 30 and section 5.4.4.

    >>> prior, rise = worst_prior(2.0)
    >>> round(prior, 4), round(rise, 4)
    (0.2689, 0.4621)
    """
    z = float(check_non_negative("loss", loss, finite=False))
    low, high, most = float(expit(-z / 2.0)), float(expit(z / 2.0)), float(np.tanh(z / 4.0))
    worst = {"difference": (low, most), "fall": (high, most), "ratio": (0.0, float(posterior_ratio(0.0, z)))}
    if criterion not in worst:
        raise ValueError(f"criterion must be one of {', '.join(worst)}, got {criterion!r}")
    return worst[criterion]


def two_sided_ratio(prior: ArrayLike, loss: ArrayLike) -> Any:
    """Largest ratio posterior / prior over presence and absence, for a loss within [-loss, loss].

    At prior p and posterior X,
    max(X / p, (1 - X) / (1 - p)) <= max(1 / (p + (1 - p) e^-loss), 1 / (p e^-loss + 1 - p)).

    Parameters
    ----------
    prior : p, in [0, 1]
    loss : bound on the absolute privacy loss, nats, >= 0, may be infinite; numbers or arrays that broadcast

    Returns
    -------
    Ratio in [1, e^loss], of the broadcast shape.

    Raises
    ------
    ValueError : an argument out of range

    References: Kazan's thesis, section 5.4.4.

    >>> round(two_sided_ratio(0.1, 1.0), 6)
    2.319693
    """
    p, z = check_probability("prior", prior), check_non_negative("loss", loss, finite=False)
    return scalar_or_array(np.maximum(posterior_ratio(p, z), posterior_ratio(1.0 - p, z)))


def two_sided_difference(prior: ArrayLike, loss: ArrayLike) -> Any:
    """Largest change of a belief, |posterior - prior|, for a loss within [-loss, loss].

    Parameters
    ----------
    prior : in [0, 1]
    loss : bound on the absolute privacy loss, nats, >= 0, may be infinite; numbers or arrays that broadcast

    Returns
    -------
    Difference in [0, 1], of the broadcast shape.

    Raises
    ------
    ValueError : an argument out of range

    References: Kazan's thesis, section 5.4.4.

    >>> round(two_sided_difference(0.1, 1.0), 6)
    0.131969
    """
    p, z = check_probability("prior", prior), check_non_negative("loss", loss, finite=False)
    step = -np.expm1(-z) * p * (1.0 - p)
    # These denominators are 0 only at a certain prior and an infinite loss, where the belief does not change.
    up, down = p + (1.0 - p) * np.exp(-z), p * np.exp(-z) + 1.0 - p
    return scalar_or_array(np.maximum(step / np.where(up > 0.0, up, 1.0), step / np.where(down > 0.0, down, 1.0)))


# Checks


def check_delta(name: str, delta: ArrayLike, *, zero: bool = True) -> Floats:
    """Probabilities delta as an array, checked to be in [0, 1), or in (0, 1).

    Parameters
    ----------
    name : of the argument, for the message
    delta : a number or an array
    zero : whether 0 is allowed

    Returns
    -------
    float64 array of the shape of `delta`.

    Raises
    ------
    ValueError : a value outside the interval; the message names the argument and the value

    >>> float(check_delta("delta", 1e-5))
    1e-05
    """
    d = check_probability(name, delta)
    inside = (d < 1.0) & (zero | (d > 0.0))
    if not inside.all():
        raise ValueError(f"{name} must be in {'[' if zero else '('}0, 1), got {d[~inside].ravel()[0]}")
    return d


def _first_refused(refused: Any, *arrays: Floats) -> list[float]:
    """The values at the first refused place of arrays that broadcast together."""
    return [float(array[refused].ravel()[0]) for array in np.broadcast_arrays(*arrays)]
