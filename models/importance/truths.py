"""Releases of a model under a truth, which fixes some latents, by likelihood weighting.

Worlds (joint draws of all variables) are drawn with the named latents held at their values. Their weights are the
probability of these values and of the side data, times the model's potentials. Draws outside the range of a latent's
transform are excluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.distributions.distribution import Discrete
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import check_truth, sum_terms

from .latent_draws import outside_support
from .prior_predictive import PriorPredictive

# Worlds per release wanted, in each try.
_WORLDS = 4
_TRIES = 50
# Smallest effective number of worlds per release wanted.
_FEWEST = 0.5
# Worlds of the first tries, and their cells of side data.
_FEWEST_PROBED, _CELLS_PROBED = 400, 2**22
# After _FIRST tries the loop stops if even _SLACK times the current yield would not suffice.
_FIRST, _SLACK = 3, 4.0


class RareTruth(ValueError):
    """Error for a truth with too small an effective number of prior draws."""


def releases_of_worlds(
    model: pm.Model, truth: Mapping[str, Any], released: Sequence[str], draws: int, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Releases under a truth that is not too rare under the prior; parameters and result as in `releases_under`.

    Raises
    ------
    ValueError : a name that is neither latent nor deterministic, or a value of the wrong shape
    RareTruth : the truth is impossible, or too improbable to draw, under the model

    Examples
    --------
    >>> with pm.Model() as model:
    ...     present = pm.Bernoulli("in", np.float64(0.5))
    ...     noisy = pm.Normal("noisy", np.float64(100.0) * present, np.float64(1.0))
    >>> bool((releases_of_worlds(model, {"in": 1}, ["noisy"], 50, np.random.default_rng(1))["noisy"] > 90).all())
    True
    """
    held, awaited = _held_and_awaited(model, truth, released)
    log_weight = _log_weight(model, held, released)
    graphs = {f"released {name}": model[name] for name in released}
    graphs |= {f"asked {name}": model[name] for name in awaited} | {"log weight": log_weight}
    worlds = PriorPredictive.of(model, (), graphs, held={model[n]: v for n, v in held.items()})
    parts: list[dict[str, NDArray[Any]]] = []
    rows = sum(int(rv.size.eval()) for rv in model.observed_RVs)
    # The first tries are small if side data have many rows: a hopeless truth is then refused cheaply.
    few = min(_WORLDS * draws, max(_FEWEST_PROBED, _CELLS_PROBED // max(rows, 1)))
    for tries in range(1, _TRIES + 1):
        drawn, _ = worlds.draw(few if tries <= _FIRST else _WORLDS * draws, rng)
        parts.append(drawn)
        every = {name: np.concatenate([part[name] for part in parts]) for name in drawn}
        weights = _weights(every, awaited)
        effective = weights.sum() ** 2 / max((weights**2).sum(), 1e-300)
        if effective >= _FEWEST * draws:
            break
        most = len(weights) + (_TRIES - tries) * _WORLDS * draws
        if tries >= _FIRST and _SLACK * effective * most / len(weights) < _FEWEST * draws:
            break
    if effective < _FEWEST * draws:
        raise RareTruth(
            f"of {len(weights)} worlds of the model only {effective:.0f} are as the truth says: name more of its "
            "latents in the truth, or check that the model holds it possible"
        )
    place = _resample(weights, draws, rng)
    return {name: every[f"released {name}"][place] for name in released}


def releases_given(
    model: pm.Model,
    latents: Mapping[str, NDArray[Any]],
    released: Sequence[str],
    rng: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Draw one release for each joint draw of all latents, in order.

    Parameters
    ----------
    model : pymc.Model with its release left free
    latents : draws (draw, *shape) of every latent, by name
    released : names of the released variables
    rng : generator

    Returns
    -------
    dict of released variable to array (release, *shape).
    """
    number = len(next(iter(latents.values())))
    place = _InOrder.dist([np.int64(number)])
    held = {
        model[name]: pt.constant(value.astype(model[name].dtype), dtype=model[name].dtype)[place]
        for name, value in latents.items()
    }
    return PriorPredictive.of(model, (), {name: model[name] for name in released}, held=held).draw(number, rng)[0]


class _InOrderRV(RandomVariable):
    """Index of the draw that a release belongs to: 0, 1, 2, ... in a vectorized draw, otherwise one at random."""

    name = "in_order"
    signature = "()->()"
    dtype = "int64"

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, number: Any, size: Any = None) -> NDArray[np.int64]:
        if size is None or len(size) == 0:
            return np.asarray(rng.integers(number), dtype=np.int64)
        return np.asarray(np.arange(np.prod(size)).reshape(tuple(size)) % number, dtype=np.int64)


class _InOrder(Discrete):
    """`_InOrderRV` as a PyMC distribution."""

    rv_op = _InOrderRV()


def _held_and_awaited(
    model: pm.Model, truth: Mapping[str, Any], released: Sequence[str]
) -> tuple[dict[str, TensorVariable], dict[str, NDArray[Any]]]:
    """Latents to hold fixed, and deterministics that draws must match."""
    values, awaited = check_truth(model, truth, released)
    held = {name: pt.constant(value, dtype=value.dtype) for name, value in values.items()}
    return held, awaited


def _log_weight(model: pm.Model, held: Mapping[str, TensorVariable], released: Sequence[str]) -> TensorVariable:
    """Log weight of a world: log probability of held latents and side data given the rest, plus potentials."""
    released_rvs = {model[name] for name in released}
    terms = [pm.logp(model[name], value, warn_rvs=False) for name, value in held.items()]
    terms += [outside_support(model, model[name], value) for name, value in held.items()]
    for rv in model.observed_RVs:
        if rv not in released_rvs and released_rvs.isdisjoint(ancestors([rv])):
            terms.append(pm.logp(rv, model.rvs_to_values[rv], warn_rvs=False))
    terms += [potential for potential in model.potentials if released_rvs.isdisjoint(ancestors([potential]))]
    return sum_terms(terms)


def _weights(worlds: Mapping[str, NDArray[Any]], awaited: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    log_weight = np.asarray(worlds["log weight"], dtype=np.float64)
    for name, value in awaited.items():
        same = (worlds[f"asked {name}"] == value).reshape(len(log_weight), -1).all(axis=1)
        log_weight = np.where(same, log_weight, -np.inf)
    top = log_weight.max()
    return np.exp(log_weight - top) if np.isfinite(top) else np.zeros(log_weight.size)


def _resample(weights: NDArray[np.float64], draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices of worlds resampled by weight, in random order; without replacement if the weights are equal."""
    weighted = np.flatnonzero(weights)
    if np.ptp(weights[weighted]) < 1e-12 and weighted.size >= draws:
        return rng.permutation(weighted)[:draws]
    return rng.choice(weights.size, draws, p=weights / weights.sum())
