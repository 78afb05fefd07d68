"""The command line: tables, one JSON object, a report; errors in one line with nothing written; a light start."""

import json
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import typer.core
import xarray as xr

import adversary as adv
from adversary._core.blocks import simulate
from adversary.report.answers import audit_answer, bounds_answer
from adversary.report.commands import cli, setup_commands
from adversary.report.kit import Figure
from adversary.report.kit import rendering as rendering
from adversary.report.sections import method_sections
from tests import commands
from tests.tables import DATA

GRANVILLE, DARE = str(DATA / "granville_1940.toml"), str(DATA / "dare_1940.toml")
LEVEL = '[[plan.level]]\nname = "{}"\nnoise = "gaussian"\nrho = 0.1\n'
SIDED = ("posterior", "ratio")
SIMULATED = (
    'title = "simulated"\nneighbours = "unbounded"\n[plan]\n'
    + LEVEL.format("block")
    + "siblings = 2\n"
    + LEVEL.format("tract")
    + "[truth]\nblock = 1\ntract = 3\n[adversaries.a]\nprior = 0.5\nknown = 0\n"
    + "[adversaries.a.beliefs]\ntract = { upper = 6 }\n"
    + "[adversaries.b]\nprior = 0.5\nknown = 0\n[adversaries.b.beliefs]\ntract = { total = 2 }\n"
)


run, number = commands.run, commands.number
answered = partial(commands.answered, "audit", silent=False)


def simulated(folder: Path) -> str:
    path = folder / "simulated.toml"
    path.write_text(SIMULATED, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("more", "correct"), [([], 0.318191), (["--truth", "block group=10"], 0.589726)])
def test_the_worked_scenario_answers_in_one_json_object(more: list[str], correct: float) -> None:
    answer = answered(GRANVILLE, *more)
    assert number(answer, "prob_correct", group="risk") == pytest.approx(correct, abs=1e-6)
    mean = number(answer, "posterior_mean", group="risk")
    assert number(answer, "ratio_mean", group="risk") == pytest.approx(2 * mean)
    assert number(answer, "tie_mass", group="risk") == 0.0
    assert answer["title"] == "One person in enumeration district 39-14, 1940"
    told = answer["attributes"]
    assert (told["engine"], told["neighbours"]) == ("exact", "unbounded")
    assert json.loads(told["truth"]) == {"truth": {"block": 1, "block group": 10 if more else 1}}
    assert all(row["error"] is None for row in answer["records"])


@pytest.mark.slow
def test_a_caution_is_on_the_screen_in_json_in_the_data_and_on_the_page(tmp_path: Path) -> None:
    told = (
        "These averages lean towards “out”, because the belief about the block group is flat without an upper end and"
    )
    assert told in commands.flat(commands.printed("audit", GRANVILLE))
    assert [line.startswith(told) for line in answered(GRANVILLE)["warnings"]] == [True]
    assert answered(GRANVILLE, "--truth", "block group=10")["warnings"] == []
    assert "Take care" not in commands.printed("audit", DARE)
    scenario = adv.load_scenario(GRANVILLE)
    truths = {
        "small": scenario.truth,
        "large": {"block": 1, "block group": 40},
        "other": {"block": 1, "block group": 2},
    }
    tree = adv.audit(scenario.plan, {"a": scenario.adversary, "b": scenario.adversary}, truths, rng=1)
    (both,) = json.loads(tree.attrs["warnings"])
    assert both.startswith(told.replace("(1)", "(1 or 2)"))
    assert told in commands.flat(commands.printed("explain", GRANVILLE))
    ranges = tmp_path / "ranges.toml"
    text = Path(GRANVILLE).read_text(encoding="utf-8")
    ranges.write_text(text + "\n[sensitivity]\nprior = [0.1, 0.5]\n", encoding="utf-8")
    assert told in commands.flat(commands.printed("sensitivity", str(ranges)))
    (line,) = commands.answered("sensitivity", str(ranges))["warnings"]
    assert line.startswith(told)


