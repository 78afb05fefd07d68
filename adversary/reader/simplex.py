"""Non-negative consistency: a unit and its siblings moved as little as possible onto the simplex of their parent's count.

The 2020 Census solved such a problem for every parent, with an integer programme at the end; this is it in spirit. The
unit's count then depends on every sibling's noisy count, not only on their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from adversary._numeric import Floats, Integers, as_array, check_non_negative, check_whole, log_sum_exp
from adversary.privacy.mechanisms import IntegerNoise, Mechanism
from adversary.reader.consistency import Postprocessing, check_noise, check_parent, check_siblings
from adversary.reader.elicited import as_law
from adversary.reader.intervals import log_between
from adversary.reader.rounding import check_rule, nearest, ties_go_down

PARTS = 50
"""A simulation is made of so many parts, whose spread gives its standard error."""

_EXACT_NATS = 60.0
_MAX_STATES = 4_000_000
_CHUNK = 2_000_000


def project(values: ArrayLike, total: ArrayLike) -> Floats:
    """The point nearest to `values` in {t >= 0, sum t = total}, along the last axis: t_i = max(x_i - tau, 0).

    With x sorted downwards and C_k the sum of the k largest, tau = (C_k - total) / k for the largest k with
    x_k > (C_k - total) / k.

    Parameters
    ----------
    values : numbers (..., n), n >= 1
    total : what they are to add up to, (...), non-negative

    References
    ----------
    Held, Wolfe and Crowder 1974; Duchi, Shalev-Shwartz, Singer and Chandra 2008, figure 1.

    >>> project([3, -1, 1], 2).tolist()
    [2.0, 0.0, 0.0]
    """
    x, budget = as_array(values), check_non_negative("total", total)
    if x.ndim == 0 or x.shape[-1] == 0 or not np.isfinite(x).all():
        raise ValueError(f"values must be finite numbers with a last axis of at least one, got {values!r}")
    ordered = -np.sort(-x, axis=-1)
    k = np.arange(1, x.shape[-1] + 1)
    tau = (np.cumsum(ordered, axis=-1) - budget[..., None]) / k
    size = np.maximum((ordered > tau).sum(axis=-1, keepdims=True), 1)
    return np.maximum(x - np.take_along_axis(tau, size - 1, axis=-1), 0.0)


@dataclass(frozen=True, eq=False)
class NonNegative(Postprocessing):
    """The noisy counts projected on {t >= 0, sum t = t2} (`project`), then the unit's own rounded.

    Rounded one by one, the children need not add up to t2 exactly; an agency would settle that by an integer
    optimisation (the 2020 Census did), which moves a count by less than one more.

    Given the siblings' total Y, their counts are d independent draws from `law` under the condition that they add up to
    Y; by default Y people live in the siblings independently and evenly. The siblings' noisy counts z are enumerated
    for d <= 2 (but for those less likely than exp(-60)), and simulated for more, with the same random numbers for
    every hypothesis. The unit's own noise is always summed: t1 >= a if and only if v >= a - 1/2 =: c (or >, by the rule
    for ties), that is x >= c + tau(c) with sum_i max(z_i - tau, 0) = t2 - c, so every z gives a whole law of t1.

    Parameters
    ----------
    rounding : "half_even", "half_up" or "half_down"
    law : of one sibling's count: a pmf over 0, 1, 2, ..., or a frozen discrete `scipy.stats` or PreliZ law. A total
        that it cannot give makes every release impossible
    draws : simulated vectors of siblings, in 50 parts (for d > 2)
    seed : of the simulation

    References
    ----------
    Abowd et al. 2022, "The 2020 Census Disclosure Avoidance System TopDown Algorithm", sections 6 and 7.
    """

    rounding: str = "half_even"
    law: Any = None
    draws: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_rule("rounding", self.rounding)
        object.__setattr__(self, "law", _read_law(self.law))
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
                if not possible(self.law, d, int(one)):
                    raise ValueError(f"others must be a total that {d} draws from the law can give, got {one}")
                counts[here] = spread(self.law, d, int(one), int(here.sum()), rng)
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
        each, inverse = np.unique(np.stack([case.ravel() for case in cases]), axis=1, return_inverse=True)
        result = np.full((1 if self.exact(d) else PARTS, each.shape[1]), -np.inf)
        for total in np.unique(each[3]):
            here = np.flatnonzero((each[3] == total) & (each[0] >= 0) & (each[0] <= each[1]))
            if here.size and total >= 0 and possible(self.law, d, int(total)):
                result[:, here] = _averaged(self, noise, d, int(total), *each[:3, here])
        return result[:, inverse.ravel()].reshape(-1, *cases[0].shape)


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
        edge = np.where(reached, -(-numerator // (2 * size)), numerator // (2 * size) + 1)
        return np.where(count <= 0, -np.inf, np.where(count > parent, np.inf, edge.astype(np.float64)))


def _averaged(
    rule: NonNegative, noise: IntegerNoise, d: int, total: int, release: Integers, parent: Integers, own: Integers
) -> Floats:
    """log P(t1 = release), averaged over the vectors of each part: (part, case)."""
    vectors = _vectors(rule, noise, d, total)
    parts = vectors.log_weight.shape[0]
    result = np.empty((parts, release.size))
    step = max(1, _CHUNK // vectors.sums.shape[0])
    for start in range(0, release.size, step):
        at = slice(start, start + step)
        first = vectors.threshold(release[at], parent[at], rule.rounding)
        last = vectors.threshold(release[at] + 1, parent[at], rule.rounding) - 1.0
        log_p = log_between(noise, first, last, own[at].astype(np.float64)).reshape(parts, -1, first.shape[1])
        result[:, at] = log_sum_exp(log_p + vectors.log_weight[..., None], axis=1)
    return result


@lru_cache(maxsize=8)
def _vectors(rule: NonNegative, noise: IntegerNoise, d: int, total: int) -> Siblings:
    """The siblings' noisy counts given their true total: all of them for d <= 2, simulated ones for more."""
    if d > 2:
        noisy = _noise_draws(noise, d, rule.draws, rule.seed) + spread(
            rule.law, d, total, rule.draws, np.random.default_rng([rule.seed, 1])
        )
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
    pairs = [log_f[k][:, None] + log_f[total - k][None, :] + w for k, w in enumerate(_log_split(rule.law, total))]
    log_p = pairs[0]
    for one in pairs[1:]:
        log_p = np.logaddexp(log_p, one)
    noisy = np.stack(np.broadcast_arrays(z[:, None], z[None, :]), axis=-1).reshape(-1, 2)
    return _probable(noisy, log_p.ravel())


