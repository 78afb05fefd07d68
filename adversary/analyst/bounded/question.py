"""What is asked of every release: its numbers, its prior and the lines on which its parameters are laid out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats, Integers, as_array
from adversary.analyst.bounded.bounded_release import BoundedRelease
from adversary.analyst.bounded.prior import Flat, NormalInverseGamma, Prior
from adversary.analyst.bounded.quadrature.likelihood import log_likelihood
from adversary.analyst.bounded.quadrature.panels import backward, forward
from adversary.analyst.bounded.quadrature.variance_law import Seen


@dataclass(frozen=True)
class Lines:
    """Kinds of map of mean and variance, centre and spread of that of the mean, the upper end of the other, (row,)."""

    mean: str
    centre: Floats
    spread: Floats
    variance: str
    top: Floats

    def mu(self, t: Floats) -> Floats:
        """Means at t (row, point)."""
        return forward(self.mean, self.centre[:, None], self.spread[:, None], t)

    def v(self, s: Floats) -> Floats:
        """Variances at s (row, point)."""
        return forward(self.variance, 0.0, 0.0, s)

    def t(self, mu: Floats) -> Floats:
        """t of means (row, point)."""
        return backward(self.mean, self.centre[:, None], self.spread[:, None], mu)


@dataclass(frozen=True)
class Question:
    """What is asked of every row: releases, priors (mu0, kappa0, nu0, s0^2) unless flat, and the largest sigma2."""

    seen: Seen
    beliefs: Floats | None
    caps: Floats
    constrained: bool
    normalised: bool
    log_density: Callable[[Floats, Floats], Floats] | None = None

    @property
    def flat(self) -> bool:
        """Whether the prior is flat for all rows."""
        return self.log_density is None and self.beliefs is None

    def rows(self, chosen: Integers) -> Question:
        """What is asked of some rows."""
        beliefs = None if self.beliefs is None else self.beliefs[chosen]
        return replace(self, seen=self.seen.take(chosen), beliefs=beliefs, caps=self.caps[chosen])

    def has_moment(self, power: float) -> Any:
        """Whether sigma2^power has a mean: flat, without bounds and cap, its density falls as v^-(n-1)/2."""
        if self.constrained or not self.flat:
            return np.ones(len(self.caps), bool)
        return (self.caps < np.inf) | (self.seen.n > 2.0 * power + 3.0)

    @classmethod
    def of(
        cls, release: BoundedRelease, prior: Prior, constrained: bool, normalised: bool, caps: Floats
    ) -> tuple[Question, tuple[int, ...]]:
        """The question and its shape: releases and priors against one another."""
        unit = prior.on_unit(release.bounds) if isinstance(prior, NormalInverseGamma) else None
        shape = np.broadcast_shapes(release.shape, () if unit is None else unit.shape)

        def rows(x: Any) -> Floats:
            return np.broadcast_to(as_array(x), shape).ravel()

        first, second = (release.noise if x is not None else "none" for x in (release.mean, release.variance))
        centres = [np.where(np.isnan(x), 0.5, x) for x in (release.unit_mean, release.unit_variance)]
        scales = [np.where(np.isfinite(x), x, 1.0) for x in release.unit_scales]
        numbers = (release.size, scales[0], centres[0], scales[1], centres[1])
        beliefs = None
        if unit is not None:
            beliefs = np.stack([rows(x) for x in (unit.mu0, unit.kappa0, unit.nu0, as_array(unit.s0) ** 2)], -1)
        own = None if isinstance(prior, (Flat, NormalInverseGamma)) else on_unit(prior, release.bounds)
        seen = Seen((first, second), *(rows(x) for x in numbers))
        return cls(seen, beliefs, rows(caps), constrained, normalised, own), shape

    @property
    def lines(self) -> Lines:
        """The lines on which mean and variance are laid out: fine about the released mean, or the prior's."""
        seen = self.seen
        centre, spread = np.full(len(self.caps), 0.5), np.full(len(self.caps), 0.25)
        if seen.kinds[0] != "none":
            centre, spread = seen.mean, seen.mean_scale
        elif self.beliefs is not None:
            centre, spread = self.beliefs[:, 0], np.sqrt(self.beliefs[:, 3] / self.beliefs[:, 1])
        if self.constrained:
            top = backward("cosh", 0.0, 0.0, np.minimum(self.caps, 0.25))
            return Lines("within", np.clip(centre, 0.0, 1.0), np.minimum(spread, 1.0), "cosh", top)
        with np.errstate(divide="ignore"):
            return Lines("sinh", centre, spread, "exp", np.minimum(0.5 * np.log(self.caps), 60.0))

    def log_prior(self, mu: Floats, v: Floats) -> Any:
        """Log density at mu (row, mean) and v (row, variance), on [0, 1]: (row, mean, variance)."""
        if self.log_density is not None:
            return np.stack([self.log_density(m[:, None], x) for m, x in zip(mu, v, strict=True)])
        if self.beliefs is None:
            return 0.0
        mu0, kappa, nu, s2 = (x[:, None] for x in self.beliefs.T)
        half = 0.5 * nu
        of_v = half * np.log(half * s2) - gammaln(half) - (half + 1.0) * np.log(v) - half * s2 / v
        of_v += 0.5 * np.log(kappa / (2.0 * np.pi * v))
        return of_v[:, None, :] - (0.5 * kappa * (mu - mu0) ** 2)[:, :, None] / v[:, None, :]

    def log_likelihood(self, mu: Floats, v: Floats, reached: Any = True) -> Floats:
        """Log density of the released numbers at mu (row, mean) and v (row, variance), where they are `reached`."""
        rows, means, variances = len(mu), mu.shape[1], v.shape[1]
        mus = np.where(np.swapaxes(np.broadcast_to(reached, (rows, means, variances)), 1, 2), mu[:, None, :], np.nan)
        mus = mus.reshape(-1, means)
        some = np.flatnonzero(~np.isnan(mus).all(-1))
        found = np.full(mus.shape, -np.inf)
        seen = self.seen.take(some // variances)
        found[some] = log_likelihood(seen, v.ravel()[some], mus[some], self.constrained)
        if self.normalised:
            found[some] -= np.where(
                np.isnan(mus[some]), 0.0, log_likelihood(seen.nothing, v.ravel()[some], mus[some], True)
            )
        return np.swapaxes(found.reshape(rows, variances, means), 1, 2)


def on_unit(prior: Prior, bounds: tuple[float, float]) -> Callable[[Floats, Floats], Floats]:
    """A log density of the user's on [0, 1]; the constant of the change of units is left out."""
    low, width = bounds[0], bounds[1] - bounds[0]
    assert callable(prior)

    def log_density(mu: Floats, v: Floats) -> Floats:
        shape = np.broadcast_shapes(mu.shape, v.shape)
        logs = np.asarray(prior(low + width * mu, width**2 * v), dtype=np.float64)
        if np.isnan(logs).any():
            raise ValueError("the prior's log density is not a number somewhere in the region")
        return np.broadcast_to(logs, shape)

    return log_density
