"""Terms of a model's log density compiled over many draws, states and releases at once.

Values of drawn latents have the axes (draw, 1, 1, *shape), states of the summed ones are constants (1, met, 1, *shape)
and releases come as (1, 1, release, *shape), so that a term is worked out over no more than it reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from adversary.models.enumeration import Compiled, Conditioned, compile_batches, sum_terms

Floats = NDArray[np.float64]

_CACHED = 2**17
"""Cells that the processor's own memory holds: of 20,000 rows of side data, six draws at once."""


@dataclass(frozen=True)
class Pure:
    """Terms that a drawn latent enters and no release; called with values (draw, *shape) of the drawn latents and their
    number, it gives (draw, met). `widest` is the largest number of cells that a term may have for one draw. Points that
    may be `far` from any draw of the prior need no density."""

    compiled: Compiled
    met: int
    widest: int

    @classmethod
    def of(cls, given: Conditioned, terms: Sequence[TensorVariable], few: Sequence[NDArray[Any]]) -> Pure:
        """Compile those of the terms that a drawn latent enters; `few` are the states met."""
        smooth = sum_terms(_smooth(given, terms))
        side = (rv for rv in given.model.observed_RVs if rv.name not in given.released)
        met = len(few[0]) if few else 1
        widest = max((int(rv.size.eval()) for rv in side), default=1)
        return cls(compile_batches([smooth], _drawn(given, 3), _substitutions(given, few)), met, met * widest)

    def __call__(self, draws: Sequence[NDArray[Any]], size: int, far: bool = False) -> Floats:
        found = np.empty((size, self.met))
        width = max(1, _CACHED // self.widest)
        for start in range(0, size, width):
            (part,) = self.compiled(*(d[start : start + width, None, None] for d in draws))
            found[start : start + width] = part.reshape(*part.shape[:2]) if part.ndim else part
        return _possible(found, far)


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
        data = [given.released[name] for name in names]
        every_state = {v: _constant(v, s[:, None]) for v, s in zip(given.latents.values(), every, strict=True)}
        over_all = {**_drawn(given, 3), **dict.fromkeys(data, (1, 1, None))}
        return cls(
            names,
            bool(mixed),
            compile_batches([sum_terms(mixed)], over_all, _substitutions(given, few)),
            compile_batches([sum_terms(plain)], dict.fromkeys(data, (1, None)), every_state),
        )

    def at(
        self, draws: Sequence[NDArray[Any]], pure: Floats, data: Sequence[NDArray[Any]], far: bool = False
    ) -> Floats:
        """Terms that a drawn latent enters, the pure ones (draw, met) given: (draw, met, release or 1)."""
        if not self.mixed:
            return pure[..., None]
        (mixed,) = self._mixed(*(d[:, None, None] for d in draws), *(d[:, None] for d in data))
        return _possible(pure[..., None] + mixed, far)

    def table(self, data: Sequence[NDArray[Any]], states: int) -> Floats:
        """All other terms: (state, release)."""
        (found,) = self._plain(*data)
        releases = max((d.shape[1] for d in data), default=1)
        return _possible(np.broadcast_to(found, (states, releases)))


def _smooth(given: Conditioned, terms: Sequence[TensorVariable]) -> list[TensorVariable]:
    """Those that a drawn latent enters."""
    drawn = set(given.continuous.values())
    return [term for term in terms if not drawn.isdisjoint(ancestors([term]))]


def _drawn(given: Conditioned, axes: int) -> dict[Any, tuple[int | None, ...]]:
    """Leading axes of the drawn latents, the first one for draws."""
    return dict.fromkeys(given.continuous.values(), (None, *[1] * (axes - 1)))


def _substitutions(given: Conditioned, few: Sequence[NDArray[Any]]) -> dict[TensorVariable, TensorVariable]:
    """The states met, (1, met, 1, *shape), of the summed latents."""
    return {v: _constant(v, s[None, :, None]) for v, s in zip(given.latents.values(), few, strict=True)}


def compiled_target(given: Conditioned, graph: TensorVariable, states: Sequence[NDArray[Any]]) -> Compiled:
    """Values of the target over draws and states."""
    held = {v: _constant(v, s[None]) for v, s in zip(given.latents.values(), states, strict=True)}
    return compile_batches([graph], _drawn(given, 2), held)


def compiled_back(given: Conditioned) -> Compiled:
    """Drawn latents on their own scale, from their values (draw, *shape) and those of the summed ones."""
    graphs = given.model.replace_rvs_by_values([given.model[name] for name in given.continuous])
    return compile_batches(graphs, dict.fromkeys([*given.continuous.values(), *given.latents.values()], (None,)))


def _possible(log_p: Floats, far: bool = False) -> Floats:
    """Log densities that are numbers; at points so far out that they overflow, minus infinity."""
    broken = np.isnan(log_p) | (log_p == np.inf)
    if not broken.any():
        return log_p
    if far:
        return np.where(broken, -np.inf, log_p)
    raise ValueError("the model's log density is not a number, or infinite, in some state of its latents")


def _constant(variable: TensorVariable, states: NDArray[Any]) -> TensorVariable:
    return pt.constant(states.astype(variable.dtype))
