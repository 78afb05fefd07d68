"""The HTML report of an audit, in plain words, with its figures inside; and the audit itself as NetCDF beside it.

The words live in `report.html.j2`; what they speak of is gathered by one module for each part of the page. Everything
from a scenario file is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from adversary.desk.answers import exact_adversaries
from adversary.desk.files import Scenario
from adversary.desk.kit import PageSection, audit_words, check_directory, naming, netcdf, printable, readers_of
from adversary.desk.report import (
    descriptions,
    diagnostics_section,
    empirical_epsilon_section,
    explain_answer,
    other_neighbours,
    postprocessing_section,
    profile_section,
    repeated_releases,
    report_text,
    results_section,
    sensitivity_section,
)
from adversary.reader.path import settle_truth

if TYPE_CHECKING:
    from jinja2 import Template

NAMES = ("report.html", "audit.nc")
SECTIONS = (
    exact_adversaries.section,
    empirical_epsilon_section.section,
    profile_section.section,
    profile_section.readers,
    repeated_releases.section,
    postprocessing_section.section,
    sensitivity_section.section,
    diagnostics_section.section,
)
"""Parts of the page about one truth, each there only where it applies."""


def write_report(scenario: Scenario, tree: xr.DataTree, directory: str | Path) -> tuple[Path, Path]:
    """Write `audit.nc`, then `report.html`, into a directory, which is made if need be.

    Each is written under a temporary name there and renamed. The numbers come first: they took long to compute, and
    stay where the page cannot be made. The report needs nothing outside itself.

    Parameters
    ----------
    scenario : the scenario that was audited
    tree : what `adversary.audit` returned for it
    directory : where to write

    Returns
    -------
    (report, data) : paths of the two files.

    Raises
    ------
    OSError : the directory cannot be written, said before any figure is drawn; or a file cannot, as on a full disk
    """
    folder = check_directory(directory)
    with temporary(folder, NAMES) as (html, data):
        with naming(folder / NAMES[1]):
            data.write_bytes(netcdf(tree))
        numbers = data.replace(folder / NAMES[1])
        try:
            page = render(scenario, tree)
            with naming(folder / NAMES[0]):
                html.write_text(page, encoding="utf-8")
        except Exception as error:
            error.add_note(f"(the numbers are in {numbers}, without a page)")
            raise
        return html.replace(folder / NAMES[0]), numbers


def check_replaced(folder: Path, scenario: str) -> None:
    """Refuse to replace the report of another scenario.

    Parameters
    ----------
    folder : directory to write into; one without a report passes
    scenario : SHA-256 of the document of the scenario file, in hexadecimal, as `audit.nc` records it

    Raises
    ------
    FileExistsError : the report there is of another scenario, or its data cannot be read
    """
    if any((folder / name).exists() for name in NAMES):
        try:
            with xr.open_datatree(folder / NAMES[1], engine="h5netcdf") as tree:
                same = tree.attrs.get("scenario") == scenario
        except (OSError, ValueError):
            same = False
        if not same:
            raise FileExistsError(
                f"{folder} has the report of another scenario; give another directory, or --force to replace it"
            )


@contextmanager
def temporary(folder: Path, names: tuple[str, ...]) -> Iterator[list[Path]]:
    """Hidden paths in a directory to write to and rename; what is left of them is removed."""
    paths = [folder / f".{os.getpid()}-{name}" for name in names]
    try:
        yield paths
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def template(name: str) -> Template:
    """One of the page templates in `templates`; everything put into it is escaped, nothing may be missing."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(Path(__file__).parent / "templates")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, finalize=_shown)
    return made.get_template(name)


def _shown(value: Any) -> Any:
    """What is put into a page; what a macro made of such values is there already."""
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def render(scenario: Scenario, tree: xr.DataTree) -> str:
    """The report as one HTML page."""
    page = template("report.html.j2")
    every = audit_words.cases(scenario, tree)
    other, inapplicable = other_neighbours.alternatives(every[0][1], every[0][2])
    return page.render(
        title=scenario.title or scenario.path.name,
        description=scenario.description,
        source=scenario.source.rstrip("."),
        summary=[*_summary(every), *profile_section.summary(scenario, tree)],
        published=report_text.published(every[0][1]),
        levels=report_text.levels(scenario),
        readers=[descriptions.reader(scenario.plan, one, name) for name, one in readers_of(scenario).items()],
        warnings=audit_words.warnings(tree),
        neighbours=other_neighbours.neighbours(scenario, every[0][0]),
        alternatives=other,
        inapplicable=inapplicable,
        cases=[_case(name, one, part) for name, one, part in every],
        reading=report_text.reading(scenario, tree),
        words=explain_answer.page(scenario, tree),
        words_notes=explain_answer.notes(scenario),
        provenance=report_text.provenance(scenario, tree),
    )


def _summary(every: list[tuple[str, Scenario, xr.DataTree]]) -> list[str]:
    """What came out under every truth."""
    return [line for name, one, part in every for line in report_text.summary(name, one, part)]


def _case(name: str, scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """One truth: results, bounds, figures, and the sections that apply."""
    first = next(iter(readers_of(scenario).values()))
    target = settle_truth(scenario.plan, first, scenario.truth).target
    return {
        "name": name,
        "truth": descriptions.truth(scenario, target),
        "results": results_section.results(scenario, tree),
        "notes": results_section.notes(scenario, tree),
        "bounds": results_section.bounds(scenario, tree),
        "figures": results_section.figures(scenario, tree),
        "sections": _sections(scenario, tree),
    }


def _sections(scenario: Scenario, tree: xr.DataTree) -> list[PageSection]:
    return [made for section in SECTIONS if (made := section(scenario, tree)) is not None]
