"""How guarantees compose: what independent releases promise together, behind `+`, `n *` and `sum`.

One kind adds its own parameter (rho, mu^2, gamma at one order); pure and Gaussian DP beside zCDP count as epsilon^2 / 2
and mu^2 / 2 (Bun and Steinke 2016); everything else with a worst pair composes optimally, as losses do (Kairouz, Oh
and Viswanath 2017). What has no exact rule is refused with the conversion to use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adversary._core import check_whole
from adversary.privacy.definitions.group import GroupPrivacy
from adversary.privacy.definitions.moments import GaussianDP, RenyiDP, ZeroConcentratedDP
from adversary.privacy.definitions.pure_approximate import NoPrivacy, ProbabilisticDP, PureDP
from adversary.privacy.guarantee import Guarantee, compose, repeat
from adversary.privacy.losses import DiscreteGaussianLoss, composed, repeated

CONVERSIONS: dict[type[Guarantee], str] = {
    ZeroConcentratedDP: "ZeroConcentratedDP(rho) promises RenyiDP(alpha, rho * alpha) at every alpha > 1 "
    "and ApproximateDP(g.epsilon(delta), delta) at every delta",
    RenyiDP: "RenyiDP promises ApproximateDP(g.epsilon(delta), delta) at every delta; "
    "a worst pair promises RenyiDP(alpha, g.worst_pair.renyi(alpha))",
    ProbabilisticDP: "ProbabilisticDP(epsilon, delta) promises ApproximateDP(epsilon, delta), its `implied`",
}
"""What each definition without a worst pair can be turned into."""


@compose.register
def together(a: Guarantee, b: Any) -> Any:
    """Guarantee of two releases with independent noise together; what `a + b` does.

    Parameters
    ----------
    a : guarantee or privacy loss of one release
    b : of the other; or 0, where `sum` starts, which leaves `a` as it is

    Returns
    -------
    Definition of the same kind where parameters add (zCDP, Gaussian DP, Renyi DP of one order); zCDP for it beside
    pure or Gaussian DP; NoPrivacy if either is; otherwise the privacy loss of the composed worst pairs.
    NotImplemented where `b` is neither a guarantee nor 0.

    Raises
    ------
    TypeError : no exact rule for these two kinds; the message names the conversion
    ValueError : Renyi DP of different orders

    >>> GaussianDP(3.0) + GaussianDP(4.0), PureDP(1.0) + ZeroConcentratedDP(0.5)
    (GaussianDP(mu=5.0), ZeroConcentratedDP(rho=1.0))
    """
    if isinstance(b, int) and b == 0:
        return a
    if isinstance(a, DiscreteGaussianLoss) and isinstance(b, DiscreteGaussianLoss):
        return a.beside(b)  # the common case, without a look at all the others
    if not isinstance(b, Guarantee):
        return NotImplemented
    kinds = {type(a), type(b)}
    if NoPrivacy in kinds:
        return NoPrivacy()
    if isinstance(a, GaussianDP) and isinstance(b, GaussianDP):
        return GaussianDP(float(np.hypot(a.mu, b.mu)))
    if isinstance(a, RenyiDP) and isinstance(b, RenyiDP):
        return RenyiDP(_common_order(a, b), a.gamma + b.gamma)
    if ZeroConcentratedDP in kinds:
        a, b = _plainly(a), _plainly(b)
        if {type(a), type(b)} <= {ZeroConcentratedDP, PureDP, GaussianDP}:
            return ZeroConcentratedDP(_rho(a) + _rho(b))
    _refuse_without_pair(a, b)
    return composed([a.worst_pair, b.worst_pair])


@repeat.register
def times(g: Guarantee, n: int) -> Any:
    """Guarantee of n releases with independent noise, each with the same guarantee; what `n * g` does.

    Parameters
    ----------
    g : guarantee or privacy loss of one release
    n : number of releases, >= 0; none reveal nothing (loss 0)

    Returns
    -------
    Definition of the same kind where parameters add (zCDP, Gaussian DP, Renyi DP); `g` itself for n = 1; otherwise the
    privacy loss of the composed worst pairs.

    Raises
    ------
    TypeError : a definition without a worst pair and without a rule of its own; the message names the conversion
    ValueError : n negative or not whole

    >>> 2 * ZeroConcentratedDP(0.5), 4 * GaussianDP(1.0)
    (ZeroConcentratedDP(rho=1.0), GaussianDP(mu=2.0))
    """
    n = int(check_whole("times", n, minimum=0))
    if isinstance(g, ZeroConcentratedDP):
        return ZeroConcentratedDP(n * g.rho)
    if isinstance(g, GaussianDP):
        return GaussianDP(float(np.sqrt(n) * g.mu))
    if isinstance(g, RenyiDP):
        return RenyiDP(g.alpha, n * g.gamma)
    if n == 0:
        return composed([])
    if n == 1 or isinstance(g, NoPrivacy):
        return g
    _refuse_without_pair(g, g)
    return repeated(g.worst_pair, n)


def _rho(g: Guarantee) -> Any:
    """The zCDP that a definition implies: rho, epsilon^2 / 2 or mu^2 / 2."""
    if isinstance(g, ZeroConcentratedDP):
        return g.rho
    return (g.epsilon0 if isinstance(g, PureDP) else g.mu) ** 2 / 2  # type: ignore[attr-defined]


def _plainly(g: Guarantee) -> Guarantee:
    """A group under pure DP as the pure definition it implies; anything else as it is."""
    return g.implied if isinstance(g, GroupPrivacy) else g


def _common_order(a: RenyiDP, b: RenyiDP) -> float:
    if a.alpha != b.alpha:
        raise ValueError(
            f"alpha must be one order for both, got {a.alpha} and {b.alpha}; "
            "Renyi DP of an order holds at every lower order with the same gamma"
        )
    return a.alpha


def _refuse_without_pair(a: Guarantee, b: Guarantee) -> None:
    hints = {hint: None for g in (a, b) for kind, hint in CONVERSIONS.items() if isinstance(g, kind)}
    if hints:
        raise TypeError(f"{a.definition} and {b.definition} do not compose as they are: {'; '.join(hints)}")
