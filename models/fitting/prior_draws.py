r"""What a model holds before the release: draws of its latents, and the probability of the target.

Latents are drawn as the model tells its story. Potentials that do not depend on the release, side data observed in the
model, and releases that are already known (exact levels) are no part of that story: they enter as weights,

.. math:: P(t = 1) = \frac{E[P(t = 1, \text{known} \mid \theta)]}{E[P(\text{known} \mid \theta)]}

over draws of the continuous latents :math:`\theta`; given those, the discrete latents are summed over. The draws of
:math:`\theta` are many and made all at once, so that this error is small beside that of a fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from adversary._core import blocks
from adversary.models.enumeration import NUMPY_MODE, Conditioned, summed, vectorized
from adversary.models.importance import PriorPredictive

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

DRAWS = 1000
"""Draws of all latents together from the prior."""

MANY = 30_000
"""Draws of the continuous latents alone, over which the prior of the target is averaged."""

FEWEST = 200
"""Effective number of these draws below which what is known beside the release leaves too few of them."""

_CELLS_AT_ONCE = 2**20
_SAME = 1e-12  # what a probability may vary by and still count as one number


@dataclass(frozen=True)
class Priors:
    """Draws of a model's latents, and the units in which its continuous ones are sampled.

    Parameters
    ----------
    layout : of the vector of continuous latents on the unconstrained scale: (name, place, shape) of each
    centre, scale : median and spread of that vector under the prior, its units
    values : draws (draw, *shape) of continuous latents on the unconstrained scale
    latents : draws (draw, *shape) of every latent on its own scale, together with these
    many : many more draws of the continuous latents, as in `values`
    """

    layout: tuple[tuple[str, slice, tuple[int, ...]], ...]
    centre: Floats
    scale: Floats
    values: Arrays
    latents: Arrays
    many: Arrays

    @classmethod
    def of(cls, given: Conditioned, rng: Any = None, draws: int = DRAWS) -> Priors:
        """Draw the latents; ValueError where a law has no draws, as an improper one."""
        variables = [given.model[name] for name in (*given.latents, *given.continuous)]
        unconstrained = [_unconstrained(given, name) for name in given.continuous]
        seeds = blocks.seed_sequence(rng).spawn(2)
        try:
            drawn = _drawn(given.model, [*variables, *unconstrained], draws, seeds[0])
            many = _drawn(given.model, unconstrained, MANY, seeds[1]) if unconstrained else []
        except NotImplementedError as error:
            raise ValueError(
                f"the model's latents cannot be drawn from their prior ({error}): give every latent a proper law"
            ) from error
        latents = dict(zip((*given.latents, *given.continuous), drawn, strict=False))
        values = dict(zip(given.continuous, drawn[len(variables) :], strict=True))
        layout, start = [], 0
        for name, value in values.items():
            size = math.prod(value.shape[1:])
            layout.append((name, slice(start, start + size), value.shape[1:]))
            start += size
        flat = [v.reshape(len(v), -1) for v in many]
        centre, scale = _units(np.concatenate(flat, axis=1)) if flat else (np.zeros(0), np.ones(0))
        return cls(tuple(layout), centre, scale, values, latents, dict(zip(values, many, strict=True)))

    @property
    def size(self) -> int:
        """Number of continuous cells."""
        return self.centre.size

    def split(self, points: Floats) -> list[Floats]:
        """Points (point, cell) in the prior's units as values on the unconstrained scale, (point, *shape) each."""
        vector = self.centre + self.scale * points
        return [vector[:, place].reshape(-1, *shape) for _, place, shape in self.layout]

    def weights(self, given: Conditioned, settled: Sequence[str] = (), row: Mapping[str, Any] | None = None) -> Floats:
        """Weight of every draw, mean one: what is known beside the release, and the releases named, at their `row`."""
        terms = given.given_terms(settled)
        size = next(iter(self.latents.values())).shape[0]
        if not terms:
            return np.ones(size)
        places, arrays = self._placed(given, (None,))
        data = {given.released[name]: _tensor(given.released[name], (1,)) for name in settled}
        (log_weight,) = vectorized([summed(terms)], {**places, **data})
        told = [np.asarray((row or {})[name], v.dtype)[None] for name, v in zip(settled, data, strict=True)]
        found = _function([*places.values(), *data.values()], [log_weight])(*arrays, *told)[0]
        log_weights = np.broadcast_to(found, (size,))
        if np.isneginf(log_weights).all():
            raise ValueError("no draw of the model's latents from their prior is possible under what else is known")
        weights = np.exp(log_weights - log_weights.max())
        return np.asarray(weights / weights.mean())

    def chance(
        self,
        given: Conditioned,
        states: Sequence[NDArray[np.int64]],
        one: NDArray[np.bool_],
        settled: Sequence[str] = (),
        row: Mapping[str, Any] | None = None,
    ) -> tuple[float, float]:
        """(P(target = 1) before the release, its Monte Carlo standard error: 0 where no draw changes it)."""
        inside, weight = self.shares(given, states, one, settled, row)
        if not weight.sum() > 0:
            raise ValueError("what is published exactly is impossible under the model")
        chance = float(inside.sum() / weight.sum())
        if np.ptp(inside) <= _SAME and np.ptp(weight) <= _SAME:
            return chance, 0.0
        effective = float(weight.sum() ** 2 / (weight**2).sum())
        if effective < FEWEST:
            raise ValueError(
                f"what the model knows beside the release leaves {effective:.0f} of {weight.size} draws of its "
                f"continuous latents, fewer than {FEWEST}, to average its prior over: put it into their laws instead"
            )
        return chance, float(np.sqrt(((inside - chance * weight) ** 2).sum()) / weight.sum())

    def shares(
        self,
        given: Conditioned,
        states: Sequence[NDArray[np.int64]],
        one: NDArray[np.bool_],
        settled: Sequence[str] = (),
        row: Mapping[str, Any] | None = None,
    ) -> tuple[Floats, Floats]:
        """(P(target = 1, known | theta), P(known | theta)) of many draws of the continuous latents theta, unscaled:
        the largest of the latter is one.

        `states` are those of the discrete latents, (state, 1, *shape) each, and `one` where the target is 1.
        """
        own, known = summed(given.own_terms()), summed(given.given_terms(settled))
        latents = {v: _tensor(v, (1, None)) for v in given.latents.values()}
        values = {given.continuous[n]: _tensor(given.continuous[n], (None, 1)) for n in self.many}
        data = {given.released[name]: _tensor(given.released[name], (1, 1)) for name in settled}
        outputs = vectorized([own, known], {**latents, **values, **data})
        density = _function([*latents.values(), *values.values(), *data.values()], outputs)
        told = [np.asarray((row or {})[name], v.dtype)[None, None] for name, v in zip(settled, data, strict=True)]
        grid = [np.swapaxes(s, 0, 1).astype(v.dtype) for s, v in zip(states, latents, strict=True)]
        every = list(self.many.values())
        shares = []
        size = every[0].shape[0] if every else 1
        width = max(1, _CELLS_AT_ONCE // one.size)
        for start in range(0, size, width):
            batch = [v[start : start + width, None] for v in every]
            shape = (batch[0].shape[0] if batch else 1, one.size)
            log_own, log_known = (np.broadcast_to(x, shape) for x in density(*grid, *batch, *told))
            shares.append(_shares(log_own, log_own + log_known, one.ravel()))
        log_shares = np.concatenate(shares, axis=1)
        top = log_shares.max()
        inside, weight = np.exp(log_shares - top) if np.isfinite(top) else np.zeros(log_shares.shape)
        return inside, weight

    def drawn(self, weights: Floats, size: tuple[int, int], rng: np.random.Generator) -> Arrays:
        """Draws of the latents from the weighted prior, (chain, draw, *shape)."""
        count = size[0] * size[1]
        if np.ptp(weights) > _SAME or count > weights.size:
            place = rng.choice(weights.size, count, p=weights / weights.sum())
        else:
            place = np.arange(count)
        return {name: value[place].reshape(*size, *value.shape[1:]) for name, value in self.latents.items()}

    def _placed(
        self, given: Conditioned, leading: tuple[int | None, ...]
    ) -> tuple[dict[TensorVariable, TensorVariable], list[NDArray[Any]]]:
        """Every latent's value over draws: a tensor for it, and the draws."""
        pairs = [(v, self.latents[n].astype(v.dtype)) for n, v in given.latents.items()]
        pairs += [(v, self.values[n]) for n, v in given.continuous.items()]
        return {v: _tensor(v, leading) for v, _ in pairs}, [array for _, array in pairs]


def _unconstrained(given: Conditioned, name: str) -> TensorVariable:
    """A continuous latent's own draw, carried to the scale on which it is sampled."""
    rv = given.model[name]
    transform = given.model.rvs_to_transforms[rv]
    return rv if transform is None else transform.forward(rv, *rv.owner.inputs)


def _units(draws: Floats) -> tuple[Floats, Floats]:
    """Median and half the width of the central 68 % of every column, over its finite draws."""
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(draws), draws, np.nan)
        low, centre, high = np.nan_to_num(np.nanquantile(finite, [0.16, 0.5, 0.84], axis=0))
    scale = 0.5 * (high - low)
    return centre, np.where(scale > 0, scale, 1.0)


