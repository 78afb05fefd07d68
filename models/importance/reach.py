r"""Fit of draws to a release, against points far from all of them, and calibrated on releases of the model itself.

.. math:: \lambda_i(y) = \log p(y, \text{side data} \mid \theta_i), \qquad
          G(y) = \max_{\text{far points}} \lambda(y) - \max_{\text{draws}} \lambda(y)

The best draw has to explain a release hardly worse than draws explain releases of their own. Of many released cells
this alone shows little: :math:`\lambda` has a spread of its own then, :math:`\sqrt{n / 2}` nats for n cells of
Gaussian noise, in which a part of the prior that no draw reaches can hide. In G this spread cancels, since all points
have it in common. So a release is not explained either where points far away explain it better, by more than they do
releases of the model.

Hardly seen in G is a far point f that the prior holds improbable and that explains the release much better than draws
do: both may have the same joint density. So the place around each far point is added to what draws explain, as if it
were as wide as the posterior of the draws:

.. math:: \Delta = \log(1 + s_1) - \log(1 + s_0), \qquad
          s_t = \frac{e^{J_t(f) - E[J \mid y]}}{P(t \mid y)}, \qquad J_t = \log p(\theta, t, y)

:math:`\Delta` is how far the log odds move. It counts as their error, over the root of the number of draws that this
place should have, until there are so many that their own weights show the error.
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
"""Number of releases of the model itself that may be explained worse than the limit."""
SLACK = 7.0
"""Nats by which a release may be explained worse than that. Of 1,500 releases that each of ten models of the tests made
itself, 3 nats refuse up to 2.7 in a thousand, 5 up to 0.7 and 7 none; only a funnel, whose neck no draw reaches, loses
6.7 with 5 nats and with 10 alike. A part of the prior without draws can outweigh those that explain a release so badly
only where it has a share of exp(-7) or more: of 10,000 draws nine or more should have been there."""
LARGEST_LOSS = 1e-4
"""Share of the prior that no draw may stand for, because numbers round to the end of a support."""
FAR = 1000
"""Points far from the draws."""
LARGEST_MISSED = 0.1
"""Nats by which the place of a far point may move the log odds."""
COVERED = 100.0
"""Draws in the place of a far point from which on their weights show what it says."""
NEGLIGIBLE_MISSED = 1e-3
"""Nats by which such a place may move the log odds before better proposals are tried."""
_SEEN = 10.0  # draws that a place should have for proposals to start from these and not from its far points
_ROUNDING = 1e-12
_FARTHEST = 100.0  # times a draw's distance from the median


@dataclass(frozen=True)
class Sample:
    """Draws of the latents that are not summed out, and their weights under one release.

    Parameters
    ----------
    values : (draw, *shape) each, on the scale of the model's value variables
    pure, table : terms of the density at these draws (None: not worked out), and of the release: see `Terms`
    answer : what they say of the target, and their weights
    explained : nats by which the best draw explains the release better (or, negative, worse) than draws of the prior
        explain releases of their own at worst: see `reach`
    lost : share of the prior that no draw stands for
    missed : nats by which the place of a far point moves the log odds; part of the answer's spread
    cut : posterior probability that a latent without a largest value is where its values are cut
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
        """This sample, whose log odds may be off by so much because of what no draw stands for."""
        if not np.isfinite(missed):
            return replace(self, missed=missed)
        answer = replace(self.answer, spread=float(np.hypot(self.answer.spread, missed)))
        return replace(self, answer=answer, missed=missed)

    @property
    def reliable(self) -> bool:
        """True where the answer may be used."""
        seen = self.lost <= LARGEST_LOSS and self.missed <= LARGEST_MISSED
        return self.answer.reliable and self.reached and seen

    @property
    def settled(self) -> bool:
        """True where it may be used, and draws and not what they miss decide on its error."""
        others = float(np.sqrt(max(self.answer.spread**2 - self.missed**2, 0.0))) if self.reliable else 0.0
        return self.reliable and self.missed <= max(others, NEGLIGIBLE_MISSED)

    def or_better(self, other: Sample) -> Sample:
        """The one that may be used, with the smaller error if both may; if neither, the one that explains better."""
        if self.reliable and other.reliable:
            return other if other.answer.spread < self.answer.spread else self
        return other if other.reliable or (other.explained > self.explained and not self.reliable) else self

    @property
    def reached(self) -> bool:
        """True where some draw explains the release."""
        return self.explained >= -SLACK and self.cut <= LARGEST_EDGE


