"""Links of a count to the total above it: likelihoods of the releases about the others of the same parent.

The others' count is total - inside. Their releases are read as a sum, one by one, or only through a child's count that
was adjusted to its parent's. The belief about the total is a separate factor unless `Link.believes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from adversary._core import Floats
from adversary.adversaries.beliefs import Each
from adversary.adversaries.path.log_products import log_convolutions
from adversary.adversaries.plans import Released
from adversary.adversaries.postprocessing import LeastSquares, Postprocessing
from adversary.privacy.mechanisms import Mechanism

# Nats by which a likelihood falls before counts are left out: exp(-45) is about 3e-20.
REACH_NATS = 45.0


class Link(ABC):
    """The likelihood of the releases about the others, given a count and the total above it."""

    __slots__ = ()

    @abstractmethod
    def log_prob(self, released: Released, inside: Floats, total: Floats) -> Floats:
        """Log P(releases about the others | count inside, total), nats; broadcasts, with releases on the first axis."""

    def log_likelihood(self, released: Released, x: Floats, total: Floats) -> Floats:
        """Log likelihood of every pair of x (release, count) and total (release, total)."""
        return self.log_prob(released, x[:, :, None], total[:, None, :])

    @abstractmethod
    def columns(self, released: Released) -> Floats:
        """The released numbers on which the likelihood depends, (release, number)."""

    @abstractmethod
    def suggested_increase(self, released: Released) -> Floats:
        """Estimate of total - count from the releases about the others, at least 0, (release,)."""

    @abstractmethod
    def includes_belief(self, released: Released) -> bool:
        """True where its likelihood already averages over the belief about the others."""

    @property
    @abstractmethod
    def released_noise(self) -> Mechanism:
        """The noise of the siblings' releases: of their sum, or of each, whichever is read."""

    @property
    @abstractmethod
    def noise(self) -> Mechanism:
        """The noise of the sum of the siblings' releases; ValueError where no such sum is published."""


def _along(numbers: Floats, like: Floats) -> Floats:
    """Numbers (release,) along the first axis of an array."""
    return numbers.reshape(-1, *[1] * (like.ndim - 1))


@dataclass(frozen=True)
class SumLink(Link):
    """The sum of the siblings' releases: others' count plus the sum of their noises."""

    level: int
    sum_noise: Mechanism

    def log_prob(self, released: Released, inside: Floats, total: Floats) -> Floats:
        gap = total - inside
        return self.sum_noise.log_likelihood(_along(released.sums[:, self.level], gap), gap)

    def columns(self, released: Released) -> Floats:
        return released.sums[:, [self.level]]

    def suggested_increase(self, released: Released) -> Floats:
        return np.maximum(released.sums[:, self.level], 0.0)

    def includes_belief(self, released: Released) -> bool:
        return False

    @property
    def released_noise(self) -> Mechanism:
        return self.sum_noise

    @property
    def noise(self) -> Mechanism:
        return self.sum_noise


