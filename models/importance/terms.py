r"""The log density of a model at many draws, states and releases at once, each term over no more than it reads.

.. math:: \log p(\theta, s, y) = a(\theta, s) + b(s) + \ell(s, y) + c(\theta, s, y)

:math:`\theta` are latents that are drawn, s the joint states of the others. States form a table (met, apart): latents
that meet a drawn one in some term, by all others; a and c are over the former only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from adversary.models.enumeration import Compiled, Conditioned, Grid, Slot, support_of

from .compiled_terms import Floats, Group, Pure, compiled_back, compiled_target

Arrays = dict[str, NDArray[Any]]

LARGEST_STATES = 200_000
"""Joint states of the discrete latents beyond which, in a model with continuous ones, the largest latent is drawn and
no longer summed out."""
LARGEST_JOINT = 2_000_000
"""The same in a model whose latents are all discrete."""
LARGEST_MET = 20_000
"""The same for states that are looked at for every draw."""
_CELLS_AT_ONCE = 2**21


@dataclass(frozen=True)
class Terms:
    """The compiled terms of a model, its latents parted into those drawn and those summed out.

    Parameters
    ----------
    given : the model; `continuous` has the value variables of all drawn latents, `latents` those of all summed ones
    slots : the released variables
    grid : joint states of the summed latents, (met, apart) in this order
    met : number of states of latents that meet a drawn one
    pure : compiled terms that a drawn latent enters and no release, and of these the log prior of the latents
    own : compiled log prior of the latents that no drawn one enters
    groups : compiled terms by the releases they take as known: none, those that are settled, and all
    one : compiled; whether the target is 1: (draw or 1, state or met)
    one_reads_draws : whether the target reads a drawn latent
    back : compiled; drawn latents on their own scale from their values and the states of the others
    smooth : terms that a drawn latent enters: of the joint density, and of what is known without the release
    """

    given: Conditioned
    slots: tuple[Slot, ...]
    grid: Grid
    met: int
    pure: tuple[Pure, Pure]
    own: Group
    groups: Mapping[tuple[str, ...], Group]
    one: Compiled
    one_reads_draws: bool
    back: Compiled
    smooth: tuple[list[TensorVariable], list[TensorVariable]]

    @classmethod
    def of(
        cls, given: Conditioned, target: str | None, support: Mapping[str, ArrayLike], settled: Sequence[str] = ()
    ) -> Terms:
        """Compile; `settled` are releases that already count as known before the others. Without a target none is 1."""
        graph = pt.constant(np.int64(0)) if target is None else given.values_of(target)
        if graph.ndim:
            raise ValueError(f"target {target!r} must be one number, 0 or 1, it has {graph.ndim} dimensions")
        terms = {names: [*given.own_terms(), *given.given_terms(names)] for names in ((), tuple(settled))}
        joint = list(given.model.logp(sum=False))
        terms[tuple(given.released)] = joint
        given = _split_states(given, [*joint, graph], graph, support)
        drawn = set(given.continuous.values())
        entered = [term for term in [*joint, graph] if not drawn.isdisjoint(ancestors([term]))]
        smooth = tuple([t for t in some if not drawn.isdisjoint(ancestors([t]))] for some in (joint, terms[()]))
        reached = set(ancestors(entered)) if entered else set()
        order = sorted(given.latents, key=lambda name: given.latents[name] not in reached)
        given = replace(given, latents={name: given.latents[name] for name in order})
        grid = Grid.over({name: support_of(given.model[name], support, given.moving) for name in given.latents})
        met = int(np.prod([len(a) for name in order if given.latents[name] in reached for a in grid.axes[name]]))
        states = grid.states(0, grid.size)
        few = [s[:: grid.size // met, 0] for s in states]
        every = [s[:, 0] for s in states]
        reads = not drawn.isdisjoint(ancestors([graph]))
        own, known = given.own_terms(), given.given_terms()
        groups = {names: Group.of(given, some, few, every, names) for names, some in terms.items()}
        pure = Pure.of(given, [*own, *known], few)
        return cls(
            given,
            tuple(Slot(name, v.dtype, v.type.shape) for name, v in given.released.items()),
            grid,
            met,
            (pure, Pure.of(given, own, few) if known else pure),
            Group.of(given, own, few, every, ()) if known else groups[()],
            groups,
            compiled_target(given, graph, few if reads else every),
            reads,
            compiled_back(given),
            (smooth[0], smooth[1]),
        )

    @property
    def states_met(self) -> list[NDArray[Any]]:
        """Values of the summed latents in every state that is met, (met, *shape) each."""
        return [s[:: self.grid.size // self.met, 0] for s in self.grid.states(0, self.grid.size)]

    def table(self, released: Mapping[str, NDArray[Any]]) -> Floats:
        """Terms that no drawn latent enters, of releases (release, *shape) by name: (met, apart, release)."""
        group = self.groups[tuple(released)]
        found = group.table([released[name][None] for name in group.names], self.grid.size)
        return found.reshape(self.met, -1, found.shape[-1])

    @property
    def knows_more(self) -> bool:
        """True where side data or potentials are known beside the release."""
        return self.pure[0] is not self.pure[1]

    def base(self, draws: Sequence[NDArray[Any]], far: bool = False) -> Floats:
        """Log prior density of every draw, its summed latents summed out: (draw,)."""
        table = self.own.table([], self.grid.size).reshape(self.met, -1)
        own = self.pure[1](draws, len(draws[0]) if draws else 1, far)
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(own + logsumexp(table, axis=1), axis=1))

    def latents(
        self,
        draws: Sequence[NDArray[Any]],
        row: Mapping[str, NDArray[Any]],
        rng: np.random.Generator,
        size: int,
        pure: Floats | None = None,
        table: Floats | None = None,
    ) -> Arrays:
        """Every latent on its own scale, given one release: those drawn, and draws of the others given them."""
        group = self.groups[tuple(row)]
        pure = self.pure[0](draws, size) if pure is None else pure
        table = (self.table({name: value[None] for name, value in row.items()}) if table is None else table)[..., 0]
        met = group.at(draws, pure, [row[name][None, None] for name in group.names])[..., 0] + logsumexp(table, axis=1)
        first = _one_of_each(met, rng)
        place = first * table.shape[1]
        for state in np.unique(first):
            which = np.flatnonzero(first == state)
            place[which] += _several(table[state], which.size, rng)
        states = self.grid.at(place)
        values = [s.astype(v.dtype) for s, v in zip(states, self.given.latents.values(), strict=True)]
        found = self.back(*draws, *values)
        drawn = dict(zip(self.given.continuous, found, strict=True))
        return dict(zip(self.given.latents, states, strict=True)) | drawn

    def is_one(self, draws: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Mask of the target being 1: (1, met, apart), or (draw, met, 1) where it reads a drawn latent."""
        (values,) = self.one(*(d[:, None] for d in draws))
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"target must be 0 or 1, it takes the values {np.unique(values)[:10].tolist()}")
        size = len(draws[0]) if draws else 1
        if self.one_reads_draws:
            return np.broadcast_to(values == 1, (size, self.met))[..., None]
        return np.broadcast_to(values == 1, (1, self.grid.size)).reshape(1, self.met, -1)

    def hypotheses(
        self,
        draws: Sequence[NDArray[Any]],
        released: Mapping[str, NDArray[Any]],
        pure: Floats | None = None,
        table: Floats | None = None,
        far: bool = False,
    ) -> tuple[Floats, Floats]:
        """Log joint density of every draw and release with the target 1, and with it 0: (draw, release) each.

        Draws that are `far` out may have a density that is no number; it counts as zero.
        """
        one, group = self.is_one(draws), self.groups[tuple(released)]
        data = [released[name][None] for name in group.names]
        table = self.table(released) if table is None else table
        releases = table.shape[-1]
        parts: list[tuple[Floats, NDArray[np.bool_] | None]] = []
        for mask in (one, ~one):
            if self.one_reads_draws:
                parts.append((logsumexp(table, axis=1), mask[..., 0]))
            else:
                with np.errstate(divide="ignore"):
                    parts.append((logsumexp(np.where(mask[0][..., None], table, -np.inf), axis=1), None))
        size = len(draws[0]) if draws else 1
        pure = self.pure[0](draws, size, far) if pure is None else pure
        found = [np.empty((size, releases)) for _ in parts]
        width = max(1, _CELLS_AT_ONCE // self.met // (releases if group.mixed else 1))
        for start in range(0, size, width):
            window = slice(start, min(start + width, size))
            at = group.at([d[window] for d in draws], pure[window], data, far)
            for out, (states, where) in zip(found, parts, strict=True):
                kept = at if where is None else np.where(where[window, :, None], at, -np.inf)
                out[window] = _summed_over_states(kept, states)
        return found[0], found[1]


def _split_states(
    given: Conditioned, graphs: Sequence[TensorVariable], target: TensorVariable, support: Mapping[str, ArrayLike]
) -> Conditioned:
    """With the largest discrete latents drawn, where there are too many joint states to sum over.

    The target's own latents are the last to be drawn. A latent without a finite support is drawn.
    """
    read, sizes = set(ancestors([target])), {}
    for name in given.latents:
        try:
            axes = support_of(given.model[name], support, given.moving)[1]
            sizes[name] = float(np.prod([float(len(axis)) for axis in axes]))
        except ValueError:
            sizes[name] = np.inf
    order = sorted(sizes, key=lambda name: (given.latents[name] in read, -sizes[name]))
    order.sort(key=lambda name: np.isfinite(sizes[name]))
    drawn: list[str] = []
    largest = LARGEST_STATES if given.continuous else LARGEST_JOINT
    for name in order:
        kept = [other for other in sizes if other not in drawn]
        values = {*given.continuous.values(), *(given.latents[other] for other in drawn)}
        entered = [graph for graph in graphs if not values.isdisjoint(ancestors([graph]))]
        reached = set(ancestors(entered)) if entered else set()
        met = float(np.prod([sizes[other] for other in kept if given.latents[other] in reached]))
        if float(np.prod([sizes[other] for other in kept])) <= largest and met <= LARGEST_MET:
            break
        drawn.append(name)
    latents = {name: value for name, value in given.latents.items() if name not in drawn}
    return replace(given, latents=latents, continuous=given.continuous | {n: given.latents[n] for n in drawn})


def _summed_over_states(at: Floats, states: Floats) -> Floats:
    """Log of the sum over states of exp(at (draw, state, release or 1) + states (state, release)): (draw, release)."""
    if at.shape[1] == 1:
        return np.asarray(at[:, 0] + states)
    if at.shape[2] > 1 or states.shape[1] == 1:
        with np.errstate(divide="ignore"):
            return np.asarray(logsumexp(at + states, axis=1))
    rows = at[..., 0]
    row_top, top = (np.maximum(x.max(axis=axis), -1e300) for x, axis in ((rows, 1), (states, 0)))
    with np.errstate(divide="ignore"):
        found = np.log(np.exp(rows - row_top[:, None]) @ np.exp(states - top)) + row_top[:, None] + top
    lost = row_top.max() + top + _UNDERFLOW  # what a product of exponentials cannot tell from zero
    for i in np.flatnonzero(found.max(axis=0) - _NEGLIGIBLE < lost):
        with np.errstate(divide="ignore"):
            found[:, i] = logsumexp(rows + states[:, i], axis=1)
    return np.asarray(found)


def _one_of_each(log_weights: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index from each row of unnormalised log weights."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    threshold = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.asarray((cumulative <= threshold[:, None]).sum(axis=1), dtype=np.int64)


def _several(log_weights: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices drawn from one list of unnormalised log weights."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    place = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(place, dtype=np.int64)


_UNDERFLOW = np.log(1e-290)
_NEGLIGIBLE = 40.0  # nats below the largest draw's weight at which a draw has no say
