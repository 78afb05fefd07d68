"""Names and titles of other people: nothing in them moves a cursor, turns a line, is read as markup or loses a file."""

from __future__ import annotations

import json
import re
import sys
import warnings
from html import unescape
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from unicodedata import category
from xml.etree.ElementTree import fromstring

import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import adversary as adv
from adversary.report.answers import audit_answer, audit_page
from adversary.report.commands import cli
from adversary.report.kit import Column, Figure, Table, rendering
from adversary.report.kit.rendering import to_csv, to_html
from adversary.report.kit.safe_text import print_error, printable, safe_names
from adversary.report.plot import sheet as style
from tests.commands import answered, flat, printed, rows, run
from tests.tables import DATA

HOSTILE = (
    "[/red]",
    "[bold]x",
    "\x1b[31mred\x1b]0;owned\x07",
    "a\u202eb\u2066c",
    "<script>alert(1)</script>",
    "$x^2$",
    "..",
)
HEBREW, EMOJI = "\u05e9\u05dc\u05d5\u05dd", "\U0001f469\u200d\U0001f52c"


@pytest.mark.slow
@given(st.text())
def test_what_is_shown_moves_no_cursor_and_turns_no_line(text: str) -> None:
    shown = printable(text)
    assert not {category(c) for c in shown} & {"Cc", "Cf", "Cs"} - {category(c) for c in "\u200c\n\t" if c in shown}
    assert not set(shown) & set("\x1b\x9b\x07\r\x08\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")
    assert printable(shown) == shown
    assert not text.isprintable() or shown == text


def test_scripts_and_joined_characters_stay() -> None:
    for text in (HEBREW, EMOJI, "a\u00a0b", "Zürich", "two\nlines"):
        assert printable(text) == text


@given(st.lists(st.text(max_size=120) | st.sampled_from(["a b", "a/b", "a_b", "A_B", "a_b_2", "..", ".", "", "\0"])))
def test_no_two_names_share_a_file_and_none_leaves_its_folder(names: list[str]) -> None:
    found = safe_names(names)
    assert list(found) == list(dict.fromkeys(names))
    assert len({name.casefold() for name in found.values()}) == len(found)
    for name in found.values():
        assert not name.startswith(".")
        assert not set(name) & set("/\0")
        assert len(name.encode()) < 400


LOOKALIKES = ("a b", "a_b", "..", "x/../y")


def hostile(tmp_path: Path, *, more: str = "") -> Path:
    """A scenario of which every name and text is written to do harm."""
    two = "[truths.{0}]\n{1} = 1\n{2} = {3}\n"
    block, tract = json.dumps("block [/red]\x1b[2J"), json.dumps("tract\u202e")
    level = '[[plan.level]]\nname = {}\nnoise = "geometric"\nepsilon = 4\n'
    reader = "[adversaries.{0}]\nprior = 0.3\nknown = 0\n[adversaries.{0}.beliefs]\n{1} = {{ upper = 6 }}\n"
    path = tmp_path / "hostile.toml"
    path.write_text(
        f"title = {json.dumps(' '.join(HOSTILE))}\ndescription = {json.dumps(HOSTILE[2])}\n"
        f"source = {json.dumps(HOSTILE[3])}\n"
        + 'neighbours = "unbounded"\n[plan]\n' + level.format(block) + "siblings = 1\n" + level.format(tract)
        + "".join(two.format(json.dumps(name), block, tract, 3 + i) for i, name in enumerate(LOOKALIKES))
        + reader.format(json.dumps(HOSTILE[0]), tract) + reader.format(json.dumps(HOSTILE[2]), tract)
        + '[guarantee]\n"pure DP" = { epsilon = 2 }\n' * 0 + more,
        encoding="utf-8",
    )  # fmt: skip
    return path


def harmless(text: str) -> bool:
    return not set(text) & set("\x1b\x07\u202e\u2066")


@pytest.mark.slow
def test_a_hostile_scenario_is_shown_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = hostile(tmp_path)
    shown = printed("audit", str(path))
    assert harmless(shown)
    for text in ("[/red]", "[bold]x", "[31mred]0;owned", "abc", "<script>", "block [/red][2J 1"):
        assert text in shown
    scenario = adv.load_scenario(path)
    page = to_html(audit_page.document(scenario, audit_answer.solve(scenario, rng=1)))
    assert harmless(page)
    assert "Left out" not in page
    assert "<script>" not in page
    assert "[31mred]0;owned" in unescape(page)
    means = rows(answered("audit", str(path)), "posterior_mean", group="risk", truth="..")
    assert [row["adversary"] for row in means] == [HOSTILE[0], HOSTILE[2]]


NAMED = """
neighbours = "unbounded"
[[plan.level]]
name = "block\\u009b2J"
noise = "geometric"
epsilon = 1
siblings = 2
[[plan.level]]
name = "group"
noise = "geometric"
epsilon = 1
[truths."T\\u0007"]
"block\\u009b2J" = 1
group = 3
[truths.other]
"block\\u009b2J" = 1
group = 4
[adversaries."\\u001b[31m"]
prior = 0.3
known = 0
beliefs = { group = { upper = 6 } }
[adversaries."second\\ufffe"]
prior = 0.1
known = 0
beliefs = { group = { upper = 6 } }
"""


