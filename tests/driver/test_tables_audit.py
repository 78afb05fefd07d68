"""Every finest cell of a file under several tables: exact routes against each other, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import randint

import adversary as adv
from adversary.adversaries.tables import (
    Axis,
    CrossingRisk,
    Joined,
    Population,
    PublishedTable,
    TableAdversary,
)

DG = adv.DiscreteGaussian.from_rho


def axis(name: str, *labels: str) -> Axis:
    return Axis((name,), np.array([[label] for label in labels]))


SMALL = Population(
    (axis("district", "A", "B"), axis("age", "0", "1"), axis("sex", "m", "f")),
    np.array([[[3, 1], [0, 3]], [[1, 0], [2, 2]]]),
)
TABLES = [
    PublishedTable(("district", "age", "sex"), DG(0.3)),
    PublishedTable("district", DG(0.1)),
    PublishedTable("age", DG(0.1)),
]


def row(found: pd.DataFrame, **where: str) -> Any:
    """The row of one cell."""
    (one,) = found[np.logical_and.reduce([found[name] == word for name, word in where.items()])].to_dict("records")
    return one


def test_who_knows_everybody_else_reads_the_sum_of_all_losses() -> None:
    found = adv.audit_tables(SMALL, TABLES, TableAdversary(0.1, "everybody"))
    assert found.attrs["route"] == "known"
    target = row(found, district="A", age="0", sex="m")
    assert target["posterior_mean"] == pytest.approx(0.19348819, abs=5e-9)
    assert (found["rank"][:6] == 1).all()
    assert target["posterior_low"] < 0.1 < target["posterior_high"] < target["bound"]


def places(blocks: int, group: int, tract: int) -> Axis:
    """Blocks in groups in tracts, so many of each in the next."""
    i = np.arange(blocks)
    return Axis(("block", "group", "tract"), np.stack([i, i // group, i // (group * tract)], axis=1).astype(str))


def test_tables_that_nest_are_a_path_in_any_order() -> None:
    rng, noise = np.random.default_rng(1), DG(0.4)
    place, counts = places(8, 2, 2), rng.poisson(1.5, (8, 2))
    people = Population((place, axis("cell", "a", "b")), counts)
    tables = [PublishedTable((one, "cell"), noise, one) for one in ("tract", "block")]
    one, other = (adv.audit_tables(people, order, rng=1) for order in (tables, tables[::-1]))
    assert one.attrs["route"] == "nested"
    pd.testing.assert_frame_equal(one, other, check_like=True)


def test_others_unknown_are_summed_out_over_one_set_of_releases() -> None:
    """The average of the small world, and every other person of it from the same releases."""
    who = TableAdversary(0.1, "nobody", randint(0, 7))
    found = adv.audit_tables(SMALL, TABLES, who, rng=1)
    assert found.attrs["route"] == "crossing"
    target = row(found, district="A", age="0", sex="m")
    assert target["posterior_mean"] == pytest.approx(0.0943, abs=3e-4)
    assert 0.0 < target["mcse"] < 2e-4
    other = adv.audit_tables(SMALL, TABLES, who, rng=2)
    again = row(other, district="A", age="0", sex="m")
    assert abs(again["posterior_mean"] - target["posterior_mean"]) < 5.0 * np.hypot(again["mcse"], target["mcse"])
    assert set(found["tells_most"]) == {"district x age x sex"}


def test_a_path_and_the_sums_agree_where_both_can_answer() -> None:
    """Two tables that nest: a flat total is a flat count where there is one sibling."""
    people = Population((axis("district", "A", "B"), axis("sex", "m", "f")), np.array([[2, 4], [5, 0]]))
    tables = [PublishedTable(("district", "sex"), DG(0.5)), PublishedTable("district", DG(0.3))]
    path = adv.audit_tables(people, tables, TableAdversary(0.3))
    world = Joined.of(people, tables)
    sums = CrossingRisk(world, TableAdversary(0.3), world.counts).risks(10.0, 1, 256)
    cells = zip(sums.posterior_mean, sums.mcse, np.ndindex(2, 2), strict=True)
    for mean, error, (i, j) in cells:
        assert row(path, district="AB"[i], sex="mf"[j])["posterior_mean"] == pytest.approx(mean, abs=5.0 * error + 1e-9)


def test_beyond_its_cost_there_is_one_estimate_of_each_cell_with_its_error() -> None:
    rng = np.random.default_rng(1)
    axes = (axis("district", *"ABCDEF"), axis("age", *"01234"), axis("sex", "m", "f"))
    found = adv.audit_tables(Population(axes, rng.poisson(3.0, (6, 5, 2))), TABLES, TableAdversary(0.1), rng=1)
    assert found.attrs["route"] == "effective"
    assert found["posterior_mean"].nunique() == 2
    error = found.attrs["error"]
    assert error.cells == 8
    assert 0.02 < error.relative < 0.4
    assert error.words in found.attrs["cautions"]


def test_perturbed_tables_at_known_counts() -> None:
    """The average by hand over all releases of two rounded tables."""
    noise, prior = adv.RandomRounding(3), 0.2
    tables = [PublishedTable(("district", "age", "sex"), noise), PublishedTable("district", noise)]
    found = adv.audit_tables(SMALL, tables, TableAdversary(prior, "everybody"))
    here, above = (np.exp(noise.log_prob(np.arange(0, 13, 3)[:, None], [n, n - 1])) for n in (1, 7))
    both = (here[:, None] * above).reshape(-1, 2)
    seen = both[both[:, 0] > 0]
    expected = float((seen[:, 0] * prior * seen[:, 0] / (prior * seen[:, 0] + (1 - prior) * seen[:, 1])).sum())
    assert row(found, district="A", age="0", sex="f")["posterior_mean"] == pytest.approx(expected, abs=1e-12)


def test_rounded_cells_of_tables_that_nest_are_read_one_by_one() -> None:
    """The sum of two rounded cells has no law: the average by hand, over releases and others' counts up to 14."""
    people = Population((axis("district", "A"), axis("age", "0", "1", "2")), np.array([[3, 1, 2]]))
    fine, above = adv.RandomRounding(3), adv.Geometric(1.0)
    tables = [PublishedTable(("district", "age"), fine), PublishedTable("district", above)]
    found = adv.audit_tables(people, tables, TableAdversary(0.2), rng=1)
    assert found.attrs["route"] == "crossing"
    shown, x, sums = np.arange(0, 7, 3), np.arange(15), np.arange(-20, 33)
    pairs = [np.exp(fine.log_prob(shown[:, None], count)) for count in (x[None], np.array([[1]]), np.array([[2]]))]
    total = np.add.outer(x, x)
    likely = np.exp(above.log_prob(sums[:, None, None], total + 2))
    with_person = np.exp(above.log_prob(sums[:, None, None], total + 3))
    out, present = (np.einsum("ax,bz,sxz->abs", pairs[0], pairs[0], one) for one in (likely, with_person))
    posterior = 0.2 * present / (0.2 * present + 0.8 * out * np.exp(fine.log_prob(3, 2) - fine.log_prob(3, 3)))
    weight = np.einsum("a,b,s->abs", pairs[1][:, 0], pairs[2][:, 0], np.exp(above.log_prob(sums, 6)))
    mine = row(found, age="0")
    assert mine["posterior_mean"] == pytest.approx(float((weight * posterior).sum()), abs=5.0 * mine["mcse"])


