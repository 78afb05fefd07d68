"""What all commands have in common, each with a small question: records, forms, files, refusals, a light start."""

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import html5lib
import pytest
import xarray as xr

from adversary.report.kit import FORMS, Card, Document, Figure, Section, Table, as_json, output, records
from tests import commands
from tests.tables import DATA

BLOOD, CIRRHOSIS = (str(DATA / f"{name}.toml") for name in ("blood_lead", "cirrhosis_regression"))
DISTRICT, TOWN = (str(DATA / f"{name}.toml") for name in ("districts_1940_total", "town_table"))


@dataclass(frozen=True)
class Question:
    """Arguments of a command, what computes its answer, and an option that is refused.

    `computes` is a module below `adversary` and a name in it.
    """

    arguments: tuple[str, ...]
    computes: tuple[str, str]
    refused: tuple[str, ...]
    light: bool = True
    tables: bool = True
    compiled: bool = False


QUESTIONS = {
    "explain": Question(
        ("explain", "--epsilon", "1"), ("report.answers.explain_answer", "solve"), ("--audience", "judge"), False, False
    ),
    "infer": Question(
        ("infer", BLOOD), ("bounded.report.bounded_answer", "solve"), ("--prior", "jeffreys"), compiled=True
    ),
    "invariants": Question(
        ("invariants", DISTRICT), ("report.commands.invariants_command", "audit"), ("--failure", "2")
    ),
    "invariants of a table": Question(
        ("invariants", TOWN), ("report.answers.table_answer", "solve"), ("--truth", "a=1")
    ),
    "infer a line": Question(
        ("infer", CIRRHOSIS), ("bounded.report.regression_answer", "solve"), ("--prior", "jeffreys"), light=False
    ),
    "audit": Question(
        ("audit", str(DATA / "dare_1940.toml")), ("report.answers.audit_answer", "solve"), ("--truth", "block=ten")
    ),
    "tables": Question(
        ("tables", str(DATA / "town_counts.csv"), "--epsilon", "2", "--levels", "block,group", "--counts", "renters"),
        ("report.answers.tables_answer", "solve"),
        ("--prior", "2"),
        light=False,
    ),
    "plan": Question(
        (
            "plan",
            str(DATA / "town_counts.csv"),
            *("--profile", str(DATA / "survey_profile.toml"), "--levels", "block,group,tract"),
        ),
        ("report.answers.tables_answer", "solve_plan"),
        ("--levels", "street"),
        light=False,
    ),
    "sensitivity": Question(
        ("sensitivity", str(DATA / "clinic_visits.toml")),
        ("report.sections.sensitivity_sections", "solve"),
        ("--truth", "patients=ten"),
        light=False,
    ),
    "epsilon": Question(
        ("epsilon", str(DATA / "durham_infant_mortality.toml")),
        ("report.answers.epsilon_answer", "solve"),
        ("--round-down", "two"),
    ),
    "bounds": Question(("bounds", "--mu", "1"), ("report.answers.bounds_answer", "solve"), ("--prior", "2")),
    "census scenario": Question(
        ("census", "scenario", "A"), ("census.report.census_answer", "_powers"), ("--level", "1.5")
    ),
    "doctor": Question(("doctor",), ("report.commands.setup_commands", "examine"), (), compiled=True),
    "census list": Question(("census", "scenario"), ("census.report.census_answer", "prices"), ("--cells", "none")),
}
every_command = pytest.mark.parametrize("name", QUESTIONS)
pytestmark = pytest.mark.slow_cases("census scenario", "epsilon", "infer", "infer a line")


@pytest.fixture(scope="module", autouse=True)
def computed_once() -> Iterator[None]:
    """What is asked again is not computed again: what is tested here is what is shown and written of an answer."""

    def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[str, Any] = {}

        def solve(*given: Any, **how: Any) -> Any:
            asked = repr((given, how))
            if asked not in known:
                known[asked] = function(*given, **how)
            return known[asked]

        return solve

    with pytest.MonkeyPatch.context() as patch:
        for module, name in {one.computes for one in QUESTIONS.values()}:
            place = import_module(f"adversary.{module}")
            patch.setattr(place, name, remembered(getattr(place, name)))
        yield


@cache
def answered(name: str) -> dict[str, Any]:
    return commands.answered(*QUESTIONS[name].arguments, silent=False)


