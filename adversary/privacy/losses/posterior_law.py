"""The law of the posterior over releases, from the law of the privacy loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_probability, halved, logit, over_labels, posterior_after

TRUTHS = ("in", "out")


@dataclass(frozen=True, eq=False)
class PosteriorLaw:
    """Law over releases of the posterior that the target is in, for any number of priors at once.

    Parameters
    ----------
    loss : PrivacyLoss, the law of the log-likelihood ratio
    prior : probability or array of probabilities; every answer has its shape, broadcast against the argument's
    """

    loss: Any
    prior: Any

    def __post_init__(self) -> None:
        check_probability("prior", self.prior)

    def mean(self, truth: str) -> Any:
        """Expected posterior when the target is in (releases drawn from P) or out (from Q)."""
        side = side_of(truth)

        def mean(prior: Floats) -> Floats:
            start = logit(prior)[..., None]
            return as_array(self.loss.expect(lambda z: posterior_after(start, z))[side])

        return over_labels(mean, self.prior)

    def cdf(self, x: ArrayLike, truth: str) -> Any:
        """P(posterior <= x)."""
        side = side_of(truth)

        def cdf(x: Floats, prior: Floats) -> Floats:
            end, start = logit(check_probability("x", x)), logit(prior)
            with np.errstate(invalid="ignore", divide="ignore"):  # the last digits of x and of the logits
                last = 4e-16 * (np.abs(end) + np.abs(start) + 1.0) + 2.3e-16 / (1.0 - x)
            beyond = self.loss.tail(_difference(end + np.where(np.isfinite(end), last, 0.0), start))[side]
            return np.where(x >= 1.0, 1.0, 1.0 - as_array(beyond))

        return over_labels(cdf, x, self.prior)

    def quantile(self, q: ArrayLike, truth: str) -> Any:
        """Smallest x with P(posterior <= x) >= q."""
        side = side_of(truth)

        def quantile(q: Floats, prior: Floats) -> Floats:
            least = _smallest_threshold(lambda t: as_array(self.loss.tail(t)[side]), 1.0 - check_probability("q", q))
            return posterior_after(logit(prior), least)

        return over_labels(quantile, q, self.prior)


def side_of(truth: str) -> int:
    """Index of a hypothesis: 0 for "in" (releases drawn from P), 1 for "out" (from Q).

    Parameters
    ----------
    truth : "in" or "out"

    Returns
    -------
    0 or 1.

    Raises
    ------
    ValueError : another word

    >>> side_of("in"), side_of("out")
    (0, 1)
    """
    if truth not in TRUTHS:
        raise ValueError(f'truth must be "in" or "out", got {truth!r}')
    return TRUTHS.index(truth)


def _difference(x: Floats, start: Floats) -> Floats:
    """Loss at which the posterior reaches x; a certain prior reaches every x >= itself at any loss."""
    x, start = np.broadcast_arrays(x, start)
    certain = np.isinf(start)
    return np.where(certain, np.where(x >= start, np.inf, -np.inf), x - np.where(certain, 0.0, start))


def _smallest_threshold(tail: Callable[[Floats], Floats], allowed: Floats) -> Floats:
    """Smallest threshold beyond which at most `allowed` lies: bisection over the real line, infinite ends included."""
    low, high = np.full(np.shape(allowed), -1500.0), np.full(np.shape(allowed), 1500.0)
    beyond, before = tail(high) > allowed, tail(low) <= allowed
    high = halved(lambda t: tail(t) <= allowed, low, high, 1e-3)
    return np.where(beyond, np.inf, np.where(before, -np.inf, high))
