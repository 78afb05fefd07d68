r"""Log density of a model at many draws, states and releases at once.

.. math:: \log p(\theta, s, y) = \sum_c a_c(\theta, s_c) + b_c(s_c) + \ell_c(s_c, y) + m_c(\theta, s_c, y)

:math:`\theta` are the latents that are drawn, :math:`s_c` the joint states of the summed latents of component c (see
`Components`). Sums over states factor over components. The states of a component form a table (met, apart): latents
that share a term with a drawn latent, by all others; a and m depend on the former only. Each term is evaluated over the
axes that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import ArrayLike, NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable
from scipy.special import logsumexp

from adversary.models.enumeration import Compiled, Conditioned, PlacedTotal, Slot, vectorize

from .compiled_terms import Floats, Pure, States, TermGroup, compiled_back, compiled_target
from .summed_latents import Parted

Arrays = dict[str, NDArray[Any]]

_CELLS_AT_ONCE, _MIXED_AT_ONCE = 2**21, 2**19
_CACHED = 2**16


@dataclass(frozen=True)
class Terms:
    """Compiled terms of a model whose latents are either drawn or summed out.

    Parameters
    ----------
    given : the model; `continuous` has the value variables of all drawn latents, `latents` those of all summed ones
    slots : the released variables
    states : states of every component of the summed latents, in the order (met, apart)
    met : states over the latents of each component that share a term with a drawn latent
    totals : sums of latents that replace these latents in the components
    pure : compiled terms with a drawn latent and no release; and the part of these that is the log prior of the latents
    own : compiled log prior of the latents, terms without a drawn latent
    groups : compiled terms by the released variables that are conditioned on: none, the settled ones, or all
    one : compiled value of the target, (draw or 1, row)
    one_reads_draws : whether the target depends on a drawn latent
    component : number of the component that the target depends on
    ends : masks of the states of each component in which a truncated latent may be at its largest value
    back : compiled drawn latents on their own scale, from their value variables and the states of the others
    smooth : graphs of terms with a drawn latent: of the joint density, and of the density without the release
    """

    given: Conditioned
    slots: tuple[Slot, ...]
    states: States
    met: States
    totals: tuple[PlacedTotal, ...]
    pure: tuple[Pure, Pure]
    own: TermGroup
    groups: Mapping[tuple[str, ...], TermGroup]
    one: Compiled
    one_reads_draws: bool
    component: int
    ends: list[NDArray[np.bool_]]
    back: Compiled
    smooth: tuple[list[TensorVariable], list[TensorVariable]]

    @classmethod
    def of(
        cls, given: Conditioned, target: str | None, support: Mapping[str, ArrayLike], settled: Sequence[str] = ()
    ) -> Terms:
        """Compile; `settled` are releases that count as known before the others. Without a target, the target is 0."""
        graph = pt.constant(np.int64(0)) if target is None else given.values_of(target)
        if graph.ndim:
            raise ValueError(f"target {target!r} must be one number, 0 or 1, it has {graph.ndim} dimensions")
        before, names = [*given.own_terms(), *given.given_terms()], tuple(given.released)
        lists = [before, [*given.own_terms(), *given.given_terms(settled)], list(given.model.logp(sum=False))]
        parted = Parted.of(given, lists, graph, support)
        given, components, sizes, graph = parted.given, parted.components, parted.met, parted.target
        terms = dict(zip(((), tuple(settled), names), parted.terms, strict=True))
        before, own = terms[()], terms[()][: len(given.own_terms())]
        known = len(before) > len(own)
        drawn = set(given.continuous.values())
        smooth = tuple([t for t in some if not drawn.isdisjoint(ancestors([t]))] for some in (terms[names], before))
        apart = [size // few for size, few in zip(components.sizes, sizes, strict=True)]
        every = States.of(components, components.sizes, [1] * len(sizes))
        met = States.of(components, sizes, apart)
        reads = not drawn.isdisjoint(ancestors([graph]))
        groups = {names: TermGroup.of(given, some, met, every, names) for names, some in terms.items()}
        pure = Pure.of(given, before, met)
        return cls(
            given,
            tuple(Slot(name, v.dtype, v.type.shape) for name, v in given.released.items()),
            every,
            met,
            parted.totals,
            (pure, Pure.of(given, own, met) if known else pure),
            TermGroup.of(given, own, met, every, ()) if known else groups[()],
            groups,
            compiled_target(given, graph, met if reads else every),
            reads,
            int(components.owners([graph])[0]),
            parted.ends(),
            compiled_back(given),
            (smooth[0], smooth[1]),
        )

    def table(self, released: Mapping[str, NDArray[Any]]) -> Floats:
        """Terms without a drawn latent, (state, release), for releases (release, *shape) by name."""
        group = self.groups[tuple(released)]
        return group.table([released[name][None] for name in group.names])

    def by_component(self, table: Floats) -> list[Floats]:
        """Split a table (state, release) into one array (met, apart, release) per component."""
        pairs = zip(self.states.slices, self.met.sizes, strict=True)
        return [table[own].reshape(size, -1, table.shape[1]) for own, size in pairs]

    def met_table(self, table: Floats) -> Floats:
        """A table (state, 1) summed over `apart`, (row, component), in logs; unused rows are minus infinity."""
        by_component = np.full((max(self.met.sizes), len(self.met.sizes)), -np.inf)
        for c, part in enumerate(self.by_component(table)):
            by_component[: part.shape[0], c] = logsumexp(part[..., 0], axis=1)
        return by_component

    def log_density(
        self, point: Mapping[TensorVariable, TensorVariable], table: TensorVariable, joint: bool
    ) -> TensorVariable:
        """Graph of the log density at a point, the discrete latents summed out.

        Parameters
        ----------
        point : replacements of the drawn latents and of the releases
        table : `met_table` of the release
        joint : whether the density includes the release

        Returns
        -------
        Scalar graph, in nats.
        """
        graphs, summed = self.met.components.columns(self.smooth[0 if joint else 1])
        states = {v: pt.constant(s.astype(v.dtype)) for v, s in self.met.by_variable.items()}
        density = summed(vectorize(graphs, {**states, **point})) + table
        for one in self.totals:
            law = one.total.graph([density[: self.met.sizes[leaf], leaf] for leaf in one.leaves])
            numbers = self._met_numbers(one)
            density = pt.inc_subtensor(density[: numbers.size, one.component], law[numbers])
        return pt.logsumexp(density[:, self._summed], axis=0).sum()

    def _met_numbers(self, one: PlacedTotal) -> NDArray[np.int64]:
        """Index of a sum's value in every `met` state of its component."""
        return one.numbers[:: self.states.sizes[one.component] // self.met.sizes[one.component]]

    @property
    def _summed(self) -> list[int]:
        """Components to be summed over: all except those of latents replaced by a sum."""
        leaves = {leaf for one in self.totals for leaf in one.leaves}
        return [c for c in range(len(self.met.sizes)) if c not in leaves]

    def _leaf_weights(self, one: PlacedTotal, at: Floats, tables: Sequence[Floats]) -> list[Floats]:
        """Log weights (draw, state) of the latents in a sum, from terms (draw, state, release or 1)."""
        return [at[:, self.met.slices[leaf], 0] + tables[leaf][:, 0, 0] for leaf in one.leaves]

    def _with_totals(self, at: Floats, tables: Sequence[Floats]) -> Floats:
        """Terms (draw, state, release or 1) with the log mass of every sum added to the states of its component."""
        log_terms = at.copy() if self.totals else at
        for one in self.totals:
            law = one.total.law(self._leaf_weights(one, at, tables))
            log_terms[:, self.met.slices[one.component]] += law[:, self._met_numbers(one), None]
        return log_terms

    @property
    def has_side_data(self) -> bool:
        """True if the model has side data or potentials that do not depend on the release."""
        return self.pure[0] is not self.pure[1]

    def base(self, draws: Sequence[NDArray[Any]], far: bool = False) -> Floats:
        """Log prior density (draw,) of every draw, with the summed latents summed out."""
        own = self.pure[1](draws, len(draws[0]) if draws else 1, far)[..., None]
        tables = self.by_component(self.own.table([]))
        own, total = self._with_totals(own, tables)[..., 0], np.zeros(len(own))
        with np.errstate(divide="ignore"):
            for c in self._summed:
                total = total + _sum_over(own[:, self.met.slices[c]], logsumexp(tables[c][..., 0], axis=1))
        return total

    def latents(
        self,
        draws: Sequence[NDArray[Any]],
        row: Mapping[str, NDArray[Any]],
        rng: np.random.Generator,
        size: int,
        pure: Floats | None = None,
        table: Floats | None = None,
    ) -> Arrays:
        """Every latent on its own scale given one release: the drawn ones, and conditional draws of the summed ones."""
        group = self.groups[tuple(row)]
        pure = self.pure[0](draws, size) if pure is None else pure
        table = self.table({name: value[None] for name, value in row.items()}) if table is None else table
        parts = self.by_component(table)
        plain = group.at(draws, pure, [row[name][None, None] for name in group.names])
        at = self._with_totals(plain, parts)[..., 0]
        places = [np.zeros(size, dtype=np.int64) for _ in parts]
        for c in self._summed:
            part = parts[c]
            if part.shape[:2] == (1, 1):
                continue
            first = _one_of_each(at[:, self.met.slices[c]] + logsumexp(part[..., 0], axis=1), rng)
            place = first * part.shape[1]
            for state in np.unique(first):
                which = np.flatnonzero(first == state)
                place[which] += _several(part[state, :, 0], which.size, rng)
            places[c] = place
        for one in self.totals:
            value = one.numbers[places[one.component]]
            drawn_states = one.total.draw(value, self._leaf_weights(one, plain, parts), rng)
            for leaf, place in zip(one.leaves, drawn_states, strict=True):
                places[leaf] = place
        states = self.states.components.at(places)[: len(self.given.latents)]
        values = [s.astype(v.dtype) for s, v in zip(states, self.given.latents.values(), strict=True)]
        latents = self.back(*draws, *values)
        drawn = dict(zip(self.given.continuous, latents, strict=True))
        return dict(zip(self.given.latents, states, strict=True)) | drawn

    @property
    def sums_truncated_latent(self) -> bool:
        """True if a latent with a truncated support is summed out."""
        return any(mask.any() for mask in self.ends)

    def at_end(self, draws: Sequence[NDArray[Any]], row: Mapping[str, NDArray[Any]], table: Floats) -> Floats:
        """Probability (draw,) that a truncated latent is at its largest value, given draws and one release."""
        group, parts, inside = self.groups[tuple(row)], self.by_component(table), np.ones(1)
        pure = self.pure[0](draws, len(draws[0]) if draws else 1, True)
        at = self._with_totals(group.at(draws, pure, [row[n][None, None] for n in group.names], True), parts)[..., 0]
        for c, mask in enumerate(self.ends):
            if mask.any():
                own = (at[:, self.met.slices[c], None] + parts[c][None, ..., 0]).reshape(len(at), -1)
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.exp(logsumexp(own[:, mask], axis=1) - logsumexp(own, axis=1))
                inside = inside * (1.0 - np.nan_to_num(share, nan=1.0))
        return np.asarray(1.0 - inside)

    def is_one(self, draws: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Mask of the states with target 1: (1, met, apart); (draw, met, 1) if the target depends on draws."""
        (values,) = self.one(*(d[:, None] for d in draws))
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"target must be 0 or 1, it takes the values {np.unique(values)[:10].tolist()}")
        size = len(draws[0]) if draws else 1
        few, every = self.met.sizes[self.component], self.states.sizes[self.component]
        own = values == 1
        if self.one_reads_draws:
            rows = np.broadcast_to(own, (size, max(self.met.sizes)))
            return rows[:, :few, None]
        rows = np.broadcast_to(own, (1, max(self.states.sizes)))
        return rows[:, :every].reshape(1, few, -1)

    def hypotheses(
        self,
        draws: Sequence[NDArray[Any]],
        released: Mapping[str, NDArray[Any]],
        pure: Floats | None = None,
        table: Floats | None = None,
        far: bool = False,
    ) -> tuple[Floats, Floats]:
        """Log joint density (draw, release) with target 1, and with target 0.

        With `far`, an undefined density counts as zero.
        """
        one, group = self.is_one(draws), self.groups[tuple(released)]
        data = [released[name][None] for name in group.names]
        tables = self.by_component(self.table(released) if table is None else table)
        own, releases = tables[self.component], tables[0].shape[-1]
        parts: list[tuple[Floats, NDArray[np.bool_] | None]] = []
        with np.errstate(divide="ignore"):
            for mask in (one, ~one):
                if self.one_reads_draws:
                    parts.append((logsumexp(own, axis=1), mask[..., 0]))
                else:
                    parts.append((logsumexp(np.where(mask[0][..., None], own, -np.inf), axis=1), None))
            others = [(self.met.slices[c], logsumexp(tables[c], axis=1)) for c in self._summed if c != self.component]
        size, slice_of = len(draws[0]) if draws else 1, self.met.slices[self.component]
        pure = self.pure[0](draws, size, far) if pure is None else pure
        log_joint = [np.empty((size, releases)) for _ in parts]
        cells = self.met.total * releases if group.mixed else max(self.met.total, releases)
        width = max(1, (_MIXED_AT_ONCE if group.mixed else _CELLS_AT_ONCE) // max(cells, 1))
        for start in range(0, size, width):
            window = slice(start, min(start + width, size))
            at = self._with_totals(group.at([d[window] for d in draws], pure[window], data, far), tables)
            rest = np.zeros((1, 1))
            for met, states in others:
                rest = rest + _summed_over_states(at[:, met], states)
            for out, (states, where) in zip(log_joint, parts, strict=True):
                log_terms = at[:, slice_of]
                log_terms = log_terms if where is None else np.where(where[window, :, None], log_terms, -np.inf)
                out[window] = _summed_over_states(log_terms, states) + rest
        return log_joint[0], log_joint[1]


def _sum_over(at: Floats, states: Floats) -> Floats:
    """Log of the sum over states of exp(at (draw, state) + states (state,)): (draw,), by blocks of draws."""
    if at.shape[1] == 1:
        return np.asarray(at[:, 0] + states)
    log_sums, width = np.empty(len(at)), max(1, _CACHED // at.shape[1])
    for start in range(0, len(at), width):
        rows = at[start : start + width] + states
        top = np.maximum(rows.max(axis=1), -1e300)
        rows -= top[:, None]
        np.exp(rows, out=rows)
        with np.errstate(divide="ignore"):
            log_sums[start : start + width] = np.log(rows.sum(axis=1)) + top
    return log_sums


def _summed_over_states(at: Floats, states: Floats) -> Floats:
    """Log of the sum over states of exp(at (draw, state, release or 1) + states (state, release)): (draw, release)."""
    if at.shape[1] == 1:
        return np.asarray(at[:, 0] + states)
    if at.shape[2] == states.shape[1] == 1:
        return _sum_over(at[..., 0], states[:, 0])[:, None]
    if at.shape[2] > 1 or states.shape[1] == 1:
        return _sum_over_each(at, states)
    rows = at[..., 0]
    row_top, top = (np.maximum(x.max(axis=axis), -1e300) for x, axis in ((rows, 1), (states, 0)))
    with np.errstate(divide="ignore"):
        log_sums = np.log(np.exp(rows - row_top[:, None]) @ np.exp(states - top)) + row_top[:, None] + top
    # The matrix product underflows below `lost`; columns whose relevant entries are near it are summed in logs instead.
    lost = row_top.max() + top + _UNDERFLOW
    for i in np.flatnonzero(log_sums.max(axis=0) - _NEGLIGIBLE < lost):
        with np.errstate(divide="ignore"):
            log_sums[:, i] = logsumexp(rows + states[:, i], axis=1)
    return np.asarray(log_sums)


def _sum_over_each(at: Floats, states: Floats) -> Floats:
    """`_summed_over_states` without a matrix product, for `at` that depends on the release."""
    possible = np.flatnonzero((states > -np.inf).any(axis=1))
    if not possible.size:
        return np.full((len(at), max(at.shape[2], states.shape[1])), -np.inf)
    rows = at[:, possible] + states[possible]
    top = np.maximum(rows.max(axis=1), -1e300)
    rows -= top[:, None]
    np.exp(rows, out=rows)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(rows.sum(axis=1)) + top)


def _one_of_each(log_weights: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw one index per row of unnormalised log weights."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max(axis=1, keepdims=True)), axis=1)
    threshold = rng.random(len(cumulative)) * cumulative[:, -1]
    return np.asarray((cumulative <= threshold[:, None]).sum(axis=1), dtype=np.int64)


def _several(log_weights: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw `size` indices from one vector of unnormalised log weights."""
    cumulative = np.cumsum(np.exp(log_weights - log_weights.max()))
    place = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
    return np.asarray(place, dtype=np.int64)


_UNDERFLOW = np.log(1e-290)
# Nats below the largest draw's weight at which a draw is negligible.
_NEGLIGIBLE = 40.0
