"""Composition of guarantees for releases with independent noise: the implementation of `+`, `n *` and `sum`.

Guarantees of one kind add their parameter (rho, mu^2, gamma at one order). Composed with zCDP, pure and Gaussian DP
enter by the rho that they imply (Bun and Steinke 2016). All others compose optimally through their worst pairs, as
losses (Kairouz, Oh and Viswanath 2017). Without an exact rule the error names the conversion to use.
"""

from __future__ import annotations

from typing import Any

from adversary._core import check_whole
from adversary.privacy.guarantee import Guarantee, compose, repeat
from adversary.privacy.losses import compose_losses, repeat_loss


@compose.register
def _(a: Guarantee, b: Any) -> Any:
    """The sum `a + b`; 0, where `sum` starts, is neutral; NotImplemented if b is not a guarantee.

    >>> from adversary.privacy.definitions import GaussianDP, PureDP, ZeroConcentratedDP
    >>> GaussianDP(3.0) + GaussianDP(4.0), PureDP(1.0) + ZeroConcentratedDP(0.5), 4 * GaussianDP(1.0)
    (GaussianDP(mu=5.0), ZeroConcentratedDP(rho=1.0), GaussianDP(mu=2.0))
    """
    if isinstance(b, int) and b == 0:
        return a
    if not isinstance(b, Guarantee):
        return NotImplemented
    for one, other in ((a, b), (b, a)):
        if (total := one.plus(other)) is not None:
            return total
    _refuse_without_pair(a, b)
    return compose_losses([a.worst_pair, b.worst_pair])


@repeat.register
def _(g: Guarantee, n: int) -> Any:
    """The multiple `n * g`; g itself for n = 1, the loss 0 for n = 0."""
    n = int(check_whole("times", n, minimum=0))
    if (composed := g.multiple(n)) is not None:
        return composed
    if n == 0:
        return compose_losses([])
    if n == 1 or g.vacuous:
        return g
    _refuse_without_pair(g, g)
    return repeat_loss(g.worst_pair, n)


def _refuse_without_pair(a: Guarantee, b: Guarantee) -> None:
    hints = dict.fromkeys(g.conversion for g in (a, b) if g.conversion)
    if hints:
        raise TypeError(f"{a.definition} and {b.definition} do not compose as they are: {'; '.join(hints)}")
