"""Every job with a store: interrupted, on a full disk, or damaged, it gives the same bytes, and only what is missing
is done again. How blocks may be damaged, killed processes, and two at work at once, are in `_core/test_store` and
`desk/test_audit_blocks`.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adversary import nmf
from adversary._core import store
from adversary._core.store import MANIFEST, RECORDS
from adversary.bounded.thesis import coverage_study
from adversary.census.nmf.runs.county_runs import run
from adversary.census.nmf.runs.run_input import RunInput
from adversary.models.fitting import many_fits
from tests._core.test_store import contents
from tests.catalogue import STORIES
from tests.driver.test_audit import _simulated, audit

Job = Callable[[Path], object]


def audited(out: Path) -> object:
    """An audit of simulated releases: three blocks under each truth."""
    return audit(_simulated(), rng=5, draws=3000, store=out)["risk"].to_dataset().to_dict()


def studied(out: Path) -> object:
    """A study of four cells, with and without the bounds."""
    asked: dict[str, Any] = {"n": [20, 30], "truths": (0.3, 0.1), "epsilon": [1.0, 2.0], "constrained": [True, False]}
    return coverage_study(**asked, rng=7, datasets=3, store=out).to_dict()


def fitted(out: Path) -> object:
    """Four blocks of fitted releases or more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_fits, "BLOCK", 8)
        how: dict[str, Any] = {"draws": 40, "engine": "importance"}
        return audit(STORIES["one block"], rng=5, store=out, **how)["risk"].to_dataset().to_dict()


@pytest.fixture(scope="module")
def counties(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A made-up state of three counties: messages up, posteriors down."""
    recipe = nmf.Recipe(40, 3, seed=1, areas=1, shape=(2, 2, 1, 3), queries=("TOTAL",))
    file = str(nmf.synthesise(tmp_path_factory.mktemp("long") / "state", recipe))

    def job(out: Path) -> object:
        run(RunInput(file, "total", prior=0.2), out, resume=True)
        return contents(out)

    return job


JOBS: dict[str, Job | None] = {
    "an audit": audited,
    "a study": studied,
    "fits": fitted,
    "counties": None,
}
"""None for the fixture of that name."""


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name == "fits")) for name in JOBS]
)
def long(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, object, Path]:
    """A job, its result, and the folder of a run without interruption."""
    job = JOBS[request.param] or request.getfixturevalue("counties")
    out = tmp_path_factory.mktemp("whole") / "out"
    return job, job(out), out


def blocks_of(out: Path) -> dict[Path, int]:
    """Blocks with a record, and when they were written."""
    records = list(out.rglob(f"{RECORDS}/*.json"))
    assert all((path.parents[1] / MANIFEST).exists() for path in records)
    found = [path for path in out.rglob("*") if path.is_file() and path.suffix in (".npy", ".npz", ".parquet")]
    known = [path for path in found if path.name != "above.parquet"]
    assert len(known) == len(records)
    return {path: path.stat().st_mtime_ns for path in known}


def failing(patch: pytest.MonkeyPatch, error: BaseException, after: int) -> None:
    """Files cannot be written any more, after so many."""
    save, written = store.save_bytes, []

    def saved(path: Path, content: bytes, **how: bool) -> None:
        if len(written) >= after:
            raise error
        written.append(path)
        save(path, content, **how)

    patch.setattr(store, "save_bytes", saved)


@pytest.mark.slow_cases("a study-interrupted")
@pytest.mark.parametrize(
    ("error", "after"),
    [(KeyboardInterrupt(), 5), (OSError(errno.ENOSPC, "No space left on device"), 2)],
    ids=["interrupted", "full disk"],
)
def test_what_was_finished_before_it_stopped_is_gone_on_with(
    long: tuple[Job, object, Path], tmp_path: Path, error: BaseException, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, result, whole = long
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        failing(patch, error, after)
        with pytest.raises(type(error)) as caught:
            job(out)
    if isinstance(error, OSError):
        assert "no space is left; " in str(caught.value)
    if after % 2:  # the last block is whole; else it has no record
        before = blocks_of(out)
        assert len(before) == 2
    else:
        before = {}
    assert job(out) == result
    assert before.items() <= blocks_of(out).items(), "a finished block is not made again"
    assert contents(out) == contents(whole)


@pytest.mark.filterwarnings("ignore:.* was damaged, or a block of other work:RuntimeWarning")
def test_what_was_damaged_and_it_alone_is_made_again(long: tuple[Job, object, Path], tmp_path: Path) -> None:
    job, result, whole = long
    out = tmp_path / "out"
    shutil.copytree(whole, out)
    before = blocks_of(out)
    hurt = min(before)
    hurt.write_bytes(hurt.read_bytes()[:-9])
    assert job(out) == result
    after = blocks_of(out)
    assert {path for path in before if after[path] != before[path]} == {hurt}
    assert contents(out) == contents(whole)
