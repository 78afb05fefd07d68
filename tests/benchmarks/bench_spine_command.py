"""What each stage of `adversary spine` takes, and how much of it a second worker can share: `pytest -s` shows it.

Processor seconds say the same on a busy machine; wall-clock time does on a quiet one only.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from adversary import nmf
from adversary.desk.answers import spine_answer
from adversary.desk.kit import deliver
from adversary.desk.report import spine_page
from adversary.nmf.runs import Question, county_runs, run

BLOCKS = int(os.environ.get("BLOCKS", "200000"))


def processor() -> float:
    """Seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def spent(on: dict[str, float], stage: str) -> Iterator[None]:
    """Add what a stage takes."""
    start = processor()
    yield
    on[stage] = on.get(stage, 0.0) + processor() - start


def test_stages_of_one_cell_and_what_a_second_worker_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serial stages bound the gain; the same work by two workers, where the machine is quiet, shows it."""
    file = nmf.synthesise(tmp_path / "file", nmf.Recipe(BLOCKS, queries=("TOTAL",), shape=(2, 2, 2, 3)))
    question = Question(str(file), "TOTAL")
    run(Question(str(file), "TOTAL", root="09910001"), tmp_path / "compiled")
    stages: dict[str, float] = {}

    def timed(name: str) -> None:
        function: Any = getattr(county_runs, name)

        def called(*given: Any) -> Any:
            with spent(stages, name):
                return function(*given)

        monkeypatch.setattr(county_runs, name, called)

    for name in ("rise_piece", "solve_piece", "as_parquet"):
        timed(name)
    began = perf_counter()
    with spent(stages, "all"):
        made = run(question, tmp_path / "one")
        found = spine_answer.solve(question, made)
        deliver(spine_page.document(*found), "text", tmp_path / "one", quiet=True)
    one = perf_counter() - began
    monkeypatch.undo()
    began = perf_counter()
    made = run(question, tmp_path / "two", workers=2)
    deliver(spine_page.document(*spine_answer.solve(question, made)), "text", tmp_path / "two", quiet=True)
    two = perf_counter() - began
    shared = sum(stages[name] for name in ("rise_piece", "solve_piece", "as_parquet"))
    print(f"\n{BLOCKS:,} blocks, processor seconds: { ({name: round(s, 1) for name, s in stages.items()}) }")
    print(f"at most {stages['all'] / (stages['all'] - shared / 2):.2f} times with two workers, from stages; measured "
          f"{one:.1f} s and {two:.1f} s, {one / two:.2f} times, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB at most")
    assert stages["all"] < 2 * (stages["rise_piece"] + stages["solve_piece"])
