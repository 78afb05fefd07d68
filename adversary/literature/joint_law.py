"""A joint law of a few records, each with a few values: what an adversary believes of a database before the release.

Everything a privacy framework compares is read from it: complete databases, the values of one record with the others
averaged out or known, events about several records, and which records move together. With a query and a mechanism each
of these hypotheses is a mixture of noise laws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import (
    Floats,
    Integers,
    align_arguments,
    as_data_array,
    check_non_negative,
    has_labels,
    labelled_array,
    paired_arrays,
    refuse_masked,
)
from adversary.literature.noise_mixtures import Mixtures
from adversary.privacy.mechanisms import Mechanism

# What may be true of a database: {record: value, ...}, a function of the tuple of values, or booleans over the law.
Event = Mapping[str, Any] | Callable[[tuple[Any, ...]], Any] | ArrayLike

# How far probabilities may be from summing to one; they are then divided by their sum.
SUM_TOLERANCE = 1e-9

# Most databases over which a law is spread.
MOST_DATABASES = 1 << 24

# Relative rounding within which a law is the product of its margins; anything further counts as dependence.
INDEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class JointLaw:
    """Joint law of the records: probability[x_1, x_2, ...], any dependence.

    Parameters
    ----------
    probability : DataArray with one dim per record and the values it may take as coordinates, a DataFrame of two
        records or a Series of one, or a plain array (records "record 0", "record 1", ... with values 0, 1, ...);
        non-negative, sums to 1 within 1e-9

    >>> law = JointLaw([[0.4, 0.1], [0.1, 0.4]])
    >>> law.mass({"record 0": 1}), law.blocks
    (0.5, (('record 0', 'record 1'),))
    """

    probability: xr.DataArray

    def __post_init__(self) -> None:
        plain = (
            self.probability if has_labels(self.probability) else check_non_negative("probability", self.probability)
        )
        given = labelled_array("probability", plain, tuple(f"record {i}" for i in range(plain.ndim)))
        if any(index.nlevels > 1 for index in given.indexes.values()):
            raise ValueError("probability must have a dim for each record, got several in one index: .unstack() it")
        p = check_non_negative("probability", given.values)
        if p.ndim == 0 or p.size == 0:
            raise ValueError(f"probability must have a dim for each record and a value for each, got shape {p.shape}")
        total = float(p.sum())
        if abs(total - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"probability must sum to 1 within {SUM_TOLERANCE}, got {total}")
        values = {str(d): given[d].values if d in given.coords else np.arange(given.sizes[d]) for d in given.dims}
        for name, v in values.items():
            if len(set(v.tolist())) < v.size:
                raise ValueError(f"values of {name!r} must be distinct, got {v.tolist()}")
        labelled = xr.DataArray(p / total, coords=values, dims=list(values), name="probability")
        object.__setattr__(self, "probability", labelled)

    @classmethod
    def independent(cls, records: Mapping[str, Mapping[Any, float] | Sequence[float]]) -> Self:
        """Independent records: {name: {value: probability}} or {name: probabilities of 0, 1, ...}.

        The values of a labelled law, such as a Series, are its labels.
        """
        laws = {name: _by_value(f"probability of {name!r}", law) for name, law in records.items()}
        if not laws:
            raise ValueError("records must name at least one record, got none")
        coords = {name: list(law) for name, law in laws.items()}
        margins = [check_non_negative(f"probability of {name!r}", list(law.values())) for name, law in laws.items()]
        return cls(xr.DataArray(_outer(margins), coords=coords, dims=list(coords)))

    @classmethod
    def listed(cls, databases: Iterable[Iterable[Any]], probability: ArrayLike) -> Self:
        """Only these databases are possible: tuples of numbers or strings, all different, of one length.

        Rows of a DataFrame have their probability by its index.
        """
        if has_labels(databases):
            table: Any = as_data_array(databases)
            place, databases = getattr(databases, "iloc", table)[:, 0], table.values.tolist()
        else:
            databases = list(databases)
            place = np.arange(len(databases))
        weight = check_non_negative("probability", paired_arrays({"databases": place, "probability": probability})[1])
        rows = [tuple(database) for database in databases]
        if weight.shape != (len(rows),):
            raise ValueError(f"probability must have one number per database, {len(rows)}, got shape {weight.shape}")
        if len(set(rows)) < len(rows):
            raise ValueError("databases must be different, one is listed twice")
        if len({len(row) for row in rows}) != 1:
            raise ValueError("databases must have the same number of records")
        values = sorted({record for row in rows for record in row})
        records = [f"record {i}" for i in range(len(rows[0]))]
        if len(values) ** len(records) > MOST_DATABASES:
            raise ValueError(f"{len(records)} records of {len(values)} values are too many for a joint law")
        array = np.zeros((len(values),) * len(records))
        array[tuple(np.searchsorted(values, column) for column in zip(*rows, strict=True))] = weight
        return cls(xr.DataArray(array, coords=dict.fromkeys(records, values), dims=records))

    @property
    def array(self) -> Floats:
        """The probabilities as a plain array."""
        return np.asarray(self.probability.values, dtype=np.float64)

    @property
    def records(self) -> dict[str, list[Any]]:
        """The values each record may take, by its name."""
        return {str(name): self.probability[name].values.tolist() for name in self.probability.dims}

    @property
    def possible(self) -> NDArray[np.bool_]:
        """Databases of positive probability."""
        return self.array > 0

    @property
    def blocks(self) -> tuple[tuple[str, ...], ...]:
        """The finest groups of records that are independent of one another: who moves with whom."""
        names = list(self.records)
        return tuple(tuple(names[i] for i in sorted(block)) for block in blocks(self.array))

    def holds(self, event: Event, name: str = "event") -> NDArray[np.bool_]:
        """Mask of an event: True where it holds, of the law's shape."""
        if isinstance(event, Mapping):
            return self._agrees(event, name)
        truth = self.over(event, name)
        if truth.dtype != np.bool_:
            raise TypeError(f"{name} must be true or false of each database, got {truth.ravel()[0]}")
        return truth

    def mass(self, event: Event) -> float:
        """Probability of an event."""
        return float(self.array[self.holds(event)].sum())

    def given(self, event: Event) -> JointLaw:
        """The law of the records given an event: another joint law, with the same values."""
        inside = self.array * self.holds(event)
        if not inside.any():
            raise ValueError(f"event must be possible to be given, got {event!r} of probability 0")
        return JointLaw(self.probability.copy(data=inside / inside.sum()))

    def after(self, log_likelihood: Any) -> JointLaw:
        """The law given a noisy release whose log-likelihood, nats, is this function of the database, or array."""
        nats = self.over(log_likelihood, "log_likelihood").astype(np.float64)
        if np.isnan(nats).any() or np.isposinf(nats).any():
            raise ValueError("log_likelihood must be finite or -inf for each database")
        top = nats[self.possible].max()
        if np.isneginf(top):
            raise ValueError("the release is impossible under every database that is possible")
        joint = self.array * np.exp(np.where(self.possible, nats - top, -np.inf))
        return JointLaw(self.probability.copy(data=joint / joint.sum()))

    def over(self, function: Any, name: str) -> NDArray[Any]:
        """A function of the database (called with the tuple of values), or an array of its results, over the law."""
        if callable(function):
            results = [function(database) for database in product(*self.records.values())]
            return np.asarray(results).reshape(self.array.shape)
        refuse_masked(name, function)
        given = align_arguments({name: function})[name]
        if has_labels(given):
            given = labelled_array(name, function, tuple(self.records))
            if set(given.dims) != set(self.probability.dims):
                raise ValueError(f"{name} must have a dim for each of {list(self.records)}, got {list(given.dims)}")
            function = paired_arrays({"the law": self.probability, name: given})[1]
        array = np.asarray(function)
        if array.shape != self.array.shape:
            raise ValueError(f"{name} must have the law's shape {self.array.shape}, got {array.shape}")
        return array

    def _agrees(self, wanted: Mapping[str, Any], name: str) -> NDArray[np.bool_]:
        """Databases in which each named record has its value."""
        if unknown := set(wanted) - set(self.records):
            raise ValueError(f"{name} must name records among {list(self.records)}, got {min(map(str, unknown))!r}")
        agrees = np.ones((), dtype=np.bool_)
        for record, values in self.records.items():
            if record in wanted and wanted[record] not in values:
                raise ValueError(f"{name} must give {record!r} one of {values}, got {wanted[record]!r}")
            hit = np.array([record not in wanted or value == wanted[record] for value in values])
            agrees = np.logical_and.outer(agrees, hit)
        return agrees


