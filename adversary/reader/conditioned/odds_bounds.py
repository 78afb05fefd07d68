r"""How far a release can move the odds between two databases that both conform to what was published exactly.

    [post(X) / post(Y)] / [prior given the invariant (X) / (Y)]  =  p(m | X) / p(m | Y)  =:  R

If X and Y differ in k records, a mechanism with guarantee f for a change of one record has trade-off f iterated k times
between them, whatever else was published: e^-(k epsilon) <= R <= e^(k epsilon) under pure DP. One person's record is a
mixture over databases; there k is the radius within which the two mixtures can be coupled (`coupling_radius`).

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", Propositions 11 and 15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, check_number, check_whole, scalar_or_array
from adversary.privacy import Guarantee


def log_odds_bound(guarantee: Guarantee, distance: ArrayLike, failure: float = 0.0) -> Any:
    """Largest |log R| between databases `distance` records apart, nats: the loss bound of the group, 0 at distance 0.

    Parameters
    ----------
    guarantee : of a change of one record, on all databases; for a mechanism made for the conforming databases, count
        the distance in its own steps
    distance : whole numbers
    failure : probability, under X and under Y, of a release beyond the bound; at 0 Gaussian noise has no bound (inf)
    """
    return _of_groups(distance, 0.0, lambda size: guarantee.group(size).loss_bound(failure))


def odds_bound(guarantee: Guarantee, distance: ArrayLike, failure: float = 0.0) -> tuple[Any, Any]:
    """(lower, upper) factor R by which a release moves the odds between databases that far apart: exp(-+ bound).

    >>> from adversary.privacy.definitions import PureDP
    >>> tuple(round(factor, 4) for factor in odds_bound(PureDP(1.0), 2))
    (0.1353, 7.3891)
    """
    bound = np.asarray(log_odds_bound(guarantee, distance, failure))
    with np.errstate(over="ignore"):
        return scalar_or_array(np.exp(-bound)), scalar_or_array(np.exp(bound))


def odds_tail(guarantee: Guarantee, distance: int, log_odds: ArrayLike) -> Any:
    """Bound on P(log R > s) when X is the truth, for one Y that many records away; 1 at s <= 0, 0 at distance 0.

    The other way round P(log R < -s) <= exp(-s), for any mechanism. It holds for each Y, not for all at once.
    """
    k, s = int(check_whole("distance", distance, minimum=0)), check_number("log_odds", log_odds)
    if k == 0:
        return scalar_or_array(np.where(s < 0.0, 1.0, 0.0))
    tail: Floats = np.ones(s.shape)
    promise: Any = guarantee.group(k)
    tail[s > 0.0] = promise.pbdp_delta(s[s > 0.0])
    return scalar_or_array(tail)


def guess_bound(guarantee: Guarantee, distance: ArrayLike) -> Any:
    """Largest probability of guessing right between two such databases, equally likely before: (1 + advantage) / 2.

    One minus the fixed point of the trade-off iterated `distance` times; Phi(k mu / 2) for Gaussian DP.

    >>> from adversary.privacy.definitions import GaussianDP
    >>> round(guess_bound(GaussianDP(1.0), 2), 6)
    0.841345
    """
    return _of_groups(distance, 0.5, lambda size: 0.5 * (1.0 + guarantee.group(size).advantage))


def _of_groups(distance: ArrayLike, nothing: float, of: Callable[[int], float]) -> Any:
    """A number for each distance, worked out once for each size; `nothing` at distance 0."""
    sizes, place = np.unique(check_whole("distance", distance, minimum=0), return_inverse=True)
    values = np.array([of(int(size)) if size else nothing for size in sizes])
    return scalar_or_array(values[place].reshape(np.shape(distance)))
