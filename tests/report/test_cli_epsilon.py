"""`adversary epsilon`: the library's numbers as records, rounded to the safe side on the screen; what is refused."""

import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.budget import accuracy, release_budget
from adversary.report.files.profile_file import load_profile_file
from tests import commands
from tests.commands import flat, number, numbers
from tests.tables import DATA

DURHAM, SURVEY = DATA / "durham_infant_mortality.toml", DATA / "survey_profile.toml"
KINDS = {
    "closed": ('kind = "ratio or absolute"\nratio = 3\nabsolute = 0.25', adv.RiskProfile.ratio_or_absolute(3, 0.25)),
    "approached": ('kind = "constant"\nratio = 3', adv.RiskProfile.constant(3)),
    "difference": ('kind = "difference"\nby = 0.2', adv.RiskProfile.difference(0.2)),
    "searched": (
        'kind = "difference"\nby = 0.2\ninclusion = [0.1, 0.5]\nvalue = [0.01, 0.2]',
        adv.RiskProfile.difference(0.2).within((0.1, 0.5), (0.01, 0.2)),
    ),
    "minimum": (
        'kind = "minimum"\nof = [{ kind = "constant", ratio = 3 }, { kind = "difference", by = 0.2 }]',
        adv.RiskProfile.constant(3).minimum(adv.RiskProfile.difference(0.2)),
    ),
    "point": ('kind = "point"\nratio = 1.5\ninclusion = 0.5\nvalue = 1', adv.RiskProfile.point(1.5, 0.5, 1)),
}
PLAIN = '[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = 0.25\n'
RATE = '\n[utility]\nbase = 4012\ntarget = "6/1000"\ndeviations = ["1/4000", "1/2000", "1/1000", "1/500"]\n'


run = partial(commands.run, "epsilon")
answered = cache(partial(commands.answered, "epsilon"))
printed = cache(partial(commands.printed, "epsilon"))
written = partial(commands.written, "profile.toml")


@pytest.mark.parametrize("kind", KINDS)
def test_the_records_are_the_recommendation_of_the_library(kind: str, tmp_path: Path) -> None:
    text, profile = KINDS[kind]
    answer, found = answered(written(tmp_path, f"[profile]\n{text}\n")), adv.recommend_epsilon(profile)
    for name in ("epsilon", "loss", "inclusion", "value", "attained", "method", "words"):
        assert number(answer, name, group="recommended") == getattr(found, name)
    assert (number(answer, "status", group="recommended"), number(answer, "tolerance")) == ("bounded", profile.words)
    assert tuple(numbers(answer, "bracket")) == found.bracket
    tolerated, ratio = number(answer, "tolerated"), number(answer, "ratio")
    if found.attained:
        assert ratio == adv.budget.relative_risk_bound(found.inclusion, found.value, found.epsilon)
        assert ratio <= tolerated * (1 + 1e-9)
    else:
        assert (tolerated, ratio, number(answer, "posterior")) == (None, None, None)


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_screen_epsilon_is_rounded_down_and_bounds_outward(kind: str, tmp_path: Path) -> None:
    text, profile = KINDS[kind]
    shown, found = printed(written(tmp_path, f"[profile]\n{text}\n")), adv.recommend_epsilon(profile)
    assert flat(found.words) in flat(shown)
    row = next(line for line in shown.splitlines() if re.match(r" *[\d.]+ +(?:[\d.]+%|towards 0)", line))
    epsilon, *rest = (float(x) for x in re.findall(r"\d[\d.]*", row.replace("towards 0", "")))
    assert found.epsilon * 0.99 <= epsilon <= found.epsilon
    if found.attained:
        _, _, tolerated, ratio, posterior, *bracket = rest
        answer = answered(str(tmp_path / "profile.toml"))
        assert tolerated == pytest.approx(number(answer, "tolerated"), rel=1e-2)
        assert number(answer, "ratio") * (1 - 1e-9) <= ratio <= tolerated
        assert posterior >= 100 * number(answer, "posterior") * (1 - 1e-9)
        if bracket:
            assert bracket[0] <= found.bracket[0] <= found.bracket[1] <= bracket[1]
    else:
        assert "towards 0" in row