def _by_value(name: str, law: Any) -> Mapping[Any, float]:
    """Probabilities by the value that each is of."""
    if isinstance(law, Mapping):
        return law
    refuse_masked(name, law)
    values = as_data_array(law).indexes.get(as_data_array(law).dims[0]) if has_labels(law) else None
    return dict(enumerate(law) if values is None else zip(values.tolist(), np.asarray(law), strict=True))


def _outer(margins: Iterable[Floats]) -> Floats:
    """Product law of independent margins."""
    total = np.ones(())
    for margin in margins:
        total = np.multiply.outer(total, margin)
    return total


def blocks(weight: Floats) -> list[frozenset[int]]:
    """The finest partition of the axes over which a non-negative array is a product, up to a relative 1e-9.

    The sets that split off form an algebra, closed under intersection, so an axis' block is the smallest of them.
    """
    left, blocks_of_axes = list(range(weight.ndim)), []
    while left:
        others = left[1:]
        sizes = (c for size in range(len(left)) for c in combinations(others, size))
        block = next(frozenset({left[0], *c}) for c in sizes if _splits(weight, (left[0], *c)))
        blocks_of_axes.append(block)
        left = [axis for axis in left if axis not in block]
    return blocks_of_axes


def _splits(weight: Floats, inside: tuple[int, ...]) -> bool:
    """True where the array is a product of a function of these axes and one of the rest."""
    order = [*inside, *(axis for axis in range(weight.ndim) if axis not in inside)]
    table = weight.transpose(order).reshape(prod(weight.shape[i] for i in inside), -1)
    table = table / table.sum()
    expected = np.multiply.outer(table.sum(1), table.sum(0))
    return np.allclose(table, expected, rtol=INDEPENDENT, atol=0.0)


