"""Revivals of a composition: intervals in which a product of wrapped Gaussians can be large, by a sieve.

The product Phi of families with periods p and weights w satisfies Phi(u) <= exp(-sum of w d(u)^2), with d the distance
of u to the nearest multiple of p. It is large again wherever all distances are small: hundreds of times for a few
coarse scales, never for many scales. The sieve lists windows outside which Phi(u) <= tau sqrt(1 + u^2 / u0^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from adversary._core import Floats

_ALIKE = "its parts lose amounts of very different sizes; give noise that is more alike"


class Work(NamedTuple):
    """Numbers of windows in a search and of nodes in a sum; each takes some hundred bytes."""

    windows: int
    nodes: float

    def fits(self, most: Work) -> bool:
        return self.windows <= most.windows and self.nodes <= most.nodes


LIGHT, EASY, MOST = Work(4_000, 20_000), Work(4_000, 200_000), Work(200_000, 5_000_000)
"""Work limits: a sum takes about 1 ms, tens of ms, or seconds; a search milliseconds (first two) or seconds."""


class TooManyRevivals(ValueError):
    """Error of a search that exceeds its limit on windows."""

    def __init__(self, most: int) -> None:
        super().__init__(f"a composition must have at most {most:,} revivals to be searched, got more: {_ALIKE}")


class RevivalWindows(NamedTuple):
    """Intervals [low, high] with the bound exp(-penalty - weight (u - centre)^2) inside; how many were searched."""

    low: Floats
    high: Floats
    centre: Floats
    penalty: Floats
    weight: Floats
    searched: int


@dataclass(frozen=True)
class Threshold:
    """Threshold function tau(u) = tau sqrt(1 + u^2 / u0^2), by log tau and u0."""

    log_tau: float
    u0: float

    def nats(self, u: Floats) -> Floats:
        """max(-log tau(u), 0)."""
        return np.maximum(-self.log_tau - 0.5 * np.log1p((u / self.u0) ** 2), 0.0)


def revivals(
    periods: Floats, weights: Floats, threshold: Threshold, end: float, start_weight: float, most: int = MOST.windows
) -> RevivalWindows:
    """Windows of [0, end] outside which the product is at most tau(u).

    Families are processed by decreasing period: the first have few multiples and exclude most of the line. The exponent
    of a window is stored as penalty + weight (u - centre)^2, a form without cancellation.

    Parameters
    ----------
    periods, weights : of the families, (family,); families with weight p^2 / 4 < 1e-3 exclude nothing and are skipped
    threshold : tau(u)
    end : end of the line, in 1 / nats
    start_weight : weight of a factor exp(-weight u^2) without revivals, of a Gaussian release; 0 for none
    most : largest number of windows

    Raises
    ------
    TooManyRevivals : more windows than `most`
    """
    nats = float(threshold.nats(np.zeros(1))[0])
    if start_weight > 0.0:
        end = min(end, float(np.sqrt(nats / start_weight)))
    zero = np.zeros(1)
    windows = RevivalWindows(zero, np.full(1, end), zero, zero, np.full(1, start_weight), 1)
    telling = weights * periods**2 / 4.0 >= 1e-3
    order = np.argsort(-periods[telling], kind="stable")
    for period, weight in zip(periods[telling][order], weights[telling][order], strict=True):
        windows = _sift(windows, float(period), float(weight), threshold, most)
    return windows


def _sift(windows: RevivalWindows, period: float, weight: float, threshold: Threshold, most: int) -> RevivalWindows:
    """Windows after one family: their parts near multiples of its period."""
    low, high, centre, penalty, total, searched = windows
    radius = np.minimum(np.sqrt(threshold.nats(low) / weight), period / 2.0)
    first, last = np.ceil((low - radius) / period), np.floor((high + radius) / period)
    count = np.maximum(last - first + 1.0, 0.0).astype(np.int64)
    if count.sum() > 10 * most:
        raise TooManyRevivals(most)
    parent = np.repeat(np.arange(low.size), count)
    place = np.arange(parent.size) - np.repeat(np.cumsum(count) - count, count)
    multiple = (first[parent] + place) * period
    low, high = np.maximum(low[parent], multiple - radius[parent]), np.minimum(high[parent], multiple + radius[parent])
    centre, penalty, total = centre[parent], penalty[parent], total[parent]
    penalty = penalty + total * weight / (total + weight) * (multiple - centre) ** 2
    centre = (total * centre + weight * multiple) / (total + weight)
    total = total + weight
    room = threshold.nats(np.maximum(low, 0.0)) - penalty
    reach = np.sqrt(np.maximum(room, 0.0) / total)
    low, high = np.maximum(low, centre - reach), np.minimum(high, centre + reach)
    open_windows = (room >= 0.0) & (low <= high)
    if int(open_windows.sum()) > most:
        raise TooManyRevivals(most)
    searched = max(searched, parent.size // 10, int(open_windows.sum()))
    return RevivalWindows(
        low[open_windows],
        high[open_windows],
        centre[open_windows],
        penalty[open_windows],
        total[open_windows],
        searched,
    )


def nodes_of(windows: RevivalWindows, spacing: float, last: float) -> Floats:
    """Integers n from 0 to `last`, ascending, with n * spacing inside a window."""
    first = np.maximum(np.ceil(windows.low / spacing - 1e-9), 0.0)
    final = np.minimum(np.floor(windows.high / spacing + 1e-9), last)
    order = np.argsort(first, kind="stable")
    first, final = first[order], final[order]
    reached = np.maximum.accumulate(np.concatenate([[-1.0], final[:-1]]))
    first = np.maximum(first, reached + 1.0)
    wanted = np.maximum(final - first + 1.0, 0.0)
    if not wanted.sum() <= MOST.nodes:
        raise ValueError(f"a composition must need at most {MOST.nodes:,} nodes, got {wanted.sum():,.3g}: {_ALIKE}")
    count = wanted.astype(np.int64)
    offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + offset
