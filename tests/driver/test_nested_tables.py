"""Tables that nest, every cell at once: the same numbers as audits one by one, whatever cells share."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import adversary as adv
from adversary.adversaries.path import settle_truth
from adversary.adversaries.risk import bayes_factor_law, laws_of_cells

TOWN = Path(__file__).parents[2] / "data" / "town_counts.csv"
NOISE = adv.DiscreteGaussian.from_rho(0.5)


def town() -> pd.DataFrame:
    return pd.read_csv(TOWN)


def tables(levels: list[adv.Level]) -> list[adv.PublishedTable]:
    return [adv.PublishedTable((level.name, "cell"), level.mechanism, level.name) for level in levels]


def one_by_one(
    frame: pd.DataFrame, levels: list[adv.Level], row: Any, prior: float, belief: adv.Belief, **how: Any
) -> Any:
    """The audit of one row of the answer, its plan and truth written down from the table."""
    names = [level.name for level in levels]
    frame = frame.astype(dict.fromkeys(names, str))
    truth, plan, beliefs = {}, [], {}
    above = [frame[(frame[names[i:]] == row[names[i:]].tolist()).all(axis=1)] for i in range(len(names))]
    for i, (level, inside) in enumerate(zip(levels, above, strict=True)):
        truth[level.name] = int(inside[row["cell"]].sum())
        siblings = None if i + 1 == len(names) else len(above[i + 1].drop_duplicates(names[i:])) - 1
        plan.append(adv.Level(level.name, level.mechanism, siblings=siblings))
        if i and plan[i - 1].siblings:
            beliefs[level.name] = belief
    present = row["target"] == "in"
    reader = adv.Adversary(prior, known=truth[names[0]] - present, beliefs=beliefs)
    return adv.audit(adv.Plan(plan), reader, truth | {"in": int(present)}, rng=1, **how)


@pytest.mark.slow_cases("mechanism1-belief1")
@pytest.mark.parametrize(
    ("mechanism", "belief"),
    [(NOISE, adv.Uniform()), (adv.Geometric(0.8), adv.Uniform()), (adv.Geometric(2.0), adv.Uniform(upper=60))],
)
def test_every_cell_has_the_risk_of_its_own_audit(mechanism: adv.Mechanism, belief: adv.Belief) -> None:
    frame = town().assign(group=lambda t: t["group"] + 10 * (t["tract"] == "B")).drop(columns="tract")
    levels = [adv.Level("block", mechanism), adv.Level("group", mechanism)]
    reader = adv.Adversary(0.2, beliefs={"group": belief})
    promise = adv.ZeroConcentratedDP(1.0)
    found = adv.audit_tables(frame, tables(levels), reader, guarantee=promise, rng=1)
    assert len(found) == 16
    assert (found["posterior_mean"].diff()[1:] <= 0).all()
    for _, row in found.iloc[::5].iterrows():
        tree = one_by_one(frame, levels, row, 0.2, belief, guarantee=promise)
        risk, bound = tree["risk"], tree["bound"].to_dataset().sel(definition="zCDP")
        for name in ("posterior_mean", "ratio_mean", "prob_correct"):
            np.testing.assert_allclose(row[name], float(risk[name]), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            row["posterior_high"], float(risk["posterior_quantile"].sel(quantile=0.95)), rtol=1e-9
        )
        np.testing.assert_allclose(row["bound"], float(bound["posterior"].sel(side="upper")), rtol=1e-12)
        np.testing.assert_allclose(row["outside"], float(bound["outside"]), atol=1e-12)
        assert row["status"] == str(bound["status"].item())


@pytest.mark.slow
def test_three_levels_are_within_their_errors_of_single_audits() -> None:
    levels = [adv.Level(name, NOISE) for name in ("block", "group", "tract")]
    frame = town()
    frame["group"] = frame["tract"].astype(str) + frame["group"].astype(str)  # the name of one group alone
    found = adv.audit_tables(frame, tables(levels), rng=3)
    for _, row in found.iloc[::3].iterrows():
        risk = one_by_one(frame, levels, row, 0.5, adv.Uniform())["risk"]
        error = np.hypot(row["mcse"], float(risk["mcse"].sel(measure="posterior_mean")) if "mcse" in risk else 0.0)
        assert abs(row["posterior_mean"] - float(risk["posterior_mean"])) <= 0.2 * error + 1e-9


@pytest.mark.slow_cases("siblings3-1.5", "siblings5-2.0")
@pytest.mark.parametrize(
    ("siblings", "epsilon"),
    [
        ((3, None), 1.5),
        ((0, 2, None), 1.5),
        ((2, 0, None), 1.5),
        ((2, 1, None), 1.5),
        ((1, 1, 0, None), 20.0),
        ((2, 1, 2, None), 2.0),
    ],
)
def test_laws_of_many_cells_are_those_of_each(siblings: tuple[int | None, ...], epsilon: float) -> None:
    plan = adv.Plan([adv.Level(f"l{i}", adv.Geometric(epsilon), siblings=n) for i, n in enumerate(siblings)])
    beliefs = {f"l{i}": adv.Uniform() for i in range(1, len(siblings)) if siblings[i - 1]}
    reader = adv.Adversary(0.3, beliefs=beliefs)
    truths = []
    for target, *others in [(1, 0, 0, 2), (1, 2, 0, 0), (0, 1, 4, 1), (1, 90, 400, 400)]:
        counts = np.cumsum([target, *(n if below else 0 for n, below in zip(others, siblings, strict=False))])
        named = dict(zip(plan.names, map(int, counts), strict=False))
        truths.append(settle_truth(plan, reader, named | {"in": target}))
    for truth, law in zip(truths, laws_of_cells(plan, reader, truths, rng=5), strict=True):
        one = bayes_factor_law(plan, reader, truth, rng=5)
        (mean, error), (own, its) = law.posterior_mean(), one.posterior_mean()
        assert abs(mean - own) <= (0.2 if len(siblings) < 4 else 2.0) * (error + its) + 1e-12
        assert (law.unbounded, law.target, law.prior) == (one.unbounded, one.target, one.prior)


def test_a_long_table_is_the_wide_one_and_leaves_out_zeros() -> None:
    levels = [adv.Level("block", NOISE), adv.Level("group", NOISE)]
    frame = town().drop(columns="tract").drop_duplicates(["block"])
    long = frame.melt(["block", "group"], var_name="cell", value_name="count").query("count > 0 or block == 102")
    columns = ["block", "cell"]
    wide, other = (
        adv.audit_tables(one, tables(levels)).sort_values(columns, ignore_index=True) for one in (frame, long)
    )
    pd.testing.assert_frame_equal(wide, other)


def test_a_uniform_total_is_warned_of_where_few_others_are_there() -> None:
    """By default every total is equally likely: not neutral where few others are there, and neutral with an end."""
    levels = [adv.Level("block", NOISE), adv.Level("group", NOISE)]
    frame = town().assign(group=lambda t: t["tract"] + t["group"].astype(str)).drop(columns="tract")
    few = frame.groupby("group")[["renters", "owners"]].transform("sum") - frame[["renters", "owners"]]
    (said,) = adv.audit_tables(frame, tables(levels)).attrs["cautions"]
    assert f"in {int((few < 4.0 * NOISE.variance**0.5).to_numpy().sum())} of {2 * len(frame)} cells" in said
    bounded = adv.Adversary(beliefs={"group": adv.Uniform(60)})
    assert adv.audit_tables(frame, tables(levels), bounded).attrs["cautions"] == []
    many = frame.assign(renters=frame["renters"] + 50, owners=frame["owners"] + 50)
    assert adv.audit_tables(many, tables(levels)).attrs["cautions"] == []
