"""A guarantee by name, and what its definition says, in words and as an inequality."""

from __future__ import annotations

from adversary._core import exactly, plain
from adversary.privacy import Guarantee
from adversary.privacy.definitions import (
    ApproximateDP,
    GaussianDP,
    GroupPrivacy,
    NoPrivacy,
    ProbabilisticDP,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
)
from adversary.privacy.losses import PrivacyLoss


def of_the_release(guarantee: Guarantee) -> bool:
    """Whether the promise is about the release itself, not about what is computed from it."""
    return isinstance(guarantee, ProbabilisticDP)


def stands_for(guarantee: Guarantee) -> str:
    """A sentence that says what is promised, or that the numbers are those of the noise."""
    if isinstance(guarantee, PrivacyLoss):
        return "This is what the noise of a release delivers, its own privacy loss, worked out for one pair of data."
    if isinstance(guarantee, NoPrivacy):
        return "The release keeps no privacy definition."
    return f"The release keeps {named(guarantee)}."


def named(guarantee: Guarantee) -> str:
    """The definition by name with its parameters."""
    match guarantee:
        case PureDP(epsilon0=e):
            return f"pure differential privacy with epsilon {_given(e)}"
        case ApproximateDP(epsilon0=e, delta0=d):
            return f"approximate differential privacy with epsilon {_given(e)} and delta {_given(d)}"
        case ProbabilisticDP(epsilon0=e, delta0=d):
            return f"probabilistic differential privacy with epsilon {_given(e)} and delta {_given(d)}"
        case RenyiDP(alpha=a, gamma=c):
            return f"Renyi differential privacy of order {_given(a)} with gamma {_given(c)}"
        case ZeroConcentratedDP(rho=r):
            return f"zero-concentrated differential privacy (zCDP) with rho {_given(r)}"
        case GaussianDP(mu=m):
            return f"Gaussian differential privacy with mu {_given(m)}"
        case GroupPrivacy(base=base, size=size):
            return f"{named(base)}, for groups of {size} records"
    return guarantee.definition


def _given(x: float) -> str:
    """A parameter in full where that is short; else rounded up, which promises less, to six digits."""
    full = exactly(x)
    return full if len(full) <= LONGEST else plain(x, True, 6)


LONGEST = 12
"""Characters of a parameter, at most, that is told in full."""


def meaning(guarantee: Guarantee) -> str:
    """The definition as an inequality."""
    match guarantee:
        case PureDP():
            return "P(S) <= exp(epsilon) Q(S) for every event S, and the same with P and Q exchanged."
        case ApproximateDP():
            return "P(S) <= exp(epsilon) Q(S) + delta for every event S, and the same with P and Q exchanged."
        case ProbabilisticDP():
            return "The privacy loss L = log(P / Q) has |L| <= epsilon with probability 1 - delta under either truth."
        case RenyiDP():
            return "The Renyi divergence of order alpha between P and Q, either way, is at most gamma."
        case ZeroConcentratedDP():
            return "The Renyi divergence of every order alpha > 1 between P and Q, either way, is at most rho alpha."
        case GaussianDP():
            return "Telling P from Q is no easier than telling a normal law with mean mu from the one with mean 0."
        case GroupPrivacy(base=base, size=size):
            return f"{meaning(base)} That is of one record; {size} of them are {size} such steps."
        case PrivacyLoss():
            return "L = log(P / Q) at the release, its law known exactly or bounded from above."
    return ""


def wider(guarantee: Guarantee) -> str:
    """Which parameters let a belief move further."""
    match guarantee:
        case PureDP():
            return "A larger epsilon lets it move further."
        case ApproximateDP() | ProbabilisticDP():
            return "A larger epsilon or delta lets it move further."
        case RenyiDP():
            return "A larger gamma lets it move further."
        case ZeroConcentratedDP():
            return "A larger rho lets it move further."
        case GaussianDP():
            return "A larger mu lets it move further."
        case GroupPrivacy(base=base):
            return wider(base)
    return "Less noise lets it move further."
