"""Privacy loss of independent discrete Gaussian releases with any widths and multiplicities, and a Gaussian release.

A count that changes by the integer a, under noise x with parameter v = 1 / sigma^2, has the loss v (a^2 - 2 a x) / 2.
The method of computation is chosen once, by cost, and `loss.route` names it: all atoms listed; the coarsest atoms mixed
with a distribution of the others; a certified contour sum; or a smoothed contour sum if the exact one is too costly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    as_array,
    check_non_negative,
    check_positive,
    check_whole,
    log_theta,
)
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses.analytic import GaussianLoss
from adversary.privacy.losses.contour import (
    EASY,
    GOAL,
    LIGHT,
    MOST,
    ROUGH,
    Family,
    Work,
    compose_by_contour,
    normal_form,
    total_rho,
)
from adversary.privacy.losses.contour_loss import ContourLoss, chernoff_tail_end, log_moment
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.lattice import FAR, NOTHING, LatticeLoss, convolve_lattices, merge_atoms, repeat_product
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.losses.mixed import MixedLoss
from adversary.privacy.profiles import area_under

# Largest number of pairs of atoms in a listed product.
LISTED_ATOMS = 500_000

# Largest number of multiplications in the convolution of one family.
SUMMED = 2e7

# Largest number of atoms of a lattice that is mixed with other families, if there is no common lattice.
MIXED_ATOMS = 4_000

# Noise with v >= 100 is nonzero with probability 1e-21. Its few losses would stretch the period of a contour sum, and
# with it the number of nodes, beyond all limits.
# v = 1 / sigma^2 from which on losses are listed and mixed with the others.
SHARP = 100.0

# exp(-745) is the smallest double.
_LISTED_NATS = 745.0


@dataclass(frozen=True, eq=False)
class DiscreteGaussianLoss(PrivacyLoss):
    """Loss of independent releases with discrete Gaussian noise, and of one Gaussian release.

    Parameters
    ----------
    families : (v, shift, copies): `copies` releases with sigma^2 = 1 / v that change by `shift` people; v is a Fraction
        or a float
    variance : mu^2 of a Gaussian release; 0 for none
    goal : target relative width of `bracket`; from `ROUGH` on, wider intervals are accepted to save time

    >>> from fractions import Fraction
    >>> DiscreteGaussianLoss.of(Fraction(1, 2), shift=1, count=40).epsilon(1e-6).__round__(9)
    30.558062287
    """

    families: tuple[Family, ...]
    variance: float = 0.0
    goal: float = GOAL

    def __post_init__(self) -> None:
        check_non_negative("variance", self.variance)

    @classmethod
    def of(cls, v: Fraction | float, shift: int = 1, count: int = 1) -> DiscreteGaussianLoss:
        """Loss of `count` releases with sigma^2 = 1 / v that change by `shift` people."""
        check_positive("v", v)
        size = int(check_whole("shift", shift, minimum=1))
        return cls((Family(v, size, int(check_whole("count", count, minimum=1))),))

    def within(self, width: float) -> DiscreteGaussianLoss:
        """Copy with another target relative width of the certified intervals."""
        return DiscreteGaussianLoss(self.families, self.variance, float(check_positive("width", width)))

    def beside(self, other: DiscreteGaussianLoss) -> DiscreteGaussianLoss:
        """Composition with another loss of this class."""
        families, variance = self.families + other.families, self.variance + other.variance
        return DiscreteGaussianLoss(families, variance, min(self.goal, other.goal))

    def plus(self, other: Guarantee) -> DiscreteGaussianLoss | None:
        """Composition with another loss of this class; None for other guarantees."""
        return self.beside(other) if isinstance(other, DiscreteGaussianLoss) else None

    def times(self, count: int) -> DiscreteGaussianLoss:
        """Composition of `count` copies, at least one."""
        families = tuple(Family(v, shift, count * copies) for v, shift, copies in self.families)
        return DiscreteGaussianLoss(families, count * self.variance, self.goal)

    @cached_property
    def kinds(self) -> tuple[Family, ...]:
        """The families in normal form, equal ones merged."""
        return normal_form(self.families)

    @cached_property
    def rho(self) -> float:
        """zCDP parameter of all releases: the sum of count shift^2 v / 2, plus half the variance."""
        return total_rho(self.kinds, self.variance)

    @cached_property
    def law(self) -> PrivacyLoss:
        return self._listed or self._mixed_sharp or self._contour or self._mixed_coarse or self._costly_contour

    @property
    def route(self) -> Route:
        return self.law.route

    @property
    def _listed(self) -> LatticeLoss | None:
        """List of all atoms, if they are few even before equal ones are merged."""
        atoms = np.prod([kind.copies * _span(kind) for kind in self.kinds])
        if self.variance or atoms > LISTED_ATOMS or max(map(_work, self.kinds)) > SUMMED:
            return None
        return next((atoms for atoms, rest in self._lists() if not rest), None)

    @property
    def _mixed_sharp(self) -> PrivacyLoss | None:
        """Mixture of the listed losses of nearly noiseless releases (`SHARP`) with the others."""
        sharp = [kind for kind in self.kinds if float(kind.v) >= SHARP]
        if not sharp:
            return None
        atoms = reduce(convolve_lattices, map(_family_lattice, sharp))
        return _mixed(atoms, self._rest(self.kinds[: -len(sharp)]))

    @cached_property
    def _contour(self) -> ContourLoss | None:
        """Contour sum of low cost, exact or with the least smoothing."""
        return self._by_contour(LIGHT if self.goal >= ROUGH else EASY)

    @property
    def _mixed_coarse(self) -> PrivacyLoss | None:
        """Loss as the sum of a list, for the coarsest releases, and the loss of the others; None if none can be made.

        Coarsest are those with the largest step v * shift between losses. The list is the shortest one that leaves
        nothing (then it is returned itself), the Gaussian release only, or releases with a cheap contour sum; failing
        that, the shortest that leaves releases with any contour sum. A list to be summed has at most `MIXED_ATOMS`.
        """
        costly: PrivacyLoss | None = None
        for atoms, kinds in self._lists():
            rest = self._rest(kinds)
            if rest is None:
                return atoms
            if atoms.losses.size <= MIXED_ATOMS:
                contour = rest._contour if isinstance(rest, DiscreteGaussianLoss) else None
                if not kinds or (contour and contour.composition.work.fits(LIGHT)):
                    return _mixed(atoms, rest)
                costly = costly or (_mixed(atoms, rest) if contour else None)
        return costly

    @property
    def _costly_contour(self) -> ContourLoss:
        """Contour sum that takes seconds per number, with as much smoothing as it requires."""
        if contour := self._by_contour(EASY if self.goal >= ROUGH else MOST, widest=1.0):
            return contour
        raise ArithmeticError(f"no contour of {len(self.kinds)} scales can be searched; enumerate the losses")

    def _by_contour(self, most: Work, widest: float = 0.0) -> ContourLoss | None:
        made = compose_by_contour(self.kinds, self.variance, self.goal, most, widest)
        return ContourLoss(self.kinds, self.variance, made, self._coarser) if made else None

    def _lists(self) -> Iterator[tuple[LatticeLoss, tuple[Family, ...]]]:
        """Yield (list of the n coarsest kinds, remaining kinds) for n = 1, 2, ... while the lists are short."""
        kinds = sorted(self.kinds, key=lambda kind: -float(kind.v) * kind.shift)
        atoms = NOTHING
        for i, kind in enumerate(kinds):
            if _work(kind) > SUMMED or kind.copies * _span(kind) * atoms.losses.size > LISTED_ATOMS:
                return
            one = _family_lattice(kind)
            atoms = convolve_lattices(atoms, one) if i else one
            yield atoms, tuple(kinds[i + 1 :])

    def _rest(self, kinds: tuple[Family, ...]) -> PrivacyLoss | None:
        """Loss of the remaining kinds and of the Gaussian release; None if there are neither."""
        if kinds:
            return DiscreteGaussianLoss(kinds, self.variance, self.goal)
        return GaussianLoss(math.sqrt(self.variance)) if self.variance else None

    @cached_property
    def _coarser(self) -> DiscreteGaussianLoss:
        return DiscreteGaussianLoss(self.kinds, self.variance, ROUGH)

    @property
    def coarse(self) -> DiscreteGaussianLoss:
        return self if self.goal >= ROUGH or self.law.coarse is self.law else self._coarser

    @property
    def bracket(self) -> Bracket:
        return self.law.bracket

    def delta(self, epsilon: ArrayLike) -> Any:
        """Profile: exact if listed, otherwise the upper certified bound."""
        return self.law.delta(epsilon)

    def power(self, level: ArrayLike) -> Any:
        return self.law.power(level)

    def epsilon(self, delta: ArrayLike) -> Any:
        return self.law.epsilon(delta)

    @property
    def auc(self) -> float:
        return self.law.auc if self.coarse is self else area_under(self.coarse, 401)

    def level(self, power: ArrayLike) -> Any:
        return self.coarse.law.level(power)

    @property
    def tail_end(self) -> float:
        return chernoff_tail_end(self.rho)

    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """Tails: exact if listed, otherwise contour sums with a relative error of about 1e-8."""
        return self.law.tail(threshold)

    def above_ties(self, threshold: Floats) -> Floats:
        return self.law.above_ties(threshold)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        return self.coarse.law.expect(function)

    @property
    def kl_divergence(self) -> float:
        """rho: the mean loss of a discrete Gaussian release equals its zCDP parameter."""
        return self.rho

    def log_moment(self, order: float) -> float:
        return log_moment(self.kinds, self.variance, order)

    @property
    def swapped(self) -> DiscreteGaussianLoss:
        return self

    @property
    def maximum(self) -> float:
        return float("inf")


def _mixed(atoms: LatticeLoss, rest: PrivacyLoss | None) -> PrivacyLoss:
    """Mixture of a list and another loss; cost is proportional to the atoms, so of two lists the shorter is mixed."""
    if rest is None:
        return atoms
    if isinstance(rest.law, LatticeLoss) and rest.law.losses.size < atoms.losses.size:
        return MixedLoss(rest.law, atoms)
    return MixedLoss(atoms, rest)


def _span(family: Family) -> float:
    """Number of values of one noise variable with probability above exp(-745)."""
    return float(2.0 * np.sqrt(2.0 * _LISTED_NATS / float(family.v)) + 1.0)


def _work(family: Family) -> float:
    """Number of multiplications in the convolution of a family's copies."""
    return float(family.copies * _span(family) ** 2) if family.copies > 1 else 0.0


