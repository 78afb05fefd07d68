"""Non-negative consistency: a unit and its siblings moved as little as possible onto the simplex of their parent.

The 2020 Census solved such a problem for every parent, with an integer programme at the end; this is it in spirit. The
unit's count then depends on every sibling's noisy count, not only on their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._core import Floats, Integers, as_array, check_whole, log_sum_exp
from adversary.adversaries.postprocessing.interval_mass import log_between
from adversary.adversaries.postprocessing.rounding import check_rule, nearest, ties_go_down
from adversary.adversaries.postprocessing.sibling_adjustment import (
    Postprocessing,
    check_noise,
    check_parent,
    check_siblings,
)
from adversary.privacy.mechanisms import IntegerNoise, Mechanism

PARTS = 50
"""A simulation is made of so many parts, whose spread gives its standard error."""

_EXACT_NATS = 60.0
_MAX_STATES = 4_000_000
_CHUNK = 1_000_000
_MOST_WORK = 1e9


@dataclass(frozen=True, slots=True)
class NonNegative(Postprocessing):
    """The noisy counts moved to the nearest point of {t >= 0, sum t = t2}, then the unit's own rounded.

    That point is t_i = max(x_i - tau, 0): with x sorted downwards and C_k the sum of the k largest,
    tau = (C_k - t2) / k for the largest k with x_k > (C_k - t2) / k.

    Rounded one by one, the children need not add up to t2 exactly. The 2020 Census settled that by an integer
    optimisation over all children; this rounding is the same in spirit, not in every digit.

    Given the siblings' total Y, every one of the Y people lives in one of the siblings, evenly and independently of the
    others: what any Poisson law of their counts gives. The siblings' noisy counts z are enumerated
    for d <= 2 (but for those less likely than exp(-60)), and simulated for more, with the same random numbers for every
    hypothesis; the standard error means something for releases likelier than 1 / draws or so. The unit's own noise is
    always summed: t1 >= a if and only if v >= a - 1/2 =: c (or v > c, by the rule for ties), that is x >= c + tau(c)
    with sum_i max(z_i - tau, 0) = t2 - c, so every z gives a whole law of t1.

    Parameters
    ----------
    rounding : "half_even", "half_up" or "half_down"
    draws : simulated vectors of siblings, in 50 parts (for d > 2)
    seed : of the simulation

    References
    ----------
    Held, Wolfe and Crowder 1974; Duchi, Shalev-Shwartz, Singer and Chandra 2008, figure 1.
    Abowd et al. 2022, "The 2020 Census Disclosure Avoidance System TopDown Algorithm", sections 6 and 7.
    """

    rounding: str = "half_even"
    draws: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_rule("rounding", self.rounding)
        draws = int(check_whole("draws", self.draws, minimum=PARTS))
        object.__setattr__(self, "draws", -(-draws // PARTS) * PARTS)
        object.__setattr__(self, "seed", int(check_whole("seed", self.seed, minimum=0)))

    def exact(self, siblings: int) -> bool:
        """For one or two siblings."""
        return check_siblings(siblings) <= 2

    def adjusted(self, own: ArrayLike, others: ArrayLike, parent: ArrayLike, siblings: int) -> Integers:
        """The algorithm, with `others` the siblings' noisy counts along a last axis; ties are exact."""
        x, z, t2 = check_whole("own", own), check_whole("others", others), check_parent(parent)
        if z.ndim == 0 or z.shape[-1] != check_siblings(siblings):
            raise ValueError(f"others needs a last axis over the {siblings} siblings, got shape {z.shape}")
        shape = np.broadcast_shapes(x.shape, t2.shape, z.shape[:-1])
        x, t2, z = np.broadcast_to(x, shape), np.broadcast_to(t2, shape), np.broadcast_to(z, (*shape, z.shape[-1]))
        ordered = -np.sort(-np.concatenate([x[..., None], z], axis=-1), axis=-1)
        sums = np.cumsum(ordered, axis=-1)
        k = np.arange(1, ordered.shape[-1] + 1)
        size = np.maximum((k * ordered > sums - t2[..., None]).sum(axis=-1), 1)
        above = np.take_along_axis(sums, size[..., None] - 1, axis=-1)[..., 0]
        return np.asarray(np.maximum(nearest(size * x - above + t2, size, self.rounding), 0), dtype=np.int64)

    def sample(
        self,
        own: ArrayLike,
        parent: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
        rng: np.random.Generator,
        sibling_counts: ArrayLike | None = None,
    ) -> Integers:
        d, x, t2 = check_siblings(siblings), check_whole("own", own), check_parent(parent)
        shape = np.broadcast_shapes(x.shape, t2.shape, np.shape(others))
        if sibling_counts is not None:
            counts = np.broadcast_to(check_whole("sibling_counts", sibling_counts, minimum=0), (*shape, d))
        else:
            counts = np.empty((*shape, d), dtype=np.int64)
            totals = np.broadcast_to(check_whole("others", others, minimum=0), shape)
            for one in np.unique(totals):
                here = totals == one
                counts[here] = _placed(d, int(one), int(here.sum()), rng)
        return self.adjusted(x, check_noise(mechanism).sample(counts, rng), t2, d)

    def parts(
        self,
        release: ArrayLike,
        parent: ArrayLike,
        own: ArrayLike,
        others: ArrayLike,
        mechanism: Mechanism,
        siblings: int,
    ) -> Floats:
        d, noise = check_siblings(siblings), check_noise(mechanism)
        given = (check_whole("release", release), check_parent(parent), check_whole("own", own))
        cases = np.broadcast_arrays(*given, check_whole("others", others))
        self._check_work(noise, d, np.unique(cases[3]))  # before so many cases are sorted
        each, inverse = np.unique(np.stack([case.ravel() for case in cases]), axis=1, return_inverse=True)
        self._check_work(noise, d, each[3])
        result = np.full((1 if self.exact(d) else PARTS, each.shape[1]), -np.inf)
        for total in np.unique(each[3]):
            here = np.flatnonzero((each[3] == total) & (each[0] >= 0) & (each[0] <= each[1]))
            if here.size and total >= 0:
                result[:, here] = _average_over_parts(self, noise, d, int(total), *each[:3, here])
        return result[:, inverse.ravel()].reshape(-1, *cases[0].shape)

    def _check_work(self, noise: IntegerNoise, d: int, totals: Integers) -> None:
        """ValueError where every outcome over every vector of noisy siblings would take minutes."""
        width = 2.0 * noise.reach(_EXACT_NATS) + float(totals.max(initial=0)) + 1.0
        vectors = width**d if self.exact(d) else float(self.draws)
        if totals.size * vectors > _MOST_WORK:
            raise ValueError(
                f"{totals.size} outcomes over {vectors:.3g} vectors of siblings' noisy counts are too many to list: "
                "narrower noise, one sibling, a smaller range of totals, or LeastSquares has an answer"
            )


