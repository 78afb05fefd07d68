r"""Diagnostics for posterior mass that no draw represents, calibrated on releases of the model itself.

.. math:: \lambda_i(y) = \log p(y, \text{side data} \mid \theta_i), \qquad
          G(y) = \max_{\text{far points}} \lambda(y) - \max_{\text{draws}} \lambda(y)

First check: the best draw must fit a release hardly worse than draws fit releases that the model itself generates. With
many released cells this check is weak, because :math:`\lambda` varies by :math:`\sqrt{n / 2}` nats for n cells of
Gaussian noise, and a lack of fit can hide in this variation. In G the variation cancels, since all points share it. So,
second check: far points must not fit the release better than the draws by more than they do for releases of the model.

G does not detect a far point f with a small prior density that fits the release much better than the draws: both can
have the same joint density. So, third check: a neighbourhood of each far point, taken to be as wide as the posterior of
the draws, is added to the evidence of the draws:

.. math:: \Delta = \log(1 + s_1) - \log(1 + s_0), \qquad
          s_t = \frac{e^{J_t(f) - E[J \mid y]}}{P(t \mid y)}, \qquad J_t = \log p(\theta, t, y)

:math:`\Delta` is the resulting change of the log odds. It counts as an error, divided by the square root of the number
of draws expected in this neighbourhood, until this number is so large that the draws' own weights show the error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from adversary.models.enumeration import LARGEST_EDGE

from .refinement import Worlds
from .smoothing import Hypotheses
from .terms import Terms

Floats = NDArray[np.float64]

RARE = 2
"""Number of the model's own releases that may fit worse than the limit."""

# Nats by which a release may fit worse than the limit. Of 1,500 own releases of each of ten models of the tests, a
# slack of 3 nats refuses up to 2.7 in a thousand, 5 nats up to 0.7, and 7 nats none; only for a funnel, whose neck
# no draw reaches, 6.7 are refused with 5 nats and with 10 alike. A part of the prior without draws can outweigh
# draws that fit so badly only if its share is exp(-7) or more: of 10,000 draws nine or more should have been there.
SLACK = 7.0

# Largest share of the prior that may be lost because draws round to the end of a support.
LARGEST_LOSS = 1e-4
FAR = 1000
"""Number of far points."""

# Largest change of the log odds, in nats, from the neighbourhood of a far point.
LARGEST_MISSED = 0.1

# Expected number of draws in the neighbourhood of a far point above which their own weights suffice.
COVERED = 100.0

# Change of the log odds, in nats, above which refined proposals are tried.
NEGLIGIBLE_MISSED = 1e-3
# Expected number of draws in a neighbourhood above which proposals start from draws instead of its far points.
_SEEN = 10.0
_ROUNDING = 1e-12
# Largest factor on a draw's distance from the median.
_FARTHEST = 100.0


@dataclass(frozen=True)
class Sample:
    """Draws of the latents that are not summed out, and their weights under one release.

    Parameters
    ----------
    values : draws (draw, *shape) of each latent, on the scale of the model's value variables
    pure, table : terms of the density at these draws (None: not computed), and of the release: see `Terms`
    answer : posterior of the target, and the weights
    explained : fit of the best draw relative to the limit, in nats; negative if it fits worse than nearly all of the
        model's own releases: see the module
    lost : share of the prior lost to rounding
    missed : change of the log odds, in nats, from the neighbourhoods of far points; included in the answer's spread
    cut : posterior probability that a latent without a largest value is at the end of its truncated support
    """

    values: Sequence[NDArray[Any]]
    pure: Floats | None
    table: Floats
    answer: Hypotheses
    explained: float
    lost: float = 0.0
    missed: float = 0.0
    cut: float = 0.0

    def with_missed(self, missed: float) -> Sample:
        """This sample with `missed` nats added in quadrature to the standard error of its log odds."""
        if not np.isfinite(missed):
            return replace(self, missed=missed)
        answer = replace(self.answer, spread=float(np.hypot(self.answer.spread, missed)))
        return replace(self, answer=answer, missed=missed)

    @property
    def reliable(self) -> bool:
        """True if all diagnostics allow the answer to be used."""
        seen = self.lost <= LARGEST_LOSS and self.missed <= LARGEST_MISSED
        return self.answer.reliable and self.reached and seen

    @property
    def settled(self) -> bool:
        """True if the answer is reliable and its error is mostly Monte Carlo error, not `missed` mass."""
        others = float(np.sqrt(max(self.answer.spread**2 - self.missed**2, 0.0))) if self.reliable else 0.0
        return self.reliable and self.missed <= max(others, NEGLIGIBLE_MISSED)

    def better_of(self, other: Sample) -> Sample:
        """The reliable sample; of two, the one with the smaller error; if neither is, the one with the better fit."""
        if self.reliable and other.reliable:
            return other if other.answer.spread < self.answer.spread else self
        return other if other.reliable or (other.explained > self.explained and not self.reliable) else self

    @property
    def reached(self) -> bool:
        """True if some draw fits the release and truncated supports are long enough."""
        return self.explained >= -SLACK and self.cut <= LARGEST_EDGE


