"""The audited readers' own tests and posteriors, beside what the promise leaves open: two figures of the report.

Both speak of the counts as they truly are, the target in or out: what the release can tell apart there. The plan's own
loss belongs to a reader who knows everybody else; a reader who does not can only do worse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from adversary.desk.figures.posterior_law import posterior_law
from adversary.desk.figures.trade_off_curves import trade_off
from adversary.desk.files import Scenario
from adversary.desk.kit import as_audited, readers_of
from adversary.desk.kit.audit_words import called
from adversary.privacy import Guarantee
from adversary.privacy.losses import PosteriorOf
from adversary.reader.path import Adversary, Truth, opposite, settle_truth
from adversary.reader.risk import AuditedPosterior, BayesFactorLaw, bayes_factor_law, coarse_law, same_law

OWN = "this release, others known"
LEVELS = np.array([0.5, 0.2, 0.1, 0.05, 0.02, 0.01])
"""False alarms near which an audited reader's test is shown: one dot each, at the threshold with at most so many."""


def audited_posteriors(scenario: Scenario, tree: xr.DataTree) -> dict[str, AuditedPosterior]:
    """The law of every reader's posterior under both truths, the others' counts as in the scenario.

    Where releases are simulated they are those of the audit; the target's other truth has the same random numbers.

    Raises
    ------
    ValueError : for no reader are both truths possible
    """
    found, why = {}, ""
    for name, reader in readers_of(scenario).items():
        truth = settle_truth(scenario.plan, reader, scenario.truth)
        try:
            other = opposite(scenario.plan, reader, truth)
        except ValueError as error:
            why = str(error)
            continue
        laws = [_law(scenario, tree, reader, one) for one in (truth, other)]
        found[name] = AuditedPosterior((laws[0], laws[1]) if truth.target else (laws[1], laws[0]))
    if not found:
        raise ValueError(f"no reader holds both truths possible at these counts: {why}")
    return found


def _law(scenario: Scenario, tree: xr.DataTree, reader: Adversary, truth: Truth) -> BayesFactorLaw:
    law = bayes_factor_law(scenario.plan, reader, truth, **as_audited(scenario, tree))
    return law if law.simulated else coarse_law(law)


def promises(scenario: Scenario) -> dict[str, Guarantee]:
    """The scenario's promises, stretched to the most records a reader's hypotheses differ in."""
    records = max(reader.records(scenario.plan) for reader in readers_of(scenario).values())
    stretched = f", {records} records" if records > 1 else ""
    return {called(name) + stretched: one.group(records) for name, one in (scenario.guarantee or {}).items()}


def tests_of_readers(scenario: Scenario, tree: xr.DataTree) -> Figure:
    """Trade-off of the promise and of the release itself, with the tests the audited readers make of it."""
    readers, laws = readers_of(scenario), audited_posteriors(scenario, tree)
    curves = {**promises(scenario), OWN: scenario.plan.privacy_loss()}
    points: dict[str, Any] = {}
    shown: list[Adversary] = []
    for name, law in laws.items():
        if not any(same_law(readers[name], one) for one in shown):  # a prior alone changes no test
            shown.append(readers[name])
            points[_called(name)] = law.decisions(law.quantile(1.0 - LEVELS, "out"))
    return trade_off(curves, points)


def _called(name: str) -> str:
    return f"reader {name}" if name else "the reader"


def posteriors_of_readers(scenario: Scenario, tree: xr.DataTree) -> Figure:
    """How often the audited posterior is above each value, beside that of a reader who knows everybody else."""
    laws: dict[str, PosteriorOf] = {}
    for name, law in audited_posteriors(scenario, tree).items():
        laws[_called(name)] = law
    priors = {law.prior for law in laws.values()}
    if len(priors) == 1:  # with several, that reader would only double each of them
        laws["others known"] = scenario.plan.privacy_loss().posterior(priors.pop())
    failure = float(tree.attrs.get("failure", scenario.failure))
    return posterior_law(laws, promises(scenario) or None, failure)
