"""What a privacy definition promises against every reader, and the bounds on beliefs that follow from it.

A guarantee says two things: its profile `delta(epsilon)` and `loss_bound(failure)`, the smallest e such that the
privacy loss stays within [-e, e] with probability at least 1 - failure, under both truths and after any
post-processing. Bounds on the posterior, the ratio and the difference follow (Kazan and Reiter 2024,
"Prior-itizing privacy", Theorems 3.1 to 3.5 and 3.9) and are derived here once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from adversary._numeric import (
    as_array,
    check_probability,
    elementwise,
    labelled,
    logit,
    posterior_ratio,
    scalar_or_array,
    solve_decreasing,
)

if TYPE_CHECKING:
    from adversary.privacy.losses import PrivacyLoss

TOLERANCE = 1e-9
"""Relative slack within which a promise counts as kept: rounding must never call a true promise false."""


class Guarantee(ABC):
    """A promise against every reader. Leaves say `delta`, `loss_bound`, `group`, `is_kept_by`; bounds are derived."""

    __slots__ = ()

    @property
    @abstractmethod
    def definition(self) -> str:
        """Name of the privacy definition, as tables and figures show it."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike) -> Any:
        """Privacy profile: the largest of P(S) - e^epsilon Q(S) over events S, at any real epsilon."""

    @abstractmethod
    def loss_bound(self, failure: float) -> float:
        """Smallest e, in nats, with P(|L| > e) <= failure under both truths, after any post-processing; inf if none."""

    @abstractmethod
    def group(self, size: int) -> Guarantee:
        """The guarantee for hypotheses that differ in `size` records."""

    @abstractmethod
    def is_kept_by(self, loss: PrivacyLoss) -> bool:
        """Whether a mechanism with this privacy loss keeps the promise, up to rounding (relative 1e-9)."""

    @elementwise
    def epsilon(self, delta: float) -> float:
        """Smallest epsilon >= 0 with `delta(epsilon) <= delta`; inf where none is; at 0 the bound on the loss."""
        target = float(check_probability("delta", delta))
        if target == 0.0:
            return self.loss_bound(0.0)
        return solve_decreasing(lambda e: float(self.worst_delta(e)) - target, 0.0, 1.0)

    def worst_delta(self, epsilon: ArrayLike) -> Any:
        """The profile in the worse direction; `delta` itself for a definition, which is symmetric."""
        return self.delta(epsilon)

    @labelled
    def posterior_bounds(self, prior: ArrayLike, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior: expit(logit(prior) -+ e), e = loss_bound(failure). Priors 0 and 1 stay put."""
        p, e = check_probability("prior", prior), self.loss_bound(failure)
        lower, upper = expit(_logit_shift(p, -e)), expit(_logit_shift(p, e))
        return scalar_or_array(lower), scalar_or_array(upper)

    @labelled
    def ratio_bounds(self, prior: ArrayLike | None = None, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior over prior: 1 / (p + (1 - p) e^(+-e)); exp(-+e) at every prior if none is given."""
        e = self.loss_bound(failure)
        p = check_probability("prior", 0.0 if prior is None else prior)
        return scalar_or_array(posterior_ratio(p, -e)), scalar_or_array(posterior_ratio(p, e))

    @labelled
    def difference_bounds(self, prior: ArrayLike | None = None, failure: Any = 0.0) -> tuple[Any, Any]:
        """(lower, upper) posterior minus prior; -+tanh(e / 4) at every prior if none is given."""
        if prior is None:
            widest = float(np.tanh(self.loss_bound(failure) / 4.0))
            return -widest, widest
        lower, upper = self.posterior_bounds(prior, failure)
        p = as_array(prior)
        return scalar_or_array(lower - p), scalar_or_array(upper - p)

    @elementwise
    def pbdp_delta(self, epsilon: float) -> float:
        """Post-processing-proof bound on P(L > epsilon): min over e < epsilon of delta(e) / (1 - e^(e - epsilon)).

        Every e gives a valid bound, so a minimum found on a grid and refined errs toward more risk.
        """
        from scipy.optimize import minimize_scalar

        def bound(gap: Any) -> Any:
            return as_array(self.delta(epsilon - gap)) / -np.expm1(-gap)

        gaps = np.geomspace(1e-10 * max(1.0, abs(epsilon)), 2.0 * abs(epsilon) + 20.0, 400)
        values = bound(gaps)
        best = int(np.argmin(values))
        ends = np.log(gaps[[max(best - 1, 0), min(best + 1, gaps.size - 1)]])
        refined = minimize_scalar(lambda g: float(bound(np.exp(g))), bounds=tuple(ends), method="bounded")
        return float(min(values[best], refined.fun, 1.0))


def _logit_shift(prior: Any, shift: float) -> Any:
    """logit(prior) + shift, where certainty is not moved even by an infinite shift."""
    start = logit(prior)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(start), start, start + shift)


def loss_bound_from_profile(guarantee: Guarantee, failure: float) -> float:
    """Smallest e with (1 + e^-e) pbdp_delta(e) <= failure: the rule for a guarantee with no sharper theorem.

    One tail of the loss is at most pbdp_delta(e), the other at most e^-e times it (proof of Theorem 3.9 there).
    """
    failure = float(check_probability("failure", failure))
    if failure >= 1.0:
        return 0.0
    if failure == 0.0 or guarantee.pbdp_delta(1e200) > failure:
        return float("inf")
    return solve_decreasing(lambda e: (1.0 + np.exp(-e)) * guarantee.pbdp_delta(e) - failure, 0.0, 1.0)


def delta_at_negative(epsilon: Any, delta_at_positive: Any) -> Any:
    """Profile of a symmetric definition at -|epsilon|: 1 - e^-|epsilon| (1 - delta(|epsilon|))."""
    return np.where(epsilon < 0, 1.0 - np.exp(-np.abs(epsilon)) * (1.0 - delta_at_positive), delta_at_positive)