def _shares(log_own: Floats, log_all: Floats, one: NDArray[np.bool_]) -> Floats:
    """Logs of [P(target = 1, known | theta), P(known | theta)] of every draw: (2, draw)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        base = logsumexp(log_own, axis=1)
        inside = logsumexp(np.where(one, log_all, -np.inf), axis=1)
        shares = np.stack([inside, logsumexp(log_all, axis=1)]) - base
    return np.asarray(np.where(np.isnan(shares), -np.inf, shares), dtype=np.float64)


def _drawn(
    model: pm.Model, graphs: Sequence[TensorVariable], draws: int, seed: np.random.SeedSequence
) -> list[NDArray[Any]]:
    """Joint draws (draw, *shape) of graphs of a model's variables."""
    named = {str(i): graph for i, graph in enumerate(graphs)}
    found, _ = PriorPredictive.of(model, (), named).draw(draws, np.random.default_rng(seed))
    return [found[name] for name in named]


def _tensor(variable: TensorVariable, leading: tuple[int | None, ...]) -> TensorVariable:
    return pt.tensor(dtype=variable.dtype, shape=(*leading, *variable.type.shape))


def _function(inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., Any]:
    compiled: Callable[..., Any] = pytensor.function(inputs, outputs, mode=NUMPY_MODE, on_unused_input="ignore")
    return compiled
