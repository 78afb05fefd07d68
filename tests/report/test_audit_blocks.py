"""Finished blocks of an audit: none is lost before the results are written, and none that is wrong is taken."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Any

import pytest

from adversary._core import store
from adversary._core.blocks import BLOCK
from adversary._core.store import RECORDS
from adversary.driver import ALSO
from adversary.report.answers import audit_answer
from adversary.report.kit import Figure, audit_words, rendering
from tests import commands
from tests.census.test_scheduler import cluster
from tests.report.test_cli import SIMULATED

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
    patch.setattr(rendering, "to_html", lambda _: "page")
    patch.setattr(Figure, "svg", "")
    patch.setattr(audit_answer, "EVERYTHING", ALSO)
    patch.setattr(audit_words, "readings", lambda _: ({}, {}))


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


@pytest.mark.slow
@pytest.mark.parametrize("fails", [_full, _malformed, pytest.param(None, id="interrupted")])
def test_blocks_stay_until_the_results_are_written(
    fails: Any, scenario: str, whole: tuple[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rendering, "to_html", fails or interrupted)
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_scheduler_that_is_killed_is_one_line_which_says_how_to_go_on(
    scenario: str, page: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("dask.distributed")
    out, save = tmp_path / "out", store.save_bytes
    with cluster(1) as (address, (scheduler, _)):

        def saved(path: Path, content: bytes, **how: bool) -> None:
            save(path, content, **how)
            if len(recorded(out)) == 3:
                scheduler.kill()

        monkeypatch.setattr(store, "save_bytes", saved)
        for log in ("distributed", "distributed.client"):
            monkeypatch.setattr(logging.getLogger(log), "propagate", True)
        draws = ("--draws", str(100 * BLOCK))  # many more blocks than may be finished without a scheduler
        found = commands.run("audit", scenario, *draws, "--json", "--out", str(out), "--scheduler", address)
    assert (found.exit_code, found.stdout, caplog.messages) == (2, "", [])
    said = f"error: the Dask scheduler at {address!r} died, or cannot be reached any more (the same"
    assert found.stderr.startswith(said)
    assert found.stderr.count("\n") == 1
    assert len(recorded(out)) >= 3


def recorded(out: Path) -> list[Path]:
    return [record for record in out.glob(f".blocks/*/{RECORDS}/*.json") if not record.name.startswith(".")]
