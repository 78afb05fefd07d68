"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_starts.py -s

Processor seconds of whole processes, user and system, the least of five, in turns with the floor: a process that only
imports numpy, xarray and scipy.special. Compiled Python is at hand, as after the first run; what that costs stands in
a table of its own. A small county has another floor: it writes Parquet files, a page with figures, and NetCDF.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.stopwatch import record

ROOT = Path(__file__).parents[2]
REPEATS = 5
FLOOR = ["-c", "import numpy, xarray, scipy.special"]
PROGRAM = ["-m", "adversary"]
COMMANDS = {
    "audit data/granville_1940.toml": 1.5,
    "bounds --rho 2.63": 1.75,
    "explain --epsilon 1": None,
    "census scenario A": None,
    "tables data/town_counts.csv --levels block,tract --rho 0.1": None,
    "tables data/districts.toml": None,
    "--help": None,
}
"""Commands, and the most times the floor that they may take."""
WRITING = ["-c", "import numpy, xarray, scipy.special, numba, matplotlib.figure, pyarrow.parquet, h5netcdf"]
"""The least that a command imports which reads and writes Parquet, compiles, draws and writes NetCDF."""
REFUSED = '[plan]\ncolour = "red"\n'


def processor_seconds(arguments: list[str], **variables: str) -> float:
    """Processor seconds of one Python process, with these variables in its environment; it may write bytecode."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, env=own | variables)
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def least_of_each(every: dict[str, list[str]]) -> dict[str, float]:
    """The least of `REPEATS` runs of each, in turns, so that a disturbance meets them all."""
    runs = [{name: processor_seconds(one) for name, one in every.items()} for _ in range(REPEATS)]
    return {name: min(run[name] for run in runs) for name in every}


@pytest.fixture(scope="module")
def seconds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """By command; of the floor, and of a file that is refused."""
    file = tmp_path_factory.mktemp("refused") / "scenario.toml"
    file.write_text(REFUSED)
    every = {"floor": FLOOR, "a refused file": [*PROGRAM, "audit", str(file)]}
    return least_of_each(every | {line: [*PROGRAM, *line.split()] for line in COMMANDS})


def test_starts(seconds: dict[str, float]) -> None:
    """The table: seconds, and times the floor."""
    floor = seconds["floor"]
    print()
    for name, one in seconds.items():
        print(f"{one:6.2f} s {one / floor:5.2f} times the floor  {name}")
        if name != "floor":
            most = 1.0 if name == "a refused file" else COMMANDS[name]
            record(f"start: {name}", one, "numpy, xarray, scipy.special", floor, times=most)
    for line, most in COMMANDS.items():
        assert most is None or seconds[line] <= most * floor, line
    assert seconds["a refused file"] < floor


def test_first_run(tmp_path: Path) -> None:
    """An audit without bytecode of anything, as after an installation that compiles none, and with all of it."""
    audit = [*PROGRAM, "audit", "data/granville_1940.toml"]
    seconds = [processor_seconds(audit, PYTHONPYCACHEPREFIX=str(tmp_path)) for _ in range(REPEATS)]
    print(f"\n{seconds[0]:.2f} s the first time, {min(seconds[1:]):.2f} s with bytecode")
    record("start: audit, without bytecode of anything", seconds[0], "with bytecode", min(seconds[1:]), most=3.0)


def test_a_small_county(tmp_path: Path) -> None:
    """The spine of 200 blocks: the first time on a machine, compiling, and afterwards."""
    county, compiled = str(tmp_path / "county"), str(tmp_path / "compiled")
    processor_seconds([*PROGRAM, "nmf", "synth", county, "--blocks", "200", "--shape", "2x2x2x7"])
    seconds = []
    for turn in range(REPEATS):
        line = ["spine", county, "--query", "DETAILED", "--cell", "0,1,0,2", "--out", str(tmp_path / f"{turn}")]
        seconds.append(processor_seconds([*PROGRAM, *line], NUMBA_CACHE_DIR=compiled))
    floor = min(processor_seconds(WRITING) for _ in range(REPEATS))
    warm = min(seconds[1:])
    print(f"\n{seconds[0]:.2f} s the first time, {warm:.2f} s afterwards, {warm / floor:.2f} times its imports")
    record("spine of 200 blocks, the first on a machine", seconds[0], "its imports", floor, most=10.0)
    record("spine of 200 blocks, afterwards", warm, "its imports", floor, most=1.5)
    assert warm < 3.0 * floor