def test_a_further_group_is_worked_out_where_it_is_named() -> None:
    alone, more = (answered(str(DATA / "dare_1940_republished.toml"), *also) for also in ((), ("--also", "repeated")))
    assert {one["group"] for one in more["records"]} - {one["group"] for one in alone["records"]} == {"repeated"}
    assert [one for one in more["records"] if one["group"] != "repeated"] == alone["records"]
    refused = run("audit", DARE, "--also", "risk")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--also must be one of 'priors', 'repeated', 'postprocessing', 'budgets', got 'risk'" in refused.stderr


@pytest.mark.slow
def test_a_warning_of_python_is_one_line(tmp_path: Path) -> None:
    code = f"""
import sys, warnings
from adversary.report.answers import audit_answer
from adversary.report.commands import cli
audit_answer.audit = lambda *_, **__: warnings.warn("a block is damaged", RuntimeWarning) or sys.exit(0)
sys.argv = ["adversary", "audit", {DARE!r}]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "warning: a block is damaged\n")


def test_bounds_are_keyed_by_definition_and_lie_about_the_prior() -> None:
    answer = answered(GRANVILLE)
    definitions = [row["definition"] for row in commands.rows(answer, "status", group="bound")]
    assert definitions == ["zCDP", "approximate DP", "privacy loss"]
    for name in definitions:
        ends = {key: [row["value"] for row in commands.rows(answer, key, definition=name)] for key in SIDED}
        assert ends["posterior"][0] < 0.5 < ends["posterior"][1]
        assert ends["ratio"][0] < 1 < ends["ratio"][1]
        assert [number(answer, key, definition=name) for key in ("failure", "k", "status")] == [0.05, 1, "holds"]
    directions = [row["direction"] for row in commands.rows(answer, "ratio", definition="zCDP")]
    assert directions == ["lower", "upper"]


def test_several_readers_are_keyed_by_name() -> None:
    answer = answered(DARE)
    readers = [row["adversary"] for row in commands.rows(answer, "posterior_mean", group="risk")]
    assert readers == ["1/2", "1/5", "1/10", "1/50", "1/864"]
    mean = number(answer, "posterior_mean", group="risk", adversary="1/10")
    assert mean == pytest.approx(0.1167606, abs=1e-6)
    assert number(answer, "status", adversary="1/864", definition="zCDP") == "holds"


def test_several_truths_lie_inside_the_readers(tmp_path: Path) -> None:
    path = tmp_path / "truths.toml"
    text = Path(GRANVILLE).read_text(encoding="utf-8").replace("[truth]", "[truths.in]")
    path.write_text(text + '\n[truths.out]\nblock = 0\n"block group" = 0\n', encoding="utf-8")
    answer = answered(str(path))
    for truth, correct in (("in", 0.318191), ("out", 0.889271)):
        assert number(answer, "prob_correct", group="risk", truth=truth) == pytest.approx(correct, abs=1e-6)
        assert len(commands.rows(answer, "status", group="bound", truth=truth)) == 3


def test_what_no_promise_limits_is_null_not_infinity(tmp_path: Path) -> None:
    path = tmp_path / "unlimited.toml"
    text = Path(GRANVILLE).read_text(encoding="utf-8").replace('prior = "1/2"', "prior = 0.0")
    path.write_text(text, encoding="utf-8")
    answer = answered(str(path), "--failure", "0")
    assert number(answer, "ratio", definition="zCDP", side="upper") is None
    assert [row["value"] for row in commands.rows(answer, "posterior", definition="zCDP")] == [0.0, 0.0]


def test_failure_replaces_the_files_own() -> None:
    assert number(answered(GRANVILLE, "--failure", "0.01"), "failure", definition="zCDP") == 0.01


@pytest.mark.slow
def test_simulated_answers_carry_standard_errors_and_repeat(tmp_path: Path) -> None:
    path = simulated(tmp_path)
    one, two = (answered(path, "--draws", "2048") for _ in range(2))
    assert one == two
    (mean,) = commands.rows(one, "posterior_mean", group="risk", adversary="a")
    assert 0 < mean["error"] < 0.02
    assert mean["direction"] == "estimate"
    other = answered(path, "--draws", "2048", "--seed", "7")
    assert mean["value"] != number(other, "posterior_mean", group="risk", adversary="a")


def test_the_screen_shows_readers_and_bounds() -> None:
    result = run("audit", DARE, "--full")
    assert result.exit_code == 0
    text = result.stdout
    for part in ("One person in enumeration district 28-21", "1/864", "52.4%", "zCDP", "holds", "exact"):
        assert part in text


def test_a_false_promise_is_called_false_on_screen(tmp_path: Path) -> None:
    path = tmp_path / "false.toml"
    text = Path(DARE).read_text(encoding="utf-8").replace('zCDP = "sum of levels"', "zCDP = 0.089")
    path.write_text(text, encoding="utf-8")
    shown = run("audit", str(path))
    assert "Guarantee zCDP is violated" in shown.stdout
    assert shown.exit_code == 0
    both = tmp_path / "both.toml"
    both.write_text(f'{text}\n[profile]\nkind = "difference"\nby = 0.05\n', encoding="utf-8")
    shown = run("audit", str(both))
    assert shown.stdout.count("violated") == 1
    assert "The risk profile is broken too." in " ".join(shown.stdout.split())
    checked = run("audit", str(path), "--check", "--quiet")
    assert (checked.exit_code, checked.stdout) == (3, "")
    (line,) = checked.stderr.splitlines()
    spent = re.fullmatch(
        r"check failed: guarantee zCDP is violated: it allows rho 0\.089, and the noise spends rho ([\d.]+)", line
    )
    assert spent is not None
    assert 0.09923 <= float(spent[1]) <= 0.0993  # the rho of the file's discrete Gaussian
    fine = run("audit", DARE, "--check", "--quiet")
    assert (fine.exit_code, fine.stdout, fine.stderr) == (0, "", "")


def test_ratios_are_audited_as_the_counts_underneath_and_said_so(tmp_path: Path) -> None:
    path = tmp_path / "ratios.toml"
    text = Path(DARE).read_text(encoding="utf-8")
    assert text.count("[plan]\n") == 1
    path.write_text(text.replace("[plan]\n", '[plan]\npublished = "ratios"\n'), encoding="utf-8")
    answer = answered(str(path))
    assert answer["attributes"]["published"] == "ratios"
    assert answer["warnings"][-1].startswith("Audited are the noisy counts under the ratios")
    words = method_sections.publication_words(adv.load_scenario(path))
    assert "Published are only ratios of these counts to one another or to other noisy numbers." in words


@pytest.mark.slow
def test_one_adversary_with_a_name_is_written_as_several_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Figure, "svg", "")
    path, out = tmp_path / "one.toml", tmp_path / "out"
    path.write_text(SIMULATED.split("[adversaries.b]")[0], encoding="utf-8")
    result = run("audit", str(path), "--out", str(out), "--draws", "50")
    assert result.exit_code == 0, result.stderr
    with xr.open_datatree(out / "data.nc", engine="h5netcdf") as tree:
        assert 0.0 < float(tree["risk"]["prob_correct"].squeeze()) < 1.0


@pytest.mark.slow
def test_workers_need_dask_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    result = run("audit", simulated(tmp_path), "--workers", "2", "--out", str(tmp_path / "report"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"error: .*adversary\[scale\].*\n", result.stderr)
    assert not (tmp_path / "report").exists()
    few = (simulated(tmp_path), "--draws", "2048")
    assert answered(*few, "--workers", "1") == answered(*few)


def test_blocks_are_kept_where_workers_died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*arguments: object, **options: object) -> None:
        simulate(lambda size, generator: np.ones(size), 1, 1, store=str(options["store"]))
        raise ChildProcessError("workers died 2 times over piece 1")

    monkeypatch.setattr(audit_answer, "audit", dies)
    result = run("audit", simulated(tmp_path), "--out", str(tmp_path / "report"))
    assert result.exit_code == 2
    assert result.stderr.startswith("error: workers died 2 times over piece 1 (the same command goes on from the")
    assert len(list((tmp_path / "report" / ".blocks").iterdir())) == 1


def test_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    out = str(tmp_path / "out")
    before = sorted(tmp_path.iterdir())
    for arguments, words in (
        (["nowhere.toml"], "nowhere.toml: No such file"),
        ([str(tmp_path)], "must be a file, got a folder"),
        ([GRANVILLE, "--truth", "block group"], "--truth must be LEVEL=COUNT"),
        ([GRANVILLE, "--truth", "block group=ten"], "--truth must be LEVEL=COUNT"),
        ([GRANVILLE, "--truth", "block group=1.5"], "must be a whole number, or one per cell, got 1.5"),
        ([GRANVILLE, "--truth", "block group=NaN"], "must be a whole number, or one per cell, got nan"),
        ([GRANVILLE, "--truth", "blok group=1"], "did you mean 'block group'"),
        ([DARE, "--truth", "block=2"], "outside the adversary's belief"),
        ([GRANVILLE, "--truth", "block group=0"], "cannot be smaller"),
        ([GRANVILLE, "--engine", "magic"], "engine must be one of"),
        ([GRANVILLE, "--draws", "0"], "draws must be at least 1"),
        ([GRANVILLE, "--seed", "-1"], "seed"),
        ([GRANVILLE, "--failure", "1.5"], "failure must be in [0, 1], got 1.5"),
        ([GRANVILLE, "--failure", "nan"], "failure must be in [0, 1], got nan"),
    ):
        result = run("audit", *arguments, "--out", out)
        assert result.exit_code == 2, arguments
        assert result.stdout == ""
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr), result.stderr
        assert words in result.stderr
        assert sorted(tmp_path.iterdir()) == before, arguments


@pytest.mark.slow
def test_the_report_of_another_scenario_is_replaced_by_force_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendering, "to_html", lambda _: "page")
    monkeypatch.setattr(Figure, "svg", "")
    assert run("audit", DARE, "--out", str(tmp_path)).exit_code == 0
    before = (tmp_path / "data.nc").read_bytes()
    refused = run("audit", GRANVILLE, "--out", str(tmp_path))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "has the report of another scenario; give another directory, or --force" in refused.stderr
    assert (tmp_path / "data.nc").read_bytes() == before
    assert run("audit", GRANVILLE, "--out", str(tmp_path), "--force").exit_code == 0
    assert (tmp_path / "data.nc").read_bytes() != before


def test_version_and_help() -> None:
    result = run("--version")
    assert re.fullmatch(r"adversary \d+\.\d+.*\n", result.stdout)
    assert "audit" in run("--help").stdout
    assert run("audit").exit_code == 2


def every_command(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    within = command.commands.items() if isinstance(command, typer.core.TyperGroup) else ()
    parts = (every_command(part, (*path, name)) for name, part in within)
    return {path: command} | {key: found for part in parts for key, found in part.items()}


EVERY_COMMAND = {(): typer.main.get_group(cli.app)} | {
    path: command for name in cli.COMMANDS for path, command in every_command(cli.load(name), (name,)).items()
}


def test_help_lists_the_commands_in_groups_in_the_order_in_which_they_are_needed() -> None:
    printed = commands.flat(run("--help").stdout)
    parts = [part for entry in cli.COMMANDS.values() for part in (entry.group,)]
    places = [printed.index(part) for part in dict.fromkeys(parts)]
    places += [printed.index(cli.help_of(name)[:40]) for name in cli.COMMANDS]
    assert sorted(places[:4]) == places[:4]
    assert sorted(places[4:]) == places[4:]
    assert next(iter(cli.COMMANDS)) == "audit"
    assert run("-h").stdout == run("--help").stdout
    assert run("bounds", "-h").stdout == run("bounds", "--help").stdout


@pytest.mark.parametrize(
    "path", [path for path in EVERY_COMMAND if path and not hasattr(EVERY_COMMAND[path], "commands")]
)
def test_the_example_of_a_command_is_one_that_it_takes(path: tuple[str, ...]) -> None:
    example = shlex.split(EVERY_COMMAND[path].epilog.removeprefix("Example: "))
    assert tuple(example[1 : 1 + len(path)]) == path
    EVERY_COMMAND[path].make_context(path[-1], example[1 + len(path) :])
    for word in example:
        assert not word.startswith("data/") or (DATA.parent / word).exists()


@pytest.mark.slow
def test_the_shell_completes_commands_and_options() -> None:
    asked = {
        "adversary b": "bounds",
        "adversary bounds --fa": "--failure",
        "adversary bounds --format j": "json",
        "adversary census s": "scenario",
    }
    code = f"""
