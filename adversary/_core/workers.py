"""Execution of independent tasks: in this process, in its threads, or on Dask workers.

Results arrive in order of completion and do not depend on where a task runs. Only enough tasks are submitted to keep
workers busy, short ones in batches. A task whose worker dies is run again on another worker.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cached_property, lru_cache
from multiprocessing import resource_tracker
from threading import RLock, Timer, local
from time import perf_counter
from typing import Any

from adversary._core.argument_checks import check_whole
from adversary._core.distribution import missing_extra

# Batches submitted at a time per worker thread: one runs, one waits.
AHEAD = 2
# Submitting a batch costs some hundredths of a second: about 1 % of the time of a batch.
# Target duration of a batch of tasks in seconds, estimated from finished tasks.
BATCH = 2.0

# Resubmissions of a task after the scheduler has given it up, which it does after the death of four workers.
RETRIES = 1

# Timeout in seconds for connecting to a scheduler and for its first worker.
PATIENCE = 30


def track[T](items: Iterable[T], description: str, *, enabled: bool = True, total: int | None = None) -> Iterator[T]:
    """The items, with a progress bar on standard error; no bar if that is not a terminal.

    Parameters
    ----------
    items : any iterable
    description : label of the bar
    enabled : show the bar
    total : number of items, if `items` has no length

    >>> list(track([1, 2], "draws"))
    [1, 2]
    """
    # Not rich's own `disable`: before version 14 that writes blank lines.
    if not enabled or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def notify_after(message: str, after: float = 2.0) -> Iterator[None]:
    """Context that prints a message on standard error after `after` seconds, if that is a terminal or a notebook."""
    from rich.console import Console

    console = Console(stderr=True)
    timer = Timer(after, console.print, args=(message,))
    timer.daemon = True
    if console.is_terminal or console.is_jupyter:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def map_unordered[T, R](
    function: Callable[[T], R],
    items: Sequence[T],
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    threads: int = 1,
) -> Generator[tuple[int, R]]:
    """Pairs (index of the item, result of the function), in order of completion.

    Parameters
    ----------
    function : of one item; for Dask, function and items must be picklable
    items : inputs of the function
    scheduler : address of a Dask scheduler, such as "tcp://10.0.0.1:8786"
    workers : without an address, number of processes of a `dask.distributed.LocalCluster`; 1 or None is this process
    threads : threads of this process, used without Dask; for functions that release the interpreter's lock

    Raises
    ------
    ImportError : Dask is not installed
    ValueError, OSError : the scheduler cannot be reached, or has no worker
    ChildProcessError : workers die repeatedly on one item, or the scheduler dies
    Exception : whatever the function raises; items that have not started are dropped

    >>> sorted(map_unordered(abs, [-1, 2]))
    [(0, 1), (1, 2)]
    """
    if not items:
        return
    with dask_address(scheduler, workers) as address:
        if address is not None:
            with _client(address) as client:
                yield from _on_workers(client, function, items)
        elif threads == 1 or len(items) < 2:
            yield from enumerate(map(function, items))
        else:
            yield from _in_pool(function, items, threads)


def _in_pool[T, R](function: Callable[[T], R], items: Sequence[T], threads: int) -> Iterator[tuple[int, R]]:
    """`map_unordered` in threads of this process; on an error or interruption, items not yet started are dropped."""
    pool = ThreadPoolExecutor(threads)
    try:
        places = {pool.submit(function, item): place for place, item in enumerate(items)}
        yield from ((places[future], future.result()) for future in as_completed(places))
    finally:
        pool.shutdown(cancel_futures=True)


def in_threads[T, R](function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Results of the function, in the order of the items, computed in threads of this process.

    Parameters
    ----------
    function : of one item; should release the interpreter's lock
    items : inputs of the function
    threads : number of threads, at least 1

    >>> in_threads(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    results = dict(map_unordered(function, items, threads=threads))
    return [results[place] for place in range(len(items))]


class PerThread[R]:
    """A value rebuilt once per thread from a function and its arguments, for objects that cannot be pickled or shared.

    Function and arguments are pickled. Each thread builds its own `value` on first use and reuses it for later tasks.
    Used for functions compiled from models.

    Parameters
    ----------
    function : returns the value
    *arguments : of the function
    """

    def __init__(self, function: Callable[..., R], *arguments: Any) -> None:
        self._function, self._arguments, self._here = function, arguments, local()

    @property
    def value(self) -> R:
        """The value of this thread."""
        if not hasattr(self._here, "value"):
            with _MAKING:
                self._here.value = self._function(*self._arguments)
        value: R = self._here.value
        return value

    @cached_property
    def _pickled(self) -> bytes:
        # pickle cannot serialise functions defined in a notebook.
        import cloudpickle

        sent: bytes = cloudpickle.dumps((self._function, self._arguments))
        return sent

    def __reduce__(self) -> Any:
        return _remade, (self._pickled,)


# Lock for building values one at a time: PyTensor's compiler is not thread-safe.
_MAKING = RLock()


@lru_cache(maxsize=8)
def _remade(sent: bytes) -> PerThread[Any]:
    import cloudpickle

    function, arguments = cloudpickle.loads(sent)
    return PerThread(function, *arguments)


@contextmanager
def dask_address(scheduler: str | None = None, workers: int | None = None) -> Iterator[str | None]:
    """Context with the address of a Dask scheduler, for several calls of `map_unordered`.

    Parameters
    ----------
    scheduler : address of a running scheduler, yielded unchanged
    workers : without an address, number of processes of a `LocalCluster` that is closed at the end of the context

    Returns
    -------
    The address; None (work in this process) for one worker or without arguments.

    Raises
    ------
    ValueError : both arguments are given, or `workers` is not a positive whole number
    ImportError : Dask is not installed
    ChildProcessError : a worker died at startup
    """
    count = _count(scheduler, workers)
    if scheduler is not None or count == 1:
        yield scheduler
        return
    with _local(count) as cluster:
        yield cluster.scheduler_address


def import_distributed() -> Any:
    """Import `dask.distributed`; ImportError names the extra `scale` if it is missing."""
    # A None entry in sys.modules hides Dask from libraries that would import it at startup.
    if sys.modules.get("dask", True) is None:
        del sys.modules["dask"]
    try:
        import dask.distributed
    except ImportError as error:
        raise missing_extra("several workers need Dask", "scale") from error
    return dask.distributed


def _count(scheduler: str | None, workers: int | None) -> int:
    count = 1 if workers is None else int(check_whole("workers", workers, minimum=1))
    if scheduler is not None and workers is not None:
        raise ValueError(f"workers are those of the scheduler {scheduler}: give one of the two, got workers = {count}")
    return count


def _local(workers: int) -> Any:
    """LocalCluster of single-threaded processes, restarted when one dies; errors are raised here instead of logged.

    The workers ignore Ctrl-C, which a terminal sends to all processes; this process shuts them down.
    """
    _start_tracker()
    dask = import_distributed()
    try:
        return dask.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL,
            preload=["import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"],
        )  # fmt: skip
    except (RuntimeError, TimeoutError) as error:
        raise ChildProcessError(
            f"one of {workers} workers died while they were started, or took too long ({error}): start again, or with "
            "fewer"
        ) from None


def _start_tracker() -> None:
    """Start multiprocessing's resource tracker with its warnings silenced; it outlives this process to clean up."""
    silent = "ignore:resource_tracker:UserWarning"
    sys.warnoptions.append(silent)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(silent)


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    """Client of a scheduler with at least one worker; a scheduler that dies raises ChildProcessError, without logs."""
    dask, logs = import_distributed(), [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [log.level for log in logs]
    try:
        client = dask.Client(scheduler, timeout=PATIENCE)
    except (OSError, TimeoutError, ValueError) as error:
        raise ValueError(f"there is no Dask scheduler at {scheduler!r}: {error}") from None
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        with client:
            try:
                client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise ValueError(f"the Dask scheduler at {scheduler!r} has no worker") from None
            yield client
    except (dask.CancelledError, dask.comm.CommClosedError):
        raise ChildProcessError(f"the Dask scheduler at {scheduler!r} died, or cannot be reached any more") from None
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def _on_workers[T, R](client: Any, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
    """`map_unordered` on the workers of a client, with `AHEAD` batches in flight per thread."""
    dask = import_distributed()
    threads = max(1, sum(client.nthreads().values()))
    flying: dict[Any, list[int]] = {}
    lost = dict.fromkeys(range(len(items)), 0)
    waiting = deque(range(len(items)))
    done, seconds, largest = 0, 0.0, 0.0

    def hand_out(places: list[int]) -> None:
        if places:
            flying[client.submit(_batch, function, [items[place] for place in places], pure=False)] = places

    def next_batch() -> list[int]:
        size = min(int(BATCH * done / seconds), len(waiting) // (AHEAD * threads)) if seconds else 1
        return [waiting.popleft() for _ in range(min(max(size, 1), len(waiting)))]

    for _ in range(AHEAD * threads):
        hand_out(next_batch())
    while flying:
        try:
            ready = dask.wait(list(flying), timeout=PATIENCE, return_when="FIRST_COMPLETED").done
        except TimeoutError:
            _need_worker(client)
            continue
        for future in ready:
            places = flying.pop(future)
            try:
                results, took, memory = future.result()
            except (dask.KilledWorker, dask.CancelledError) as error:
                for place in places:
                    lost[place] += 1
                    if lost[place] > RETRIES:
                        raise ChildProcessError(
                            f"workers died {lost[place]} times over piece {place + 1}: {error}"
                        ) from None
                    hand_out([place])
                continue
            done, seconds, largest = done + len(results), seconds + took, max(largest, memory)
            waiting.extendleft(reversed(places[len(results) :]))
            hand_out(next_batch())
            yield from zip(places, results, strict=False)
    tell_watchers(f"{threads} threads of workers; a worker took {largest:.0f} MiB at most")


def _batch[T, R](function: Callable[[T], R], items: Sequence[T]) -> tuple[list[R], float, float]:
    """Results of a batch on a worker, seconds and peak MiB. An error ends the batch, and is raised by its first item.

    Items after an error are returned to the queue, so that the failing item comes first in a later batch.
    """
    results, start = [], perf_counter()
    for item in items:
        try:
            results.append(function(item))
        except Exception:
            if not results:
                raise
            break
    return results, perf_counter() - start, _peak_memory()


def _peak_memory() -> float:
    """Peak memory of this process in MiB; NaN if the system does not report it."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return float("nan")
    # ru_maxrss is in bytes on macOS and in KiB on Linux.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def tell_watchers(text: str) -> None:
    """Print a line on standard error if that is a terminal.

    Parameters
    ----------
    text : the line
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        console.print(text, markup=False, highlight=False)


def _need_worker(client: Any) -> None:
    """Raise ChildProcessError if all workers are gone and no new one arrives."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ChildProcessError("all workers of the Dask scheduler died, and none took their place") from None
