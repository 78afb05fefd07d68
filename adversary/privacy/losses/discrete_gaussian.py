"""The loss of many discrete Gaussian releases at once: any widths, any multiplicities, and a Gaussian beside them.

One count moved by the whole number a under noise of parameter v = 1 / sigma^2 has the loss v (a^2 - 2 a x) / 2, x the
noise. Few releases are listed atom by atom; many go through the certified `Composition`.
"""

from __future__ import annotations

import math
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
    check_number,
    check_positive,
    check_probability,
    check_whole,
    labelled,
    log_theta,
    past_ties,
    scalar_or_array,
)
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses.analytic import GaussianLoss
from adversary.privacy.losses.contour import GOAL, RESOLUTION, Composition, Family, normal_form
from adversary.privacy.losses.dominating import default_nodes, lattice_above, lattice_below
from adversary.privacy.losses.lattice import FAR, LatticeLoss, convolve_lattices, merge_atoms, repeat_product
from adversary.privacy.losses.loss import Bracket, Expectation, PrivacyLoss
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

LISTED_POINTS = 20_000
"""So many lattice points may serve as nodes of an expectation."""

_LISTED_NATS = 745.0
_DIGITS = 2.3e-16


@dataclass(frozen=True, eq=False)
class DiscreteGaussianLoss(PrivacyLoss):
    """Loss of independent releases with discrete Gaussian noise (and of one Gaussian release), each moved by a shift.

    Parameters
    ----------
    families : (v, shift, copies): releases with sigma^2 = 1 / v, moved by `shift` people; v a Fraction or a float
    variance : mu^2 of a Gaussian release composed in
    goal : relative width aimed at by `bracket`; see `within`
    quick : whether to settle for a wider interval where the goal is costly

    >>> from fractions import Fraction
    >>> DiscreteGaussianLoss.of(Fraction(1, 2), shift=1, count=40).epsilon(1e-6).__round__(9)
    30.558062287
    """

    families: tuple[Family, ...]
    variance: float = 0.0
    goal: float = GOAL
    quick: bool = False

    @classmethod
    def of(cls, v: Fraction | float, shift: int = 1, count: int = 1) -> DiscreteGaussianLoss:
        """`count` releases of one kind."""
        check_positive("v", v)
        size = int(check_whole("shift", shift, minimum=1))
        return cls((Family(v, size, int(check_whole("count", count, minimum=1))),))

    def within(self, width: float) -> DiscreteGaussianLoss:
        """The same loss, its certified intervals aimed at this relative width."""
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
    def composition(self) -> Composition:
        """The certified engine of these releases."""
        variance = float(check_non_negative("variance", self.variance))
        return Composition(normal_form(self.families), variance, self.goal, self.quick)

    @property
    def rho(self) -> float:
        """zCDP of the releases together: sum of count shift^2 v / 2, and half the variance."""
        return self.composition.rho

    @cached_property
    def exact(self) -> PrivacyLoss | None:
        """The law atom by atom, where that is small; or, where a contour through all releases is costly, the coarsest
        of them atom by atom, mixed with the law of the others where that is light."""
        return self._atom_by_atom[0]

    @cached_property
    def _at_length(self) -> PrivacyLoss | None:
        """`exact`, or a mixture with a law that is not light: for profiles and tails, not for levels, which ask them
        thousands of numbers."""
        return self._atom_by_atom[1]

    @cached_property
    def _atom_by_atom(self) -> tuple[PrivacyLoss | None, PrivacyLoss | None]:
        """(`exact`, `_at_length`)."""
        unlisted = self._many or bool(self.variance)
        if unlisted and float(self.composition.families[-1].v) >= SHARP:
            return self._beside_sharp
        if unlisted and self.composition.easy is not None:
            return None, None
        families = sorted(self.composition.families, key=lambda family: -float(family.v) * family.shift)
        coarse: LatticeLoss | None = None
        heavy: PrivacyLoss | None = None
        for i, family in enumerate(families):
            if _work(family) > SUMMED:
                return None, heavy
            if family.copies * _span(family) * (coarse.losses.size if coarse else 1) > LISTED_ATOMS:
                return None, heavy
            one = _family_lattice(family)
            coarse = convolve_lattices(coarse, one) if coarse else one
            rest = DiscreteGaussianLoss(tuple(families[i + 1 :]), self.variance, self.goal)
            if unlisted and coarse.losses.size <= MIXED_ATOMS:
                if not rest.families:
                    return (self._beside_gaussian(coarse),) * 2
                if rest.composition.light:
                    return (_mixed(coarse, rest),) * 2
                if heavy is None and not self.quick and rest.composition.easy is not None:
                    heavy = MixedLoss(coarse, rest)
        return (None, heavy) if self.variance else (coarse, coarse)

    @property
    def _beside_sharp(self) -> tuple[PrivacyLoss | None, PrivacyLoss]:
        """The same where there are releases without noise worth the name: these are listed, whatever the others."""
        families = self.composition.families
        sharp = reduce(convolve_lattices, [_family_lattice(family) for family in families if float(family.v) >= SHARP])
        others = tuple(family for family in families if float(family.v) < SHARP)
        if not others:
            return (self._beside_gaussian(sharp),) * 2
        rest = DiscreteGaussianLoss(others, self.variance, self.goal, self.quick)
        mixed = MixedLoss(sharp, rest) if self.quick else _mixed(sharp, rest)
        return (mixed if self.quick or rest.exact is not None or rest.composition.light else None), mixed

    def _beside_gaussian(self, lattice: LatticeLoss) -> PrivacyLoss:
        """What is listed, and the Gaussian release if there is one."""
        return MixedLoss(lattice, GaussianLoss(math.sqrt(self.variance))) if self.variance else lattice

    @property
    def _many(self) -> bool:
        """Whether the law is too large to be listed."""
        families = self.composition.families
        atoms = np.prod([family.copies * _span(family) for family in families])
        return bool(atoms > LISTED_ATOMS or max(map(_work, families)) > SUMMED)

    @property
    def bracket(self) -> Bracket:
        if self._at_length is not None:
            return self._at_length.bracket
        return Bracket(of_delta=self._delta, of_power=self._power, of_tail=lambda t: (self.tail(t)[0],) * 2)

    def _delta(self, epsilon: ArrayLike) -> tuple[Any, Any]:
        low, high = self.composition.delta(check_number("epsilon", epsilon))
        return scalar_or_array(low), scalar_or_array(high)

    def _power(self, level: ArrayLike) -> tuple[Any, Any]:
        low, high = self.composition.power(check_probability("level", level))
        return scalar_or_array(low), scalar_or_array(high)

    @labelled
    def delta(self, epsilon: ArrayLike) -> Any:
        """Exact where the law is listed, else the upper end of the certified bracket; `power` likewise."""
        if self._at_length is not None:
            return self._at_length.delta(epsilon)
        return scalar_or_array(self.composition.upper(check_number("epsilon", epsilon)))

    @labelled
    def power(self, level: ArrayLike) -> Any:
        return self._at_length.power(level) if self._at_length is not None else self._power(level)[1]

    @labelled
    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon >= 0 at which the upper end of the bracket is at most delta; inf at 0.

        Below the numerical resolution, `RESOLUTION`, it is `pbdp_epsilon(delta)`, an upper bound from the moments.
        """
        target = check_probability("delta", delta)
        if self._at_length is not None:
            return self._at_length.epsilon(scalar_or_array(target))
        found = np.full(target.shape, np.inf)
        inner, beyond = target >= RESOLUTION, (target > 0.0) & (target < RESOLUTION)
        if inner.any():
            found[inner] = self.composition.epsilon(target[inner])
        small: Any = target[beyond]
        if small.size:
            found[beyond] = self.pbdp_epsilon(small)
        return scalar_or_array(found)

    @property
    def auc(self) -> float:
        if self.exact is not None:
            return self.exact.auc
        return area_under(self.lightly, 401)

    @labelled
    def level(self, power: ArrayLike) -> Any:
        law = self.lightly
        if law.exact is not None:
            return law.exact.level(power)
        return scalar_or_array(law.composition.level(check_probability("power", power)))

    @cached_property
    def _readily(self) -> DiscreteGaussianLoss:
        """The same law for tails: less sharp, where revivals make the goal costly."""
        return self if self.composition.easy is not None else self.lightly

    @cached_property
    def lightly(self) -> DiscreteGaussianLoss:
        if self.quick or self.exact is not None or self.composition.light:
            return self
        return DiscreteGaussianLoss(self.families, self.variance, max(self.goal, 1e-8), quick=True)

    @property
    def reach(self) -> float:
        """Chernoff's bound: beyond it delta is below 1e-18."""
        return self.rho + 2.0 * float(np.sqrt(41.5 * self.rho))

    @labelled
    def tail(self, threshold: ArrayLike) -> tuple[Any, Any]:
        """Exact where the law is listed; else contour sums, good to about 1e-8 of themselves."""
        if self._at_length is not None:
            return self._at_length.tail(threshold)
        p, q = self._readily.composition.tails(self.past_ties(check_number("threshold", threshold)))
        return scalar_or_array(p), scalar_or_array(q)

    def past_ties(self, threshold: Floats) -> Floats:
        listed = self._at_length
        return past_ties(threshold, _DIGITS * self.rho) if listed is None else listed.past_ties(threshold)

    @cached_property
    def _cells(self) -> tuple[LatticeLoss, LatticeLoss]:
        lightly = self.lightly
        nodes, step = default_nodes(self), lightly.composition.route[0].step
        if step and (nodes[-1] - nodes[0]) / step <= LISTED_POINTS:  # every lattice point a node: the law itself
            index = np.ceil((nodes[[0, -1]] - self.rho) / step)
            points = self.rho + step * np.arange(index[0], index[1] + 1.0)
            whole = lattice_above(lightly, np.union1d(points[np.abs(points) > 1e-6 * step], [0.0]))
            return whole, whole
        return lattice_below(lightly, 0.5 * (nodes[1:] + nodes[:-1])), lattice_above(lightly, nodes)

    def expect(self, function: Expectation) -> tuple[Any, Any]:
        """Exact where listed. Else from the binned law and the connected one, whose errors are as -1 to 2."""
        if self.exact is not None:
            return self.exact.expect(function)
        below, above = (law.expect(function) for law in self._cells)
        p, q = ((2.0 * as_array(x) + as_array(y)) / 3.0 for x, y in zip(below, above, strict=True))
        return scalar_or_array(p), scalar_or_array(q)

    @property
    def kl_divergence(self) -> float:
        """rho: every release's mean loss is its zCDP."""
        return self.rho

    def log_moment(self, order: float) -> float:
        """Sum of v a^2 order (order + 1) / 2 + log Theta(a order) / Theta(0), Theta a theta series with period 1."""
        total = 0.5 * self.variance * order * (order + 1.0)
        for v, shift, count in self.composition.families:
            half = float(v) / 2.0
            fraction = shift * order - round(shift * order)
            waves = float(log_theta(half, float(fraction))) - float(log_theta(half))
            total += count * (half * shift**2 * order * (order + 1.0) + min(waves, 0.0))
        return total

    @property
    def swapped(self) -> DiscreteGaussianLoss:
        return self

    @property
    def maximum(self) -> float:
        return float("inf")


def _mixed(coarse: LatticeLoss, rest: DiscreteGaussianLoss) -> MixedLoss:
    """Both together: one law for every atom of the other, so of the shorter of two lists."""
    listed = rest.exact
    if isinstance(listed, LatticeLoss) and listed.losses.size < coarse.losses.size:
        return MixedLoss(listed, coarse)
    return MixedLoss(coarse, rest)


def _span(family: Family) -> float:
    """How many values of one noise carry more than exp(-745)."""
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
