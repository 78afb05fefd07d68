r"""How well draws explain a release, next to points far from all of them, and measured on releases of the model itself.

.. math:: \lambda_i(y) = \log p(y, \text{side data} \mid \theta_i), \qquad
          G(y) = \max_{\text{far points}} \lambda(y) - \max_{\text{draws}} \lambda(y)

The best draw has to explain a release hardly worse than draws explain releases of their own. Of many released cells
this alone shows little: :math:`\lambda` has a spread of its own then, :math:`\sqrt{n / 2}` nats for n cells of
Gaussian noise, in which a part of the prior that no draw reaches can hide. In G this spread cancels, since all points
have it in common. So a release is not explained either where points far away explain it better, by more than they do
releases of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .smoothing import Hypotheses
from .terms import Terms

Floats = NDArray[np.float64]

RARE = 2
"""So many releases of the model itself may be explained worse than the limit."""
SLACK = 7.0
"""Nats by which a release may be explained worse than that. Of 1,500 releases that each of ten models of the tests made
itself, 3 nats refuse up to 2.7 in a thousand, 5 up to 0.7 and 7 none; only a funnel, whose neck no draw reaches, loses
6.7 with 5 nats and with 10 alike. A part of the prior without draws can outweigh those that explain a release so badly
only where it has a share of exp(-7) or more: of 10,000 draws nine or more should have been there."""
LARGEST_LOSS = 1e-4
"""Share of the prior that no draw may stand for, because numbers round to the end of a support."""
FAR = 1000
"""Points far from the draws."""
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
    """

    values: Sequence[NDArray[Any]]
    pure: Floats | None
    table: Floats
    answer: Hypotheses
    explained: float
    lost: float = 0.0

    @property
    def reliable(self) -> bool:
        """True where the answer may be used."""
        return self.answer.reliable and self.reached and self.lost <= LARGEST_LOSS

    @property
    def reached(self) -> bool:
        """True where some draw explains the release."""
        return self.explained >= -SLACK


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
    log_prior : log density under the prior, (point,)
    """

    terms: Terms
    values: tuple[NDArray[Any], ...]
    log_prior: Floats

    @classmethod
    def around(
        cls, terms: Terms, values: Sequence[NDArray[Any]], log_share: float, rng: np.random.Generator
    ) -> FarPoints:
        """Around the draws of a model's prior; `log_share` as `WeighedPrior` has it."""
        kinds = [value.dtype.kind == "f" for value in values]
        if not any(kinds):
            return cls(terms, (), np.empty(0))
        points, size = stacked(values), min(FAR, len(values[0]) // 10 + 1)
        cells = np.arange(points.shape[1])
        drawn = points[rng.integers(len(points), size=size)]
        factor = np.exp(rng.uniform(0.0, np.log(_FARTHEST), size))[:, None]
        one = rng.integers(cells.size, size=size)[:, None] == cells
        real = np.repeat(kinds, [value[0].size for value in values])
        moved = real & (one | (np.arange(size) % 2 == 0)[:, None])
        middle = np.median(points, axis=0)
        found = unstacked(np.where(moved, middle + factor * (drawn - middle), drawn), values)
        with np.errstate(all="ignore"):
            log_prior = terms.base(found, far=True) - log_share
        possible = np.isfinite(log_prior)
        return cls(terms, tuple(value[possible] for value in found), log_prior[possible])

    def joined(self, other: FarPoints) -> FarPoints:
        """These points and others."""
        pairs = zip(self.values, other.values, strict=True)
        values = tuple(np.concatenate(pair) for pair in pairs)
        return FarPoints(self.terms, values, np.concatenate([self.log_prior, other.log_prior]))

    def best(self, released: Mapping[str, NDArray[Any]], table: Floats | None = None, every: int = 1) -> Floats:
        """Largest log likelihood of each release, (release,), among all points or every so many of them."""
        if not self.log_prior.size:
            return np.full(next((len(value) for value in released.values()), 1), -np.inf)
        values = [value[::every] for value in self.values]
        with np.errstate(all="ignore"):
            joint = np.logaddexp(*self.terms.hypotheses(values, released, None, table, far=True))
        return np.asarray((joint - self.log_prior[::every, None]).max(axis=0))


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
