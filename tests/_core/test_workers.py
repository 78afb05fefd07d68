"""Audits and studies whose work is done by the workers of a Dask scheduler: the same numbers, and blocks that are kept.

One cluster for all of them. Workers are processes that import the program, so that is a file of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

from adversary._core.workers import map_unordered, track
from tests.driver.test_audit import _simulated, audit

ON_WORKERS = """
import sys
from adversary.bounded.thesis import coverage_study
from adversary._core import dask_address
from adversary.models.fitting import many_fits
from tests.catalogue import STORIES
from tests.driver.test_audit import _simulated, audit


def audits(address, store):
    # simulated releases in three blocks, and fitted ones in two
    many_fits.BLOCK = 16
    for story, how in ((_simulated(), {"draws": 3000}), (STORIES["one block"], {"draws": 40, "engine": "importance"})):
        here = audit(story, rng=5, **how)
        there = audit(story, rng=5, **how, scheduler=address, store=store)
        assert set(here.children) == set(there.children)
        for name in here.children:
            one, other = (tree[name].to_dataset() for tree in (here, there))
            for part in (one, other):
                part.attrs.pop("created_at", None)
            assert one.identical(other)


def studies(address):
    options = {"n": [20, 30], "truths": (0.3, 0.1), "epsilon": 1.0, "rng": 7, "datasets": 4}
    assert coverage_study(**options).identical(coverage_study(**options, scheduler=address))


if __name__ == "__main__":
    with dask_address(workers=2) as address:
        audits(address, sys.argv[1])
        studies(address)
"""


def test_a_worker_that_dies_while_it_starts_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("dask.distributed")

    def dies(**_: object) -> None:
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", dies)
    with pytest.raises(ChildProcessError, match=r"one of 2 workers died while they were started, .*: start again, or"):
        list(map_unordered(abs, [-1, 2], workers=2))


def test_progress_that_nobody_watches_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library's own switch still writes blank lines in its version 13.9."""
    monkeypatch.setattr("rich.progress.Progress", None)
    assert list(track(range(3), "blocks")) == [0, 1, 2]
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_workers_change_nothing_and_what_they_finish_is_gone_on_with_here(tmp_path: Path) -> None:
    program, store = tmp_path / "on_workers.py", tmp_path / "store"
    program.write_text(ON_WORKERS)
    where = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, str(program), str(store)], env=where, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert len(list(store.glob("fits-*.npy"))) == 2
    files = sorted(set(store.glob("*.npy")) - set(store.glob("fits-*")))
    assert len(files) == 6  # three blocks of releases under each truth
    files[0].unlink()
    here = audit(_simulated(), rng=5, draws=3000)
    with pytest.warns(RuntimeWarning, match=f"{files[0].name} was damaged"):
        resumed = audit(_simulated(), rng=5, draws=3000, store=store)
    xr.testing.assert_identical(resumed["risk"].to_dataset(), here["risk"].to_dataset())
