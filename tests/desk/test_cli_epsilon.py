"""`adversary epsilon`: the library's numbers, rounded to the safe side; plain text; errors in one line; files whole."""

import json
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import adversary as adv
from adversary.desk.answers import epsilon_answer
from adversary.desk.files.profile_file import load_profile_file
from adversary.policy.budget import accuracy, release_budget
from tests import commands
from tests.commands import flat

DATA = Path(__file__).parents[2] / "data"
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


def written(folder: Path, text: str) -> str:
    path = folder / "profile.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_is_the_recommendation_of_the_library(kind: str, tmp_path: Path) -> None:
    text, profile = KINDS[kind]
    answer, found = answered(written(tmp_path, f"[profile]\n{text}\n")), adv.recommend_epsilon(profile)
    assert (answer["epsilon"], answer["loss"], answer["status"]) == (found.epsilon, found.loss, "bounded")
    assert (answer["inclusion"], answer["value"], answer["attained"]) == (found.inclusion, found.value, found.attained)
    assert (answer["method"], tuple(answer["bracket"])) == (found.method, found.bracket)
    assert (answer["words"], answer["profile"]) == (found.words, profile.words)
    if found.attained:
        ratio = adv.budget.relative_risk_bound(found.inclusion, found.value, found.epsilon)
        assert answer["binding"]["ratio"] == ratio
        assert answer["binding"]["ratio"] <= answer["binding"]["tolerated"] * (1 + 1e-9)
    else:
        assert set(answer["binding"].values()) == {None}


@pytest.mark.parametrize("kind", KINDS)
def test_on_the_screen_epsilon_is_rounded_down_and_bounds_outward(kind: str, tmp_path: Path) -> None:
    text, profile = KINDS[kind]
    shown, found = printed(written(tmp_path, f"[profile]\n{text}\n")), adv.recommend_epsilon(profile)
    assert flat(found.words) in flat(shown)
    row = next(line for line in shown.splitlines() if re.match(r" *[\d.]+ +(?:[\d.]+ %|towards 0)", line))
    epsilon, *rest = (float(x) for x in re.findall(r"\d[\d.]*", row.replace("towards 0", "")))
    assert found.epsilon * 0.999 <= epsilon <= found.epsilon
    if found.attained:
        _, _, tolerated, ratio, posterior, *bracket = rest
        answer = answered(str(tmp_path / "profile.toml"))["binding"]
        assert tolerated <= answer["tolerated"] * (1 + 1e-12)
        assert ratio >= answer["ratio"] * (1 - 1e-12)
        assert posterior >= 100 * answer["posterior"] * (1 - 1e-12)
        if bracket:
            assert bracket[0] <= found.bracket[0] <= found.bracket[1] <= bracket[1]
    else:
        assert "towards 0" in row


def test_other_definitions_are_those_of_the_budget_table(tmp_path: Path) -> None:
    path = written(tmp_path, "failure = 0.02\ndelta = 1e-5\nreleases = 3\n" + PLAIN)
    rows = answered(path)["forms"]
    found = adv.recommend_epsilon(KINDS["closed"][1])
    table = release_budget.budget_table(found, 3, failure=0.02, delta=1e-5)
    assert [row["parameter"] for row in rows] == list(table["parameter"].values)
    assert [row["unit"] for row in rows] == list(table["unit"].values)
    lines = printed(path).splitlines()
    for row in rows:
        line = next(x for x in lines if re.match(rf"{row['definition']} +{row['composition']} ", x))
        assert row["parameter"] * 0.999 <= float(line.split(" = ")[1].split()[0]) <= row["parameter"]
        assert ("for certain" if row["failure"] == 0.0 else "but for probability 2 %") in line
    certain = {row["definition"] for row in rows if row["failure"] == 0.0}
    assert certain == {"pure DP", "geometric", "laplace"}  # together no better than adding up, at this failure
    deltas = {row["composition"]: (row["delta"], row["delta_each"]) for row in rows if row["delta"] is not None}
    shared, pure = (1e-5, pytest.approx(1e-5 / 3)), (1e-5, 0.0)
    assert deltas == {"basic": shared, "exact": shared, "advanced": pure, "lattice": pure, "optimal": pure}
    assert "delta of approximate DP is 1e-5, of all releases together" in flat(printed(path))
    curve = release_budget.release_curve(found, (1, 2, 3), failure=0.02, delta=1e-5)
    for way, points in answered(path)["per_release"].items():
        assert [point["releases"] for point in points] == [1, 2, 3]
        assert [point["epsilon"] for point in points] == list(curve["parameter"].sel(composition=way).values)


