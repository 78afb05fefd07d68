"""`adversary bounds`: the library's own numbers, rounded outward on the screen; errors in one line; figures whole."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import adversary as adv
from adversary.desk.answers import bounds_answer, figure_files
from adversary.privacy.definitions import moments
from tests import commands

KINDS = {
    "pure DP": (("--epsilon", "1"), adv.PureDP(1.0)),
    "approximate DP": (("--epsilon", "1", "--delta", "1e-6"), adv.ApproximateDP(1.0, 1e-6)),
    "zCDP": (("--rho", "2.63"), adv.ZeroConcentratedDP(2.63)),
    "Gaussian DP": (("--mu", "1/2"), adv.GaussianDP(0.5)),
}


@pytest.fixture(scope="module", autouse=True)
def each_answer_is_worked_out_once() -> Iterator[None]:
    """The screen, the JSON and the figures of the same question share one answer, each a copy of its own."""
    made, summary = {}, bounds_answer.summary

    def remembered(*given: Any) -> dict[str, Any]:
        asked = repr(given)
        if asked not in made:
            made[asked] = summary(*given)
        return deepcopy(made[asked])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds_answer, "summary", remembered)
        yield


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


run = commands.run
answered = cache(partial(commands.answered, "bounds"))
printed = cache(partial(commands.printed, "bounds"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_agrees_with_the_library(kind: str) -> None:
    arguments, guarantee = KINDS[kind]
    answer = answered(*arguments, "--prior", "0.1", "--prior", "1/864", "--failure", "0.02")
    failure = 0.0 if kind == "pure DP" else 0.02
    assert (answer["definition"], answer["failure"]) == (kind, failure)
    assert answer["loss_bound"] == guarantee.loss_bound(failure)
    for row, prior in zip(answer["priors"], (0.1, 1 / 864), strict=True):
        assert row["prior"] == prior
        assert tuple(row["posterior"]) == guarantee.posterior_bounds(prior, failure)
        assert tuple(row["ratio"]) == guarantee.ratio_bounds(prior, failure)
        assert tuple(row["difference"]) == guarantee.difference_bounds(prior, failure)
        assert row["f1"] == pytest.approx(guarantee.f_score(prior), rel=1e-14)
    assert tuple(answer["any_prior"]["ratio"]) == guarantee.ratio_bounds(failure=failure)
    assert tuple(answer["any_prior"]["difference"]) == guarantee.difference_bounds(failure=failure)
    assert answer["power"] == [
        {"level": level, "power": pytest.approx(guarantee.power(level), rel=1e-14)} for level in (0.01, 0.05, 0.1)
    ]
    assert (answer["advantage"], answer["auc"]) == (guarantee.advantage, guarantee.auc)
    assert answer["pbdp"] == {"delta": 0.02, "epsilon": guarantee.pbdp_epsilon(0.02)}
    for row in answer["epsilon"]:
        epsilon = guarantee.epsilon(row["delta"])
        assert row["epsilon"] == (epsilon if np.isfinite(epsilon) else None)


def test_published_numbers_of_the_2020_census() -> None:
    answer = answered("--rho", "2.63")
    tight, simple = ({row["delta"]: row[key] for row in answer["epsilon"]} for key in ("epsilon", "simple"))
    assert tight[1e-10] == pytest.approx(17.430584, abs=1e-5)
    assert simple[1e-10] == pytest.approx(18.193803, abs=1e-6)
    assert answer["power"][1]["power"] == pytest.approx(0.9465841816, abs=1e-7)


@pytest.mark.parametrize(
    ("arguments", "rho"),
    [
        (["--epsilon", "2"], 2.0),
        (["--mu", "2"], 2.0),
        (["--rho", "2"], 2.0),
        (["--epsilon", "2", "--delta", "0.1"], None),
    ],
)
def test_the_zcdp_that_follows_is_told_where_some_does(arguments: list[str], rho: float | None) -> None:
    assert answered(*arguments)["zcdp_rho"] == rho
    assert ("zCDP it implies" in printed(*arguments)) == (rho is not None)


def test_only_zcdp_has_a_published_simple_epsilon() -> None:
    assert "simple" not in answered("--mu", "1")["epsilon"][0]
    assert "(simple)" not in printed("--mu", "1")
    assert "epsilon (simple)" in printed("--rho", "1")


@pytest.mark.parametrize("arguments", [["--rho", "1"], ["--mu", "1"], ["--epsilon", "1"]])
def test_delta_adds_a_row_or_makes_epsilon_approximate(arguments: list[str]) -> None:
    usual = [row["delta"] for row in answered(*arguments)["epsilon"]]
    asked = answered(*arguments, "--delta", "1e-8")
    assert usual == [1e-6, 1e-10]
    assert [row["delta"] for row in asked["epsilon"]] == [1e-6, 1e-8, 1e-10]
    assert (asked["definition"] == "approximate DP") == (arguments[0] == "--epsilon")


def test_what_nothing_bounds_is_null_in_json_and_unlimited_on_screen() -> None:
    answer = answered("--epsilon", "1", "--delta", "0.2")
    assert answer["loss_bound"] is None
    assert answer["any_prior"]["ratio"] == [0.0, None]
    assert answer["priors"][0]["posterior"] == [0.0, 1.0]
    assert [row["epsilon"] for row in answer["epsilon"]] == [1.0, None, None]
    assert printed("--epsilon", "1", "--delta", "0.2").count("unlimited") == 5


def test_bounds_are_certain_where_they_can_be() -> None:
    assert "Beliefs about one person, for certain" in printed("--epsilon", "1")
    assert "Beliefs about one person, except with probability 5 %" in printed("--rho", "1")
    assert answered("--rho", "1", "--failure", "0")["loss_bound"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_screen_rounds_every_end_outward(kind: str) -> None:
    arguments, _ = KINDS[kind]
    answer, text = answered(*arguments, "--prior", "0.1"), printed(*arguments, "--prior", "0.1")
    row = next(line for line in text.splitlines() if line.strip().startswith("10 %") and " to " in line)
    ends = [float(x) for x in re.findall(r"-?[\d.]+(?:e[+-]?\d+)?", row)]
    exact = answer["priors"][0]
    shown = dict(zip(("posterior", "ratio", "difference"), (ends[1:3], ends[3:5], ends[5:7]), strict=True))
    for name, unit in (("posterior", 100.0), ("ratio", 1.0), ("difference", 100.0)):
        low, high = (unit * end for end in exact[name])
        assert shown[name][0] <= low <= high <= shown[name][1]
        assert shown[name] == pytest.approx([low, high], rel=2e-3)
    assert ends[7] >= exact["f1"]
    powers = re.findall(r"^ *(?:1|5|10) % +([\d.]+) %$", text, re.MULTILINE)
    assert len(powers) == 3
    for end, test in zip(powers, answer["power"], strict=True):
        assert 100 * test["power"] <= float(end) < 100.2 * test["power"]


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
    for row in answer["priors"]:
        low, high = row["posterior"]
        assert 0 <= low <= row["prior"] * (1 + 1e-15)
        assert row["prior"] * (1 - 1e-15) <= high <= 1
    for test in answer["power"]:
        assert test["level"] * (1 - 1e-14) <= test["power"] <= 1


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    for arguments, words in (
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
    ):
        result = run("bounds", *arguments, "--out", str(tmp_path / "out"))
        assert result.exit_code == 2, arguments
        assert result.stdout == ""
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
        assert words in result.stderr
        assert sorted(tmp_path.iterdir()) == before, arguments


@pytest.mark.parametrize(
    ("arguments", "more"),
    [(["--rho", "2"], True), (["--mu", "1"], True), (["--mu", "0"], False), (["--epsilon", "1"], False)],
)
def test_out_writes_every_figure_twice_and_no_more(
    arguments: list[str], more: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "a" / "b"
    if arguments != ["--rho", "2"]:  # the others are drawn, and not turned into pictures
        monkeypatch.setattr(Figure, "savefig", lambda figure, path, **more: path.touch())
    result = run("bounds", *arguments, "--out", str(out), "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"figures in {out}\n"
    assert json.loads(result.stdout) == answered(*arguments)
    names = {"trade_off", "posterior_by_prior", *["epsilon_ladder"] * more}
    assert {file.name for file in out.iterdir()} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}


def test_a_failure_while_drawing_leaves_the_directory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = tmp_path / "old", tmp_path / "new" / "deep"
    assert run("bounds", "--mu", "1", "--out", str(old)).exit_code == 0
    before = {path: path.read_bytes() for path in old.iterdir()}
    saved: list[str] = []

    def failing(figure: Figure, path: Path, **more: Any) -> None:
        saved.append(path.name)
        path.write_text("half")
        if len(saved) % 3 == 0:
            raise OSError("no space left on device")

    monkeypatch.setattr(Figure, "savefig", failing)
    for out in (old, new):
        result = run("bounds", "--mu", "2", "--out", str(out))
        assert (result.exit_code, result.stdout) == (2, "")
        assert re.fullmatch(rf"error: cannot write {out}/\w+\.\w+: no space left on device\n", result.stderr)
    assert {path: path.read_bytes() for path in old.iterdir()} == before
    assert sorted(tmp_path.iterdir()) == [old]


def test_a_directory_that_cannot_be_written_is_told_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(bounds_answer, "summary", lambda *_: pytest.fail("computed too early"))
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        result = run("bounds", "--rho", "1", "--out", str(place))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: cannot write into ")


@pytest.mark.parametrize("failure", [0.0, 0.05])
def test_the_figure_of_posteriors_draws_the_bounds(failure: float) -> None:
    guarantee = adv.ZeroConcentratedDP(0.1)
    figure = figure_files.posterior_by_prior(*bounds_answer.certain(guarantee, failure), [0.0, 0.1, 1.0])
    for ax in figure.axes:
        lines = {line.get_gid(): line for line in ax.lines}
        x, least = np.asarray(lines["highest"].get_xdata()), ax.get_ylim()[0]
        low, high = guarantee.posterior_bounds(x, failure)
        np.testing.assert_array_equal(lines["lowest"].get_ydata(), np.maximum(low, least))
        np.testing.assert_array_equal(lines["highest"].get_ydata(), np.maximum(high, least))
    found = "3.114 to 27.75" if failure else "0 to 100.0"
    title = figure.get_suptitle().replace("\u00a0", " ")
    assert title == f"A prior of 10 % may become a posterior of {found} %"
    figure.savefig(io.BytesIO(), format="png")


def test_bounds_and_help_start_without_pymc_matplotlib_or_jinja2() -> None:
    code = """
import sys
from adversary.desk.commands import app
for arguments in (["bounds", "--rho", "1", "--json"], ["bounds", "--help"], ["--help"]):
    try:
        app(arguments, standalone_mode=False)
    except SystemExit:
        pass
heavy = {"pymc", "pytensor", "arviz", "matplotlib", "jinja2", "numba", "scipy.stats"} & set(sys.modules)
print("HEAVY", sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_the_usual_choices_are_those_in_the_help() -> None:
    text = " ".join(run("bounds", "--help").stdout.split())
    for values in (bounds_answer.PRIORS, bounds_answer.LEVELS):
        assert ", ".join(f"{value:g}" for value in values) in text
