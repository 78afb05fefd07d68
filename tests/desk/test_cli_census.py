"""`adversary census`: prices in exact fractions, certified powers beside the shortcuts, what the paper printed."""

import re
from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from adversary.desk.answers import census_tables
from tests import commands

census = adv.census
PATH = str(Path(__file__).parents[2] / "data" / "census2020_dhc_path_1.csv")


run = cache(partial(commands.run, "census"))
answered = cache(partial(commands.answered, "census"))
printed = partial(commands.printed, "census")


def allocation(folder: Path, *rows: str) -> str:
    path = folder / "allocation.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return str(path)


def test_without_a_name_all_scenarios_are_listed() -> None:
    answer = answered("scenario")
    assert list(answer) == list("ABCDEFGH")
    for name, one in answer.items():
        made = census.scenario(name)
        assert Fraction(one["rho"]["exact"]) == made.rho
        assert one["rho"]["value"] == float(made.rho)
        assert (one["concern"], one["queries"]) == (made.concern, len(made.queries))
        assert Fraction(str(one["rho_printed"])) == made.published_rho
    text = printed("scenario")
    for part in ("race and block within the tract", "1.378684", "1.32", "Those of C, D, E, F, G, H fall short"):
        assert part in text


@pytest.mark.parametrize("name", ["A", "c"])
def test_the_json_agrees_with_the_library(name: str) -> None:
    answer, made = answered("scenario", name), census.scenario(name)
    rho = float(made.rho)
    gaussian, concentrated = adv.GaussianDP(np.sqrt(2 * rho)), adv.ZeroConcentratedDP(rho)
    assert (answer["name"], answer["queries"], answer["cells"]) == (made.name, len(made.queries), 2 * len(made.queries))
    assert Fraction(answer["rho"]["exact"]) == made.rho
    assert sum(Fraction(query["rho_star"]) * query["cells"] / 2 for query in answer["counted"]) == made.rho
    assert [(query["level"], query["query"]) for query in answer["counted"]] == [query[:2] for query in made.queries]
    for row in answer["power"]:
        low, high = made.loss.bracket.power(row["level"])
        np.testing.assert_allclose(row["exact"], [low, high], rtol=1e-10)
        assert row["exact"][0] <= row["exact"][1] < row["zcdp"]
        assert row["gaussian"] == pytest.approx(gaussian.power(row["level"]), rel=1e-14)
        assert row["zcdp"] == pytest.approx(concentrated.power(row["level"]), rel=1e-12)
    for row in answer["epsilon"]:
        assert row["exact"] == pytest.approx(made.loss.epsilon(row["delta"]), rel=1e-12)
        assert row["zcdp"] == concentrated.epsilon(row["delta"])
        assert row["zcdp_simple"] == adv.definitions.simple_epsilon(rho, row["delta"])
    assert [row["delta"] for row in answer["epsilon"]] == [1e-6, 1e-10]


def test_beliefs_are_those_of_the_exact_composition(tmp_path: Path) -> None:
    path = allocation(tmp_path, "state,county", "1/2,1/4")
    answer, loss = answered("dhc", path, "--prior", "1/10", "--failure", "0.1"), census.dhc_loss(path)
    assert (answer["failure"], answer["loss_bound"]) == (0.1, loss.loss_bound(0.1))
    assert tuple(answer["priors"][0]["posterior"]) == loss.posterior_bounds(0.1, 0.1)
    assert tuple(answer["any_prior"]["ratio"]) == loss.ratio_bounds(failure=0.1)


def test_the_powers_of_the_paper_are_there() -> None:
    exact = [row["exact"] for row in answered("scenario", "A")["power"]]
    np.testing.assert_allclose(exact, np.repeat([[0.0318611729], [0.1204734520], [0.2091651982]], 2, 1), atol=1e-9)


def test_certified_intervals_are_rounded_outward_and_narrow() -> None:
    rows = re.findall(r"^ *(?:1|5|10) % +([\d.]+) to ([\d.]+) % ", printed("scenario", "A"), re.MULTILINE)[:3]
    for shown, row in zip(rows, answered("scenario", "A")["power"], strict=True):
        low, high = (100 * end for end in row["exact"])
        assert float(shown[0]) <= low <= high <= float(shown[1])
        assert float(shown[1]) - float(shown[0]) < 1e-6 * high


def test_the_printed_rho_is_shown_only_where_it_is_not_the_sum() -> None:
    assert "printed" not in printed("scenario", "A")
    assert "rho = 37477407/336118000 = 0.1115007438" in printed("scenario", "A")
    text = printed("scenario", "c")
    assert "rho printed in the paper: 0.952, 0.058290 less than the sum of its own tables" in text
    assert "= 1.010290095" in text


