"""The hypotheses a privacy framework compares, for one joint law, query and mechanism, as mixtures of noise laws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adversary._core import Floats, Integers
from adversary.privacy.joint.joint_law import JointLaw
from adversary.privacy.joint.noise_mixtures import Mixtures
from adversary.privacy.mechanisms import Mechanism

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
class Hypotheses:
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
    def of(cls, law: JointLaw, query: Any, mechanism: Mechanism) -> Hypotheses:
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
            yield from (_averaged if level == "record" else _known)(record, mass, place, answers)

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


def _averaged(record: int, mass: Floats, place: Integers, answers: int) -> Iterator[Experiment]:
    """One record's values, the others integrated out given each; arrays are (rest, value)."""
    margin = mass.sum(0)
    law = np.stack([np.bincount(a, m, answers) for a, m in zip(place.T, mass.T, strict=True)])
    some = margin > 0
    yield Experiment(record, 1.0, margin[some], law[some] / margin[some, None])


def _known(record: int, mass: Floats, place: Integers, answers: int) -> Iterator[Experiment]:
    """One record's values for every possible rest."""
    for m, a in zip(mass, place, strict=True):
        if m.any():
            yield Experiment(record, float(m.sum()), m[m > 0] / m.sum(), np.eye(answers)[a[m > 0]])


def _by(array: NDArray[Any], group: Iterable[int]) -> NDArray[Any]:
    """An array over the law as (everything else, values of the group's records)."""
    axes = sorted(group)
    size = prod(array.shape[axis] for axis in axes)
    return np.moveaxis(array, axes, range(-len(axes), 0)).reshape(-1, size)
