"""Seconds that an audit of a model is about to take, from one small batch of its log density: named before it starts.

Draws given side data read every row once for each draw of a proposal; releases are weighed by every draw, or fitted by
NUTS one after another. A batch as large as those that follow is timed, and multiplied by their number. Better proposals
for a release, and a fit by NUTS where these do not do, are left out: which releases need them is not known before.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adversary._core import Sampling, tell_watchers
from adversary.models.importance import WeighedPrior, expected_draws

LONG = 10.0
"""Seconds from which on they are named."""
_CELLS = 2**17
"""Numbers of one batch, that the processor's own memory holds."""
_STEPS = 20
"""Evaluations of the density and its gradient for a draw of NUTS: six or seven leapfrogs, each as long as three."""


def seconds_of_side_data(prior: WeighedPrior) -> float:
    """Seconds to draw the latents given what is known beside the release; 0 where draws of the prior do.

    Parameters
    ----------
    prior : draws that do not do
    """
    return expected_draws(prior) * _seconds_per_draw(prior)


def seconds_of_releases(
    prior: WeighedPrior, released: Mapping[str, NDArray[Any]], nuts: str, sampling: Sampling
) -> float:
    """Seconds to weigh draws by releases, and to sample them where all are.

    Parameters
    ----------
    prior : draws that are weighed
    released : releases (release, *shape) by name
    nuts : as `fit_many` takes it
    sampling : lengths of chains
    """
    number, draws = len(next(iter(released.values()))), len(prior.log_prior)
    some = {name: value[: max(1, min(8, number))] for name, value in released.items()}
    few = max(1, min(draws, _CELLS // prior.terms.states.total))
    values, pure = [value[:few] for value in prior.values], prior.pure[:few]
    batches = draws / few * number / len(next(iter(some.values())))
    seconds = batches * _seconds(lambda: prior.terms.hypotheses(values, some, pure, far=True))
    if nuts == "always" and prior.is_smooth:
        steps = sampling.chains * (sampling.tune + sampling.draws) * _STEPS
        seconds += number * steps * _seconds_per_draw(prior)
    return seconds


def tell_cost(seconds: float, what: str, shown: bool = True) -> None:
    """A line on standard error, where that is a terminal and the time is long: of this process, not of its workers.

    Parameters
    ----------
    seconds : expected
    what : what takes so long
    shown : whether progress is shown
    """
    if shown and seconds >= LONG and multiprocessing.parent_process() is None:
        tell_watchers(f"{what}: about {in_words(seconds)} of processor time")


def in_words(seconds: float) -> str:
    """A time, to two digits.

    Parameters
    ----------
    seconds : at least 0

    >>> in_words(47.2), in_words(1500.0), in_words(9000.0)
    ('47 s', '25 min', '2.5 h')
    """
    for unit, length in (("h", 7200.0), ("min", 180.0)):
        if seconds >= length:
            return f"{seconds / (3600.0 if unit == 'h' else 60.0):.2g} {unit}"
    return f"{seconds:.0f} s"


def _seconds_per_draw(prior: WeighedPrior) -> float:
    """Seconds of the terms of one draw that no release enters."""
    few = max(1, min(len(prior.log_prior), _CELLS // prior.terms.pure[0].widest))
    values = [value[:few] for value in prior.values]
    return _seconds(lambda: prior.terms.pure[0](values, few, True)) / few


def _seconds(work: Callable[[], Any]) -> float:
    """Seconds of some work, the shorter of two runs."""
    times = []
    for _ in range(2):
        start = perf_counter()
        with np.errstate(all="ignore"):
            work()
        times.append(perf_counter() - start)
    return min(times)
