"""Finished blocks of an audit: none is lost before the results are written, and none that is wrong is taken."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from adversary._core import store
from adversary._core.blocks import BLOCK
from adversary._core.store import RECORDS
from adversary.desk.kit import Figure, output
from adversary.desk.report import audit_answer, method_sections
from adversary.driver import ALSO
from tests import commands
from tests.desk.test_cli import SIMULATED

POISSON = SIMULATED.replace("{ upper = 6 }", '{ law = "poisson", mu = 2 }').replace(
    "{ total = 2 }", '{ law = "binom", n = 9, p = 0.3 }'
)
"""Simulated for two readers whose beliefs are laws of scipy's."""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "simulated.toml"
    path.write_text(POISSON, encoding="utf-8")
    return str(path)


def audited(scenario: str, out: Path, draws: int = 3000) -> Any:
    """The command with a report: its exit code and what it says."""
    return commands.run("audit", scenario, "--draws", str(draws), "--out", str(out), "--json")


def blocks_of(out: Path) -> list[Path]:
    return sorted((out / ".blocks").rglob("*.npy"))


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that takes no time, and nothing computed for it alone: these tests are about what comes before it."""
    _hurry(monkeypatch)


def _hurry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(output, "to_html", lambda _: "page")
    patch.setattr(Figure, "svg", "")
    patch.setattr(audit_answer, "EVERYTHING", ALSO)
    patch.setattr(method_sections, "readings", lambda _: ({}, {}))


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    """What a run without interruption prints and writes."""
    folder = tmp_path_factory.mktemp("once")
    path = folder / "simulated.toml"
    path.write_text(POISSON, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        _hurry(patch)
        done = audited(str(path), folder / "whole")
        assert done.exit_code == 0, done.stderr
    return done.stdout, (folder / "whole" / "data.nc").read_bytes()


@pytest.fixture
def whole(once: tuple[str, bytes], page: None) -> tuple[str, bytes]:
    """The same, where pages take no time."""
    return once


def _full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def _malformed(*_: Any, **__: Any) -> None:
    raise ValueError("a page that cannot be drawn")


@pytest.mark.parametrize("fails", [_full, _malformed, pytest.param(None, id="interrupted")])
def test_blocks_stay_until_the_results_are_written(
    fails: Any, scenario: str, whole: tuple[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(output, "to_html", fails or interrupted)
        found = audited(scenario, out)
    assert found.exit_code == (2 if fails else 130)
    assert "the same command goes on from the finished blocks in" in found.stderr
    assert found.stderr.count("\n") == 1
    assert len(blocks_of(out)) >= 12
    monkeypatch.setattr(store, "save_bytes", _malformed)  # nothing is to be made
    again = audited(scenario, out)
    assert (again.stdout, (out / "data.nc").read_bytes()) == whole
    assert not (out / ".blocks").exists()


def test_what_fails_before_any_block_leaves_nothing(scenario: str, tmp_path: Path) -> None:
    found = commands.run("audit", scenario, "--engine", "guess", "--out", str(tmp_path / "a" / "b"))
    assert found.exit_code == 2
    assert ".blocks" not in found.stderr
    assert not (tmp_path / "a").exists()


def test_two_at_work_in_one_folder_are_kept_apart(
    scenario: str, page: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, told, work = tmp_path / "out", [], audit_answer.audit

    def meddled(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(audit_answer, "audit", work)
        told.append(audited(scenario, out).stderr)
        return work(*arguments, **options)

    monkeypatch.setattr(audit_answer, "audit", meddled)
    assert audited(scenario, out).exit_code == 0
    assert told == [f"error: {out}: another process is at work here: wait for it, or stop it\n"]


# Killed

PROGRAM = """
from adversary.desk.commands import cli
from adversary.desk.kit import Figure, output
output.to_html = lambda _: "page"
Figure.svg = ""
if __name__ == "__main__":
    cli.main()
"""
DRAWS = 100 * BLOCK
"""Many more blocks than a run without its scheduler may finish."""


@pytest.fixture
def program(scenario: str, tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return [sys.executable, str(path), "audit", scenario, "--draws", str(DRAWS), "--json", "--out"]


def recorded(out: Path) -> dict[Path, int]:
    """Blocks with a record, and when they were written."""
    found = [record for record in out.glob(f".blocks/*/{RECORDS}/*.json") if not record.name.startswith(".")]
    blocks = [record.parents[1] / f"{record.stem}.npy" for record in found]
    return {block: block.stat().st_mtime_ns for block in blocks}


def _watched(out: Path) -> Iterator[int]:
    """The number of recorded blocks, over and over, with a moment in between that is the work's."""
    while not Event().wait(0.01):
        yield sum(1 for _ in out.glob(f".blocks/*/{RECORDS}/*.json"))


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_one_line_which_says_how_to_go_on(program: list[str], tmp_path: Path) -> None:
    pytest.importorskip("dask.distributed")
    out, place = tmp_path / "out", tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    serve = [*dask, "scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", str(place)]
    helps = [*dask, "worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    with subprocess.Popen(serve, **quiet) as scheduler, subprocess.Popen(helps, **quiet) as worker:
        try:
            while not Event().wait(0.01) and not place.exists():
                assert scheduler.poll() is None
            address = _address(place)
            command = [*program, str(out), "--scheduler", address]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as work:
                for found in _watched(out):
                    assert work.poll() is None, "done before the scheduler was killed"
                    if found >= 3:
                        scheduler.kill()
                        break
                printed, said = work.communicate()
        finally:
            scheduler.kill()
            worker.kill()
    assert (work.returncode, printed) == (2, "")
    assert said.startswith(f"error: the Dask scheduler at {address!r} died, or cannot be reached any more (the same")
    assert said.count("\n") == 1
    assert len(recorded(out)) >= 3


def _address(place: Path) -> str:
    """Of the scheduler that wrote its file, which may not be whole yet."""
    while True:
        try:
            return str(json.loads(place.read_text())["address"])
        except ValueError:
            continue
