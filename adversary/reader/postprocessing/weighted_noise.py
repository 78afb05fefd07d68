"""A weighted sum of two whole-number noises, tabulated once, with tails at any distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from adversary._core import Floats, as_array
from adversary.privacy.mechanisms import IntegerNoise
from adversary.reader.postprocessing.interval_mass import log_mass

_REACH_NATS = 80.0
_TAIL_NATS = 45.0
_MAX_TABLE = 20_000_000
_MAX_COST = 2_000_000_000


@dataclass(frozen=True, slots=True)
class WeightedNoise:
    """Law of W = a N + b S for two independent integer noises, a and b without a common divisor.

    A table of positive sums, log P(W = w) = log sum_n P(N = n) P(S = (w - a n) / b). Discrete Gaussian N with rho
    and S with rho / d have exp(-rho (t^2 P + 2 t w)) for a shift of w by t P, P = a^2 + d b^2 (move N by t a, S by
    t d b), so one period gives them all, at any distance.

    Parameters
    ----------
    own, others : N and S
    a, b : positive whole numbers
    """

    own: IntegerNoise
    others: IntegerNoise
    a: int
    b: int

    def log_between(self, low: Floats, high: Floats) -> Floats:
        """log P(low <= W <= high), broadcasting; ends whole or infinite."""
        low, high = np.broadcast_arrays(low, high)
        ends = np.concatenate([low.ravel(), high.ravel()])
        furthest = int(np.abs(ends, where=np.isfinite(ends), out=np.zeros(ends.size)).max(initial=0.0)) + 1
        table = _upper_tails(self, 1 << furthest.bit_length())

        def log_survival(w: Floats) -> Floats:
            outer = np.maximum(w, 1.0 - w)  # left of 1 by symmetry
            tail = table[np.where(np.isfinite(outer), outer, table.size - 1).astype(np.int64)]
            return np.where(w >= 1.0, tail, np.log1p(-np.exp(np.minimum(tail, -1e-300))))

        return log_mass(log_survival, low, high, 1.0)

    def log_pmf(self, size: int) -> Floats:
        """log P(W = w) for w = 0, ..., size."""
        period = self._period()
        if period is None or size < period:
            return self._summed(size)
        half = self._summed(period // 2)
        w = np.arange(size + 1)
        t = (w + period // 2) // period
        r = w - t * period
        return half[np.abs(r)] - self.own.rho * (t * t * float(period) + 2.0 * t * r)

    def _period(self) -> int | None:
        if not (self.own.parabola and self.others.summands[0].parabola):
            return None
        d = round(self.own.rho / self.others.rho)
        return self.a**2 + d * self.b**2 if np.isclose(self.own.rho, d * self.others.rho, rtol=1e-13, atol=0) else None

    def _summed(self, size: int) -> Floats:
        a, b, reach = self.a, self.b, int(self.own.reach(_REACH_NATS))
        n = np.arange(-reach, size // a + reach + 1)
        if n.size * (size / b) > _MAX_COST:
            raise ValueError(
                f"the noise is too wide, the weights too uneven (their ratio, siblings counted, is {a} / {b}), or the "
                f"release too far from the counts to tabulate: {n.size} x {size // b} terms"
            )
        first = -(a * int(n[-1]) // b)  # smallest s with 0 <= a n + b s <= size, for any n
        s = np.arange(first, (size + a * reach) // b + 1, dtype=np.float64)
        log_s, log_n = as_array(self.others.log_noise(s)), as_array(self.own.log_noise(n.astype(np.float64)))
        total = np.full(size + 1, -np.inf)
        for k, log_p in zip(n.tolist(), log_n.tolist(), strict=True):
            low, high = -(a * k // b), (size - a * k) // b
            place = slice(a * k + b * low, a * k + b * high + 1, b)
            total[place] = np.logaddexp(total[place], log_p + log_s[low - first : high - first + 1])
        return total


@lru_cache(maxsize=32)
def _upper_tails(law: WeightedNoise, size: int) -> Floats:
    """log P(W >= w) for w = 0, ..., size, and -inf after them; added from far out inwards."""
    beyond = int(law.a * law.own.reach(_TAIL_NATS) + law.b * law.others.reach(_TAIL_NATS))
    if size + beyond > _MAX_TABLE:
        raise ValueError(
            f"a table of {size + beyond} values is too large: the noise is too wide, the weights too uneven (their "
            f"ratio, siblings counted, is {law.a} / {law.b}), or the release too far from the counts"
        )
    tails = np.logaddexp.accumulate(law.log_pmf(size + beyond)[::-1])[::-1]
    return np.append(tails[: size + 1], -np.inf)