def _probable(noisy: Integers, log_p: Floats) -> Siblings:
    kept = log_p > log_p.max() - _EXACT_NATS
    return Siblings.of(noisy[kept], log_p[kept][None])


@lru_cache(maxsize=4)
def _noise_draws(noise: IntegerNoise, d: int, draws: int, seed: int) -> Integers:
    """(vector, sibling): the same for every total, so that hypotheses share their random numbers."""
    return noise.draw(np.random.default_rng([seed, 0]), (draws, d))


def _read_law(law: Any) -> Any:
    """A law as a tuple of probabilities, or with a `logpmf`; None as it is."""
    law = as_law(law)
    if law is None or callable(getattr(law, "logpmf", None)):
        return law
    pmf = check_non_negative("law", law)
    if pmf.ndim != 1 or abs(float(pmf.sum()) - 1.0) > 1e-9:
        raise ValueError(f"law must be a pmf over 0, 1, 2, ... that adds up to 1, got {law!r}")
    return tuple((pmf / pmf.sum()).tolist())


def _table(law: Any, total: int) -> Any:
    """Probabilities of 0, ..., total, up to a constant, in extended precision for its range."""
    if isinstance(law, tuple):
        return np.pad(np.array(law[: total + 1], dtype=np.longdouble), (0, max(0, total + 1 - len(law))))
    log_p = as_array(law.logpmf(np.arange(total + 1)))
    top = float(log_p.max(initial=-np.inf))
    return np.exp((log_p - (top if np.isfinite(top) else 0.0)).astype(np.longdouble))


@lru_cache(maxsize=32)
def _powers(law: Any, d: int, total: int) -> list[Any]:
    """Probabilities of 0, ..., total for the sum of 0, 1, ..., d draws from the law, up to constants."""
    one = _table(law, total)
    powers = [np.append(np.ones(1, np.longdouble), np.zeros(total, np.longdouble))]
    for _ in range(d):
        powers.append(np.convolve(powers[-1], one)[: total + 1])
    return powers


def possible(law: Any, d: int, total: int) -> bool:
    """Whether d draws from the law can add up to the total."""
    return law is None or bool(_powers(law, d, total)[d][total] > 0)


def _log_split(law: Any, total: int) -> Floats:
    """log P(one of two siblings has k | both have `total`), for k = 0, ..., total."""
    k = np.arange(total + 1)
    if law is None:
        ways = gammaln(total + 1.0) - gammaln(k + 1.0) - gammaln(total - k + 1.0)
        return np.asarray(ways - total * np.log(2.0), dtype=np.float64)
    one = _table(law, total)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(one * one[::-1] / (one * one[::-1]).sum()), dtype=np.float64)


def spread(law: Any, d: int, total: int, draws: int, rng: np.random.Generator) -> Integers:
    """Counts (draw, sibling) of d siblings that add up to the total: independent draws from the law, so conditioned.

    Without a law every person chooses a sibling evenly. Either way a larger total uses the random numbers of a smaller
    one: without a law it only adds people.
    """
    counts = np.zeros((draws, d), dtype=np.int64)
    if law is None:
        for _ in range(total):
            counts[np.arange(draws), rng.integers(d, size=draws)] += 1
        return counts
    one, powers = _table(law, total), _powers(law, d, total)
    uniform, left = rng.random((d - 1, draws)) * (1.0 - 1e-9), np.full(draws, total)
    for i in range(d - 1):
        counts[:, i] = _conditional(one, powers[d - 1 - i], left, uniform[i])
        left = left - counts[:, i]
    counts[:, -1] = left
    return counts


def _conditional(one: Any, rest: Any, left: Integers, uniform: Floats) -> Integers:
    """Draws of one count given what is left for it and the rest: P(k | r) proportional to one(k) rest(r - k).

    The tables for r = 0, 1, ... are laid end to end, each raised by r, and searched at once.
    """
    size = one.size
    gap = np.arange(size)[:, None] - np.arange(size)
    mass = np.where(gap >= 0, one * rest[np.maximum(gap, 0)], 0.0)
    cumulative = np.cumsum(mass, axis=1)
    with np.errstate(invalid="ignore"):
        table = np.where(cumulative[:, -1:] > 0, cumulative / cumulative[:, -1:], 1.0).astype(np.float64)
    laid = (table + np.arange(size)[:, None]).ravel()
    return np.asarray(np.searchsorted(laid, left + uniform, side="right") - left * size, dtype=np.int64)