@dataclass(frozen=True, eq=False)
class Siblings:
    """Vectors of siblings' noisy counts, with what the projection asks of them.

    sums (vector, k): of the k largest. slack (vector, k): g_k = sum_{i <= k} (z_i - z_k), increasing in k: exactly the
    siblings with g_k < r stay positive when r is left for all of them. log_weight (part, vector in the part).
    """

    sums: Integers
    slack: Integers
    log_weight: Floats

    @classmethod
    def of(cls, noisy: Integers, log_weight: Floats) -> Siblings:
        """From noisy counts (vector, sibling)."""
        ordered = -np.sort(-noisy, axis=1)
        sums = np.cumsum(ordered, axis=1)
        return cls(sums, sums - ordered * np.arange(1, noisy.shape[1] + 1), log_weight)

    def threshold(self, count: Integers, parent: Integers, rule: str) -> Floats:
        """The smallest own noisy count that gives t1 >= count, (vector, case): -inf for 0, +inf beyond the parent.

        c + tau(c) = ((k + 1) (2 a - 1) + 2 (C_k - t2)) / (2 k) for a = count, with k siblings left positive.
        """
        a = np.clip(count, 1, np.maximum(parent, 1))
        size = np.zeros((self.sums.shape[0], a.size), dtype=np.int64)
        for slack in self.slack.T:
            size += slack[:, None] <= parent - a  # g_k < t2 - a + 1/2
        size = np.maximum(size, 1)
        above = np.take_along_axis(self.sums, size - 1, axis=1)
        numerator = (size + 1) * (2 * a - 1) + 2 * (above - parent)
        reached = ~ties_go_down(a - 1, rule)
        edge = (numerator + 2 * size - reached) // (2 * size)  # itself where reached
        return np.where(count <= 0, -np.inf, np.where(count > parent, np.inf, edge.astype(np.float64)))


