"""Mass of a noise distribution on intervals, relatively accurate for distant and for short intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch

import numpy as np

from adversary._core import Floats, as_array, log_sum_exp
from adversary.privacy.losses import PrivacyLoss
from adversary.privacy.mechanisms import (
    ContinuousNoise,
    Exact,
    IntegerNoise,
    Mechanism,
    RangedNoise,
    dominating_pairs,
    log_mass,
)

_FEW = 512

# Largest number of releases, over all remainders together, that are listed for a loss.
MOST_LISTED = 200_000

# Releases with probability below exp(-700) are left out of a list.
LISTED_NATS = 700.0


@singledispatch
def log_between(mechanism: Mechanism, first: Floats, last: Floats, value: Floats) -> Floats:
    """log P(first <= release <= last | value), broadcasting; ends may be infinite, an empty interval gives -inf.

    Up to 512 releases of integer noise are summed one by one; longer intervals are differences of survival functions.
    Either has a relative error of a small multiple of rounding. For continuous noise an interval of one point has the
    log density there. For mechanisms of no registered class, such as randomised response, the releases are listed.
    """
    return _listed_mass(mechanism, *np.broadcast_arrays(first, last, value))


@log_between.register
def _(mechanism: Exact, first: Floats, last: Floats, value: Floats) -> Floats:
    del mechanism
    return np.where((first <= value) & (value <= last), 0.0, -np.inf)


@log_between.register
def _(mechanism: IntegerNoise, first: Floats, last: Floats, value: Floats) -> Floats:
    return _mass_where_any(lambda low, high: _integer_mass(mechanism, low, high), first - value, last - value)


@log_between.register
def _(mechanism: ContinuousNoise, first: Floats, last: Floats, value: Floats) -> Floats:
    return _mass_where_any(lambda low, high: _continuous_mass(mechanism, low, high), first - value, last - value)


@log_between.register
def _(mechanism: RangedNoise, first: Floats, last: Floats, value: Floats) -> Floats:
    first, last, value = np.broadcast_arrays(first, last, value)
    point = first == last
    at = np.where(point, first, 0.0)
    return np.where(
        point & np.isfinite(first),
        mechanism.log_likelihood(at, value),
        mechanism.log_between(first, last, np.clip(value, 0.0, mechanism.largest)),
    )


def listed_loss(mechanism: Mechanism, releases: Floats, change: int, values: range, inside: PrivacyLoss) -> PrivacyLoss:
    """The smallest loss that dominates those between value + change and value, for all given values.

    Parameters
    ----------
    mechanism : a mechanism whose releases can be listed
    releases : all releases with probability above exp(-700)
    change : difference of the two counts, >= 1
    values : counts that represent all possible ones
    inside : an upper bound on the loss; returned if the lists are too long

    Returns
    -------
    LatticeLoss, or `inside`
    """
    if releases.size * len(values) > MOST_LISTED:
        return inside
    value = np.array(values, dtype=np.float64)[:, None]
    pairs = np.stack([log_between(mechanism, releases, releases, value + moved) for moved in (change, 0.0)], axis=1)
    seen = (pairs > -LISTED_NATS).any(axis=(0, 1))
    return replace(dominating_pairs(pairs[:, :, seen]), bounded=bool(np.isfinite(inside.maximum)))


def _mass_where_any(mass: Callable[[Floats, Floats], Floats], low: Floats, high: Floats) -> Floats:
    """The log mass of every non-empty interval, -inf for empty ones."""
    low, high = np.broadcast_arrays(low, high)
    some = (low <= high) & (low < np.inf) & (high > -np.inf)
    result = np.full(low.shape, -np.inf)
    result[some] = mass(low[some], high[some])
    return result


def _integer_mass(noise: IntegerNoise, low: Floats, high: Floats) -> Floats:
    few, endless = high - low < _FEW, np.isinf(low) | np.isinf(high)
    result = np.empty(low.shape)
    result[few] = _log_sum_pmf(noise, low[few], high[few])
    result[endless] = _integer_survival(noise, np.where(low == -np.inf, -high, low)[endless])  # the noise is symmetric
    if (wide := ~(few | endless)).any():
        result[wide] = log_mass(lambda x: _integer_survival(noise, x), low[wide], high[wide], 1.0)
    return result


def _log_sum_pmf(noise: IntegerNoise, low: Floats, high: Floats) -> Floats:
    """Log of the sum of the pmf from low to high, scaled by its largest term.

    The noise is symmetric and log-concave, so the largest term is nearest to 0. Equal intervals are summed once.
    """
    longest = int((high - low).max(initial=0.0))
    if longest == 0:
        return as_array(noise.log_noise(low))
    start = low.min()
    if (low.max() - start + 1.0) * (longest + 1.0) < low.size:
        starts = np.arange(start, low.max() + 1.0)[:, None]
        table = _log_sum_pmf(noise, *np.broadcast_arrays(starts, starts + np.arange(longest + 1.0)))
        return table[(low - start).astype(np.int64), (high - low).astype(np.int64)]
    top, total = as_array(noise.log_noise(np.clip(0.0, low, high))), np.zeros(low.shape)
    # Beyond the support of bounded noise the largest term is -inf.
    top = np.where(top > -np.inf, top, 0.0)
    for k in range(longest + 1):
        offset = np.minimum(low + k, high)
        total += np.where(low + k <= high, np.exp(as_array(noise.log_noise(offset)) - top), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(total), dtype=np.float64)


def _integer_survival(noise: IntegerNoise, offset: Floats) -> Floats:
    """log P(noise >= offset), including infinite offsets; for many close offsets from one table."""
    finite = np.isfinite(offset)
    result, whole = np.where(offset > 0, -np.inf, 0.0), offset[finite].astype(np.int64)
    if whole.size and int(whole.max()) - int(whole.min()) < whole.size:
        result[finite] = noise.log_survival(np.arange(whole.min(), whole.max() + 1))[whole - whole.min()]
    else:
        result[finite] = noise.log_survival(whole)
    return result


def _continuous_mass(noise: ContinuousNoise, low: Floats, high: Floats) -> Floats:
    point = low == high
    result = np.empty(low.shape)
    result[point] = noise.log_noise(low[point])
    result[~point] = log_mass(noise.log_survival, low[~point], high[~point], 0.0)
    return result


def _listed_mass(mechanism: Mechanism, first: Floats, last: Floats, value: Floats) -> Floats:
    """The log mass of listed releases in each interval; -inf for an impossible value."""
    result = np.full(value.shape, -np.inf)
    for one in np.unique(value):
        here = value == one
        try:
            answers = mechanism.support(int(one)).astype(np.float64)
        except ValueError:
            continue
        log_p = mechanism.log_likelihood(answers, np.full(answers.shape, one))
        within = (first[here][..., None] <= answers) & (answers <= last[here][..., None])
        result[here] = log_sum_exp(np.where(within, log_p, -np.inf))
    return result
