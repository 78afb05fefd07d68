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


def equivalent_epsilon(
    guarantee: Guarantee, failure: float = 0.0, *, values: bool = True, two: Guarantee | None = None
) -> float:
    """Epsilon of the pure DP whose bounds on a rise this guarantee keeps, but for a failure probability; inf if none.

    About inclusion alone it is `guarantee.loss_bound(failure)`, which bounds falls too. Where values are in question it
    is also no less than the smallest e at which the larger of t1 and t2 is within the failure: max(t(guarantee),
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
