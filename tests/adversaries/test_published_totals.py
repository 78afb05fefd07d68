"""Totals published exactly: their semi-adjacency, and the limits an audit puts beside this reader's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.adversaries.known_totals.published_totals import exact_totals
from adversary.adversaries.path.truth import settle_truth
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_of_plan import bayes_factor_law
from adversary.privacy.invariants import Databases

EPSILON = 0.5


def plan_of(cells: int = 1, neighbours: str = "unbounded", siblings: int = 1) -> adv.Plan:
    levels = [adv.Level("cell", adv.Geometric(EPSILON), siblings=siblings), adv.Level("district", adv.Exact())]
    return adv.Plan(levels, cells, neighbours=neighbours)


def audited(plan: adv.Plan, reader: Any, truth: dict[str, Any], **options: Any) -> Any:
    return adv.audit(plan, reader, truth, guarantee=adv.PureDP(EPSILON), progress=False, **options)


READER = adv.Adversary(0.5, beliefs={"district": adv.Uniform()})
TRUTH = {"cell": 1, "district": 4}


def test_exact_levels_are_one_published_feature() -> None:
    found = exact_totals(plan_of())
    assert found is not None
    assert (found.levels, found.semi_adjacency, found.records, found.exact) == (("district",), 2, 2, True)
    assert exact_totals(adv.Plan([adv.Level("cell", adv.Geometric(1.0))])) is None


def test_the_one_feature_rule_is_what_margins_and_listed_databases_say() -> None:
    """Three people, how many are in the district: 1. Databases by brute force."""
    listed = Databases([(1, 0, 0), (0, 1, 0), (0, 0, 1)])
    for invariants in (adv.invariants.Margins([[1, 2]]), listed):
        found, rule = exact_totals(plan_of(), invariants), exact_totals(plan_of())
        assert found is not None
        assert rule is not None
        assert found.semi_adjacency == rule.semi_adjacency == 2


@pytest.mark.parametrize(
    ("cells", "neighbours", "records"), [(1, "unbounded", 2), (2, "unbounded", 4), (2, "bounded", 2), (1, "bounded", 2)]
)
def test_a_replaced_record_is_two_added_or_removed_where_both_cells_are_read(
    cells: int, neighbours: str, records: int
) -> None:
    plan = plan_of(cells, neighbours)
    found = exact_totals(plan)
    assert found is not None
    assert found.records == records == READER.records(plan)


def test_what_a_promise_is_beside_them() -> None:
    found = exact_totals(plan_of(), adv.invariants.Margins([[2, 1], [2, 1]]))
    assert found is not None
    assert found.group_guarantee(adv.ZeroConcentratedDP(1.0)) == adv.ZeroConcentratedDP(9.0)
    gone = exact_totals(plan_of(), adv.invariants.Margins([[3, 0], [0, 3]]))
    assert gone is not None
    assert gone.disclosed
    assert gone.group_guarantee(adv.PureDP(0.1)) == adv.NoPrivacy()


def brute_force(limit: float) -> float:
    """P(|log Bayes factor| > limit), in: cell 1 and the other cell 3, against 0 and 4, each with geometric noise."""
    k = np.arange(-200, 201)

    def pmf(x: np.ndarray) -> np.ndarray:
        return np.tanh(EPSILON / 2) * np.exp(-EPSILON * np.abs(x))

    one, other = pmf(k[:, None] - 1), pmf(k[None, :] - 3)
    factor = np.abs(k[:, None]) - np.abs(k[:, None] - 1) + np.abs(k[None, :] - 4) - np.abs(k[None, :] - 3)
    return float((one * other)[np.abs(EPSILON * factor) > limit + 1e-9].sum())


def test_an_audit_shows_a_promise_that_is_no_bound_beside_the_one_that_is() -> None:
    bound = audited(plan_of(), READER, TRUTH)["bound"]
    assert int(bound["semi_adjacency"]) == int(bound["k"].sel(definition="pure DP")) == 2
    for definition in ("pure DP", "privacy loss"):
        one = bound.to_dataset().sel(definition=definition)
        assert float(one["single_record_bound"]) == pytest.approx(EPSILON)
        assert float(one["semi_loss_bound"]) == pytest.approx(2 * EPSILON) == float(one["loss_bound"])
        assert float(one["prob_beyond_single_record"]) == pytest.approx(brute_force(EPSILON), abs=1e-9)
        assert int(one["single_record_exceeded"]) == 1
        assert float(one["outside"]) == 0.0 == brute_force(2 * EPSILON)
    assert brute_force(EPSILON) > 0.3


def test_exact_levels_that_teach_nothing_have_a_ratio_of_one() -> None:
    """A flat belief holds every total as likely under both hypotheses."""
    risk = audited(plan_of(), READER, TRUTH)["risk"]
    assert float(risk["invariant_ratio"]) == 1.0
    assert risk["invariant_ratio"].attrs["direction"] == "exact"


def test_margins_replace_the_rule_and_may_leave_nothing() -> None:
    three = audited(plan_of(), READER, TRUTH, invariants=adv.invariants.Margins([[4, 5], [5, 4]]))["bound"]
    assert int(three["semi_adjacency"]) == 3
    assert three["semi_loss_bound"].values == pytest.approx([3 * EPSILON, 3 * EPSILON])
    none = audited(plan_of(), READER, TRUTH, invariants=adv.invariants.Margins([[4]]))["bound"]
    assert int(none["semi_adjacency"]) == 0
    assert np.isinf(none["semi_loss_bound"].values).all()


def test_plans_without_exact_levels_have_no_such_columns() -> None:
    plan = adv.Plan([adv.Level("cell", adv.Geometric(EPSILON))])
    bound = adv.audit(plan, adv.Adversary(0.5), {"cell": 1}, progress=False)["bound"]
    beside_totals = {"semi_adjacency", "semi_loss_bound", "single_record_bound", "prob_beyond_single_record"}
    assert not beside_totals & set(bound.data_vars)


def test_several_plans_with_and_without_exact_levels_make_one_tree() -> None:
    noisy = adv.Plan([adv.Level("cell", adv.Geometric(EPSILON), siblings=1), adv.Level("district", adv.Geometric(1.0))])
    bound = audited({"exact": plan_of(), "noisy": noisy}, READER, TRUTH)["bound"]  # type: ignore[arg-type]
    assert bound["semi_adjacency"].sel(plan="exact").item() == 2
    assert np.isnan(bound["semi_adjacency"].sel(plan="noisy").item())


@pytest.mark.slow
def test_engines_agree_on_them() -> None:
    exact, listed = (audited(plan_of(), READER, TRUTH, engine=engine)["bound"] for engine in ("exact", "enumerate"))
    for name in ("single_record_bound", "prob_beyond_single_record", "semi_loss_bound", "semi_adjacency"):
        np.testing.assert_allclose(exact[name], listed[name], rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("inside", [0, 1])
def test_who_knows_everybody_else_is_wholly_sure(inside: int) -> None:
    """Three others for certain: a total of 4 or of 3 settles the target, to the last digit, at every release."""
    reader = adv.Adversary(0.5, beliefs={"district": adv.Others(np.array([0.0, 0.0, 0.0, 1.0]))})
    risk = audited(plan_of(), reader, {"cell": inside, "district": 3 + inside})["risk"]
    found = [float(risk[name]) for name in ("prior", "posterior_mean", "ratio_mean", "prob_correct", "tie_mass")]
    assert found == [inside, inside, 1.0, 1.0, 0.0]


def test_what_an_exact_total_settles_is_not_above_any_threshold() -> None:
    """The log Bayes factor is infinite: P(L > infinity) is 0, without a warning."""
    plan, reader = plan_of(), adv.Adversary(0.5, beliefs={"district": adv.Others([0, 0, 0, 1.0])})
    law: BayesFactorLaw = bayes_factor_law(plan, reader, settle_truth(plan, reader, TRUTH))
    assert law.sf([-np.inf, 0.0, np.inf]).tolist() == pytest.approx([1.0, 1.0, 0.0])
