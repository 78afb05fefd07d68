"""`adversary infer` of a regression: files read key by key, the library's draws, plain text, figures and data whole."""

import math
import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from adversary.bounded import regression as reg
from adversary.bounded.report import regression_figures
from adversary.bounded.report.regression_file import RegressionFile, load_any_release_file
from adversary.bounded.report.release_file import ReleaseFile
from adversary.report.kit.figure_files import figure_of
from tests import commands
from tests.commands import flat, number, numbers
from tests.tables import DATA

CIRRHOSIS = DATA / "cirrhosis_regression.toml"
SUMS = "[regression.sums]\nx = 12.1\nxx = 4.9\ny = 18.6\nxy = 6.9\nyy = 7.2\n"
MOMENTS = "[regression.moments]\nx = 15.1\nx2 = 4.9\nx3 = 2.6\nx4 = 2.8\n"
HEAD = "[regression]\nn = 46\nepsilon = 0.5\nx_bounds = [30, 177]\ny_bounds = [28, 129.9]\n"
PLAIN = HEAD + SUMS + MOMENTS
PRIOR = (
    '[prior]\nkind = "normal-inverse-gamma"\nmu0 = [70, 0]\nLambda0 = [[0.25, 0], [0, "1/4"]]\na0 = 20\nb0 = {scale}\n'
)
SHORT = "[posterior]\ndraws = 150\n"

answered = cache(partial(commands.answered, "infer"))
written = partial(commands.written, "release.toml")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A short run of made-up numbers."""
    return written(tmp_path_factory.mktemp("regression"), PLAIN + SHORT)


def read(path: str | Path) -> RegressionFile:
    file = load_any_release_file(path)
    assert isinstance(file, RegressionFile)
    return file


# files


def test_the_file_that_comes_with_the_project_is_the_release_of_the_thesis() -> None:
    """BI22: the release of the script's seed, and the ranges of the 46 states."""
    file, states = read(CIRRHOSIS), reg.load_cirrhosis()
    np.testing.assert_array_equal(file.release.noisy_sums[1:], [9.56667, 3.94216, 18.6849, -3.92079, 3.61874])
    np.testing.assert_array_equal(file.release.noisy_moments[1:], [6.15444, 7.43941, 0.99294, 5.27982])
    drink = states.wine + states.liquor
    assert file.release.x_bounds == (float(drink.min()), float(drink.max()))
    assert file.release.y_bounds == (float(states.deaths.min()), float(states.deaths.max()))
    assert (file.release.n, file.release.epsilon, file.release.total_epsilon) == (46, 0.1, pytest.approx(0.9))
    assert (file.prior, file.constrained, file.region, file.prob) == (None, True, "weak", 0.95)
    slope = np.polyfit(drink, states.deaths, 1)[0]
    assert f"themselves is {slope:.2f}" in file.description
    assert isinstance(load_any_release_file(DATA / "blood_lead.toml"), ReleaseFile)