import contextlib, os
from adversary.report.commands.cli import main
os.environ["_ADVERSARY_COMPLETE"] = "complete_bash"
for words in {list(asked)}:
    os.environ |= {{"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}}
    with contextlib.suppress(SystemExit):
        main()
    print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for found, completed in zip(done.stdout.split("end\n"), asked.values(), strict=False):
        assert completed in found.split()


def test_an_interruption_ends_with_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bounds_answer, "solve", interrupted)
    result = run("bounds", "--rho", "1")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_the_doctor_lists_what_is_installed_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = commands.answered("doctor")
    assert commands.number(answer, "version", package="numpy") == np.__version__
    assert commands.number(answer, "cores") >= 1
    assert set(commands.numbers(answer, "extra")) == {"", "elicit", "interop", "scale", "tables"}
    monkeypatch.setattr(setup_commands, "_version_of", lambda name: setup_commands.MISSING if name == "dask" else "1")
    assert "Extra `scale` is not installed: pip install 'dp-adversary[scale]'." in commands.printed("doctor")


def test_help_loads_no_numbers() -> None:
    code = (
        "import sys\nfrom adversary.report.commands.cli import app\n"
        "try:\n    app(['--help'])\nfinally:\n    assert not {'numpy', 'scipy', 'xarray', 'pandas'} & set(sys.modules)"
    )
    assert (
        "sensitivity" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    )


@pytest.mark.parametrize("path", EVERY_COMMAND, ids=" ".join)
def test_help_shows_every_word_that_was_written(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    printed = commands.flat(run(*path, "--help").stdout)
    command = EVERY_COMMAND[path]
    for text in (command.help, *(getattr(parameter, "help", None) for parameter in command.params)):
        assert commands.flat((text or "").replace("\\[", "[")) in printed


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "adversary", "-h"], capture_output=True, text=True, check=True)
    assert "audit" in done.stdout


def test_the_json_agrees_with_the_library() -> None:
    scenario = adv.load_scenario(GRANVILLE)
    tree = adv.audit(scenario.plan, scenario.adversary, scenario.truth, guarantee=scenario.guarantee, rng=2020)
    answer = answered(GRANVILLE)
    for name in ("posterior_mean", "ratio_mean", "prob_correct", "tie_mass"):
        assert number(answer, name, group="risk") == float(tree["risk"][name])
        for side in ("in", "out"):
            found = number(answer, name, group="both_truths", target=side)
            assert found == float(tree["both_truths"][name].sel(target=side))
    bound = tree["bound"].to_dataset().sel(definition="zCDP")
    assert [row["value"] for row in commands.rows(answer, "ratio", definition="zCDP")] == bound["ratio"].values.tolist()
