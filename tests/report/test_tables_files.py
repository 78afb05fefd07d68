"""Data as offices have it, tables in a line, and files of several tables."""

from __future__ import annotations

import inspect
import io
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.adversaries.tables import PublishedTable
from adversary.driver import columns
from adversary.driver.columns import population, resolve_tables
from adversary.privacy.mechanisms import DiscreteGaussian, Exact, Geometric, Laplace, PerturbationTable, RandomRounding
from adversary.report.commands import tables_command
from adversary.report.files.tables import load_table_data, load_tables_file, parse_table, table_data
from adversary.report.files.tables.tables_file import FILE as KEYS
from tests import commands

GERMAN = "Bezirk;Kreis;Männer;Frauen;Anteil\nDüren;Köln;1.204;1.310;12,5\nSoest;Detmold;<5;17;0,4\n"
NHGIS = (
    "GISJOIN,YEAR,STATE,COUNTY,TRACTA,U7H002,U7H003\n"
    "GIS Join Match Code,Data File Year,State Name,County Name,Tract Code,Male,Female\n"
    "G01000100201,2020,Alabama,Autauga,020100,12,15\n"
    "G01000100202,2020,Alabama,Autauga,020200,31,40\n"
)
TIDYCENSUS = (
    "GEOID,NAME,variable,value\n"
    '060014001001000,"Block 1000, Tract 4001",P1_003N,6\n060014001001000,"Block 1000, Tract 4001",P1_004N,0\n'
    '060014001001001,"Block 1001, Tract 4001",P1_003N,50\n060014001001001,"Block 1001, Tract 4001",P1_004N,1\n'
)
TABLES = """
[data]
file = "people.csv"
[[table]]
of = "district: age x sex"
rho = 0.3
"""


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_separator_encoding_thousands_and_marks_are_those_of_the_office(encoding: str, tmp_path: Path) -> None:
    frame, where = load_table_data(written(tmp_path, "a.csv", GERMAN.encode(encoding)))
    people = population(frame, suppressed_below=5, where=where)
    assert people.label((0, 0)) == {"Bezirk": "Düren", "Kreis": "Köln", "cell": "Männer"}
    assert people.counts.tolist() == [[1204, 1310], [0, 17]]
    assert people.most is not None
    assert people.most.tolist() == [[1204, 1310], [4, 17]]
    assert any("Anteil (decimals such as 12,5)" in line for line in people.understood)
    assert len(people.understood) <= 6


def test_the_lines_that_describe_columns_and_titles_are_left_out_and_rows_keep_their_place(tmp_path: Path) -> None:
    frame, where = load_table_data(written(tmp_path, "nhgis.csv", NHGIS))
    assert (where(0), frame.attrs["notes"]) == ("line 3", ["Line 2, which describes the columns, is left out."])
    people = population(frame, [PublishedTable(("GISJOIN", "sex"), Exact()), PublishedTable(("county",), Exact())])
    assert people.columns == ("GISJOIN", "COUNTY", "sex")
    assert people.counts.sum() == 98
    titled, place = load_table_data(written(tmp_path, "t.csv", "People by town\n\ntown,sex,n\nA,m,3\nB,f,4\n"))
    assert (list(titled), place(1)) == (["town", "sex", "n"], "line 5")
    assert titled.attrs["notes"] == ["Line 1, above the names of the columns, is left out."]


def test_a_file_of_tidycensus_has_its_tracts_at_first_go(tmp_path: Path) -> None:
    frame, where = load_table_data(written(tmp_path, "tidy.csv", TIDYCENSUS))
    tables = [parse_table("block: variable, rho 0.1"), parse_table("tract: variable, rho 0.1")]
    people = population(frame, tables, where=where)
    assert people.label((0, 0)) == {"block": "060014001001000", "tract": "06001400100", "variable": "P1_003N"}
    assert people.counts.tolist() == [[6, 0], [50, 1]]


