"""Measured on demand, never in CI:  uv run pytest tests/benchmarks/bench_starts.py -s

Processor seconds of whole processes, user and system, the least of five, in turns with the floor: a process that only
imports numpy, xarray and scipy.special. Compiled Python is at hand, as after the first run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REPEATS = 5
FLOOR = ["-c", "import numpy, xarray, scipy.special"]
PROGRAM = ["-m", "adversary"]
COMMANDS = {
    "audit data/granville_1940.toml": 1.5,
    "bounds --rho 2.63": None,
    "explain --epsilon 1": None,
    "census scenario A": None,
    "tables data/town_counts.csv --levels block,tract --rho 0.1": None,
    "--help": None,
}
"""Commands, and the most times the floor that they may take."""
REFUSED = '[plan]\ncolour = "red"\n'


def processor_seconds(arguments: list[str]) -> float:
    """Processor seconds of one Python process."""
    before = os.times()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True)
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
    for line, most in COMMANDS.items():
        assert most is None or seconds[line] <= most * floor, line
    assert seconds["a refused file"] < floor
