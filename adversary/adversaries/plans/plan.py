"""Plan of published counts: nested levels around one person, each with its noise.

A plan is a path: the target's block, its block group, its tract, ... Every level publishes the count of one cell in the
target's unit, and below the top also in the `siblings` other units of the same parent. Other queries of a unit that
count the target are further levels of the same people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import CELL, SIBLING, Integers, Seed, arrays_over, check_whole, instance_hint, solve_decreasing
from adversary.adversaries.plans.computed_statistics import COUNTS, check_published
from adversary.adversaries.plans.release_draws import published_release, simulate_releases
from adversary.adversaries.postprocessing import Postprocessing, clamped
from adversary.privacy import PrivacyUnit, contribution_to, unit_loss, unit_rho, units_changed
from adversary.privacy.losses import PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import Mechanism

NOT_LEVELS = ("in", "siblings")
"""Keys of a truth that are not levels: the target's side, and the true counts of single siblings."""


@dataclass(frozen=True)
class Level:
    """One published level.

    Parameters
    ----------
    name : name of the level in truths, releases and beliefs ("block")
    mechanism : the noise added to the count of every unit at this level
    siblings : number of other units of the same parent, required below the top; 0 means that the next level counts the
        same people. In a run of levels of the same people, the highest has the siblings of the unit
    query_of : for another query of a level's unit, the name of that level; see `queries` of `Plan`
    """

    name: str
    mechanism: Mechanism
    siblings: int | None = None
    query_of: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"level name must be a non-empty string, got {self.name!r}")
        if not isinstance(self.mechanism, Mechanism):
            got = f"{self.mechanism!r}{instance_hint(self.mechanism)}"
            raise TypeError(f"level {self.name!r}: mechanism must be a Mechanism, got {got}")
        if self.siblings is not None:
            siblings = int(check_whole(f"level {self.name!r}: siblings", self.siblings, minimum=0))
            object.__setattr__(self, "siblings", siblings)

    @property
    def is_exact(self) -> bool:
        """True where the count itself is published: an invariant."""
        return self.mechanism.is_exact

    @property
    def unit(self) -> str:
        """Name of the unit in truths and beliefs: that of its level, also for the unit's other queries."""
        return self.query_of or self.name


