"""A risk profile over its adversaries: the epsilon each of them allows, and what is tolerated beside what is kept.

An adversary is a pair of priors: `inclusion`, that the target is in the data, and `value`, that their record is one of
S, which would do harm, given that it is in. A profile about adversaries who share one of the two is a curve over the
other.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm
from scipy.ndimage import distance_transform_edt

from adversary._core import Floats, as_array, format_bound, format_probability, percent, shown_epsilon
from adversary.budget import BOUNDED, Recommendation, RiskProfile, risk_surface
from adversary.report.plot import sheet as kit
from adversary.report.plot.sheet import Panels

RARE = 1e-3
"""Smallest prior of a figure."""
CELLS = 240
"""Of a map, along either prior."""
WIDEST = 30.0
"""Largest over smallest epsilon that colours tell apart, unless the recommendations are further apart."""
BINDS = kit.COLOURS[1]
"""Colour of the adversary who binds."""
LONG = {"inclusion": "inclusion: prior that the target is in", "value": "value: prior that an included record is in S"}
NOTHING = "asks for nothing"
WIDTH = 26
"""Letters in a line over a small panel."""
COLOURED = ("epsilon by colour", "line by colour")
"""Parts of a map that need its scale of colours."""
_AROUND: Any = {"bbox": {"fc": "white", "ec": "none", "alpha": 0.85, "pad": 1.5}, "zorder": 9}


class Slice(NamedTuple):
    """Adversaries along one prior, the other one fixed."""

    along: str
    fixed: float
    x: Floats

    @property
    def readers(self) -> tuple[Any, Any]:
        """(inclusion, value); a limit at 0 is drawn from next to it."""
        fixed = max(self.fixed, 1e-9)
        return (self.x, fixed) if self.along == "inclusion" else (fixed, self.x)


@kit.house_style
def epsilon_profile(recommended: Recommendation | Mapping[str, Recommendation]) -> Axes | Panels:
    """The largest epsilon each adversary's tolerance allows, over the priors, and the adversary who needs the smallest.

    Parameters
    ----------
    recommended : by name, at least one; a single one about both priors is drawn on plain and on log axes
    """
    recommended = {"": recommended} if isinstance(recommended, Recommendation) else recommended
    single = len(recommended) == 1
    both = single and any(free_prior(one.profile) is None for one in recommended.values())
    pairs = [(name, one, log) for name, one in recommended.items() for log in ((False, True) if both else (False,))]
    axes = panels(len(pairs))
    norm, needed = _norm(recommended), [one.loss for one in recommended.values() if one.status == BOUNDED]
    heights = (0.6 * min(needed), 4.0 * max(needed)) if needed and not single else None  # several curves share an axis
    for ax, (name, one, log) in zip(axes, pairs, strict=True):
        if free_prior(one.profile) is None:
            _map(ax, one, norm, log=log, small=not single)
        else:
            _curve(ax, one, heights, small=not single)
        if both:
            kit.panel_title(ax, "Small priors, on log axes" if log else "All priors")
        elif not single:
            kit.panel_title(ax, in_two_lines(name))
    outer_labels(axes)
    if any(part.get_gid() in COLOURED for ax in axes for part in ax.collections):
        bar = kit.figure_of(axes).colorbar(ScalarMappable(norm, "viridis"), ax=axes, extend="max", pad=0.02, shrink=0.9)
        bar.set_label("largest epsilon allowed")
        kit.plain_log_axis(bar.ax, "y")
    kit.title(axes, _smallest_epsilon_words(recommended))
    return axes[0] if len(axes) == 1 else axes


def _smallest_epsilon_words(recommended: Mapping[str, Recommendation]) -> str:
    """The smallest epsilon that somebody needs, and their priors; between what the recommendations lie."""
    bounded = [one for one in recommended.values() if one.status == BOUNDED]
    if len(recommended) == 1 and bounded:
        least = format_bound(bounded[0].loss, False)
        where = f"inclusion {prior(bounded[0].inclusion)}, value {prior(bounded[0].value)}"
        return f"The smallest epsilon {f'is {least}, at' if bounded[0].attained else f'nears {least} towards'} {where}"
    if len(recommended) == 1:
        (one,) = recommended.values()
        return one.words.split(": ")[0].split(" (")[0]
    if len(bounded) < 2:
        found = [f"One profile has a finite epsilon above 0: {epsilon_text(one)}" for one in bounded]
        return (found or ["No profile has a finite epsilon above 0"])[0]
    least, most = (epsilon_text(pick(bounded, key=lambda one: one.loss)) for pick in (min, max))
    return f"The profiles allow an epsilon from {least} to {most}"


def epsilon_text(one: Recommendation) -> str:
    """`shown_epsilon` of a recommendation."""
    return shown_epsilon(one.epsilon, one.loss, one.round_down)


def prior(p: float) -> str:
    """A prior in words; 0 is a limit."""
    return "near 0" if p == 0.0 else format_probability(p)


def short(name: str) -> str:
    """A name that fits beside other names."""
    return name if len(name) <= 36 else f"{name[:35]}…"


def in_two_lines(name: str) -> str:
    """A name that fits over a small panel."""
    if len(name) <= WIDTH:
        return name
    lines = wrap(name, WIDTH - 1)
    return "\n".join(lines if len(lines) <= 2 else (lines[0], f"{lines[1]}…"))


def free_prior(profile: RiskProfile) -> str | None:
    """The prior along which a profile's adversaries differ, or None where they differ in both, or in neither."""
    flat = [low == high for low, high in profile.domain]
    return None if flat[0] == flat[1] else "value" if flat[0] else "inclusion"


