"""The five data products of 2020: sums, margins, thresholds and beliefs, against the sources and by brute force."""

import re
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from tests import commands
from tests.commands import number, numbers

census = adv.census
DATA = Path(__file__).parents[2] / "data"
A = census.product("DDHC-A")

answered = cache(partial(commands.answered, "census"))
printed = partial(commands.printed, "census")


@pytest.mark.parametrize(
    ("name", "rho", "stated", "times"),
    [
        ("PL94", "2.63", "2.63", 1),
        ("DHC", "12.6627", "15.29", 1),
        ("DDHC-A", "4.944", "19.776", 4),
        ("DDHC-B", "8.895302", "17.79", 2),
        ("S-DHC", "1.257281", "2.515", 2),
    ],
)
def test_configurations_sum_to_the_budgets(name: str, rho: str, stated: str, times: int) -> None:
    made = census.product(name)
    assert made.rho() == made.rho(made.neighbours) == Fraction(rho)
    assert made.rho("bounded") == 2 * made.rho("unbounded")
    assert made.stated_rho == Fraction(stated)
    included = census.product(made.adds).rho("bounded") if made.adds else 0
    assert float(times * made.rho() + included) == pytest.approx(float(made.stated_rho), abs=5e-3)
    budgets = made.budgets
    assert budgets.loc[budgets.part_of == "", "rho"].sum() == pytest.approx(float(made.rho()), rel=1e-12)
    assert made.guarantee("bounded") == adv.ZeroConcentratedDP(float(made.rho("bounded")))


def test_parts_of_the_redistricting_and_housing_files() -> None:
    by_universe = {name: census.product(name).budgets.groupby("universe").rho.sum() for name in ("PL94", "DHC")}
    assert by_universe["PL94"].to_dict() == pytest.approx({"persons": 2.56, "housing units": 0.07})
    housing = by_universe["DHC"].drop("persons").sum()
    assert (by_universe["DHC"]["persons"], housing) == (pytest.approx(4.9622), pytest.approx(7.7005))


def test_the_published_path_is_the_allocation_with_an_only_child_in_its_parent() -> None:
    budgets = census.product("DHC").budgets
    persons = budgets[budgets.universe == "persons"].groupby("level").rho.sum()
    path = census.dhc_allocation(DATA / "census2020_dhc_path_1.csv").astype(float).sum("query")
    given = {
        str(level).lower().replace("_", " "): float(rho)
        for level, rho in zip(path.level.values, path.values, strict=True)
    }
    given["nation"] = given.pop("us")
    assert given.pop("tract subset") == pytest.approx(persons["tract subset"] + persons["block group"], rel=1e-12)
    assert given.pop("block group") == 0.0
    assert given == pytest.approx(persons.drop(["tract subset", "block group"]).to_dict(), rel=1e-12)


def test_margins_of_error_are_those_published() -> None:
    a, b, s = (census.product(name) for name in ("DDHC-A", "DDHC-B", "S-DHC"))
    places = [("nation", "detailed"), ("state", "detailed"), ("tract", "detailed"), ("AIANNH", "detailed")]
    assert [round(a.budget(*place).margin(), 2) for place in places] == [3.0, 3.0, 10.99, 10.99]
    assert [a.budget(level, "detailed").noise.sigma2 for level in ("nation", "county")] == [
        Fraction(9) / (2 * Fraction("0.9") * Fraction(rho)) for rho in ("2.134", "0.159")
    ]
    assert round(a.budget("county", "regional").margin(), 1) == 49.0
    assert [round(b.budget(level, "T3 detailed").margin(), 1) for level in ("nation", "place")] == [3.0, 11.0]
    assert round(b.budget("tract", "t4 regional").margin(), 1) == 50.0
    # Lengths of nine intervals in ten in SDHC_Model_Based_Estimates/summary: 399.97, 40.00 and 135.99.
    states = [s.budget("state", table).margin(0.9) for table in ("PH2, all", "PH3, A to G", "PH7, A to G")]
    np.testing.assert_allclose(2 * np.array(states), [399.97, 40.0, 135.99], atol=0.006)