OFFICES = {
    "long, German": (
        "Gemeinde,Merkmal,Anzahl\n0601 Nord,0-17 M,38\n0601 Nord,65+ F,3\n0602 Südheim,0-17 M,1\n",
        ["Gemeinde: Merkmal, rho 0.1"], {}, (("Gemeinde", "Merkmal"), 42),
    ),
    "wide, English thousands": (
        'Bezirk,Kreis,Men,Women\nDueren,Koeln,"1,204","1,310"\nAachen,Koeln,<5,17\nHoexter,Detmold,,8\n'
        "Soest,Detmold,3,2\n",
        ["Bezirk: sex, rho 0.1", "Kreis: total, rho 0.1"], {"suppressed_below": 5}, (("Bezirk", "Kreis", "sex"), 2544),
    ),
    "codes of counties": (
        "county,tract,GEOID,hisp,nonhisp\n01001,01001000100,010010001001000,3,13\n"
        "01001,01001000200,010010002001000,4,18\n",
        ["GEOID: cell, rho 0.1", "county: cell, rho 0.1"], {}, (("GEOID", "county", "cell"), 38),
    ),
    "crossings": (
        "country,district,sex,age,n\nNorth,N1,M,0-17,12\nNorth,N1,F,85+,1\nNorth,N2,M,0-17,4\nSouth,S1,F,85+,2\n",
        ["district: age x sex, rho 0.3", "district: total, rho 0.1", "country: age, laplace scale 2"], {},
        (("district", "country", "sex", "age"), 19),
    ),
    "French": (
        "Département;Commune;Hommes;Femmes;Part\nAin;Bourg;1 204,0;1\u202f310,0;52,1\nAin;Oyonnax;11 003,0;12 "
        "017,0;52,2\nAisne;Laon;902,0;978,0;52,0\n",
        ["Commune: sexe, rho 0.1", "pays: sexe, rho 0.1"], {}, (("Commune", "sexe"), 27414),
    ),
    "people with ages": (
        "id,district,sex,age\n" + "".join(f"{i},{'AB'[i % 2]},{'mf'[i % 3 % 2]},{20 + i % 4}\n" for i in range(1, 41)),
        ["district: age, rho 0.1", "all: sex, rho 0.1"], {}, (("district", "sex", "age"), 40),
    ),
    "a total that is published": (
        "block,men,women,total\n1,3,4,7\n2,0,5,5\n", ["block: sex, rho 0.1", "block: total, rho 0.1"], {},
        (("block", "sex"), 12),
    ),
    "a total that is not": (
        "block,men,women,total\n1,3,4,7\n2,0,5,5\n", ["block: sex, rho 0.1"], {}, "'total' is the sum of men and women",
    ),
    "a year": ("block,year,men,women\n1,2024,3,4\n2,2024,0,5\n", ["block: sex, rho 0.1"], {}, "--leave-out year"),
    "a table of cell keys": (
        "i,j,p,v,p_int_lb,p_int_ub,type\n0,0,1,0,0,1,all\n1,0,0.5,-1,0,0.5,all\n1,2,0.5,1,0.5,1,all\n",
        ["i: j, rho 1"], {}, "line 3: column 'v': must be a whole number >= 0, got '-1'",
    ),
    "a matrix of cell keys": ("i,0,1,2\n0,1,0,0\n1,0.5,0,0.5\n", ["i: cell, rho 1"], {}, "have decimals, and 1 may"),
    "microdata taken for counts": (
        "pid,town,kids\np1,A,1\np2,A,0\np3,B,2\n", ["town: total, rho 1"], {}, "--people where each row is a person",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "lines", "options", "expected"), OFFICES.values(), ids=OFFICES)
