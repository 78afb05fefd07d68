"""The census budget as an object: names and spellings, checks of tables and files, what a concern counts."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from adversary.census.allocation import PERSONS, Allocation
from tests.tables import DATA

DHC = DATA / "census2020_dhc_path_1.csv"
census = adv.census
HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("Block", "block"),
        ("CBG", "block group"),
        ("Block_Group", "block group"),
        ("custom block group", "block group"),
        ("TRACT", "tract"),
        ("US", "nation"),
        ("United States", "nation"),
    ],
)
def test_levels_answer_to_the_bureaus_spellings(spelled: str, meant: str) -> None:
    assert census.level_name(spelled) == meant
    assert census.rho_star(spelled, "HHGQ") == census.rho_star(meant, "HHGQ")


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("total", "TOTAL"),
        ("HISPANIC×CENRACE", "HISPANIC*CENRACE"),
        ("CENRACE x HISPANIC", "HISPANIC*CENRACE"),
        ("votingage * hispanic", "VOTINGAGE*HISPANIC"),
        ("detailed", "HHGQ*VOTINGAGE*HISPANIC*CENRACE"),
        ("OCCUPANCY_STATUS", "OCCUPANCY STATUS"),
    ],
)
def test_queries_answer_to_the_bureaus_spellings(spelled: str, meant: str) -> None:
    assert census.query_name(spelled) == meant
    assert census.rho_star("state", spelled) == census.rho_star("state", meant)


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"level must be one of block, block group, .* got 'ward'"):
        census.rho_star("ward", "TOTAL")
    with pytest.raises(ValueError, match=r"query must be one of TOTAL, .* got 'AGE'"):
        census.rho_star("block", "AGE")
    with pytest.raises(ValueError, match=r"query must be one of TOTAL, .* got 'OCCUPANCY STATUS'"):
        PERSONS.rho_star("block", "OCCUPANCY STATUS")
    with pytest.raises(ValueError, match=r"scenario must be one of A, B, C, D, E, F, G, H, got 'I'"):
        census.scenario("I")
    with pytest.raises(ValueError, match=r"attribute must be one of race, .* got 'income'"):
        census.custom_scenario(attributes="income")
    with pytest.raises(ValueError, match=r"level must be one of .* got 'city'"):
        census.custom_scenario(hide_within="city")
    with pytest.raises(ValueError, match=r"level must be one of .* got 'city'"):
        census.custom_scenario(attributes="race", levels="city")


# Tables


def test_shares_that_do_not_sum_to_one_are_refused_by_column() -> None:
    with pytest.raises(ValueError, match="level_share must sum to one exactly, got 5/6"):
        Allocation(Fraction(1), {"a": HALF, "b": Fraction(1, 3)}, {"T": {"a": Fraction(1), "b": Fraction(1)}})
    with pytest.raises(ValueError, match="query_share at b must sum to one exactly, got 3/2"):
        Allocation(
            Fraction(1), {"a": HALF, "b": HALF}, {"T": {"a": HALF, "b": HALF}, "U": {"a": HALF, "b": Fraction(1)}}
        )


def test_an_allocation_cannot_be_changed_from_outside() -> None:
    shares = {"a": Fraction(1)}
    allocation = Allocation(Fraction(1), shares, {"T": shares})
    shares["a"] = HALF
    assert allocation.rho_star("a", "T") == 1
    with pytest.raises(TypeError):
        allocation.level_share["a"] = HALF  # type: ignore[index]


# Concerns


def test_nothing_hidden_costs_nothing() -> None:
    nothing = census.custom_scenario()
    assert nothing.rho == 0
    assert nothing.queries == ()
    assert nothing.concern == "nothing"
    assert census.custom_scenario(hide_within="block").rho == 0
    assert nothing.loss.delta(0.0) == 0.0
    assert nothing.table.size == 0


def test_an_attribute_counts_the_person_queries_that_contain_it() -> None:
    race = census.custom_scenario(attributes="race", levels="US")
    assert [query.query for query in race.queries] == [
        "CENRACE",
        "HISPANIC*CENRACE",
        "VOTINGAGE*CENRACE",
        "VOTINGAGE*HISPANIC*CENRACE",
        "HHGQ*VOTINGAGE*HISPANIC*CENRACE",
    ]
    assert all(query.level == "nation" and query.cells == 2 for query in race.queries)


def test_all_attributes_count_every_person_query_but_the_total() -> None:
    every = census.custom_scenario(attributes=census.ATTRIBUTES)
    assert {query.query for query in every.queries} == set(census.QUERIES) - {"TOTAL", "OCCUPANCY STATUS"}
    assert len(every.queries) == 60


def test_a_hidden_location_counts_everything_at_finer_levels() -> None:
    hidden = census.custom_scenario(hide_within="County")
    assert {query.level for query in hidden.queries} == {"block", "block group", "tract"}
    assert len(hidden.queries) == 36


def test_concerns_together_count_each_query_once() -> None:
    both = census.custom_scenario(hide_within="tract", attributes=("race", "ethnicity"))
    pairs = [(query.level, query.query) for query in both.queries]
    assert len(set(pairs)) == len(pairs)
    parts = (census.custom_scenario(hide_within="tract"), census.custom_scenario(attributes=("race", "ethnicity")))
    assert set(both.queries) == set(parts[0].queries) | set(parts[1].queries)
    assert max(part.rho for part in parts) < both.rho < sum(part.rho for part in parts)


def test_the_table_of_a_scenario_adds_up_to_its_rho() -> None:
    for name in census.SCENARIOS:
        made = census.scenario(name)
        assert made.table.dims == ("query", "level")
        assert float(made.table.sum()) == pytest.approx(float(made.rho), rel=1e-14)


def test_rho_is_in_proportion_to_the_changed_cells() -> None:
    assert census.scenario("B", cells=1).rho == census.scenario("B").rho / 2
    assert census.scenario("B", cells=4).rho == 2 * census.scenario("B").rho
    assert census.scenario("B", cells=4).published_rho is None
    assert census.custom_scenario("tract", cells={"detailed": 2}).rho == census.scenario("B").rho


def test_changed_cells_may_differ_by_query_and_level() -> None:
    occupancy = census.rho_star("block", "OCCUPANCY STATUS")
    assert census.scenario("A", cells={"OCCUPANCY STATUS": 4}).rho == census.scenario("A").rho + occupancy
    assert census.scenario("A", cells={("Block", "occupancy"): 0}).rho == census.scenario("A").rho - occupancy
    assert census.scenario("A", cells={("US", "OCCUPANCY STATUS"): 0}).rho == census.scenario("A").rho


def test_noise_is_kept_as_a_fraction() -> None:
    for query in census.pl94().queries:
        assert query.noise.sigma2 == 1 / query.rho_star
        assert isinstance(query.noise.sigma2, Fraction)


def test_the_loss_of_a_small_scenario_is_that_of_its_queries() -> None:
    """Occupancy alone, block and tract: two lattices, by brute force over both."""
    cells = {query: 0 for query in census.QUERIES if query != "OCCUPANCY STATUS"}
    made = census.custom_scenario("county", cells=cells | {("block group", "OCCUPANCY STATUS"): 0})
    assert [query.level for query in made.queries] == ["block", "tract"]
    (one, two) = (query.loss for query in made.queries)
    lower, upper = made.loss.bracket.delta(0.1)
    direct = (one + two).delta(0.1)
    assert lower <= direct * (1 + 1e-9)
    assert direct <= upper * (1 + 1e-9)
    assert made.loss is made.loss


# Files


def test_dhc_allocation_is_read_exactly_with_its_labels() -> None:
    table = census.dhc_allocation(DHC)
    assert table.dims == ("query", "level")
    assert table.sizes == {"query": 10, "level": 8}
    assert table["level"].values.tolist() == DHC.read_text().splitlines()[0].split(",")
    assert table.sel(query=10, level="State").item() == Fraction(999, 2500)
    assert all(isinstance(value, Fraction) for value in table.values.flat)
    assert table.astype(float).dtype == np.float64


def test_dhc_allocation_understands_decimals_blanks_and_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "allocation.csv"
    file.write_text("\ufeffUS, Block\n 1/3 ,0.25\n\n0,1e-2\n", encoding="utf-8")
    table = census.dhc_allocation(file)
    assert table["level"].values.tolist() == ["US", "Block"]
    assert table.values.tolist() == [[Fraction(1, 3), Fraction(1, 4)], [Fraction(0), Fraction(1, 100)]]
    assert census.dhc(file).rho == Fraction(1, 3) + Fraction(1, 4) + Fraction(1, 100)
    assert [query[:2] for query in census.dhc(file).queries] == [
        ("US", "query 1"),
        ("Block", "query 1"),
        ("Block", "query 2"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("US,Block\n1/3,x\n", "row 1, column Block must be a fraction, got 'x'"),
        ("US,Block\n1/3,1/4\n,1\n", "row 2, column US must be a fraction, got ''"),
        ("US,Block\n1/0,1/4\n", "row 1, column US must be a fraction, got '1/0'"),
        ("US,Block\nnan,1/4\n", "row 1, column US must be a fraction, got 'nan'"),
        ("US,Block\n1/3,-1/4\n", "row 1, column Block must be non-negative, got '-1/4'"),
        ("US,Block\n1/3\n", "row 1 must have 2 entries, got 1"),
        ("US,US\n1/3,1/4\n", "levels must have distinct names, got US, US"),
        ("US,\n1/3,1/4\n", "levels must have distinct names"),
        ("US,Block\n", "an allocation must have a line of levels and one for each query, got 1 lines"),
        ("", "an allocation must have a line of levels and one for each query, got 0 lines"),
    ],
)
def test_a_bad_allocation_is_refused_by_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "allocation.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message.replace("'", ".")):
        census.dhc_allocation(file)


def test_dhc_counts_cells_of_every_entry_with_budget() -> None:
    assert census.dhc(DHC, cells=1).rho == census.dhc(DHC).rho / 2
    with pytest.raises(ValueError, match="cells must be at least 1, got 0"):
        census.dhc(DHC, cells=0)
