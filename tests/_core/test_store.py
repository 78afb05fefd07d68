"""Blocks are whole or not there, are known again, and are the same whoever makes them; what is damaged is made anew."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adversary._core import store
from adversary._core import workers as executors
from adversary._core.store import MANIFEST, RECORDS, arrays_of, write_blocks

ITEMS = {f"c{i}": i for i in range(5)}


def draw(seed: int) -> dict[str, Any]:
    """A block that depends on its item only."""
    return {"x": np.random.default_rng(seed).random(3), "seed": seed}


class Counting:
    """`draw`, with a list of what it was asked for, and an item at which it is interrupted."""

    def __init__(self, stop_at: int = -1) -> None:
        self.asked: list[int] = []
        self.stop_at = stop_at

    def __call__(self, seed: int) -> dict[str, Any]:
        if seed == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append(seed)
        return draw(seed)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file, by its name inside the directory."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def made(out: Path, function: Callable[[int], Any] = draw, **how: Any) -> store.Written:
    """The blocks of `ITEMS`."""
    return write_blocks(function, ITEMS, out, **({"work": {"a": 1}} | how))


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    """What a run without interruption writes."""
    made(tmp_path / "whole")
    return contents(tmp_path / "whole")


def test_every_item_has_a_file_and_a_checksum(tmp_path: Path) -> None:
    found = made(tmp_path / "out")
    assert list(found.files) == list(ITEMS)
    assert (found.unchanged, found.damaged) == ((), ())
    for name, seed in ITEMS.items():
        np.testing.assert_array_equal(arrays_of(found.files[name])["x"], draw(seed)["x"])
        assert json.loads((tmp_path / "out" / RECORDS / f"{name}.json").read_text())["size"] > 0


def test_an_interrupted_run_goes_on_with_what_is_missing(tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    first, second, third = Counting(stop_at=3), Counting(), Counting()
    with pytest.raises(KeyboardInterrupt):
        made(out, first)
    found = made(out, second)
    assert (first.asked, second.asked) == ([0, 1, 2], [3, 4])
    assert found.unchanged == ("c0", "c1", "c2")
    assert contents(out) == whole
    assert made(out, third).unchanged == tuple(ITEMS)
    assert third.asked == []


@pytest.mark.parametrize("how", ["changed", "shorter", "empty", "gone", "record", "half", "unrecorded"])
def test_a_damaged_block_is_named_and_made_anew(how: str, tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    file, record = made(out).files["c2"], out / RECORDS / "c2.json"
    content = file.read_bytes()
    if how == "changed":
        file.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    elif how == "shorter":
        file.write_bytes(content[:-1])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "gone":
        file.unlink()
    elif how == "record":
        record.write_text("{")
    else:  # killed before the rename, or before the record
        record.unlink()
        if how == "half":
            file.replace(file.with_name(f".{file.name}.{32 * '0'}"))
    again = Counting()
    found = made(out, again)
    assert again.asked == [2]
    assert found.damaged == (() if how in ("half", "unrecorded") else ("c2",))
    assert contents(out) == whole


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"work": {"a": 2}}, "a is 1 there, and 2 now"),
        ({"work": {"a": 1, "b": {"c": [3]}}}, r"b is null there, and {\"c\": \[3\]} now"),
        ({"work": None}, "a is 1 there, and null now"),
        ({"versions": ("dp-adversary", "numpy", "scipy")}, "versions.scipy is null there, and "),
    ],
)
def test_results_of_other_work_are_refused_with_both_values(other: Any, told: str, tmp_path: Path) -> None:
    made(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=told):
        made(tmp_path, **other)
    assert contents(tmp_path) == before


def test_other_items_a_finished_directory_and_a_damaged_manifest_are_refused(tmp_path: Path) -> None:
    made(tmp_path)
    with pytest.raises(ValueError, match=r"blocks\.number is 5 there, and 1 now"):
        write_blocks(draw, {"c0": 0}, tmp_path, work={"a": 1})
    with pytest.raises(ValueError, match="has results already: resume them"):
        made(tmp_path, resume=False)
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(ValueError, match=f"{MANIFEST} is damaged"):
        made(tmp_path)


def test_blocks_without_a_manifest_are_nobodys_and_those_of_an_older_one_are_refused(tmp_path: Path) -> None:
    made(tmp_path)
    place = tmp_path / MANIFEST
    place.write_text(json.dumps({**json.loads(place.read_text()), "format": 1}))
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path} has results of other work: format is 1 there, and 2 now"):
        made(tmp_path)
    assert contents(tmp_path) == before
    place.unlink()
    for work in ({"a": 1}, {"a": 2}, None):
        with pytest.raises(ValueError, match=f"{MANIFEST} is gone, or of an earlier version"):
            made(tmp_path, work=work)
    assert contents(tmp_path) == {name: content for name, content in before.items() if name != MANIFEST}


def test_works_share_a_folder_where_their_names_tell_all(tmp_path: Path) -> None:
    some, more = ({f"c{i}": i for i in part} for part in ((1, 3), range(5)))
    kept = [write_blocks(draw, names, tmp_path).unchanged for names in (some, more, some)]
    assert kept == [(), ("c1", "c3"), ("c1", "c3")]


def test_under_an_edited_manifest_blocks_are_made_anew(tmp_path: Path) -> None:
    made(tmp_path / "out")
    place = tmp_path / "out" / MANIFEST
    place.write_text(place.read_text().replace('"a": 1', '"a": 2'))
    again = Counting()
    assert made(tmp_path / "out", again, work={"a": 2}).damaged == tuple(ITEMS)
    assert again.asked == list(ITEMS.values())
    made(tmp_path / "two", work={"a": 2})
    assert contents(tmp_path / "out") == contents(tmp_path / "two")


def test_names_stay_inside_the_directory(tmp_path: Path) -> None:
    names = ["../../evil", "a/b", "a%2Fb", "Ünï 北", ".."]
    found = write_blocks(draw, {name: i for i, name in enumerate(names)}, tmp_path / "out", work={})
    assert len(set(found.files.values())) == len(names)
    assert {file.parent for file in found.files.values()} == {tmp_path / "out"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    again = write_blocks(draw, {name: i for i, name in enumerate(names)}, tmp_path / "out", work={})
    assert again.unchanged == tuple(names)


def test_two_at_work_in_one_directory_are_kept_apart(tmp_path: Path, whole: dict[str, bytes]) -> None:
    told = []

    def meddled(seed: int) -> dict[str, Any]:
        with pytest.raises(BlockingIOError, match="another process is at work here") as caught:
            made(tmp_path / "out")
        told.append(str(caught.value))
        return draw(seed)

    made(tmp_path / "out", meddled)
    assert len(told) == len(ITEMS)
    assert contents(tmp_path / "out") == whole


def test_an_error_says_in_which_block_it_was(tmp_path: Path) -> None:
    def fails(seed: int) -> Any:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        made(tmp_path, fails)
    assert caught.value.__notes__ == ["in block 'c0'"]
    assert not made(tmp_path, work={"a": 2}, resume=False).unchanged  # nothing came of it: nothing is mixed


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: dict[str, bytes]
) -> None:
    out, room, move = tmp_path / "out", [5], Path.replace

    def full(path: Path, target: Path) -> Path:
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return move(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(
            OSError, match="no space is left; 2 of 5 blocks are whole: make room, then resume"
        ) as caught:
            made(out)
    assert caught.value.filename == str(out)
    assert set(contents(out)) == {MANIFEST, "c0.npz", "c1.npz", f"{RECORDS}/c0.json", f"{RECORDS}/c1.json"}
    assert made(out).unchanged == ("c0", "c1")
    assert contents(out) == whole


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("making a small file system is not permitted here")
    try:
        with pytest.raises(OSError, match=r"no space is left; \d of 40 blocks are whole"):
            write_blocks(draw, {f"c{i}": i for i in range(40)}, disk / "out", work={})
        assert not [name for name in contents(disk / "out") if Path(name).name.startswith(".")]
        assert not [name for name, raw in contents(disk / "out").items() if not raw]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_what_was_being_written_is_swept_when_work_starts(tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    (out / RECORDS).mkdir(parents=True)
    names = [f".{name}.{32 * 'a'}" for name in ("c1.npz", "c9.npz", MANIFEST)] + [f"{RECORDS}/.c1.json.{32 * 'b'}"]

    def swept(seed: int) -> dict[str, Any]:
        if seed == 0:
            assert not any((out / name).exists() for name in names)
        return draw(seed)

    for name in names:
        (out / name).write_bytes(b"half")
    made(out, swept)
    assert contents(out) == whole


def test_what_another_process_is_writing_is_not_swept(tmp_path: Path) -> None:
    living, dead, own = (tmp_path / name for name in (f".a.{32 * '0'}", f".a.{32 * '1'}", ".gitignore"))
    for file in (living, dead, own):
        file.touch()
    with store.exclusive_lock(living):
        store.sweep([tmp_path])
    assert sorted(tmp_path.iterdir()) == sorted([living, own])


def test_two_blocks_that_changed_places_with_their_records_are_made_anew(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    found = made(tmp_path / "out")
    for one in ("{}.npz", RECORDS + "/{}.json"):
        first, second = (tmp_path / "out" / one.format(name) for name in ("c1", "c2"))
        kept = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(kept)
    again = made(tmp_path / "out")
    assert (found.damaged, again.damaged) == ((), ("c1", "c2"))
    assert contents(tmp_path / "out") == whole


def test_workers_and_a_scheduler_are_not_given_together() -> None:
    with pytest.raises(ValueError, match="give one of the two, got workers = 2"):
        list(executors.map_unordered(abs, [1], scheduler="tcp://x:1", workers=2))
    with pytest.raises(ValueError, match="workers"):
        list(executors.map_unordered(abs, [1], workers=0))


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.distributed", None)
    with pytest.raises(ImportError, match=r"adversary\[scale\]"):
        list(executors.map_unordered(abs, [1], workers=2))


ON_TWO = """
import os, signal, sys
from pathlib import Path
from functools import partial
from adversary._core import write_blocks
from tests._core.test_store import ITEMS, draw

