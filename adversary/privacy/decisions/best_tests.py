"""Precision-recall curve, average precision and Bayes error of the best membership test.

Deciding "in" is a test of P against Q: its recall is the power T, its rate of false alarms the level a, and its
precision T / (T + r a) at prior odds r = (1 - prior) / prior. At every recall the best test thresholds the likelihood
ratio (Liu, He, Chanyaswad, Wang and Mittal 2019, Theorem 2). All curves therefore follow from `guarantee.power`: exact
for a privacy loss, the largest possible for a definition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from adversary._core import Floats, as_array, check_probability, over_labels
from adversary.privacy.decisions.auxiliary import prior_odds
from adversary.privacy.decisions.targets import as_labelled
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import PrivacyLoss, check_guarantee

# Default grid of levels and recalls: Chebyshev points of [0, 1], dense at both ends, where curves are steep.
CURVE = 0.5 - 0.5 * np.cos(np.pi * np.linspace(0.0, 1.0, 401))
# Twice as fine in either half as needed: every second point is the coarse grid of Richardson's extrapolation.
_FINE = 0.5 - 0.5 * np.cos(np.pi * np.linspace(0.0, 1.0, 2049))


def pr_curve(guarantee: Guarantee, prior: Any = 0.5, recall: Any = None) -> xr.Dataset:
    """Precision-recall curve of the best test: the largest precision at each recall.

    Interpolate between points in level and recall, never in precision.

    Parameters
    ----------
    guarantee : a privacy loss, for its exact curve; a definition, for the largest precision that it allows
    prior : P(in), in [0, 1]: a number, a vector (dimension "prior") or a DataArray
    recall : P(decide "in" | in), in [0, 1]: a number, a vector or a DataArray; 401 values from 0 to 1 unless given

    Returns
    -------
    Dataset of `precision` = P(in | decided "in"), dims (recall[, prior]), and `level` = P(decide "in" | out), over
    "recall".

    Raises
    ------
    TypeError : not a Guarantee
    ValueError : a prior or recall outside [0, 1], or an array of more than one dimension

    References: Liu et al. 2019, Theorem 2.

    >>> from adversary.privacy.losses import LaplaceLoss
    >>> pr_curve(LaplaceLoss(1.0), recall=[0.5, 1.0]).precision.values.round(4).tolist()
    [0.7311, 0.5]
    """
    t = as_labelled("recall", CURVE if recall is None else recall)
    precision = check_guarantee("guarantee", guarantee).precision(t, as_labelled("prior", prior))
    return xr.Dataset(
        {"precision": precision, "level": xr.apply_ufunc(guarantee.level, t)}, attrs=curve_attributes(guarantee)
    )


def average_precision(guarantee: Guarantee, prior: Any = 0.5) -> Any:
    """Average precision of the best test: the integral of precision over recall from 0 to 1.

    Exact for a piecewise linear trade-off with listed corners, as of every explicit lattice. Otherwise Richardson
    extrapolation of the integrals of two piecewise linear interpolants, with an error below 1e-6.

    Parameters
    ----------
    guarantee : a privacy loss or a definition
    prior : P(in), in [0, 1]; a number, an array or a DataArray

    Returns
    -------
    Average precision, in [prior, 1], of the shape of `prior`; labels are preserved.

    Raises
    ------
    TypeError : not a Guarantee
    ValueError : a prior outside [0, 1]

    >>> from adversary.privacy.losses import LaplaceLoss
    >>> round(average_precision(LaplaceLoss(1.0)), 4)
    0.6879
    """
    corners = _corners(check_guarantee("guarantee", guarantee))
    level, recall = (as_array(guarantee.level(_FINE)), _FINE) if corners is None else corners

    def area(prior: float) -> float:
        odds = float(prior_odds(prior))
        if not np.isfinite(odds):
            return 0.0
        fine = _area(recall, level, odds)
        if corners is not None:
            return min(fine, 1.0)
        return float(np.clip(fine + (fine - _area(recall[::2], level[::2], odds)) / 3.0, prior, 1.0))

    return over_labels(np.vectorize(area, otypes=[np.float64]), prior)


def bayes_error(guarantee: Guarantee, prior: Any = 0.5) -> Any:
    """Bayes error: smallest probability of a wrong decision, prior (1 - delta(log r)), at most min(prior, 1 - prior).

    Parameters
    ----------
    guarantee : a privacy loss, for its exact error; a definition, for a lower bound over mechanisms that satisfy it
    prior : P(in), in [0, 1]; a number, an array or a DataArray. r = (1 - prior) / prior

    Returns
    -------
    Probability of error, of the shape of `prior`; labels are preserved.

    Raises
    ------
    TypeError : not a Guarantee
    ValueError : a prior outside [0, 1]

    >>> from adversary.privacy.losses import LaplaceLoss
    >>> round(bayes_error(LaplaceLoss(1.0), 0.5), 6), round(bayes_error(LaplaceLoss(1.0), 0.1), 6)
    (0.303265, 0.1)
    """
    check_guarantee("guarantee", guarantee)

    def error(prior: Floats) -> Floats:
        p = check_probability("prior", prior)
        inside = (p > 0) & (p < 1)
        log_odds = np.log(prior_odds(np.where(inside, p, 0.5)))
        excess = p * (1.0 - as_array(guarantee.delta(log_odds)))
        return np.where(inside, np.minimum(excess, np.minimum(p, 1.0 - p)), 0.0)

    return over_labels(error, prior)


def _corners(guarantee: Guarantee) -> tuple[Floats, Floats] | None:
    """(level, recall) of the corners of a piecewise linear trade-off, from (0, 0) on; None if not listed.

    Levels are taken from the worst pair: near recall 1 they cannot be computed from the recall accurately.
    """
    try:
        pair = guarantee.worst_pair
    except TypeError:
        return None
    if pair.corners is None:
        return None
    level, recall = (np.append(0.0, ends) for ends in pair.corners)
    return level, recall


def _area(recall: Floats, level: Floats, odds: float) -> float:
    """Integral of T / (T + r a) over T, with a linear between the points.

    On a segment where T + r a rises from c by x c, and T from t by w, the mean is t / c f + w / (x c) (1 - f), with
    f = log(1 + x) / x.
    """
    t, width = recall[:-1], np.diff(recall)
    start, rise = t + odds * level[:-1], width + odds * np.diff(level)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        x = np.minimum(rise / start, 1e300)
        f = np.where(x > 0.0, np.log1p(x) / x, 1.0)
        mean = np.where(start > 0.0, t / start * f, 0.0) + width / rise * np.where(
            start > 0.0, _log1p_remainder(x, f), 1.0
        )
    return float((width * np.where(width > 0.0, mean, 0.0)).sum())


def _log1p_remainder(x: Floats, f: Floats) -> Floats:
    """1 - f for f = log(1 + x) / x without cancellation; below x = 1e-3 by the Taylor series of the logarithm."""
    return np.where(x < 1e-3, x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * 0.2))), 1.0 - f)


def curve_attributes(guarantee: Guarantee) -> dict[str, str]:
    """Attributes of a curve: its definition, and whether it is exact or an upper bound."""
    return {
        "definition": guarantee.definition,
        "direction": "exact" if isinstance(guarantee, PrivacyLoss) else "upper",
    }
