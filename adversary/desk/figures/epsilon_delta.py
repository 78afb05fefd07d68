"""Epsilon against delta: the published conversions of a rho, and what the noise itself needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from adversary._core import Floats, as_array, check_positive, check_probability, outward
from adversary.desk.kit import (
    COLOURS,
    GREY,
    READING,
    Guarantees,
    Label,
    edge_labels,
    line,
    named_guarantees,
    panel_title,
    styled,
    title,
)
from adversary.privacy import Guarantee
from adversary.privacy.definitions import ZeroConcentratedDP, pbdp_delta_markov, simple_epsilon
from adversary.privacy.losses import GaussianLoss, PrivacyLoss

REFERENCE = 1e-10
"""Delta at which the title speaks, where the axis holds it."""
COMPARED = (0, (1, 1.2))
"""Line style of Gaussian noise, which is there to compare with: on top, as other noise often needs the same epsilon."""


@styled
def epsilon_ladder(
    rho: float | Fraction | None = None, guarantees: Guarantees | None = None, deltas: ArrayLike = (1e-12, 0.1)
) -> Figure:
    """Epsilon against delta, rung by rung: how much each sharper reading of the same noise saves.

    Parameters
    ----------
    rho : zCDP of the release: its simple conversion, its tight one, and Gaussian noise with the same rho
    guarantees : further rungs by name, in their worse direction; of a loss the certified interval is drawn
    deltas : in (0, 1); the axis runs from the largest to the smallest
    """
    rungs, (low, high) = _rungs(rho, guarantees), _range("deltas", deltas)
    asked = REFERENCE if low <= REFERENCE <= high else low
    ends = {name: [float(rung.epsilon(d)) for d in (high, asked, low)] for name, rung in rungs.items()}
    top = 1.06 * max((end[2] for end in ends.values() if np.isfinite(end[2])), default=1.0)
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xscale="log", xlim=(low, high), ylim=(0.0, top), xlabel="delta", ylabel="epsilon (nats)")
    labels: list[Label] = []
    above = np.inf
    for name, colour in zip(sorted(rungs, key=lambda name: -ends[name][1]), cycle(COLOURS), strict=False):
        first, here, last = ends[name]
        _draw_rung(ax, name, rungs[name], np.linspace(min(first, top), min(last, top), 201), colour)
        if np.isfinite(here):
            ax.plot(asked, here, "o", color=colour, ms=6, mec="white", zorder=5, gid=f"asked {name}")
        saved = f", {above - here:.2f} less" if 0.005 < above - here < np.inf else ""
        labels.append((min(last, top), f"{name}: {outward(here, True)}{saved}", colour))
        above = here
    ax.axvline(asked, color=GREY, zorder=0, **READING)
    _decades(ax)
    ax.invert_xaxis()
    edge_labels(ax, labels, low, offset=8.0)
    panel_title(ax, f"numbers: epsilon at delta = {_plain(asked)}, the dotted line")
    title(figure, _saved({name: end[1] for name, end in ends.items()}, asked, rho is None or guarantees is None))
    return figure


class _Rung(NamedTuple):
    """A reading of the noise: certified (lower, upper) delta at an epsilon, and the epsilon of a delta."""

    profile: Callable[[Floats], tuple[Any, Any]]
    epsilon: Callable[[float], Any]
    line: dict[str, Any]


def _rungs(rho: float | Fraction | None, guarantees: Guarantees | None) -> dict[str, _Rung]:
    """The three readings of a rho, and each guarantee's own."""
    if rho is None and guarantees is None:
        raise ValueError("rho or guarantees must be given: there is nothing to draw")
    found: dict[str, _Rung] = {}
    if rho is not None:
        r = float(check_positive("rho", rho))
        tight = ZeroConcentratedDP(r)
        found["simple zCDP"] = _Rung(lambda e: _simple(r, e), lambda d: simple_epsilon(r, d), line(tight))
        found["tight zCDP"] = _rung(tight)
        gaussian = _rung(GaussianLoss(float(np.sqrt(2.0 * r))))
        found["Gaussian noise"] = gaussian._replace(line={"ls": COMPARED, "zorder": 3})
    named = {} if guarantees is None else named_guarantees(guarantees)
    return found | {name: _rung(one) for name, one in named.items()}


def _simple(rho: float, epsilon: Floats) -> tuple[Any, Any]:
    """exp(-(epsilon - rho)^2 / (4 rho)) above rho: the simple conversion read the other way."""
    return (pbdp_delta_markov(epsilon, rho=rho),) * 2


def _rung(one: Guarantee) -> _Rung:
    """A guarantee in its worse direction; of a loss the certified interval."""

    def certified(epsilon: Floats) -> tuple[Any, Any]:
        sides = [one] if one.swapped is one else [one, one.swapped]
        ends = [
            side.bracket.delta(epsilon) if isinstance(side, PrivacyLoss) else (side.delta(epsilon),) * 2
            for side in sides
        ]
        low, high = (np.max([as_array(end[i]) for end in ends], axis=0) for i in (0, 1))
        return low, high

    return _Rung(certified, one.epsilon, line(one))


def _draw_rung(ax: Axes, name: str, rung: _Rung, epsilon: Floats, colour: str) -> None:
    """Epsilon against delta, and the certified interval of delta, which is seen where it is wide."""
    low, high = (np.maximum(end, ax.get_xlim()[0]) for end in rung.profile(epsilon))
    ax.plot(high, epsilon, color=colour, gid=f"epsilon {name}", **rung.line)
    ax.fill_betweenx(epsilon, low, high, color=colour, alpha=0.25, lw=0, gid=f"certified {name}")


def _decades(ax: Axes) -> None:
    """Powers of ten on the horizontal axis, at most eight of them labelled."""
    low, high = (int(np.rint(10.0 * np.log10(end))) / 10.0 for end in ax.get_xlim())
    step = max(1, int(np.ceil((high - low) / 8.0)))
    powers = np.arange(int(np.floor(high)), int(np.ceil(low)) - 1, -step)
    ax.set_xticks(10.0**powers, [_plain(10.0**power) for power in powers])
    ax.set_xticks([], minor=True)


def _saved(epsilon: Mapping[str, float], delta: float, alone: bool) -> str:
    """The dearest reading at one delta, and the cheapest; beside readings of rho the last guarantee given."""
    most = max(epsilon, key=epsilon.__getitem__)
    least = min(epsilon, key=epsilon.__getitem__) if alone else list(epsilon)[-1]
    start = f"At delta = {_plain(delta)} epsilon is {outward(epsilon[most], True)} ({most})"
    return start if least == most else f"{start}, or {outward(epsilon[least], True)} ({least})"


def _plain(delta: float) -> str:
    """A delta as people write it."""
    return f"{delta:g}".replace("e-0", "e-")


def _range(name: str, values: ArrayLike) -> tuple[float, float]:
    """The smallest and the largest of probabilities strictly between 0 and 1, two different ones at least."""
    x = np.unique(check_probability(name, values))
    if x.size < 2 or not 0.0 < x[0] < x[-1] < 1.0:
        raise ValueError(f"{name} must hold two different values strictly between 0 and 1, got {values!r}")
    return float(x[0]), float(x[-1])
