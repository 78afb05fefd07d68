"""Execution of independent pieces of work: in this process, in threads of it, or on the workers of Dask.

Results arrive as they are ready and do not depend on where a piece runs. Only enough pieces are submitted to keep
workers busy, short ones several at once. A piece whose worker dies is run again elsewhere.
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

AHEAD = 2
"""Batches handed out for every thread of the workers."""
BATCH = 2.0
"""Seconds that a batch of pieces is to take, judged by those that are done: handing one out costs some hundredths."""
RETRIES = 1
"""Times that a piece is handed out again after the scheduler has given it up, which it does when four workers died."""
PATIENCE = 30
"""Seconds in which a scheduler must have a worker."""


def track[T](items: Iterable[T], description: str, *, enabled: bool = True, total: int | None = None) -> Iterator[T]:
    """The items, with a progress bar and the time left on standard error; silent when not a terminal or not enabled.

    Parameters
    ----------
    items : any
    description : before the bar
    enabled : show it
    total : number of the items, where they cannot tell themselves

    >>> list(track([1, 2], "draws"))
    [1, 2]
    """
    if not enabled or not sys.stderr.isatty():  # rich's own switch writes blank lines before version 14
        yield from items
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield from progress.track(items, total=total, description=description)


@contextmanager
def notify_after(message: str, after: float = 2.0) -> Iterator[None]:
    """Say on standard error what is going on if it takes longer than `after` seconds; silent where nobody watches."""
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
    """(place, function of the item) of every item, as they are done.

    Parameters
    ----------
    function : of one item; for Dask a function of a module (or a `functools.partial` of one), as must be the items
    scheduler : address of a Dask scheduler, such as "tcp://10.0.0.1:8786"
    workers : without an address: processes of a `LocalCluster` of Dask; this process where 1, or not given
    threads : of this process, where no others do the work; for work that lets others run

    Raises
    ------
    ImportError : Dask is not installed
    ValueError, OSError : no such scheduler, or one without a worker
    ChildProcessError : an item whose workers die again and again, or a scheduler that dies
    Exception : whatever the function raises; what has not begun is dropped

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
    """`map_unordered` by threads of this process; on an error or an interruption, what has not begun is dropped."""
    pool = ThreadPoolExecutor(threads)
    try:
        places = {pool.submit(function, item): place for place, item in enumerate(items)}
        yield from ((places[future], future.result()) for future in as_completed(places))
    finally:
        pool.shutdown(cancel_futures=True)


def in_threads[T, R](function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The function of every item, in their order, by so many threads of this process.

    Parameters
    ----------
    function : of one item; lets other threads run
    items : any number of them
    threads : at least 1

    >>> in_threads(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    results = dict(map_unordered(function, items, threads=threads))
    return [results[place] for place in range(len(items))]


class PerThread[R]:
    """A value rebuilt once per thread from a function and its arguments, for objects that cannot be pickled or shared.

    Function and arguments are pickled; each thread builds its own `value` on first use, however many pieces of work
    need it. For functions compiled from models.
    """

    def __init__(self, function: Callable[..., R], *arguments: Any) -> None:
        self._function, self._arguments, self._here = function, arguments, local()

    @property
    def value(self) -> R:
        """The result, of this thread."""
        if not hasattr(self._here, "value"):
            with _MAKING:
                self._here.value = self._function(*self._arguments)
        value: R = self._here.value
        return value

    @cached_property
    def _pickled(self) -> bytes:
        import cloudpickle  # also of functions written in a notebook

        sent: bytes = cloudpickle.dumps((self._function, self._arguments))
        return sent

    def __reduce__(self) -> Any:
        return _remade, (self._pickled,)


_MAKING = RLock()
"""Compilers are not made for two threads."""


@lru_cache(maxsize=8)
def _remade(sent: bytes) -> PerThread[Any]:
    import cloudpickle

    function, arguments = cloudpickle.loads(sent)
    return PerThread(function, *arguments)


@contextmanager
def dask_address(scheduler: str | None = None, workers: int | None = None) -> Iterator[str | None]:
    """The address of a scheduler for several rounds of work, as a context.

    Parameters
    ----------
    scheduler : address of a Dask scheduler, taken as it is
    workers : without an address: processes of a `LocalCluster` that ends with the context

    Returns
    -------
    The address; None, this process, for one worker, or where neither is given.

    Raises
    ------
    ValueError : both are given, or no whole number of workers
    ImportError : Dask is not installed
    ChildProcessError : a worker died while they were started
    """
    count = _count(scheduler, workers)
    if scheduler is not None or count == 1:
        yield scheduler
        return
    with _local(count) as cluster:
        yield cluster.scheduler_address


def import_distributed() -> Any:
    """Import `dask.distributed`; ImportError names the extra `scale` if it is missing."""
    if sys.modules.get("dask", True) is None:  # left out by the program until it is needed
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
    """Processes of one thread on this machine, begun again where one dies; errors are raised here, not logged there.

    Ctrl-C, which a terminal sends to them too, is left to this process, which ends them.
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
    """The process that outlives this one to clean up after it, told not to warn of that on the user's screen."""
    silent = "ignore:resource_tracker:UserWarning"
    sys.warnoptions.append(silent)
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(silent)


@contextmanager
def _client(scheduler: str) -> Iterator[Any]:
    """A client of a scheduler that has a worker at least; if it dies, that is a ChildProcessError and not logged."""
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
    """`map_unordered` on the workers of a client, so many pieces in flight."""
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
    """On a worker: results up to the first error, which is raised where it is the first item's; seconds, and MiB."""
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
    """Most memory that this process has had, in MiB; NaN where the system does not say."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return float("nan")
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def tell_watchers(text: str) -> None:
    """A line on standard error, where that is a terminal.

    Parameters
    ----------
    text : of the line
    """
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_terminal:
        console.print(text, markup=False, highlight=False)


def _need_worker(client: Any) -> None:
    """ChildProcessError where all workers are gone, and none comes."""
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        raise ChildProcessError("all workers of the Dask scheduler died, and none took their place") from None
