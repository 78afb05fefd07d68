"""Figures of a risk profile: the largest epsilon that its tolerance for each adversary allows, over their priors.

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

from adversary._core import Floats, as_array, format_bound, percent, shown_epsilon
from adversary.budget import BOUNDED, Recommendation, RiskProfile, risk_surface
from adversary.report.plot import marks, sheet

# Smallest prior of a figure.
RARE = 1e-3

# Cells of a map along either prior.
CELLS = 240

# Largest over smallest epsilon that colours tell apart, unless the recommendations are further apart.
WIDEST = 30.0

# Colour of the adversary who binds.
BINDS = sheet.FINDING
LONG = {"inclusion": "inclusion: prior that the target is in", "value": "value: prior that an included record is in S"}
NOTHING = "asks for nothing"

# Letters in a line over a small panel.
WIDTH = 26

# Parts of a map that need its scale of colours.
COLOURED = ("epsilon by colour", "line by colour")
_AROUND: Any = {"bbox": {"fc": sheet.PAPER, "ec": "none", "alpha": 0.85, "pad": 1.5}, "zorder": 9}


class Slice(NamedTuple):
    """Adversaries along one prior, with the other one fixed."""

    along: str
    fixed: float
    x: Floats

    @property
    def priors(self) -> tuple[Any, Any]:
        """(inclusion, value); a limit at 0 is drawn from next to it."""
        fixed = max(self.fixed, 1e-9)
        return (self.x, fixed) if self.along == "inclusion" else (fixed, self.x)


@sheet.house_style
def epsilon_profile(recommended: Recommendation | Mapping[str, Recommendation]) -> Axes | sheet.Panels:
    """The largest epsilon that a risk profile allows, by the adversary's priors; of several profiles a row each.

    Parameters
    ----------
    recommended : of `adversary.recommend_epsilon`, one or several by name; a single one about both priors is drawn on
        plain and on log axes

    Returns
    -------
    Axes : one, or two of a single profile about both priors.

    Raises
    ------
    ValueError : no profile is given, or none of several has a finite epsilon above 0

    Examples
    --------
    >>> import adversary as adv
    >>> strict, lenient = (adv.RiskProfile.ratio_or_absolute(ratio, 0.25, value=1) for ratio in (1.2, 5))
    >>> profiles = {"1.2 times": adv.recommend_epsilon(strict), "5 times": adv.recommend_epsilon(lenient)}
    >>> ax = adv.plot.epsilon_profile(profiles)
    >>> print(ax.figure.get_suptitle().replace("\\n", " "))
    The strictest profile (1.2 times) allows epsilon 0.236, the most lenient (5 times) 1.84
    """
    recommended = {"": recommended} if isinstance(recommended, Recommendation) else dict(recommended)
    if not recommended:
        raise ValueError("recommended must hold at least one profile, got none")
    return _over_priors(*recommended.values()) if len(recommended) == 1 else _rows(recommended)


def _rows(recommended: Mapping[str, Recommendation]) -> Axes:
    """The epsilon of every profile, the smallest on top; those without one are named at the foot."""
    drawn = {name: one for name, one in recommended.items() if one.status == BOUNDED and one.loss > 0.0}
    if not drawn:
        raise ValueError("no profile has a finite epsilon above 0")
    names = sorted(drawn, key=lambda name: drawn[name].loss)
    body = 50.0 + 0.9 * sheet.PITCH * len(names)
    ax = sheet.panel(None, body + 100.0)
    x = [drawn[name].loss for name in names]
    ends = (0, len(names) - 1)
    ax.set_xscale("log")
    ax.set_xlim(0.6 * x[0], 1.7 * x[-1])
    ax.hlines(range(len(names)), 0.6 * x[0], x, color=sheet.LINE, lw=sheet.POINT, zorder=0)
    for i, (name, value) in enumerate(zip(names, x, strict=True)):
        colour = sheet.FINDING if i == 0 else sheet.AFTER
        filled = drawn[name].attained
        ax.plot(value, i, "o", color=colour, mfc=colour if filled else sheet.PAPER, gid=f"epsilon {name}")
        bold = "bold" if i in ends else "normal"
        marks.note_at(ax, (value, i), epsilon_text(drawn[name]), (9.0, 0.0), ha="left", va="center", color=colour,
                      fontweight=bold)  # fmt: skip
    marks.rows(ax, names)
    marks.plain_log_axis(ax, "x")
    ax.set_xlabel("largest epsilon allowed (nats)")
    least, most = (f"({short(names[i])}) {'allows epsilon ' * (i == 0)}{epsilon_text(drawn[names[i]])}" for i in ends)
    same = f"Every profile drawn allows epsilon {epsilon_text(drawn[names[0]])}"
    title = f"The strictest profile {least}, the most lenient {most}" if x[-1] > x[0] * (1.0 + 1e-9) else same
    none = [name for name in recommended if name not in drawn]
    sheet.headline(
        ax, title, "Each row is one profile of tolerated risk; hollow: approached, never reached",
        f"Without a finite epsilon above 0: {', '.join(none)}." if none else "",
        f"{len(names)} dots, from {epsilon_text(drawn[names[0]])} to {epsilon_text(drawn[names[-1]])}.", body=body,
    )  # fmt: skip
    return ax


def _over_priors(one: Recommendation) -> Axes | sheet.Panels:
    """The largest epsilon that each adversary's tolerance allows, over the priors; a dot at the smallest."""
    both = free_prior(one.profile) is None
    axes = panels(2 if both else 1)
    if both:
        norm = _norm(one)
        for ax, log in zip(axes, (False, True), strict=True):
            _map(ax, one, norm, log=log)
            ax.set_title("small priors, on log axes" if log else "all priors")
        if any(part.get_gid() in COLOURED for ax in axes for part in ax.collections):
            _colour_bar(axes, norm)
    else:
        _curve(axes[0], one)
    shape = "Colours over both priors." if both else "A curve over one prior."
    about = "Dot: the adversary who needs it"
    if both:
        about += "; inclusion: prior that the target is in; value: that their record is in S, if so"
    sheet.headline(axes, _smallest_epsilon_words(one), about, shape=shape)
    return axes if both else axes[0]


