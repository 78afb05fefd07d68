"""`adversary bounds`: the numbers of the library as records; which bounds a guarantee has, and which it has not."""

import math
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import adversary as adv
from adversary.privacy.definitions import moments
from adversary.report.answers import bounds_answer
from adversary.report.kit.figure_files import figure_of
from adversary.report.plot import guarantee_figures
from tests import commands
from tests.commands import number, numbers

KINDS = {
    "pure DP": (("--epsilon", "1"), adv.PureDP(1.0)),
    "approximate DP": (("--epsilon", "1", "--delta", "1e-6"), adv.ApproximateDP(1.0, 1e-6)),
    "zCDP": (("--rho", "2.63"), adv.ZeroConcentratedDP(2.63)),
    "Gaussian DP": (("--mu", "1/2"), adv.GaussianDP(0.5)),
}


@pytest.fixture(scope="module", autouse=True)
def each_trade_off_of_zcdp_is_worked_out_once() -> Iterator[None]:
    """Questions that differ elsewhere, and the library beside them, share the powers at the same levels."""
    known, odds = {}, moments.log_odds_of_every_order

    def remembered(log_level: Any, log_rest: Any, rho: float) -> Any:
        asked = log_level.tobytes(), log_rest.tobytes(), rho
        if asked not in known:
            known[asked] = odds(log_level, log_rest, rho)
        return known[asked].copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "log_odds_of_every_order", remembered)
        yield