def test_levels_and_priors_can_be_chosen() -> None:
    answer = answered("scenario", "B", "--level", "0.2", "--prior", "0", "--prior", "1/3")
    assert [row["level"] for row in answer["power"]] == [0.2]
    assert [row["prior"] for row in answer["priors"]] == [0.0, 1 / 3]
    assert answer["priors"][0]["posterior"] == [0.0, 0.0]


@pytest.mark.parametrize("cells", [1, 4])
def test_the_number_of_changed_cells_scales_the_price(cells: int) -> None:
    listed = answered("scenario", "--cells", str(cells))
    for name, one in listed.items():
        assert Fraction(one["rho"]["exact"]) == census.scenario(name).rho * cells / 2
        assert one["rho_printed"] is None
    assert "fall short" not in printed("scenario", "--cells", str(cells))


def test_the_whole_release_has_71_queries() -> None:
    answer = answered("release")
    assert (answer["queries"], answer["cells"], answer["rho"]["exact"]) == (71, 142, "263/100")
    assert answer["power"][1]["exact"] == pytest.approx([0.7417064885] * 2, abs=2e-9)
    assert "printed" not in printed("release")


def test_a_path_of_the_dhc_release() -> None:
    answer = answered("dhc", PATH)
    assert (answer["queries"], answer["cells"], answer["rho"]["exact"]) == (70, 140, "24811/5000")
    assert answer["epsilon"][1]["exact"] == pytest.approx(24.4564939561, abs=1e-10)
    assert answer["rho_printed"] is None
    assert "query 10" in printed("dhc", PATH)


def test_an_allocation_without_budget_tells_nothing(tmp_path: Path) -> None:
    path = allocation(tmp_path, "state,county", "0/1,0")
    answer = answered("dhc", path)
    assert (answer["queries"], answer["failure"], answer["loss_bound"]) == (0, 0.0, 0.0)
    for row in answer["power"]:
        assert row["exact"] == pytest.approx([row["level"]] * 2, rel=1e-14)
    assert [row["exact"] for row in answer["epsilon"]] == [0.0, 0.0]
    assert "0 queries counted" in printed("dhc", path)


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    ragged = allocation(tmp_path, "state,county", "1/2")
    before = sorted(tmp_path.iterdir())
    for arguments, words in (
        (["scenario", "Z"], "scenario must be one of A, B, C, D, E, F, G, H, got 'Z'"),
        (["scenario", ""], "scenario must be one of A, B, C"),
        (["scenario"], "--out needs the name of a scenario, one of A, B, C"),
        (["scenario", "A", "--cells", "0"], "cells must be at least 1, got 0"),
        (["scenario", "A", "--cells", "1.5"], "--cells must be a whole number, got '1.5'"),
        (["scenario", "A", "--level", "1.5"], "level must be in [0, 1], got 1.5"),
        (["scenario", "A", "--prior", "-1"], "prior must be in [0, 1], got -1.0"),
        (["scenario", "A", "--prior", "half"], "--prior must be a number such as 0.1 or 1/864, got 'half'"),
        (["scenario", "A", "--failure", "nan"], "failure must be in [0, 1], got nan"),
        (["release", "--cells", "none"], "--cells must be a whole number, got 'none'"),
        (["dhc", "nowhere.csv"], "nowhere.csv: No such file"),
        (["dhc", str(tmp_path)], "Is a directory"),
        (["dhc", ragged], f"{ragged}: row 1 must have 2 entries, got 1"),
    ):
        result = run(*arguments, "--out", str(tmp_path / "out" / "deep"))
        assert result.exit_code == 2, arguments
        assert result.stdout == ""
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
        assert words in result.stderr
        assert sorted(tmp_path.iterdir()) == before, arguments


def test_nothing_is_composed_before_the_arguments_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(census_tables, "_powers", lambda *_: pytest.fail("composed too early"))
    run.cache_clear()
    for arguments in (("--prior", "2"), ("--failure", "2"), ("--level", "2")):
        assert run("scenario", "B", *arguments).exit_code == 2


def test_out_writes_figures_and_no_more(tmp_path: Path) -> None:
    path, out = allocation(tmp_path, "state,county", "1/2,1/4"), tmp_path / "a" / "b"
    result = run("dhc", path, "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"figures in {out}\n"
    names = {
        f"{name}.{kind}" for name in ("trade_off", "epsilon_ladder", "posterior_by_prior") for kind in ("svg", "png")
    }
    assert {file.name for file in out.iterdir()} == names