@dataclass(frozen=True)
class Reach:
    """Limits that releases of the model itself keep.

    Parameters
    ----------
    fit : log likelihood of the best draw, for a release that is explained worse than most
    gain : nats by which the best far point explains a release better than the best draw, more than for most
    """

    fit: float
    gain: float

    @classmethod
    def of(cls, best: Floats, far: Floats, rare: int) -> Reach:
        """From the best draw's log likelihood of many releases, and the best far point's; all but so many keep it."""
        return cls(float(np.sort(best)[rare]), float(np.sort(best - far)[rare] * -1.0))

    def explained(self, best: float, far: float) -> float:
        """Nats by which a release is explained better, or worse if negative, than the limits have it."""
        return min(best - self.fit, self.gain + best - far) if best > -np.inf else -np.inf


@dataclass(frozen=True)
class FarPoints:
    """Points away from the median of draws, by up to a hundred times as much as these: in all cells, or in one.

    Parameters
    ----------
    terms : of the model
    values : (point, *shape) each, like the draws; none where nothing real is drawn
    log_prior, log_density : log density under the prior, and under what made the draws, (point,)
    """

    terms: Terms
    values: tuple[NDArray[Any], ...]
    log_prior: Floats
    log_density: Floats

    @classmethod
    def around(
        cls, terms: Terms, values: Sequence[NDArray[Any]], log_share: float, rng: np.random.Generator
    ) -> FarPoints:
        """Around the draws of a model's prior; `log_share` as `WeighedPrior` has it."""
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
        """These points and others."""
        pairs = zip(self.values, other.values, strict=True)
        values = tuple(np.concatenate(pair) for pair in pairs)
        densities = (np.concatenate([getattr(one, n) for one in (self, other)]) for n in ("log_prior", "log_density"))
        return FarPoints(self.terms, values, *densities)

    @cached_property
    def pure(self) -> Floats:
        """Terms of the density at the points that no release enters, (point, met)."""
        return self.terms.pure[0](self.values, self.log_prior.size, True)

    @property
    def points(self) -> Floats:
        """As points (point, cell)."""
        return stacked(self.values)

    def joint(
        self, released: Mapping[str, NDArray[Any]], table: Floats | None = None, every: int = 1
    ) -> tuple[Floats, Floats]:
        """Log joint density of all points, or every so many, and each release: (point, release) by hypothesis."""
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
        """Points with `log_density` under the draws' proposal or, without one, under the model without a release."""
        if draws.proposal is None:
            return replace(self, log_density=np.logaddexp(*(part[:, 0] for part in self.joint({}))))
        return replace(self, log_density=draws.proposal.log_density(self.points, self.log_prior))

    def counted(self, sample: Sample, joint: Sequence[Floats], log_joint: Floats) -> tuple[Sample, Worlds | None]:
        """A sample that counts what it misses at these points as error, and those that proposals may start from.

        Parameters
        ----------
        sample : of draws
        joint : log joint density of the points under each hypothesis, (point,) each
        log_joint : of the draws under both together, (draw,)
        """
        moved, expected, volume = self._missed(joint, log_joint, sample.answer)
        sample = sample.with_missed(float(moved.max(initial=0.0)))
        places = (moved > NEGLIGIBLE_MISSED) & (expected < np.log(_SEEN))
        if not places.any():
            return sample, None
        present, out = (part[places] for part in joint)
        both = np.logaddexp(present, out)  # all points of a place weigh as much as the heaviest of them
        density = np.full(both.size, logsumexp(both) - both.max() - volume - np.log(log_joint.size))
        return sample, Worlds(self.points[places], (present, out), density, density)

    def _missed(self, joint: Sequence[Floats], log_joint: Floats, answer: Hypotheses) -> tuple[Floats, Floats, float]:
        """Nats by which the place of each point may move the log odds, and logs of the number of draws that it should
        have and of the volume of a place: (point,), (point,) and one number."""
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
    with np.errstate(invalid="ignore"):  # draws of a proposal may be impossible under the prior
        likelihood, weights = (log_joint - part[:, None] for part in (log_prior, log_density))
        return np.asarray(np.where(weights > weights.max(axis=0) - SLACK, likelihood, -np.inf).max(axis=0))


def stacked(values: Sequence[NDArray[Any]]) -> Floats:
    """Values (draw, *shape) of each drawn latent as points (draw, cell)."""
    return np.concatenate([value.reshape(len(value), -1) for value in values], axis=1)


def unstacked(points: Floats, like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Points (draw, cell) as values (draw, *shape) of each drawn latent, like others in shape and type."""
    ends = np.cumsum([int(np.prod(value.shape[1:])) for value in like])[:-1]
    parts = zip(np.split(points, ends, axis=1), like, strict=True)
    return [part.reshape(-1, *value.shape[1:]).astype(value.dtype, copy=False) for part, value in parts]
