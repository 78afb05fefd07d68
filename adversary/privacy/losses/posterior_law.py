"""The law of a reader's posterior after one release: the image of the privacy loss under Bayes' rule.

X = expit(logit(prior) + L), with L drawn under either truth (Kazan et al. 2025, Theorem 3.1). Sharper than any
bound, and of the release itself: it does not survive post-processing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from adversary._core import Floats, as_array, check_probability, logit, scalar_or_array

if TYPE_CHECKING:
    from adversary.privacy.losses.loss import PrivacyLoss

TRUTHS = ("in", "out")


class PosteriorOf(ABC):
    """How a reader's posterior varies over releases, if the target is in and if it is out."""

    __slots__ = ()
    prior: Any

    @abstractmethod
    def mean(self, truth: str) -> Any:
        """Expected posterior when the target is in (releases drawn from P) or out (from Q)."""

    @abstractmethod
    def cdf(self, x: ArrayLike, truth: str) -> Any:
        """P(posterior <= x)."""

    @abstractmethod
    def quantile(self, q: ArrayLike, truth: str) -> Any:
        """Smallest x with P(posterior <= x) >= q."""


@dataclass(frozen=True, eq=False)
class PosteriorLaw(PosteriorOf):
    """Law of the posterior that the target is in, for any number of priors at once.

    Parameters
    ----------
    loss : law of the log-likelihood ratio
    prior : probability or array of probabilities; every answer has its shape, broadcast against the argument's
    """

    loss: PrivacyLoss
    prior: Any

    def __post_init__(self) -> None:
        check_probability("prior", self.prior)

    def mean(self, truth: str) -> Any:
        if hasattr(self.prior, "coords"):
            return self.prior.copy(data=PosteriorLaw(self.loss, self.prior.values).mean(truth))
        start = logit(self.prior)
        under = self.loss.expect(lambda z: _shifted(start[..., None], z))
        return scalar_or_array(as_array(under[side_of(truth)]))

    def cdf(self, x: ArrayLike, truth: str) -> Any:
        if hasattr(x, "coords") or hasattr(self.prior, "coords"):
            return _with_labels(lambda x, prior: PosteriorLaw(self.loss, prior).cdf(x, truth), x, self.prior)
        x = check_probability("x", x)
        end, start = logit(x), logit(self.prior)
        with np.errstate(invalid="ignore", divide="ignore"):  # the last digits of x and of the logits
            last = 4e-16 * (np.abs(end) + np.abs(start) + 1.0) + 2.3e-16 / (1.0 - x)
        under = self.loss.tail(_difference(end + np.where(np.isfinite(end), last, 0.0), start))
        return scalar_or_array(np.where(x >= 1.0, 1.0, 1.0 - as_array(under[side_of(truth)])))

    def quantile(self, q: ArrayLike, truth: str) -> Any:
        if hasattr(q, "coords") or hasattr(self.prior, "coords"):
            return _with_labels(lambda q, prior: PosteriorLaw(self.loss, prior).quantile(q, truth), q, self.prior)
        q = check_probability("q", q)
        side = side_of(truth)
        least = _last(lambda t: as_array(self.loss.tail(t)[side]), 1.0 - q)
        return scalar_or_array(_shifted(logit(self.prior), least))


def _with_labels(function: Callable[..., Any], *arrays: Any) -> Any:
    import xarray as xr

    return xr.apply_ufunc(function, *arrays)


def side_of(truth: str) -> int:
    """0 for "in" and 1 for "out"; ValueError otherwise."""
    if truth not in TRUTHS:
        raise ValueError(f'truth must be "in" or "out", got {truth!r}')
    return TRUTHS.index(truth)


def _shifted(start: Floats, loss: Floats) -> Floats:
    """Posterior after a loss; priors of 0 and 1 stay where they are."""
    start, loss = np.broadcast_arrays(start, loss)
    certain = np.isinf(start)
    return np.asarray(expit(np.where(certain, start, start + np.where(certain, 0.0, loss))))


def _difference(x: Floats, start: Floats) -> Floats:
    """Loss at which the posterior reaches x; a certain prior reaches every x >= itself at any loss."""
    x, start = np.broadcast_arrays(x, start)
    certain = np.isinf(start)
    return np.where(certain, np.where(x >= start, np.inf, -np.inf), x - np.where(certain, 0.0, start))


def _last(tail: Callable[[Floats], Floats], allowed: Floats) -> Floats:
    """Smallest threshold beyond which at most `allowed` lies: bisection over the real line, infinite ends included."""
    low, high = np.full(np.shape(allowed), -1500.0), np.full(np.shape(allowed), 1500.0)
    beyond, before = tail(high) > allowed, tail(low) <= allowed
    for _ in range(120):
        middle = 0.5 * (low + high)
        small = tail(middle) <= allowed
        low, high = np.where(small, low, middle), np.where(small, middle, high)
        if (high - low <= 4e-16 * np.maximum(np.abs(high), 1e-3)).all():
            break
    return np.where(beyond, np.inf, np.where(before, -np.inf, high))