def test_published_numbers_of_the_county() -> None:
    """Example 3: rows of ratio 2, above the target (PB20), and the most lenient profile (PB21)."""
    every = answered(str(DURHAM))["profiles"]
    rows = {
        "2": (0.6931, 2.0000, 0.3333, 0.1667, 0.0417, 0.0026),
        "2 or 10 %": (0.7472, 1.8493, 0.3214, 0.1523, 0.0342, 0.0017),
        "2 or 25 %": (0.8473, 1.6202, 0.3000, 0.1286, 0.0236, 0.0008),
        "2 or 50 %": (1.0986, 1.2247, 0.2500, 0.0833, 0.0093, 0.0001),
    }
    for name, (epsilon, rmse, *flips) in rows.items():
        one = every[name]
        above = [row["probability"] for row in one["utility"]["wrong_decision"] if row["side"] == "above"]
        assert one["epsilon"] == pytest.approx(epsilon, abs=5e-5)
        assert one["utility"]["rmse"] == pytest.approx(rmse, abs=5e-5)
        assert above == pytest.approx(flips, abs=5e-5)
    most = every["5 or 50 %"]
    assert most["epsilon"] == pytest.approx(2.197225, abs=1e-6)
    assert most["utility"]["wrong_decision"][0]["probability"] == pytest.approx(0.1, abs=1e-12)


def test_the_county_on_the_screen_has_a_row_for_every_profile_in_every_table() -> None:
    text, every = printed(str(DURHAM)), answered(str(DURHAM))["profiles"]
    for name, one in every.items():
        rows = [line for line in text.splitlines() if re.match(rf"{re.escape(name)}  ", line)]
        assert len(rows) == 3, name
        epsilon, parameter = float(rows[0][len(name) :].split()[0]), float(rows[1].split()[-1])
        assert one["epsilon"] * 0.999 <= epsilon <= one["epsilon"]
        gaussian = next(row["parameter"] for row in one["forms"] if row["definition"] == "discrete gaussian")
        assert gaussian * 0.999 <= parameter <= gaussian
    assert "< 0.01 %" in text
    assert "e-0" not in text


def test_noise_is_that_of_each_of_several_releases(tmp_path: Path) -> None:
    text = f'releases = 4\nfailure = 0.01\n{PLAIN}{RATE}noise = "discrete gaussian"\n'
    path = written(tmp_path, text)
    found = adv.recommend_epsilon(KINDS["closed"][1])
    rho = release_budget.allocate(found, "discrete gaussian", failure=0.01, releases=4).parameter
    noise, answer = adv.DiscreteGaussian.from_rho(rho), answered(path)["utility"]
    assert (answer["parameter"], answer["unit"]) == (rho, "rho")
    assert answer["rmse"] == accuracy.rmse(noise)
    assert answer["prob_exact"] == accuracy.prob_exact(noise)
    wrong = {(row["deviation"], row["side"]): row["probability"] for row in answer["wrong_decision"]}
    above, below = accuracy.switch_of_rate(noise, 4012, "6/1000", "1/500")
    assert (wrong[0.002, "above"], wrong[0.002, "below"]) == (above, below)
    assert "in each of 4 releases" in flat(printed(path))


