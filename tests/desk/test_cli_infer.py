"""`adversary infer`: the library's numbers, both readings side by side; plain text; errors in one line; files whole."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import adversary as adv
from adversary.analyst.bounded import bounded_posterior
from adversary.desk.answers import bounded_answer
from adversary.desk.files.release_file import load_release_file
from tests import commands
from tests.commands import flat

BLOOD = Path(__file__).parents[2] / "data" / "blood_lead.toml"
SMALL = "[release]\nmean = 0.3\nvariance = 0.02\nn = {n}\nepsilon = [1, 1]\nbounds = [0, 1]\n"
PLAIN = SMALL.format(n=12)
READINGS = {"constrained": True, "unconstrained": False}


run = partial(commands.run, "infer")
answered = cache(partial(commands.answered, "infer"))
printed = partial(commands.printed, "infer")


def written(folder: Path, text: str) -> str:
    path = folder / "release.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_json_is_the_posterior_of_the_library_both_with_the_bounds_and_without() -> None:
    answer, file = answered(str(BLOOD)), load_release_file(BLOOD)
    for name, constrained in READINGS.items():
        found, one = adv.bounded.posterior(file.release, file.prior, constrained), answer[name]
        for quantity in ("mu", "sigma", "sigma2"):
            at = one[quantity]
            assert (at["mean"], at["sd"]) == (found.mean(quantity), found.sd(quantity))
            assert at["mode"] == found.mode(quantity)
            assert at["hdi"] == list(found.hdi(quantity, 0.95))
            assert at["eti"] == list(found.eti(quantity, 0.95))
        new = found.predictive()
        assert one["predictive"] == {key: getattr(new, key) for key in ("mean", "sd", "below", "above", "outside")}
        assert (one["infeasible"], one["log_evidence"]) == (found.infeasible, found.log_evidence)
        assert (one["quadrature_error"], one["cap"]) == (found.quadrature_error, found.largest)
    assert (answer["main"], answer["prob"], answer["notes"]) == ("constrained", 0.95, [])
    assert answer["release"]["epsilon"] == [0.25, 0.25]
    assert answer["prior"] == {"kind": "normal-inverse-gamma", "mu0": 12.5, "kappa0": 1, "nu0": 1, "s0": 3.8}


def test_published_example_four_is_on_the_screen() -> None:
    """BI11: informative prior, 0-100 scale."""
    text = printed(str(BLOOD))
    rows = [re.findall(r"-?\d[\d.]*", line) for line in text.splitlines() if re.search(r"bounds +mean", line)]
    constrained, unconstrained = ([float(x) for x in row] for row in rows)
    assert constrained[:2] == pytest.approx([22.540, 11.114], rel=1e-3)
    assert unconstrained[:2] == pytest.approx([22.809, 11.960], rel=1e-3)
    assert unconstrained[3:5] == pytest.approx([4.02, 47.71], abs=0.15)
    assert answered(str(BLOOD))["unconstrained"]["infeasible"] == pytest.approx(0.1007, abs=1e-3)
    assert "10 % of its belief" in flat(text)
    assert "using the bounds ignoring the bounds" in flat(text)


def test_the_conclusion_is_plain_and_says_what_was_read(tmp_path: Path) -> None:
    words = answered(str(BLOOD))["conclusion"].replace("\u00a0", " ")
    low, high = answered(str(BLOOD))["constrained"]["mu"]["hdi"]
    said = re.search(r"With probability 95 % the mean of blood lead is ([\d.]+) to ([\d.]+) micrograms/dL;", words)
    assert said is not None
    assert low - 0.1 <= float(said[1]) <= low
    assert high <= float(said[2]) <= high + 0.1
    assert "every value is between 0 and 100 costs no privacy" in words
    other = answered(str(BLOOD), "--unconstrained", "--prior", "flat", "--prob", "1/2")
    words = other["conclusion"].replace("\u00a0", " ")
    assert words.startswith("With probability 50 % the mean of blood lead is ")
    assert "This reading gives 61 % of its belief to means and deviations that no such data have" in words
    assert "would make the interval of the mean" in words
    assert (other["main"], other["prior"]) == ("unconstrained", {"kind": "flat"})


def test_options_replace_what_the_file_says(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN + "[posterior]\nprob = 0.5\nfeasibility = 'normalised'\ncap = 3\n")
    release = load_release_file(path).release
    prior = adv.bounded.NormalInverseGamma(0.4, 2.0, 3.0, 0.2)
    for arguments, believed, prob in (
        ((), "flat", 0.5),
        (("--prob", "0.9"), "flat", 0.9),
        (("--prior", "0.4,2,3,0.2"), prior, 0.5),
    ):
        answer = answered(path, *arguments)
        for name, constrained in READINGS.items():
            feasibility = "normalised" if constrained else "event"
            found = adv.bounded.posterior(release, believed, constrained, feasibility, cap=3.0)
            assert answer[name]["mu"]["hdi"] == list(found.hdi("mu", prob))
    text = printed(path, "--unconstrained")
    assert text.index("ignoring the bounds  mean") < text.index("using the bounds     mean")


def test_one_statistic_and_gaussian_noise_are_read_too(tmp_path: Path) -> None:
    text = "[release]\nmean = 0.3\nn = 12\nrho = 0.5\nbounds = [0, 1]\n"
    answer = answered(written(tmp_path, text))
    found = adv.bounded.posterior(adv.bounded.BoundedRelease(0.3, None, 12, rho=0.5))
    assert answer["constrained"]["mu"]["mean"] == found.mean("mu")
    assert answer["release"]["variance"] is None
    assert answer["release"]["rho"] == [0.5, None]
    assert "mean 0.3 (Gaussian noise, rho = 0.5)." in flat(printed(str(tmp_path / "release.toml")))


def test_a_reading_that_does_not_exist_is_said_with_its_reason(tmp_path: Path) -> None:
    """Theorem 18: with a flat prior and no bounds the posterior is improper for n = 3."""
    path = written(tmp_path, SMALL.format(n=3))
    answer = answered(path)
    assert "Theorem 18" in answer["unconstrained"]["refused"]
    assert answer["constrained"]["refused"] is None
    shown = flat(printed(path))
    assert "There is no answer ignoring the bounds: " in shown
    assert "nothing would follow" in shown
    out = tmp_path / "out"
    result = run(path, "--unconstrained", "--out", str(out))
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)
    assert result.stderr.startswith(f"error: {path}: ")
    assert "Theorem 18" in result.stderr
    assert not out.exists()


def test_warnings_about_the_numbers_are_told_as_notes(tmp_path: Path) -> None:
    text = PLAIN.replace("mean = 0.3", "mean = 30") + "[prior]\nkind = 'normal-inverse-gamma'\n"
    path = written(tmp_path, text + "mu0 = 0.3\nkappa0 = 1\nnu0 = 0.05\ns0 = 0.1\n")
    far, weak = answered(path)["notes"]
    assert "did you forget bounds=?" in far
    assert "nu0 = 0.05 is below 0.1" in weak
    shown = flat(printed(path))
    assert shown.count("Note: ") == 2
    assert "did you forget bounds=? Note: " in shown
    assert "?." not in shown


def test_the_error_of_the_quadrature_and_its_cap_are_on_the_screen() -> None:
    text, answer = printed(str(BLOOD)), answered(str(BLOOD))
    assert answer["unconstrained"]["cap"] == pytest.approx(1e4 * 42 / (2 * 43 * 0.25))
    assert re.search(r"largest variance looked at +2500 +19535\n", text)
    errors = re.search(r"numerical error, estimated +(\S+) +(\S+)\n", text)
    assert errors is not None
    for shown, name in zip(errors.groups(), ("constrained", "unconstrained"), strict=True):
        assert float(shown) == pytest.approx(answer[name]["quadrature_error"], rel=0.5)


def test_an_answer_that_has_not_converged_is_told_on_the_screen_and_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved = bounded_posterior.solve_all
    monkeypatch.setattr(bounded_posterior, "solve_all", lambda q: replace(solved(q), quadrature_error=np.array([0.03])))
    path = written(tmp_path, PLAIN)
    notes = commands.answered("infer", path)["notes"]
    assert [re.match("the numbers (.*?) are not to be used", note)[1] for note in notes] == [  # type: ignore[index]
        "using the bounds",
        "ignoring the bounds",
    ]
    assert "(estimated error 3e-02)" in notes[0]
    assert flat(printed(path)).count("are not to be used") == 2


def test_means_that_do_not_exist_are_said_not_to_where_there_is_no_cap(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL.format(n=4) + "[posterior]\nconstrained = false\ncap = inf\n")
    answer = answered(path)
    one, text = answer["unconstrained"], printed(path)
    assert (one["cap"], one["mu"]["mean"], one["sigma2"]["mean"]) == (None, None, None)
    assert re.search(r"largest variance looked at +any +0\.2500\n", text)
    assert re.search(r"ignoring the bounds +mean +none +unlimited +0\.3", text)
    assert re.search(r" variance +unlimited +unlimited", text)
    assert re.search(r"a new value: mean +none +0\.\d+\n", text)


def test_text_of_a_file_is_shown_as_it_is(tmp_path: Path) -> None:
    text = 'title = "[bold]a title[/oops] $x$"\nquantity = "[red]x[/]"\nunit = ":smile:"\n'
    result = run(written(tmp_path, text + PLAIN))
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("[bold]a title[/oops] $x$\n")
    assert "the mean of [red]x[/] is" in flat(result.stdout)
    assert ":smile:" in result.stdout
    assert "\x1b" not in result.stdout


def test_errors_are_one_line_exit_code_2_and_nothing_is_written(tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    before = sorted(tmp_path.iterdir())
    for text, arguments, words in (
        (PLAIN.replace("variance", "varience"), (), "bad.toml: release.varience: unknown key"),
        (PLAIN.replace("variance", "varience"), (), "did you mean 'variance'?"),
        (PLAIN.replace("n = 12", "n = 1"), (), "bad.toml: release: n must be at least 2, got 1"),
        (PLAIN + "[prior]\nkind = 'jeffreys'\n", (), "improper posterior"),
        (PLAIN, ("--prior", "jeffreys"), "improper posterior"),
        (PLAIN, ("--prior", "1,2"), "--prior must be"),
        (PLAIN, ("--prob", "95"), "prob must be between 0 and 1, both excluded, got 95"),
        (PLAIN, ("--prob", "most"), "--prob must be a number such as 0.1"),
    ):
        bad.write_text(text)
        result = run(str(bad), *arguments, "--out", str(tmp_path / "out"))
        assert (result.exit_code, result.stdout) == (2, ""), text
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
        assert words in result.stderr
        bad.unlink()
        assert sorted(tmp_path.iterdir()) == before, text
    missing = str(tmp_path / "nowhere.toml")
    result = run(missing)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {missing}: ")


def test_out_writes_the_figures_twice_and_the_data_once(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    result = run(str(BLOOD), "--out", str(out), "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == f"figures and data in {out}\n"
    assert json.loads(result.stdout) == answered(str(BLOOD))
    names = ("marginals", "joint", "predictive")
    files = {"posterior.nc", *(f"{name}.{kind}" for name in names for kind in ("svg", "png"))}
    assert {file.name for file in out.iterdir()} == files
    file = load_release_file(BLOOD)
    expected = adv.bounded.posterior(file.release, file.prior).to_xarray()
    with xr.open_datatree(out / "posterior.nc", engine="h5netcdf") as tree:
        assert tree.attrs["title"] == "Blood lead of 43 people"
        for group in expected.children:
            for name, values in expected[group].to_dataset().data_vars.items():
                np.testing.assert_array_equal(tree[group][name].values, values.values)
        assert set(tree["unconstrained"].children) == set(expected.children)
        draws = tree["posterior"]["mu"]
        assert draws.dims == ("chain", "draw")
        mean, sd = (float(expected["summary"]["mu"].sel(measure=measure)) for measure in ("mean", "sd"))
        assert abs(float(draws.mean()) - mean) < 5.0 * sd / draws.size**0.5


def test_a_failure_while_drawing_leaves_the_directory_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, new = written(tmp_path, PLAIN), tmp_path / "new" / "deep"

    def failing(figure: Figure, file: Path, **more: Any) -> None:
        file.write_text("half")
        if file.suffix == ".png":
            raise OSError("no space left on device")

    monkeypatch.setattr(Figure, "savefig", failing)
    monkeypatch.setattr(bounded_answer, "figures", lambda answer: {"one": Figure(), "two": Figure()})
    result = run(path, "--out", str(new))
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(rf"error: cannot write {new}/\w+\.\w+: no space left on device\n", result.stderr)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "release.toml"]


def test_a_directory_that_cannot_be_written_is_told_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(bounded_answer, "work_out", lambda *_: pytest.fail("computed too early"))
    result = run(str(BLOOD), "--out", str(tmp_path / "file"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: cannot write into ")


def test_tables_and_json_start_without_pymc_matplotlib_or_jinja2() -> None:
    code = f"""
import sys
from adversary.desk.commands import app
for more in ([], ["--json"], ["--help"]):
    try:
        app(["infer", {str(BLOOD)!r}, *more], standalone_mode=False)
    except SystemExit:
        pass
heavy = {{"pymc", "pytensor", "arviz", "matplotlib", "jinja2"}} & set(sys.modules)
print("HEAVY", sorted(heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "HEAVY []"
