"""Which of two guarantees is the stronger, and what several releases guarantee beside an invariant.

A scoped guarantee is a triple: a set of databases D, the number of records a in which two of them may differ, and a
guarantee for each such pair. Parameters alone decide nothing: f-DP iterated a times on all databases, and on those that
conform to an invariant, have the same parameters, and the first protects more pairs.

References
----------
Cho and Awan, "Formal Privacy Guarantees with Invariant Statistics", Definitions 12, 19 and 20, Propositions 15 and 21.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adversary._core import check_whole
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.invariants.margins import includes
from adversary.privacy.invariants.spaces import Databases, Space
from adversary.privacy.losses import check_guarantee


@dataclass(frozen=True)
class ScopedGuarantee:
    """A guarantee for every two databases of a space at most `adjacency` records apart; others are not protected.

    Parameters
    ----------
    space : `Margins`, `Unrestricted`, `Databases`, or databases listed
    adjacency : records, >= 0
    guarantee : of one such pair; in what `compare` is asked about, with a worst pair, or of one kind on both sides

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> from adversary.privacy.invariants import Margins, Unrestricted
    >>> two = ZeroConcentratedDP(2.56).group(2)
    >>> group = ScopedGuarantee(Unrestricted(3, [2, 2]), 2, two)
    >>> compare(ScopedGuarantee(Margins([[2, 1], [2, 1]]), 2, two), group)
    'weaker'
    """

    space: Space | Iterable[Any]
    adjacency: int
    guarantee: Guarantee

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            object.__setattr__(self, "space", Databases(self.space))
        object.__setattr__(self, "adjacency", int(check_whole("adjacency", self.adjacency, minimum=0)))
        check_guarantee("guarantee", self.guarantee)

    def covers(self, other: ScopedGuarantee) -> bool:
        """Whether every pair of databases that `other` protects is protected here."""
        mine, theirs = self._space, other._space
        return includes(mine, theirs) and theirs.reach(other.adjacency) <= self.adjacency

    @property
    def _space(self) -> Space:
        assert isinstance(self.space, Space)
        return self.space


def compare(first: ScopedGuarantee, second: ScopedGuarantee) -> str | None:
    """Whether the first guarantee is weaker than the second, stronger, equal, or not comparable.

    One is weaker where the other protects every pair that it protects, and guarantees each at least as much.

    Parameters
    ----------
    first, second : each a space of databases, an adjacency and a guarantee

    Returns
    -------
    "weaker", "stronger" or "equal", of the first; None where neither implies the other.

    Raises
    ------
    TypeError : a guarantee has no worst pair, and the two are not both zCDP or Renyi DP of one order; the message says
        what to convert

    References: Cho and Awan, Definitions 19 and 20, Proposition 15.

    >>> from adversary.privacy.definitions import PureDP
    >>> from adversary.privacy.invariants import Unrestricted
    >>> everybody = Unrestricted(3, [2])
    >>> compare(ScopedGuarantee(everybody, 1, PureDP(1.0)), ScopedGuarantee(everybody, 1, PureDP(2.0)))
    'stronger'
    """
    weaker = second.covers(first) and second.guarantee.implies(first.guarantee)
    stronger = first.covers(second) and first.guarantee.implies(second.guarantee)
    if weaker and stronger:
        return "equal"
    return "weaker" if weaker else "stronger" if stronger else None


def extend_then_compose(guarantees: Iterable[Guarantee], adjacency: int) -> Guarantee:
    """Releases beside one invariant: each for `adjacency` records, then composed; Proposition 21.

    f_1^a x ... x f_k^a, iterates and then products: never weaker than `compose_then_extend`, and equal for
    Gaussian DP and zCDP. With several invariants find the adjacency of them jointly: there is no rule to add theirs up.

    Parameters
    ----------
    adjacency : a(t) >= 1, the semi-adjacency of everything published exactly

    >>> from adversary.privacy.definitions import PureDP
    >>> round(1.0 - extend_then_compose([PureDP(1.0)] * 2, 2).power(0.1), 6)
    0.160417
    >>> round(1.0 - compose_then_extend([PureDP(1.0)] * 2, 2).power(0.1), 6)
    0.059261
    """
    return _sum(guarantee.group(adjacency) for guarantee in guarantees)


def compose_then_extend(guarantees: Iterable[Guarantee], adjacency: int) -> Guarantee:
    """Guarantee of releases beside one invariant: composed, then extended to groups of `adjacency` records.

    (f_1 x ... x f_k)^a, the bound available where only the total over the releases is known; `extend_then_compose` is
    never weaker.

    Parameters
    ----------
    guarantees : of releases with independent noise, at least one
    adjacency : a(t) >= 1, the semi-adjacency of everything published exactly

    Returns
    -------
    Guarantee of all releases, for any two conforming databases at most a(t) records apart.

    Raises
    ------
    ValueError : no guarantees, or an adjacency that is not a whole number >= 1
    TypeError : guarantees with no exact rule for their composition

    References: Cho and Awan, Proposition 21.

    >>> from adversary.privacy.definitions import ZeroConcentratedDP
    >>> compose_then_extend([ZeroConcentratedDP(0.5), ZeroConcentratedDP(0.25)], 2)
    ZeroConcentratedDP(rho=3.0)
    """
    return _sum(guarantees).group(adjacency)


def _sum(guarantees: Iterable[Guarantee]) -> Guarantee:
    listed = list(guarantees)
    if not listed:
        raise ValueError("guarantees must have at least one, got none")
    total: Guarantee = sum(listed[1:], start=listed[0])
    return total
