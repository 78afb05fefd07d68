"""What is published: nested levels around one person, each with its noise.

A plan is a path: the target's block, its block group, its tract, ... Every level publishes the count of one cell in the
target's unit, and below the top also in the `siblings` other units of the same parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from adversary._numeric import Integers, check_whole
from adversary.privacy.losses import PrivacyLoss, composed
from adversary.privacy.mechanisms import Exact, Mechanism
from adversary.reader.releases import make_release

NEIGHBOURS = ("unbounded", "bounded")


@dataclass(frozen=True)
class Level:
    """One published level.

    Parameters
    ----------
    name : what the level is called in truths, releases and beliefs ("block")
    mechanism : the noise added to the count of every unit at this level
    siblings : number of other units of the same parent, required below the top; 0 = the next level has the same
        people
    """

    name: str
    mechanism: Mechanism
    siblings: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"level name must be a non-empty string, got {self.name!r}")
        if not isinstance(self.mechanism, Mechanism):
            raise TypeError(f"level {self.name!r}: mechanism must be a Mechanism, got {self.mechanism!r}")
        if self.siblings is not None:
            siblings = int(check_whole(f"level {self.name!r}: siblings", self.siblings, minimum=0))
            object.__setattr__(self, "siblings", siblings)


@dataclass(frozen=True)
class Plan:
    """What is published, lowest level first.

    Parameters
    ----------
    levels : the nested levels; `siblings` is required of all but the last, which has none
    cells : published cells in which the reader's hypotheses differ: 1, the target's own, or 2 when the alternative puts
        the target in another published cell
    neighbours : which neighbours a promise about this plan speaks of, "unbounded" (a record is added or removed: one
        count of every query moves) or "bounded" (a record changes: two move); unless given, "bounded" with two cells.
        The noise itself is in the levels

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> Plan([Level("block", DiscreteGaussian.from_rho(0.1), siblings=27), Level("tract", DiscreteGaussian(1.0))]).names
    ('block', 'tract')
    """

    levels: tuple[Level, ...]
    cells: int = 1
    neighbours: str = "unbounded"

    def __init__(
        self, levels: Iterable[Level], cells: int = 1, postprocessing: None = None, *, neighbours: str | None = None
    ) -> None:
        if postprocessing is not None:
            raise ValueError(f"postprocessing must be None: releases are published as they are, got {postprocessing!r}")
        if neighbours is None:
            neighbours = "bounded" if cells == 2 else "unbounded"
        object.__setattr__(self, "levels", tuple(levels))
        object.__setattr__(self, "cells", int(check_whole("cells", cells, minimum=1)))
        object.__setattr__(self, "neighbours", neighbours)
        if not self.levels:
            raise ValueError("a plan needs at least one level, got none")
        for level in self.levels:
            if not isinstance(level, Level):
                raise TypeError(f"levels must be Level objects, got {level!r}")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"level names must differ, got {list(self.names)}")
        if self.cells > 2:
            raise ValueError(f"cells must be 1 or 2 (the hypotheses name at most two cells), got {self.cells}")
        if neighbours not in NEIGHBOURS:
            raise ValueError(f"neighbours must be one of {NEIGHBOURS}, got {neighbours!r}")
        for level in self.levels[:-1]:
            if level.siblings is None:
                raise ValueError(
                    f"level {level.name!r}: siblings is required below the top level {self.levels[-1].name!r} "
                    "(the number of other units of the same parent; 0 if it holds the same people)"
                )
        if self.levels[-1].siblings is not None:
            raise ValueError(f"level {self.levels[-1].name!r} is the top: siblings must be left out")

    @property
    def names(self) -> tuple[str, ...]:
        """Level names, lowest first."""
        return tuple(level.name for level in self.levels)

    def privacy_loss(self, records: int = 1) -> PrivacyLoss:
        """The worst pair of the noisy levels: each of `records` people moves every level's count by 1, in every cell.

        Exact levels are left out: an invariant is not noise, it conditions what the reader compares.
        """
        size = int(check_whole("records", records, minimum=1))
        return composed([noise.privacy_loss(size, self.cells) for noise in self._noisy])

    @property
    def _noisy(self) -> list[Mechanism]:
        return [level.mechanism for level in self.levels if not isinstance(level.mechanism, Exact)]

    def neighbour_loss(self) -> PrivacyLoss:
        """The loss between two data sets that are neighbours, whichever cells the reader watches: a promise's test."""
        moved = 2 if self.neighbours == "bounded" else 1
        return composed([noise.privacy_loss(1, moved) for noise in self._noisy])

    def counts(self, truth: Mapping[str, Any]) -> Integers:
        """Array (level, cell) of true counts from a mapping of level name to a count (two cells: one each)."""
        unknown = [name for name in truth if name not in self.names and name != "in"]
        if unknown:
            raise ValueError(f"truth: unknown level {unknown[0]!r}; the plan has {list(self.names)}")
        missing = [name for name in self.names if name not in truth]
        if missing:
            raise ValueError(f"truth: no count for level {missing[0]!r}")
        rows = [check_whole(f"truth of level {name!r}", truth[name], minimum=0) for name in self.names]
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

    def release(self, truth: Mapping[str, Any], rng: Any = None, draws: int | None = None) -> xr.Dataset:
        """Simulated releases of these true counts.

        Parameters
        ----------
        truth : count of the cell at every level, by level name; one per cell when `cells` is 2
        rng : seed or numpy Generator
        draws : number of releases, along dim `release`; None for one release without that dim
        """
        counts, generator = self.counts(truth), np.random.default_rng(rng)
        size = 1 if draws is None else int(check_whole("draws", draws, minimum=1))
        shape = (size, self.cells)
        noisy = np.stack(
            [level.mechanism.sample(row, generator, shape) for level, row in zip(self.levels, counts, strict=True)], 1
        )
        sums = np.full(noisy.shape, np.nan)
        for i, level in enumerate(self.levels[:-1]):
            if level.siblings:
                others = counts[i + 1] - counts[i]
                sums[:, i] = level.mechanism.total(level.siblings).sample(others, generator, shape)
        release = make_release(self, noisy, sums)
        return release if draws is not None else release.isel(release=0)

    def observe(
        self,
        noisy: Mapping[str, Any],
        sibling_sum: Mapping[str, Any] | None = None,
        siblings: Mapping[str, Any] | None = None,
    ) -> xr.Dataset:
        """A published release.

        Parameters
        ----------
        noisy : released count of the target's unit at every level, by level name; a scalar, or an array over releases
            (with a last axis over cells when `cells` is 2)
        sibling_sum : sum of the released counts of the siblings, for every level that has some
        siblings : instead of their sum, the released counts of the siblings along a last axis; they are added up
        """
        if siblings is not None:
            both = sorted(set(siblings) & set(sibling_sum or {}))
            if both:
                raise ValueError(f"level {both[0]!r}: give either sibling_sum or siblings, not both")
            for name, values in siblings.items():
                wanted = next((level.siblings for level in self.levels if level.name == name), None)
                if np.ndim(values) == 0 or np.shape(values)[-1] != wanted:
                    got = np.shape(values)[-1] if np.ndim(values) else "one number"
                    raise ValueError(
                        f"siblings of level {name!r} needs a last axis over its {wanted} siblings, got {got}"
                    )
            sibling_sum = {
                **(sibling_sum or {}),
                **{k: np.asarray(v, dtype=np.float64).sum(-1) for k, v in siblings.items()},
            }
        needed = {level.name for level in self.levels[:-1] if level.siblings}
        columns = [
            self._columns("noisy", noisy, set(self.names)),
            self._columns("sibling_sum", sibling_sum or {}, needed),
        ]
        scalar = all(values.ndim == 1 for column in columns for values in column.values())
        size = (
            max(values.shape[0] for column in columns for values in column.values() if values.ndim == 2)
            if not scalar
            else 1
        )
        blocks = [np.full((size, len(self.levels), self.cells), np.nan) for _ in columns]
        for block, column in zip(blocks, columns, strict=True):
            for name, values in column.items():
                if values.ndim == 2 and values.shape[0] != size:
                    raise ValueError(
                        f"releases must have one length, got {values.shape[0]} and {size} for level {name!r}"
                    )
                block[:, self.names.index(name)] = values
        release = make_release(self, *blocks)
        if scalar:
            return release.isel(release=0)
        given = [*noisy.values(), *(sibling_sum or {}).values()]
        labels = [one["release"] for one in given if isinstance(one, xr.DataArray) and "release" in one.coords]
        return release.assign_coords(release=labels[0]) if labels else release

    @staticmethod
    def _numbers(name: str, value: Any) -> Any:
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(f"{name} must be numeric, got {value!r}") from None

    def _columns(self, what: str, values: Mapping[str, Any], needed: set[str]) -> dict[str, Any]:
        """Each level's values as (cell,) or (release, cell), checked."""
        unknown = sorted(set(values) - set(self.names))
        if unknown:
            raise ValueError(f"{what}: unknown level {unknown[0]!r}; the plan has {list(self.names)}")
        missing = sorted(needed - set(values))
        if missing:
            raise ValueError(f"{what}: no value for level {missing[0]!r}")
        extra = sorted(set(values) - needed)
        if extra:
            raise ValueError(f"{what}: level {extra[0]!r} has no siblings whose releases could be added up")
        arrays = {name: self._numbers(f"{what} of level {name!r}", value) for name, value in values.items()}
        if self.cells == 1:
            return {name: array[..., None] for name, array in arrays.items()}
        for name, array in arrays.items():
            if array.ndim == 0 or array.shape[-1] != self.cells:
                raise ValueError(
                    f"{what} of level {name!r} needs a last axis over {self.cells} cells, got {array.shape}"
                )
        return arrays