@pytest.mark.slow
def test_other_definitions_are_those_of_the_budget_table(tmp_path: Path) -> None:
    path = written(tmp_path, "failure = 0.02\ndelta = 1e-5\nreleases = 3\n" + PLAIN)
    answer, found = answered(path), adv.recommend_epsilon(KINDS["closed"][1])
    table = release_budget.budget_table(found, 3, failure=0.02, delta=1e-5)
    lines = printed(path).splitlines()
    failures = {}
    for i, form in enumerate(table["form"].values):
        row = table.isel(form=i)
        parameter = number(answer, "parameter", form=str(form))
        assert parameter == float(row["parameter"])
        assert number(answer, "unit", form=str(form)) == str(row["unit"].values)
        line = next(x for x in lines if re.match(rf"{row['definition'].values} +{row['composition'].values} ", x))
        words = re.split(r"\s{2,}", line)
        assert parameter * 0.99 <= float(words[3]) <= parameter
        failures[str(form)] = number(answer, "failure", form=str(form))
        assert words[4] == ("2%" if failures[str(form)] else "0%")
    certain = {form.split(",")[0] for form, failure in failures.items() if failure == 0.0}
    assert certain == {"pure DP", "geometric", "laplace", "staircase"}  # together no better than a sum, at this failure
    shared, pure = (1e-5, pytest.approx(1e-5 / 3)), (1e-5, 0.0)
    for way, deltas in {"basic": shared, "exact": shared, "advanced": pure, "lattice": pure, "optimal": pure}.items():
        form = f"approximate DP, {way}"
        assert (number(answer, "delta", form=form), number(answer, "delta_each", form=form)) == deltas
    assert "delta of approximate DP: 1e-5, of all releases together" in flat(printed(path))
    curve = release_budget.release_curve(found, (1, 2, 3), failure=0.02, delta=1e-5)
    for way in curve["composition"].values:
        for n in (1, 2, 3):
            epsilon = number(answer, "parameter", group="releases", composition=str(way), releases=n)
            assert epsilon == float(curve["parameter"].sel(composition=way, releases=n))


def test_published_numbers_of_the_county() -> None:
    """Example 3: rows of ratio 2, above the target (PB20), and the most lenient profile (PB21)."""
    answer = answered(str(DURHAM))
    rows = {
        "2x": (0.6931, 2.0000, 0.3333, 0.1667, 0.0417, 0.0026),
        "2x or 10%": (0.7472, 1.8493, 0.3214, 0.1523, 0.0342, 0.0017),
        "2x or 25%": (0.8473, 1.6202, 0.3000, 0.1286, 0.0236, 0.0008),
        "2x or 50%": (1.0986, 1.2247, 0.2500, 0.0833, 0.0093, 0.0001),
    }
    for name, (epsilon, rmse, *flips) in rows.items():
        assert number(answer, "epsilon", group="recommended", profile=name) == pytest.approx(epsilon, abs=5e-5)
        assert number(answer, "rmse", profile=name) == pytest.approx(rmse, abs=5e-5)
        assert numbers(answer, "switch", profile=name, side="above") == pytest.approx(flips, abs=5e-5)
    most = "5x or 50%"
    assert number(answer, "epsilon", group="recommended", profile=most) == pytest.approx(2.197225, abs=1e-6)
    assert number(answer, "switch", profile=most, side="above", deviation=1 / 4000) == pytest.approx(0.1, abs=1e-12)


def test_the_county_on_the_screen_has_a_row_for_every_profile_in_every_table() -> None:
    text, answer = printed(str(DURHAM)), answered(str(DURHAM))
    for name in load_profile_file(DURHAM).profiles:
        rows = [line for line in text.splitlines() if re.match(rf"{re.escape(name)}  ", line)]
        assert len(rows) == 3, name
        epsilon, parameter = float(rows[0][len(name) :].split()[0]), float(rows[1].split()[-1])
        recommended = number(answer, "epsilon", group="recommended", profile=name)
        assert recommended * 0.99 <= epsilon <= recommended
        gaussian = number(answer, "parameter", profile=name, form="discrete gaussian")
        assert gaussian * 0.99 <= parameter <= gaussian
    assert "below 0.01%" in text
    assert "e-0" not in text


def test_noise_is_that_of_each_of_several_releases(tmp_path: Path) -> None:
    path = written(tmp_path, f'releases = 4\nfailure = 0.01\n{PLAIN}{RATE}noise = "discrete gaussian"\n')
    found = adv.recommend_epsilon(KINDS["closed"][1])
    rho = release_budget.allocate(found, "discrete gaussian", failure=0.01, releases=4).parameter
    noise, answer = adv.DiscreteGaussian.from_rho(rho), answered(path)
    assert number(answer, "parameter", group="utility") == rho
    assert number(answer, "rmse") == accuracy.rmse(noise)
    assert number(answer, "prob_exact") == accuracy.prob_exact(noise)
    above, below = accuracy.switch_of_rate(noise, 4012, "6/1000", "1/500")
    for side, probability in (("above", above), ("below", below)):
        assert number(answer, "switch", deviation=0.002, side=side) == probability
    assert "in each of 4 releases" in flat(printed(path))