def test_for_certain_only_pure_dp_and_its_noises_have_a_parameter(tmp_path: Path) -> None:
    path, out = written(tmp_path, f"failure = 0\nreleases = 3\n{PLAIN}"), tmp_path / "out"
    rows = {(row["definition"], row["composition"]): row for row in answered(path)["forms"]}
    third = adv.recommend_epsilon(KINDS["closed"][1]).epsilon / 3
    for (definition, composition), row in rows.items():
        sure = definition in ("pure DP", "geometric", "laplace")
        assert (row["status"] == "bounded") == sure, (definition, composition)
        assert row["parameter"] == (pytest.approx(third, rel=1e-9) if sure else row["parameter"])
    result = run(path, "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert {row["failure"] for row in rows.values()} == {0.0, None}
    assert "but for" not in result.stdout
    assert "epsilon = none above 0" in flat(result.stdout)
    assert (out / "per_release.png").exists()


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
        assert (answer["epsilon"], answer["loss"]) == (found.epsilon, found.loss)
        assert (answer["statistic"], answer["round_down"]) == (statistic, digits)
    assert "one published count of the people in S" in flat(printed(path))
    assert answered(path, "--statistic", "any", "--round-down", "0")["epsilon"] == 0.0


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
        assert (answer["status"], answer["forms"]) == (status, [])
        assert answer["epsilon"] == (0.0 if name == "none" else None)
        shown = run(path)
        assert shown.exit_code == 0, shown.stderr
        assert said in flat(shown.stdout)
        assert ("none above 0" if name == "none" else "unlimited") in shown.stdout
    both = "".join(f"[profiles.{name}]\n{text}\n" for name, (text, _, _) in names.items())
    path = written(tmp_path, f'{both}[profiles.some]\nkind = "constant"\nratio = 2\n{RATE}')
    out = tmp_path / "out"
    shown = run(path, "--out", str(out))
    assert shown.exit_code == 0, shown.stderr
    for _, _, said in names.values():
        assert said in flat(shown.stdout)
    assert {file.stem for file in out.iterdir()} == {"epsilon_by_reader", "tolerated_and_kept", "accuracy", "budget"}
    assert shown.stderr == (
        "nothing to draw, and left out: tolerated_and_kept of none, all; accuracy of none, all\n"
        f"figures and data in {out}\n"
    )


def test_what_cannot_be_drawn_is_left_out_and_the_rest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One profile whose epsilon rounds to 0, beside another; and a rate under a profile that asks for nothing."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **more: file.touch())  # drawn, without the pictures
    rate = '[utility]\nnoise = "geometric"\nbase = 1000\ntarget = 0.1\ndeviations = [0.01]\n'
    each = '[profiles.{}]\nkind = "difference"\nby = {}\n'
    mixed = "releases = 2\nround_down = 2\n" + each.format("middle", 0.1) + each.format("tiny", 0.001) + rate
    nothing = f'[profile]\nkind = "ratio or absolute"\nratio = 3\nabsolute = 1\n{rate}'
    every = {"epsilon_by_reader", "tolerated_and_kept", "accuracy", "per_release"}
    for text, figures, said in (
        (mixed, every, "tolerated_and_kept of tiny; accuracy of tiny; per_release of tiny"),
        (nothing, {"epsilon_by_reader"}, "tolerated_and_kept; accuracy"),
    ):
        out = tmp_path / f"out {len(text)}"
        result = run(written(tmp_path, text), "--out", str(out))
        assert result.exit_code == 0, result.stderr
        assert {file.stem for file in out.iterdir()} == {"budget", *figures}
        lines = [f"nothing to draw, and left out: {said}", f"figures and data in {out}"]
        assert result.stderr.splitlines() == lines
    assert "0.00" in printed(written(tmp_path, mixed))


def test_the_same_epsilon_is_shown_everywhere_after_rounding(tmp_path: Path) -> None:
    path = written(tmp_path, 'round_down = 3\n[profile]\nkind = "difference"\nby = 0.2\n')
    text, found = printed(path), epsilon_answer.figures(epsilon_answer.work_out(load_profile_file(path)))
    assert "epsilon = 0.405, rounded down from 0.4054," in flat(text)
    assert re.search(r"^ +0\.405 ", text, re.MULTILINE)
    assert re.search(r"pure DP +exact +epsilon = 0\.405", text)
    assert "(the last two bounds: at the epsilon rounded down)" in flat(text)
    titles = {name: " ".join(figure.get_suptitle().split()) for name, figure in found.items()}
    assert "epsilon = 0.4054 (recommended, rounded down: 0.405)" in titles["epsilon_by_reader"]
    assert titles["tolerated_and_kept"].startswith("At epsilon = 0.405, rounded down from 0.4054,")
    digits = re.compile(r"0\.40\d+")
    assert {x for title in titles.values() for x in digits.findall(title)} == {"0.405", "0.4054"}


def test_noise_of_several_releases_is_shown_with_its_parameter(tmp_path: Path) -> None:
    rate = '[utility]\nnoise = "laplace"\nbase = 1000\ntarget = 0.1\ndeviations = [0.01]\n'
    each = '[profiles.{}]\nkind = "difference"\nby = {}\n'
    both = each.format("a", 0.1) + each.format("b", 0.2)
    path = written(tmp_path, f"releases = 3\n{both}{rate}")
    lines = printed(path).splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"profile +epsilon +RMSE", line))
    for row, (name, one) in zip(lines[start + 1 :], answered(path)["profiles"].items(), strict=False):
        shown, given = row.split(), one["utility"]["parameter"]
        assert shown[0] == name
        assert given * 0.999 <= float(shown[1]) <= given
    once = written(tmp_path, both + rate.replace("laplace", "geometric"))
    assert re.search(r"profile +RMSE", run(once).stdout)