def test_noise_of_truncated_households_is_for_two_tau_and_two_rows() -> None:
    made = census.product("S-DHC")
    for row in made.rows:
        rows = 2 if row.tau is None else 2 * row.tau + 2
        assert row.noise.sigma2 == Fraction(rows**2) / (2 * row.rho)
        assert row.tau in ((6,) if row.table[:3] in ("PH3", "PH6") else (10, None))


def gaussian(sigma2: float, reach: int) -> np.ndarray:
    """The pmf on -reach to reach, by its definition."""
    k = np.arange(-reach, reach + 1)
    mass = np.exp(-(k**2) / (2 * sigma2))
    return mass / mass.sum()


def summed(sigma2: float, reach: int, counts: int) -> np.ndarray:
    made = np.ones(1)
    for _ in range(counts):
        made = np.convolve(made, gaussian(sigma2, reach))
    return made


def reached(pmf: np.ndarray, count: int, least: int) -> float:
    """P(count + noise >= least)."""
    values = count + np.arange(pmf.size) - pmf.size // 2
    return float(pmf[values >= least].sum())


@pytest.mark.parametrize(("level", "count"), [("tract", 0), ("tract", 21), ("county", 975), ("AIANNH", 4960)])
def test_which_table_of_the_first_file_by_brute_force(level: str, count: int) -> None:
    row = census.product("DDHC-A").budget(level, "detailed")
    first, second = gaussian(9 / (2 * 0.0159), 200), gaussian(9 / (2 * 0.1431), 100)
    ends = [1.0, *(reached(first, count, t) for t in (971, 4971, 19971)), 0.0]
    forms = -np.diff(ends)
    hidden = forms[0] * (1 - reached(second, count, 22))
    law = row.probabilities(count)
    np.testing.assert_allclose(law, [hidden, forms[0] - hidden, *forms[1:]], atol=1e-12)
    assert law.published.values.tolist()[:2] == ["not published", "total"]
    assert float(row.threshold().sf(970, count)) == pytest.approx(ends[1], abs=1e-12)


@pytest.mark.parametrize("count", [0, 21, 975, 4990])
def test_which_table_of_the_second_file_by_brute_force(count: int) -> None:
    law = census.product("DDHC-B").table_probabilities("tract", "T3 detailed", count)
    first, ends = gaussian(9 / (2 * 0.0159), 200), []
    of_first = -np.diff([1.0, *(reached(first, count, t) for t in (971, 4971, 19971)), 0.0])
    shown = np.zeros(4)
    for form, counts in zip(of_first, (1, 8, 18, 46), strict=True):
        total = summed(9 / (2 * 0.1431), 60, counts)
        seen = reached(total, count, 22) if counts == 1 else 1.0
        ends = [seen, *(reached(total, count, t) for t in (971, 4971, 19971)), 0.0]
        shown -= form * np.diff(ends)
    np.testing.assert_allclose(law, [1 - shown.sum(), *shown], atol=1e-10)


def test_a_group_of_nobody_is_left_out_with_the_stated_probability() -> None:
    for name, table in (("DDHC-A", "regional"), ("DDHC-A", "detailed"), ("DDHC-B", "T4 detailed")):
        made = census.product(name)
        assert float(made.table_probabilities("tract", table, 0)[0]) >= 0.9999
        assert float(made.table_probabilities("state", table, 0)[0]) == 0.0
    row = census.product("DDHC-A").budget("place", "detailed")
    least = row.suppressed_up_to
    assert least is not None
    assert row.noise.sf(least, 0) <= 1e-4 < row.noise.sf(least - 1, 0)
    law = census.product("DDHC-A").table_probabilities("tract", "regional", [0, 100, 5000])
    assert law.dims == ("count", "published")
    np.testing.assert_allclose(law.sum("published"), 1.0, atol=1e-12)


def test_one_person_in_one_group() -> None:
    made = census.product("DDHC-A")
    plan = made.plan("tract", "detailed")
    assert (plan.privacy_unit.cells, plan.contribution, plan.neighbours) == (9, 1, "unbounded")
    assert plan.total_rho == pytest.approx(0.9 * 0.159, rel=1e-12)
    assert made.plan("tract", "detailed", neighbours="bounded").total_rho == pytest.approx(1.8 * 0.159, rel=1e-12)
    knows = adv.Adversary(prior=0.5, known=3)
    tree = adv.audit(plan, knows, {"tract": 4}, guarantee=made.guarantee())
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(0.50394, abs=1e-5)