def test_for_certain_only_pure_dp_and_its_noises_have_a_parameter(tmp_path: Path) -> None:
    path = written(tmp_path, f"failure = 0\nreleases = 3\n{PLAIN}")
    answer = answered(path)
    third = adv.recommend_epsilon(KINDS["closed"][1]).epsilon / 3
    for form in {one["form"] for one in answer["records"] if one["group"] == "forms"}:
        sure = form.startswith(("pure DP", "geometric", "laplace", "staircase"))
        assert (number(answer, "status", form=form) == "bounded") == sure, form
        assert number(answer, "failure", form=form) == (0.0 if sure else None)
        if sure:
            assert number(answer, "parameter", form=form) == pytest.approx(third, rel=1e-9)
    assert "In zCDP the tolerance allows none above 0" in flat(printed(path))


def test_options_replace_what_the_file_says(tmp_path: Path) -> None:
    path = written(tmp_path, f'statistic = "count"\nround_down = 3\n{PLAIN}')
    profile = KINDS["closed"][1]
    for arguments, statistic, digits in (
        ((), "count", 3),
        (("--statistic", "any"), "any", 3),
        (("--round-down", "1"), "count", 1),
        (("--statistic", "any", "--round-down", "0"), "any", 0),
    ):
        found = adv.recommend_epsilon(profile, statistic=statistic, round_down=digits)
        answer = answered(path, *arguments)
        assert (number(answer, "epsilon"), number(answer, "loss")) == (found.epsilon, found.loss)
        assert (answer["attributes"]["statistic"], answer["attributes"]["round_down"]) == (statistic, digits)
    assert "one published count of the people in S" in flat(printed(path))
    assert number(answered(path, "--statistic", "any", "--round-down", "0"), "epsilon") == 0.0


def test_whom_a_profile_is_not_about_stands_with_where_its_epsilon_lets_them_come(tmp_path: Path) -> None:
    text = '[profile]\nkind = "ratio or absolute"\nratio = 1\nabsolute = 0.05\n'
    text += 'inclusion = ["1/100000", "1/2000"]\nvalue = 1\n'
    shown = flat(printed(written(tmp_path, text)))
    assert "No adversary whom the profile is about exceeds its tolerance at the recommended epsilon." in shown
    assert "The profile is about adversaries who give 0.001 to 0.05% to the person being in the data." in shown
    odds = 0.01 / 0.99 * (0.05 / 0.95 * 0.9995 / 0.0005)
    (most,) = re.findall(
        r"one who gives 1% to the person being in the data, who may come to as much as ([\d.]+)%", shown
    )
    assert 100.0 * odds / (1.0 + odds) <= float(most) <= 100.0 * odds / (1.0 + odds) + 0.1
    assert "It is not about" not in printed(str(DURHAM))


def test_profiles_of_the_same_epsilon_are_named_together(tmp_path: Path) -> None:
    text = "".join(f'[profiles.{name}]\nkind = "difference"\nby = {by}\n' for name, by in (("a", 0.2), ("b", '"1/5"')))
    assert "The profiles allow epsilon = 0.405, the same for all 2 profiles." in flat(printed(written(tmp_path, text)))


def test_what_no_epsilon_keeps_and_what_every_epsilon_keeps_is_said_in_words(tmp_path: Path) -> None:
    names = {
        "none": ('kind = "constant"\nratio = 1', "unattainable", "No epsilon above 0 keeps this profile"),
        "all": (
            'kind = "constant"\nratio = 3\ninclusion = [0.5, 1]\nvalue = [0.8, 1]',
            "unconstrained",
            "Every epsilon",
        ),
    }
    for name, (text, status, said) in names.items():
        path = written(tmp_path, f"releases = 2\n[profile]\n{text}\n{RATE}")
        answer = commands.answered("epsilon", path)
        assert number(answer, "status", group="recommended") == status
        assert "forms" not in {one["group"] for one in answer["records"]}
        assert number(answer, "epsilon", group="recommended") == (0.0 if name == "none" else None)
        shown = commands.printed("epsilon", path)
        assert said in flat(shown)
        assert ("none above 0" if name == "none" else "unlimited") in shown
    both = "".join(f"[profiles.{name}]\n{text}\n" for name, (text, _, _) in names.items())
    shown = commands.printed(
        "epsilon", written(tmp_path, f'{both}[profiles.some]\nkind = "constant"\nratio = 2\n{RATE}')
    )
    for _, _, said in names.values():
        assert said in flat(shown)