def test_text_of_a_file_is_shown_as_it_is(tmp_path: Path) -> None:
    name = "[bold red]strict[/] ${x}$ :smile: [link=file:///etc/passwd]"
    text = f'title = "[bold]a title[/oops] $x$"\n[profiles."{name}"]\nkind = "constant"\nratio = 2\n'
    text += f'[profiles.other]\nkind = "constant"\nratio = 3\n{RATE}'
    path, out = written(tmp_path, text), tmp_path / "out"
    result = run(path, "--out", str(out))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("[bold]a title[/oops] $x$\n")
    assert "[bold red]strict[/]" in result.stdout
    assert ":smile:" in result.stdout
    assert "\x1b" not in result.stdout
    assert name in answered(path)["profiles"]


def test_errors_are_one_line_exit_code_2_and_nothing_is_written(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN + RATE)
    bad = tmp_path / "bad.toml"
    before = sorted(tmp_path.iterdir())
    for text, arguments, words in (
        (PLAIN.replace("ratio = 3", "ration = 3"), (), "bad.toml: profile.ration: unknown key"),
        (PLAIN.replace("ratio = 3", "ration = 3"), (), "did you mean 'ratio'?"),
        (PLAIN.replace("ratio = 3", "ratio = 0.5"), (), "bad.toml: profile: ratio must be at least 1, got 0.5"),
        (PLAIN.replace("or absolute", "or absolut"), (), "did you mean 'ratio or absolute'?"),
        (PLAIN.replace("3", '\'__import__("os").system("echo")\''), (), "bad.toml: profile.ratio: must be a number"),
        (PLAIN + RATE.replace("4012", "-1"), (), "bad.toml: utility.base: base must be at least 1, got -1"),
        ("[plan]\n" + PLAIN, (), "bad.toml: plan: this is a scenario file"),
        ("[profile\n", (), "bad.toml: not a TOML file"),
        (PLAIN, ("--statistic", "mean"), "statistic must be one of ('any', 'count'), got 'mean'"),
        (PLAIN, ("--round-down", "two"), "--round-down must be a whole number, got 'two'"),
        (PLAIN, ("--round-down", "-1"), "round_down must be at least 0, got -1"),
        (PLAIN, ("--round-down", "400"), "round_down must be at most 15, got 400"),
    ):
        bad.write_text(text)
        result = run(str(bad), *arguments, "--out", str(tmp_path / "out"))
        assert (result.exit_code, result.stdout) == (2, ""), text
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
        assert words in result.stderr
        bad.unlink()
        assert sorted(tmp_path.iterdir()) == before, text
    for missing in (str(tmp_path / "nowhere.toml"), str(tmp_path)):
        result = run(missing)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: {missing}: ")
    assert run(path, "--json").exit_code == 0