def panels(count: int) -> Panels:
    """So many axes: one or two large ones, or rows of at most four small ones."""
    rows = -(-count // 4)
    columns = -(-count // rows)
    axes = kit.panels(9.6 if count == 1 else 11.6, 4.9 if count <= 2 else 1.1 + 2.5 * rows, rows, columns)
    axes = np.ravel(axes)
    for ax in axes[count:]:
        ax.remove()
    return axes[:count]


def outer_labels(axes: Panels) -> None:
    """Small panels keep a label only where the next one to the left, or below, does not say the same."""
    if len(axes) <= 2:
        return
    columns = -(-len(axes) // -(-len(axes) // 4))
    names = [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes]
    for i, ax in enumerate(axes):
        if i % columns and names[i - 1][1] == names[i][1]:
            ax.set_ylabel("")
        if i + columns < len(axes) and names[i + columns][0] == names[i][0]:
            ax.set_xlabel("")


def prior_axis(ax: Axes, cut: Slice, least: float, *, small: bool) -> None:
    """A log axis of priors; a small panel says there where it is cut."""
    other = "value" if cut.along == "inclusion" else "inclusion"
    where = f"{cut.along} prior ({other} {prior(cut.fixed)})"
    ax.set(xscale="log", xlim=(least, 1.0), xlabel=where if small else LONG[cut.along])
    kit.plain_log_axis(ax, "x", percent)


def dot(ax: Axes, at: tuple[float, float], one: Recommendation, text: str = "") -> None:
    """The adversary who binds: filled, or open where there are only ever closer ones; the text stands beside it."""
    ax.plot(*at, "o", ms=9, mfc=BINDS if one.attained else "white", mec="white" if one.attained else BINDS, mew=1.6,
            clip_on=False, zorder=8, gid="binds")  # fmt: skip
    if text:
        x, y = (ax.transData + ax.transAxes.inverted()).transform(at)
        ax.annotate(
            text, at, xytext=(-10 if x > 0.5 else 10, 9 if y < 0.2 else -9), textcoords="offset points",
            ha="right" if x > 0.5 else "left", va="bottom" if y < 0.2 else "top", color=kit.INK, fontsize=9.5,
            **_AROUND,
        )  # fmt: skip


def slice_along(profile: RiskProfile, along: str, fixed: float) -> Slice:
    """Adversaries of a profile along one prior, evenly on a log axis."""
    low, high = profile.domain[0 if along == "inclusion" else 1]
    return Slice(along, fixed, np.geomspace(max(low, min(RARE, 0.1 * high)), high, 601).clip(low, high))


def _epsilon(profile: RiskProfile, cut: Slice, statistic: str) -> Floats:
    return np.ravel(as_array(risk_surface(profile, *cut.readers, statistic)["epsilon"]))


def _norm(recommended: Mapping[str, Recommendation]) -> LogNorm:
    """One scale of colours for all, from the smallest epsilon above 0 on."""
    p = np.linspace(1.0 / 60.0, 1.0, 60)
    found = [np.ravel(risk_surface(one.profile, p, p, one.statistic)["epsilon"]) for one in recommended.values()]
    every = np.concatenate([[one.loss for one in recommended.values()], *found])
    every = every[np.isfinite(every) & (every > 0.0)]
    low = float(every.min()) if every.size else 0.1
    most = max((one.loss for one in recommended.values() if one.status == BOUNDED), default=low)
    return LogNorm(
        low, low * min(max(WIDEST, 5.0 * most / low), max(2.0, float(every.max()) / low if every.size else WIDEST))
    )


def _map(ax: Axes, one: Recommendation, norm: LogNorm, *, log: bool, small: bool) -> None:
    """epsilon over both priors: colours, contours, and whom the profile asks nothing of."""
    edges = np.geomspace(RARE, 1.0, CELLS + 1) if log else np.linspace(0.0, 1.0, CELLS + 1)
    middle = np.sqrt(edges[1:] * edges[:-1]) if log else 0.5 * (edges[1:] + edges[:-1])
    epsilon = as_array(risk_surface(one.profile, middle, middle, one.statistic)["epsilon"]).T
    ax.set(xlim=(edges[0], 1.0), ylim=(edges[0], 1.0), facecolor=kit.LIGHT)
    ax.set(xlabel="inclusion prior" if small else LONG["inclusion"], ylabel="value prior" if small else LONG["value"])
    if log:
        ax.set(xscale="log", yscale="log")
        kit.plain_log_axis(ax, "x", percent)
        kit.plain_log_axis(ax, "y", percent)
    else:
        ax.set(xticks=(ticks := np.linspace(0.0, 1.0, 3 if small else 6)), yticks=ticks)
        kit.in_percent(ax.xaxis, ax.yaxis)
    if ((epsilon > 0.0) & np.isfinite(epsilon)).any():
        shown = np.ma.masked_array(np.maximum(epsilon, float(norm.vmin or 0.0)), ~np.isfinite(epsilon))
        ax.pcolormesh(edges, edges, shown, norm=norm, cmap="viridis", rasterized=True, gid=COLOURED[0])
        levels = np.array([m * 10.0**k for k in range(3, -7, -1) for m in (5.0, 2.0, 1.0)])
        levels = levels[(levels > norm.vmin) & (levels < norm.vmax)]
        if levels.size:  # the ticks of the colours, drawn in e^-epsilon, which has no pole
            ax.contour(middle, middle, np.exp(-epsilon), levels=np.exp(-levels), colors="white", linewidths=0.8)
    if (epsilon == 0.0).any():
        none = np.ma.masked_array(np.zeros_like(epsilon), epsilon != 0.0)
        ax.pcolormesh(edges, edges, none, cmap=ListedColormap([kit.INK]), rasterized=True, gid="nothing")
    for part in one.profile.tolerance.parts:
        _line(ax, RiskProfile(part), one, norm, edges[0])
    _say(ax, ~np.isfinite(epsilon), middle, NOTHING)
    _say(ax, epsilon == 0.0, middle, "may learn nothing")
    if not np.isnan(one.inclusion):
        text = "" if small else _needs(one)
        dot(ax, (max(one.inclusion, edges[0]), max(one.value, edges[0])), one, text)


def _line(ax: Axes, part: RiskProfile, one: Recommendation, norm: LogNorm, least: float) -> None:
    """A part of the profile about adversaries who share a prior: a coloured line across the map."""
    if (along := free_prior(part)) is None:
        return
    cut = slice_along(part, along, part.domain[0 if along == "value" else 1][0])
    epsilon = _epsilon(one.profile, cut, one.statistic)
    p, q = (np.broadcast_to(x, epsilon.shape) for x in cut.readers)
    seen = np.isfinite(epsilon) & (np.minimum(p, q) >= least)
    shown = np.maximum(epsilon[seen], float(norm.vmin or 0.0))
    ax.scatter(p[seen], q[seen], c=shown, norm=norm, cmap="viridis", s=14, lw=0,
               clip_on=False, rasterized=True, zorder=4, gid=COLOURED[1])  # fmt: skip


def _say(ax: Axes, where: Any, middle: Floats, text: str) -> None:
    """A few words in the middle of a region, if it has room for them."""
    room = distance_transform_edt(np.pad(where, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(int(np.argmax(room)), room.shape)
    if room.max() > 0.11 * CELLS:
        lines = text.replace("for ", "for\n").replace("learn ", "learn\n")
        ax.text(middle[column], middle[row], lines, ha="center", va="center", fontsize=9.0, gid=text, **_AROUND)


def _curve(ax: Axes, one: Recommendation, heights: tuple[float, float] | None, *, small: bool) -> None:
    """epsilon over one prior, and where the profile asks for nothing."""
    along = free_prior(one.profile) or "inclusion"
    cut = slice_along(one.profile, along, one.profile.domain[1 if along == "inclusion" else 0][0])
    epsilon = _epsilon(one.profile, cut, one.statistic)
    bounded, free = one.status == BOUNDED, ~np.isfinite(epsilon)
    bottom, top = heights or (0.0, 4.0 * one.loss if bounded else 1.0)
    prior_axis(ax, cut, min(float(cut.x[0]), RARE), small=small)
    ax.set(ylim=(bottom, top), ylabel="largest epsilon")
    if heights:
        ax.set_yscale("log")
        kit.plain_log_axis(ax, "y")
    ax.plot(cut.x, np.where(free, np.nan, epsilon), color=kit.BLUE, gid="epsilon")
    if free.any():
        ax.fill_between(cut.x, bottom, top, where=free, color=kit.LIGHT, lw=0, gid=NOTHING)
        if not small:
            centre = float(np.sqrt(np.prod(cut.x[free][[0, -1]])))
            lines = NOTHING.replace("for ", "for\n")
            ax.text(centre, 0.5 * (bottom + top), lines, ha="center", va="center", fontsize=9.5, gid=NOTHING)
    if bounded:
        at = max(one.inclusion if along == "inclusion" else one.value, ax.get_xlim()[0])
        ax.axhline(one.loss, color=BINDS, lw=1.0, ls=kit.MARK, gid="needed")
        dot(ax, (at, one.loss), one, format_bound(one.loss, False) if small else _needs(one))


def _needs(one: Recommendation) -> str:
    """Label beside the adversary who determines epsilon."""
    return f"{'needs' if one.attained else 'towards'} epsilon = {format_bound(one.loss, False)}"