@pytest.fixture(scope="module", params=QUESTIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A command and the directory it wrote, which it made."""
    name = str(request.param)
    out = tmp_path_factory.mktemp("desk") / "a" / name
    result = commands.run(*QUESTIONS[name].arguments, "--out", str(out), "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr.splitlines()[-1] == f"page, tables, figures and numbers in {out}"
    found = json.loads(result.stdout)["records"]  # of an audit, more than it says without a page
    assert all(one in found for one in answered(name)["records"])
    return name, out


@every_command
def test_records_have_the_same_keys_in_every_answer(name: str) -> None:
    answer = answered(name)
    assert set(answer) == {"schema", "title", "attributes", "verdict", "warnings", "records"}
    assert answer["schema"] == 1
    assert answer["records"]
    for one in answer["records"]:
        assert {"group", "quantity", "value", "error", "direction"} <= set(one)
        assert one["direction"] in ("exact", "estimate", "lower", "upper")


@every_command
def test_json_is_made_of_the_numbers_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(*_: object) -> None:
        raise AssertionError

    answer = answered(name)
    for part in (Section, Table):
        monkeypatch.setattr(part, "__post_init__", made)
    for part in (Card, Document, Figure):
        monkeypatch.setattr(part, "__init__", made)
    result = commands.run(*QUESTIONS[name].arguments, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, answer)


@pytest.mark.slow_cases("audit")
def test_the_records_are_the_numbers_of_the_data_file(written: tuple[str, Path]) -> None:
    name, out = written
    answer = answered(name)
    with xr.open_datatree(out / output.DATA, engine="h5netcdf") as tree:
        assert as_json(tree)["title"] == answer["title"]
        assert as_json(tree)["verdict"] == answer["verdict"]
        groups = dict.fromkeys(one["group"] for one in answer["records"])
        assert [row for group in groups for row in records(tree[group].to_dataset(), group)] == answer["records"]


@pytest.mark.slow_cases("audit")
def test_the_page_is_html_that_needs_nothing_outside_itself(written: tuple[str, Path]) -> None:
    _, out = written
    text = (out / output.PAGE).read_text(encoding="utf-8")
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    pictures = list(page.iter("figure"))
    assert len(pictures) == len(list(out.glob("*.svg")))
    for picture in pictures:
        drawn = [part for part in picture.iter() if part.tag.endswith("svg")]
        assert drawn
        assert all(part.get("aria-label") for part in drawn)
    assert not [part for part in page.iter() if part.tag in ("script", "link", "iframe") or part.get("srcset")]
    identifiers = [part.get("id") for part in page.iter() if part.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    assert {link.get("href") for link in page.iter("a")} <= {f"#{one}" for one in identifiers}
    assert len(text.encode()) < 1.5e6


def test_every_table_is_a_file_of_as_many_columns_in_every_row(written: tuple[str, Path]) -> None:
    name, out = written
    tables = sorted(out.glob("*.csv"))
    assert bool(tables) == QUESTIONS[name].tables
    for path in tables:
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
        assert {len(row) for row in rows} == {len(rows[0])}
    assert {path.suffix for path in out.iterdir()} <= {".html", ".nc", ".csv", ".svg"}
    if name == "audit":
        assert all((out / one).exists() for one in ("averages.csv", "bounds.csv", "beliefs.svg", "tests.svg"))


@pytest.mark.slow_cases("plan")
@every_command
def test_every_form_is_printed(name: str) -> None:
    arguments = QUESTIONS[name].arguments
    shown = {form: commands.run(*arguments, "--format", form) for form in FORMS if form != "json"}
    assert {result.exit_code for result in shown.values()} == {0}
    title = answered(name)["title"]
    assert shown["text"].stdout.startswith(title)
    assert shown["md"].stdout.startswith("# ")
    assert ("\n# " in f"\n{shown['csv'].stdout}") == QUESTIONS[name].tables
    assert commands.run(*arguments, "--quiet").stdout == ""


@every_command
def test_refusals_come_before_anything_is_computed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = QUESTIONS[name]
    module, function = question.computes
    if question.refused:
        commands.refused(tmp_path, *question.arguments, *question.refused, words=question.refused[-1])
    monkeypatch.setattr(
        import_module(f"adversary.{module}"), function, lambda *_, **__: pytest.fail("computed too early")
    )
    commands.refused(tmp_path, *question.arguments, "--format", "xml", words="--format must be one of text, json")
    for missing in (tmp_path / "nowhere.toml", tmp_path) * any(one.endswith(".toml") for one in question.arguments):
        asked = [str(missing) if one.endswith(".toml") else one for one in question.arguments]
        commands.refused(tmp_path, *asked, words=f"error: {missing}: ")
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        result = commands.run(*question.arguments, "--out", str(place))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: cannot write into ")


@pytest.mark.slow_cases("audit")
def test_a_page_that_fails_leaves_the_directory_as_it_was(
    written: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, out = written
    before = {path: path.read_bytes() for path in out.iterdir()}
    monkeypatch.setattr(Figure, "svg", property(lambda _: None))  # not drawn again
    put = output._write

    def full(hidden: Path, folder: Path, file: str, content: bytes) -> Path:
        if file.endswith(".csv") or (file == output.PAGE and not QUESTIONS[name].tables):
            raise OSError(f"cannot write {folder / file}: no space left on device")
        return put(hidden, folder, file, content)

    monkeypatch.setattr(output, "_write", full)
    for place in (out, tmp_path / "new"):
        result = commands.run(*QUESTIONS[name].arguments, "--out", str(place))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.splitlines()[-1].startswith(f"error: cannot write {place}/")
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    assert [path.name for path in (tmp_path / "new").iterdir()] == [output.DATA]
    assert result.stderr.endswith(f"(the numbers are in {tmp_path / 'new' / output.DATA}, without a page)\n")


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_answers_come_without_pymc_or_matplotlib(compiled: bool) -> None:
    """Without numba as well, where nothing has to be compiled."""
    asked = [one.arguments for one in QUESTIONS.values() if one.light and one.compiled is compiled]
    code = f"""
import sys
from adversary.report.commands import app
for arguments in {asked!r}:
    for more in ((), ("--format", "md"), ("--help",)):
        try:
            app([*arguments, *more], standalone_mode=False)
        except SystemExit:
            pass
heavy = {{"pymc", "pytensor", "arviz", "matplotlib", "numba"}} & set(sys.modules)
print("HEAVY", sorted(heavy - {{"numba"}} if {compiled} else heavy))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.splitlines()[-1] == "HEAVY []"


@pytest.mark.slow
def test_an_audit_as_json_loads_nothing_of_its_page() -> None:
    code = f"""
import sys
from adversary.report.commands import app
app({["audit", str(DATA / "dare_1940.toml"), "--json"]!r}, standalone_mode=False)
rooms = "figures", "sections", "words", "kit.document", "kit.rendering", "kit.tables"
loaded = [name for name in sys.modules if name.startswith(tuple(f"adversary.report.{{one}}" for one in rooms))]
print(loaded, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == "[]\n"
