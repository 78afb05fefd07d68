"""The people of a table of any layout: roles of columns, numbers as offices write them, and what is refused."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from adversary.adversaries.tables import Population, PublishedTable
from adversary.driver.columns import population, resolve_tables
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
    assert by_label(people) == {("A / 1", "A"): 3, ("A / 2", "A"): 4, ("B / 1", "B"): 5}


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
        ("block,town,x,men\n1,A,7,1\n2,A,7,2\n3,B,9,5\n4,B,9,3\n", {}, "column 'x' is the same in all rows of each"),
        ("town,n\nA,1\nB,2\n", {"places": "twon"}, "places: no column 'twon'; did you mean 'town'?"),
        ("town,n\n", {}, "the table is empty"),
    ],
)
def test_what_may_be_wrong_is_refused_with_the_remedy(text: str, options: dict[str, Any], remedy: str) -> None:
    with pytest.raises(ValueError, match=re.escape(remedy)):
        population(table(text), **options)
