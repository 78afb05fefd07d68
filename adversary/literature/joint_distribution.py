"""Joint distributions of a few records with a few values each: an adversary's prior over databases.

The hypotheses that privacy frameworks compare are events of such a distribution: complete databases, the values of one
record with the others averaged out or known, and statements about several records. Given a query and a mechanism, the
release has a mixture of noise distributions under each hypothesis.
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

# An event: {record: value, ...}, a function of the tuple of values, or booleans of the distribution's shape.
Event = Mapping[str, Any] | Callable[[tuple[Any, ...]], Any] | ArrayLike

# Probabilities typed with nine digits or more may miss a sum of one by this much; they are then divided by their sum.
SUM_TOLERANCE = 1e-9

# Most databases of one distribution: 128 MiB of doubles.
MOST_DATABASES = 1 << 24

# Relative difference, from rounding, within which a distribution is the product of its margins: anything larger counts
# as dependence, which can only raise an epsilon.
INDEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class JointDistribution:
    """Joint distribution of the records: probability[x_1, x_2, ...], with any dependence.

    Parameters
    ----------
    probability : DataArray with one dim per record and the values it may take as coordinates, a DataFrame of two
        records or a Series of one, or a plain array (records "record 0", "record 1", ... with values 0, 1, ...);
        non-negative, sums to 1 within 1e-9

    >>> joint = JointDistribution([[0.4, 0.1], [0.1, 0.4]])
    >>> joint.mass({"record 0": 1}), joint.blocks
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
        """Joint distribution of independent records.

        Parameters
        ----------
        records : {name: {value: probability}} or {name: probabilities of 0, 1, ...}; the labels of a Series are its
            values
        """
        marginals = {
            name: _by_value(f"probability of {name!r}", probabilities) for name, probabilities in records.items()
        }
        if not marginals:
            raise ValueError("records must name at least one record, got none")
        coords = {name: list(probabilities) for name, probabilities in marginals.items()}
        margins = [
            check_non_negative(f"probability of {name!r}", list(probabilities.values()))
            for name, probabilities in marginals.items()
        ]
        return cls(xr.DataArray(_outer(margins), coords=coords, dims=list(coords)))

    @classmethod
    def listed(cls, databases: Iterable[Iterable[Any]], probability: ArrayLike) -> Self:
        """Joint distribution with the listed databases as its support.

        Parameters
        ----------
        databases : tuples of numbers or strings, all different, of one length; or a DataFrame with a row for each
        probability : of each database, in the same order; with a DataFrame, matched by its index
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
            raise ValueError(f"{len(records)} records of {len(values)} values are too many for a joint distribution")
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
        """The finest partition of the records into groups that are independent of one another."""
        names = list(self.records)
        return tuple(tuple(names[i] for i in sorted(block)) for block in blocks(self.array))

    def holds(self, event: Event, name: str = "event") -> NDArray[np.bool_]:
        """Mask of an event, in the distribution's shape: True where the event holds."""
        if isinstance(event, Mapping):
            return self._agrees(event, name)
        truth = self.evaluated(event, name)
        if truth.dtype != np.bool_:
            raise TypeError(f"{name} must be true or false of each database, got {truth.ravel()[0]}")
        return truth

    def mass(self, event: Event) -> float:
        """Probability of an event."""
        return float(self.array[self.holds(event)].sum())

    def given(self, event: Event) -> JointDistribution:
        """Joint distribution of the records conditional on an event, over the same values."""
        inside = self.array * self.holds(event)
        if not inside.any():
            raise ValueError(f"event must be possible to be given, got {event!r} of probability 0")
        return JointDistribution(self.probability.copy(data=inside / inside.sum()))

    def after(self, log_likelihood: Any) -> JointDistribution:
        """Posterior over databases after a noisy release.

        Parameters
        ----------
        log_likelihood : log P(release | database) in nats: a function of the tuple of values, or an array in the
            distribution's shape
        """
        nats = self.evaluated(log_likelihood, "log_likelihood").astype(np.float64)
        if np.isnan(nats).any() or np.isposinf(nats).any():
            raise ValueError("log_likelihood must be finite or -inf for each database")
        top = nats[self.possible].max()
        if np.isneginf(top):
            raise ValueError("the release is impossible under every database that is possible")
        joint = self.array * np.exp(np.where(self.possible, nats - top, -np.inf))
        return JointDistribution(self.probability.copy(data=joint / joint.sum()))

    def evaluated(self, function: Any, name: str) -> NDArray[Any]:
        """Values of a function of the database, as an array in the distribution's shape.

        Parameters
        ----------
        function : called with each tuple of values; or the array of its results
        name : of the function, for messages
        """
        if callable(function):
            results = [function(database) for database in product(*self.records.values())]
            return np.asarray(results).reshape(self.array.shape)
        refuse_masked(name, function)
        given = align_arguments({name: function})[name]
        if has_labels(given):
            given = labelled_array(name, function, tuple(self.records))
            if set(given.dims) != set(self.probability.dims):
                raise ValueError(f"{name} must have a dim for each of {list(self.records)}, got {list(given.dims)}")
            function = paired_arrays({"the distribution": self.probability, name: given})[1]
        array = np.asarray(function)
        if array.shape != self.array.shape:
            raise ValueError(f"{name} must have the distribution's shape {self.array.shape}, got {array.shape}")
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


