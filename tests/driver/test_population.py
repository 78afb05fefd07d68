"""The people of a table of any layout: roles of columns, numbers as offices write them, and what is refused."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.adversaries.tables import Population, PublishedTable
from adversary.driver.columns import population, read_numbers, resolve_tables
from adversary.privacy.mechanisms import Geometric

TOWN = "district,region,sex,age,n\nA,R,m,0-17,3\nA,R,f,18+,1\nB,R,m,18+,2\nB,R,f,0-17,5\nC,S,m,0-17,4\nC,S,f,18+,6\n"
WIDE = "block,tract,men,women\n1,A,3,4\n2,A,0,5\n3,B,7,1\n"


def table(text: str, separator: str = ",") -> pd.DataFrame:
    """Words in columns, as a file has them."""
    frame = pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)
    frame.attrs["separator"] = separator
    return frame


def published(*by: tuple[str, ...]) -> list[PublishedTable]:
    return [PublishedTable(one, Geometric(1.0)) for one in by]


def by_label(people: Population) -> dict[tuple[str, ...], int]:
    """Counts above 0 by the words of their cell."""
    cells = np.argwhere(np.asarray(people.counts) > 0)
    return {tuple(people.label(tuple(cell)).values()): int(people.counts[tuple(cell)]) for cell in cells}


def test_long_wide_and_microdata_of_the_same_people_are_one_population() -> None:
    long = table(TOWN)
    people = population(long)
    assert people.columns == ("district", "region", "sex", "age")
    assert people.counts.shape == (3, 2, 2)
    assert people.counts.sum() == 21
    micro = long.loc[long.index.repeat(long["n"].astype(int))].drop(columns="n")
    assert by_label(population(micro)) == by_label(people)
    indexed = long.assign(n=long["n"].astype(int)).set_index(["district", "region", "sex", "age"])["n"]
    assert by_label(population(indexed)) == by_label(people)
    wide = indexed.unstack("sex", fill_value=0).reset_index()
    spread = population(wide, published(("district", "region", "age", "sex")))
    assert {(d, r, s, a): n for (d, r, a, s), n in by_label(spread).items()} == by_label(people)
    two_lines = indexed.unstack(["sex", "age"], fill_value=0)
    for frame in (two_lines, two_lines.reset_index(), pd.concat({"n": two_lines}, axis=1)):
        assert by_label(population(frame)) == by_label(people)


def test_two_lines_of_names_with_a_blank_or_a_name_twice_are_no_table_of_fewer_people() -> None:
    """People of a blank age stood in columns of the line above alone, which were taken for names and left out."""
    long = table(TOWN).assign(n=1).replace("0-17", "")
    lines = pd.crosstab(long["district"], [long["sex"], long["age"]])
    with pytest.raises(ValueError, match="column 'age': must have a name, got nothing"):
        population(lines, counts=["count"])
    with pytest.raises(ValueError, match="column 'district' occurs twice, once in the lines above the table"):
        population(lines.rename_axis(columns=["sex", "district"]))


@pytest.mark.parametrize("name", ["person_id", "PatientID", "userid"])
def test_rows_of_visits_are_no_people_however_the_identifier_is_written(name: str) -> None:
    visits = pd.DataFrame({name: ["a", "a", "b", "c"], "sex": ["m", "m", "f", "f"]})
    with pytest.raises(ValueError, match=f"{name}' has 'a' in 2 rows.*or name it, --places {name}"):
        population(visits, people=True)
    named = visits.rename(columns={name: "covid"})
    assert population(named, people=True).counts.sum() == 4
    assert population(visits, people=True, places=[name]).counts.sum() == 4


def test_columns_that_no_table_names_are_summed_over_and_named() -> None:
    people = population(table(TOWN), published(("region",), ("country", "age")))
    assert by_label(people) == {("R", "0-17"): 8, ("R", "18+"): 3, ("S", "0-17"): 4, ("S", "18+"): 6}
    assert "Summed over: district and sex, which no table names." in people.understood


def test_a_place_that_is_no_column_is_the_whole_file() -> None:
    tables = published(("region",), ("country", "age"), ("all",))
    people = population(table(TOWN), tables)
    assert [one.by for one in resolve_tables(tables, people)] == [("region",), ("age",), ()]
    assert [one.name for one in resolve_tables(tables, people)] == ["region", "country x age", "all"]


def test_columns_of_counts_are_the_one_feature_that_a_table_names() -> None:
    people = population(table(WIDE), published(("block", "sex"), ("tract",)))
    assert people.columns == ("block", "tract", "sex")
    assert by_label(people)["3", "B", "men"] == 7
    assert population(table(WIDE)).columns == ("block", "tract", "cell")


def test_a_name_that_repeats_in_places_above_has_theirs_before_it() -> None:
    people = population(table("block,tract,n\n1,A,3\n2,A,4\n1,B,5\n"), published(("block",), ("tract",)))
    assert by_label(people) == {("A / 1", "A"): 3, ("2", "A"): 4, ("B / 1", "B"): 5}


def test_blocks_of_tracts_of_different_sizes_are_no_sparse_rows() -> None:
    rows = "".join(f"{b},{t},{b + len(t)},{b}\n" for t, n in (("A", 9), ("BB", 2), ("CCC", 1)) for b in range(1, n + 1))
    people = population(table("block,tract,men,women\n" + rows), published(("block", "sex"), ("tract",)))
    assert people.counts.shape == (12, 2)


def test_a_code_of_the_census_has_its_tracts_and_keeps_its_zeros() -> None:
    text = "GEOID,hisp,nonhisp\n010010001001000,3,13\n010010001001001,6,14\n010010002001000,4,18\n"
    people = population(table(text), published(("block", "cell"), ("tract",), ("county", "cell")))
    assert people.columns == ("block", "tract", "county", "cell")
    assert sorted({one[1] for one in by_label(people)}) == ["01001000100", "01001000200"]


@pytest.mark.parametrize(
    ("text", "options", "remedy"),
    [
        ("block,year,men,women\n1,2024,3,4\n2,2024,0,5\n", {}, "--leave-out year"),
        ("block,men,women,total\n1,3,4,7\n2,0,5,5\n", {}, "--leave-out total"),
        ("block,men,women,total\n1,3,4,7\n2,0,5,5\n", {}, "--yes-these-are-counts total"),
        ("town,sex,n\nA,m,3\nA,f,4\nA,Total,7\nB,m,1\nB,f,1\nB,Total,2\n", {}, "--leave-out sex=Total"),
        ("town,sex,n\nA,m,3\nA,f,4\nSum,m,3\nSum,f,4\n", {}, "rows of town 'Sum'"),
        ("town,sex,n\nA,m,3\nA,m,4\n", {}, "row 1: must be another cell than row 0, got town 'A' and sex 'm'"),
        ("town,sex,n\nA,m,3\nA,f,-4\n", {}, "row 1: column 'n': must be a whole number >= 0, got '-4'"),
        ("town,sex,n\nA,m,3\nA,f,twelve\n", {"counts": "n"}, "row 1: column 'n': must be a whole number >= 0"),
        ("town,sex,n\nA,m,3\nA,,2\n", {}, "row 1: column 'sex': must have a name, got nothing"),
        ("town,n\nA,3\nB,x\n", {}, "row 1: column 'n': 'x' hides a count"),
        ("town,n\nA,3\nB,x\n", {}, "--suppressed-below 5"),
        ("town,men,women\nA,1.204,1.310\nB,2.001,1.110\n", {}, "--decimal . or --decimal ,"),
        ("town,kids\nA,3\nA,2\n", {}, "--people where each row is a person"),
        ("town,year\nA,2020\nB,2024\n", {}, "no column of counts is there"),
        ("town,year,n\nA,2020,3\nA,2024,4\n", {}, "--leave-out year=2020"),
        (
            "block,town,x,men\n1,A,7,1\n2,A,7,2\n3,B,9,5\n4,B,9,3\n5,C,4,8\n6,C,4,0\n",
            {},
            "column 'x' is the same in all rows of each",
        ),
        ("town,n\nA,1\nB,2\n", {"places": "twon"}, "places: no column 'twon'; did you mean 'town'?"),
        ("town,n\n", {}, "the table is empty"),
        ("town,2023,2024\nA,1,2\nB,3,4\n", {}, "are of two years"),
        ("town,n,households\nA,5,2\nB,3,1\n", {}, "column 'n' is called a count, and households may hold counts too"),
        ("town,sex,weight\nA,m,120\nA,f,80\n", {}, "may hold weights of a survey, or a feature"),
        ("town,sex,n\nA,m,1.5\nA,f,2\n", {}, "column 'n': must be whole numbers >= 0, got '1.5'"),
        ("patient_id,town,sex\np1,A,m\np2,A,f\np1,A,m\n", {}, "column 'patient_id' has 'p1' in 2 rows, so that"),
        ("town,cases,residents\nA,5,20\nB,3,10\n", {}, "columns 'cases' and 'residents' are all called counts"),
        ("town,sex,n\nA,m,5\nB,f,3\n", {"people": True}, "column 'n' is called a count, so that a row may be a cell"),
        ("town,share\nA,1.5\nB,2.5\n", {}, "share has decimals, and no two rows are alike"),
        ("town,lk,men,women\nA,11000,3,4\nB,11001,5,6\nC,12000,1,1\nD,12007,2,3\n", {}, "column 'lk' rises from row"),
        ("pid,town,kids\np1,A,1\np2,A,0\np3,B,2\n", {}, "column 'pid' has another value in every row, and kids may"),
        (
            "town,sex,age,cars\nA,m,31,1\nA,f,44,0\nB,m,5,2\nB,f,71,1\nB,f,70,0\nA,m,18,1\n",
            {},
            "6 are there of 24 combinations of town, sex and age, and cars may be counts or features",
        ),
        ("town,what,n\nA,Number,3\nA,Percent,40\n", {}, "--leave-out what=Percent"),
        ("n\n3\n", {}, "there is nothing to count by"),
        ("town,men,women\nA,3,4\nB,1,2\n", {"leave_out": "town=C"}, "leave_out: no row has town 'C'"),
        ("town,n\nA,3\nB,x\n", {"suppressed_below": 0}, "suppressed_below must be a whole number >= 1"),
        ("town,n\nA,3\nB,x\n", {"suppressed": "never"}, "suppressed must be one of"),
        ("block,P1,P2,P3,P4,P5\n1,20,13,5,8,7\n2,31,20,11,9,11\n3,17,7,4,3,10\n4,50,26,20,6,24\n", {}, "P3 and P4"),
        ("region,place,m,f\nX,a,3,9\nX,b,4,7\nX,all X,7,16\nY,c,5,1\nY,d,6,2\n", {}, '--leave-out "place=all X"'),
        (
            "ward,area,n\n" + "".join(f"w{i},a{i // 5},{i + 3}\n" for i in range(20)) + "w7,a3,4\n",
            {},
            "line 22: ward 'w7' must lie in one area, got 'a3' and, in line 9, 'a1'",
        ),
    ],
)
def test_what_may_be_wrong_is_refused_with_the_remedy(text: str, options: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValueError, match=re.escape(remedy)):
        population(table(text), where=lambda row: f"line {row + 2}" if "ward" in text else f"row {row}", **options)


@pytest.mark.parametrize(
    ("text", "tables", "words"),
    [
        (TOWN, ["n"], "column 'n' is called a count, and a table is by places and features: write total"),
        (WIDE, ["block", "men"], "column 'men' holds numbers that may be counts"),
        (WIDE, ["arrondissement: sex", "sex"], "no columns 'arrondissement' and 'sex'"),
        (WIDE, ["tracct"], "no column 'tracct'; did you mean 'tract'?"),
        (TOWN, ["sex", "agge"], "no column 'agge'; did you mean 'age'?"),
        (TOWN, ["colour"], "The whole file is 'all', as in 'all: age'"),
    ],
)
def test_a_table_of_no_column_is_refused(text: str, tables: list[str], words: str) -> None:
    asked = []
    for line in tables:
        by = tuple(line.split(": "))
        asked.append(PublishedTable(by, Geometric(1.0), line))
    with pytest.raises(ValueError, match=re.escape(words)):
        population(table(text), asked)


def test_what_is_declared_is_taken_and_said() -> None:
    wide = table("block,men,women,total\n1,3,4,7\n2,0,5,5\n")
    assert population(wide, leave_out="total").counts.tolist() == [[3, 4], [0, 5]]
    assert population(wide, yes_these_are_counts="total").counts.tolist() == [[3, 4, 7], [0, 5, 5]]
    people = population(wide, published(("block", "sex"), ("block",)))
    assert people.counts.tolist() == [[3, 4], [0, 5]]
    assert "Left out: total (the sum of men and women)." in people.understood
    rows = table("town,sex,n\nA,m,3\nA,f,4\nA,Total,7\nB,m,1\nB,f,1\nB,Total,2\n")
    assert population(rows, published(("town", "sex"), ("town",))).counts.tolist() == [[3, 4], [1, 1]]
    assert population(rows, leave_out="sex=Total").counts.tolist() == [[3, 4], [1, 1]]
    years = table("block,year,men,women\n1,2024,3,4\n2,2024,0,5\n")
    assert population(years, leave_out="year").counts.tolist() == [[3, 4], [0, 5]]
    assert population(years, yes_these_are_counts="year").counts.sum() == 4060


def test_suppressed_cells_have_every_count_below_the_limit_or_nobody() -> None:
    hidden = table("town,sex,n\nA,m,<5\nA,f,x\nB,m,7\nB,f,8\n")
    drawn = population(hidden, suppressed_below=3)
    assert (drawn.counts.tolist(), np.asarray(drawn.most).tolist()) == ([[0, 0], [7, 8]], [[4, 2], [7, 8]])
    assert drawn.understood[-1] == "People: 15 to 21, as 2 counts are suppressed."
    none = population(hidden, suppressed="leave out")
    assert not none.suppressed.any()
    assert none.understood[-1] == "People: 15, and nobody in 2 suppressed cells."


def test_a_total_is_suppressed_whatever_its_size() -> None:
    hidden = table("town,men,women,all\nA,1204,x,x\nB,7,8,15\nC,12,9,21\n")
    people = population(hidden, published(("town", "sex"), ("town",)), suppressed_below=5)
    assert people.counts.tolist() == [[1204, 0], [7, 8], [12, 9]]


def test_one_large_count_among_suppressed_ones_is_no_total() -> None:
    hidden = table("town,men,women\nA,1204,1310\nB,x,17\nC,x,8\nD,x,x\n")
    assert population(hidden, suppressed_below=5).counts.tolist() == [[1204, 1310], [0, 17], [0, 8], [0, 0]]


def test_names_that_differ_in_case_blanks_or_form_are_one_after_a_caution() -> None:
    people = population(table("town,sex,n\nNorth,m,3\nnorth ,f,4\nSa\u0303o,m,1\nS\u00e3o,f,2\n"))
    assert people.counts.tolist() == [[3, 4], [1, 2]]
    assert any(line.startswith("Caution: names of town that differ") for line in people.understood)


def test_whoever_may_be_there_at_several_periods_is_taken_to_be_there_at_one_after_a_caution() -> None:
    months = table("month,sex,n\n2024-01,m,3\n2024-01,f,4\n2024-02,m,3\n2024-02,f,5\n")
    by_month = population(months, published(("month", "sex")))
    assert any("at one month only" in line for line in by_month.understood)
    assert len(by_month.understood) <= 6


def test_margins_shares_and_second_names_are_left_out_and_named() -> None:
    text = "GEOID,NAME,malesE,malesM,femalesE,femalesM\n06001400100,T 1,120,12,80,9\n06001400200,T 2,20,4,8,2\n"
    assert population(table(text)).counts.tolist() == [[120, 80], [20, 8]]
    long = "GEOID,NAME,variable,estimate,moe\n1,T 1,a,3,1\n1,T 1,b,4,1\n2,T 2,a,5,2\n2,T 2,b,6,2\n"
    people = population(table(long))
    assert (people.columns, people.counts.tolist()) == (("GEOID", "variable"), [[3, 4], [5, 6]])
    assert "Left out: moe (errors or bases of estimates) and NAME (one for each GEOID)." in people.understood


def test_ages_lie_in_their_groups_on_one_axis() -> None:
    rng = np.random.default_rng(5)
    people = pd.DataFrame({"town": rng.choice(list("ABC"), 200), "age": rng.integers(0, 60, 200)})
    people["group"] = np.where(people["age"] < 18, "young", "old")
    made = population(people, published(("town", "age"), ("all", "group")))
    assert [axis.columns for axis in made.axes] == [("town",), ("age", "group")]
    assert made.counts.sum() == 200


@pytest.mark.parametrize(
    ("entries", "options", "least", "most"),
    [
        (["1,204", "<5", "", "17"], {}, [1204, 0, 0, 17], [1204, 4, -1, 17]),
        (["1.204", "≤4", "x"], {"decimal": ","}, [1204, 0, 0], [1204, 4, -1]),
        (["1.204", "17"], {"separator": ";"}, [1204, 17], [1204, 17]),
        (["1 204,0", "1\u202f310,0", "3"], {}, [1204, 1310, 3], [1204, 1310, 3]),
        (["1'204", "12’000"], {}, [1204, 12000], [1204, 12000]),
        (["1.204.311", "2.500"], {}, [1204311, 2500], [1204311, 2500]),
        (["1e+05", "7"], {}, [100_000, 7], [100_000, 7]),
        ([3.0, None], {}, [3, 0], [3, -1]),
        (["under 10", "12"], {}, [0, 12], [9, 12]),
    ],
)
def test_numbers_are_read_as_offices_write_them(
    entries: list[Any], options: dict[str, Any], least: list[int], most: list[int]
) -> None:
    numbers = read_numbers(entries, **options)
    assert numbers is not None
    assert (numbers.least.tolist(), numbers.most.tolist()) == (least, most)
    assert not numbers.decimal
    assert not numbers.unclear


@pytest.mark.parametrize(
    ("entries", "options", "decimal", "unclear"),
    [
        (["1.204", "1.310"], {}, True, True),
        (["1,204", "1204"], {}, False, True),
        (["1,204", "2"], {"separator": "\t"}, False, True),
        (["12.5", "3,5"], {}, True, True),
        (["12,5", "1.204"], {}, True, False),
        (["0,204", "0,305"], {}, True, False),
        (["12%", "8%"], {}, True, False),
        ([1.5, 2.0], {}, True, False),
    ],
)
def test_shares_are_no_counts_and_doubtful_marks_are_not_guessed(
    entries: list[Any], options: dict[str, Any], decimal: bool, unclear: bool
) -> None:
    numbers = read_numbers(entries, **options)
    assert numbers is not None
    assert (bool(numbers.decimal), bool(numbers.unclear)) == (decimal, unclear)


@pytest.mark.parametrize("entries", [["01001", "36061"], ["0-17", "18+"], ["x", ""], [True, False], ["3", "three"]])
def test_codes_ranges_and_words_are_no_numbers(entries: list[Any]) -> None:
    assert read_numbers(entries) is None


WORDS = [
    "",
    "A",
    "B",
    "3",
    "4",
    "1.204",
    "1,204",
    "12,5",
    "<5",
    "x",
    "2024",
    "01001",
    "Total",
    "0-17",
    "-1",
    "5+",
    "½",
    "n",
]
HEADS = [
    "district",
    "sex",
    "age",
    "n",
    "men",
    "women",
    "total",
    "year",
    "id",
    "GEOID",
    "share",
    "cell",
    "x",
    "name",
    "2020",
]


@settings(max_examples=40)
@given(st.data())
def test_any_table_is_answered_in_six_lines_or_refused_in_one(data: st.DataObject) -> None:
    heads = data.draw(st.lists(st.sampled_from(HEADS), min_size=1, max_size=4, unique=True))
    rows = data.draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=len(heads), max_size=len(heads)), max_size=5))
    tables = data.draw(st.sampled_from([None, published(("district", "sex")), published(("tract", "cell"), ("all",))]))
    options = data.draw(st.sampled_from([{}, {"suppressed_below": 5}, {"people": True}, {"leave_out": "total"}]))
    refusals = []
    try:
        people = population(pd.DataFrame(rows, columns=heads, dtype=object), tables, **options)
    except ValueError as error:
        refusals.append(str(error))
    if refusals:
        assert len(refusals[0].splitlines()) == 1
        return
    assert 1 <= len(people.understood) <= 6
    assert people.counts.sum() > 0 or people.suppressed.any()
    assert all({*one.by} <= {*people.columns} for one in resolve_tables(tables or (), people))


FORMS = {
    "plain": str,
    "comma": lambda n: f"{n:,}",
    "narrow": lambda n: f"{n:,}".replace(",", "\u202f"),
    "swiss": lambda n: f"{n:,}".replace(",", "’"),
    "decimal": lambda n: f"{n:,},0".replace(",", " ", max(f"{n:,}".count(","), 0)),
}


@settings(max_examples=25)
@given(st.data(), st.sampled_from(sorted(FORMS)), st.booleans(), st.booleans())
def test_any_layout_and_any_way_of_writing_numbers_is_the_same_population(
    data: st.DataObject, form: str, wide: bool, shuffled: bool
) -> None:
    size = data.draw(st.integers(2, 4)), data.draw(st.integers(2, 3))
    counts = data.draw(st.lists(st.integers(1, 40_000), min_size=12, max_size=12, unique=True))[: size[0] * size[1]]
    matrix = np.array(counts).reshape(size)
    frame = pd.DataFrame(
        [(f"t{i}", f"s{j}", FORMS[form](int(matrix[i, j]))) for i in range(size[0]) for j in range(size[1])],
        columns=["town", "sex", "n"],
    )
    if shuffled:
        order = data.draw(st.permutations(range(len(frame))))
        frame = frame.iloc[list(order)][list(data.draw(st.permutations(["town", "sex", "n"])))]
    if wide:
        frame = frame.pivot(index="town", columns="sex", values="n").reset_index()
    options: dict[str, Any] = {"yes_these_are_counts": [f"s{j}" for j in range(3)][: size[1]]} if wide else {}
    options = options or {"yes_these_are_counts": [f"sex=s{j}" for j in range(size[1])]}
    people = population(frame, published(("town", "sex")), decimal="," if form == "decimal" else ".", **options)
    assert by_label(people) == {
        (f"t{i}", f"s{j}"): int(matrix[i, j]) for i in range(size[0]) for j in range(size[1]) if matrix[i, j]
    }
