"""The loss of many discrete Gaussian releases at once: any widths, any multiplicities, and a Gaussian beside them.

One count moved by the whole number a under noise of parameter v = 1 / sigma^2 has the loss v (a^2 - 2 a x) / 2, x the
noise. Once, by cost, the law that answers is chosen, and `loss.route` names it: all atoms listed; the coarsest of them
mixed with a law of the others; a certified contour; or a contour that is smoothed, where no other can be searched.
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
from adversary.privacy.losses.contour_loss import ContourLoss, chernoff_reach, log_moment
from adversary.privacy.losses.derived_answers import Bracket
from adversary.privacy.losses.lattice import FAR, NOTHING, LatticeLoss, convolve_lattices, merge_atoms, repeat_product
from adversary.privacy.losses.loss import Expectation, PrivacyLoss, Route
from adversary.privacy.losses.mixed import MixedLoss
from adversary.privacy.profiles import area_under

LISTED_ATOMS = 500_000
"""Products with at most so many pairs of atoms are listed."""

SUMMED = 2e7
"""Products that the convolution of one family may take."""

MIXED_ATOMS = 4_000
"""A lattice of so many atoms may be mixed with one more family, where no common lattice fits."""

SHARP = 100.0
"""From this v = 1 / sigma^2 on, noise is 0 but for a mass of 1e-21: its few losses are listed beside whatever else
there is, as they would stretch a contour's period beyond all nodes."""

_LISTED_NATS = 745.0


@dataclass(frozen=True, eq=False)
class DiscreteGaussianLoss(PrivacyLoss):
    """Loss of independent releases with discrete Gaussian noise (and of one Gaussian release), each moved by a shift.

    Parameters
    ----------
    families : (v, shift, copies): releases with sigma^2 = 1 / v, moved by `shift` people; v a Fraction or a float
    variance : mu^2 of a Gaussian release composed in
    goal : relative width aimed at by `bracket`; from `ROUGH` on a wider interval is taken where the goal is costly

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
        """`count` releases of one kind."""
        check_positive("v", v)
        size = int(check_whole("shift", shift, minimum=1))
        return cls((Family(v, size, int(check_whole("count", count, minimum=1))),))

    def within(self, width: float) -> DiscreteGaussianLoss:
        """Copy with certified intervals of this relative width as the goal."""
        return DiscreteGaussianLoss(self.families, self.variance, float(check_positive("width", width)))

    def beside(self, other: DiscreteGaussianLoss) -> DiscreteGaussianLoss:
        """Both releases together."""
        families, variance = self.families + other.families, self.variance + other.variance
        return DiscreteGaussianLoss(families, variance, min(self.goal, other.goal))

    def plus(self, other: Guarantee) -> DiscreteGaussianLoss | None:
        """The common case of a sum, without a look at all other kinds."""
        return self.beside(other) if isinstance(other, DiscreteGaussianLoss) else None

    def times(self, count: int) -> DiscreteGaussianLoss:
        """`count` such releases, at least one."""
        families = tuple(Family(v, shift, count * copies) for v, shift, copies in self.families)
        return DiscreteGaussianLoss(families, count * self.variance, self.goal)

    @cached_property
    def kinds(self) -> tuple[Family, ...]:
        """The families, those of one kind counted together."""
        return normal_form(self.families)

    @cached_property
    def rho(self) -> float:
        """zCDP of the releases together: sum of count shift^2 v / 2, and half the variance."""
        return total_rho(self.kinds, self.variance)

    @cached_property
    def law(self) -> PrivacyLoss:
        return self._listed or self._beside_sharp or self._contour or self._beside_coarse or self._last_contour

    @property
    def route(self) -> Route:
        return self.law.route

    @property
    def _listed(self) -> LatticeLoss | None:
        """Every atom, where even before equal ones are merged there are few."""
        atoms = np.prod([kind.copies * _span(kind) for kind in self.kinds])
        if self.variance or atoms > LISTED_ATOMS or max(map(_work, self.kinds)) > SUMMED:
            return None
        return next((atoms for atoms, rest in self._lists() if not rest), None)

    @property
    def _beside_sharp(self) -> PrivacyLoss | None:
        """Releases without noise worth the name listed, whatever the others."""
        sharp = [kind for kind in self.kinds if float(kind.v) >= SHARP]
        if not sharp:
            return None
        atoms = reduce(convolve_lattices, map(_family_lattice, sharp))
        return _mixed(atoms, self._rest(self.kinds[: -len(sharp)]))

    @cached_property
    def _contour(self) -> ContourLoss | None:
        """A contour, exact or with the least smoothing, that is searched and added up in no time."""
        return self._by_contour(LIGHT if self.goal >= ROUGH else EASY)

    @property
    def _beside_coarse(self) -> PrivacyLoss | None:
        """The coarsest releases listed, beside others whose contour is light, or else the first that has one; or all
        of them, where they are few once equal ones are merged."""
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
    def _last_contour(self) -> ContourLoss:
        """A contour that takes seconds a number, smoothed as much as that needs."""
        if contour := self._by_contour(EASY if self.goal >= ROUGH else MOST, widest=1.0):
            return contour
        raise ArithmeticError(f"no contour of {len(self.kinds)} scales can be searched; enumerate the losses")

    def _by_contour(self, most: Work, widest: float = 0.0) -> ContourLoss | None:
        made = compose_by_contour(self.kinds, self.variance, self.goal, most, widest)
        return ContourLoss(self.kinds, self.variance, made, self._coarser) if made else None

    def _lists(self) -> Iterator[tuple[LatticeLoss, tuple[Family, ...]]]:
        """The coarsest kinds listed together, one more each time, and the kinds left; while the lists are short."""
        kinds = sorted(self.kinds, key=lambda kind: -float(kind.v) * kind.shift)
        atoms = NOTHING
        for i, kind in enumerate(kinds):
            if _work(kind) > SUMMED or kind.copies * _span(kind) * atoms.losses.size > LISTED_ATOMS:
                return
            one = _family_lattice(kind)
            atoms = convolve_lattices(atoms, one) if i else one
            yield atoms, tuple(kinds[i + 1 :])

    def _rest(self, kinds: tuple[Family, ...]) -> PrivacyLoss | None:
        """The loss of these kinds, and of the Gaussian release."""
        if kinds:
            return DiscreteGaussianLoss(kinds, self.variance, self.goal)
        return GaussianLoss(math.sqrt(self.variance)) if self.variance else None

    @cached_property
    def _coarser(self) -> DiscreteGaussianLoss:
        return DiscreteGaussianLoss(self.kinds, self.variance, ROUGH)

    @property
    def rough(self) -> DiscreteGaussianLoss:
        return self if self.goal >= ROUGH or self.law.rough is self.law else self._coarser

    @property
    def bracket(self) -> Bracket:
        return self.law.bracket

    def delta(self, epsilon: ArrayLike) -> Any:
        """Exact where the law is listed, else the upper end of the certified bracket; `power` likewise."""
        return self.law.delta(epsilon)

    def power(self, level: ArrayLike) -> Any:
        return self.law.power(level)

    def epsilon(self, delta: ArrayLike) -> Any:
        return self.law.epsilon(delta)

    @property
    def auc(self) -> float:
        return self.law.auc if self.rough is self else area_under(self.rough, 401)

    def level(self, power: ArrayLike) -> Any:
        return self.rough.law.level(power)

    @property
    def reach(self) -> float:
        return chernoff_reach(self.rho)

    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """Exact where the law is listed; else contour sums, good to about 1e-8 of themselves."""
        return self.law.tail(threshold)

    def past_ties(self, threshold: Floats) -> Floats:
        return self.law.past_ties(threshold)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        return self.rough.law.expect(function)

    @property
    def kl_divergence(self) -> float:
        """rho: every release's mean loss is its zCDP."""
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
    """Both together: one law for every atom of the other, so of the shorter of two lists."""
    if rest is None:
        return atoms
    if isinstance(rest.law, LatticeLoss) and rest.law.losses.size < atoms.losses.size:
        return MixedLoss(rest.law, atoms)
    return MixedLoss(atoms, rest)