def test_a_file_of_an_office_is_answered_or_refused_with_the_remedy(
    text: str, lines: list[str], options: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    frame, where = load_table_data(written(tmp_path, "office.csv", text))
    tables = [parse_table(line) for line in lines]
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            population(frame, tables, where=where, **options)
        return
    people = population(frame, tables, where=where, **options)
    assert (people.columns, people.counts.sum()) == expected
    assert all({*one.by} <= {*people.columns} for one in resolve_tables(tables, people))
    assert len(people.understood) <= 6


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet", ".dta", ".sav"])
def test_formats_of_other_programs_hold_the_same_people(suffix: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"code": ["01", "02", "03"], "sex": ["m", "f", "m"], "n": [3, 4, 0]})
    path = tmp_path / f"people{suffix}"
    if suffix == ".xlsx":
        with pd.ExcelWriter(path) as book:
            frame.to_excel(book, sheet_name="Data", startrow=2, index=False)
            book.sheets["Data"]["A1"] = "People of 2024"
    elif suffix == ".sav":
        pytest.importorskip("pyreadstat").write_sav(frame, str(path))
    else:
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_stata(path, write_index=False)
    read, where = load_table_data(path)
    people = population(read, where=where, counts="n")
    assert people.counts.sum() == 7
    assert people.label((0, 0)) == {"code": "01", "sex": "m"}
    assert where(0) == ("row 4 of sheet 'Data'" if suffix == ".xlsx" else "row 1")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "", "the file is empty: its first line must name the columns"),
        ("a.csv", "a,b,c\n1,2\n", "line 2: must have a cell for each of 3 columns, got 2"),
        ("a.csv", "town,,n,m\nA,x,3,4\n", "line 1: must name every column, got no name for column 2"),
        (
            "a.csv",
            "town;sex;age;n\nA;m;0;3\nA;f;0;4\nSource: register;;;\n",
            "line 4: has one entry alone, 'Source: reg",
        ),
        ("a.csv", "town,n\nA,3\nQuelle: Register,\n", "line 3: has one entry alone, 'Quelle: Register'"),
        ("a.csv", "town,n\nA,3\n1) of 2024,\n", "line 3: has one entry alone, '1) of 2024'"),
        ("a.csv", b"t\0o\0", "got the character NUL"),
        ("a.csv", 'a,b\n"x,3\n', "line 2: must be CSV, got unexpected end of data"),
        ("a.xls", b"\xd0\xcf", "save it as .xlsx or CSV"),
        ("a.pkl", b"", "a pickle, which may run code"),
        ("a.csv", b"%PDF-1", "must be CSV, Excel, Parquet, Stata or SPSS by its name"),
        ("a.xlsx", b"PK\x03\x04junk", "must be an Excel file"),
        ("a.dta", b"junk", "must be a file of the format .dta"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(name: str, content: str | bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load_table_data(written(tmp_path, name, content))
    assert words in str(error.value)


@pytest.mark.parametrize("head", ["town;sex;n\n", "People of 2024;;\ntown;sex;n\n", "town;sex;n;\n"])
def test_a_long_file_is_read_as_a_short_one(head: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    end = ";" if head.endswith(";\n") else ""
    lines = "".join(f"T{i};{'mf'[i % 2]};{i % 7}{end}\r\n" for i in range(450))
    path = written(tmp_path, "long.csv", head.replace("\n", "\r\n") + lines)
    frame, where = load_table_data(path)
    monkeypatch.setattr("adversary.report.files.tables.table_data.MANY", 100)
    long, place = load_table_data(path)
    pd.testing.assert_frame_equal(long, frame.astype(long.dtypes))
    assert (place(0), place(449), long.attrs) == (where(0), where(449), frame.attrs)


@pytest.mark.parametrize(
    ("name", "content", "library"),
    [("a.xlsx", b"PK\x03\x04", "openpyxl"), ("a.parquet", b"PAR1", "pyarrow"), ("a.sav", b"$FL2", "pyreadstat")],
)
def test_a_library_that_is_missing_is_named_with_its_extra(
    name: str, content: bytes, library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = written(tmp_path, name, content)
    if name == "a.xlsx":
        pd.DataFrame({"town": ["A"], "n": [3]}).to_excel(path)
    for module in [one for one in sys.modules if one.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ValueError, match=rf"need {library}, which comes with the extra `tables`: pip install"):
        load_table_data(path)
    answer = commands.run("tables", str(path), "--table", "town: total, rho 1")
    assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)
    assert "pip install 'dp-adversary[tables]'" in answer.stderr


def test_a_sheet_is_named_where_there_are_several(tmp_path: Path) -> None:
    path = tmp_path / "two.xlsx"
    with pd.ExcelWriter(path) as book:
        for name in ("2023", "2024"):
            pd.DataFrame({"town": ["A", "B"], "n": [3, 4]}).to_excel(book, sheet_name=name, index=False)
    with pytest.raises(ValueError, match="has the sheets 2023 and 2024: name one, --sheet '2023'"):
        load_table_data(path)
    assert load_table_data(path, sheet="2024")[1](0) == "row 2 of sheet '2024'"
    with pytest.raises(ValueError, match="no sheet '2025' with entries; there are 2023 and 2024"):
        load_table_data(path, sheet="2025")


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.text("ab é,;\"'", max_size=4), st.integers(0, 10**6)), min_size=2, max_size=6),
    st.sampled_from(",;\t|"),
)
def test_what_pandas_writes_is_read_as_it_was(rows: list[tuple[str, int]], separator: str) -> None:
    frame = pd.DataFrame([(f"T{i}{name}", str(n)) for i, (name, n) in enumerate(rows)], columns=["town", "n"])
    text = io.StringIO()
    frame.to_csv(text, sep=separator, index=False)
    from adversary.report.files.tables.table_data import _from_text

    read, where = _from_text(text.getvalue().encode())
    assert read.to_numpy().tolist() == frame.to_numpy().tolist()
    assert where(0) == "line 2"


