"""How guarantees compose: what independent releases guarantee together, behind `+`, `n *` and `sum`.

One kind adds its own parameter (rho, mu^2, gamma at one order); pure and Gaussian DP beside zCDP count as epsilon^2 / 2
and mu^2 / 2 (Bun and Steinke 2016); everything else with a worst pair composes optimally, as losses do (Kairouz, Oh
and Viswanath 2017). What has no exact rule is refused with the conversion to use.
"""

from __future__ import annotations

from typing import Any

from adversary._core import check_whole
from adversary.privacy.guarantee import Guarantee, compose, repeat
from adversary.privacy.losses import composed, repeated


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

    >>> from adversary.privacy.definitions import GaussianDP, PureDP, ZeroConcentratedDP
    >>> GaussianDP(3.0) + GaussianDP(4.0), PureDP(1.0) + ZeroConcentratedDP(0.5)
    (GaussianDP(mu=5.0), ZeroConcentratedDP(rho=1.0))
    """
    if isinstance(b, int) and b == 0:
        return a
    if not isinstance(b, Guarantee):
        return NotImplemented
    for one, other in ((a, b), (b, a)):
        if (found := one.plus(other)) is not None:
            return found
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

    >>> from adversary.privacy.definitions import GaussianDP, ZeroConcentratedDP
    >>> 2 * ZeroConcentratedDP(0.5), 4 * GaussianDP(1.0)
    (ZeroConcentratedDP(rho=1.0), GaussianDP(mu=2.0))
    """
    n = int(check_whole("times", n, minimum=0))
    if (found := g.multiple(n)) is not None:
        return found
    if n == 0:
        return composed([])
    if n == 1 or g.vacuous:
        return g
    _refuse_without_pair(g, g)
    return repeated(g.worst_pair, n)


def _refuse_without_pair(a: Guarantee, b: Guarantee) -> None:
    hints = dict.fromkeys(g.conversion for g in (a, b) if g.conversion)
    if hints:
        raise TypeError(f"{a.definition} and {b.definition} do not compose as they are: {'; '.join(hints)}")
