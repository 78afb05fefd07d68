"""Exact posterior of a PyMC model with discrete latents, by summing the model's own density over their joint states.

.. math:: P(t \\mid y) \\propto \\sum_{s : t(s) = t} p(s, y)

over every joint state s of the latents, for a whole batch of releases y at once. Latents that no term and no target
reads jointly are summed out separately: see `Components`. The model is compiled once; PyMC is imported only when one of
these functions is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import check_mapping

from .marginals import Marginal, MarginalPiece, log_masses
from .state_grid import LARGEST_GRID, Grid, Slot, distinct_rows, log_totals

Floats = NDArray[np.float64]
Support = Mapping[str, ArrayLike]

LARGEST_EDGE = 1e-6
"""Largest probability at or beyond the ends of a given support for status "ok"; above it, "unreliable"."""
# A guess of the number of values of a latent without a largest one, for `is_enumerable` only.
_OPEN_ENDED = 128


def enumerate_posterior(
    model: Any, observed: Mapping[str, ArrayLike], target: str | Sequence[str] = "in", support: Support | None = None
) -> xr.Dataset:
    """Exact posterior distribution of `target` in a PyMC model with discrete latents, by enumeration.

    Parameters
    ----------
    model : pymc.Model
        Its latents (the free variables not in `observed`) must be discrete with finite support.
    observed : mapping
        Name to value, for released variables (free, observed or derived) and for `pm.Data`. A value with one more
        leading axis than the variable holds one row per release.
    target : str or sequence of str
        A latent or a `Deterministic`; for several, the marginal of each is returned.
    support : mapping, optional
        Values, shape (n,), of latents without a finite support of their own (Poisson, dependent bounds). Impossible
        combinations are harmless.

    Returns
    -------
    xarray.Dataset
        ``probability`` ([release], [target's dims], target), the posterior, and ``prior_probability``, the distribution
        before the release; the target's dims keep the model's coordinates. For a target in {0, 1} also ``posterior`` =
        P(target = 1) and ``prior``. ``log_evidence`` ([release]) in nats. ``edge_mass`` ([release]), the probability
        that a latent is outside its given `support`, or at an end of it beyond which its distribution has more mass;
        the larger of the posterior and the prior probability. ``status`` ([release]), "unreliable" if ``edge_mass`` is
        above 1e-6, and otherwise "ok". With several targets the first four carry the name: ``posterior[in]``.

    Raises
    ------
    ValueError : an unknown name, an observed target, a latent without finite support or made from a release, or a
        release that no state of the latents can produce
    TypeError : a latent is continuous

    Notes
    -----
    The sum factors into sums over latents that no element of the model's density and no target reads jointly. A model
    with values in `support`, or with latents that are cut, is summed over jointly.

    ``prior`` conditions on side data: it includes the latents' own terms, and every potential and every variable
    observed in the model that does not depend on the variables named in `observed`. A latent whose distribution depends
    on the release is refused, because its prior is undefined.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     present = pm.Bernoulli("in", np.float64(0.5))
    ...     noisy = pm.Normal("noisy", present, np.float64(2.0))
    >>> round(enumerate_posterior(model, {"noisy": 1.5}).posterior.item(), 6)
    0.562177
    """
    check_mapping("observed", observed, "{'noisy': 3}")
    posterior: xr.Dataset = compile_enumerator(model, tuple(observed), target, support)(observed)
    return posterior


def compile_enumerator(
    model: Any,
    observed: Iterable[str] = (),
    target: str | Sequence[str] = "in",
    support: Support | None = None,
    settled: Sequence[str] = (),
) -> Any:
    """Compile `enumerate_posterior` for the variables named in `observed`, to be called with many sets of values.

    Supports and bounds in `pm.Data` are read at compile time; a compiled enumerator must not be shared between threads.

    Parameters
    ----------
    model : pymc.Model whose latents are discrete
    observed : names of the released variables, and of `pm.Data`
    target : a latent or `Deterministic`; for several, the marginal of each is returned
    support : values, shape (n,), of latents without a finite support of their own
    settled : released variables that already count as known in ``prior``: the exact levels of a plan

    Returns
    -------
    Enumerator : a function of {name: value} that returns the Dataset of `enumerate_posterior`. With latents that have
        no largest value (Poisson, negative binomial, mixtures of them) a `GrowingEnumerator`, which cuts them so that
        at most 1e-12 of the posterior and of the prior lies beyond the cut; ``cut_mass`` is that bound.

    Raises
    ------
    ValueError : an unknown name, an observed target, a latent without finite support or made from a release
    TypeError : a latent is continuous
    """
    from adversary.models.enumeration import graphs, supports

    if not hasattr(model, "basic_RVs"):
        raise TypeError(f"model must be a pymc.Model, such as models.hierarchical_counts makes, got {model!r}")
    support, names = dict(support or {}), [target] if isinstance(target, str) else list(target)
    conditioned = graphs.condition(model, tuple(observed))
    _check_names(names, conditioned, support)
    latents = {name: conditioned.model[name] for name in conditioned.latents}
    open_ended = supports.unbounded_latents(latents, support, conditioned.moving)
    build = partial(_enumerator, conditioned, names, support, settled, isinstance(target, str))
    if open_ended:
        from adversary.models.enumeration import tails

        return tails.growing(conditioned, open_ended, build, settled)
    return build({})


def _enumerator(
    conditioned: Any, names: list[str], support: Support, settled: Sequence[str], single: bool, reach: Support
) -> Enumerator:
    """Compile over the values in `support`, and in `reach` for unbounded latents, cut where the tail is negligible."""
    from adversary.models.enumeration import graphs, support_ends, supports
    from adversary.models.enumeration.batched_graphs import sum_terms
    from adversary.models.enumeration.components import Components
    from adversary.models.enumeration.totals import PlacedTotal, SummedLeaves

    moving, values = conditioned.moving, {**support, **reach}
    latents = {name: conditioned.model[name] for name in conditioned.latents}
    grid = Grid.over({name: supports.support_of(rv, values, moving) for name, rv in latents.items()})
    slots = tuple(Slot(name, v.dtype, v.type.shape) for name, v in conditioned.released.items())
    joint, prior = conditioned.log_joint(), conditioned.log_prior(settled)
    targets = [conditioned.values_of(name) for name in names]
    sums: tuple[PlacedTotal, ...] = ()
    if values:
        components = Components.whole(grid)
    else:
        released = list(conditioned.released.values())
        summed = SummedLeaves.of(grid, list(conditioned.latents.values()), [prior, joint], targets, released)
        (prior, joint), targets = summed.terms, summed.targets
        components = Components.of(summed.grid, summed.values, joint, targets)
        sums = PlacedTotal.all_of(components, summed.totals)
    grid.refuse_large(max(components.sizes))
    outside, edge = None, None
    if support:
        bounds = {name: supports.own_bounds(latents[name], values, moving) for name in support}
        own = graphs.compile_batched(conditioned, [sum_terms(conditioned.own_terms())])
        unused = [slot.unused for slot in slots]
        outside = support_ends.Outside.of(grid, bounds, lambda one: float(log_totals(one, own, unused)[0]))
        ends = [support_ends.Ends.of(latents[name], support[name], moving) for name in support]
        edge = Marginal("edge", (), np.array([0, 1]), (MarginalPiece(0, (0,), support_ends.flag_ends(grid, ends)),))
    return Enumerator(
        components,
        slots,
        graphs.compile_batched(conditioned, joint, components),
        graphs.compile_batched(conditioned, prior, components),
        not any(conditioned.uses_release(term) for term in prior),
        tuple(Marginal.over(components, *one, conditioned) for one in zip(names, targets, strict=True)),
        edge,
        single,
        outside,
        sums,
    )


def is_enumerable(
    model: Any, observed: Iterable[str], support: Support | None = None, target: Sequence[str] = ()
) -> bool:
    """True if all latents are discrete, with finite supports and no more joint states than `LARGEST_GRID`.

    Parameters
    ----------
    model, observed, support : as for `compile_enumerator`
    target : names of the targets, whose latents are summed over together
    """
    from adversary.models.enumeration import graphs, supports
    from adversary.models.enumeration.components import Components
    from adversary.models.enumeration.totals import SummedLeaves

    given = graphs.condition(model, tuple(observed), continuous=True)
    if given.continuous:
        return False
    latents = {name: given.model[name] for name in given.latents}
    open_ended = supports.unbounded_latents(latents, support or {}, given.moving)
    try:
        rest = {
            n: supports.support_of(rv, support or {}, given.moving) for n, rv in latents.items() if n not in open_ended
        }
        if open_ended:
            compile_enumerator(model, observed, [*given.latents][:1], support)
    except ValueError:
        return False
    cells = sum(math.prod(shape) for shape, _ in open_ended.values())
    grid = Grid.over(rest)
    if cells or support or grid.size <= LARGEST_GRID:
        return bool(grid.size * _OPEN_ENDED**cells <= LARGEST_GRID)
    targets, values = [given.values_of(name) for name in target], list(given.latents.values())
    summed = SummedLeaves.of(grid, values, [given.log_joint()], targets, list(given.released.values()))
    return max(Components.of(summed.grid, summed.values, summed.terms[0], summed.targets).sizes) <= LARGEST_GRID


_RESULTS = (
    "posterior", "prior", "probability", "prior_probability", "log_evidence", "edge_mass", "cut_mass", "status",
)  # fmt: skip


def _check_names(targets: list[str], conditioned: Any, support: Support) -> None:
    from adversary.models.enumeration.model_checks import check_support, dims_of, missing_target, refuse_names

    refuse_names([*targets, *dims_of(conditioned.model, targets)], "target or dimension", _RESULTS)
    known = [*conditioned.latents, *(v.name for v in conditioned.model.deterministics)]
    for name in targets:
        if name in conditioned.released:
            raise ValueError(f"target {name!r} is among the observed; a target must be unknown")
        if name not in known:
            raise ValueError(missing_target(name, conditioned.model, known))
    check_support(list(conditioned.latents), support)


@dataclass(frozen=True)
class Enumerator:
    """A compiled model: call it with the released values to get the Dataset of `enumerate_posterior`."""

    components: Any
    slots: tuple[Slot, ...]
    log_joint: Callable[..., Any]
    log_prior: Callable[..., Any]
    same_prior: bool
    targets: tuple[Marginal, ...]
    edge: Marginal | None
    single: bool
    outside: Any = None
    sums: Sequence[Any] = ()

    @property
    def states(self) -> int:
        """Number of states that are summed over, in all components."""
        return int(sum(self.components.sizes[:-1]))

    @property
    def grid(self) -> Grid:
        """Values of every latent."""
        grid: Grid = self.components.grid
        return grid

    def __call__(self, observed: Mapping[str, ArrayLike]) -> xr.Dataset:
        batches, place = self.batches(observed)
        marginals = [*self.targets, *([self.edge] if self.edge else [])]
        evidence, masses = log_masses(self.components, self.log_joint, batches, marginals, self.sums)
        if not np.isfinite(evidence).all():
            row = 0 if place is None else int(np.argmin(np.isfinite(evidence)[place]))
            raise ValueError(f"every state of the latents is impossible at release {row}: {self._row(observed, row)}")
        before = [b[:, :1] for b in batches] if self.same_prior else batches
        start, priors = self._before if self.same_prior else self._prior_masses(batches)
        at_edge = xr.DataArray(np.zeros(evidence.shape), dims="release")
        if self.edge is not None:
            at_edge = self.edge.pmf(masses[-1]).sel(edge=1, drop=True)
            beyond = self.outside.share(self._summed(self.log_joint), batches, evidence)
            held = self.outside.share(self._summed(self.log_prior), before, start)
            after = at_edge.values + beyond - at_edge.values * beyond
            first = held + self.outside.lost - held * self.outside.lost
            at_edge = at_edge.copy(data=np.maximum(after, first))
        status = at_edge.copy(data=np.where(at_edge.values <= LARGEST_EDGE, "ok", "unreliable"))
        variables = {"log_evidence": xr.DataArray(evidence, dims="release"), "edge_mass": at_edge, "status": status}
        for target, mass, prior in zip(self.targets, masses, priors, strict=False):
            variables |= self._posterior_columns(target, target.pmf(mass), target.pmf(prior))
        return self._labelled(variables, place, observed)

    @staticmethod
    def _summed(density: Callable[..., Any]) -> Callable[..., Any]:
        """A density summed over components: one number per state and release."""
        return lambda *given: [density(*given)[0].sum(axis=-1)]

    def log_evidence(self, batches: list[NDArray[Any]]) -> Floats:
        """Log evidence (release,) of releases in the form of `batches`; minus infinity if every state is impossible."""
        return log_masses(self.components, self.log_joint, batches, [], self.sums)[0]

    def log_before(self, batches: list[NDArray[Any]]) -> Floats:
        """Log probability of the side data, known before these releases: (release or 1,)."""
        return (self._before if self.same_prior else self._prior_masses(batches))[0]

    @cached_property
    def _before(self) -> tuple[Floats, list[Floats]]:
        """Log masses before any release."""
        return self._prior_masses([slot.unused for slot in self.slots])

    def _prior_masses(self, batches: list[NDArray[Any]]) -> tuple[Floats, list[Floats]]:
        """Log masses before these releases."""
        return log_masses(self.components, self.log_prior, batches, self.targets, self.sums)

    def _posterior_columns(
        self, target: Marginal, posterior: xr.DataArray, prior: xr.DataArray
    ) -> dict[str, xr.DataArray]:
        prior = prior[0] if self.same_prior else prior
        label = "" if self.single else f"[{target.name}]"
        named = {
            "posterior": target.one(posterior),
            "prior": target.one(prior),
            "probability": posterior,
            "prior_probability": prior,
        }
        return {name + label: array for name, array in named.items() if array is not None}

    def _labelled(
        self, variables: Mapping[str, xr.DataArray], place: NDArray[np.int64] | None, observed: Mapping[str, ArrayLike]
    ) -> xr.Dataset:
        """Dataset over all releases, from that over the distinct ones."""
        dataset = xr.Dataset(variables, attrs={"engine": "enumeration", "states": self.states})
        if place is None:
            return dataset.isel(release=0, drop=True)
        dataset = dataset.isel(release=place)
        labels = [v["release"] for v in observed.values() if isinstance(v, xr.DataArray) and "release" in v.coords]
        return dataset.assign_coords(release=labels[0]) if labels else dataset

    def batches(self, observed: Mapping[str, ArrayLike]) -> tuple[list[NDArray[Any]], NDArray[np.int64] | None]:
        """Distinct releases (1, release, *shape), and each release's index among them; None for a single release."""
        if set(observed) != {slot.name for slot in self.slots}:
            raise ValueError(f"compiled for releases of {[slot.name for slot in self.slots]}, got {list(observed)}")
        pairs = [slot.batch(observed[slot.name]) for slot in self.slots]
        counts = {name: array.shape[1] for name, (array, many) in zip(observed, pairs, strict=True) if many}
        if len(set(counts.values())) > 1:
            raise ValueError(f"the observed hold different numbers of releases: {counts}")
        if not counts:
            return [array for array, _ in pairs], None
        rows = next(iter(counts.values()))
        first, place = distinct_rows([array[0].reshape(rows, -1) for array, many in pairs if many])
        return [array[:, first] if many else array for array, many in pairs], place

    def _row(self, observed: Mapping[str, ArrayLike], row: int) -> dict[str, Any]:
        batches = {slot.name: slot.batch(observed[slot.name])[0][0] for slot in self.slots}
        return {name: batch[min(row, len(batch) - 1)].tolist() for name, batch in batches.items()}