def test_a_prior_and_every_key_of_the_reading_are_read(tmp_path: Path) -> None:
    reading = '[posterior]\nconstrained = false\nregion = "tight"\nprob = "9/10"\ndraws = 100\n'
    file = read(written(tmp_path, PLAIN + PRIOR.format(scale=5000) + reading))
    assert file.prior is not None
    np.testing.assert_array_equal(file.prior.mu0, [70, 0])
    np.testing.assert_array_equal(file.prior.Lambda0, [[0.25, 0], [0, 0.25]])
    assert (file.prior.a0, file.prior.b0) == (20, 5000)
    assert (file.constrained, file.region, file.prob, file.draws) == (False, "tight", 0.9, 100)
    assert (file.with_options(prob=0.5, constrained=True).prob, file.with_options(constrained=True).constrained) == (
        0.5,
        True,
    )
    assert file.with_options().release is file.release


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAIN.replace("[regression.sums]\nx ", "[regression.sums]\nX "), "sums.X: unknown key, got 'X'; did you mean"),
        (PLAIN.replace("x4", "x5"), "regression.moments.x5: unknown key, got 'x5'; did you mean 'x"),
        (PLAIN.replace("x_bounds", "x_bound"), "regression.x_bound: unknown key, got 'x_bound'; did you mean 'x_bound"),
        (
            PLAIN.replace("regression", "regresion"),
            "regresion: unknown key, got 'regresion'; did you mean 'regression'",
        ),
        (HEAD + SUMS, "regression.moments: is required"),
        (PLAIN.replace("xy = 6.9\n", ""), "regression.sums.xy: is required"),
        (PLAIN.replace("n = 46", "n = 1"), "release.toml: regression: n must be at least 2, got 1"),
        (PLAIN.replace("epsilon = 0.5", "epsilon = 0"), "regression: epsilon must be positive"),
        (PLAIN.replace("[30, 177]", "[177, 30]"), "regression: x_bounds must be two finite numbers (a, b) with a < b"),
        (PLAIN.replace("177", "1e260"), "regression: x_bounds must be 1e-60 to 1e+60 apart, got"),
        (
            PLAIN.replace("[30, 177]", "[30]"),
            "regression.x_bounds: must be two numbers, [lowest, highest] of any value",
        ),
        (PLAIN.replace("18.6", '"many"'), "regression.sums.y: must be a number such as 0.5, or a product of fractions"),
        (PLAIN.replace("18.6", "nan"), "regression: sums must be a number, got nan"),
        (PLAIN + "[release]\nmean = 3\n", "give either a table 'release' or a table 'regression': both are there"),
        (PLAIN + "[posterior]\nregion = 'loose'\n", "posterior.region: must be one of 'weak', 'tight', got 'loose'"),
        (PLAIN + "[posterior]\nfeasibility = 'event'\n", "posterior.feasibility: unknown key"),
        (PLAIN + "[posterior]\ndraws = 0\n", "posterior.draws: draws must be at least 8, got 0"),
        (PLAIN + "[posterior]\ndraws = 10000000\n", "posterior.draws: draws must be at most 40,000, got 10,000,000"),
        (PLAIN + "[posterior]\nprob = 95\n", "posterior.prob: prob must be between 0 and 1"),
        (PLAIN + "[prior]\nkind = 'flat'\n", "prior.kind: must be one of 'normal-inverse-gamma', got 'flat'"),
        (PLAIN + PRIOR.format(scale=0), "prior: b0 must be positive"),
        (PLAIN + PRIOR.format(scale=1).replace("mu0", "mu"), "prior.mu: unknown key, got 'mu'; did you mean 'mu0'?"),
        (PLAIN + PRIOR.format(scale=1).replace('"1/4"', "-3"), "prior: Lambda0 must be positive definite"),
        (PLAIN + PRIOR.format(scale=1).replace('[0, "1/4"]', "[0]"), "prior.Lambda0: must be two numbers, a row"),
        (PLAIN + PRIOR.format(scale=1).replace('[0, "1/4"]', "0.25"), "prior.Lambda0: must be a list of numbers"),
        ("untitled = 'x'\n" + PLAIN, "untitled: unknown key, got 'untitled'; did you mean 'title'?"),
        ("[plan]\n" + PLAIN, "plan: this is a scenario file, which adversary audit reads"),
    ],
)
def test_errors_name_file_key_rule_and_value(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"release\.toml: ") as error:
        load_any_release_file(path)
    assert words in str(error.value)
    assert str(error.value).count(path) == 1


# the command


@pytest.mark.filterwarnings("ignore:The draws are unreliable")
def test_the_records_are_the_posterior_of_the_library_with_the_bounds_and_without(path: str) -> None:
    answer, file = answered(path), read(path)
    for name in ("constrained", "unconstrained"):
        with np.errstate(all="ignore"):
            tree = reg.gibbs(file.release, None, name == "constrained", draws=150, burn=50, chains=16, rng=2020)
        drawn = tree["posterior"]
        values = {"intercept": drawn.intercept, "slope": drawn.slope, "sigma": np.sqrt(drawn.sigma2)}
        for parameter, draws in values.items():
            at = {"reading": name, "parameter": parameter}
            assert number(answer, "mean", **at) == pytest.approx(float(draws.mean()), rel=1e-12)
            assert number(answer, "sd", **at) == pytest.approx(float(draws.std()), rel=1e-9)
            tails = numbers(answer, "eti", **at)
            assert tails == pytest.approx([float(draws.quantile(q)) for q in (0.025, 0.975)], rel=1e-9)
            low, high = numbers(answer, "hdi", **at)
            assert float(((draws >= low) & (draws <= high)).mean()) == pytest.approx(0.95, abs=0.002)
            assert high - low <= 1.001 * (tails[1] - tails[0])
        assert number(answer, "positive", reading=name) == float((drawn.slope > 0).mean())
        assert number(answer, "ess", reading=name) == drawn.attrs["ess"]
    assert number(answer, "infeasible", reading="constrained") == 0.0
    assert 0.0 < number(answer, "infeasible", reading="unconstrained") < 1.0
    hats = [number(answer, "r_hat", reading=name) for name in ("constrained", "unconstrained")]
    assert max(hats) > 1.01
    assert any("The draws are unreliable (" in text for text in answer["warnings"])
    assert [number(answer, "sums", statistic=name) for name in ("x", "xx", "y", "xy", "yy")] == [
        12.1, 4.9, 18.6, 6.9, 7.2
    ]  # fmt: skip
    assert number(answer, "total_epsilon") == pytest.approx(4.5)
    assert number(answer, "kind") == "default"


