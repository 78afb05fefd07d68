"""Figures of posteriors given a noisy mean and variance: marginals, joint density with feasible region, prediction.

Every function takes posteriors by name, the main one first, and draws axes with the finding as headline.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.special import ndtr

from adversary._core import Floats, as_array, interval, percent
from adversary.bounded.bounded_posterior import Posterior
from adversary.bounded.prior import Flat, NormalInverseGamma
from adversary.bounded.region import largest_variance
from adversary.bounded.report.posterior_words import PARAMETERS
from adversary.report.plot import marks, sheet

# Grid points of the other parameter, over which a prior is integrated.
PRIOR_POINTS = 1201
DRAWS, SEED = 20_000, 2020
"""Draws of a posterior over which a prediction is averaged, and their seed."""

# Characters per line of the label of a vertical axis.
LETTERS = 45


def prior_marginal(
    prior: Any, name: str, x: Floats, bounds: tuple[float, float], *, constrained: bool
) -> Floats | None:
    """Prior density of "mu" or "sigma" at x, in the units of the data.

    None if it is improper (flat without the bounds), or if the prior is a user's function.
    """
    flat = isinstance(prior, Flat)
    if not isinstance(prior, (Flat, NormalInverseGamma)) or (flat and not constrained):
        return None
    a, b = bounds
    means, deviations = np.linspace(a, b, PRIOR_POINTS), np.linspace(0.0, (b - a) / 2.0, PRIOR_POINTS)[1:]
    if isinstance(prior, NormalInverseGamma):
        mu0, kappa0, s0 = (float(as_array(getattr(prior, key))) for key in ("mu0", "kappa0", "s0"))
        around_mode = mu0 + s0 / np.sqrt(kappa0) * np.sinh(np.linspace(-9.0, 9.0, PRIOR_POINTS))
        means = np.union1d(means, around_mode) if not constrained else np.union1d(means, np.clip(around_mode, a, b))
        deviations = np.union1d(deviations, s0 * np.geomspace(1e-3, 1e4, PRIOR_POINTS))

    def density(mu: Floats, sigma: Floats) -> Floats:
        feasible = (sigma**2 <= (mu - a) * (b - mu)) | (not constrained)
        return np.where(feasible, np.exp(prior.log_prob(mu, sigma**2)) * 2.0 * sigma, 0.0)

    positive_x = np.maximum(x, np.finfo(np.float64).tiny ** 0.25) if name == "sigma" else x
    joint = density(means[:, None], positive_x) if name == "sigma" else density(positive_x, deviations[:, None])
    marginal = np.trapezoid(joint, means if name == "sigma" else deviations, axis=0)
    if not constrained:
        return np.asarray(marginal)
    mass = np.trapezoid(np.trapezoid(density(means[:, None], deviations), deviations, axis=1), means)
    return np.asarray(marginal / mass)


def joint_density(one: Posterior, mu: Floats, sigma: Floats) -> Floats:
    """Joint density at every (mu, sigma), shape (mu, sigma), relative to its maximum; one release.

    Parameters
    ----------
    one : posterior of one release
    mu, sigma : increasing values in the units of the data, sigma above 0
    """
    low, width = float(one.release.bounds[0]), float(one.release.width)
    u, v = (as_array(mu) - low) / width, (as_array(sigma) / width) ** 2 / _divisor(one)
    logs = one.solutions[0].log_density(u, v) + np.log(as_array(sigma))
    if one.constrained:
        logs = np.where(v <= as_array(largest_variance(u))[:, None], logs, -np.inf)
    return np.asarray(np.exp(logs - logs.max()))


def _divisor(one: Posterior) -> float:
    """Largest variance divided by (mu - a)(b - mu): 1 for a population, n / (n - 1) for data (divisor n - 1)."""
    n = float(one.release.size)
    return n / (n - 1.0) if one.quantity == "data" else 1.0


def predictive_density(one: Posterior, edges: Floats) -> Floats:
    """(cell,) predictive density of a new value between consecutive edges: normal, truncated if bounds are used."""
    draws = one.sample(DRAWS, SEED)["posterior"].to_dataset()
    mu, sigma = (np.ravel(draws[name].values) for name in ("mu", "sigma"))
    a, b = (float(end) for end in one.release.bounds)
    inside = np.clip(edges, a, b) if one.constrained else edges
    mass = ndtr((b - mu) / sigma) - ndtr((a - mu) / sigma) if one.constrained else 1.0
    below = [float(np.mean(ndtr((y - mu) / sigma) / mass)) for y in inside]
    return np.asarray(np.diff(below) / np.diff(edges))


Posteriors = Mapping[str, Posterior]

# Points of a curve.
POINTS = 801

# Cells of a predictive density; a joint density has twice as many points along each axis.
CELLS = 120
LEVELS = (0.5, 0.95)
"""Probabilities of the regions of a joint density."""

# Posterior probability beyond either end of an axis.
TAIL = 0.002


@sheet.house_style
def posterior_marginals(
    posteriors: Posteriors, prob: float = 0.95, *, quantity: str = "", unit: str = ""
) -> sheet.Panels:
    """Marginal densities of mean and standard deviation; for the first posterior, shortest interval and prior.

    Parameters
    ----------
    posteriors : by name, of one release each
    prob : of the shaded interval
    quantity, unit : of the values, for words and axes
    """
    first = next(iter(posteriors.values()))
    words = PARAMETERS[first.quantity]
    axes, more = sheet.panels(2, 520.0, stacked=True), dict[str, Artist]()
    for ax, name in zip(axes, ("mu", "sigma"), strict=True):
        x = np.linspace(*_range(posteriors, name), POINTS)
        lines = {called: as_array(one.density(name, x)) for called, one in posteriors.items()}
        for (called, line), colour in marks.coloured(lines.items()):
            ax.plot(x, line, color=colour, gid=f"{name} {called}")
        low, high = (float(end) for end in first.hdi(name, prob))
        inside = np.linspace(max(low, x[0]), min(high, x[-1]), POINTS)
        ax.fill_between(
            inside, first.density(name, inside), color=sheet.AFTER, alpha=0.18, lw=0, gid=f"interval {name}"
        )
        before = None
        if first.quantity == "population":
            before = prior_marginal(first.prior, name, x, first.release.bounds, constrained=first.constrained)
        if before is not None:
            ax.plot(x, before, color=sheet.QUIET, lw=1.3, ls=marks.BOUND, gid=f"prior {name}")
            more["prior"] = Line2D([], [], color=sheet.QUIET, lw=1.3, ls=marks.BOUND, label="prior")
        tops = [float(line.max()) for line in lines.values()]
        a, b = first.release.bounds
        ends = (a, b) if name == "mu" else (-np.inf, 0.5 * (b - a) * _divisor(first) ** 0.5)
        if _format_density_axis(ax, ends, x, min(max(tops), 2.0 * tops[0])):
            more["grey"] = Patch(color=sheet.IMPOSSIBLE, lw=0, label="impossible")
        ax.set_xlabel(fill(_axis(words[name], quantity, unit), LETTERS))
        ax.set_title(f"{words[name]}: {interval((low, high))}")
    shaded = Patch(color=sheet.AFTER, alpha=0.18, lw=0, label=f"shortest {percent(prob)} interval")
    marks.key(axes, dict(marks.coloured(posteriors)), [shaded, *more.values()])
    shortest = interval(first.hdi("mu", prob))
    sheet.headline(
        axes, f"The {_of(words['mu'], quantity)} is {shortest} with probability {percent(prob)}",
        shape="Two panels of densities, of the mean and of the standard deviation, the shortest interval shaded.",
    )  # fmt: skip
    return axes


@sheet.house_style
def posterior_joint(posteriors: Posteriors, *, quantity: str = "", unit: str = "", ax: Axes | None = None) -> Axes:
    r"""Joint density of mean and standard deviation, with the region that is feasible for data within the bounds.

    Contours enclose the smallest regions with 50% and 95% of each posterior, filled for the first. The dark curve is
    :math:`\sigma^2 = (\mu - a)(b - \mu)`, times n / (n - 1) for data; values above it are infeasible. The cross is the
    release.

    Parameters
    ----------
    posteriors : by name, of one release each
    quantity, unit : of the values, for words and axes
    ax : to draw on; a new figure if not given
    """
    first = next(iter(posteriors.values()))
    a, b = (float(end) for end in first.release.bounds)
    ax = sheet.panel(ax, sheet.size().height + 60.0)
    means, deviations = _range(posteriors, "mu"), _range(posteriors, "sigma")
    ax.set(xlim=means, ylim=(0.0, deviations[1]))
    mu, sigma = np.linspace(*means, 2 * CELLS), np.linspace(deviations[1] / 2e3, deviations[1], 2 * CELLS)
    edge = np.linspace(a, b, POINTS)
    most = np.sqrt((edge - a) * (b - edge) * _divisor(first))
    ax.set_facecolor(sheet.IMPOSSIBLE)
    ax.fill_between(edge, most, color=sheet.PAPER, lw=0, zorder=0.5)
    ax.plot(edge, most, color=sheet.INK, lw=1.4, gid="boundary")
    for i, ((name, one), colour) in enumerate(marks.coloured(posteriors.items())):
        density = joint_density(one, mu, sigma)
        levels = _levels(density)
        if i == 0:
            for level in levels:
                ax.contourf(mu, sigma, density.T, [level, density.max()], colors=[colour], alpha=0.22)
        style = "-" if i == 0 else "--"
        lines = ax.contour(mu, sigma, density.T, levels, colors=[colour], linewidths=1.5, linestyles=style)
        lines.set_gid(name)
    released, variance = first.release.mean, first.release.variance
    if released is not None and variance is not None and float(as_array(variance)) >= 0.0:
        at = float(as_array(released)), float(as_array(variance)) ** 0.5
        ax.plot(*at, "x", color=sheet.INK, ms=8, mew=2, gid="released")
    words = PARAMETERS[first.quantity]
    across, up = (fill(_axis(words[name], quantity, unit), LETTERS) for name in ("mu", "sigma"))
    ax.set(xlabel=across, ylabel=up)
    dark = Line2D([], [], color=sheet.INK, lw=1.4, label="largest that the bounds allow")
    cross = Line2D([], [], color=sheet.INK, ls="", marker="x", label="released")
    marks.key(ax, dict(marks.coloured(posteriors)), [dark, cross])
    sheet.headline(
        ax, _infeasible_headline(posteriors, "the posterior", lambda one: one.infeasible),
        f"Regions with {' and '.join(map(percent, LEVELS))} of the probability",
        shape="Contours of mean and standard deviation under an arch of what is possible.",
    )  # fmt: skip
    return ax


@sheet.house_style
def posterior_predictive(posteriors: Posteriors, *, quantity: str = "", unit: str = "", ax: Axes | None = None) -> Axes:
    """Predictive density of one more value, filled for the first posterior; values outside the bounds are grey.

    Parameters
    ----------
    posteriors : by name, of one release each
    quantity, unit : of the values, for words and axes
    ax : to draw on; a new figure if not given
    """
    first = next(iter(posteriors.values()))
    a, b = (float(end) for end in first.release.bounds)
    ax = sheet.panel(ax)
    wide = max(0.0 if one.constrained else 1.2 * float(one.predictive().sd) for one in posteriors.values())
    reach = min(wide, b - a) if np.isfinite(wide) else b - a
    x = np.union1d(np.linspace(a - reach, b + reach, CELLS + 1), [a, b])
    tops = []
    for i, ((name, one), colour) in enumerate(marks.coloured(posteriors.items())):
        density = predictive_density(one, x)
        ax.stairs(density, x, color=colour, lw=2.0, gid=name)
        tops.append(float(density.max()))
        if i == 0:
            ax.stairs(density, x, color=colour, alpha=0.18, lw=0, fill=True)
    _format_density_axis(ax, (a, b), x, max(tops))
    ax.set_xlabel(fill(_axis("a new value", quantity, unit), LETTERS))
    marks.key(ax, dict(marks.coloured(posteriors)), [Patch(color=sheet.IMPOSSIBLE, lw=0, label="impossible")])
    what = _infeasible_headline(posteriors, "new values", lambda one: one.predictive().outside)
    sheet.headline(ax, what, "Density of one more value", shape="Densities over the values, grey beyond the bounds.")
    return ax


def _infeasible_headline(posteriors: Posteriors, what: str, share: Callable[[Posterior], float]) -> str:
    """Headline on the infeasible probability of a posterior that ignores the bounds.

    share : function of a posterior that returns this probability
    """
    infeasible = [float(share(one)) for one in posteriors.values() if not one.constrained]
    if not infeasible:
        return f"The bounds rule out none of {what}"
    return f"Ignoring the bounds makes {percent(round(max(infeasible), 6))} of {what} impossible"


def _range(posteriors: Posteriors, name: str) -> tuple[float, float]:
    """Axis range with nearly all mass of every posterior, at most one width beyond the feasible values."""
    ends = [[float(one.quantile(name, q)) for q in (TAIL, 1.0 - TAIL)] for one in posteriors.values()]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    a, b = (float(end) for end in next(iter(posteriors.values())).release.bounds)
    if name == "mu":
        return max(low, 2.0 * a - b), min(high, 2.0 * b - a)
    return (low if low > high / 3.0 else 0.0), min(high, 1.5 * (b - a))


def _format_density_axis(ax: Axes, ends: tuple[float, float], x: Floats, top: float) -> bool:
    """Format an axis of densities, grey outside the possible values `ends`; True if some of it is grey."""
    grey = [(low, high) for low, high in ((x[0], ends[0]), (ends[1], x[-1])) if low < high]
    for low, high in grey:
        ax.axvspan(low, high, color=sheet.IMPOSSIBLE, lw=0, zorder=0, gid="impossible")
    ax.set(xlim=(x[0], x[-1]), ylim=(0.0, 1.08 * top))
    marks.density_axis(ax)
    return bool(grey)


def _levels(density: Floats) -> list[float]:
    """Density levels at the edges of the smallest regions with probabilities `LEVELS`, increasing, distinct."""
    ordered = np.sort(density.ravel())[::-1]
    inside = np.cumsum(ordered) / ordered.sum()
    levels = {float(ordered[np.searchsorted(inside, prob)]) for prob in LEVELS}
    return sorted(level for level in levels if level < ordered[0]) or [0.5 * float(ordered[0])]


def _axis(what: str, quantity: str, unit: str) -> str:
    """Label of an axis: name of the quantity, with its unit."""
    return _of(what, quantity) + (f" ({unit})" if unit else "")


def _of(what: str, quantity: str) -> str:
    """Name of a parameter, followed by the measured quantity, if it has a name."""
    return (
        f"{what} of {quantity}" if quantity and what != "a new value" else f"{what}{f', {quantity}' * bool(quantity)}"
    )