def _average_over_parts(
    rule: NonNegative, noise: IntegerNoise, d: int, total: int, release: Integers, parent: Integers, own: Integers
) -> Floats:
    """log P(t1 = release), averaged over the vectors of each part: (part, case)."""
    vectors = _vectors(rule, noise, d, total)
    parts = vectors.log_weight.shape[0]
    result = np.empty((parts, release.size))
    step = max(1, _CHUNK // vectors.sums.shape[0])
    order = np.lexsort((release, parent))  # neighbours share a threshold
    for start in range(0, release.size, step):
        at = order[start : start + step]
        ends = np.stack([np.concatenate([release[at], release[at] + 1]), np.tile(parent[at], 2)])
        each, place = np.unique(ends, axis=1, return_inverse=True)
        first, last = np.split(vectors.threshold(each[0], each[1], rule.rounding)[:, place.ravel()], 2, axis=1)
        log_p = log_between(noise, first, last - 1.0, own[at].astype(np.float64)).reshape(parts, -1, at.size)
        result[:, at] = log_sum_exp(log_p + vectors.log_weight[..., None], axis=1)
    return result


@lru_cache(maxsize=8)
def _vectors(rule: NonNegative, noise: IntegerNoise, d: int, total: int) -> Siblings:
    """The siblings' noisy counts given their true total: all of them for d <= 2, simulated ones for more."""
    if d > 2:
        counts = _placed(d, total, rule.draws, np.random.default_rng([rule.seed, 1]))
        noisy = _noise_draws(noise, d, rule.draws, rule.seed) + counts
        size = rule.draws // PARTS
        return Siblings.of(noisy, np.full((PARTS, size), -np.log(size)))
    reach = int(noise.reach(_EXACT_NATS))
    z = np.arange(-reach, total + reach + 1)
    if z.size**d > _MAX_STATES:
        raise ValueError(f"the noise is too wide to enumerate {d} siblings: {z.size**d} vectors of noisy counts")
    if d == 1:
        log_p = as_array(noise.log_noise((z - total).astype(np.float64)))
        return _probable(z[:, None], log_p)
    y = np.arange(total + 1)
    log_f = as_array(noise.log_noise((z - y[:, None]).astype(np.float64)))
    ways = gammaln(total + 1.0) - gammaln(y + 1.0) - gammaln(total - y + 1.0) - total * np.log(2.0)
    pairs = [log_f[k][:, None] + log_f[total - k][None, :] + w for k, w in enumerate(ways)]
    log_p = pairs[0]
    for one in pairs[1:]:
        log_p = np.logaddexp(log_p, one)
    noisy = np.stack(np.broadcast_arrays(z[:, None], z[None, :]), axis=-1).reshape(-1, 2)
    return _probable(noisy, log_p.ravel())


def _placed(siblings: int, total: int, draws: int, rng: np.random.Generator) -> Integers:
    """Counts (draw, sibling) of people placed one by one: from one seed a larger total only adds people."""
    counts = np.zeros((draws, siblings), dtype=np.int64)
    for _ in range(total):
        counts[np.arange(draws), rng.integers(siblings, size=draws)] += 1
    return counts


def _probable(noisy: Integers, log_p: Floats) -> Siblings:
    probable = log_p > log_p.max() - _EXACT_NATS
    return Siblings.of(noisy[probable], log_p[probable][None])


@lru_cache(maxsize=4)
def _noise_draws(noise: IntegerNoise, d: int, draws: int, seed: int) -> Integers:
    """(vector, sibling): the same for every total, so that hypotheses share their random numbers."""
    return noise.draw(np.random.default_rng([seed, 0]), (draws, d))
