"""Numbers beside an audit's own, where laws are simulated: from the same releases, each with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import blocks as runner
from adversary.desk.files import Scenario
from adversary.desk.kit import audit_words as words
from adversary.desk.kit.budget_sweep import SWEPT_DRAWS
from adversary.driver import child_seed
from adversary.reader.risk import Atoms, FactorLaw, empirical_epsilon_of

PARTS = 16
"""Parts into which simulated releases are split for the standard error of an epsilon."""


def as_audited(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """`draws` and `rng` with which a law of this scenario is the audit's own, simulated or not.

    An audit that was not given a seed it could write down has none to go back to: its numbers are drawn again. One of
    a sampler may have read few releases; laws are then drawn from as many as figures use.
    """
    draws, seed = int(tree.attrs.get("draws", SWEPT_DRAWS)), str(tree.attrs.get("seed", ""))
    if not is_exact(tree):
        draws = max(draws, SWEPT_DRAWS)
    if not seed.isdigit():
        return {"draws": draws, "rng": 0}
    return {"draws": draws, "rng": child_seed(runner.seed_sequence(int(seed)), scenario.plan, scenario.truth)}


def is_exact(tree: xr.DataTree) -> bool:
    """Whether the audit itself is the exact engine's."""
    return str(tree.attrs.get("engine", "exact")) == "exact"


def source(tree: xr.DataTree) -> list[str]:
    """Where a section's numbers come from, if not from the engine of the audit: one sentence, or none."""
    if is_exact(tree):
        return []
    if words.unreliable(tree["risk"].to_dataset()):
        return ["Numbers here come from the exact engine, not from the sampler that failed."]
    return [f"Numbers here come from the exact engine, not from the engine of the audit ({tree.attrs['engine']})."]


def spread_of(risk: xr.Dataset, measure: str) -> float:
    """Standard error of one entry of a sweep; 0 where it is exact."""
    return float(np.nan_to_num(risk["mcse"].sel(measure=measure))) if "mcse" in risk else 0.0


def epsilon_of(laws: Sequence[FactorLaw], failure: float) -> tuple[float, float]:
    """(a reader's own epsilon, its standard error): the spread between `PARTS` parts of the releases, over its root.

    The error is 0 where nothing is simulated.
    """
    found = empirical_epsilon_of(laws, failure)
    if not any(law.simulated for law in laws):
        return found, 0.0
    parts = [empirical_epsilon_of([_part(law, k) for law in laws], failure) for k in range(PARTS)]
    return found, float(np.std(parts, ddof=1) / np.sqrt(PARTS))


def _part(law: FactorLaw, which: int) -> FactorLaw:
    """The law from every `PARTS`-th of its simulated releases, in random order; an exact one as it is."""
    size = law.rest.values.size
    if not law.simulated or size < 2 * PARTS:
        return law
    kept = np.sort(np.random.default_rng(0).permutation(size)[which::PARTS])
    weights = law.rest.weights[kept]
    return replace(law, rest=Atoms(law.rest.values[kept], weights / weights.sum()), draws=kept.size)