@pytest.mark.parametrize(
    ("text", "by", "noise"),
    [
        ("district: age x sex, rho 0.3", ("district", "age", "sex"), DiscreteGaussian.from_rho(0.3)),
        ("district: total, rho 1/10", ("district",), DiscreteGaussian.from_rho(0.1)),
        ("country: age, laplace scale 2", ("country", "age"), Laplace(2.0)),
        ("age × sex, epsilon 0.5", ("age", "sex"), Geometric(0.5)),
        ("all: age, geometric epsilon=1", ("all", "age"), Geometric(1.0)),
        ("a: b, sigma 2", ("a", "b"), DiscreteGaussian(2.0)),
        ("a: b, exact", ("a", "b"), Exact()),
        ("a: random rounding 5", ("a",), RandomRounding(5)),
    ],
)
def test_a_line_describes_a_table(text: str, by: tuple[str, ...], noise: Any) -> None:
    table = parse_table(text)
    assert table.by == by
    assert repr(table.noise) == repr(noise) or table.noise.rho() == pytest.approx(noise.rho(), rel=1e-15)


def test_rounding_suppression_and_releases_stand_in_a_line() -> None:
    table = parse_table("a: b, rho 0.1, round 5, suppress 10, releases 2, repeat same")
    assert repr(table.noise).startswith("Suppressed(mechanism=Rounded(mechanism=DiscreteGaussian(")
    assert (table.releases, table.repeat, table.name) == (2, "same", "a: b")
    assert repr(parse_table("a: b, round 3").noise) == "Rounded(mechanism=Exact(), base=3, ties='half_even')"


@pytest.mark.parametrize(
    "content",
    [
        "i,0,1,2\n0,1,0,0\n1,0.5,0,0.5\n",
        "i;j;p\n0;0;1\n1;0;0,5\n1;2;0,5\n",
        "count,release,probability\n0,0,1\n1,0,0.5\n1,2,0.5\n",
    ],
)
def test_a_cell_key_method_is_read_from_the_offices_own_table(content: str, tmp_path: Path) -> None:
    written(tmp_path, "keys of 2024.csv", content)
    noise = parse_table("a: b, cell key keys of 2024.csv", tmp_path).noise
    assert isinstance(noise, PerturbationTable)
    assert noise.support(1).tolist() == [0, 1, 2] or set(noise.support(1)) == {0, 2}
    assert np.exp(noise.log_likelihood(2, 1)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b", "must say its noise after a comma, such as rho 0.3, or exact"),
        ("a: b, rho 0,3", "numbers have a point, as 0.5, and no comma, got '3'"),
        ("a: b, laplac scale 2", "'laplac scale 2' is no noise; did you mean 'laplace'?"),
        ("a: b, laplace 2", "laplace noise takes epsilon or scale, each before its number"),
        ("a: b, laplace sigma 2", "laplace noise takes one of epsilon, scale, got sigma"),
        ("a: b, c, rho 0.1", "with x between features"),
        ("a: , rho 1", "must name its features, or total"),
        (": b, rho 1", "must name its place, or all for the whole file"),
        ("a: b, rho", "rho must have a value"),
        ("a: b, rho 0.1, rho 0.2", "must have rho once"),
        ("a: b, rho 50 %", "write 50 % as 0.5"),
        ("a: b, rho -1", "rho must be positive"),
        ("a: b x b, rho 1", "by must name every feature once"),
        ("a: b, cell key none.csv", "no file"),
        ("a: b, exact rho 1", "exact noise takes no parameter, got rho"),
    ],
)
def test_a_line_that_says_no_table_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"^table '[^\n]*$") as error:
        parse_table(text)
    assert str(error.value).startswith(f"table {text!r}: ")
    assert words in str(error.value)


