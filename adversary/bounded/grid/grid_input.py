"""Input of the grid solver: releases and priors as arrays with one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats


@dataclass(frozen=True)
class GridInput:
    """Releases and priors on the unit scale, as arrays with one row each.

    `seen` (row, 7): n; kind of noise (0 not released, 1 Laplace, 2 Gaussian), scale and released value of the mean; the
    same for the variance. `beliefs` (row, 5): 0 for a flat prior, else 1; mu0, kappa0, nu0, s0 squared. `caps` (row,):
    upper bounds on sigma2. `log_density` is a user's log prior; `of_data` selects the statistics of the data.
    """

    seen: Floats
    beliefs: Floats
    caps: Floats
    constrained: bool
    normalised: bool
    log_density: Callable[[Floats, Floats], Floats] | None = None
    of_data: bool = False

    def row(self, i: int) -> GridInput:
        """One row, without the axis of rows."""
        return replace(self, seen=self.seen[i], beliefs=self.beliefs[i], caps=self.caps[i])

    def has_moment(self, power: float) -> Any:
        """True if sigma2^power has a finite mean.

        Without bounds and cap the density falls as a power of sigma2, which must exceed power + 1. That power is 0 for
        a flat prior and nu0 / 2 + 1 for a conjugate one, plus 1/2 there if a mean was released, plus (n - 1) / 2 if a
        variance was. The data's variance has every mean if a variance was released: it falls as fast as the noise.
        """
        seen, beliefs = np.moveaxis(self.seen, -1, 0), np.moveaxis(self.beliefs, -1, 0)
        if self.constrained or self.log_density is not None:
            return np.ones(seen.shape[1:], bool)
        falls = np.where(beliefs[0] > 0.0, 0.5 * beliefs[3] + 1.0 + 0.5 * (seen[1] > 0.0), 0.0)
        falls = falls + np.where(seen[4] > 0.0, np.inf if self.of_data else 0.5 * (seen[0] - 1.0), 0.0)
        return (self.caps < np.inf) | (falls > power + 1.0)

    def log_prior(self, mu: Floats, v: Floats) -> Any:
        """Log prior of one row at means and variances, which broadcast; 0 for a flat prior."""
        if self.log_density is not None:
            return self.log_density(mu, v)
        known, mu0, kappa, nu, s2 = self.beliefs
        if not known:
            return 0.0
        half = 0.5 * nu
        of_variance = half * np.log(half * s2) - gammaln(half) - (half + 1.0) * np.log(v) - half * s2 / v
        return of_variance + 0.5 * np.log(kappa / (2.0 * np.pi * v)) - 0.5 * kappa * (mu - mu0) ** 2 / v
