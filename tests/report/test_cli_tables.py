"""`adversary tables`: bad counts are one line with the file, the line, the column, the rule and the value."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import adversary as adv
from adversary.driver.columns import population
from adversary.report.kit import Figure
from tests import commands
from tests.tables import DATA

HEAD = "block,tract,renters\n"
ASKED = ("--rho", "0.1", "--levels", "block,tract")


DISTRICTS = str(DATA / "districts.csv")
SPECS = ("district: age x sex, rho 0.3", "district: total, rho 0.1", "country: age, rho 0.1")
TABLES = tuple(part for spec in SPECS for part in ("--table", spec))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        (HEAD + "1,A,3\n2,A,-1\n", "line 3: column 'renters': must be"),
        (HEAD + "1,A,3\n1,A,4\n", "--people where each row is a person, or name the counts, such as --counts renters"),
        ("block,renters\n1,3\n", "'tract'"),
        ("block,year,men,women\n1,2024,3,4\n2,2024,0,5\n", "year"),
        ("block,men,women,total\n1,3,4,7\n2,0,5,5\n", "total"),
    ],
)
def test_a_bad_table_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text(text, encoding="utf-8")
    levels = "block,tract" if "tract" in text or "renters" in text else "block"
    result = commands.run("tables", str(file), "--rho", "0.1", "--levels", levels)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {file}: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_three_tables_of_one_file(tmp_path: Path, monkeypatch: Any) -> None:
    """What was understood comes first, at most six lines; then the answer of `audit_tables`, number for number."""
    monkeypatch.setattr(Figure, "svg", "")
    asked = ("tables", DISTRICTS, "--prior", "0.1", *TABLES)
    shown = commands.run(*asked, "--out", str(tmp_path)).stdout
    places = [shown.index(words) for words in ("Places: district (6)", "The largest risk is", "before the release: ")]
    assert places == sorted(places)
    noise = adv.DiscreteGaussian.from_rho
    published = [
        adv.PublishedTable(["district", "age", "sex"], noise(0.3)),
        adv.PublishedTable(["district"], noise(0.1)),
        adv.PublishedTable(["age"], noise(0.1)),
    ]
    people = population(pd.read_csv(DISTRICTS, dtype=str), published)
    risks = adv.audit_tables(people, published, adv.TableAdversary(0.1), rng=1)
    answer = commands.answered(*asked)
    assert commands.number(answer, "worst") == risks["posterior_mean"].iloc[0]
    assert commands.number(answer, "bound", group="summary") == risks["bound"].max()
    assert len(answer["attributes"]["understood"]) <= 6
    assert answer["attributes"]["understood"][-1].startswith("People: 765. One person is in 3 counts: rho 0.5 in all:")
    with (tmp_path / "people.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(risks) == 60
    assert [float(row["after, on average"]) for row in rows] == pytest.approx(risks["posterior_mean"].tolist())
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.index("Places: district (6)") < page.index("The largest risk is")


def test_suppressed_cells_are_not_called_empty(tmp_path: Path) -> None:
    file = commands.written("town.csv", tmp_path, "town,sex,n\nA,m,x\nA,f,40\nB,m,x\nB,f,50\n")
    shown = commands.run("tables", file, "--suppressed-below", "4", "--table", "town: sex, cell key V 1.05 D 2 js 1")
    assert "The largest risk is in all 2 suppressed cells" in " ".join(shown.stdout.split())
    assert "empty" not in shown.stdout


def test_a_file_says_the_same_as_the_options(tmp_path: Path) -> None:
    rows = "".join(
        f'[[table]]\nof = "{of}"\nrho = {rho}\n'
        for of, rho in (("district: age x sex", 0.3), ("district: total", 0.1), ("country: age", 0.1))
    )
    file = commands.written("my.toml", tmp_path, f'[data]\nfile = "{DISTRICTS}"\n{rows}[adversary]\nprior = 0.1\n')
    by_file = commands.answered("tables", file)
    by_options = commands.answered("tables", DISTRICTS, "--prior", "0.1", *TABLES)
    assert by_file["records"] == by_options["records"]
    more = commands.answered("tables", file, "--prior", "0.2", "--knows", "everybody")
    assert commands.number(more, "prior", group="summary") == 0.2
    assert more["attributes"]["knows"] == "everybody"
    refused = commands.run("tables", file, *TABLES)
    assert (refused.exit_code, "leave out --table and --levels" in refused.stderr) == (2, True)
    pointed = commands.run("audit", file)
    assert (pointed.exit_code, "adversary tables" in pointed.stderr) == (2, True)


def test_everybody_known_is_the_composed_loss() -> None:
    answer = commands.answered("tables", DISTRICTS, "--prior", "0.1", *TABLES, "--knows", "everybody")
    noise = adv.DiscreteGaussian.from_rho
    loss = noise(0.3).privacy_loss() + noise(0.1).privacy_loss() + noise(0.1).privacy_loss()
    assert commands.number(answer, "worst") == pytest.approx(loss.posterior(0.1).mean("in"), rel=1e-9)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ((), "give the tables that are published, such as --table"),
        (("--table", "distrct: age, rho 0.1"), "distrct"),
        (("--table", "district: age"), "must say its noise after a comma"),
        (("--table", "district: age, rho 0.1", "--rho", "1"), "--table names the noise of its table"),
        (("--table", "district: age, rho 0.1", "--check"), "--check needs --profile"),
        (("--table", "district: age, rho 0.1", "--knows", "some"), "knows must be one of cell, everybody, nobody"),
        (("--table", "district: age, rho 0.1", "--prior", "2"), "prior must be in [0, 1]"),
    ],
)
def test_what_is_not_asked_for_rightly_is_one_line(asked: tuple[str, ...], words: str) -> None:
    result = commands.run("tables", DISTRICTS, *asked)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert words in result.stderr


def test_the_old_name_points_to_the_new_one() -> None:
    result = commands.run("tables", DISTRICTS)
    assert result.exit_code == 2
    assert "tables" in result.stderr


def test_a_profile_is_checked(tmp_path: Path) -> None:
    profile = str(DATA / "survey_profile.toml")
    kept = commands.run("tables", DISTRICTS, "--table", "district: age, rho 0.0005", "--profile", profile, "--check")
    said = "The noise, in 12 releases of all tables, keeps the risk profile"
    assert (kept.exit_code, said in commands.flat(kept.stdout)) == (0, True)
    broken = commands.run("tables", DISTRICTS, "--table", "district: age, rho 3", "--profile", profile, "--check")
    assert (broken.exit_code, broken.stderr) == (3, "check failed: the noise does not keep the risk profile\n")
    assert "does not keep the risk profile" in commands.flat(broken.stdout)
    assert re.search(r"Noise of rho [\d.]+ in each of 12 releases would keep it\.", commands.flat(broken.stdout))


def test_every_release_counts_in_the_budget_and_before_a_profile(tmp_path: Path) -> None:
    """Of a table that is published four times, of a profile for four releases, and of what a household changes."""
    profiles = [
        commands.written(f"profile{n}.toml", tmp_path, f'releases = {n}\n[profile]\nkind = "difference"\nby = 0.2\n')
        for n in (1, 4)
    ]
    table = f'[data]\nfile = "{DISTRICTS}"\n[[table]]\nof = "district: age"\nepsilon = 0.2\nnoise = "geometric"\n'
    once = commands.written("once.toml", tmp_path, table)
    often = commands.written("often.toml", tmp_path, f"{table}releases = 4\n")
    same = commands.written("same.toml", tmp_path, f'{table}releases = 4\nrepeat = "same"\n')
    home = commands.written("home.toml", tmp_path, f'[privacy_unit]\nname = "household"\ncells = 2\n{table}')
    codes = [
        commands.run("tables", file, "--profile", profile, "--check").exit_code
        for file, profile in ((once, profiles[0]), (same, profiles[0]), (often, profiles[0]), (once, profiles[1]))
    ]
    assert codes == [0, 0, 3, 3]
    said = [commands.answered("tables", file)["attributes"]["understood"][-1] for file in (once, same, often, home)]
    assert said == [
        f"People: 765. {words}."
        for words in (
            "One person is in 1 count: epsilon 0.2 at the district: age",
            "One person is in 1 count: epsilon 0.2 at the district: age",
            "One person is in 4 counts: epsilon 0.8 in all: 0.2 in each of 4 releases of the district: age",
            "One household changes 2 counts at most: epsilon 0.2 at the district: age",
        )
    ]


def test_codes_keep_their_digits_on_a_narrow_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    codes = [f"01001000100{i}000{i}" for i in range(3)]
    lines = "".join(f"{code},{i}\n" for i, code in enumerate(codes, 1))
    counts = commands.written("codes.csv", tmp_path, f"GEOID,n\n{lines}")
    shown = commands.printed("tables", counts, "--table", "GEOID: total, rho 1")
    assert all(code in "".join(shown.split()) for code in codes)


def test_a_workbook_comes_back_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Figure, "svg", "")
    file, out = tmp_path / "town.xlsx", tmp_path / "out"
    pd.DataFrame({"block": ["001", "002"], "people": [3, 4]}).to_excel(file, index=False)
    assert commands.run("tables", str(file), "--table", "block: total, rho 1", "--out", str(out)).exit_code == 0
    sheets = pd.read_excel(out / "tables.xlsx", sheet_name=None, dtype={"block": str})
    assert sheets["people"]["block"].tolist() == ["001", "002"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rho", "0.1,0.2,0.3", "--levels", "a,b"), "--rho must be one number, or one for each of 2 levels, got 3"),
        (("--rho", "0,1", "--levels", "a,b"), "--rho must be positive, such as 0.1, or 0.1,0.2 for two levels, got"),
        (("--rho", "0.1", "--epsilon", "1", "--levels", "a"), "--rho or --epsilon must be given, and not both"),
        (("--rho", "1e-300", "--levels", "a,b,c"), "--rho: rho must be between 5e-301 and 5e+299, for a sigma from"),
        (("--rho", "1e308", "--levels", "a"), "--rho: rho must be between 5e-301 and 5e+299, for a sigma from"),
        (("--rho", "1e-200", "--levels", "a"), "--rho: noise must spread a release over at most 10,000,000 values"),
        (("--epsilon", "1e-100", "--levels", "a"), "--epsilon: noise must spread a release over at most 10,000,000"),
        (("--epsilon", "1e-200", "--levels", "a"), "--epsilon: epsilon must be between 1e-150 and 1e150"),
        (("--rho", "1", "--levels", "block,all"), "--levels: the whole file, all, is no column: give every table"),
    ],
)
def test_budgets_that_do_not_fit_the_levels_are_refused(options: tuple[str, ...], words: str) -> None:
    answer = commands.run("tables", str(DATA / "town_counts.csv"), *options)
    assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)
    assert words in answer.stderr


def test_cells_of_the_same_risk_share_their_rank_and_the_headline(tmp_path: Path, monkeypatch: Any) -> None:
    """Noise of one level hides every occupied cell alike: none of them is called the worst."""
    monkeypatch.setattr(Figure, "svg", "")
    lines = "".join(f"{i},{i},{i % 3},0\n" for i in range(1, 19))
    counts = commands.written("thirty.csv", tmp_path, "block,a,b,c\n" + lines)
    asked = ("tables", counts, "--rho", "0.3", "--levels", "block", "--full", "--out", str(tmp_path / "out"))
    shown = commands.flat(commands.run(*asked).stdout)
    mean = 100.0 * adv.DiscreteGaussian.from_rho(0.3).privacy_loss().posterior(0.5).mean("in")
    assert "The largest risk is the same in all 30 occupied cells: from 50% before" in shown
    assert f"before the release to {mean:.0f}% after it on average" in shown
    assert "20 of the 30 that share the first are listed" in shown
    with (tmp_path / "out/people.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == ["1="] * 30 + ["31="] * 24


def test_the_bound_of_a_table_says_how_it_may_fail_and_a_certain_one_does_not(tmp_path: Path) -> None:
    counts = commands.written("one.csv", tmp_path, "block,a\n1,3\n")
    for noise, chance in (("--rho", "5%"), ("--epsilon", "")):
        shown = commands.flat(commands.printed("tables", counts, noise, "0.3", "--levels", "block"))
        assert ("The bound holds in all but 5% of releases." in shown) is bool(chance)
        loss = adv.DiscreteGaussian.from_rho(0.3).privacy_loss() if chance else adv.PureDP(0.3)
        most = 100.0 * loss.posterior_bounds(0.5, 0.05 if chance else 0.0)[1]
        (bound,) = re.findall(r"at most, by the noise of all tables: ([\d.]+)%", shown)
        assert most * (1.0 - 1e-12) <= float(bound) <= most + 0.1


def test_a_plan_for_a_profile_says_whom_that_is_not_about(tmp_path: Path) -> None:
    rare = 'inclusion = ["1/100000", "1/2000"]\nvalue = 1\n'
    text = f'failure = 0.01\n[profile]\nkind = "ratio or absolute"\nratio = 1\nabsolute = 0.05\n{rare}'
    profile = commands.written("rare.toml", tmp_path, text)
    asked = ("plan", str(DATA / "town_counts.csv"), "--profile", profile, "--levels", "block,tract")
    loss = commands.number(commands.answered(*asked), "loss")
    shown = commands.flat(commands.printed(*asked))
    (most,) = re.findall(r"one who gives 1% .* who may come to as much as ([\d.]+)%, but for probability 1%", shown)
    exact = 100.0 * adv.PureDP(loss).posterior_bounds(0.01)[1]
    assert exact <= float(most) <= exact + 0.1


def test_one_cell_of_the_largest_risk_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Figure, "svg", "")
    counts = commands.written("few.csv", tmp_path, "block,tract,a\n1,A,1\n2,A,0\n3,B,1\n4,C,1\n5,C,1\n")
    asked = ("tables", counts, "--rho", "0.6", "--levels", "block,tract", "--out", str(tmp_path / "out"))
    shown = commands.flat(commands.run(*asked).stdout)
    with (tmp_path / "out/people.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows][:2] == ["1", "2="]
    assert f"The largest risk is in {rows[0]['block']}, {rows[0]['tract']}: from 50%" in shown


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        (("--rho", "0.1", "--levels", "block,group,tract"), "rho 0.1 in all: 0.0333 at each of 3 levels"),
        (("--rho", "0.1", "--levels", "block"), "rho 0.1 at the block"),
        (("--rho", "0.1,0.2", "--levels", "block,tract"), "rho 0.3 in all: 0.1 at the block and 0.2 at the tract"),
        (("--epsilon", "1", "--levels", "block,tract"), "epsilon 1 in all: 0.5 at each of 2 levels"),
    ],
)
def test_what_a_budget_is_divided_into_stands_in_the_answer(
    options: tuple[str, ...], budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the screen, on the page, and as an attribute of the numbers."""
    monkeypatch.setattr(Figure, "svg", "")
    asked = ("tables", str(DATA / "town_counts.csv"), *options, "--counts", "renters", "--out", str(tmp_path))
    budget_said = f": {budget}."
    assert budget_said in commands.flat(commands.run(*asked, "--full").stdout)
    assert budget_said in commands.flat((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert commands.answered(*asked, silent=False)["attributes"]["budget"] == budget


@pytest.mark.slow
def test_the_noise_that_a_plan_names_is_taken_by_table() -> None:
    """Its last words are a command, which prints an answer; a table given to audit names that command too."""
    town, asked = (
        str(DATA / "town_counts.csv"),
        ("--profile", str(DATA / "survey_profile.toml"), "--levels", "block,tract"),
    )
    planned = commands.run("plan", town, *asked)
    assert planned.exit_code == 0, planned.stderr
    spent = commands.answered("plan", town, *asked)
    block, tract = (commands.number(spent, "rho", table=name) for name in ("block", "tract"))
    shares = re.fullmatch(
        r"rho ([\d.]+) in all: ([\d.]+) at the block and ([\d.]+) at the tract", spent["attributes"]["budget"]
    )
    assert shares is not None
    assert [float(one) for one in shares.groups()] == pytest.approx([block + tract, block, tract], rel=1e-3)
    assert spent["attributes"]["budget"] in commands.printed("plan", town, *asked).replace("\n", " ")
    (line,) = (line for line in planned.stdout.splitlines() if "adversary tables" in line)
    assert commands.run(*line.partition("adversary ")[2].split(), "--counts", "renters").exit_code == 0
    refused = commands.run("audit", town)
    assert (refused.exit_code, f"adversary tables {town} --table" in refused.stderr) == (2, True)


def test_two_plans_of_tables_are_compared_by_risk_and_error(tmp_path: Path) -> None:
    text = (DATA / "districts.toml").read_text(encoding="utf-8").replace('"districts.csv"', f'"{DISTRICTS}"')
    texts = {"A": text, "B": text.replace("rho = 0.3 ", "rho = 0.075 ")}
    titled = {name: one.replace("Districts by age and sex", f"Plan {name}") for name, one in texts.items()}
    paths = [commands.written(f"{name}.toml", tmp_path, one) for name, one in titled.items()]
    shown = commands.flat(commands.run("compare", *paths).stdout)
    said = r"Plan B lowers the highest risk from ([\d.]+)% to ([\d.]+)%, at the price of errors of 2.6 instead of "
    (ends,) = re.findall(said + "1.3 people in district: age x sex", shown)
    answers = [commands.number(commands.answered("tables", path), "worst") for path in paths]
    assert [float(end) for end in ends] == pytest.approx([100.0 * one for one in answers], abs=0.6)
    found = commands.answered("compare", *paths)
    assert commands.numbers(found, "posterior_mean") == answers
    mixed = commands.run("compare", paths[0], str(DATA / "dare_1940.toml"))
    assert (mixed.exit_code, "must be of one kind" in mixed.stderr) == (2, True)
    engine = commands.run("compare", *paths, "--engine", "mcmc")
    assert (engine.exit_code, "--engine goes with two scenarios" in engine.stderr) == (2, True)


def test_a_comparison_says_where_adversaries_or_tables_differ(tmp_path: Path) -> None:
    text = f'[data]\nfile = "{DISTRICTS}"\n[[table]]\nof = "district: age"\nrho = 0.3\n[adversary]\nprior = 0.1\n'
    texts = {"a": text, "b": text.replace("0.1", "0.5"), "c": text.replace("district: age", "district: sex")}
    a, b, c = (commands.written(f"{name}.toml", tmp_path, one) for name, one in texts.items())
    priors = "The priors differ, 10% and 50%: the risks differ by that too."
    tables = "No table is in both files: the risks may be those of different people."
    for second, said in ((b, (True, False)), (c, (False, True))):
        shown = commands.flat(commands.run("compare", a, second).stdout)
        assert (priors in shown, tables in shown) == said


def test_a_plan_refuses_noise_and_names_the_tables_it_wants() -> None:
    asked = ("plan", DISTRICTS, "--profile", str(DATA / "survey_profile.toml"))
    noise: tuple[tuple[tuple[str, ...], str], ...] = (
        ((), 'give the tables to plan, such as --table "district: age x sex", or --levels'),
        (("--table", "district: age, rho 0.1"), "plan chooses the noise: after a comma, one weight alone"),
        (("--table", "district: age, weight 2, weight 3"), "plan chooses the noise: after a comma, one weight alone"),
    )
    for options, words in noise:
        refused = commands.run(*asked, *options)
        assert (refused.exit_code, refused.stdout, words in refused.stderr) == (2, "", True)
    close, spaced = (
        commands.numbers(commands.answered(*asked, "--table", one, "--table", "country: sex"), "rho")
        for one in ("district: age,weight 2", "district: age, weight 2")
    )
    assert close == spaced


def test_households_and_last_year_are_read_by_name(tmp_path: Path) -> None:
    """The largest household of a cell is known but one; last year's counts are expected in the cells of their names."""
    homes = ["A,1,old,m", "A,1,old,m", "A,1,old,m", "A,2,young,m", "B,3,old,f", "B,4,old,f"]
    commands.written("people.csv", tmp_path, "area,home,age,sex\n" + "\n".join(homes) + "\n")
    commands.written("last.csv", tmp_path, "area,age,sex,n\nB,old,f,4\nA,young,m,1\n A ,Old,m,2\n")
    data = '[data]\nfile = "people.csv"\npeople = true\n'
    asked = data + '[[table]]\nof = "area: age x sex"\nrho = 0.3\n[adversary]\nprior = 0.1\n'
    found = {}
    for name, rest in (
        ("nobody", 'knows = "nobody"\n'),
        ("household", 'knows = "household home"\n'),
        ("last", 'knows = "nobody"\nlast_year = "last.csv"\n'),
    ):
        answer = commands.answered("tables", commands.written(f"{name}.toml", tmp_path, asked + rest))
        labels = zip(*(commands.numbers(answer, f"column_{one}") for one in ("area", "age", "sex")), strict=True)
        found[name] = dict(zip(labels, commands.numbers(answer, "posterior_mean"), strict=True))
        found[f"{name} words"] = answer["attributes"]["adversary"]
    over = commands.answered("tables", str(tmp_path / "household.toml"), "--knows", "everybody")["attributes"]
    assert (over["knows"], over["adversary"]) == ("everybody", "The adversary knows everybody else.")
    mine = ("A", "old", "m")
    assert found["household"][mine] != pytest.approx(found["nobody"][mine], rel=1e-3)
    assert "the largest household of each cell" in found["household words"]
    assert found["household"]["B", "old", "f"] == pytest.approx(found["nobody"]["B", "old", "f"], rel=1e-2)
    assert "they expect the given counts" in found["last words"]
    noise = adv.DiscreteGaussian.from_rho(0.3)
    table = [adv.PublishedTable(["area", "age", "sex"], noise)]
    people = population(pd.read_csv(tmp_path / "people.csv", dtype=str), table, people=True)
    expected = np.full(people.counts.shape, 0.5)
    for area, age, sex, count in (("B", "old", "f", 4), ("A", "young", "m", 1), ("A", "old", "m", 2)):
        at = [[*one.labels[:, 0]].index(w) for one, w in zip(people.axes, (area, age, sex), strict=True)]
        expected[tuple(at)] += count
    risks = adv.audit_tables(people, table, adv.TableAdversary(0.1, "nobody", expected), rng=1)
    own = risks.set_index(["area", "age", "sex"])["posterior_mean"]
    assert found["last"][mine] == pytest.approx(own[mine], rel=0.02)


def test_suppressed_counts_are_shown_as_what_they_may_be(tmp_path: Path) -> None:
    file = commands.written("few.csv", tmp_path, "area,n\nA,<5\nB,7\n")
    asked = ("tables", file, "--table", "area: total, rho 1")
    shown = commands.flat(commands.run(*asked).stdout)
    assert " A 0 to 4 " in shown
    assert " B 7 " in shown
    assert "People: 7 to 11, as 1 count is suppressed." in shown
    assert "to 4" not in commands.run(*asked, "--suppressed", "leave out").stdout


def test_margins_alone_are_no_proof_of_safety() -> None:
    """One table tells something; a second one of other columns would seem to tell less, to who knows nothing else."""
    tables = ("--table", "district: sex, rho 0.3", "--table", "all: age, rho 0.3", "--prior", "0.1")
    refused = commands.run("tables", DISTRICTS, *tables)
    assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "do not tell the count of 60 of 60 cells of district, sex, age" in refused.stderr
    assert "--knows everybody" in refused.stderr
    single = commands.answered("tables", DISTRICTS, *tables[:2], "--prior", "0.1", "--knows", "everybody")
    both = commands.answered("tables", DISTRICTS, *tables, "--knows", "everybody")
    assert commands.number(both, "worst") > commands.number(single, "worst") > 0.1


def test_people_who_came_and_went_between_two_files(tmp_path: Path) -> None:
    """Who was there before is told of twice, who came is told of once; the bound is that of both releases."""
    now = commands.written("now.csv", tmp_path, "area,sex,n\nA,f,3\nA,m,1\nB,f,2\nB,m,0\n")
    then = commands.written("then.csv", tmp_path, "area,sex,n\n a,F,5\nC,f,9\nB,m,4\n")
    asked = ("tables", now, "--table", "area: sex, rho 0.3", "--prior", "0.1", "--before", then)
    refused = commands.run(*asked)
    assert (refused.exit_code, "--knows everybody" in refused.stderr) == (2, True)
    found = commands.answered(*asked, "--knows", "everybody")
    labels = zip(commands.numbers(found, "column_area"), commands.numbers(found, "column_sex"), strict=True)
    people = dict(zip(labels, range(4), strict=True))
    risk, before = commands.numbers(found, "posterior_mean"), commands.numbers(found, "before")
    loss = adv.DiscreteGaussian.from_rho(0.3).privacy_loss()
    once, twice = (one.posterior(0.1).mean("in") for one in (loss, 2 * loss))
    assert [before[people[one]] for one in (("A", "f"), ("A", "m"), ("B", "f"), ("B", "m"))] == [5, 0, 0, 4]
    assert risk[people["A", "f"]] == pytest.approx(twice, rel=1e-9)
    assert risk[people["A", "m"]] == pytest.approx(once, rel=1e-9)
    assert risk[people["B", "f"]] == pytest.approx(once, rel=1e-9)
    assert commands.number(found, "bound", group="summary") == pytest.approx((2 * loss).posterior_bounds(0.1, 0.05)[1])
    assert "rho 0.6 in all" in found["attributes"]["understood"][-1]
    assert "taken to be in both releases: at most 3 people are" in found["warnings"][-1]
    keys = commands.run(*asked[:2], "--table", "area: sex, random rounding 3", *asked[4:], "--knows", "everybody")
    assert (keys.exit_code, "noise must be additive" in keys.stderr) == (2, True)