def _colour_bar(axes: sheet.Panels, norm: LogNorm) -> None:
    """Draw the scale of colours beside the maps, or below them if they are stacked."""
    place: Any = {"location": "bottom", "shrink": 0.8} if sheet.size().stacked else {"shrink": 0.9}
    bar = sheet.figure_of(axes).colorbar(ScalarMappable(norm, "viridis"), ax=axes, extend="max", pad=0.02, **place)
    bar.set_label("largest epsilon allowed")
    bar.outline.set_visible(False)
    marks.plain_log_axis(bar.ax, "x" if sheet.size().stacked else "y")


def _smallest_epsilon_words(one: Recommendation) -> str:
    """Title: the smallest epsilon that an adversary needs, and their priors."""
    if one.status != BOUNDED:
        return one.words.split(": ")[0].split(" (")[0]
    least = format_bound(one.loss, False, 3)
    where = f"inclusion {prior(one.inclusion)}, value {prior(one.value)}"
    return f"The smallest epsilon {f'is {least}, at' if one.attained else f'nears {least} towards'} {where}"


def epsilon_text(one: Recommendation) -> str:
    """Epsilon of a recommendation as text, rounded down."""
    rounded = one.round_down is not None and one.epsilon < one.loss
    return shown_epsilon(one.epsilon, one.loss, one.round_down) if rounded else format_bound(one.loss, False, 3)


def prior(p: float) -> str:
    """Prior as text; "near 0" for 0, which is a limit."""
    return "near 0" if p == 0.0 else percent(p)


def short(name: str) -> str:
    """Name cut to a length that fits beside other names."""
    return name if len(name) <= 36 else f"{name[:35]}…"


def in_two_lines(name: str) -> str:
    """Name broken into at most two lines, and cut, to fit over a small panel."""
    if len(name) <= WIDTH:
        return name
    lines = wrap(name, WIDTH - 1)
    return "\n".join(lines if len(lines) <= 2 else (lines[0], f"{lines[1]}…"))


def free_prior(profile: RiskProfile) -> str | None:
    """Name of the one prior in which a profile's adversaries differ; None if they differ in both, or in neither."""
    flat = [low == high for low, high in profile.domain]
    return None if flat[0] == flat[1] else "value" if flat[0] else "inclusion"