@dataclass(frozen=True)
class FitLimits:
    """Limits of fit that nearly all of the model's own releases satisfy.

    Parameters
    ----------
    fit : lower limit on the log likelihood of the best draw
    gain : upper limit on the log likelihood of the best far point less that of the best draw, in nats
    """

    fit: float
    gain: float

    @classmethod
    def of(cls, best: Floats, far: Floats, rare: int) -> FitLimits:
        """Limits from the best log likelihood (release,) among draws and far points; `rare` releases violate each."""
        return cls(float(np.sort(best)[rare]), float(np.sort(best - far)[rare] * -1.0))

    def explained(self, best: float, far: float) -> float:
        """Margin in nats to the tighter of the two limits; negative if one is violated."""
        return min(best - self.fit, self.gain + best - far) if best > -np.inf else -np.inf


@dataclass(frozen=True)
class FarPoints:
    """Draws moved away from their median by factors of up to a hundred, in all cells or in one.

    Parameters
    ----------
    terms : compiled terms of the model
    values : points (point, *shape) of each latent; empty if no continuous latent is drawn
    log_prior, log_density : log density under the prior, and under the proposal of the draws, (point,)
    """

    terms: Terms
    values: tuple[NDArray[Any], ...]
    log_prior: Floats
    log_density: Floats

    @classmethod
    def around(
        cls, terms: Terms, values: Sequence[NDArray[Any]], log_share: float, rng: np.random.Generator
    ) -> FarPoints:
        """Far points around draws of a model's prior; `log_share` as in `WeighedPrior`."""
        kinds = [value.dtype.kind == "f" for value in values]
        if not any(kinds):
            return cls(terms, (), np.empty(0), np.empty(0))
        points, size = stacked(values), min(FAR, len(values[0]) // 10 + 1)
        cells = np.arange(points.shape[1])
        drawn = points[rng.integers(len(points), size=size)]
        factor = np.exp(rng.uniform(0.0, np.log(_FARTHEST), size))[:, None]
        one = rng.integers(cells.size, size=size)[:, None] == cells
        real = np.repeat(kinds, [value[0].size for value in values])
        moved = real & (one | (np.arange(size) % 2 == 0)[:, None])
        middle = np.median(points, axis=0)
        moved_points = unstacked(np.where(moved, middle + factor * (drawn - middle), drawn), values)
        with np.errstate(all="ignore"):
            log_prior = terms.base(moved_points, far=True) - log_share
        possible = np.isfinite(log_prior)
        log_prior = log_prior[possible]
        return cls(terms, tuple(value[possible] for value in moved_points), log_prior, log_prior)

    def joined(self, other: FarPoints) -> FarPoints:
        """Union of these far points and others."""
        pairs = zip(self.values, other.values, strict=True)
        values = tuple(np.concatenate(pair) for pair in pairs)
        densities = (np.concatenate([getattr(one, n) for one in (self, other)]) for n in ("log_prior", "log_density"))
        return FarPoints(self.terms, values, *densities)

    @cached_property
    def pure(self) -> Floats:
        """Terms of the density at the points that do not depend on a release, (point, met)."""
        return self.terms.pure[0](self.values, self.log_prior.size, True)

    @property
    def points(self) -> Floats:
        """The far points as one array (point, cell)."""
        return stacked(self.values)

    def joint(
        self, released: Mapping[str, NDArray[Any]], table: Floats | None = None, every: int = 1
    ) -> tuple[Floats, Floats]:
        """Log joint density (point, release) under each hypothesis, of all points or every `every`-th."""
        if not self.log_prior.size:
            none = np.empty((0, next((len(value) for value in released.values()), 1)))
            return none, none
        with np.errstate(all="ignore"):
            values, pure = [v[::every] for v in self.values], self.pure[::every]
            return self.terms.hypotheses(values, released, pure, table, far=True)

    def best(self, joint: Sequence[Floats], every: int = 1) -> Floats:
        """Largest log likelihood of each release among points (point, release), (release,)."""
        with np.errstate(all="ignore"):
            likelihood = np.logaddexp(*joint) - self.log_prior[::every, None]
        return np.asarray(likelihood.max(axis=0, initial=-np.inf))

    def made_by(self, draws: Worlds) -> FarPoints:
        """Far points with `log_density` under the draws' proposal or, without one, under the model with side data."""
        if draws.proposal is None:
            return replace(self, log_density=np.logaddexp(*(part[:, 0] for part in self.joint({}))))
        return replace(self, log_density=draws.proposal.log_density(self.points, self.log_prior))

    def counted(self, sample: Sample, joint: Sequence[Floats], log_joint: Floats) -> tuple[Sample, Worlds | None]:
        """Sample with the mass missed at these points counted as error, and the points that proposals may start from.

        Parameters
        ----------
        sample : weighted draws
        joint : log joint density of the points under each hypothesis, (point,) each
        log_joint : log joint density of the draws under both hypotheses together, (draw,)
        """
        moved, expected, volume = self._missed(joint, log_joint, sample.answer)
        sample = sample.with_missed(float(moved.max(initial=0.0)))
        places = (moved > NEGLIGIBLE_MISSED) & (expected < np.log(_SEEN))
        if not places.any():
            return sample, None
        present, out = (part[places] for part in joint)
        # Points of one neighbourhood get together the weight of the heaviest of them.
        both = np.logaddexp(present, out)
        density = np.full(both.size, logsumexp(both) - both.max() - volume - np.log(log_joint.size))
        return sample, Worlds(self.points[places], (present, out), density, density)

    def _missed(self, joint: Sequence[Floats], log_joint: Floats, answer: Hypotheses) -> tuple[Floats, Floats, float]:
        """Per point, the possible change of the log odds in nats and the log of the expected number of draws in its
        neighbourhood, (point,) each; and the log volume of a neighbourhood."""
        heavy = answer.weights > 0
        if not self.log_prior.size or not heavy.any():
            return np.zeros(self.log_prior.size), self.log_prior, 0.0
        size, typical = np.log(log_joint.size), float(answer.weights[heavy] @ log_joint[heavy])
        volume = answer.log_total - size - typical
        with np.errstate(all="ignore"):
            parts = zip(joint, (answer.present, answer.out), strict=True)
            gained = [np.logaddexp(0.0, np.where(j > -np.inf, j - typical - np.log(p), -np.inf)) for j, p in parts]
            there = size + self.log_density + volume
            moved = np.abs(gained[0] - gained[1]) * np.exp(-0.5 * np.maximum(there, 0.0))
        return np.where((there < np.log(COVERED)) & (moved > _ROUNDING), moved, 0.0), there, float(volume)


def best_of(log_joint: Floats, log_prior: Floats, log_density: Floats) -> Floats:
    """Largest log likelihood among the draws (draw, release) that carry weight, (release,)."""
    if log_density is log_prior:
        return np.asarray((log_joint - log_prior[:, None]).max(axis=0))
    # Draws of a proposal may be impossible under the prior: -inf - (-inf) is NaN, and not selected below.
    with np.errstate(invalid="ignore"):
        likelihood, weights = (log_joint - part[:, None] for part in (log_prior, log_density))
        return np.asarray(np.where(weights > weights.max(axis=0) - SLACK, likelihood, -np.inf).max(axis=0))


def stacked(values: Sequence[NDArray[Any]]) -> Floats:
    """Values (draw, *shape) of each drawn latent as points (draw, cell)."""
    return np.concatenate([value.reshape(len(value), -1) for value in values], axis=1)


def unstacked(points: Floats, like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Points (draw, cell) as values (draw, *shape) of each drawn latent, with the shapes and dtypes of `like`."""
    ends = np.cumsum([int(np.prod(value.shape[1:])) for value in like])[:-1]
    parts = zip(np.split(points, ends, axis=1), like, strict=True)
    return [part.reshape(-1, *value.shape[1:]).astype(value.dtype, copy=False) for part, value in parts]