def _span(family: Family) -> float:
    """Number of values of one noise variable with mass above exp(-745)."""
    return float(2.0 * np.sqrt(2.0 * _LISTED_NATS / float(family.v)) + 1.0)


def _work(family: Family) -> float:
    """Products that the convolution of its copies takes."""
    return float(family.copies * _span(family) ** 2) if family.copies > 1 else 0.0


@lru_cache(maxsize=4)  # of a thousand releases it takes seconds, and audits ask for it again
def _family_lattice(family: Family) -> LatticeLoss:
    """Law of one family's loss, by convolution of the noise; in extended precision, for its range of exponents."""
    v, a, n = float(family.v), family.shift, family.copies
    reach = int(np.ceil(np.sqrt(2.0 * _LISTED_NATS / v)))
    x = np.arange(-reach - a, reach + 1, dtype=np.longdouble)
    one = np.exp(-0.5 * v * x * x - float(log_theta(v / 2.0)))
    total = repeat_product(one, n, np.ones(1, np.longdouble), np.convolve)
    loss = v * (n * a * a + 2.0 * a * (n * x[0] + np.arange(total.size, dtype=np.longdouble))) / 2.0
    with np.errstate(divide="ignore"):
        log_p = np.log(total)
    # Q is P moved by n a: where noise is so narrow that a mass under P is too small, that under Q says it
    log_q = np.where(log_p > -FAR, log_p - loss, np.append(log_p[n * a :], np.full(n * a, -np.inf)))
    log_p = np.where(log_p > -FAR, log_p, log_q + loss)
    return LatticeLoss(*merge_atoms(as_array(loss), as_array(log_p), as_array(log_q)), bounded=False)
