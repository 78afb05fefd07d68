"""The audit's averages over a range of budgets or priors, and the bounds that go with them.

Sweeps go through the exact law of the log Bayes factor, never through simulation where that law is exact.
"""

from __future__ import annotations

import numpy as np

from adversary._core import Floats, percent
from adversary._core import blocks as runner
from adversary.desk.files import Scenario
from adversary.desk.kit.audit_words import readers_of
from adversary.privacy.definitions import ZeroConcentratedDP
from adversary.privacy.mechanisms import ContinuousNoise, Exact
from adversary.reader.path import Adversary, settle_truth
from adversary.reader.plans import Plan
from adversary.reader.risk import FactorLaw, at_prior, coarse_law, factor_law, same_law, scaled_plan

MULTIPLIERS = (0.1, 10.0)
SWEPT_DRAWS = 4096


def affordable_points(plan: Plan) -> int:
    """How many budgets a sweep can afford: many where a law takes milliseconds, few where it takes seconds."""
    if any(isinstance(level.mechanism, ContinuousNoise) for level in plan.levels):
        return 13
    if len(plan.levels) == 1:
        return 241
    return 81 if len(plan.levels) == 2 and plan.cells == 1 else 11


def swept(scenario: Scenario, factors: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Expected posterior and P(correct) of every reader at every multiple of the budget."""
    readers = readers_of(scenario)
    expected = {name: np.empty(factors.size) for name in readers}
    correct = {name: np.empty(factors.size) for name in readers}
    for i in runner.track(range(factors.size), "budgets for the report"):
        plan = scaled_plan(scenario.plan, float(factors[i]))
        laws: list[tuple[Adversary, FactorLaw, FactorLaw]] = []
        for name, reader in readers.items():
            found = next((entry for entry in laws if same_law(entry[0], reader)), None)
            if found is None:
                law = law_of(scenario, plan, reader, grouped=False)
                found = (reader, law, coarse_law(law))
                laws.append(found)
            expected[name][i] = at_prior(found[2], reader.prior).posterior_mean()[0]
            correct[name][i] = at_prior(found[1], reader.prior).prob_correct()[0]
    return expected, correct


def law_of(scenario: Scenario, plan: Plan, reader: Adversary, *, grouped: bool = True) -> FactorLaw:
    """Law of a reader's log Bayes factor over a plan's releases of the scenario's truth."""
    truth = settle_truth(plan, reader, scenario.truth)
    law = factor_law(plan, reader, truth, draws=SWEPT_DRAWS, rng=0)
    return coarse_law(law) if grouped else law


def promises_zcdp(scenario: Scenario) -> bool:
    """Whether zCDP is promised of a plan in which every noise has some."""
    noisy = [level.mechanism for level in scenario.plan.levels if not isinstance(level.mechanism, Exact)]
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
        promise = scenario.guarantee["zCDP"]
        assert isinstance(promise, ZeroConcentratedDP)
        return ZeroConcentratedDP(promise.rho * factor).group(records).loss_bound(failure)
    loss = scaled_plan(scenario.plan, factor).privacy_loss(records)
    certain = loss.loss_bound(0.0)
    return certain if np.isfinite(certain) else loss.loss_bound(failure)
