"""The figures of a guarantee or a concern, and how they are written: all of them whole, or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from adversary._core import between, blocks, percent
from adversary.desk.answers.bounds_answer import certain
from adversary.desk.figures import trade_off_curves
from adversary.desk.kit import (
    BLUE,
    COLOURS,
    GREY,
    edge_labels,
    finding,
    in_percent,
    naming,
    netcdf,
    panel_title,
    plain_log_axis,
    styled,
    ticks_right,
)
from adversary.policy.census import CensusScenario
from adversary.privacy import Guarantee
from adversary.privacy.definitions import GaussianDP, ZeroConcentratedDP

KINDS = ("svg", "png")
RARE = 1e-4
"""Smallest prior of a figure."""


def of_guarantee(guarantee: Guarantee, name: str, priors: Sequence[float], failure: float) -> dict[str, Figure]:
    """Trade-off, posterior by prior, and, for zCDP and Gaussian DP, the ladder of epsilons."""
    rho = float(guarantee.parameters.get("rho", 0.0))
    named = {name: guarantee, **({"Gaussian noise of that rho": _gaussian(rho)} if rho else {})}
    drawn: dict[str, Callable[[], Figure]] = {
        "trade_off": lambda: trade_off_curves.trade_off(named),
        "posterior_by_prior": lambda: posterior_by_prior(*certain(guarantee, failure), priors),
    }
    if rho:
        drawn["epsilon_ladder"] = lambda: trade_off_curves.epsilon_ladder(rho)
    elif guarantee.parameters.get("mu"):
        drawn["epsilon_ladder"] = lambda: trade_off_curves.epsilon_ladder(guarantees=named)
    return _drawn(drawn)


def of_concern(made: CensusScenario, priors: Sequence[float], failure: float) -> dict[str, Figure]:
    """Trade-off, ladder of epsilons and posterior by prior of the noise of all counted queries."""
    rho = float(made.rho)
    return _drawn(
        {
            "trade_off": lambda: trade_off_curves.trade_off(
                {"exact composition": made.loss, "zCDP": ZeroConcentratedDP(rho)}
            ),
            "epsilon_ladder": lambda: trade_off_curves.epsilon_ladder(rho, {"exact composition": made.loss}),
            "posterior_by_prior": lambda: posterior_by_prior(*certain(made.loss, failure), priors),
        }
    )


def of_sweeps(draw: Mapping[str, Callable[[], Figure]]) -> dict[str, Figure]:
    """The figures of a sensitivity analysis, by name."""
    return _drawn(draw)


def _gaussian(rho: float) -> Guarantee:
    return GaussianDP(float(np.sqrt(2.0 * rho))).worst_pair


def _drawn(figures: Mapping[str, Callable[[], Figure]]) -> dict[str, Figure]:
    return {name: figures[name]() for name in blocks.track(list(figures), "drawing")}


def write(figures: Mapping[str, Figure], folder: Path, data: xr.DataTree | None = None, name: str = "") -> list[Path]:
    """Every figure as SVG and PNG, made in a hidden folder inside this one and moved out when all are whole.

    `data`, if any, is written with them as NetCDF under `name`.
    """
    with TemporaryDirectory(dir=folder, prefix=".") as hidden:
        if data is not None:
            with naming(folder / name):
                (Path(hidden) / name).write_bytes(netcdf(data))
        for name, figure in figures.items():
            for kind in KINDS:
                metadata = {"Date": None} if kind == "svg" else None
                with naming(folder / f"{name}.{kind}"):
                    figure.savefig(Path(hidden) / f"{name}.{kind}", metadata=metadata)
        return [path.replace(folder / path.name) for path in sorted(Path(hidden).iterdir())]


@styled
def posterior_by_prior(within: Guarantee, chance: float, priors: Sequence[float]) -> Figure:
    """Between which posteriors a reader may end, at every prior: on plain axes, and on log axes for rare traits.

    Parameters
    ----------
    within, chance : bounds that hold but for a probability, as `bounds.certain` gives them
    priors : marked
    """
    figure = Figure(figsize=(11.6, 4.9), layout="constrained")
    whole, rare = figure.subplots(1, 2)
    whole.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    rare.set(xscale="log", yscale="log", xlim=(RARE, 1.0), ylim=(RARE / 10.0, 1.0))
    x = np.union1d(np.linspace(0.0, 1.0, 201), np.geomspace(RARE, 1.0, 201))
    low, high = within.posterior_bounds(x)
    marked = np.unique(np.clip(priors, 0.0, 1.0))
    ends = within.posterior_bounds(marked)
    for ax in (whole, rare):
        least = ax.get_ylim()[0]  # zero has no place on a log axis
        ax.fill_between(x, np.maximum(low, least), np.maximum(high, least), color=BLUE, alpha=0.12, lw=0)
        ax.plot(x, np.maximum(high, least), color=BLUE, gid="highest")
        ax.plot(x, np.maximum(low, least), color=COLOURS[1], gid="lowest")
        ax.plot(x, x, color=GREY, lw=1.2, zorder=0, gid="unmoved")
        ax.vlines(marked, *np.maximum(ends, least), color=GREY, lw=1.0, zorder=1)
        for end, colour in zip(ends, (COLOURS[1], BLUE), strict=True):
            if (inside := end >= least).any():
                ax.plot(marked[inside], end[inside], "o", color=colour, ms=6, mec="white", clip_on=False, zorder=5)
        ax.set(xlabel="prior that the target is in", ylabel="posterior")
    in_percent(whole.xaxis, whole.yaxis)
    plain_log_axis(rare, "x", percent)
    plain_log_axis(rare, "y", percent)
    ticks_right(rare)
    first = within.posterior_bounds(RARE)
    labels: list[Any] = [(RARE, "unmoved", GREY), (first[1], "highest", BLUE), (first[0], "lowest", COLOURS[1])]
    edge_labels(rare, labels, RARE, offset=-8.0)
    panel_title(whole, f"Every prior{f'; a bound may fail with probability {percent(chance)}' if chance else ''}")
    panel_title(rare, "Rare traits, on log axes; dots: the priors asked for")
    at = float(marked[np.argmax(ends[1] - marked)])
    found = between(*within.posterior_bounds(at), percent=True)
    finding(figure, f"A prior of {percent(at)} may become a posterior of {found}")
    return figure