def test_the_screen_says_what_was_found_in_plain_words(path: str) -> None:
    text = flat(commands.printed("infer", path))
    low, high = numbers(answered(path), "hdi", reading="constrained", parameter="slope")
    said = re.search(r"The slope is (−?[\d.]+) to (−?[\d.]+) with probability 95%", text)
    assert said is not None
    shown = [float(end.replace("−", "-")) for end in said.groups()]
    assert low - 0.01 <= shown[0] <= low < high <= shown[1] <= high + 0.01
    assert "Using the fact that both variables are bounded costs no privacy and makes the interval of the slope" in text
    other = answered(path, "--unconstrained", "--prob", "1/2")["attributes"]
    assert (other["main"], other["prob"]) == ("unconstrained", 0.5)


def test_a_posterior_that_does_not_exist_is_said_with_its_reason(tmp_path: Path) -> None:
    """Under the constraints sigma2 starts from its mean, which a0 <= 1 has not."""
    text = PLAIN + PRIOR.format(scale=500).replace("a0 = 20", "a0 = 0.5") + "[posterior]\ndraws = 150\n"
    path = written(tmp_path, text)
    commands.refused(tmp_path, "infer", path, words=f"{path}: a0 must be above 1 under the constraints, got 0.5")
    shown = flat(commands.printed("infer", path, "--unconstrained"))
    assert "There is no posterior using the bounds: a0 must be above 1" in shown
    assert number(answered(path, "--unconstrained"), "a0") == 0.5


def test_few_draws_are_unreliable_and_a_prior_in_one_word_is_refused(tmp_path: Path) -> None:
    few = written(tmp_path, PLAIN + "[posterior]\ndraws = 8\n")
    warnings = answered(few)["warnings"]
    assert "The draws are unreliable (intercept: effective size" in warnings[0]
    commands.refused(tmp_path, "infer", few, "--prior", "flat", words="--prior is for a mean and a variance: ")


# figures


def made_up(seed: int) -> xr.Dataset:
    rng = np.random.default_rng(seed)
    dims = ("chain", "draw")
    values = {"intercept": rng.normal(50, 5, (2, 500)), "slope": rng.normal(0.3, 0.1, (2, 500))}
    return xr.Dataset({**{k: (dims, v) for k, v in values.items()}, "sigma": (dims, rng.gamma(50, 0.3, (2, 500)))})


def test_figures_show_the_draws_and_say_what_they_show() -> None:
    draws = {"using the bounds": made_up(1), "ignoring the bounds": made_up(2)}
    figure: Any = figure_of(regression_figures.regression_marginals(draws, 0.9))
    assert " ".join(figure.get_suptitle().split()).startswith("The slope is 0.")
    steps = {patch.get_gid(): patch for ax in figure.axes for patch in ax.patches}
    heights, edges, _ = steps["slope using the bounds"].get_data()
    assert (heights * np.diff(edges)).sum() == pytest.approx(1.0, abs=0.01)
    release = read(CIRRHOSIS).release
    figure = figure_of(regression_figures.regression_lines(draws, release, 0.9, x="age", y="income"))
    (ax,) = figure.axes
    line = next(line for line in ax.lines if line.get_gid() == "using the bounds")
    first = draws["using the bounds"]
    np.testing.assert_allclose(line.get_ydata()[0], float((first.intercept + 30 * first.slope).median()))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("age", "income")
    assert ax.get_ylim()[0] < 28.0
    assert ax.get_ylim()[1] > 129.9
    assert math.isclose(ax.get_xlim()[1], 177.0)