@pytest.mark.parametrize("command", [pytest.param("audit", marks=pytest.mark.slow), "explain"])
def test_every_file_and_message_of_an_answer_is_harmless(command: str, tmp_path: Path) -> None:
    """Names of levels, truths and adversaries that are terminal commands, and no characters of an XML file."""
    path, out = tmp_path / "named.toml", tmp_path / "out"
    path.write_text(NAMED, encoding="utf-8")
    result = run(command, str(path), "--out", str(out))
    assert result.exit_code == 0, result.stderr
    texts = {one.name: one.read_text(encoding="utf-8") for one in out.iterdir() if one.suffix != ".nc"}
    for name, text in {"stdout": result.stdout, "stderr": result.stderr, **texts}.items():
        assert not set(text) & set("\x1b\x07\x9b\ufffe"), name
    for name, text in texts.items():
        if name.endswith(".svg"):
            fromstring(text)  # well-formed
    with xr.open_datatree(out / "data.nc", engine="h5netcdf") as tree:
        names = [str(name) for node in tree.subtree for name in (node.path, *node.variables, *node.dims)]
    assert all(name.isprintable() for name in names)
    for form in ("json", "csv", "md"):
        shown = run(command, str(path), "--format", form).stdout
        assert not set(shown) & set("\x1b\x07\x9b\ufffe"), form


def test_a_name_that_no_file_of_numbers_can_hold_is_refused_before_the_work(tmp_path: Path) -> None:
    path = tmp_path / "named.toml"
    path.write_text(NAMED.replace("T\\u0007", "T\\u0000"), encoding="utf-8")
    result = run("audit", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "must be without the character NUL" in result.stderr
    assert "\0" not in result.stderr


def test_a_table_as_csv_moves_no_cursor_and_holds_no_formula() -> None:
    table = Table([Column("=head\x1b[2J", "text")], [("\x1b=1+1",), ("a\x9bb",), ("\t=2",)])
    assert to_csv(table) == "'=head[2J\n'=1+1\nab\n'\t=2\n"


def test_a_message_is_one_harmless_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("warning: a\x1b[31mb")
    assert capsys.readouterr().err == "warning: a[31mb\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_a_character_gets_its_number(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "named.toml"
    path.write_text(f'title = "\\u05e9 Zürich"\n{NAMED}', encoding="utf-8")
    screen = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(screen, encoding=encoding))
    monkeypatch.setattr(sys, "argv", ["adversary", "explain", str(path)])
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    with pytest.raises(SystemExit) as end:
        cli.main()
    sys.stdout.flush()
    assert end.value.code in (None, 0)
    assert screen.getvalue().startswith(b"\\u05e9 Z")


def test_an_error_about_a_hostile_file_is_one_harmless_line(tmp_path: Path) -> None:
    path = hostile(tmp_path, more=f"{json.dumps(HOSTILE[2])} = 1\n")
    result = run("audit", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert harmless(result.stderr)
    assert re.fullmatch(r"error: [^\n]+\n", result.stderr)


@pytest.mark.slow
def test_truths_that_look_alike_have_files_and_groups_of_their_own(tmp_path: Path) -> None:
    path, out = hostile(tmp_path, more="[sensitivity]\nprior = [0.2, 0.3]\n"), tmp_path / "out"
    assert run("sensitivity", str(path), "--out", str(out)).exit_code == 0
    starts = ("..", "a_b", "a_b_2", "x_.._y")
    figures = {f"{name}_{start}.svg" for start in starts for name in ("tornado", "fan_prior")}
    assert {one.name for one in out.glob("*.svg")} == figures
    assert all(harmless(one.read_text(encoding="utf-8")) for one in out.glob("*.svg"))
    with xr.open_datatree(out / "data.nc", engine="h5netcdf") as tree:
        truths = {name: group["base"].attrs["truth"] for name, group in tree.children.items()}
    assert truths == {"a b": "a b", "a_b": "a_b", "__": "..", "x_.._y": "x/../y"}


def test_features_of_invariants_are_no_markup(tmp_path: Path) -> None:
    text = (DATA / "town_table.toml").read_text(encoding="utf-8")
    named = re.sub(r"features = .*", 'features = ["[/red]", "[bold]x"]', text)
    assert named != text
    path = tmp_path / "table.toml"
    path.write_text(named, encoding="utf-8")
    shown = flat(printed("invariants", str(path)))
    assert "[/red]" in shown
    assert "[bold]x" in shown


def test_the_screen_keeps_its_own_styles() -> None:
    shown = StringIO()
    screen = rendering.Screen(file=shown, force_terminal=True, color_system="standard")
    screen.print(rendering.Text("a\x1b[31mb", style="bold"))
    assert shown.getvalue() == "\x1b[1ma[31mb\x1b[0m\n"


def test_figures_have_printable_texts_and_names() -> None:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas
    from matplotlib.lines import Line2D

    @style.house_style
    def draw() -> Axes:
        figure = Canvas()
        ax = figure.add_subplot()
        ax.plot([0.0, 1.0], gid=HOSTILE[2])
        ax.set_yticks([0.0], [HOSTILE[2]])
        ax.set_title(HOSTILE[3])
        figure.legend(handles=[Line2D([], [], label=HOSTILE[2])], title=HOSTILE[2])
        style.headline(ax, HOSTILE[2], HOSTILE[2], HOSTILE[2], HOSTILE[2])
        return ax

    picture = StringIO()
    draw().figure.savefig(picture, format="svg")
    assert harmless(picture.getvalue())
    made = Figure("one", draw, "").svg
    assert isinstance(made, bytes)
    fromstring(made)