def test_a_file_says_the_same_as_lines(tmp_path: Path) -> None:
    text = TABLES + (
        '[[table]]\nby = ["age"]\nname = "country: age"\nnoise = "laplace"\nscale = 2\n[adversary]\nprior = "1/10"\n'
        'knows = "household hh"\nbelief = { upper = 3 }\n[guarantee]\nzCDP = "sum of levels"\n'
    )
    file = load_tables_file(written(tmp_path, "t.toml", text))
    lines = [parse_table("district: age x sex, rho 0.3"), parse_table("age, laplace scale 2")]
    assert [one.by for one in file.tables] == [one.by for one in lines]
    assert [repr(one.noise) for one in file.tables] == [repr(one.noise) for one in lines]
    assert (file.data, file.adversary.prior, file.household) == (tmp_path / "people.csv", 0.1, "hh")
    assert np.asarray(file.adversary.belief.law).tolist() == [0.25] * 4
    assert file.guarantees is not None
    total = sum(one.noise.rho() for one in lines)
    assert file.guarantees["zCDP"].loss_bound(0.5) > 0.0
    assert repr(file.guarantees["zCDP"]) == f"ZeroConcentratedDP(rho={total!r})"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('[[table]]\nof = "district: age x sex"\nrho = 1\n', "table[2].name: must be another than that of table[1]"),
        ("[[table]]\nrho = 1\n", "table[2].of: give either of = "),
        ('[[table]]\nof = "a"\nby = ["a"]\nrho = 1\n', "got both"),
        ("[[table]]\nby = [1]\nrho = 1\n", "must be a list of names of columns, got [1]"),
        ('[adversary]\nknows = "everyone"\n', "adversary.knows: must be one of cell, everybody, nobody, or household"),
        ("[adversary]\nprior = 2\n", "prior must be in [0, 1]"),
        ("[adversary]\nbelief = { total = 3 }\n", "must be a law of the others in one cell"),
        ('[adversary]\nbelief = "uniform"\nlast_year = "a.csv"\n', "must be left out where there is a belief"),
        ("[truth]\ndistrict = 1\n", "truth: unknown key, got 'truth'"),
    ],
)
def test_a_bad_file_of_tables_is_one_line(more: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, "t.toml", TABLES + more)
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        load_tables_file(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)


@pytest.mark.parametrize("options", [{"decimal": "x"}, {"suppressed": "never"}, {"people": 3}, {"places": [1]}])
def test_what_is_said_of_data_is_checked(options: dict[str, Any], tmp_path: Path) -> None:
    ((key, value),) = options.items()
    said = f'"{value}"' if isinstance(value, str) else value
    text = TABLES.replace('people.csv"\n', f'people.csv"\n{key} = {said}\n')
    with pytest.raises(ValueError, match=rf"data\.{key}: must be "):
        load_tables_file(written(tmp_path, "t.toml", text))


def test_what_a_file_says_of_its_data_is_taken_by_population_and_the_commands() -> None:
    arguments = {*inspect.signature(population).parameters}
    data = {*KEYS["data"].keys}
    assert data - {"file", "sheet"} <= arguments
    for command in (tables_command.tables_command, tables_command.plan_command):
        assert data <= {*inspect.signature(command).parameters}


def test_every_remedy_that_a_message_names_is_an_option() -> None:
    options = {f"--{name.replace('_', '-')}" for name in KEYS["data"].keys}
    named = set()
    for module in (*Path(columns.__file__).parent.glob("*.py"), Path(table_data.__file__)):
        text = module.read_text(encoding="utf-8")
        named |= set(re.findall(r"(--[a-z][a-z-]+)", text)) | {
            f"--{key.replace('_', '-')}" for key in re.findall(r"option\(['\"](\w+)['\"]", text)
        }
    assert {"--leave-out", "--people", "--sheet"} <= named
    assert named - {"--table"} <= options


@pytest.mark.parametrize("name", ["people.csv", "people.xlsx", "people.parquet"])
def test_data_given_to_a_command_of_scenarios_is_named(name: str, tmp_path: Path) -> None:
    answer = commands.run("audit", str(written(tmp_path, name, "town,n\nA,3\n")))
    assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)
    assert f"got {name[7:].upper()}; a table of counts is audited by: adversary tables" in answer.stderr


@pytest.mark.parametrize("command", ["audit", "invariants", "bounds", "epsilon"])
def test_other_commands_name_the_one_that_reads_it(command: str, tmp_path: Path) -> None:
    answer = commands.run(command, str(written(tmp_path, "t.toml", TABLES)))
    assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)
    assert "a file of several tables of one population, which adversary tables reads" in answer.stderr