def deadly(flag, seed):
    if seed == 3:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return draw(seed)

def hanging(seed):
    if seed == 3:
        print("here", flush=True)
        signal.pause()
    return draw(seed)

if __name__ == "__main__":
    out, kind, where, workers = sys.argv[1:]
    function = {"draw": draw, "deadly": partial(deadly, where), "hanging": hanging}[kind]
    write_blocks(function, ITEMS, out, work={"a": 1}, workers=int(workers))
"""


@pytest.fixture
def on_two(tmp_path: Path) -> list[str]:
    """A program that makes the blocks of `ITEMS`; arguments out, kind, where, workers."""
    program = tmp_path / "on_two.py"
    program.write_text(ON_TWO)
    return [sys.executable, str(program)]


def environment() -> dict[str, str]:
    """Of programs that import from the tests."""
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path, on_two: list[str], whole: dict[str, bytes]) -> None:
    out = tmp_path / "out"
    command = [*on_two, str(out), "deadly", str(tmp_path / "flag"), "2"]
    subprocess.run(command, env=environment(), check=True, capture_output=True, timeout=120)
    assert (tmp_path / "flag").exists()
    assert contents(out) == whole


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_driver_that_is_killed_loses_the_blocks_in_flight_only(
    workers: str, tmp_path: Path, on_two: list[str], whole: dict[str, bytes]
) -> None:
    out = tmp_path / "out"
    command = [*on_two, str(out), "hanging", "", workers]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as driver:
        assert driver.stdout is not None
        assert driver.stderr is not None
        assert driver.stdout.readline() == "here\n"
        driver.send_signal(signal.SIGKILL)
        assert driver.stdout.read() == ""  # workers, which share it, are gone too
        assert driver.stderr.read() == "", "nor do they speak of it"
    assert driver.returncode == -signal.SIGKILL
    again = Counting()
    found = made(out, again)
    assert 3 in again.asked
    assert len(again.asked) + len(found.unchanged) == len(ITEMS)
    assert workers == "2" or found.unchanged == ("c0", "c1", "c2")
    assert found.damaged == ()
    assert contents(out) == whole