def test_what_no_table_tells_apart_is_one_cell() -> None:
    found = adv.audit_tables(SMALL, [PublishedTable("district", DG(0.1))])
    assert sorted(found["count"]) == [5, 7]
    assert list(found.columns[:2]) == ["district", "count"]


def test_a_table_that_is_released_again_counts_twice() -> None:
    one, two = (
        adv.audit_tables(SMALL, [PublishedTable("district", DG(rho), releases=n)], TableAdversary(knows="everybody"))
        for rho, n in ((0.1, 2), (0.2, 1))
    )
    assert one.attrs["budget"]["rho"] == pytest.approx(two.attrs["budget"]["rho"])
    np.testing.assert_allclose(one["posterior_mean"], two["posterior_mean"], rtol=1e-3)
    same = adv.audit_tables(
        SMALL, [PublishedTable("district", DG(0.1), releases=5, repeat="same")], TableAdversary(knows="everybody")
    )
    assert same.attrs["budget"]["rho"] == pytest.approx(0.1)


def test_suppressed_cells_are_drawn_with_their_spread_in_the_error() -> None:
    counts, most = SMALL.counts.copy(), SMALL.counts.copy()
    counts[0, 0], most[0, 0] = 0, 4
    hidden = Population(SMALL.axes, counts, most)
    tables = [PublishedTable(("district", "age", "sex"), DG(0.5)), PublishedTable(("district", "age"), DG(0.5))]
    found = adv.audit_tables(hidden, tables)
    assert "2 suppressed counts are not in the file" in found.attrs["cautions"][-1]
    assert (found.loc[(found["district"] == "A") & (found["age"] == "0"), "mcse"] > 0.0).all()
    assert set(found.loc[found["most"] > found["count"], "target"]) == {"in"}


