"""Terms of a model's log density compiled over many draws, states and releases at once.

Values of drawn latents have the axes (draw, 1, 1, *shape), states of the summed ones are constants (1, met, 1, *shape)
and releases come as (1, 1, release, *shape), so that a term is worked out over no more than it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import NUMPY_MODE, Conditioned, sum_terms, vectorize

Floats = NDArray[np.float64]
Compiled = Callable[..., list[NDArray[Any]]]

_CACHED = 2**17
"""Cells that the processor's own memory holds: of 20,000 rows of side data, six draws at once."""


@dataclass(frozen=True)
class Pure:
    """Terms that a drawn latent enters and no release; called with values (draw, *shape) of the drawn latents and their
    number, it gives (draw, met). `widest` is the largest number of cells that a term may have for one draw."""

    compiled: Compiled
    met: int
    widest: int

    @classmethod
    def of(cls, given: Conditioned, terms: Sequence[TensorVariable], few: Sequence[NDArray[Any]]) -> Pure:
        """Compile those of the terms that a drawn latent enters; `few` are the states met."""
        smooth, places, held = _smooth(given, terms), _places(given), _substitutions(given, few)
        side = (rv for rv in given.model.observed_RVs if rv.name not in given.released)
        met = len(few[0]) if few else 1
        widest = max((int(rv.size.eval()) for rv in side), default=1)
        graphs = vectorize([sum_terms(smooth)], {**held, **places})
        return cls(_function(list(places.values()), graphs), met, met * widest)

    def __call__(self, draws: Sequence[NDArray[Any]], size: int) -> Floats:
        found = np.empty((size, self.met))
        width = max(1, _CACHED // self.widest)
        for start in range(0, size, width):
            (part,) = self.compiled(*(d[start : start + width, None, None] for d in draws))
            found[start : start + width] = part.reshape(*part.shape[:2]) if part.ndim else part
        return _finite_or_raise(found)


@dataclass(frozen=True)
class Group:
    """Terms that are added up and read a release, or no drawn latent.

    `names` are the releases they may read; `mixed` says whether a term reads both a drawn latent and a release.
    """

    names: tuple[str, ...]
    mixed: bool
    _mixed: Compiled
    _plain: Compiled

    @classmethod
    def of(
        cls,
        given: Conditioned,
        terms: Sequence[TensorVariable],
        few: Sequence[NDArray[Any]],
        every: Sequence[NDArray[Any]],
        names: tuple[str, ...],
    ) -> Group:
        """Compile over draws, states and releases; `few` are the states met, `every` all of them."""
        released = {given.released[name] for name in names}
        smooth = _smooth(given, terms)
        plain = [term for term in terms if term not in smooth]
        mixed = [term for term in smooth if not released.isdisjoint(ancestors([term]))]
        places, held = _places(given), _substitutions(given, few)
        data = {given.released[name]: _tensor(given.released[name], (1, 1, None)) for name in names}
        graphs = vectorize([sum_terms(mixed)], {**held, **places, **data})
        full = {v: _constant(v, s[:, None]) for v, s in zip(given.latents.values(), every, strict=True)}
        rows = {v: _tensor(v, (1, None)) for v in data}
        (flat,) = vectorize([sum_terms(plain)], {**full, **rows})
        return cls(
            names,
            bool(mixed),
            _function([*places.values(), *data.values()], graphs),
            _function(list(rows.values()), [flat]),
        )

    def at(self, draws: Sequence[NDArray[Any]], pure: Floats, data: Sequence[NDArray[Any]]) -> Floats:
        """Terms that a drawn latent enters, the pure ones (draw, met) given: (draw, met, release or 1)."""
        if not self.mixed:
            return pure[..., None]
        (mixed,) = self._mixed(*(d[:, None, None] for d in draws), *(d[:, None] for d in data))
        return _finite_or_raise(pure[..., None] + mixed)

    def table(self, data: Sequence[NDArray[Any]], states: int) -> Floats:
        """All other terms: (state, release)."""
        (found,) = self._plain(*data)
        releases = max((d.shape[1] for d in data), default=1)
        return _finite_or_raise(np.broadcast_to(found, (states, releases)))


def _smooth(given: Conditioned, terms: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Those that a drawn latent enters."""
    drawn = set(given.continuous.values())
    return [term for term in terms if not drawn.isdisjoint(ancestors([term]))]


def _places(given: Conditioned) -> dict[TensorVariable, TensorVariable]:
    """Inputs (draw, 1, 1, *shape) for the drawn latents."""
    return {v: _tensor(v, (None, 1, 1)) for v in given.continuous.values()}


def _substitutions(given: Conditioned, few: Sequence[NDArray[Any]]) -> dict[TensorVariable, TensorVariable]:
    """The states met, (1, met, 1, *shape), of the summed latents."""
    return {v: _constant(v, s[None, :, None]) for v, s in zip(given.latents.values(), few, strict=True)}


def compiled_target(given: Conditioned, graph: TensorVariable, states: Sequence[NDArray[Any]]) -> Compiled:
    """Values of the target over draws and states."""
    places = {v: _tensor(v, (None, 1)) for v in given.continuous.values()}
    held = {v: _constant(v, s[None]) for v, s in zip(given.latents.values(), states, strict=True)}
    return _function(list(places.values()), vectorize([graph], {**held, **places}))


def compiled_back(given: Conditioned) -> Compiled:
    """Drawn latents on their own scale, from their values (draw, *shape) and those of the summed ones."""
    places = {v: _tensor(v, (None,)) for v in (*given.continuous.values(), *given.latents.values())}
    graphs = given.model.replace_rvs_by_values([given.model[name] for name in given.continuous])
    return _function(list(places.values()), vectorize(graphs, places) if graphs else [])


def _finite_or_raise(log_p: Floats) -> Floats:
    if np.isnan(log_p).any() or (log_p == np.inf).any():
        raise ValueError("the model's log density is not a number, or infinite, in some state of its latents")
    return log_p


def _tensor(variable: TensorVariable, leading: tuple[int | None, ...]) -> TensorVariable:
    return pt.tensor(dtype=variable.dtype, shape=(*leading, *variable.type.shape))


def _constant(variable: TensorVariable, states: NDArray[Any]) -> TensorVariable:
    return pt.constant(states.astype(variable.dtype))


def _function(inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Compiled:
    compiled: Compiled = pytensor.function(inputs, outputs, mode=NUMPY_MODE, on_unused_input="ignore")
    return compiled