TRUTH = {"state": 4, "nation": 30}
BELIEVES = adv.Adversary(prior=0.5, known=3, beliefs={"nation": adv.Uniform()})


def test_one_person_in_one_group_at_two_levels() -> None:
    plan = A.plan(["US", "state"], "detailed")
    assert (plan.names, plan.levels[0].siblings) == (("state", "nation"), 50)
    tree = adv.audit(plan, BELIEVES, TRUTH, guarantee=A.guarantee())
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(0.54933, abs=1e-5)


def test_the_count_of_stage_one_is_a_level_of_the_same_people() -> None:
    both = A.plan(["state", "nation"], "detailed", stage_one=True)
    assert both.total_rho == pytest.approx(2 * 2.134, rel=1e-12)
    twice = TRUTH | {f"{level}, stage one": count for level, count in TRUTH.items()}
    tree = adv.audit(both, BELIEVES, twice, guarantee=A.guarantee())
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(0.55343, abs=1e-5)
    longer = A.plan(["tract", "county"], "detailed", siblings={"tract": 9}, stage_one=True)
    assert [level.siblings for level in longer.levels] == [0, 9, 0, None]


def test_a_household_of_ten_and_a_person_who_moves_one() -> None:
    made = census.product("S-DHC")
    plan = made.plan("state", "PH1 numerator, A to G", unit="household")
    assert (plan.contribution, plan.privacy_unit.cells) == (10, 1)
    assert plan.total_rho == pytest.approx(0.141622 * (10 / 22) ** 2, rel=1e-12)
    someone = adv.Adversary(prior=0.5, known=30, hypotheses=[0, 10])
    tree = adv.audit(plan, someone, {"state": 40}, guarantee=made.guarantee())
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(0.50721, abs=1e-5)
    moved = made.plan("state", "PH3, A to G").privacy_unit
    assert (moved.name, moved.contribution, moved.cells) == ("person", 6, 2)
    assert made.plan("state", "PH8 denominator, all").privacy_unit.contribution == 1


def test_the_composed_loss_is_below_its_concentrated_bound() -> None:
    assert census.product("PL94").loss().epsilon(1e-10) == pytest.approx(census.pl94().loss.epsilon(1e-10), rel=1e-9)
    made = census.product("DDHC-A")
    for neighbours in ("unbounded", "bounded"):
        loss, guarantee = made.loss(neighbours), made.guarantee(neighbours)
        assert 0.8 * guarantee.epsilon(1e-10) < loss.epsilon(1e-10) < guarantee.epsilon(1e-10)


@pytest.mark.parametrize("name", ["pl 94-171", "Detailed DHC-A", "ddhcb", "s dhc", "DHC"])
def test_products_are_known_by_several_spellings(name: str) -> None:
    assert census.product(name).name in census.products()


