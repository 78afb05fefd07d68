"""`adversary census`: prices in exact fractions, certified powers, what the paper printed."""

from fractions import Fraction
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import adversary as adv
from tests import commands
from tests.commands import number, numbers

census = adv.census
PATH = str(Path(__file__).parents[2] / "data" / "census2020_dhc_path_1.csv")


answered = cache(partial(commands.answered, "census"))
printed = partial(commands.printed, "census")


def allocation(folder: Path, *rows: str) -> str:
    path = folder / "allocation.csv"
    path.write_text("\n".join(rows), encoding="utf-8")
    return str(path)


def test_without_a_name_all_scenarios_are_listed() -> None:
    answer = answered("scenario")
    assert [one["scenario"] for one in answer["records"] if one["quantity"] == "rho"] == list("ABCDEFGH")
    for name in "ABCDEFGH":
        made = census.scenario(name)
        assert Fraction(number(answer, "rho_exact", scenario=name)) == made.rho
        assert number(answer, "rho", scenario=name) == float(made.rho)
        assert number(answer, "concern", scenario=name) == made.concern
        assert number(answer, "queries", scenario=name) == len(made.queries)
        assert Fraction(str(number(answer, "rho_printed", scenario=name))) == made.published_rho
    text = printed("scenario")
    for part in ("race and block within the tract", "1.379", "1.32", "The printed rho of C, D, E, F, G, H is less"):
        assert part in text


@pytest.mark.parametrize("name", ["A", "c"])
def test_the_records_agree_with_the_library(name: str) -> None:
    answer, made = answered("scenario", name), census.scenario(name)
    rho = float(made.rho)
    gaussian, concentrated = adv.GaussianDP(np.sqrt(2 * rho)), adv.ZeroConcentratedDP(rho)
    assert number(answer, "queries") == len(made.queries)
    assert number(answer, "cells", group="scenarios") == 2 * len(made.queries)
    assert Fraction(number(answer, "rho_exact")) == made.rho == Fraction(answer["attributes"]["rho"])
    prices, cells = numbers(answer, "rho_star"), numbers(answer, "cells", group="queries")
    assert sum(Fraction(price) * n / 2 for price, n in zip(prices, cells, strict=True)) == made.rho
    counted = zip(numbers(answer, "level"), numbers(answer, "name"), strict=True)
    assert list(counted) == [tuple(query[:2]) for query in made.queries]
    for level in (0.01, 0.05, 0.1):
        low, high = (number(answer, "power", level=level, direction=side) for side in ("lower", "upper"))
        np.testing.assert_allclose((low, high), made.loss.bracket.power(level), rtol=1e-10)
        assert low <= high < number(answer, "zcdp_power", level=level)
        assert number(answer, "gaussian_power", level=level) == pytest.approx(gaussian.power(level), rel=1e-14)
        assert number(answer, "zcdp_power", level=level) == pytest.approx(concentrated.power(level), rel=1e-12)
    for delta in (1e-6, 1e-10):
        assert number(answer, "epsilon", delta=delta) == pytest.approx(made.loss.epsilon(delta), rel=1e-12)
        assert number(answer, "zcdp_epsilon", delta=delta) == concentrated.epsilon(delta)
        assert number(answer, "simple_epsilon", delta=delta) == adv.definitions.simple_epsilon(rho, delta)


def test_beliefs_are_those_of_the_exact_composition(tmp_path: Path) -> None:
    path = allocation(tmp_path, "state,county", "1/2,1/4")
    answer, loss = answered("dhc", path, "--prior", "1/10", "--failure", "0.1"), census.dhc(path).loss
    assert (answer["attributes"]["failure"], number(answer, "loss_bound")) == (0.1, loss.loss_bound(0.1))
    assert tuple(numbers(answer, "posterior", prior=0.1)) == loss.posterior_bounds(0.1, 0.1)
    assert tuple(numbers(answer, "ratio", group="any_prior")) == loss.ratio_bounds(failure=0.1)


