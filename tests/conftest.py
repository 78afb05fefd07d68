"""Plain NumPy for every model in the tests, read when PyTensor is first imported; the same examples in every run, none
against a clock (`--hypothesis-profile search` draws new ones); and the order of the files, which is that in which
several workers share them out.
"""

import os
import signal
import sys

import pytest
from hypothesis import settings

from adversary.report.kit.figure_files import OFFSCREEN

OFFSCREEN.set(True)  # pyplot would hold every figure of every test
os.environ.setdefault("PYTENSOR_FLAGS", "linker=py,cxx=,optimizer_excluding=fusion")
settings.register_profile("search", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it

FIRST = (
    "tests/test_long_notebooks.py",
    "tests/census/test_spine.py",
    "tests/test_notebooks.py",
)
"""Files that have the spine compiled, and beside them what needs those late: they compile once."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cases named as slow are marked so; files with long tests come first, so that all workers end together."""
    for item in items:
        named = [case for mark in item.iter_markers("slow_cases") for case in mark.args]
        if item.name.partition("[")[2].removesuffix("]") in named:
            item.add_marker("slow")
    long = {_file(item) for item in items if item.get_closest_marker("slow")}

    def place(item: pytest.Item) -> int:
        name = _file(item)
        return FIRST.index(name) if name in FIRST else len(FIRST) + (name not in long)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """None for benchmarks, which measure time and print."""
    return 0 if all("benchmarks" in one for one in config.args) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table of the benchmarks that ran."""
    stopwatch = sys.modules.get("tests.benchmarks.stopwatch")
    if stopwatch and stopwatch.ROWS:
        terminalreporter.write_sep("=", "benchmarks, seconds")
        for line in stopwatch.table():
            terminalreporter.write_line(line)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