def test_configurations_name_their_sources() -> None:
    for name, made in census.products().items():
        assert name == "PL94" or re.search(r"_Production_Code, commit [0-9a-f]{40}, ", made.sources[0])
        assert all(row.level in made.levels for row in made.rows)
        assert list(made.budgets.level) == [row.level for row in made.rows]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: census.product("ACS"), "product must be one of PL94, DHC, DDHC-A, DDHC-B, S-DHC, got 'ACS'"),
        (lambda: A.budget("block", "detailed"), "level of DDHC-A must be one of tract, county, place, AIANNH"),
        (lambda: A.budget("tract", "T3"), "table of DDHC-A must be one of regional, detailed"),
        (lambda: A.budget("AIANNH", "regional"), "at one of tract, county, place, state, nation, got 'AIANNH'"),
        (lambda: A.rho("other"), "neighbours must be one of unbounded, bounded, got 'other'"),
        (lambda: A.plan(["tract", "place"], "detailed"), "must contain one another, got 'tract' and 'place'"),
        (lambda: A.plan(["tract", "state"], "detailed"), "siblings is required below the top"),
        (lambda: A.plan("tract", "detailed", siblings={"tract": 3}), "siblings must be of a level below the highest"),
        (lambda: A.plan("tract", "detailed", unit="household"), "unit of DDHC-A must be one of person"),
        (lambda: A.budget("state", "detailed, total only").threshold(), "(without stage one), got 1"),
        (lambda: A.budget("state", "detailed").threshold(4), "form must be from 1 to the number of thresholds, 3"),
        (lambda: A.budget("state", "detailed").margin(1.0), "probability must be above 0 and below 1"),
        (lambda: A.table_probabilities("tract", "detailed", -1), "count must be"),
        (lambda: census.product("DDHC-B").rows[0].probabilities(3), "decider must be given: 'regional'"),
        (lambda: census.product("S-DHC").loss(), "S-DHC has no loss of one unit"),
        (lambda: census.product("S-DHC").plan("state", "PH2, all", neighbours="bounded"), "must be unbounded"),
    ],
)
def test_bad_input_is_refused(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(ValueError, match=re.escape(words)):
        call()


def test_the_command_has_the_numbers_of_the_library() -> None:
    answer = answered("product", "s-dhc")
    made = census.product("S-DHC")
    assert Fraction(answer["attributes"]["rho"]) == made.rho()
    for words, neighbours in (("added or removed", "unbounded"), ("changed", "bounded")):
        upper = numbers(answer, "posterior", guarantee=words)
        np.testing.assert_allclose(
            upper, made.guarantee(neighbours).posterior_bounds(np.array([0.01, 0.1, 0.5]), 0.05)[1], rtol=1e-12
        )
    assert sum(numbers(answer, "rho", group="tables")) == pytest.approx(float(made.rho()))
    assert [number(answer, "rho", level=level) for level in made.levels] == pytest.approx([1.226649, 0.030632])
    assert "to at most 96.8%, for one person that is changed" in answer["verdict"]["text"]


def test_one_count_alone() -> None:
    answer = answered("product", "s-dhc")
    row = census.product("S-DHC").budget("state", "PH1 numerator, A to G")
    at = next(one["row"] for one in answer["records"] if one["value"] == row.table)
    upper = numbers(answer, "posterior", group="tables", row=at)
    assert upper == pytest.approx(row.noise.privacy_loss(10, 1).posterior_bounds(np.array([0.01, 0.1, 0.5]), 0.05)[1])
    detailed = A.budget("tract", "detailed")
    noises = (detailed.noise, detailed.stage_one_noise)
    assert sum(noise.rho(1) for noise in noises if noise) == pytest.approx(0.159 / 9, rel=1e-12)
    assert (
        detailed.loss.posterior_bounds(0.5, 0.05)[1] < adv.ZeroConcentratedDP(0.159 / 9).posterior_bounds(0.5, 0.05)[1]
    )


def test_the_command_lists_which_tables_exist() -> None:
    answer = answered("product", "DDHC-A", "--prior", "1/10", "--failure", "0.01")
    assert answer["attributes"]["failure"] == 0.01
    forms = [(one["row"], one["value"]) for one in answer["records"] if one["quantity"] == "form"]
    row = next(
        row for row, form in forms if form == "total" and number(answer, "table", group="forms", row=row) == "detailed"
    )
    assert number(answer, "noisy_count", row=row) == 22
    sizes = [number(answer, "count", row=row, chance=chance) for chance in (0.05, 0.5, 0.95)]
    for size, chance in zip(sizes, (0.05, 0.5, 0.95), strict=True):
        for count, holds in ((size, True), (size - 1, False)):
            shown = 1 - float(A.table_probabilities("tract", "detailed", count)[0])
            assert (shown >= chance) is holds
    changed = numbers(answer, "posterior", guarantee="changed, noise composed")
    assert changed == [pytest.approx(A.loss("bounded").posterior_bounds(0.1, 0.01)[1], rel=1e-9)]


def test_the_page_of_all_products() -> None:
    answer = answered("products")
    assert [number(answer, "rho_changed", product=name) for name in census.products()] == pytest.approx(
        [2.63, 12.6627, 9.888, 17.790604, 2.514562]
    )
    assert number(answer, "posterior", product="PL94", prior=0.01) == pytest.approx(0.974642, abs=1e-6)
    text = printed("products")
    for part in ("19.776", "15.29", "97.5%", "includes that of PL94"):
        assert part in text


def test_an_unknown_product_is_refused_in_one_line(tmp_path: Path) -> None:
    commands.refused(tmp_path, "census", "product", "DHC-C", words="product must be one of PL94, DHC, DDHC-A")
    commands.refused(tmp_path, "census", "products", "--prior", "2", words="prior")