# A thousand releases take seconds, and an audit requests the same list several times.
@lru_cache(maxsize=4)
def _family_lattice(family: Family) -> LatticeLoss:
    """List of one family's losses, by convolution of the noise in extended precision, for its range of exponents."""
    v, a, n = float(family.v), family.shift, family.copies
    reach = int(np.ceil(np.sqrt(2.0 * _LISTED_NATS / v)))
    x = np.arange(-reach - a, reach + 1, dtype=np.longdouble)
    one = np.exp(-0.5 * v * x * x - float(log_theta(v / 2.0)))
    total = repeat_product(one, n, np.ones(1, np.longdouble), np.convolve)
    loss = v * (n * a * a + 2.0 * a * (n * x[0] + np.arange(total.size, dtype=np.longdouble))) / 2.0
    with np.errstate(divide="ignore"):
        log_p = np.log(total)
    # Q is P shifted by n a. A mass under P that underflows is recovered from that under Q.
    log_q = np.where(log_p > -FAR, log_p - loss, np.append(log_p[n * a :], np.full(n * a, -np.inf)))
    log_p = np.where(log_p > -FAR, log_p, log_q + loss)
    return LatticeLoss(*merge_atoms(as_array(loss), as_array(log_p), as_array(log_q)), bounded=False)
