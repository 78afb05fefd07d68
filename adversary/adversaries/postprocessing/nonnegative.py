"""Non-negative consistency: projection of a unit's and its siblings' noisy counts on the simplex of their parent.

The 2020 Census solved a similar problem for every parent, with an integer programme at the end. The unit's count then
depends on every sibling's noisy count, not only on their sum.
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

# Number of independent parts of a simulation; their spread gives its standard error.
PARTS = 50

_EXACT_NATS = 60.0
_MAX_STATES = 4_000_000
_CHUNK = 1_000_000
_MOST_WORK = 1e9


@dataclass(frozen=True, slots=True)
class NonNegative(Postprocessing):
    """Projection of the noisy counts on {t >= 0, sum t = t2}, with the unit's own count rounded afterwards.

    That point is t_i = max(x_i - tau, 0): with x sorted downwards and C_k the sum of the k largest,
    tau = (C_k - t2) / k for the largest k with x_k > (C_k - t2) / k.

    Children rounded one by one need not add up to t2 exactly. The 2020 Census used an integer optimisation over all
    children instead, so single counts may differ from this rounding.

    Given the siblings' total Y, each of the Y people lives in any sibling with equal probability, independently: the
    conditional distribution of equal independent Poisson counts. The siblings' noisy counts z are enumerated for
    d <= 2 (except those less likely than exp(-60)), and simulated for more, with common random numbers for all
    hypotheses. The standard error is meaningful for releases likelier than about 1 / draws. The unit's own noise is
    always summed: t1 >= a if and only if v >= a - 1/2 =: c (or v > c, by the rule for ties), that is x >= c + tau(c)
    with sum_i max(z_i - tau, 0) = t2 - c. So every z gives an exact distribution of t1.

    Parameters
    ----------
    rounding : "half_even", "half_up" or "half_down"
    draws : number of simulated vectors of siblings, in 50 parts (for d > 2)
    seed : seed of the simulation

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
        """True for one or two siblings."""
        return check_siblings(siblings) <= 2

    def adjusted(self, own: ArrayLike, others: ArrayLike, parent: ArrayLike, siblings: int) -> Integers:
        """The unit's published count, with `others` the siblings' noisy counts along a last axis; ties are exact."""
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
        # A first check, before a possibly long sort of the cases.
        self._check_work(noise, d, np.unique(cases[3]))
        each, inverse = np.unique(np.stack([case.ravel() for case in cases]), axis=1, return_inverse=True)
        self._check_work(noise, d, each[3])
        result = np.full((1 if self.exact(d) else PARTS, each.shape[1]), -np.inf)
        for total in np.unique(each[3]):
            here = np.flatnonzero((each[3] == total) & (each[0] >= 0) & (each[0] <= each[1]))
            if here.size and total >= 0:
                result[:, here] = _average_over_parts(self, noise, d, int(total), *each[:3, here])
        return result[:, inverse.ravel()].reshape(-1, *cases[0].shape)

    def _check_work(self, noise: IntegerNoise, d: int, totals: Integers) -> None:
        """ValueError if the outcomes over all vectors of noisy siblings would take minutes."""
        width = 2.0 * noise.tail_radius(_EXACT_NATS) + float(totals.max(initial=0)) + 1.0
        vectors = width**d if self.exact(d) else float(self.draws)
        if totals.size * vectors > _MOST_WORK:
            raise ValueError(
                f"{totals.size} outcomes over {vectors:.3g} vectors of siblings' noisy counts are too many to list: "
                "narrower noise, one sibling, a smaller range of totals, or LeastSquares has an answer"
            )


@dataclass(frozen=True, eq=False)
class Siblings:
    """Vectors of siblings' noisy counts, with the sums that the projection needs.

    `sums` (vector, k) are sums of the k largest. `slack` (vector, k) is g_k = sum_{i <= k} (z_i - z_k), increasing in
    k: if r people are left for all siblings, exactly those with g_k < r stay positive. `log_weight` has dims (part,
    vector in the part).
    """

    sums: Integers
    slack: Integers
    log_weight: Floats

    @classmethod
    def of(cls, noisy: Integers, log_weight: Floats) -> Siblings:
        """Vectors from noisy counts (vector, sibling)."""
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
            # g_k < t2 - a + 1/2 in whole numbers.
            size += slack[:, None] <= parent - a
        size = np.maximum(size, 1)
        above = np.take_along_axis(self.sums, size - 1, axis=1)
        numerator = (size + 1) * (2 * a - 1) + 2 * (above - parent)
        reached = ~ties_go_down(a - 1, rule)
        # Round up: to numerator / (2 size) itself if a tie reaches the count, otherwise to the next whole number.
        edge = (numerator + 2 * size - reached) // (2 * size)
        return np.where(count <= 0, -np.inf, np.where(count > parent, np.inf, edge.astype(np.float64)))


def _average_over_parts(
    rule: NonNegative, noise: IntegerNoise, d: int, total: int, release: Integers, parent: Integers, own: Integers
) -> Floats:
    """log P(t1 = release), averaged over the vectors of each part: (part, case)."""
    vectors = _vectors(rule, noise, d, total)
    parts = vectors.log_weight.shape[0]
    result = np.empty((parts, release.size))
    step = max(1, _CHUNK // vectors.sums.shape[0])
    # Sorted cases of one chunk share thresholds: the upper end of one release is the lower end of the next.
    order = np.lexsort((release, parent))
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
    """The siblings' noisy counts given their true total: enumerated for d <= 2, simulated for more."""
    if d > 2:
        counts = _placed(d, total, rule.draws, np.random.default_rng([rule.seed, 1]))
        noisy = _noise_draws(noise, d, rule.draws, rule.seed) + counts
        size = rule.draws // PARTS
        return Siblings.of(noisy, np.full((PARTS, size), -np.log(size)))
    reach = int(noise.tail_radius(_EXACT_NATS))
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
    """Counts (draw, sibling) of people placed uniformly at random."""
    # One by one: with the same seed a larger total only adds people, so hypotheses share random numbers.
    counts = np.zeros((draws, siblings), dtype=np.int64)
    for _ in range(total):
        counts[np.arange(draws), rng.integers(siblings, size=draws)] += 1
    return counts


def _probable(noisy: Integers, log_p: Floats) -> Siblings:
    probable = log_p > log_p.max() - _EXACT_NATS
    return Siblings.of(noisy[probable], log_p[probable][None])


@lru_cache(maxsize=4)
def _noise_draws(noise: IntegerNoise, d: int, draws: int, seed: int) -> Integers:
    """Noise (vector, sibling), the same for every total, so that hypotheses share random numbers."""
    return noise.draw(np.random.default_rng([seed, 0]), (draws, d))
