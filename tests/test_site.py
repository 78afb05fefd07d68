"""The site is built from the notebooks, the how-to pages and the docstrings without a warning, nothing executed."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import adversary as adv

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.mark.slow
def test_it_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-E",
        "-b",
        "dummy",
        "-d",
        str(tmp_path / "trees"),
    ]
    built = subprocess.run([*command, str(NOTEBOOKS), str(tmp_path / "site")], capture_output=True, text=True)
    assert (built.returncode, built.stderr) == (0, "")


def test_every_room_of_the_front_door_is_in_the_reference() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (NOTEBOOKS / "api").glob("*.md"))
    rooms = {room.__name__ for name in adv.__all__ if isinstance(room := getattr(adv, name), ModuleType)}
    assert {"adversary", *rooms} == set(re.findall(r"automodule:: (\S+)", pages))
