"""Numbers beside an audit's own, where laws are simulated: from the same releases, each with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import Floats, blocks, percent
from adversary.desk.files import Scenario
from adversary.desk.kit import audit_words
from adversary.desk.kit.audit_words import readers_of
from adversary.driver import child_seed
from adversary.reader.path import Adversary, settle_truth
from adversary.reader.plans import Plan
from adversary.reader.risk import (
    BayesFactorLaw,
    DiscretePart,
    at_prior,
    bayes_factor_law,
    coarse_law,
    empirical_epsilon_of,
    same_law,
    scaled_plan,
)

MULTIPLIERS = (0.1, 10.0)
SWEPT_DRAWS = 4096


def affordable_points(plan: Plan) -> int:
    """How many budgets a sweep can afford: many where a law takes milliseconds, few where it takes seconds."""
    if any(level.mechanism.is_continuous for level in plan.levels):
        return 13
    if len(plan.levels) == 1:
        return 241
    return 81 if len(plan.levels) == 2 and plan.cells == 1 else 11


def swept(scenario: Scenario, factors: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Expected posterior and P(correct) of every reader at every multiple of the budget."""
    readers = readers_of(scenario)
    expected = {name: np.empty(factors.size) for name in readers}
    correct = {name: np.empty(factors.size) for name in readers}
    for i in blocks.track(range(factors.size), "budgets for the report"):
        plan = scaled_plan(scenario.plan, float(factors[i]))
        laws: list[tuple[Adversary, BayesFactorLaw, BayesFactorLaw]] = []
        for name, reader in readers.items():
            found = next((entry for entry in laws if same_law(entry[0], reader)), None)
            if found is None:
                law = law_of(scenario, plan, reader, grouped=False)
                found = (reader, law, coarse_law(law))
                laws.append(found)
            expected[name][i] = at_prior(found[2], reader.prior).posterior_mean()[0]
            correct[name][i] = at_prior(found[1], reader.prior).prob_correct()[0]
    return expected, correct


def law_of(scenario: Scenario, plan: Plan, reader: Adversary, *, grouped: bool = True) -> BayesFactorLaw:
    """Law of a reader's log Bayes factor over a plan's releases of the scenario's truth."""
    truth = settle_truth(plan, reader, scenario.truth)
    law = bayes_factor_law(plan, reader, truth, draws=SWEPT_DRAWS, rng=0)
    return coarse_law(law) if grouped else law


def promises_zcdp(scenario: Scenario) -> bool:
    """Whether zCDP is promised of a plan in which every noise has some."""
    noisy = [level.mechanism for level in scenario.plan.levels if not level.is_exact]
    return bool(noisy) and all(0.0 < noise.rho < np.inf for noise in noisy) and "zCDP" in (scenario.guarantee or {})


def bound_name(scenario: Scenario, failure: float) -> str:
    """What the bound of a budget sweep is called."""
    what = "zCDP bound" if promises_zcdp(scenario) else "bound of the plan's own loss"
    return f"{what}, kept in {percent(1.0 - failure)} of releases"


def reaches(scenario: Scenario, factors: Floats, failure: float) -> tuple[Floats, dict[str, Floats]]:
    """Loss bound of each reader at a few multiples of the budget: zCDP where promised, else the plan's own loss."""
    coarse = np.geomspace(factors[0], factors[-1], 25 if promises_zcdp(scenario) else 9)
    found: dict[int, Floats] = {}
    readers = readers_of(scenario)
    for k in {reader.records(scenario.plan) for reader in readers.values()}:
        found[k] = np.array([_reach(scenario, float(factor), k, failure) for factor in coarse])
    return coarse, {name: found[reader.records(scenario.plan)] for name, reader in readers.items()}


def _reach(scenario: Scenario, factor: float, records: int, failure: float) -> float:
    if promises_zcdp(scenario):
        assert scenario.guarantee is not None
        return float(scenario.guarantee["zCDP"].scaled(factor).group(records).loss_bound(failure))
    loss = scaled_plan(scenario.plan, factor).privacy_loss(records)
    certain = loss.loss_bound(0.0)
    return certain if np.isfinite(certain) else loss.loss_bound(failure)


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
    return {"draws": draws, "rng": child_seed(blocks.seed_sequence(int(seed)), scenario.plan, scenario.truth)}


def is_exact(tree: xr.DataTree) -> bool:
    """Whether the audit itself is the exact engine's."""
    return str(tree.attrs.get("engine", "exact")) == "exact"


def source(tree: xr.DataTree) -> list[str]:
    """Where a section's numbers come from, if not from the engine of the audit: one sentence, or none."""
    if is_exact(tree):
        return []
    if audit_words.unreliable(tree["risk"].to_dataset()):
        return ["Numbers here come from the exact engine, not from the sampler that failed."]
    return [f"Numbers here come from the exact engine, not from the engine of the audit ({tree.attrs['engine']})."]


def spread_of(risk: xr.Dataset, measure: str) -> float:
    """Standard error of one entry of a sweep; 0 where it is exact."""
    return float(np.nan_to_num(risk["mcse"].sel(measure=measure))) if "mcse" in risk else 0.0


def epsilon_of(laws: Sequence[BayesFactorLaw], failure: float) -> tuple[float, float]:
    """(a reader's own epsilon, its standard error): the spread between `PARTS` parts of the releases, over its root.

    The error is 0 where nothing is simulated, and NaN where an epsilon is infinite.
    """
    found = empirical_epsilon_of(laws, failure)
    if not any(law.simulated for law in laws):
        return found, 0.0
    parts = [empirical_epsilon_of([_part(law, k) for law in laws], failure) for k in range(PARTS)]
    return found, float(np.std(parts, ddof=1) / np.sqrt(PARTS)) if np.isfinite(parts).all() else np.nan


def _part(law: BayesFactorLaw, which: int) -> BayesFactorLaw:
    """The law from every `PARTS`-th of its simulated releases, in random order; an exact one as it is."""
    size = law.rest.values.size
    if not law.simulated or size < 2 * PARTS:
        return law
    kept = np.sort(np.random.default_rng(0).permutation(size)[which::PARTS])
    weights = law.rest.weights[kept]
    return replace(law, rest=DiscretePart(law.rest.values[kept], weights / weights.sum()), draws=kept.size)
