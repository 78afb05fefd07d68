"""Amplification by sampling: the loss of a mechanism that sees a random sample of the records.

Whoever does not know whether the target was sampled compares the release with and without the target in the population:
it is sampled with probability q, so the pair is q P + (1 - q) Q against Q, and L becomes log(1 - q + q e^L).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_positive, check_probability
from adversary.privacy.losses.dominating import default_nodes, lattice_above
from adversary.privacy.losses.lattice import SUM_TOLERANCE, LatticeLoss, merged_within
from adversary.privacy.losses.loss import PrivacyLoss

SCHEMES = ("poisson", "without replacement")
NODES = 1201
"""Points of a profile on each side of 0."""
_LARGE = 30.0


def sampled_loss(loss: PrivacyLoss, rate: float, scheme: str = "poisson") -> LatticeLoss:
    """The loss of the same mechanism run on a random sample, to a reader who does not know who was sampled.

    Parameters
    ----------
    loss : of the mechanism on the sample; of neighbours with and without one record for "poisson", of neighbours that
        differ in one record for "without replacement"
    rate : probability q in (0, 1] that a record is sampled
    scheme : "poisson", every record independently: q P + (1 - q) Q against Q; or "without replacement", a sample of
        fixed size: the profile q delta(log(1 + (e^epsilon - 1) / q)) in both directions

    Returns
    -------
    LatticeLoss: exact for Poisson sampling and a listed loss, elsewhere an upper bound that meets the profile at 1,201
    points on either side of 0. Its `posterior(prior)` is the law of the posterior of this reader

    Raises
    ------
    ValueError : a rate outside (0, 1], or another scheme

    References: Balle, Barthe and Gaboardi 2018, Theorems 8 and 9; Zhu, Dong and Wang 2022, Proposition 30.

    >>> import numpy as np
    >>> from adversary.privacy.losses import LatticeLoss
    >>> loss = LatticeLoss.from_probs([0.75, 0.25], [0.25, 0.75])
    >>> round(sampled_loss(loss, 0.1).maximum, 6), round(float(np.log1p(0.1 * 2.0)), 6)
    (0.182322, 0.182322)
    """
    q = float(check_positive("rate", check_probability("rate", rate)))
    if scheme not in SCHEMES:
        raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, got {scheme!r}")
    if scheme == "poisson":
        law = loss.law
        return _subsampled_lattice(
            law if isinstance(law, LatticeLoss) else lattice_above(loss.rough, default_nodes(loss)), q
        )
    side = amplified_loss(np.linspace(0.0, max(one.reach for one in loss.directions), NODES), q)
    return lattice_above(_Amplified(loss, q), np.concatenate([-side[:0:-1], side]))  # type: ignore[arg-type]


def _subsampled_lattice(law: LatticeLoss, q: float) -> LatticeLoss:
    """Of q P + (1 - q) Q against Q, atom by atom."""
    with np.errstate(divide="ignore"):
        stay, infinite = np.log1p(-q), np.log(law.infinite_q)
    losses, log_q = amplified_loss(law.losses, q), law.log_q
    log_p = np.logaddexp(np.log(q) + law.log_p, stay + log_q)
    if law.infinite_q and q < 1.0:  # where P has no mass, the mixture has that of Q
        losses = np.append(stay, losses)
        log_p, log_q = np.append(stay + infinite, log_p), np.append(infinite, log_q)
    atoms, spread = merged_within(losses, log_p, log_q)
    infinite_p, infinite_q = q * law.infinite_p, law.infinite_q if q == 1.0 else 0.0
    lost = 1.0 - float(np.exp(atoms[1]).sum()) - infinite_p
    if lost > SUM_TOLERANCE:  # of a law rounded up, whose masses under Q do not add up to one: towards more risk
        infinite_p += lost
    return LatticeLoss(*atoms, infinite_p, infinite_q, law.bounded, law.rounded, law.blur + spread)


def amplified_loss(loss: ArrayLike, rate: float) -> Floats:
    """log(1 - q + q e^loss): the log ratio for whoever does not know whether the target was sampled.

    Parameters
    ----------
    loss : log ratio of a release with the target in the sample to one without, nats, any shape
    rate : probability q in (0, 1] that the target is sampled, whatever they and everybody else are like

    Returns
    -------
    nats, of the shape of `loss`; `loss` itself at rate 1

    >>> round(float(amplified_loss(1.0, 0.1)), 6)
    0.158565
    """
    loss, q = as_array(loss), float(rate)
    if q == 1.0:
        return loss
    with np.errstate(over="ignore", divide="ignore"):
        change = q * np.expm1(np.minimum(loss, _LARGE))
        small = np.abs(change) < 0.5
        far = np.logaddexp(np.log1p(-q), np.log(q) + loss)
        return np.asarray(np.where(small, np.log1p(np.where(small, change, 0.0)), far))


@dataclass(frozen=True)
class _Amplified:
    """The profile of sampling without replacement, the worse direction in both."""

    loss: PrivacyLoss
    rate: float

    def delta(self, epsilon: ArrayLike) -> Floats:
        e = as_array(epsilon)
        before = np.where(e <= _LARGE, np.log1p(np.expm1(np.minimum(e, _LARGE)) / self.rate), e - np.log(self.rate))
        return self.rate * np.maximum(as_array(self.loss.delta(before)), as_array(self.loss.swapped.delta(before)))

    @property
    def swapped(self) -> _Amplified:
        return self
