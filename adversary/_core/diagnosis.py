"""When draws may be turned into a number: R-hat, effective size and divergences, and the rule that must hold.

A quantity that never moves fails: its draws cannot tell a certainty from chains that all sit in one mode. Whoever knows
better, by another method, says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST_RHAT = 1.05
SMALLEST_ESS = 50.0
LARGEST_DIVERGENCE = 0.01
"""Share of divergent draws a fit may have."""


@dataclass(frozen=True)
class Diagnosis:
    """Of one quantity in many releases, all shape (releases,): rank-normalised R-hat, bulk ESS, error of the mean.

    `constant` says which never move; all three are NaN there.
    """

    r_hat: Floats
    ess: Floats
    mcse: Floats
    constant: NDArray[np.bool_]

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Whether the draws of a release may be averaged."""
        return (self.r_hat <= LARGEST_RHAT) & (self.ess >= SMALLEST_ESS)


def diagnose(draws: NDArray[Any]) -> Diagnosis:
    """Diagnosis of draws (chain, draw, release).

    A quantity with a NaN, or stuck at different values in different chains, gets an infinite R-hat.
    """
    flat = np.asarray(draws, dtype=np.float64)
    broken = ~np.isfinite(flat).all(axis=(0, 1))
    low, high = flat.min(axis=(0, 1)), flat.max(axis=(0, 1))
    constant = ~broken & (high - low <= 1e-14 * np.maximum(np.abs(low), np.abs(high)))
    safe = np.where(broken, 0.0, flat)
    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat, ess, mcse = (
            np.asarray(getattr(array_stats, name)(safe, chain_axis=0, draw_axis=1), dtype=np.float64)
            for name in ("rhat", "ess", "mcse")
        )
    r_hat = np.where(constant, np.nan, np.where(np.isnan(r_hat) | broken, np.inf, r_hat))
    ess = np.where(constant, np.nan, np.where(np.isnan(ess) | broken, 0.0, ess))
    return Diagnosis(r_hat, ess, np.where(constant | broken, np.nan, mcse), constant)
