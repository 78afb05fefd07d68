"""When draws may be turned into a number: R-hat, effective size, divergences and energy, and the rule that must hold.

The limits are those of ArviZ's `diagnose`. A quantity that never moves fails: its draws cannot tell a certainty from
chains that all sit in one mode. Whoever knows better, by another method, says so.

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
SMALLEST_ESS = 400.0
"""Effective number of draws, in the bulk and in the tails."""
SMALLEST_BFMI = 0.3
"""Bayesian fraction of missing information, E-BFMI, of every chain."""


@dataclass(frozen=True)
class Diagnosis:
    """Of one quantity in many releases, all shape (releases,): rank-normalised R-hat, the smaller of bulk and tail ESS,
    error of the mean.

    `constant` says which never move; all three are NaN there.
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
    """Diagnosis of a quantity in many releases.

    A quantity with a NaN, or stuck at different values in different chains, gets an infinite R-hat.

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
    """Diagnosis of quantities by name, in their order; a warning names those that fail, and a remedy.

    One chain alone has an infinite R-hat: nothing shows where it has not been.

    Parameters
    ----------
    draws : by name, each (chain, draw)
    remedy : ends the warning
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
    """True where no draw of NUTS diverged and the energies of every chain mix.

    Parameters
    ----------
    diverging : (chain, draw)
    energy : (chain, draw)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        energy_ratio = array_stats.bfmi(energy)  # type: ignore[no-untyped-call]
    return bool(not diverging.any() and (np.asarray(energy_ratio) >= SMALLEST_BFMI).all())