def test_nine_releases_in_ten_are_within_the_range_of_a_suppressed_cell() -> None:
    """Whichever of its counts is the true one."""
    axes, tables = (axis("district", "A", "B"),), [PublishedTable("district", DG(0.5))]
    who = TableAdversary(0.5, "nobody")
    hidden = adv.audit_tables(Population(axes, np.array([1, 6]), np.array([4, 6])), tables, who, rng=1)
    shown = [adv.audit_tables(Population(axes, np.array([n, 6])), tables, who) for n in (1, 2, 3, 4)]
    mine, each = row(hidden, district="A"), [row(one, district="A") for one in shown]
    assert mine["posterior_low"] <= min(one["posterior_low"] for one in each) + 1e-12
    assert mine["posterior_high"] >= max(one["posterior_high"] for one in each) - 1e-12


def test_of_two_margins_the_one_of_less_noise_tells_most() -> None:
    """In any order: no cell can be estimated from margins alone."""
    margins, who = [PublishedTable("sex", DG(0.2)), PublishedTable("district", DG(0.3))], TableAdversary(0.1)
    for tables in (margins, margins[::-1]):
        found = adv.audit_tables(SMALL, tables, who, draws=32)
        assert (found.attrs["route"], set(found["tells_most"])) == ("crossing", {"district"})


def test_a_belief_that_rules_out_what_is_published_is_refused() -> None:
    """No more than one person in a cell, of which rounding shows 6."""
    people = Population((axis("district", "A", "B"),), np.array([7, 1]))
    tables = [PublishedTable("district", adv.RandomRounding(3))]
    with pytest.raises(ValueError, match=r"belief must leave what is published possible, .* for A: .* count, 7"):
        adv.audit_tables(people, tables, TableAdversary(0.1, "nobody", randint(0, 2)), draws=32)


def test_cell_keys_of_several_tables_are_cautioned_of() -> None:
    """Two cells of the same people are perturbed alike, which draws anew do not say."""
    keys = adv.PerturbationTable([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], lowest=-1)
    tables = [PublishedTable("district", keys), PublishedTable(("district", "sex"), keys)]
    who = TableAdversary(0.1, "everybody")
    said = [adv.audit_tables(SMALL, some, who).attrs["cautions"] for some in (tables[:1], tables)]
    assert [any("cell keys" in one for one in every) for every in said] == [False, True]


@pytest.mark.parametrize(("least", "most"), [(3, 3), (0, 3)])
def test_an_adversary_knows_no_more_others_than_there_are(least: int, most: int) -> None:
    """The person is none of them, in a count of 3 or of 0 to 3."""
    axes = axis("district", "A", "B"), axis("sex", "m", "f")
    who = TableAdversary(0.1, "nobody", at_least=[[3, 0], [0, 0]])
    people = Population(axes, np.array([[least, 1], [0, 2]]), np.array([[most, 1], [0, 2]]))
    with pytest.raises(ValueError, match=r"at_least must not be more than .* beside the person, got 3 of 2 in A, m"):
        adv.audit_tables(people, [PublishedTable(("district", "sex"), DG(1.0))], who)


def test_expected_counts_with_labels_are_refused() -> None:
    """Their axes are those of the file, by place: labels in another order would give the counts of other cells."""
    frame = pd.DataFrame([[4.0, 1.0], [0.5, 2.0]], index=["B", "A"], columns=["f", "m"])
    for given in ({"belief": frame}, {"at_least": frame.astype(int)}, {"belief": frame.to_xarray().to_array()}):
        with pytest.raises(ValueError, match=r"must be a plain array over the axes .* labels would not be read"):
            TableAdversary(0.1, "nobody", **given)