def test_out_writes_the_figures_twice_and_the_data_once(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    result = run(str(SURVEY), "--out", str(out), "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"figures and data in {out}\n"
    assert json.loads(result.stdout) == answered(str(SURVEY))
    names = ("epsilon_by_reader", "tolerated_and_kept", "accuracy", "per_release")
    assert {file.name for file in out.iterdir()} == {"budget.nc", *(f"{n}.{k}" for n in names for k in ("svg", "png"))}
    tree = xr.open_datatree(out / "budget.nc", engine="h5netcdf")
    found = answered(str(SURVEY))
    row = tree["recommended"].to_dataset().isel(profile=0)
    assert (float(row["epsilon"]), float(row["loss"])) == (found["epsilon"], found["loss"])
    assert list(tree["forms"]["parameter"].isel(profile=0).values) == [form["parameter"] for form in found["forms"]]
    surface, profile = tree["readers"].to_dataset().isel(profile=0), load_profile_file(SURVEY).profiles[""]
    np.testing.assert_array_equal(surface["tolerated"], profile(surface["inclusion"], surface["value"]))
    assert set(tree.children) == {"recommended", "readers", "forms", "releases", "utility"}
    tree.close()


def test_a_failure_while_drawing_leaves_the_directory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, PLAIN)
    old, new = tmp_path / "old", tmp_path / "new" / "deep"
    assert run(path, "--out", str(old)).exit_code == 0
    before = {file: file.read_bytes() for file in old.iterdir()}
    saved: list[str] = []

    def failing(figure: Figure, file: Path, **more: Any) -> None:
        saved.append(file.name)
        file.write_text("half")
        if len(saved) % 3 == 0:
            raise OSError("no space left on device")

    monkeypatch.setattr(Figure, "savefig", failing)
    for out in (old, new):
        result = run(path, "--out", str(out))
        assert (result.exit_code, result.stdout) == (2, "")
        assert re.fullmatch(rf"error: cannot write {out}/\w+\.\w+: no space left on device\n", result.stderr)
    assert {file: file.read_bytes() for file in old.iterdir()} == before
    assert sorted(tmp_path.iterdir()) == [old, tmp_path / "profile.toml"]


def test_a_directory_that_cannot_be_written_is_told_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(epsilon_answer, "work_out", lambda *_: pytest.fail("computed too early"))
    result = run(str(SURVEY), "--out", str(tmp_path / "file"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: cannot write into ")


def test_tables_and_json_start_without_pymc_matplotlib_or_jinja2(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN)
    code = f"""
import sys
sys.modules["dask"] = None  # where it is installed xarray imports it, and it imports Jinja2
from adversary.desk.commands import app
for more in ([], ["--json"], ["--help"]):
    try:
        app(["epsilon", {path!r}, *more], standalone_mode=False)
    except SystemExit:
        pass
heavy = {{"pymc", "pytensor", "arviz", "matplotlib", "jinja2", "numba"}} & set(sys.modules)
print("HEAVY", sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "HEAVY []"
