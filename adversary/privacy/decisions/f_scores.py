"""Largest F-score of any membership test, and the threshold of that test on the release.

At recall T, level a and prior odds r the F-score is (1 + beta^2) T / (T + r a + beta^2). The best test decides "in" if
the posterior is at least F / (1 + beta^2), with F its own score. Laplace noise has closed forms.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    align_arguments,
    as_array,
    check_non_negative,
    check_positive,
    check_probability,
    over_labels,
)
from adversary.privacy.decisions.auxiliary import prior_odds
from adversary.privacy.decisions.best_tests import CURVE, curve_attributes
from adversary.privacy.decisions.targets import as_labelled
from adversary.privacy.guarantee import Guarantee
from adversary.privacy.losses import LaplaceLoss, check_guarantee


def f_score(precision: ArrayLike, recall: ArrayLike, beta: ArrayLike = 1.0) -> Any:
    """F-score, F_beta = (1 + beta^2) precision recall / (beta^2 precision + recall); 0 where both are 0.

    Parameters
    ----------
    precision, recall : in [0, 1]
    beta : weight of recall relative to precision, >= 0; all three are numbers, arrays or DataArrays that broadcast

    Returns
    -------
    F_beta in [0, 1], of the broadcast shape; labels are preserved.

    Raises
    ------
    ValueError : precision or recall outside [0, 1], or beta negative or infinite

    >>> round(f_score(0.8, 0.5), 6)
    0.615385
    """

    def score(precision: Floats, recall: Floats, beta: Floats) -> Floats:
        p, t = check_probability("precision", precision), check_probability("recall", recall)
        b2 = check_non_negative("beta", beta) ** 2
        return (1.0 + b2) * p * t / np.where(b2 * p + t > 0, b2 * p + t, 1.0)

    return over_labels(score, precision, recall, beta)


def max_f_score(guarantee: Guarantee, prior: Any = 0.5, beta: Any = 1.0) -> xr.Dataset:
    """Largest F_beta score of any test, and the test that attains it.

    Parameters
    ----------
    guarantee : a privacy loss, for its exact score; a definition, for the largest score that it allows
    prior : P(in), in (0, 1); with `beta`, numbers, vectors (dimensions "prior", "beta") or DataArrays
    beta : weight of recall relative to precision, > 0

    Returns
    -------
    Dataset of `f_score`, F; `posterior_threshold`, F / (1 + beta^2): decide "in" if the posterior is at least this;
    `loss_threshold`, the same for the log likelihood ratio (nats), log(r F / (1 + beta^2 - F)); `recall`, `level` and
    `precision` of that test; for Laplace noise `release_threshold`, in sensitivities above the answer without the
    target (-inf: always decide "in").

    Raises
    ------
    TypeError : not a Guarantee
    ValueError : a prior outside (0, 1), or a beta that is not positive

    References: Liu et al. 2019, Equation 12 (Laplace, closed form); elsewhere the best corner or the fixed point.

    >>> from adversary.privacy.losses import LaplaceLoss
    >>> best = max_f_score(LaplaceLoss(2.0))
    >>> [round(float(best[name]), 5) for name in ("f_score", "release_threshold", "recall", "level", "precision")]
    [0.8191, 0.40854, 0.84681, 0.22086, 0.79314]
    """
    check_guarantee("guarantee", guarantee)
    given = align_arguments({"prior": as_labelled("prior", prior), "beta": as_labelled("beta", beta)})
    p, b = xr.broadcast(*given.values())
    check_positive("beta", b)
    certain = (check_probability("prior", p) == 0) | (p.values == 1)
    if certain.any():
        raise ValueError(f"prior must be strictly between 0 and 1, got {p.values[certain][0]}")
    r, b2 = prior_odds(p), b**2

    def best(r: float, b2: float) -> tuple[float, float]:
        return best_test(guarantee, float(r), float(b2))

    recall, level = xr.apply_ufunc(best, r, b2, output_core_dims=[[], []], vectorize=True)
    score = (1.0 + b2) * recall / (recall + r * level + b2)
    scores = {
        "f_score": score,
        "posterior_threshold": score / (1.0 + b2),
        "loss_threshold": np.log(r * score / (1.0 + b2 - score)),
        "recall": recall,
        "level": level,
        "precision": recall / (recall + r * level),
    }
    return xr.Dataset(scores | _of_the_release(guarantee, level), attrs=curve_attributes(guarantee))


def best_test(guarantee: Guarantee, odds: float, b2: float) -> tuple[float, float]:
    """Recall and level of the test with the largest F_beta, at prior odds against "in" and beta squared, both > 0.

    A worst pair gives a fixed point: decide "in" if the posterior is at least F / (1 + beta^2), with F the score of
    that test. Without a worst pair, a grid search over the trade-off, refined three times.
    """
    try:
        pair = guarantee.worst_pair
    except TypeError:
        recall = CURVE[1:]
    else:
        score = float(pair.f_score(1.0 / (1.0 + odds), np.sqrt(b2)))
        true, false = (float(x) for x in pair.tail(np.log(odds * score / (1.0 + b2 - score))))
        always = _scores(1.0, 1.0, odds, b2) >= _scores(true, false, odds, b2)
        return (1.0, 1.0) if always else (true, false)
    for _ in range(4):
        level = as_array(guarantee.level(recall))
        best = int(np.argmax(_scores(recall, level, odds, b2)))
        best_point = float(recall[best]), float(level[best])
        recall = np.linspace(recall[max(best - 1, 0)], recall[min(best + 1, recall.size - 1)], CURVE.size)
    return best_point


@singledispatch
def _of_the_release(guarantee: Guarantee, level: Any) -> dict[str, Any]:
    """Threshold on the release of the best test of this level, as variables; empty unless the loss fixes the noise."""
    return {}


@_of_the_release.register
def _(guarantee: LaplaceLoss, level: Any) -> dict[str, Any]:
    """-log(2 a) / epsilon at levels a up to 1/2, log(2 (1 - a)) / epsilon beyond; Liu et al., Theorem 3, Equation 6."""

    def threshold(a: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(a <= 0.5, -np.log(2.0 * a), np.log(2.0 * (1.0 - a))) / guarantee.epsilon0

    return {"release_threshold": over_labels(threshold, level)}


def _scores(recall: Any, level: Any, odds: float, b2: float) -> Any:
    return (1.0 + b2) * recall / (recall + odds * level + b2)