def common_coarsening(*partitions: Iterable[frozenset[int]]) -> list[frozenset[int]]:
    """The finest partition coarser than each of those given."""
    merged: list[frozenset[int]] = []
    for block in (block for partition in partitions for block in partition):
        touching = [other for other in merged if other & block]
        merged = [other for other in merged if not other & block] + [block.union(*touching)]
    return merged


LEVELS = ("database", "known", "record")
"""What a hypothesis is: a complete database, a record with all others known, a record with the others averaged out."""


class Experiment(NamedTuple):
    """Competing hypotheses: values of one record, given what else is known with probability `mass`.

    `prior` (hypothesis) and `weights` (hypothesis, answer): the law of the answer under each. Only possible hypotheses.
    """

    record: int
    mass: float
    prior: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class EventHypotheses:
    """What can be said about the records, and what each statement makes of the release.

    Parameters
    ----------
    law : joint law of the records
    releases : the noise laws of the query's distinct answers
    place : which of those answers each database has, in the law's shape
    """

    law: JointLaw
    releases: Mixtures
    place: Integers

    @classmethod
    def of(cls, law: JointLaw, query: Any, mechanism: Mechanism) -> EventHypotheses:
        """For a query given as a function of the tuple of values, or as an array of answers over the law."""
        return cls(law, *Mixtures.of(mechanism, law.over(query, "query")))

    def experiments(self, level: str) -> Iterator[Experiment]:
        """Every set of competing hypotheses at a level: one, one per record, or one per record and rest."""
        if level not in LEVELS:
            raise ValueError(f"level must be one of {LEVELS}, got {level!r}")
        p, answers = self.law.array, self.releases.answers.size
        if level == "database":
            prior = np.bincount(self.place.ravel(), p.ravel(), answers)
            yield Experiment(0, 1.0, prior[prior > 0], np.eye(answers)[prior > 0])
            return
        for record in range(p.ndim):
            mass, place = (_by(array, (record,)) for array in (p, self.place))
            rests = [slice(i, i + 1) for i in np.flatnonzero(mass.any(1))] if level == "known" else [slice(None)]
            for rest in rests:
                law = [np.bincount(a, m, answers) for a, m in zip(place[rest].T, mass[rest].T, strict=True)]
                margin = mass[rest].sum(0)
                some, total = margin > 0, margin.sum()
                yield Experiment(record, float(total), margin[some] / total, np.stack(law)[some] / margin[some, None])

    def widest(self, allowed: NDArray[np.bool_], groups: Iterable[Iterable[int]]) -> float:
        """Largest log ratio, in nats, between two allowed databases that differ only in the records of one group."""
        worst = 0.0
        for group in groups:
            for row, keep in zip(_by(self.place, group), _by(allowed, group), strict=True):
                seen = np.unique(row[keep])
                if seen.size > 1:
                    worst = max(worst, float(self.releases.pairwise[np.ix_(seen, seen)].max()))
        return worst

    def spread(self, level: str) -> float:
        """Largest log ratio between two competing hypotheses."""
        pairs = (pair for one in self.experiments(level) for pair in combinations(one.weights, 2))
        return max((self.releases.distance(a, b) for a, b in pairs), default=0.0)

    def weights(self, event: NDArray[np.bool_]) -> Floats:
        """Law of the answer given an event."""
        mass = np.bincount(self.place[event], self.law.array[event], self.releases.answers.size)
        if not mass.any():
            raise ValueError("event must be possible, as must what it is compared with, got probability 0")
        return np.asarray(mass / mass.sum(), dtype=np.float64)


def _by(array: NDArray[Any], group: Iterable[int]) -> NDArray[Any]:
    """An array over the law as (everything else, values of the group's records)."""
    axes = sorted(group)
    size = prod(array.shape[axis] for axis in axes)
    return np.moveaxis(array, axes, range(-len(axes), 0)).reshape(-1, size)
