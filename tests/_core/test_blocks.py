"""Work in blocks: results do not depend on how it was cut, interrupted or resumed."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from adversary._core.blocks import BLOCK, map_blocks, seed_sequence, simulate, track
from adversary._core.store import RECORDS
from adversary._core.workers import PerThread, in_threads


def draw(size: int, generator: np.random.Generator) -> Any:
    return generator.standard_normal(size)


class Interrupted(RuntimeError):
    """What an interruption raises here."""


class Flaky:
    """Draws like `draw`, counts its calls, and stops before call number `fail_at`."""

    def __init__(self, fail_at: int = 10**9) -> None:
        self.calls, self.fail_at = 0, fail_at

    def __call__(self, size: int, generator: np.random.Generator) -> Any:
        if self.calls == self.fail_at:
            raise Interrupted
        self.calls += 1
        return draw(size, generator)


def test_blocks_have_one_size_and_the_rest_comes_last() -> None:
    sizes: list[int] = []

    def function(size: int, generator: np.random.Generator) -> Any:
        sizes.append(size)
        return generator.random(size)

    result = simulate(function, 2 * BLOCK + 10, 1)
    assert sizes == [BLOCK, BLOCK, 10]
    assert result.shape == (2 * BLOCK + 10,)
    assert simulate(draw, 1, 1).shape == (1,)


def test_each_block_has_its_own_child_of_the_seed() -> None:
    result = simulate(draw, 3 * BLOCK, 2020)
    children = np.random.SeedSequence(2020).spawn(3)
    expected = np.concatenate([np.random.default_rng(child).standard_normal(BLOCK) for child in children])
    np.testing.assert_array_equal(result, expected)


def test_a_seed_reproduces_and_no_seed_does_not() -> None:
    np.testing.assert_array_equal(simulate(draw, 50, 7), simulate(draw, 50, 7))
    assert not np.array_equal(simulate(draw, 50, 7), simulate(draw, 50, 8))
    assert not np.array_equal(simulate(draw, 50), simulate(draw, 50))


def test_seed_sequences_from_everything_numpy_takes() -> None:
    assert seed_sequence(5).entropy == 5
    assert seed_sequence(np.int64(5)).entropy == 5
    given = np.random.SeedSequence(9).spawn(2)[1]
    np.testing.assert_array_equal(seed_sequence(given).generate_state(4), given.generate_state(4))
    first, second = (seed_sequence(np.random.default_rng(4)).entropy for _ in range(2))
    assert first == second
    generator = np.random.default_rng(4)
    assert seed_sequence(generator).entropy != seed_sequence(generator).entropy


def test_a_seed_sequence_is_not_used_up() -> None:
    """Asking twice with one sequence gives the same draws: inputs are never changed."""
    given = np.random.SeedSequence(9)
    np.testing.assert_array_equal(simulate(draw, 20, given), simulate(draw, 20, given))


@pytest.mark.parametrize("bad", [-1, 1.5, "7", True, [1, 2]])
def test_bad_seeds_are_refused(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="rng must be None, a seed >= 0 or a numpy Generator"):
        simulate(draw, 10, bad)


# Resumption


@pytest.mark.parametrize("fail_at", [0, 1, 3])
def test_interrupted_work_goes_on_where_it_stopped(tmp_path: Path, fail_at: int) -> None:
    draws, first, second = 4 * BLOCK + 7, Flaky(fail_at), Flaky()
    with pytest.raises(Interrupted):
        simulate(first, draws, 1, store=tmp_path)
    assert len(list(tmp_path.glob("*.npy"))) == fail_at
    result = simulate(second, draws, 1, store=tmp_path)
    assert second.calls == 5 - fail_at
    np.testing.assert_array_equal(result, simulate(draw, draws, 1))
    third = Flaky()
    np.testing.assert_array_equal(simulate(third, draws, 1, store=tmp_path), result)
    assert third.calls == 0


def test_blocks_of_other_work_are_never_taken(tmp_path: Path) -> None:
    def other(size: int, generator: np.random.Generator) -> Any:
        return 100 + generator.random(size)

    simulate(draw, 2 * BLOCK, 1, store=tmp_path, key="a")
    for options in ({"rng": 1, "key": "b"}, {"rng": 2, "key": "a"}):
        result = simulate(other, 2 * BLOCK, store=tmp_path, **options)
        assert result.min() > 99
    assert simulate(other, BLOCK + 1, 1, store=tmp_path, key="a").min() > 99
    assert simulate(other, 2 * BLOCK, 1, store=tmp_path, key="a").max() < 99  # this is the work that was stored


def test_blocks_of_different_children_of_one_seed_are_told_apart(tmp_path: Path) -> None:
    """Two children of one SeedSequence share its entropy, not its draws."""
    first, second = np.random.SeedSequence(1).spawn(2)
    one = simulate(draw, BLOCK, first, store=tmp_path)
    other = simulate(draw, BLOCK, second, store=tmp_path)
    assert not np.array_equal(one, other)


def test_without_a_seed_nothing_is_resumed(tmp_path: Path) -> None:
    one, other = (simulate(draw, BLOCK, None, store=tmp_path) for _ in range(2))
    assert not np.array_equal(one, other)
    assert list(tmp_path.iterdir()) == []


MADE: list[tuple[int, ...]] = []


def made(*arguments: int) -> list[int]:
    """A new list every time."""
    MADE.append(arguments)
    return [*arguments]


def test_a_block_that_cannot_be_an_array_is_named_and_nothing_in_it_is_unpickled(tmp_path: Path) -> None:
    plain = simulate(draw, 2 * BLOCK, 1, store=tmp_path)
    file = min(tmp_path.glob("*.npy"))
    file.write_bytes(pickle.dumps([Unpickled()]))
    MADE.clear()
    with pytest.warns(RuntimeWarning, match=f"{file.name} was damaged, or a block of other work: it is made again"):
        np.testing.assert_array_equal(simulate(draw, 2 * BLOCK, 1, store=tmp_path), plain)
    np.testing.assert_array_equal(simulate(draw, 2 * BLOCK, 1, store=tmp_path), plain)
    assert MADE == []


class Unpickled:
    """An object that cannot be unpickled without a trace."""

    def __reduce__(self) -> Any:
        return made, (-1,)


@pytest.mark.parametrize("record", ["", "[]", '"text"', "{}", "[" * 100_000, "\udc00"])
def test_a_damaged_record_is_noticed(tmp_path: Path, record: str) -> None:
    plain = simulate(draw, 2 * BLOCK, 1, store=tmp_path)
    file = min(tmp_path.glob("*.npy"))
    (tmp_path / RECORDS / f"{file.name.removesuffix('.npy')}.json").write_bytes(record.encode(errors="surrogatepass"))
    with pytest.warns(RuntimeWarning, match=f"{file.name} was damaged"):
        np.testing.assert_array_equal(simulate(draw, 2 * BLOCK, 1, store=tmp_path), plain)


def test_items_keep_their_order_whichever_were_there(tmp_path: Path) -> None:
    asked: list[int] = []

    def square(item: int) -> Any:
        asked.append(item)
        return np.array([item**2.0])

    items = {str(i): i for i in range(4)}
    map_blocks(square, {"2": 2, "1": 1}, tmp_path)
    assert [block.item() for block in map_blocks(square, items, tmp_path).values()] == [0.0, 1.0, 4.0, 9.0]
    assert asked == [2, 1, 0, 3]
    assert [block.item() for block in map_blocks(square, items, threads=3).values()] == [0.0, 1.0, 4.0, 9.0]


# Elsewhere


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_keep_the_order_and_an_error_stops_the_rest(threads: int) -> None:
    begun: list[int] = []

    def fails(item: int) -> None:
        begun.append(item)
        if item == 2:
            raise Interrupted
        if item > 2:
            Event().wait(0.2)  # nobody sets it: who went through all of them would be long about it

    assert list(in_threads(abs, list(range(-9, 0)), threads)) == list(range(9, 0, -1))
    with pytest.raises(Interrupted):
        list(in_threads(fails, range(1000), threads))
    assert len(begun) < 1000


def test_what_is_remade_is_made_once_in_a_thread_however_often_it_is_sent() -> None:
    MADE.clear()
    here = PerThread(made, 1, 2)
    assert MADE == []
    assert here.value is here.value
    assert MADE == [(1, 2)]
    first, second = (pickle.loads(pickle.dumps(here)) for _ in range(2))
    assert first is second
    assert first.value == [1, 2]
    assert first.value is second.value
    assert MADE == [(1, 2)] * 2
    assert pickle.loads(pickle.dumps(PerThread(made, 3))).value == [3]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(lambda: here.value).result()
    assert other == here.value
    assert other is not here.value


# Progress


def test_tracking_yields_every_item_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    for enabled in (True, False):
        assert list(track(range(7), "work", enabled=enabled)) == list(range(7))
    captured = capsys.readouterr()
    assert captured.out == ""
