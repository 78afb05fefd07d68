"""Convergence diagnostics of Markov chains: R-hat, effective sample size, divergences and energy, with their limits.

The limits are those of ArviZ's `diagnose`. A quantity that is constant over all draws fails: draws alone cannot
distinguish a certain value from chains that are all stuck in one mode. Callers that know a constant to be exact handle
it through `Diagnosis.constant`.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Burkner (2021), "Rank-normalization, folding, and localization: an improved
R-hat", Bayesian Analysis 16.
Betancourt (2016), "Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte Carlo", arXiv:1604.00695.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from arviz_stats.base import array_stats  # type: ignore[attr-defined]
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST_RHAT = 1.01

# Smallest effective sample size, in the bulk and in the tails.
SMALLEST_ESS = 400.0

# Smallest Bayesian fraction of missing information, E-BFMI, per chain.
SMALLEST_BFMI = 0.3


@dataclass(frozen=True)
class Diagnosis:
    """Convergence diagnostics of one quantity per release, all of shape (releases,).

    Parameters
    ----------
    r_hat : rank-normalised split R-hat
    ess : the smaller of bulk and tail effective sample size
    mcse : Monte Carlo standard error of the mean
    constant : mask of releases in which all draws are equal; the other three are NaN there
    """

    r_hat: Floats
    ess: Floats
    mcse: Floats
    constant: NDArray[np.bool_]

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Mask of the releases whose draws may be averaged."""
        return (self.r_hat <= LARGEST_RHAT) & (self.ess >= SMALLEST_ESS)


def diagnose(draws: NDArray[Any]) -> Diagnosis:
    """Convergence diagnostics of a quantity per release.

    Draws with a NaN, and chains that are constant at different values, get an infinite R-hat.

    Parameters
    ----------
    draws : (chain, draw, release)

    >>> draws = np.random.default_rng(1).normal(size=(4, 500, 2))
    >>> draws[0, :, 1] += 1.0
    >>> diagnose(draws).passed.tolist()
    [True, False]
    """
    flat = np.asarray(draws, dtype=np.float64)
    broken = ~np.isfinite(flat).all(axis=(0, 1))
    low, high = flat.min(axis=(0, 1)), flat.max(axis=(0, 1))
    # Equal up to rounding, some fifty units in the last place.
    constant = ~broken & (high - low <= 1e-14 * np.maximum(np.abs(low), np.abs(high)))
    safe = np.where(broken, 0.0, flat)

    def statistic(name: str, **options: Any) -> Floats:
        values = getattr(array_stats, name)(safe, chain_axis=0, draw_axis=1, **options)
        return np.asarray(values, dtype=np.float64)

    with np.errstate(invalid="ignore", divide="ignore"):
        r_hat, mcse = statistic("rhat"), statistic("mcse")
        ess = np.minimum(statistic("ess"), statistic("ess", method="tail", prob=(0.05, 0.95)))
    r_hat = np.where(constant, np.nan, np.where(np.isnan(r_hat) | broken, np.inf, r_hat))
    ess = np.where(constant, np.nan, np.where(np.isnan(ess) | broken, 0.0, ess))
    return Diagnosis(r_hat, ess, np.where(constant | broken, np.nan, mcse), constant)


def diagnose_named(draws: Mapping[str, Floats], remedy: str) -> Diagnosis:
    """Convergence diagnostics of quantities by name, in their order; a warning lists those that fail.

    A single chain has an infinite R-hat: it cannot show that it has missed a mode.

    Parameters
    ----------
    draws : by name, each (chain, draw)
    remedy : last clause of the warning
    """
    diagnosis = diagnose(np.stack(list(draws.values()), axis=-1))
    bad = [
        f"{name}: effective size {ess:.0f}, R-hat {r_hat:.3f}"
        for name, ess, r_hat, passed in zip(draws, diagnosis.ess, diagnosis.r_hat, diagnosis.passed, strict=True)
        if not passed
    ]
    if bad:
        warnings.warn(
            f"The draws are unreliable ({'; '.join(bad)}): the effective size must reach {SMALLEST_ESS:g} in the bulk "
            f"and in the tails, and R-hat stay within {LARGEST_RHAT}; {remedy}",
            skip_file_prefixes=(str(Path(__file__).parents[1]),),
        )
    return diagnosis


def trajectories_passed(diverging: NDArray[np.bool_], energy: Floats) -> bool:
    """True if no draw of NUTS diverged and E-BFMI of every chain is at least `SMALLEST_BFMI`.

    Parameters
    ----------
    diverging : mask of divergent transitions (chain, draw)
    energy : of the Hamiltonian (chain, draw)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        energy_ratio = array_stats.bfmi(energy)  # type: ignore[no-untyped-call]
    return bool(not diverging.any() and (np.asarray(energy_ratio) >= SMALLEST_BFMI).all())