def test_a_suppressed_count_is_drawn_from_what_the_adversary_leaves_open() -> None:
    """Who knows three others in a cell of 0 to 4 reads it as one of 4."""
    axes = axis("district", "A", "B"), axis("sex", "m", "f")
    who, tables = (
        TableAdversary(0.1, "nobody", at_least=[[3, 0], [0, 0]]),
        [PublishedTable(("district", "sex"), DG(1.0))],
    )
    hidden = Population(axes, np.array([[0, 1], [0, 2]]), np.array([[4, 1], [0, 2]]))
    shown = Population(axes, np.array([[4, 1], [0, 2]]))
    one, other = (
        row(adv.audit_tables(people, tables, who, rng=1), district="A", sex="m") for people in (hidden, shown)
    )
    error = 5.0 * np.hypot(one["mcse"], other["mcse"])
    assert one["posterior_mean"] == pytest.approx(other["posterior_mean"], abs=error)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ([PublishedTable("income", DG(0.1))], "income"),
        ([PublishedTable("sex", adv.Exact())], "table 'sex' is exact"),
        ([PublishedTable("sex", DG(0.1))] * 2, "'sex' twice"),
        ([], "at least one, got none"),
    ],
)
def test_what_cannot_be_audited_is_refused(tables: list[PublishedTable], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        adv.audit_tables(SMALL, tables)


def test_noise_that_is_not_gaussian_is_refused_beyond_the_cost() -> None:
    axes = (axis("district", *"ABCDEF"), axis("age", *"01234"))
    tables = [PublishedTable("district", adv.Geometric(0.5)), PublishedTable("age", DG(0.1))]
    with pytest.raises(ValueError, match=r"table 'district': there are too many counts .* knows=\"everybody\""):
        adv.audit_tables(Population(axes, np.ones((6, 5), dtype=int)), tables)


def test_a_guarantee_that_is_not_kept_is_violated() -> None:
    found = adv.audit_tables(SMALL, TABLES, TableAdversary(0.1, "everybody"), guarantee=adv.ZeroConcentratedDP(0.4))
    assert set(found["status"]) == {"violated"}
    kept = adv.audit_tables(SMALL, TABLES, TableAdversary(0.1, "everybody"), guarantee=adv.ZeroConcentratedDP(0.5))
    assert "violated" not in set(kept["status"])


def test_periods_are_said_by_the_releases_of_tables() -> None:
    """Numbers of one period would stand for all."""
    with pytest.raises(ValueError, match=r"periods must be 1 beside tables, got 3: .* releases=3"):
        adv.audit_tables(SMALL, TABLES, privacy_unit=adv.PrivacyUnit(periods=3))


def test_the_former_name_says_the_present_one() -> None:
    with pytest.raises(AttributeError, match=r"adversary\.audit_table is called adversary\.audit_tables now"):
        _ = adv.audit_table


def test_a_person_whom_two_cells_of_the_same_keys_differ_by_is_shown() -> None:
    """District A has three women and one man: its total and its women differ by him alone, and so do their numbers."""
    frame = pd.DataFrame({"district": list("AABB"), "sex": list("fmfm"), "n": [3, 1, 2, 2]})
    keys = adv.RandomRounding(3)
    tables = [
        adv.PublishedTable(["district", "sex"], keys, repeat="same"),
        adv.PublishedTable(["district"], keys, repeat="same"),
    ]
    who = adv.TableAdversary(0.1, "everybody")
    found = adv.audit_tables(frame, tables, who).set_index(["district", "sex"])
    assert found.loc[("A", "m"), ["posterior_mean", "posterior_low", "prob_correct"]].tolist() == [1.0, 1.0, 1.0]
    assert (found["posterior_mean"] < 1.0).sum() == 3
    assert any("who is all that two published numbers differ in" in one for one in found.attrs["cautions"])
    fresh = [adv.PublishedTable(one.by, keys, one.name) for one in tables]
    assert (adv.audit_tables(frame, fresh, who)["posterior_mean"] < 1.0).all()
    other = [tables[0], adv.PublishedTable(["district"], adv.RandomRounding(5), repeat="same")]
    assert (adv.audit_tables(frame, other, who)["posterior_mean"] < 1.0).all()
