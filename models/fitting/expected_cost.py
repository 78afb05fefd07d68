"""Expected run time of an audit of a model, extrapolated from one small batch of its log density.

Draws given side data read every row once per draw of a proposal. Every release is weighed with every draw, or fitted by
NUTS. One batch of the usual size is timed and multiplied by the number of batches. Refined proposals and NUTS fits
where needed are not included: the releases that need them are not known in advance.
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
"""Expected seconds from which a message is shown."""

# Numbers per batch, few enough for the processor's cache.
_CELLS = 2**17

# Cost of one NUTS draw in density evaluations: six or seven leapfrog steps, each as long as three evaluations.
_STEPS = 20


def seconds_of_side_data(prior: WeighedPrior) -> float:
    """Expected seconds to draw the latents given the side data.

    Parameters
    ----------
    prior : prior draws that are too few given the side data

    Returns
    -------
    Seconds of processor time.
    """
    return expected_draws(prior) * _seconds_per_draw(prior)


def seconds_of_releases(
    prior: WeighedPrior, released: Mapping[str, NDArray[Any]], nuts: str, sampling: Sampling
) -> float:
    """Expected seconds to weigh draws by all releases, and to sample every release if `nuts` is "always".

    Parameters
    ----------
    prior : draws to be weighed
    released : releases (release, *shape) by name
    nuts : as in `fit_many`
    sampling : numbers and lengths of chains

    Returns
    -------
    Seconds of processor time.
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
    """Print the expected time to standard error, if that is a terminal, the time is long and this is no worker process.

    Parameters
    ----------
    seconds : expected processor time
    what : name of the work, for the message
    shown : whether progress is shown
    """
    if shown and seconds >= LONG and multiprocessing.parent_process() is None:
        tell_watchers(f"{what}: about {in_words(seconds)} of processor time")


def in_words(seconds: float) -> str:
    """Duration in words, to two digits.

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
    """Seconds per draw to evaluate the terms that do not depend on a release."""
    few = max(1, min(len(prior.log_prior), _CELLS // prior.terms.pure[0].widest))
    values = [value[:few] for value in prior.values]
    return _seconds(lambda: prior.terms.pure[0](values, few, True)) / few


def _seconds(work: Callable[[], Any]) -> float:
    """Seconds of a call, the minimum of two runs: the first one may include start-up costs."""
    times = []
    for _ in range(2):
        start = perf_counter()
        with np.errstate(all="ignore"):
            work()
        times.append(perf_counter() - start)
    return min(times)