@dataclass(frozen=True)
class EachLink(Link):
    """The siblings' releases one by one, with independent counts: a convolution over the siblings.

        P(y_1, ..., y_d, others = j) = sum over k_1 + ... + k_d = j of prod_i law(k_i) m(y_i | k_i)

    with law(k) the belief about one sibling's count and m the noise. If only their sum is published, the likelihood is
    that of `SumLink`.
    """

    level: int
    single: Mechanism
    belief: Each

    def log_prob(self, released: Released, inside: Floats, total: Floats) -> Floats:
        each = self._sibling_factors(released)
        if each is None:
            return SumLink(self.level, self.noise).log_prob(released, inside, total)
        # A convolution does not depend on the order of its factors: each multiset of releases is convolved once.
        alike, index = np.unique(np.sort(each, axis=1), axis=0, return_inverse=True)
        values, place = np.unique(alike, return_inverse=True)
        gap = total - inside
        low, high = float(gap.min()), float(gap.max())
        seen = self._sibling_likelihoods(values, high)
        laws = [self._together([seen[i] for i in row], low, high) for row in place.reshape(alike.shape)]
        result = np.full(gap.shape, -np.inf)
        for i, row in enumerate(index.ravel()):
            first, table = laws[row]
            entry = gap[i] - first
            listed = (entry >= 0) & (entry < table.size)
            result[i][listed] = table[entry[listed].astype(np.int64)]
        return result

    def _sibling_likelihoods(self, values: Floats, most: float) -> list[tuple[float, float, Floats]]:
        """For every released value, a sibling's log P(release, count) over its counts up to `most`.

        Per value: first count, log of the largest P(release, count), and log ratios of all to the largest.
        """
        low, high = self.belief.ends_of_one()
        reach = self.single.tail_radius(REACH_NATS)
        bulk = (low, low) if self.belief.law is None else self.belief.sibling_law.bulk()
        if not np.isfinite(reach) and self.belief.law is None:
            raise ValueError("a sibling's count clamped from above fits every larger count: Each needs a law for it")
        beyond = reach if np.isfinite(reach) else 0.0
        starts = np.maximum(float(low), np.floor(np.minimum(values, bulk[0]) - beyond))
        stops = np.maximum(starts, np.minimum(most, np.ceil(np.maximum(values, bulk[1]) + beyond)))
        stops = np.minimum(stops, np.inf if high is None else high)
        counts = np.arange(starts.min(), stops.max() + 1.0)
        law, result = self.belief.log_one(counts), []
        for y, start, stop in zip(values, starts, stops, strict=True):
            here = slice(int(start - counts[0]), int(stop - counts[0]) + 1)
            log_p = law[here] + self.single.log_likelihood(y, counts[here])
            top = float(log_p.max())
            result.append((0.0, -np.inf, np.zeros(1)) if np.isneginf(top) else (start, top, log_p - top))
        return result

    @staticmethod
    def _together(siblings: list[tuple[float, float, Floats]], low: float, high: float) -> tuple[float, Floats]:
        """First count of the others, and log P(releases, others = count) from `low` to `high`, by convolution."""
        first, peak = float(sum(one[0] for one in siblings)), float(sum(one[1] for one in siblings))
        logs = [part for *_, part in siblings]
        from_, to = int(max(low - first, 0.0)), int(min(high - first, sum(part.size - 1.0 for part in logs)))
        if to < from_ or np.isneginf(peak):
            return first + from_, np.zeros(0)
        return first + from_, log_convolutions(logs, from_, to) + peak

    def _sibling_factors(self, released: Released) -> Floats | None:
        each = released.individual(self.level, self.belief.count)
        if each is None and np.isnan(released.sums[:, self.level]).any():
            raise ValueError(
                "these siblings have no published sum and are read one by one: give their releases as siblings to "
                'plan.observe, or their true counts as "siblings" in the truth'
            )
        return each

    def columns(self, released: Released) -> Floats:
        each = self._sibling_factors(released)
        return released.sums[:, [self.level]] if each is None else np.sort(each, axis=1)

    def suggested_increase(self, released: Released) -> Floats:
        each = self._sibling_factors(released)
        if each is None:
            return np.maximum(released.sums[:, self.level], 0.0)
        return np.asarray(np.maximum(each, float(self.belief.ends_of_one()[0])).sum(axis=1), dtype=np.float64)

    def includes_belief(self, released: Released) -> bool:
        return self._sibling_factors(released) is not None

    @property
    def released_noise(self) -> Mechanism:
        return self.single

    @property
    def noise(self) -> Mechanism:
        return self.single.total(self.belief.count)


@dataclass(frozen=True)
class AdjustedLink(Link):
    """The unit's own published count after adjustment to its parent's: it depends on the unit and on its siblings."""

    postprocessing: Postprocessing
    single: Mechanism
    siblings: int

    @property
    def formula(self) -> bool:
        """True where the likelihood is closed-form; otherwise it is a sum over the siblings' vectors, or simulated."""
        return isinstance(self.postprocessing, LeastSquares)

    def log_prob(self, released: Released, inside: Floats, total: Floats) -> Floats:
        others = total - inside
        own, parent = (_along(released.noisy[:, i], others) for i in (0, 1))
        possible = others >= 0
        value = self.postprocessing.log_prob(
            own, parent, inside, np.where(possible, others, 0.0), self.single, self.siblings
        )
        return np.where(possible, value, -np.inf)

    def columns(self, released: Released) -> Floats:
        return released.noisy[:, [0]]

    def suggested_increase(self, released: Released) -> Floats:
        return np.zeros(len(released))

    def includes_belief(self, released: Released) -> bool:
        return False

    @property
    def released_noise(self) -> Mechanism:
        return self.single

    @property
    def noise(self) -> Mechanism:
        raise ValueError("the siblings' releases are adjusted to their parent's: their sum is not published")
