"""`adversary table`: bad counts are one line with the file, the line, the column, the rule and the value."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import adversary as adv
from adversary.report.files import load_table_data
from adversary.report.kit import Figure
from tests import commands
from tests.tables import DATA

HEAD = "block,tract,renters\n"
ASKED = ("--rho", "0.1", "--levels", "block,tract")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty: its first line must name the columns"),
        (HEAD, "the table is empty: it must have a row for each unit"),
        (HEAD + "1,A,3\n2,A,-1\n", "line 3: column 'renters': must be a whole number >= 0, got '-1'"),
        (HEAD + "1,A,3\n\n2,A,1.5\n", "line 4: column 'renters': must be a whole number >= 0, got '1.5'"),
        (HEAD + "1,A,3\n1,A,4\n", "line 3: must be another unit than line 2, got block '1', tract 'A' again"),
        (HEAD + "1,A,3\n2,,4\n", "line 3: column 'tract': must name a unit, got nothing: block '2' has no parent"),
        (HEAD + "1,A\n", "line 2: must have a cell for each of 3 columns, got 2"),
        ("block,renters\n1,3\n", "column 'tract' is missing; there are block, renters"),
        (
            HEAD + "1,T,3\n2,T ,4\n",
            "line 3: column 'tract': must be written as in line 2, from which it",
        ),
        (HEAD + "1,T a,3\n1 ,T\u00a0a,4\n", "line 3: column 'block': must be written as in line 2"),
    ],
)
def test_a_bad_table_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_text(text, encoding="utf-8")
    result = commands.run("table", str(file), *ASKED)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {file}: {words}")
    assert result.stderr.count("\n") == 1


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "counts.csv"
    file.write_bytes(b"\xef\xbb\xbf" + (HEAD + "1,A,3\n2,A,0\n").encode())
    assert list(load_table_data(file)[0].columns) == ["block", "tract", "renters"]


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
    ],
)
def test_budgets_that_do_not_fit_the_levels_are_refused(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    answer = commands.run("table", str(tmp_path / "counts.csv"), *options)
    assert (answer.exit_code, answer.stderr.count("\n")) == (2, 1)
    assert words in answer.stderr


def test_cells_of_the_same_risk_share_their_rank_and_the_headline(tmp_path: Path, monkeypatch: Any) -> None:
    """Noise of one level hides every occupied cell alike: none of them is called the worst."""
    monkeypatch.setattr(Figure, "svg", "")
    lines = "".join(f"{i},{i},{i % 3},0\n" for i in range(1, 19))
    counts = commands.written("thirty.csv", tmp_path, "block,a,b,c\n" + lines)
    asked = ("table", counts, "--rho", "0.3", "--levels", "block", "--out", str(tmp_path / "out"))
    shown = commands.flat(commands.run(*asked).stdout.replace("\u00a0", " "))
    mean = 100.0 * adv.DiscreteGaussian.from_rho(0.3).privacy_loss().posterior(0.5).mean("in")
    assert "The largest risk is the same in all 30 occupied cells: from 50 % before" in shown
    assert f"before the release to {mean:.2f} % on average after it" in shown
    assert "20 of the 30 that share the first are listed" in shown
    with (tmp_path / "out/cells.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == ["1="] * 30 + ["31="] * 24


def test_the_bound_of_a_table_says_how_it_may_fail_and_a_certain_one_does_not(tmp_path: Path) -> None:
    counts = commands.written("one.csv", tmp_path, "block,a\n1,3\n")
    for noise, chance in (("--rho", "5 %"), ("--epsilon", "")):
        shown = commands.flat(commands.printed("table", counts, noise, "0.3", "--levels", "block"))
        assert ("The bound holds in all but 5 % of releases." in shown) is bool(chance)
        loss = adv.DiscreteGaussian.from_rho(0.3).privacy_loss() if chance else adv.PureDP(0.3)
        most = 100.0 * loss.posterior_bounds(0.5, 0.05 if chance else 0.0)[1]
        (bound,) = re.findall(r"at most, by the plan's own loss: ([\d.]+) %", shown)
        assert most * (1.0 - 1e-12) <= float(bound) <= most + 0.01


def test_a_plan_for_a_profile_says_whom_that_is_not_about(tmp_path: Path) -> None:
    rare = 'inclusion = ["1/100000", "1/2000"]\nvalue = 1\n'
    text = f'failure = 0.01\n[profile]\nkind = "ratio or absolute"\nratio = 1\nabsolute = 0.05\n{rare}'
    profile = commands.written("rare.toml", tmp_path, text)
    asked = ("plan", str(DATA / "town_counts.csv"), "--profile", profile, "--levels", "block,tract")
    loss = commands.number(commands.answered(*asked), "loss")
    shown = commands.flat(commands.printed(*asked))
    (most,) = re.findall(r"one who gives 1 % .* who may come to as much as ([\d.]+) %, but for probability 1 %", shown)
    exact = 100.0 * adv.PureDP(loss).posterior_bounds(0.01)[1]
    assert exact <= float(most) <= exact + 0.01


def test_one_cell_of_the_largest_risk_is_named(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(Figure, "svg", "")
    counts = commands.written("few.csv", tmp_path, "block,tract,a\n1,A,1\n2,A,0\n3,B,1\n4,C,1\n5,C,1\n")
    asked = ("table", counts, "--rho", "0.6", "--levels", "block,tract", "--out", str(tmp_path / "out"))
    shown = commands.flat(commands.run(*asked).stdout.replace("\u00a0", " "))
    with (tmp_path / "out/cells.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows][:2] == ["1", "2="]
    assert f"The largest risk is in block {rows[0]['block']}, a: from 50 %" in shown


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        (("--rho", "0.1", "--levels", "block,group,tract"), "rho 0.1 in all: 0.03333 at each of 3 levels"),
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
    asked = ("table", str(DATA / "town_counts.csv"), *options, "--cells", "renters", "--out", str(tmp_path))
    assert f"The budget is {budget}." in commands.flat(commands.run(*asked).stdout)
    assert f"The budget is {budget}." in commands.flat((tmp_path / "report.html").read_text(encoding="utf-8"))
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
    block, tract = (commands.number(spent, "rho", level=name) for name in ("block", "tract"))
    shares = re.fullmatch(
        r"rho ([\d.]+) in all: ([\d.]+) at the block and ([\d.]+) at the tract", spent["attributes"]["budget"]
    )
    assert shares is not None
    assert [float(one) for one in shares.groups()] == pytest.approx([block + tract, block, tract], rel=1e-3)
    assert spent["attributes"]["budget"] in commands.flat(planned.stdout)
    (line,) = (line for line in planned.stdout.splitlines() if "adversary table" in line)
    assert commands.run(*line.partition("adversary ")[2].split(), "--cells", "renters").exit_code == 0
    refused = commands.run("audit", town)
    assert (refused.exit_code, f"adversary table {town} --rho" in refused.stderr) == (2, True)
