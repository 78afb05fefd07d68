"""The kit of documents: records of labelled numbers, and what the screen, Markdown, CSV and the page make of them."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import html5lib
import numpy as np
import pytest
import xarray as xr

from adversary.report.kit import (
    Answer,
    Card,
    Column,
    Document,
    Figure,
    Measured,
    Section,
    Summary,
    Table,
    as_json,
    attempt,
    deliver,
    guarded_document,
    records,
    rendering,
    summary_of,
    tabulate,
    write,
)
from adversary.report.kit.answer import to_json
from adversary.report.kit.rendering import to_csv, to_html, to_markdown

HOSTILE = "<script>alert(1)</script> | **x** [a](b) \x1b[31m\u202e& `q`"


def risk() -> xr.Dataset:
    return xr.Dataset(
        {
            "posterior_mean": ("truth", [0.25, np.nan], {"direction": "estimate"}),
            "bound": (("truth", "side"), [[0.1, np.inf], [0.0, 0.5]]),
            "prob_exact": ((), np.float64(0.5)),
            "count": ("truth", np.array([3, 4])),
            "status": ("truth", ["holds", "violated"]),
            "reached": ("truth", [True, False]),
            "mcse": (("measure", "truth"), [[0.01, np.nan]]),
        },
        {"truth": ["in", "out"], "side": ["lower", "upper"], "measure": ["posterior_mean"]},
    )


def small() -> Document:
    columns = ["reader", Column("posterior", "probability"), Column("ratio", "interval"), Column("verdict", "status")]
    table = Table(columns, title="What is learned", notes=["a note"], name="learned")
    table.add("a", Measured(0.25, 0.01), (0.5, np.inf), "holds", marked=True)
    table.add("=1+1", 0.5, None, "violated")
    inner = Section("Inner", paragraphs=["one", "two"], notes=["last"])
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"seed": 1}), "risk": risk()})
    return Document(
        Summary("A title", ["risk"], "It holds.", "holds", ["Not much data."]).on(tree),
        card=Card([("before", "10%")], _figure("first"), "A sentence."),
        lead=["A lead."],
        sections=[
            Section("Results", "A finding.", tables=[table], figures=[_figure("second")], parts=[inner]),
            Section("Method", folded=True, paragraphs=["How."]),
            Section("More"),
            Section("Hidden", on_screen=False),
        ],
        provenance=[("seed", "1")],
    )


def _figure(name: str) -> Figure:
    def draw() -> Any:
        from matplotlib.figure import Figure as Drawing

        figure = Drawing(figsize=(2, 1))
        figure.add_subplot().plot([0, 1], [0, 1])
        return figure

    return Figure(name, draw, f"caption of {name}", f"finding of {name}")


def hostile(document: Document) -> Document:
    (first, *rest), card = document.sections, document.card
    assert card is not None
    table = replace(first.tables[0], title=HOSTILE, columns=[HOSTILE, *first.tables[0].typed[1:]])
    section = replace(first, title=HOSTILE, finding=HOSTILE, tables=[table], notes=[HOSTILE])
    card = replace(card, numbers=[(HOSTILE, HOSTILE)], sentence=HOSTILE)
    more = {"provenance": [(HOSTILE, HOSTILE)], "lead": [HOSTILE]}
    tree = document.summary._replace(title=HOSTILE, verdict=HOSTILE, warnings=[HOSTILE]).on(document.data.copy())
    return replace(document, data=tree, card=card, sections=[section, *rest], **more)


def parsed(page: str) -> Any:
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def words(part: Any) -> str:
    return " ".join("".join(part.itertext()).split())


def test_every_number_is_a_record_with_its_labels_error_and_direction() -> None:
    found = {(one["quantity"], one.get("truth"), one.get("side")): one for one in records(risk(), "risk")}
    assert len(found) == 2 + 4 + 1 + 2 + 2 + 2
    mean = found["posterior_mean", "in", None]
    assert mean == {
        "group": "risk", "truth": "in", "quantity": "posterior_mean", "value": 0.25, "error": 0.01,
        "direction": "estimate",
    }  # fmt: skip
    assert (found["posterior_mean", "out", None]["value"], found["posterior_mean", "out", None]["error"]) == (
        None,
        None,
    )
    assert [found["bound", "in", side]["value"] for side in ("lower", "upper")] == [0.1, None]
    assert found["bound", "in", "lower"]["direction"] == "lower"
    assert found["prob_exact", None, None]["direction"] == "exact"
    kinds = [type(found[name, "in", None]["value"]) for name in ("count", "status", "reached")]
    assert kinds == [int, str, bool]


def test_json_has_the_verdict_the_warnings_and_the_listed_groups() -> None:
    tree = small().data
    answer = as_json(tree)
    assert {key: answer[key] for key in ("schema", "title", "attributes", "verdict", "warnings")} == {
        "schema": 1,
        "title": "A title",
        "attributes": {"seed": 1},
        "verdict": {"text": "It holds.", "status": "holds"},
        "warnings": ["Not much data."],
    }
    assert answer["records"] == list(records(risk(), "risk"))
    bare = as_json(summary_of(tree)._replace(listed=(), verdict="").on(tree))
    assert bare == answer | {"verdict": None, "records": []}


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("text", "as it is", "as it is"),
        ("count", 12345, "12,345"),
        ("number", 0.123456, "0.123"),
        ("number", Measured(0.123456, 0.01), "0.123 ± 0.010"),
        ("parameter", 1e-6, "1e-6"),
        ("probability", 0.25, "25%"),
        ("probability", Measured(0.25, 0.001), "25% ± 0.10"),
        ("chance", 0.25, "25%"),
        ("chance", 1e-5, "below 0.01%"),
        ("points", 0.25, "25"),
        ("at least", 0.123456, "0.123"),
        ("at most", 0.123412, "0.124"),
        ("at most", np.inf, "unlimited"),
        ("% at most", 0.123412, "12.4%"),
        ("interval", (0.123456, 2.00001), "0.123 to 2.01"),
        ("% interval", (0.123456, 0.5), "12.3% to 50%"),
        ("% certified", (0.1234567891, 0.1234567892), "12.4%"),
        ("% certified", (0.1234, 0.1256), "12.3% to 12.6%"),
        ("points interval", (-0.1, 0.25001), "−10 to 25.1"),
        ("interval", None, ""),
        ("at most", "none above 0", "none above 0"),
    ],
)
def test_cells_are_written_by_the_kind_of_their_column_and_bounds_round_outward(
    kind: str, value: Any, shown: str
) -> None:
    assert Column("head", kind).shown(value) == shown


def test_a_row_has_a_cell_for_every_column() -> None:
    with pytest.raises(ValueError, match="a row has 1 cells, got 2"):
        Table(["a"]).add("1", "2")


def test_csv_has_unrounded_numbers_both_ends_and_standard_errors_and_no_formulas() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(small().tables[0]))))
    assert rows == [
        ["reader", "posterior", "posterior, standard error", "ratio, lower", "ratio, upper", "verdict"],
        ["a", "0.25", "0.01", "0.5", "inf", "holds"],
        ["'=1+1", "0.5", "", "", "", "violated"],
    ]


def test_markdown_has_every_part_in_the_order_of_reading() -> None:
    text = to_markdown(small())
    parts = (
        "# A title\n", "**It holds.**", "- before: 10%", "![caption of first](first.svg)", "A sentence.", "A lead.",
        "## Results\n", "A finding.", "What is learned",
        "| reader | posterior | ratio | verdict |\n|---|---:|---:|---|\n",
        "| a | 25% ± 1.0 | 0.500 to unlimited | holds |", "a note", "![caption of second](second.svg)",
        "### Inner\n", "one\n\ntwo", "last", "## Method\n", "> **Take care.** Not much data.",
    )  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "\n\n\n" not in text


def test_the_screen_has_the_tables_and_ends_with_the_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    rendering.show(small())
    text = capsys.readouterr().out
    assert text.startswith("A title\nIt holds.\n")
    assert "a       25% ± 1.0  0.500 to unlimited  holds" in text
    assert text.endswith("\nTake care. Not much data.\n")
    assert "Hidden" not in text


def test_the_page_is_strict_html_with_contents_tables_and_alternative_text() -> None:
    page = parsed(to_html(small()))
    assert words(page.find(".//h1")) == "A title"
    assert [words(cell) for cell in page.find(".//tbody/tr")] == ["a", "25% ± 1.0", "0.500 to unlimited", "holds"]
    assert page.find(".//tbody/tr").get("class") == "marked"
    drawn = [part.get("aria-label") for part in page.iter() if part.get("role") == "img"]
    assert drawn == [f"finding of {name}" for name in ("first", "first", "second", "second")]  # of two widths
    anchors = {link.get("href").removeprefix("#") for link in page.find(".//nav").iter("a")}
    assert anchors <= {part.get("id") for part in page.iter() if part.get("id")}
    assert len(anchors) == 4
    assert words(page.find(".//details/summary")) == "Method"
    assert words(page.find(".//p[@class='warning']")) == "Take care. Not much data."


def test_texts_of_other_people_are_text_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(HOSTILE.replace("\x1b", "").replace("\u202e", "").split())
    document = hostile(small())
    page = parsed(to_html(document))
    assert not list(page.iter("script"))
    assert words(page.find(".//h1")) == shown
    assert words(page.find(".//th")) == shown
    lines = to_markdown(document).splitlines()
    table = lines.index(next(line for line in lines if line.startswith("|---")))
    assert [line.replace("\\|", "").count("|") for line in lines[table - 1 : table + 3]] == [5] * 4
    rendering.show(document)
    for text in (to_html(document), to_markdown(document), capsys.readouterr().out):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[a](b)" not in text or text.startswith(("<!DOCTYPE", shown[:8]))


def test_a_figure_is_drawn_once_for_each_width_and_left_out_with_its_reason(tmp_path: Any) -> None:
    drawn: list[str] = []

    def once() -> Any:
        drawn.append("drawn")
        return _figure("x").draw()

    def never() -> Any:
        raise ValueError("nothing to draw")

    figures = [Figure("x", once, "a caption"), Figure("y", never, "another")]
    document = replace(small(), card=None, sections=[Section("One", figures=figures)])
    names = {path.name for path in write(document, tmp_path)}
    assert names == {"data.nc", "report.html", "x.svg"}
    assert drawn == ["drawn"] * 2  # for a page and for a phone
    page = parsed((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert [words(part) for part in page.iter("figcaption")] == ["a caption", "Left out: another (nothing to draw)"]


def test_tables_of_the_same_name_have_files_of_their_own(tmp_path: Any) -> None:
    tables = [Table(["a"], [["1"]], name="same"), Table(["a"], [["2"]], name="same")]
    document = replace(small(), card=None, sections=[Section("One", tables=tables)])
    contents = {path.read_text() for path in write(document, tmp_path) if path.suffix == ".csv"}
    assert contents == {"a\n1\n", "a\n2\n"}


def test_a_table_of_a_dataset_has_a_row_for_each_label() -> None:
    side, measure = ["lower", "upper"], ["mean"]
    found = xr.Dataset(
        {
            "mean": (("who", "prior"), [[0.5, np.nan], [0.25, 0.75]]),
            "mcse": (("measure", "who", "prior"), [[[0.1, 0.0], [0.0, 0.0]]]),
            "ends": (("prior", "side"), [[0.0, 1.0], [0.0, np.inf]]),
            "k": ("who", [1, 2]),
            "there": (("who", "prior"), [[True, True], [True, False]]),
        },
        {"who": ["a", "b"], "prior": [0.1, 0.5], "side": side, "measure": measure},
    )
    columns = {
        "who": "adversary",
        "prior": ("prior", "probability"),
        "mean": ("mean", "number"),
        "ends": ("bound", "interval"),
        "k": ("k", "count"),
    }
    made = tabulate(
        found, columns, name="t", called={"who": {"b": "Bob"}}, where="there", marked={"prior": 0.5}, missing="-"
    )
    assert made.rows == [
        ("a", 0.1, Measured(0.5, 0.1), (0.0, 1.0), 1),
        ("a", 0.5, "-", (0.0, np.inf), 1),
        ("Bob", 0.1, 0.25, (0.0, 1.0), 2),
    ]
    assert made.marked == {1}
    alone = tabulate(found.isel(who=[0]).assign_coords(who=[""]), columns, name="t")
    assert [column.head for column in alone.typed] == ["prior", "mean", "bound", "k"]


# What fails is a line


def test_a_section_fails_with_its_cells_and_says_so_in_one_line() -> None:
    one = Table([Column("ratio", "number")], [(object(),)])
    assert attempt("Ratios", Section, "Ratios", tables=[one]).failure.startswith("TypeError: ")
    inner = Section("Outer", parts=[Section("Inner", tables=[one])])
    assert attempt("Outer", lambda: inner).parts == []
    assert attempt("None", lambda: None) is None
    assert attempt("Whole", lambda: small().sections[0]).failure == ""


def test_what_is_left_out_is_on_the_page_and_on_standard_error(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Any:
        raise KeyError("measure")

    made = small()
    made.sections.append(attempt("Ratios", fails))
    made.sections[0].figures.append(Figure("curve", fails, "A curve."))
    deliver(Answer(made.data, lambda _: made), "json", tmp_path)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == as_json(small().data)
    left = ["Ratios: KeyError: 'measure'", "curve: Left out: A curve. (KeyError: 'measure')"]
    assert shown.err.splitlines()[:2] == [f"warning: {line}" for line in left]
    page = (tmp_path / "report.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert "Left out: KeyError: 'measure'" in page
    assert "Left out: A curve. (KeyError: 'measure')" in page
    assert (tmp_path / "data.nc").exists()


def test_a_document_that_fails_leaves_the_numbers() -> None:
    tree = small().data

    @guarded_document
    def made(question: str, *, tree: xr.DataTree) -> Document:
        raise ZeroDivisionError(question)

    alone = made("why", tree=tree)
    assert alone.failures == ["Words, tables and figures: ZeroDivisionError: why"]
    assert as_json(alone.data) == as_json(small().data)
    del tree.attrs["summary"]
    assert (alone.summary.title, as_json(tree)["records"]) == ("Numbers", list(records(risk(), "risk")))


def test_json_and_silence_need_no_document(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(_: xr.DataTree) -> Document:
        raise AssertionError

    tree = small().data
    tree.attrs["left_out"] = json.dumps({"budgets": "too many"})
    for quiet in (False, True):
        deliver(Answer(tree, shown), "json", quiet=quiet)
        told = capsys.readouterr()
        assert (told.out, told.err) == ("" if quiet else to_json(tree) + "\n", "warning: budgets: too many\n")
    with pytest.raises(AssertionError):
        deliver(Answer(tree, shown))


def test_the_data_file_says_what_json_says(tmp_path: Path) -> None:
    made = small()
    write(made, tmp_path)
    with xr.open_datatree(tmp_path / "data.nc", engine="h5netcdf") as again:
        assert to_json(again) == to_json(made.data)


def test_the_screen_has_one_table_of_few_columns_unless_all_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Names are whole, the columns are those that stand first, and what is left is counted."""
    heads, name = [f"column {i}" for i in range(9)], "a name of forty letters and some more of them"
    table = Table(heads, [(f"{name} {i}", *"abcdefgh") for i in range(20)], first=("column 0", "column 8"))
    warned = Summary("Title", [], "It holds.", "holds", ["Give it an end, such as `upper = 1`. The reason is long."])
    made = Document(warned.on(xr.DataTree()), sections=[Section("One", tables=[table]), Section("Two", tables=[table])])
    rendering.show(made, full=False)
    text = capsys.readouterr().out
    assert "column 8" in text
    assert "column 1" not in text
    assert (f"{name} 11" in text, f"{name} 12" in text) == (True, False)
    assert "--full prints 8 more rows, 7 more columns and 1 more table." in text
    assert text.rstrip().endswith("Take care. Give it an end, such as `upper = 1`.")
    rendering.show(made)
    assert "The reason is long." in capsys.readouterr().out