answered = cache(partial(commands.answered, "bounds"))
printed = cache(partial(commands.printed, "bounds"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_agree_with_the_library(kind: str) -> None:
    arguments, guarantee = KINDS[kind]
    answer = answered(*arguments, "--prior", "0.1", "--prior", "1/864", "--failure", "0.02")
    failure = 0.0 if kind == "pure DP" else 0.02
    assert (answer["attributes"]["definition"], answer["attributes"]["failure"]) == (kind, failure)
    assert number(answer, "loss_bound") == guarantee.loss_bound(failure)
    for prior in (0.1, 1 / 864):
        assert tuple(numbers(answer, "posterior", prior=prior)) == guarantee.posterior_bounds(prior, failure)
        assert tuple(numbers(answer, "ratio", prior=prior)) == guarantee.ratio_bounds(prior, failure)
        assert tuple(numbers(answer, "difference", prior=prior)) == guarantee.difference_bounds(prior, failure)
        assert number(answer, "largest_f1", prior=prior) == pytest.approx(guarantee.f_score(prior), rel=1e-14)
    assert tuple(numbers(answer, "ratio", group="any_prior")) == guarantee.ratio_bounds(failure=failure)
    assert tuple(numbers(answer, "difference", group="any_prior")) == guarantee.difference_bounds(failure=failure)
    for level in (0.01, 0.05, 0.1):
        assert number(answer, "power", level=level) == pytest.approx(guarantee.power(level), rel=1e-14)
    assert (number(answer, "advantage"), number(answer, "auc")) == (guarantee.advantage, guarantee.auc)
    assert answer["attributes"]["pbdp_delta"] == 0.02
    assert number(answer, "pbdp_epsilon") == guarantee.pbdp_epsilon(0.02)
    for delta in (1e-6, 1e-10):
        epsilon = guarantee.epsilon(delta)
        assert number(answer, "epsilon", delta=delta) == (epsilon if np.isfinite(epsilon) else None)


@pytest.mark.parametrize(
    ("arguments", "rho"),
    [
        (["--epsilon", "2"], 2.0 * math.tanh(1.0)),
        (["--mu", "2"], 2.0),
        (["--rho", "2"], 2.0),
        (["--epsilon", "2", "--delta", "0.1"], None),
    ],
)
def test_the_zcdp_that_follows_is_given_where_there_is_one(arguments: list[str], rho: float | None) -> None:
    found = [one["value"] for one in answered(*arguments)["records"] if one["quantity"] == "zcdp_rho"]
    assert found == ([pytest.approx(rho)] if rho else [])
    assert ("zCDP it implies" in printed(*arguments)) == (rho is not None)


def test_only_zcdp_has_a_published_simple_epsilon() -> None:
    assert "simple_epsilon" not in {one["quantity"] for one in answered("--mu", "1")["records"]}
    assert "epsilon (simple)" in printed("--rho", "1")


@pytest.mark.parametrize("arguments", [["--rho", "1"], ["--mu", "1"], ["--epsilon", "1"]])
def test_delta_adds_a_row_or_makes_epsilon_approximate(arguments: list[str]) -> None:
    def deltas(*more: str) -> list[float]:
        records = answered(*arguments, *more)["records"]
        return [one["delta"] for one in records if one["quantity"] == "epsilon"]

    assert deltas() == [1e-6, 1e-10]
    assert deltas("--delta", "1e-8") == [1e-6, 1e-8, 1e-10]
    definition = answered(*arguments, "--delta", "1e-8")["attributes"]["definition"]
    assert (definition == "approximate DP") == (arguments[0] == "--epsilon")


def test_what_nothing_bounds_is_null_in_json_and_unlimited_on_screen() -> None:
    arguments = ("--epsilon", "1", "--delta", "0.2")
    answer, text = answered(*arguments), printed(*arguments)
    assert number(answer, "loss_bound") is None
    assert numbers(answer, "ratio", group="any_prior") == [0.0, None]
    assert numbers(answer, "posterior", prior=0.01) == [0.0, 1.0]
    assert [number(answer, "epsilon", delta=delta) for delta in (0.2, 1e-6, 1e-10)] == [1.0, None, None]
    assert text.count("unlimited") == 7
    assert "at most unlimited" not in text


def test_the_epsilon_on_the_card_is_that_of_the_delta_asked_for() -> None:
    shown = [printed("--rho", "1", *more) for more in ((), ("--delta", "0.001"))]
    assert ["epsilon at delta = 1e-10:" in text for text in shown] == [True, False]
    assert "epsilon at delta = 0.001: at most 5.42" in shown[1]


def test_bounds_are_certain_where_they_can_be() -> None:
    assert "For certain, no adversary's probability moves by more than" in printed("--epsilon", "1")
    assert "Except with probability 5%, a prior of" in printed("--rho", "1")
    assert number(answered("--rho", "1", "--failure", "0"), "loss_bound") is None


@pytest.mark.slow_cases("--rho 1e-12")
@pytest.mark.parametrize(
    "arguments",
    [
        ["--rho", "0"],
        ["--epsilon", "0"],
        ["--mu", "0"],
        ["--epsilon", "800"],
        ["--mu", "40"],
        ["--rho", "1000"],
        ["--rho", "1e-12"],
        ["--rho", "1", "--prior", "0", "--prior", "1", "--level", "0", "--level", "1", "--failure", "1"],
    ],
    ids=" ".join,
)
def test_the_ends_of_every_range_are_answered(arguments: list[str]) -> None:
    answer = answered(*arguments)
    assert "e-16" not in printed(*arguments).split("Tests")[0]
    for one in answer["records"]:
        if one["quantity"] == "posterior" and one["side"] == "lower":
            assert 0 <= one["value"] <= one["prior"] * (1 + 1e-15)
        elif one["quantity"] == "posterior":
            assert one["prior"] * (1 - 1e-15) <= one["value"] <= 1
        elif one["quantity"] == "power":
            assert one["level"] * (1 - 1e-14) <= one["value"] <= 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give exactly one of --epsilon, --rho and --mu, got none"),
        (["--delta", "1e-6"], "give exactly one of --epsilon, --rho and --mu, got none"),
        (["--rho", "1", "--mu", "1"], "give exactly one of --epsilon, --rho and --mu, got --rho and --mu"),
        (["--epsilon", "-1"], "epsilon must be non-negative and finite, got -1.0"),
        (["--rho", "nan"], "rho must be non-negative and finite, got nan"),
        (["--mu", "inf"], "mu must be non-negative and finite, got inf"),
        (["--rho", "two"], "--rho must be a number such as 0.1 or 1/864, got 'two'"),
        (["--rho", "1/0"], "--rho must be a number such as 0.1 or 1/864, got '1/0'"),
        (["--epsilon", "1", "--delta", "1"], "delta must be in (0, 1), got 1.0"),
        (["--epsilon", "1", "--delta", "0"], "delta must be in (0, 1), got 0.0"),
        (["--rho", "1", "--delta", "-0.1"], "delta must be in [0, 1], got -0.1"),
        (["--rho", "1", "--prior", "0.5", "--prior", "2"], "prior must be in [0, 1], got 2.0"),
        (["--rho", "1", "--prior", "1/2/3"], "--prior must be a number such as 0.1 or 1/864, got '1/2/3'"),
        (["--rho", "1", "--level", "1.5"], "level must be in [0, 1], got 1.5"),
        (["--rho", "1", "--failure", "nan"], "failure must be in [0, 1], got nan"),
        (["--epsilon", "1", "--failure", "2"], "failure must be in [0, 1], got 2.0"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, tmp_path: Path) -> None:
    commands.refused(tmp_path, "bounds", *arguments, words=words)


@pytest.mark.parametrize(
    ("arguments", "more"),
    [(["--rho", "2"], True), (["--mu", "1"], True), (["--mu", "0"], False), (["--epsilon", "1"], False)],
)
def test_epsilon_is_drawn_by_delta_where_it_changes_with_it(arguments: list[str], more: bool) -> None:
    assert ("epsilon_by_delta.svg" in printed(*arguments, "--format", "md")) == more


@pytest.mark.parametrize("failure", [0.0, 0.05])
def test_the_figure_of_posteriors_draws_the_bounds(failure: float) -> None:
    guarantee = adv.ZeroConcentratedDP(0.1)
    figure = figure_of(
        guarantee_figures.posterior_by_prior(*bounds_answer.certain(guarantee, failure), [0.0, 0.1, 1.0])
    )
    (ax,) = figure.axes
    lines = {line.get_gid(): line for line in ax.lines}
    low, high = guarantee.posterior_bounds(expit(np.asarray(lines["highest"].get_xdata())), failure)
    ends = (1e-6, 1.0 - 1e-6)
    for name, end in (("lowest", low), ("highest", high)):
        np.testing.assert_allclose(expit(lines[name].get_ydata()), np.clip(end, *ends), rtol=1e-9)
    found = "3.11% to 27.8%" if failure else "0% to 100%"
    assert figure.get_suptitle().replace("\u00a0", " ") == f"A prior of 10% may become {found}"


def test_the_usual_choices_are_those_in_the_help() -> None:
    text = " ".join(commands.run("bounds", "--help").stdout.split())
    for values in (bounds_answer.PRIORS, bounds_answer.LEVELS):
        assert ", ".join(f"{value:g}" for value in values) in text


def test_a_rho_near_the_largest_double_is_answered() -> None:
    answer = commands.run("bounds", "--rho", "1e308", "--full")
    assert answer.exit_code == 0
    assert "100 percentage points" in answer.stdout


def test_the_success_of_any_attack_from_its_baseline() -> None:
    asked = ("bounds", "--rho", "2.63", "--baseline", "0.01", "--baseline", "1/40")
    found = commands.answered(*asked)
    assert commands.number(found, "success", baseline=0.01) == pytest.approx(0.69816, abs=1e-5)
    assert commands.number(found, "advantage", baseline=0.025) == pytest.approx(0.83372 - 0.025, abs=1e-4)
    shown = commands.flat(commands.printed(*asked))
    assert "An attack that succeeds in 2.5% of cases without the release succeeds in at most 83.4% with it." in shown
    refused = commands.run("bounds", "--rho", "1", "--baseline", "2")
    assert (refused.exit_code, refused.stderr) == (2, "error: --baseline must be in [0, 1], got 2.0\n")
