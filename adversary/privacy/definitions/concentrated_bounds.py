"""Published bounds of concentrated and Renyi differential privacy, as functions of numbers.

`ZeroConcentratedDP` and `RenyiDP` use sharper rules; these serve comparison. Sources: Kazan's thesis; Kifer et al.
2022, "Bayesian and frequentist semantics for common variations of differential privacy". `concentrated_rho` computes
the zCDP of a mechanism from its privacy loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import SMALLEST, Floats, check_non_negative, check_probability, scalar_or_array, solve_decreasing
from adversary.privacy.definitions.conversions import check_delta, probabilistic_epsilon

# Orders minus one at which log moments of a loss are computed; neighbours differ by 7 %.
_ORDERS = np.geomspace(1e-6, 1e6, 401)


def pure_rho(epsilon: float) -> float:
    """The zCDP parameter that pure epsilon-DP implies, epsilon tanh(epsilon / 2); randomised response attains it.

    Parameters
    ----------
    epsilon : nats, >= 0

    Returns
    -------
    rho in nats; smaller than epsilon^2 / 2.

    References: Bun and Steinke 2016, Proposition 3.3, by the largest divergence of two answers.

    >>> round(pure_rho(1.0), 6), round(pure_rho(10.0), 6)
    (0.462117, 9.999092)
    """
    e = float(check_non_negative("epsilon", epsilon, finite=False))
    return max(e * float(np.tanh(e / 2.0)), SMALLEST if e else 0.0)


def concentrated_rho(loss: Any) -> float:
    """Smallest zCDP parameter of a privacy loss: the supremum over orders a > 1 of the Renyi divergence divided by a.

    The log moment g(t) of the loss, with t = a - 1, is convex, so between two computed orders it lies below its chord,
    for which the maximum of g(t) / (t (t + 1)) has a closed form. Below the first order g(t) <= t KL + t^2 e^2 / 2,
    with e the largest loss. Both bound the supremum from above, within about 0.1 %.

    Parameters
    ----------
    loss : PrivacyLoss; both directions are considered

    Returns
    -------
    rho in nats, an upper bound; infinite for an unbounded loss.

    References: Bun and Steinke 2016, Definition 1.1.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> round(concentrated_rho(Geometric(1.0).privacy_loss()), 5)
    0.46212
    """
    return max(_one_sided_rho(side) for side in loss.directions)


def _one_sided_rho(loss: Any) -> float:
    e = max(float(loss.maximum), float(loss.swapped.maximum))
    if e == 0.0 or not np.isfinite(e):
        return e
    mean, t = float(loss.kl_divergence), _ORDERS
    with np.errstate(over="ignore"):
        g = np.minimum([float(loss.log_moment(float(order))) for order in t], t * mean + 0.5 * (t * e) ** 2)
    slope = np.diff(g) / np.diff(t)
    start = np.minimum(g[:-1] - slope * t[:-1], 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = (np.sqrt(start * (start - slope)) - start) / slope
    best = np.clip(np.where(np.isfinite(best), best, t[:-1]), t[:-1], t[1:])
    between = float(((start + slope * best) / (best * (best + 1.0))).max())
    with np.errstate(over="ignore"):
        first = max(mean, (mean + 0.5 * t[0] * np.square(e)) / (1.0 + t[0]))
    return float(min(max(first, between, e / (1.0 + t[-1])), pure_rho(e)))


def simple_epsilon(rho: ArrayLike, delta: ArrayLike) -> Any:
    """Published epsilon of rho-zCDP at delta: rho + 2 sqrt(rho log(1 / delta)).

    `ZeroConcentratedDP(rho).epsilon(delta)` is smaller (tight conversion).

    Parameters
    ----------
    rho : zCDP parameter in nats, >= 0
    delta : in (0, 1); both are numbers or arrays that broadcast

    Returns
    -------
    epsilon in nats, of the broadcast shape.

    Raises
    ------
    ValueError : an argument out of range

    References: Kazan's thesis, Theorem 24; Bun and Steinke 2016.

    >>> round(simple_epsilon(2.63, 1e-10), 6)
    18.193803
    """
    r, d = check_non_negative("rho", rho), check_delta("delta", delta, zero=False)
    # An overflow gives infinity, which overstates the risk.
    with np.errstate(over="ignore"):
        return scalar_or_array(r + 2.0 * np.sqrt(r * -np.log(d)))


def published_loss_bound(rho: float, failure: float) -> float:
    """Published bound on |L| under rho-zCDP: `probabilistic_epsilon` of `simple_epsilon`, at the best delta < failure.

    `ZeroConcentratedDP(rho).loss_bound(failure)` is sharper (Markov's inequality on the loss itself). The bound is
    minimised over log delta; every delta gives a valid bound.

    Parameters
    ----------
    rho : zCDP parameter in nats, >= 0
    failure : probability of a larger loss, in (0, 1]

    Returns
    -------
    Bound in nats; 0 at rho 0.

    Raises
    ------
    ValueError : failure 0, or an argument out of range

    References: Kazan's thesis, Theorems 24 and 35.

    >>> round(published_loss_bound(0.5, 0.01), 4), round(direct_loss_bound(0.5, 0.01), 4)
    (4.2509, 3.5442)
    """
    from scipy.optimize import minimize_scalar

    r, f = float(check_non_negative("rho", rho)), float(check_probability("failure", failure))
    if f == 0.0:
        raise ValueError("failure must be positive: zCDP bounds no loss with certainty, got 0.0")
    if r == 0.0:
        return 0.0

    def bound(log_share: float) -> float:
        delta = f * np.exp(log_share)
        return float(probabilistic_epsilon(simple_epsilon(r, delta), delta, f))

    best = minimize_scalar(bound, bounds=(-40.0, -1e-6), method="bounded", options={"xatol": 1e-9})
    return float(best.fun)


def direct_loss_bound(rho: float, failure: float) -> float:
    """Bound on the absolute privacy loss |L| under rho-zCDP, by Markov's inequality.

    The smallest e > rho with (1 + e^-e) exp(-(e - rho)^2 / (4 rho)) <= failure. Markov's inequality on exp((alpha - 1)
    L) at the best alpha bounds one tail; the other is e^-e times it.

    Parameters
    ----------
    rho : zCDP parameter in nats, >= 0
    failure : probability of a larger loss, in [0, 1]

    Returns
    -------
    Bound in nats; infinite at failure 0, and 0 at rho 0 or failure 1.

    Raises
    ------
    ValueError : an argument out of range

    >>> round(direct_loss_bound(0.5, 0.01), 6)
    3.544225
    """
    r, f = float(check_non_negative("rho", rho)), float(check_probability("failure", failure))
    if r == 0.0 or f == 1.0:
        return 0.0
    if f == 0.0:
        return float("inf")
    return solve_decreasing(
        lambda e: float(np.logaddexp(0.0, -e) - (e - r) / r * (e - r) / 4.0 - np.log(f)), r, 2.0 * r + 1.0
    )


def pbdp_delta_markov(epsilon: ArrayLike, *, rho: float | None = None, rdp: Any = None) -> Any:
    """Published bound on P(L > epsilon) after any post-processing, by Markov's inequality.

    exp(-(epsilon - rho)^2 / (4 rho)) for rho-zCDP and epsilon > rho; exp((alpha - 1)(gamma - epsilon)) for Renyi DP
    and epsilon > gamma, the smallest over the pairs. Otherwise 1.

    Parameters
    ----------
    epsilon : threshold of the privacy loss, in nats, > 0; a number or an array (the papers print e^epsilon: an erratum)
    rho, rdp : exactly one of them; rho in nats, rdp one pair (alpha, gamma) or several

    Returns
    -------
    Probability, of the shape of `epsilon`.

    Raises
    ------
    ValueError : both or neither of rho and rdp, or an argument out of range

    References: Kifer et al. 2022, section 5.3.
    """
    e = check_non_negative("epsilon", epsilon)
    if not (e > 0.0).all():
        raise ValueError(f"epsilon must be positive for a probabilistic bound, got {e[e <= 0.0].ravel()[0]}")
    if (rho is None) == (rdp is None):
        raise ValueError("give exactly one of rho and rdp")
    if rho is not None:
        r = float(check_non_negative("rho", rho))
        exponent = np.full_like(e, -np.inf) if r == 0.0 else -(np.maximum(e - r, 0.0) ** 2) / (4.0 * r)
        return scalar_or_array(np.exp(exponent))
    pairs = np.reshape(np.asarray(rdp, dtype=np.float64), (-1, 2))
    alpha, gamma = check_order(pairs[:, 0]), check_non_negative("gamma", pairs[:, 1])
    return scalar_or_array(np.exp(np.minimum((alpha - 1.0) * (gamma - e[..., None]), 0.0).min(-1)))


def check_order(alpha: ArrayLike) -> Floats:
    """Renyi orders as an array, checked to be finite and above 1."""
    order = check_non_negative("alpha", alpha)
    if not (order > 1.0).all():
        raise ValueError(f"alpha must be greater than 1, got {order[order <= 1.0].ravel()[0]}")
    return order