def _by_value(name: str, probabilities: Any) -> Mapping[Any, float]:
    """{value: probability} from a mapping, a labelled array, or probabilities of 0, 1, ..."""
    if isinstance(probabilities, Mapping):
        return probabilities
    refuse_masked(name, probabilities)
    values = (
        as_data_array(probabilities).indexes.get(as_data_array(probabilities).dims[0])
        if has_labels(probabilities)
        else None
    )
    return dict(
        enumerate(probabilities) if values is None else zip(values.tolist(), np.asarray(probabilities), strict=True)
    )


def _outer(margins: Iterable[Floats]) -> Floats:
    """Joint probabilities of independent records: the outer product of their marginal probabilities."""
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
"""Hypotheses: complete databases; values of a record, all others known; values of a record, the others averaged out."""


class HypothesisSet(NamedTuple):
    """Competing hypotheses about one record (or, at level "database", about all): only the possible ones.

    `record` is its position and `mass` the probability of the other records' values that are known; `prior`
    (hypothesis,) is given these, and `weights` (hypothesis, answer) the distribution of the query's answer under each.
    """

    record: int
    mass: float
    prior: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class EventHypotheses:
    """Events about the records as hypotheses: each is a distribution over the answers of one query.

    Parameters
    ----------
    joint : joint distribution of the records
    releases : the noise distributions around the query's distinct answers
    place : index among those answers of each database's answer, in the distribution's shape
    """

    joint: JointDistribution
    releases: Mixtures
    place: Integers

    @classmethod
    def of(cls, joint: JointDistribution, query: Any, mechanism: Mechanism) -> EventHypotheses:
        """Hypotheses of a query: a function of the tuple of values, or its answers in the distribution's shape."""
        return cls(joint, *Mixtures.of(mechanism, joint.evaluated(query, "query")))

    def hypothesis_sets(self, level: str) -> Iterator[HypothesisSet]:
        """Every set of competing hypotheses at a level: one, one per record, or one per record and rest."""
        if level not in LEVELS:
            raise ValueError(f"level must be one of {LEVELS}, got {level!r}")
        p, answers = self.joint.array, self.releases.answers.size
        if level == "database":
            prior = np.bincount(self.place.ravel(), p.ravel(), answers)
            yield HypothesisSet(0, 1.0, prior[prior > 0], np.eye(answers)[prior > 0])
            return
        for record in range(p.ndim):
            mass, place = (_record_axes_last(array, (record,)) for array in (p, self.place))
            rests = [slice(i, i + 1) for i in np.flatnonzero(mass.any(1))] if level == "known" else [slice(None)]
            for rest in rests:
                answer_mass = [np.bincount(a, m, answers) for a, m in zip(place[rest].T, mass[rest].T, strict=True)]
                margin = mass[rest].sum(0)
                possible, total = margin > 0, margin.sum()
                weights = np.stack(answer_mass)[possible] / margin[possible, None]
                yield HypothesisSet(record, float(total), margin[possible] / total, weights)

    def largest_ratio_of_databases(self, allowed: NDArray[np.bool_], groups: Iterable[Iterable[int]]) -> float:
        """Largest log ratio, in nats, between two allowed databases that differ only in the records of one group."""
        worst = 0.0
        for group in groups:
            for row, keep in zip(_record_axes_last(self.place, group), _record_axes_last(allowed, group), strict=True):
                seen = np.unique(row[keep])
                if seen.size > 1:
                    worst = max(worst, float(self.releases.pairwise[np.ix_(seen, seen)].max()))
        return worst

    def largest_ratio_of_hypotheses(self, level: str) -> float:
        """Largest absolute log ratio, in nats, between two competing hypotheses of a level."""
        pairs = (pair for one in self.hypothesis_sets(level) for pair in combinations(one.weights, 2))
        return max((self.releases.largest_absolute_log_ratio(a, b) for a, b in pairs), default=0.0)

    def weights(self, event: NDArray[np.bool_]) -> Floats:
        """Distribution of the query's answer given an event, over the distinct answers."""
        mass = np.bincount(self.place[event], self.joint.array[event], self.releases.answers.size)
        if not mass.any():
            raise ValueError("event must be possible, as must what it is compared with, got probability 0")
        return np.asarray(mass / mass.sum(), dtype=np.float64)


def _record_axes_last(array: NDArray[Any], group: Iterable[int]) -> NDArray[Any]:
    """Reshape an array over databases to (values of all other records, values of the group's records)."""
    axes = sorted(group)
    size = prod(array.shape[axis] for axis in axes)
    return np.moveaxis(array, axes, range(-len(axes), 0)).reshape(-1, size)