@dataclass(frozen=True)
class Plan:
    """Plan of published counts, lowest level first.

    Parameters
    ----------
    levels : the nested levels, or a single one; `siblings` is required of all but the last, which has none
    cells : number of published cells in which the adversary's hypotheses differ: 1, the target's own, or 2 if the
        alternative puts the target in another published cell
    postprocessing : applied to the noisy numbers before publication: a `Postprocessing` that adjusts the lower of two
        levels to the upper, or a function from mechanism to mechanism, such as `clamped`, for every level. Only its
        result is published, so sums of siblings are not
    neighbours : for a privacy unit without a relation: "unbounded" (one unit is added or removed) or "bounded" (one is
        replaced); by default "bounded" with two cells, otherwise "unbounded"
    queries : by level, the noise of the unit's other queries by name: those with a row that counts the target (with two
        cells, a row for each). They become levels "block, total" below their own, of the same people. The adversary
        must know everybody else in the unit: subtracting them from the row's answer leaves one more noisy count of the
        cell. Otherwise this is refused: rows overlap and count people whom no belief covers, and an exact answer would
        need a joint distribution of the whole histogram. `nmf.read(queries="all")` has linear estimates of such cells
    privacy_unit : the unit that a guarantee about this plan protects, and how much of the release one unit changes; by
        default a person who changes one count by one. The noise itself is in the levels
    published : "counts", or a statistic that is computed from them and published in their place: "ratios" (to one
        another or other noisy numbers), "ratios to known numbers" or "synthetic records". Audits are of the counts

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> Plan([Level("block", DiscreteGaussian.from_rho(0.1), siblings=27), Level("tract", DiscreteGaussian(1.0))]).names
    ('block', 'tract')
    """

    levels: tuple[Level, ...]
    cells: int = 1
    postprocessing: Postprocessing | None = None
    privacy_unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    published: str = COUNTS

    def __init__(
        self,
        levels: Iterable[Level] | Level,
        cells: int = 1,
        postprocessing: Postprocessing | Callable[[Mechanism], Mechanism] | None = None,
        *,
        neighbours: str | None = None,
        queries: Mapping[str, Mapping[str, Mechanism]] | None = None,
        privacy_unit: PrivacyUnit | None = None,
        published: str = COUNTS,
    ) -> None:
        if not isinstance(privacy_unit, PrivacyUnit | None):
            raise TypeError(f"privacy_unit must be a PrivacyUnit, got {privacy_unit!r}")
        unit = (privacy_unit or PrivacyUnit()).resolved(neighbours, "bounded" if cells == 2 else "unbounded")
        levels = _with_queries((levels,) if isinstance(levels, Level) else tuple(levels), queries or {})
        adjusting, levels = _split_postprocessing(postprocessing, levels)
        given = {"levels": levels, "cells": int(check_whole("cells", cells, minimum=1)), "postprocessing": adjusting}
        for name, value in (given | {"privacy_unit": unit, "published": published}).items():
            object.__setattr__(self, name, value)
        if not self.levels:
            raise ValueError("a plan needs at least one level, got none")
        if others := [one for one in self.levels if not isinstance(one, Level)]:
            raise TypeError(f"levels must be Level objects, got {others[0]!r}")
        check_published(published, [level.name for level in self.levels if level.is_exact])
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"level names must differ, got {', '.join(self.names)}")
        if self.cells > 2:
            raise ValueError(f"cells must be 1 or 2 (the hypotheses name at most two cells), got {self.cells}")
        contribution_to(self._noisy, unit)
        for level in self.levels[:-1]:
            if level.siblings is None:
                raise ValueError(
                    f"level {level.name!r}: siblings is required below the top level {self.levels[-1].name!r} (number "
                    "of other units of the same parent; 0 if it holds the same people; levels stand lowest first)"
                )
        if self.levels[-1].siblings is not None:
            raise ValueError(f"level {self.levels[-1].name!r} is the top: siblings must be left out")
        if adjusting is not None and self.cells != 1:
            raise ValueError(f"postprocessing fits one cell to its parent's, got cells={self.cells}")

    @property
    def names(self) -> tuple[str, ...]:
        """Level names, lowest first."""
        return tuple(level.name for level in self.levels)

    @property
    def own(self) -> int:
        """Place of the lowest level that publishes the cell itself; levels of the unit's other queries stand below."""
        return next(i for i, level in enumerate(self.levels) if level.query_of is None)

    def without_queries(self) -> Plan:
        """The plan without the other queries of its units."""
        return replace(self, levels=tuple(level for level in self.levels if level.query_of is None))

    def privacy_loss(self, records: int = 1) -> PrivacyLoss:
        """Privacy loss of the worst pair of the noisy levels, if `records` people each change every count by 1.

        Exact levels are left out: an invariant adds no noise, it restricts the databases that are compared."""
        size = int(check_whole("records", records, minimum=1))
        return compose_losses([noise.privacy_loss(size, self.cells) for noise in self._noisy])

    def scaled(self, factor: float) -> Plan:
        """The plan with `total_rho` multiplied by a factor > 0: the noise of all levels is scaled alike.

        Gaussian noise is divided by the root of the factor. The rho of Laplace noise grows more slowly, so its width is
        solved for. Exact levels stay exact, and in a plan of infinite rho the noise is divided by the root.

        Raises
        ------
        ValueError : no width of the noise has that rho, for instance because a perturbation table has no width
        """
        total = self.total_rho
        made = self._narrowed(factor)
        if not 0.0 < total < np.inf or np.isclose(made.total_rho, factor * total, rtol=1e-13, atol=0.0):
            return made
        log = solve_decreasing(
            lambda x: factor * total - self._narrowed(math.exp(min(x, 600.0))).total_rho, -600.0, 1.0
        )
        narrowed = self._narrowed(math.exp(min(log, 600.0)))
        if not np.isclose(narrowed.total_rho, factor * total, rtol=1e-9, atol=0.0):
            raise ValueError(
                f"no width of the noise gives this plan rho {factor * total:g}, as a level's table has no width; at "
                f"the narrowest and the widest it is {narrowed.total_rho:g}"
            )
        return narrowed

    def _narrowed(self, factor: float) -> Plan:
        """The plan with the noise of every level divided by the root of a factor."""
        return replace(self, levels=tuple(replace(one, mechanism=one.mechanism.scaled(factor)) for one in self.levels))

    @property
    def total_rho(self) -> float:
        """zCDP parameter rho of the noisy levels for one privacy unit, nats; may be infinite."""
        return unit_rho(self._noisy, self.privacy_unit)

    @property
    def _noisy(self) -> list[Mechanism]:
        return [level.mechanism for level in self.levels if not level.is_exact]

    @property
    def neighbours(self) -> str:
        """Neighbouring relation of guarantees about this plan: "unbounded" or "bounded"."""
        return str(self.privacy_unit.neighbours)

    @property
    def contribution(self) -> float:
        """Largest change of one published number by one privacy unit; infinite for local answers of any kind."""
        return contribution_to(self._noisy, self.privacy_unit)

    def units(self, change: float) -> int:
        """Smallest number of privacy units that can change one count by `change`."""
        return units_changed(change, self.contribution)

    def unit_loss(self) -> PrivacyLoss:
        """Privacy loss between two data sets that differ in one privacy unit, in any cells."""
        return unit_loss(self._noisy, self.privacy_unit)

    def counts(self, truth: Mapping[str, Any]) -> Integers:
        """Array (level, cell) of true counts from a mapping of level name to a count; with two cells, to two counts."""
        if unknown := [name for name in truth if name not in {*self.names, *NOT_LEVELS}]:
            raise ValueError(f"truth: unknown level {unknown[0]!r}; the plan has {', '.join(self.names)}")
        given = [level.name if level.name in truth else level.unit for level in self.levels]
        if missing := [name for name in given if name not in truth]:
            raise ValueError(f"truth: no count for level {missing[0]!r}")
        counted = self._true_arrays(truth)[0]
        rows = [check_whole(f"truth of level {name!r}", counted[name], minimum=0) for name in given]
        for name, row in zip(self.names, rows, strict=True):
            if row.shape != (self.cells,) and not (row.ndim == 0 and self.cells == 1):
                raise ValueError(
                    f"truth of level {name!r} must be one count per cell ({self.cells}), got {truth[name]!r}"
                )
        counts = np.stack([np.broadcast_to(row, (self.cells,)) for row in rows])
        for lower, upper, a, b in zip(counts[:-1], counts[1:], self.levels[:-1], self.levels[1:], strict=True):
            if (lower > upper).any():
                raise ValueError(
                    f"truth: level {b.name!r} holds level {a.name!r}, so its count cannot be smaller: "
                    f"got {int(upper[lower > upper][0])} < {int(lower[lower > upper][0])}"
                )
            if a.siblings == 0 and (lower != upper).any():
                raise ValueError(f"truth: {a.name!r} has no siblings, so {b.name!r} must have the same count")
        return counts

    def _true_arrays(self, truth: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The counts of a truth by level, and those of siblings, as plain arrays: (cell,) and (sibling[, cell])."""
        cell = CELL if self.cells > 1 else ()
        each = truth.get("siblings", {})
        each = each if isinstance(each, Mapping) else {}
        levels = {name: count for name, count in truth.items() if name not in NOT_LEVELS}
        given = {f"truth of level {name!r}": (count, cell) for name, count in levels.items()}
        given |= {
            f"siblings of level {name!r} in the truth": (count, (*SIBLING, *cell)) for name, count in each.items()
        }
        arrays = list(arrays_over(given)[0].values())
        return dict(zip(levels, arrays, strict=False)), dict(zip(each, arrays[len(levels) :], strict=True))

    def sibling_noise(self, i: int) -> Mechanism | None:
        """Noise of the published sum of a level's siblings; None where no such sum is published.

        There is none without siblings, after post-processing, and for numbers clamped or rounded one by one."""
        level = self.levels[i]
        if not level.siblings or self.postprocessing is not None:
            return None
        try:
            return level.mechanism.total(level.siblings)
        except ValueError:
            return None

    def sibling_counts(self, truth: Mapping[str, Any]) -> dict[str, Integers]:
        """True counts of single siblings, (sibling, cell), for the levels where a truth lists them."""
        given = truth.get("siblings", {})
        if not isinstance(given, Mapping):
            raise TypeError(f"truth: siblings must be a mapping of level name to a list of counts, got {given!r}")
        if given and self.cells > 1:
            single = [name for name in self.names if np.ndim(truth.get(name, ())) == 0 and name in truth]
            if single:
                raise ValueError(
                    f"truth: with siblings every level needs one count per cell ({self.cells}), got "
                    f"{truth[single[0]]!r} at level {single[0]!r}"
                )
        counts = self.counts(truth)
        result: dict[str, Integers] = {}
        for name, values in self._true_arrays(truth)[1].items():
            if name not in self.names[:-1]:
                raise ValueError(f"truth: siblings of {name!r}: levels with siblings are {', '.join(self.names[:-1])}")
            i = self.names.index(name)
            d, others = self.levels[i].siblings or 0, counts[i + 1] - counts[i]
            each = check_whole(f"truth: siblings of level {name!r}", values, minimum=0)
            each = each[:, None] if each.ndim == 1 and self.cells == 1 else each
            if each.shape != (d, self.cells):
                raise ValueError(
                    f"truth: level {name!r} has {d} siblings in {self.cells} cells, got counts of shape {each.shape}"
                )
            if (each.sum(0) != others).any():
                raise ValueError(
                    f"truth: the siblings of level {name!r} must add up to {others.tolist()} (the level above, without "
                    f"the unit itself), got {each.sum(0).tolist()}"
                )
            result[name] = each
        return result

    def release(self, truth: Mapping[str, Any], rng: Seed = None, draws: int | None = None) -> xr.Dataset:
        """Simulated releases of these true counts, as a Dataset like that of `observe`.

        Parameters
        ----------
        truth : count of the cell at every level, by level name; one per cell when `cells` is 2. With "siblings", a
            mapping of level name to the counts of its siblings, their releases are drawn one by one. Labelled counts
            are paired by label, as in `observe`
        rng : seed or numpy Generator
        draws : number of releases, along dim `release`; None for one release without that dim
        """
        size = 1 if draws is None else int(check_whole("draws", draws, minimum=1))
        release = simulate_releases(self, self.counts(truth), self.sibling_counts(truth), rng, size)
        return release if draws is not None else release.isel(release=0)

    def observe(
        self,
        noisy: Mapping[str, Any],
        sibling_sum: Mapping[str, Any] | None = None,
        siblings: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """A published release as a labelled Dataset.

        Parameters
        ----------
        noisy : released count of the target's unit at every level, by level name; a scalar, or an array over releases
            (with a last axis over cells when `cells` is 2)
        sibling_sum : sum of the released counts of the siblings, for every level with siblings
        siblings : instead of their sum, the released counts of the siblings along a last axis (after that of cells);
            an adversary who believes `Each` reads them one by one, any other their sum

        Labelled numbers are paired by label, whatever their order. The axes of a DataArray have names: "cell",
        "sibling", and one more, of any name, over releases; those of a Series or DataFrame have the order given here.
        Labels of releases are copied to the result, along "release". Cells have the order of the first argument.

        Returns
        -------
        Dataset of `noisy` and `sibling_sum`, dims ([release,] level[, cell]), and `siblings` if given, dims ([release,]
        level, sibling[, cell])

        Raises
        ------
        ValueError : labels differ between arguments, or are missing in some; masked entries; a missing or unknown
            level; numbers that no release of the plan can have
        """
        return published_release(self, noisy, sibling_sum or {}, siblings or {})


def _with_queries(levels: tuple[Level, ...], queries: Mapping[str, Mapping[str, Mechanism]]) -> tuple[Level, ...]:
    """The levels, with those of a unit's other queries inserted below the unit's own level."""
    names = [getattr(level, "name", None) for level in levels]
    for name, noise in queries.items():
        if name not in names:
            raise ValueError(f"queries: unknown level {name!r}; the plan has {names}")
        if not isinstance(noise, Mapping) or not noise:
            raise TypeError(f"queries of level {name!r} must be a mapping of their names to mechanisms, got {noise!r}")
        for query, one in noise.items():
            if isinstance(one, Mechanism) and one.is_exact:
                raise ValueError(f"query {query!r} of level {name!r} must be noisy: exact totals are invariants")
    flattened: list[Level] = []
    for level in levels:
        if isinstance(level, Level):
            also = queries.get(level.name, {}).items()
            flattened += [Level(f"{level.name}, {query}", noise, 0, level.name) for query, noise in also]
        flattened.append(level)
    return tuple(flattened)


def _split_postprocessing(
    postprocessing: Any, levels: tuple[Level, ...]
) -> tuple[Postprocessing | None, tuple[Level, ...]]:
    """The adjustment between levels, if any, and the levels with post-processed mechanisms."""
    if postprocessing is None:
        return None, levels
    if isinstance(postprocessing, Postprocessing):
        if any(getattr(level, "query_of", None) for level in levels):
            raise ValueError("queries cannot be read beside counts that are adjusted to add up: leave one of them out")
        if len(levels) != 2 or not getattr(levels[0], "siblings", 0):
            raise ValueError(
                "postprocessing fits a unit with siblings to its parent: it needs two levels, the lower with siblings, "
                f"got {[getattr(level, 'name', level) for level in levels]}"
            )
        if not postprocessing.exact(levels[0].siblings or 0):
            raise ValueError(
                f"{postprocessing!r} has no exact likelihood with {levels[0].siblings} siblings: ask "
                "risk.consistency_risk, which simulates and states its error"
            )
        return postprocessing, (levels[0], replace(levels[1], mechanism=clamped(levels[1].mechanism)))
    if not callable(postprocessing):
        raise TypeError(
            "postprocessing must be a Postprocessing, such as LeastSquares(), or a function from mechanism to "
            f"mechanism, such as clamped, got {postprocessing!r}"
        )
    return None, tuple(
        replace(level, mechanism=postprocessing(level.mechanism)) if isinstance(level, Level) else level
        for level in levels
    )
