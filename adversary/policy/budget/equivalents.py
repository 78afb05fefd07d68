"""The epsilon a guarantee is worth to adversaries who are unsure of who is in the data and of what they are.

A profile bounds the privacy loss, and its epsilon is that bound. A definition that bounds the loss but for a `failure`
probability keeps the profile but for that probability, once the loss it bounds so is small enough: its equivalent
epsilon (Kazan et al. 2025, section 4.3, for questions of inclusion).

Where values are in question there are three laws of a release: P (the target is in, and in S), N (in, not in S) and O
(out). P and O, and N and O, are one record apart; P and N two. A release beyond R(p, q, e) of Theorem 4 is an event A
with u e^(2e) N(A) + (1 - u) e^e O(A) < P(A) for a weight u, so e^e O(A) < P(A) or e^(2e) N(A) < P(A). Let t1 and t2 be
the bounds, for every such event and after any post-processing, on P(L > e) one record apart and P(L > 2e) two apart.
Then either P(A) <= t1 and O(A) < e^-e t1, or P(A) <= t2 and N(A) < e^(-2e) t2, and the third law follows from its
neighbour: the chance of such a release is at most the larger of t1 and t2, not their sum.
"""

from __future__ import annotations

import numpy as np

from adversary._core import check_probability
from adversary.privacy import Guarantee
from adversary.privacy.losses import check_guarantee


def value_failure(one: Guarantee, two: Guarantee, epsilon: float) -> float:
    """Largest probability, whichever of P, N and O is true, of a release beyond R(p, q, epsilon), whatever the priors.

    max(t1, t2) under P, max(e^-e t1, f(e^(-2e) t2)) under O and max(f(e^-e t1), e^(-2e) t2) under N, f = `one.power`:
    max(t1, t2) unless `two`, for hypotheses two records apart, guarantees more than `one`.
    """
    one, two = one.after_postprocessing, two.after_postprocessing
    first, second = one.pbdp_delta(epsilon), two.pbdp_delta(2.0 * epsilon)
    once, twice = np.exp(-epsilon) * first, np.exp(-2.0 * epsilon) * second
    powers = (side.power(level) for side in one.directions for level in (once, twice))
    return float(max(first, second, *powers))


def equivalent_epsilon(
    guarantee: Guarantee, failure: float = 0.0, *, values: bool = True, two: Guarantee | None = None
) -> float:
    """Epsilon of the pure DP whose bounds on a rise this guarantee keeps, but for a failure probability; inf if none.

    About inclusion alone it is `guarantee.loss_bound(failure)`, which bounds falls too. Where values are in question it
    is also no less than the smallest e with `value_failure(guarantee, two, e) <= failure`: max(t(guarantee),
    t(two) / 2), t = `pbdp_epsilon` at the failure.

    Parameters
    ----------
    failure : probability, under every truth, of a release beyond the bounds
    values : whether what a record says is in question, or only whether it is there
    two : the guarantee for hypotheses two records apart; `guarantee.group(2)` where None

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> round(equivalent_epsilon(ZeroConcentratedDP(0.03), 0.05), 6)
    0.669604
    """
    chance = float(check_probability("failure", failure))
    if chance == 1.0:
        return 0.0
    guarantee = check_guarantee("guarantee", guarantee).after_postprocessing
    bound = float(guarantee.loss_bound(chance))
    if not values or bound == np.inf:
        return bound
    pair = guarantee.group(2) if two is None else two.after_postprocessing
    return max(bound, float(guarantee.pbdp_epsilon(chance)), 0.5 * float(pair.pbdp_epsilon(chance)))