def panels(count: int) -> sheet.Panels:
    """Axes of a new figure: one or two large ones, or rows of at most four small ones."""
    return sheet.grid(count, 4, 200.0) if count > 2 else sheet.panels(count)


def outer_labels(axes: sheet.Panels) -> None:
    """Remove the labels of small panels that the next panel to the left, or below, has too."""
    if len(axes) <= 2:
        return
    columns = -(-len(axes) // -(-len(axes) // 4))
    names = [(ax.get_xlabel(), ax.get_ylabel()) for ax in axes]
    for i, ax in enumerate(axes):
        if i % columns and names[i - 1][1] == names[i][1]:
            ax.set_ylabel("")
        if i + columns < len(axes) and names[i + columns][0] == names[i][0]:
            ax.set_xlabel("")


def prior_axis(ax: Axes, along: str, least: float) -> None:
    """Make the horizontal axis a log axis of priors, with the label of the prior `along`."""
    ax.set(xscale="log", xlim=(least, 1.0), xlabel=LONG[along])
    marks.plain_log_axis(ax, "x", percent)


def dot(ax: Axes, at: tuple[float, float], one: Recommendation) -> None:
    """Draw the binding adversary as a dot, open if no adversary attains it, with its epsilon beside it."""
    inner, edge = (BINDS, sheet.PAPER) if one.attained else (sheet.PAPER, BINDS)
    ax.plot(*at, "o", ms=8, mfc=inner, mec=edge, mew=1.4, clip_on=False, zorder=8, gid="binds")
    x, y = (ax.transData + ax.transAxes.inverted()).transform(at)
    ax.annotate(
        f"{'needs' if one.attained else 'towards'} epsilon = {format_bound(one.loss, False, 3)}",
        at, xytext=(-10 if x > 0.5 else 10, 9 if y < 0.2 else -9), textcoords="offset points",
        ha="right" if x > 0.5 else "left", va="bottom" if y < 0.2 else "top", color=sheet.INK, **_AROUND,
    )  # fmt: skip


def slice_along(profile: RiskProfile, along: str, fixed: float) -> Slice:
    """Adversaries of a profile along one prior, evenly on a log axis."""
    low, high = profile.domain[0 if along == "inclusion" else 1]
    return Slice(along, fixed, np.geomspace(max(low, min(RARE, 0.1 * high)), high, 601).clip(low, high))


def _epsilon(profile: RiskProfile, cut: Slice, statistic: str) -> Floats:
    """Largest epsilon that the profile allows for each adversary of a slice."""
    return np.ravel(as_array(risk_surface(profile, *cut.priors, statistic)["epsilon"]))


def _norm(one: Recommendation) -> LogNorm:
    """Scale of colours shared by both maps, from the smallest epsilon above 0."""
    p = np.linspace(1.0 / 60.0, 1.0, 60)
    every = np.append(np.ravel(risk_surface(one.profile, p, p, one.statistic)["epsilon"]), one.loss)
    every = every[np.isfinite(every) & (every > 0.0)]
    low = float(every.min()) if every.size else 0.1
    most = one.loss if one.status == BOUNDED else low
    return LogNorm(
        low, low * min(max(WIDEST, 5.0 * most / low), max(2.0, float(every.max()) / low if every.size else WIDEST))
    )


def _map(ax: Axes, one: Recommendation, norm: LogNorm, *, log: bool) -> None:
    """epsilon over both priors: colours, contours, and whom the profile asks nothing of."""
    edges = np.geomspace(RARE, 1.0, CELLS + 1) if log else np.linspace(0.0, 1.0, CELLS + 1)
    middle = np.sqrt(edges[1:] * edges[:-1]) if log else 0.5 * (edges[1:] + edges[:-1])
    epsilon = as_array(risk_surface(one.profile, middle, middle, one.statistic)["epsilon"]).T
    ax.set(xlim=(edges[0], 1.0), ylim=(edges[0], 1.0), facecolor=sheet.LINE)
    ax.set(xlabel="inclusion prior", ylabel="value prior")
    if log:
        ax.set(xscale="log", yscale="log")
        marks.plain_log_axis(ax, "x", percent)
        marks.plain_log_axis(ax, "y", percent)
    else:
        ax.set(xticks=(ticks := np.linspace(0.0, 1.0, 6)), yticks=ticks)
        marks.in_percent(ax.xaxis, ax.yaxis)
    if ((epsilon > 0.0) & np.isfinite(epsilon)).any():
        shown = np.ma.masked_array(np.maximum(epsilon, float(norm.vmin or 0.0)), ~np.isfinite(epsilon))
        ax.pcolormesh(edges, edges, shown, norm=norm, cmap="viridis", rasterized=True, gid=COLOURED[0])
        levels = np.array([m * 10.0**k for k in range(3, -7, -1) for m in (5.0, 2.0, 1.0)])
        levels = levels[(levels > norm.vmin) & (levels < norm.vmax)]
        # the ticks of the colours, drawn in e^-epsilon, which has no pole
        if levels.size:
            ax.contour(middle, middle, np.exp(-epsilon), levels=np.exp(-levels), colors="white", linewidths=0.8)
    if (epsilon == 0.0).any():
        none = np.ma.masked_array(np.zeros_like(epsilon), epsilon != 0.0)
        ax.pcolormesh(edges, edges, none, cmap=ListedColormap([sheet.INK]), rasterized=True, gid="nothing")
    for part in one.profile.tolerance.parts:
        _line(ax, RiskProfile(part), one, norm, edges[0])
    _say(ax, ~np.isfinite(epsilon), middle, NOTHING)
    _say(ax, epsilon == 0.0, middle, "may learn nothing")
    if not np.isnan(one.inclusion):
        dot(ax, (max(one.inclusion, edges[0]), max(one.value, edges[0])), one)


def _line(ax: Axes, part: RiskProfile, one: Recommendation, norm: LogNorm, least: float) -> None:
    """Draw a part of the profile about adversaries who share a prior, as a coloured line across the map."""
    if (along := free_prior(part)) is None:
        return
    cut = slice_along(part, along, part.domain[0 if along == "value" else 1][0])
    epsilon = _epsilon(one.profile, cut, one.statistic)
    p, q = (np.broadcast_to(x, epsilon.shape) for x in cut.priors)
    seen = np.isfinite(epsilon) & (np.minimum(p, q) >= least)
    shown = np.maximum(epsilon[seen], float(norm.vmin or 0.0))
    ax.scatter(p[seen], q[seen], c=shown, norm=norm, cmap="viridis", s=14, lw=0,
               clip_on=False, rasterized=True, zorder=4, gid=COLOURED[1])  # fmt: skip


def _say(ax: Axes, where: Any, middle: Floats, text: str) -> None:
    """Write a text in the middle of a region, if it has room for it."""
    room = distance_transform_edt(np.pad(where, 1))[1:-1, 1:-1]
    row, column = np.unravel_index(int(np.argmax(room)), room.shape)
    if room.max() > 0.11 * CELLS:
        lines = text.replace("for ", "for\n").replace("learn ", "learn\n")
        ax.text(middle[column], middle[row], lines, ha="center", va="center", gid=text, **_AROUND)


def _curve(ax: Axes, one: Recommendation) -> None:
    """epsilon over one prior, and where the profile asks for nothing."""
    along = free_prior(one.profile) or "inclusion"
    cut = slice_along(one.profile, along, one.profile.domain[1 if along == "inclusion" else 0][0])
    epsilon = _epsilon(one.profile, cut, one.statistic)
    bounded, free = one.status == BOUNDED, ~np.isfinite(epsilon)
    top = 4.0 * one.loss if bounded else 1.0
    prior_axis(ax, along, min(float(cut.x[0]), RARE))
    ax.set(ylim=(0.0, top), ylabel="largest epsilon")
    ax.plot(cut.x, np.where(free, np.nan, epsilon), color=sheet.AFTER, gid="epsilon")
    if free.any():
        ax.fill_between(cut.x, 0.0, top, where=free, color=sheet.LINE, lw=0, gid=NOTHING)
        centre = float(np.sqrt(np.prod(cut.x[free][[0, -1]])))
        ax.text(centre, 0.5 * top, NOTHING.replace("for ", "for\n"), ha="center", va="center", gid=NOTHING)
    if bounded:
        at = max(one.inclusion if along == "inclusion" else one.value, ax.get_xlim()[0])
        ax.axhline(one.loss, color=BINDS, lw=1.0, ls=marks.MARK, gid="needed")
        dot(ax, (at, one.loss), one)
