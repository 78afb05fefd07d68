"""What a command imports, by names of modules: starts stay quick where nothing unneeded comes along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEVER = (
    "dask",
    "pyarrow",
    "pydantic",
    "numba",
    "pymc",
    "matplotlib",
    "scipy.optimize",
    "scipy.stats",
    "numpy.f2py.f2py2e",
)
"""What no closed form, no exact audit and no refusal needs."""
CODE = """
import json, sys
from adversary.report.commands.cli import main
try:
    main()
finally:
    print(json.dumps([name for name, module in sys.modules.items() if module is not None]), file=sys.stderr)
"""


def imported(*words: str) -> tuple[int, set[str]]:
    """The exit code of a command, and the modules it has imported."""
    done = subprocess.run([sys.executable, "-c", CODE, *words], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "audit data/granville_1940.toml",
        "audit data/granville_1940.toml --format json",
        "bounds --rho 2.63",
        "explain --epsilon 1",
        "census scenario A",
    ],
)
def test_an_answer_imports_what_it_needs(line: str) -> None:
    code, modules = imported(*line.split())
    assert code == 0
    assert not modules & {*NEVER}


@pytest.mark.parametrize("text", ["[plan\n", '[plan]\ncolour = "red"\n'])
def test_a_file_is_refused_before_xarray_is_imported(text: str, tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(text)
    code, modules = imported("audit", str(file))
    assert code == 2
    assert not modules & {*NEVER, "xarray.core", "pandas", "scipy.fft", "jinja2", "rich.console"}


def test_help_imports_no_numbers() -> None:
    code, modules = imported("--help")
    assert code == 0
    assert not modules & {*NEVER, "numpy", "xarray"}