def test_figures_say_which_profiles_have_no_place_in_them(tmp_path: Path) -> None:
    """One profile whose epsilon rounds to 0, beside another; and a rate under a profile that asks for nothing."""
    rate = '[utility]\nnoise = "geometric"\nbase = 1000\ntarget = 0.1\ndeviations = [0.01]\n'
    each = '[profiles.{}]\nkind = "difference"\nby = {}\n'
    mixed = "releases = 2\nround_down = 2\n" + each.format("middle", 0.1) + each.format("tiny", 0.001) + rate
    text = commands.printed("epsilon", written(tmp_path, mixed), "--format", "md")
    links = re.findall(r"!\[(.*)\]\((\w+)\.svg\)", text)
    assert [name for _, name in links] == ["epsilon_by_reader", "per_release", "accuracy"]
    assert [caption.endswith("Not drawn: tiny.") for caption, _ in links] == [False, True, True]
    nothing = f'[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = 1\n{rate}'
    text = commands.printed("epsilon", written(tmp_path, nothing), "--format", "md")
    assert re.findall(r"\]\((\w+)\.svg\)", text) == ["epsilon_by_reader"]


def test_the_same_epsilon_is_shown_everywhere_after_rounding(tmp_path: Path) -> None:
    text = flat(printed(written(tmp_path, 'round_down = 3\n[profile]\nkind = "difference"\nby = 0.2\n')))
    assert "epsilon = 0.405 is the largest that keeps the profile." in text
    assert "epsilon = 0.405, rounded down from 0.4054," in text
    assert "The last two bounds are at the epsilon rounded down." in text
    assert set(re.findall(r"0\.40\d+", text.partition("The same in other")[0])) == {"0.405", "0.4054"}


@pytest.mark.slow
def test_noise_of_several_releases_is_shown_with_its_parameter(tmp_path: Path) -> None:
    rate = '[utility]\nnoise = "laplace"\nbase = 1000\ntarget = 0.1\ndeviations = [0.01]\n'
    each = '[profiles.{}]\nkind = "difference"\nby = {}\n'
    both = each.format("a", 0.1) + each.format("b", 0.2)
    path = written(tmp_path, f"releases = 3\n{both}{rate}")
    lines = printed(path).splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"profile +epsilon +RMSE", line))
    for row, name in zip(lines[start + 1 :], "ab", strict=False):
        shown, given = row.split(), number(answered(path), "parameter", group="utility", profile=name)
        assert shown[0] == name
        assert given * 0.99 <= float(shown[1]) <= given
    once = written(tmp_path, both + rate.replace("laplace", "geometric"))
    assert re.search(r"profile +RMSE", commands.printed("epsilon", once))


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (PLAIN.replace("ratio = 3", "ration = 3"), (), "bad.toml: profile.ration: unknown key"),
        (PLAIN.replace("ratio = 3", "ration = 3"), (), "did you mean 'ratio'?"),
        (PLAIN.replace("ratio = 3", "ratio = 0.5"), (), "bad.toml: profile: ratio must be at least 1, got 0.5"),
        (PLAIN.replace("or absolute", "or absolut"), (), "did you mean 'ratio or absolute'?"),
        (PLAIN.replace("3", '\'__import__("os").system("echo")\''), (), "bad.toml: profile.ratio: must be a number"),
        (PLAIN + RATE.replace("4012", "-1"), (), "bad.toml: utility.base: base must be at least 1, got -1"),
        ("[plan]\n" + PLAIN, (), "bad.toml: plan: this is a scenario file"),
        ("[profile\n", (), "bad.toml: not a TOML file"),
        (PLAIN, ("--statistic", "mean"), "--statistic must be one of 'any', 'count', got 'mean'"),
        (PLAIN, ("--round-down", "two"), "--round-down must be a whole number, got 'two'"),
        (PLAIN, ("--round-down", "-1"), "--round-down must be at least 0, got -1"),
        (PLAIN, ("--round-down", "400"), "--round-down must be at most 15, got 400"),
    ],
)
def test_what_is_refused(text: str, arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(text)
    commands.refused(tmp_path, "epsilon", str(bad), *arguments, words=words)


@pytest.mark.slow
def test_the_data_file_has_the_tolerance_of_every_reader(tmp_path: Path) -> None:
    result = run(str(SURVEY), "--out", str(tmp_path), "--quiet")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    with xr.open_datatree(tmp_path / "data.nc", engine="h5netcdf") as tree:
        surface, profile = tree["readers"].to_dataset().isel(profile=0), load_profile_file(SURVEY).profiles[""]
        np.testing.assert_array_equal(surface["tolerated"], profile(surface["inclusion"], surface["value"]))
        assert set(tree.children) == {"recommended", "readers", "forms", "releases", "utility"}