def test_the_powers_of_the_paper_are_there() -> None:
    exact = np.reshape(numbers(answered("scenario", "A"), "power"), (3, 2))
    np.testing.assert_allclose(exact, np.repeat([[0.0318611729], [0.1204734520], [0.2091651982]], 2, 1), atol=1e-9)
    assert "12.1%" in printed("scenario", "A")


def test_the_printed_rho_is_shown_only_where_it_is_not_the_sum() -> None:
    assert "The paper prints" not in printed("scenario", "A")
    assert "rho = 0.112." in printed("scenario", "A")
    text = commands.flat(printed("scenario", "c"))
    assert "The paper prints rho = 0.952, 0.0583 less than the sum of its own tables" in text
    assert "rho = 1.01." in text


def test_levels_and_priors_can_be_chosen() -> None:
    answer = answered("scenario", "B", "--level", "0.2", "--prior", "0", "--prior", "1/3")
    labels = {name: {one[name] for one in answer["records"] if name in one} for name in ("level", "prior")}
    assert labels == {"level": {0.2}, "prior": {0.0, 1 / 3}}
    assert numbers(answer, "posterior", prior=0.0) == [0.0, 0.0]


@pytest.mark.parametrize("cells", [1, 4])
def test_the_number_of_changed_cells_scales_the_price(cells: int) -> None:
    listed = answered("scenario", "--cells", str(cells))
    for name in "ABCDEFGH":
        assert Fraction(number(listed, "rho_exact", scenario=name)) == census.scenario(name).rho * cells / 2
        assert number(listed, "rho_printed", scenario=name) is None
    assert "The printed rho" not in printed("scenario", "--cells", str(cells))


def test_the_whole_release_has_71_queries() -> None:
    answer = answered("release")
    assert (number(answer, "queries"), number(answer, "cells", group="scenarios")) == (71, 142)
    assert number(answer, "rho_exact") == "263/100"
    assert numbers(answer, "power", level=0.05) == pytest.approx([0.7417064885] * 2, abs=2e-9)


def test_a_path_of_the_dhc_release() -> None:
    answer = answered("dhc", PATH)
    assert (number(answer, "queries"), number(answer, "cells", group="scenarios")) == (70, 140)
    assert number(answer, "rho_exact") == "24811/5000"
    assert number(answer, "epsilon", delta=1e-10) == pytest.approx(24.4564939561, abs=1e-10)
    assert number(answer, "rho_printed") is None
    assert "query 10" in printed("dhc", PATH)


def test_an_allocation_without_budget_reveals_nothing(tmp_path: Path) -> None:
    path = allocation(tmp_path, "state,county", "0/1,0")
    answer = answered("dhc", path)
    assert (number(answer, "queries"), answer["attributes"]["failure"], number(answer, "loss_bound")) == (0, 0.0, 0.0)
    for level in (0.01, 0.05, 0.1):
        assert numbers(answer, "power", level=level) == pytest.approx([level] * 2, rel=1e-14)
    assert [number(answer, "epsilon", delta=delta) for delta in (1e-6, 1e-10)] == [0.0, 0.0]
    assert "0 queries are counted" in printed("dhc", path)


def test_what_is_refused(tmp_path: Path) -> None:
    ragged = allocation(tmp_path, "state,county", "1/2")
    for arguments, words in (
        (["scenario", "Z"], "scenario must be one of A, B, C, D, E, F, G, H, got 'Z'"),
        (["scenario", ""], "scenario must be one of A, B, C"),
        (["scenario", "A", "--cells", "0"], "cells must be at least 1, got 0"),
        (["scenario", "A", "--level", "1.5"], "level must be in [0, 1], got 1.5"),
        (["scenario", "A", "--prior", "-1"], "prior must be in [0, 1], got -1.0"),
        (["scenario", "A", "--failure", "nan"], "failure must be in [0, 1], got nan"),
        (["dhc", "nowhere.csv"], "nowhere.csv: No such file"),
        (["dhc", str(tmp_path)], "must be a file, got a folder"),
        (["dhc", ragged], f"{ragged}: row 1 must have 2 entries, got 1"),
    ):
        commands.refused(tmp_path, "census", *arguments, words=words)
