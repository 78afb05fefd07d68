"""What is asked of one release after another, as arrays of numbers, and the likelihood of such rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from adversary._core import Floats, Integers
from adversary.bounded.quadrature.marginal import COSH, EXP, SINH, WITHIN

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)


@dataclass(frozen=True)
class Question:
    """What is asked of one row after another: numbers of the releases and priors as the compiled code wants them.

    `seen` (row, 7): n; kind of noise (0 not released, 1 Laplace, 2 Gaussian), scale and number of the mean; the same of
    the variance. `beliefs` (row, 5): 0 for a flat prior or 1, mu0, kappa0, nu0, s0 squared.
    """

    seen: Floats
    beliefs: Floats
    caps: Floats
    constrained: bool
    normalised: bool
    log_density: Callable[[Floats, Floats], Floats] | None = None
    of_data: bool = False

    @property
    def flat(self) -> bool:
        """Whether the prior is flat for all rows."""
        return self.log_density is None and not self.beliefs[:, 0].any()

    @property
    def kinds(self) -> tuple[int, int]:
        """Lines of the mean and of the variance."""
        return (WITHIN, COSH) if self.constrained else (SINH, EXP)

    def rows(self, chosen: Integers) -> Question:
        """What is asked of some rows."""
        return replace(self, seen=self.seen[chosen], beliefs=self.beliefs[chosen], caps=self.caps[chosen])

    def has_moment(self, power: float) -> Any:
        """Whether sigma2^power has a mean: without bounds and cap its density falls only as a power of sigma2.

        That of the prior, flat or conjugate, once more (n - 1) / 2 where a variance was released, and 1/2 where a mean
        was. The variance of the data falls as fast, or as the noise on it.
        """
        if self.constrained or self.log_density is not None:
            return np.ones(len(self.seen), bool)
        informed, nu = self.beliefs[:, 0] > 0.0, self.beliefs[:, 3]
        mean_seen, variance_seen = self.seen[:, 1] > 0.0, self.seen[:, 4] > 0.0
        falls = np.where(informed, 0.5 * nu + 1.0 + 0.5 * mean_seen, 0.0)
        falls = falls + np.where(variance_seen, np.inf if self.of_data else 0.5 * (self.seen[:, 0] - 1.0), 0.0)
        return (self.caps < np.inf) | (falls > power + 1.0)

    def log_prior(self, mu: Floats, v: Floats) -> Any:
        """Log density at every mean (row, mean) and variance (row, variance); 0 where it is flat."""
        if self.log_density is not None:
            return np.stack([self.log_density(m[:, None], x) for m, x in zip(mu, v, strict=True)])
        if self.flat:
            return 0.0
        known, mu0, kappa, nu, s2 = self.beliefs.T[..., None]
        half = 0.5 * nu
        at = half * np.log(half * s2) - gammaln(half) - (half + 1.0) * np.log(v) - half * s2 / v
        at += 0.5 * np.log(kappa / (2.0 * np.pi * v))
        found = at[:, None] - 0.5 * ((mu - mu0) ** 2)[..., None] * (kappa / v)[:, None]
        return np.where(known[..., None] > 0.0, found, 0.0)


def log_likelihood(
    seen: Floats, mu: Floats, v: Floats, constrained: bool, least: Floats | None = None, *, rough: bool = False
) -> Floats:
    """Log density of the released numbers of rows at groups of means and at variances, the exact ones integrated out.

    Parameters
    ----------
    seen : (row, 7) as in `Question`, or with mu0 and kappa of a conjugate prior of the means (row, 9)
    mu : (row, group, mean) on [0, 1], rising within a group
    v : (row, variance)
    constrained : whether the statistics are those of data in [0, 1]
    least : (row, group, variance); a group whose largest is below it gets -inf
    rough : only to a nat or two, at the likeliest mean of a group, in place of its first

    Returns
    -------
    Nats, (row, group, mean, variance)
    """
    from adversary._core import call
    from adversary.bounded.compiled import fill

    n, alpha = seen[:, :1], 0.5 * (seen[:, :1] - 1.0)
    rows, noise = np.zeros((len(seen), 9)), np.zeros((len(seen), 1))
    rows[:, 0], rows[:, 7:] = seen[:, 0], seen[:, 7:] if seen.shape[1] > 7 else 0.0
    for i in (1, 4):
        kind, scale, rows[:, i + 2] = seen[:, i : i + 3].T
        rows[:, i], rows[:, i + 1] = np.where(kind == 1.0, 1.0 / scale, 0.0), np.where(kind == 2.0, scale**-2.0, 0.0)
        noise += np.where(kind > 0.0, np.log(scale) + np.where(kind > 1.0, _HALF_LOG_2PI, np.log(2.0)), 0.0)[:, None]
    reach = 1.0 + 1e3 * (v + seen[:, 5:6] + np.abs(seen[:, 6:7]))  # farther than any sample variance comes
    most = np.where(constrained, 0.25 * n / (n - 1.0), reach)
    constant = alpha * (np.log(alpha * most / v) - 1.0) - gammaln(alpha) - 0.5 * np.log(0.25 * v / n) - noise
    limits = np.full((*mu.shape[:2], v.shape[1]), -np.inf) if least is None else least - constant[:, None]
    most, mu, v, limits = (np.ascontiguousarray(x, float) for x in (most, mu, v, limits))
    out = np.full((*mu.shape, v.shape[1]), -np.inf)
    call(fill, rows, most, mu, v, limits, rough, out)
    return np.asarray(out + constant[:, None, None])
