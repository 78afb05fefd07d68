"""The core without PyMC, numba, matplotlib and the extras: it answers, and what needs one of them says which."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIGHT = ("numpy", "scipy", "xarray", "lazy_loader", "typer", "rich", "jinja2", "tqdm")
"""What the core is made of, with what these need themselves."""


def _closure(names: list[str]) -> Iterator[Distribution]:
    """Installed distributions of these names, and all that they require."""
    seen: set[str] = set()
    while names:
        name = re.split(r"[^\w.-]", names.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        names += [line for line in one.requires or [] if "extra ==" not in line]
        yield one


@pytest.fixture(scope="session")
def light(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a Python that knows these packages and no others."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "adversary").symlink_to(ROOT / "adversary")
    for one in (distribution("dp-adversary"), *_closure([*LIGHT])):
        for path in {Path(file).parts[0] for file in one.files or [] if ".." not in Path(file).parts}:
            if not (folder / path).exists():
                (folder / path).symlink_to(one.locate_file(path))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(folder), "COLUMNS": "160", "NO_COLOR": "1"}


def answer(light: dict[str, str], line: str) -> subprocess.CompletedProcess[str]:
    """The `adversary` command with these words."""
    code = "import sys; from adversary.report.commands.cli import main; main()"
    command = [sys.executable, "-S", "-c", code, *line.split()]
    return subprocess.run(command, cwd=ROOT, env=light, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bounds --rho 2.63", "97.5%"),
        ("audit data/granville_1940.toml", "Every guarantee holds"),
        ("epsilon data/survey_profile.toml", "epsilon = 0.405"),
        ("explain --rho 0.1", "What zCDP guarantees"),
        ("census scenario A", "75.6%"),
        ("tables data/town_counts.csv --levels block,tract --rho 0.1", "52%"),
        ("invariants data/town_table.toml", "epsilon = 3 for 3 records"),
        ("infer data/blood_lead.toml", "5.4 to 44.7"),
        ("sensitivity data/clinic_visits.toml", "warning: Sensitivity: matplotlib is not installed"),
        ("audit data/granville_1940.toml --format json", '"schema": 1'),
    ],
)
def test_it_answers(light: dict[str, str], line: str, words: str) -> None:
    done = answer(light, line)
    assert done.returncode == 0, done.stderr
    assert words in (done.stdout + done.stderr)


@pytest.mark.slow
def test_what_needs_a_package_says_which(light: dict[str, str], tmp_path: Path) -> None:
    done = answer(light, f"audit data/granville_1940.toml --out {tmp_path}/page")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: h5netcdf is not installed: python3 -m pip install h5netcdf\n"
    assert [*tmp_path.iterdir()] == []


def test_doctor_lists_what_is_missing(light: dict[str, str]) -> None:
    done = answer(light, "doctor --full")
    assert "Traceback" not in done.stderr
    assert re.search(r"pymc +.*(missing|not installed)", done.stdout)
