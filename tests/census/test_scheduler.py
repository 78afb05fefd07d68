"""A spine on a scheduler and workers of their own: the bytes of one process, also where some of them are killed."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from adversary import nmf
from adversary.census.nmf.runs.county_runs import run
from adversary.census.nmf.runs.run_input import RunInput
from tests._core.test_store import contents, environment

DRIVER = """
import sys
from adversary._core.store import _Store
from adversary.census.nmf.runs import RunInput, run

save = _Store.save

def saved(self, name, content):
    save(self, name, content)
    print(name, flush=True)
    sys.stdin.readline()

_Store.save = saved
directory, out, scheduler = sys.argv[1:]
run(RunInput(directory, "detailed", [1, 2]), out, scheduler=scheduler, resume=True)
"""


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, list[Any]]]:
    """Address of a scheduler on this machine, and its process and those of its workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--no-dashboard"]
    worker = ["worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    quiet: Any = {"env": environment(), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:
        started = []
        for command in (scheduler, *[worker] * workers):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-m", "dask", *command], **quiet))
            stack.callback(process.kill)
            started.append(process)
        yield address, started


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = nmf.Recipe(90, 6, seed=2, areas=1, shape=(2, 2, 1, 3), queries=("TOTAL", "DETAILED"))
    return nmf.synthesise(tmp_path_factory.mktemp("spine") / "state", recipe)


@pytest.fixture(scope="module")
def here(file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What this process writes."""
    return contents(run(RunInput(str(file), "detailed", [1, 2]), tmp_path_factory.mktemp("runs") / "here").out)


def driver(file: Path, out: Path, scheduler: str) -> subprocess.Popen[bytes]:
    """A process that says which county it has saved, and waits for a line before it goes on."""
    command = [sys.executable, "-c", DRIVER, str(file), str(out), scheduler]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(command, env=environment(), **pipes)


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(file: Path, here: dict[str, bytes], tmp_path: Path) -> None:
    with cluster(2) as (address, _), driver(file, tmp_path, address) as work:
        _, told = work.communicate(timeout=200)
    assert work.returncode == 0, told.decode()
    assert contents(tmp_path) == here


@pytest.mark.thorough
def test_a_worker_and_the_scheduler_are_killed_and_the_rest_is_gone_on_with(
    file: Path, here: dict[str, bytes], tmp_path: Path
) -> None:
    with cluster(2) as (address, (scheduler, worker, _)), driver(file, tmp_path, address) as work:
        assert work.stdout is not None
        assert work.stdin is not None
        for county in range(8):  # six that say what they know of their count, then two that are solved
            assert work.stdout.readline()
            if county == 1:
                worker.kill()
            if county == 7:
                scheduler.kill()
                scheduler.wait()
                break
            work.stdin.write(b"\n")
            work.stdin.flush()
        _, told = work.communicate(timeout=200)
        assert work.returncode != 0
        assert b"ChildProcessError" in told
        assert b"died, or cannot be reached any more" in told
    kept = contents(tmp_path)
    assert kept != here
    with cluster(1) as (address, _), driver(file, tmp_path, address) as work:
        saved, told = work.communicate(timeout=200)
    assert work.returncode == 0, told.decode()
    assert 0 < saved.count(b"\n") < 6
    assert contents(tmp_path) == here
