"""One function per figure: from a scenario and its audit to a matplotlib `Figure` that says its finding in the title.

Each takes (scenario, tree), tree being `audit`'s answer for that scenario under one truth. Sweeps go through the exact
law of the log Bayes factor, never through simulation where that law is exact. Nothing here draws on a screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from scipy.special import expit

from adversary._core import Floats, logit, outward, percent, posterior_ratio
from adversary.desk.files import Scenario
from adversary.desk.kit import (
    BLUE,
    BOUND_COLOURS,
    COLOURS,
    GREY,
    INK,
    LIGHT,
    MULTIPLIERS,
    affordable_points,
    bound_name,
    edge_labels,
    finding,
    law_of,
    of_reader,
    panel_title,
    plain_log_axis,
    reaches,
    readers_of,
    styled,
    swept,
)
from adversary.desk.kit.audit_words import called
from adversary.reader.path import settle_truth
from adversary.reader.risk import at_prior, invariant_factor, same_law


@styled
def posterior_by_release(scenario: Scenario, tree: xr.DataTree) -> Figure:
    """Posterior and ratio against the released value of the lowest level, with how probable each value is.

    With more levels (or cells) a line is the average over all other releases at that value; for a single reader the
    band holds the central 90 % of them.
    """
    readers = readers_of(scenario)
    table = _ByValue.of(scenario, tree)
    figure = Figure(figsize=(8.2, 4.6) if len(readers) == 1 else (10.0, 4.8), layout="constrained")
    label = f"released count of the target's {scenario.plan.names[0]} (people)"
    if len(readers) == 1:
        _one_posterior(figure.add_subplot(), scenario, tree, table, label)
    else:
        _many_posteriors(figure, scenario, tree, table, label)
    return figure


def _one_posterior(ax: Axes, scenario: Scenario, tree: xr.DataTree, table: _ByValue, label: str) -> None:
    ((name, posterior),) = table.posterior.items()
    risk = of_reader(tree["risk"].to_dataset(), name)
    prior, quantile = float(risk["prior"]), risk["posterior_quantile"].values
    mean, low, high = table.summary(posterior)
    ends = f"between {percent(quantile[0])} and {percent(quantile[-1])}"
    assert isinstance(ax.figure, Figure)
    finding(ax.figure, f"Nine releases in ten leave this reader {ends} sure of “in”")
    panel_title(ax, _key_of_bars(table))
    _bars(ax, table)
    if table.several:
        ax.fill_between(table.values, low, high, color=BLUE, alpha=0.18, lw=0, gid="band")
    ax.plot(table.values, mean, "o-", color=BLUE, ms=4, gid="posterior")
    ax.axhline(prior, color=GREY, lw=1.2, gid="prior")
    ax.axhline(0.5, color=INK, lw=1.2, ls=(0, (4, 3)), gid="threshold")
    ax.set(xlabel=label, ylabel="posterior that the target is in", ylim=(0.0, 1.0))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))
    what = "average posterior\n(band: central 90 %)" if table.several else "posterior"
    same = abs(prior - 0.5) < 0.02
    threshold = "decides “in” above 50 %" + (",\nwhich is also the prior" if same else "")
    levels = [(mean[-1], what, BLUE), (0.5, threshold, INK)]
    if not same:
        levels.append((prior, f"prior {percent(prior)}", GREY))
    other = None
    if prior > 0:
        other = ax.secondary_yaxis(1.0, functions=(partial(np.multiply, 1.0 / prior), partial(np.multiply, prior)))
        other.set_ylabel("ratio: posterior / prior")
    edge_labels(ax, levels, ax.get_xlim()[1], offset=52.0 if other else 8.0)


def _many_posteriors(figure: Figure, scenario: Scenario, tree: xr.DataTree, table: _ByValue, label: str) -> None:
    risk = tree["risk"].to_dataset()
    low, high = float(risk["ratio_quantile"].min()), float(risk["ratio_quantile"].max())
    finding(figure, f"Nine releases in ten leave every reader within {low:.2f} to {high:.2f} times the prior")
    left, right = figure.subplots(1, 2)
    ends: tuple[list[Any], list[Any]] = ([], [])
    for (name, posterior), colour in zip(table.posterior.items(), _cycle(COLOURS), strict=False):
        prior = float(of_reader(risk, name)["prior"])
        mean = table.summary(posterior)[0]
        for ax, values, end in zip((left, right), (mean, mean / prior if prior else mean * np.nan), ends, strict=True):
            ax.plot(table.values, values, "o-", color=colour, ms=3, lw=1.6, gid=f"reader {name}")
            if np.isfinite(values[-1]):
                end.append((values[-1], name, colour))
        left.axhline(prior, color=colour, lw=0.9, ls=":", gid=f"prior {name}")
    right.set_yscale("log")
    _posterior_axis(left, log=_wide(risk))
    for ax, end in zip((left, right), ends, strict=True):
        ax.set_xlabel(label)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        _bars(ax, table)
        edge_labels(ax, end, ax.get_xlim()[1], offset=4.0)
    left.axhline(0.5, color=INK, lw=1.2, ls=(0, (4, 3)), gid="threshold")
    panel_title(left, "dotted: priors; dashed: 50 %, above which\na reader decides “in”")
    panel_title(right, f"above 1: the release speaks for “in”\n{_key_of_bars(table)}")
    right.axhline(1.0, color=GREY, lw=1.2, gid="unmoved")
    right.set_ylabel("ratio: posterior / prior")
    plain_log_axis(right, "y", lambda r: f"{r:g}")


def _posterior_axis(ax: Axes, *, log: bool) -> None:
    """A vertical axis of posteriors in per cent, from 0 to 1 or, for priors far apart, on a log scale."""
    ax.set_ylabel("posterior that the target is in")
    if log:
        ax.set_yscale("log")
        ax.set_ylim(top=1.0)
        plain_log_axis(ax, "y", percent)
    else:
        ax.set_ylim(0.0, 1.0)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))


def _wide(risk: xr.Dataset) -> bool:
    """Whether the readers' priors call for a log axis."""
    return float(risk["prior"].max()) > 10.0 * float(risk["prior"].min()) > 0.0


@dataclass(frozen=True)
class _ByValue:
    """Releases gathered by the lowest level's released value."""

    values: Floats
    probability: Floats
    place: Any
    weight: Floats
    posterior: dict[str, Floats]
    several: bool

    @classmethod
    def of(cls, scenario: Scenario, tree: xr.DataTree) -> _ByValue:
        release = tree["release"].to_dataset()
        learned = tree["exact" if "exact" in tree.children else "estimate"].to_dataset()
        real = release["weight"].values > 0  # releases of another truth may be padded
        noisy = release["noisy"].isel(level=0)
        column = (noisy.isel(cell=0) if "cell" in noisy.dims else noisy).values[real]
        lowest = scenario.plan.levels[0].mechanism
        if lowest.is_continuous:
            width = float(np.sqrt(lowest.variance)) / 2.0
            column = np.round(column / width) * width
        weight = release["weight"].values[real] / float(release["weight"].sum())
        values, place = np.unique(column, return_inverse=True)
        probability = np.bincount(place, weight)
        cumulative = np.cumsum(probability)
        kept = (cumulative > 5e-4) & (cumulative - probability < 1.0 - 5e-4)
        posterior = {name: of_reader(learned, name)["posterior"].values[real] for name in readers_of(scenario)}
        several = len(scenario.plan.levels) * scenario.plan.cells > 1 or lowest.is_continuous
        return cls(values[kept], probability[kept], _places(place, kept), weight, posterior, several)

    def summary(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """(mean, 5 % and 95 % quantile) of y at every value, over the other releases."""
        rows = [_weighted(y[rows], self.weight[rows]) for rows in self.place]
        mean, low, high = np.array(rows).T
        return mean, low, high


def _places(place: Any, kept: Any) -> list[Any]:
    order = np.argsort(place, kind="stable")
    pieces = np.split(order, np.cumsum(np.bincount(place))[:-1])
    return [piece for piece, keep in zip(pieces, kept, strict=True) if keep]


def _weighted(y: Floats, weight: Floats) -> tuple[float, float, float]:
    order = np.argsort(y)
    cumulative = np.cumsum(weight[order])
    at = np.minimum(np.searchsorted(cumulative, np.array([0.05, 0.95]) * cumulative[-1]), y.size - 1)
    return float(weight @ y / weight.sum()), float(y[order][at[0]]), float(y[order][at[1]])


def _bars(ax: Axes, table: _ByValue) -> None:
    """Probability of each released value, as light bars on an axis of their own behind the curves."""
    behind = ax.twinx()
    width = 0.8 * float(np.diff(table.values).min()) if table.values.size > 1 else 0.8
    behind.bar(table.values, table.probability, width, color=LIGHT, gid="probability")
    behind.set_ylim(0.0, 3.2 * table.probability.max())
    behind.set_yticks([])
    behind.spines[:].set_visible(False)
    behind.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)


def _key_of_bars(table: _ByValue) -> str:
    return f"bars: how probable each value is (up to {percent(table.probability.max())})"


@styled
def ratio_by_prior(scenario: Scenario, tree: xr.DataTree, points: int = 61) -> Figure:
    """Posterior over prior against the prior, for this plan, truth and what the (first) reader believes of others.

    One law of the log Bayes factor serves every prior. Bounds are those of the audit, for the same number of records.
    """
    names = list(readers_of(scenario))
    reader = readers_of(scenario)[names[0]]
    law = law_of(scenario, scenario.plan, reader)
    truth = settle_truth(scenario.plan, reader, scenario.truth)
    invariant = invariant_factor(scenario.plan, reader, truth)
    if not np.isfinite(invariant):
        raise ValueError("exact levels settle the target: its prior makes no difference")
    prior = np.unique(np.concatenate([np.geomspace(1e-4, 0.5, points), 1.0 - np.geomspace(0.5, 0.05, points // 4)]))
    base = expit(logit(prior) + invariant)
    expected = np.array([at_prior(law, float(p)).posterior_mean()[0] for p in prior]) / base
    most = posterior_ratio(base, law.quantiles([0.95])[0] - invariant)
    figure = Figure(figsize=(9.4, 5.0), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xscale="log", yscale="log", xlabel="prior that the target is in", xlim=(prior[0], prior[-1]))
    ax.axhline(1.0, color=GREY, lw=1.0)
    labels = [
        (expected[0], f"expected ratio {expected[0]:.2f}", BLUE),
        (most[0], f"19 releases in 20 below {most[0]:.2f}", BLUE),
    ]
    ax.plot(prior, expected, color=BLUE, gid="expected")
    ax.plot(prior, most, color=BLUE, lw=1.2, ls=(0, (1, 1.5)), gid="95 % of releases")
    tightest = np.inf
    bound = of_reader(tree["bound"].to_dataset(), names[0])
    for name, colour in zip(bound["definition"].values, _bound_colours(bound), strict=True):
        reach = float(bound["loss_bound"].sel(definition=name))
        if not np.isfinite(reach):
            continue
        upper, lower = posterior_ratio(base, reach), posterior_ratio(base, -reach)
        tightest = min(tightest, float(upper[0]))
        for values, sign in ((upper, "≤"), (lower, "≥")):
            ax.plot(prior, values, color=colour, lw=1.4, ls=(0, (5, 2)), gid=f"bound {name} {sign}")
            shown = outward(float(values[0]), sign == "≤", 3)
            labels.append((float(values[0]), f"{called(str(name))} {sign} {shown}", colour))
    marked = [name for name, one in readers_of(scenario).items() if same_law(one, reader)]
    risk = tree["risk"].to_dataset()
    for name in marked:
        one = of_reader(risk, name)
        at = float(readers_of(scenario)[name].prior)
        if prior[0] <= at <= prior[-1]:
            ax.plot(at, float(one["ratio_mean"]), "o", color=BLUE, ms=7, mec="white", gid=f"reader {name}")
    plain_log_axis(ax, "x", percent)
    plain_log_axis(ax, "y", lambda r: f"{r:g}")
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.spines["left"].set_visible(False)
    ax.spines["right"].set_visible(True)
    ax.set_ylabel("ratio: posterior / prior")
    edge_labels(ax, labels, prior[0], offset=-8.0)
    allowed = f"; a bound allows {outward(tightest, True, 3)}" if np.isfinite(tightest) else ""
    span = (
        f"is {expected.max():.2f} at most"
        if expected.min() >= 1
        else f"lies between {expected.min():.2f} and {expected.max():.2f}"
    )
    finding(figure, f"For priors of 0.01 % to 95 % the expected ratio {span}{allowed}")
    return figure


@styled
def risk_by_budget(scenario: Scenario, tree: xr.DataTree, points: int | None = None) -> Figure:
    """Expected posterior and P(correct) when the budget of every level is multiplied by 1/10 to 10.

    P(correct) is drawn as separate points: below a prior of 1/2 it is a saw-tooth, which a line would misstate.
    """
    readers, risk = readers_of(scenario), tree["risk"].to_dataset()
    factors = np.geomspace(*MULTIPLIERS, points or affordable_points(scenario.plan))
    expected, correct = swept(scenario, factors)
    total = sum(level.mechanism.rho for level in scenario.plan.levels if not level.is_exact)
    total *= 2.0 if scenario.neighbours == "bounded" else 1.0
    in_rho = 0.0 < total < np.inf
    x = factors * (total if in_rho else 1.0)
    figure = Figure(figsize=(10.4, 4.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    failure = float(tree.attrs.get("failure", scenario.failure))
    coarse, reach = reaches(scenario, factors, failure)
    ends: tuple[list[Any], list[Any]] = ([], [])
    wide = _wide(risk)
    for (name, _), colour in zip(readers.items(), _cycle(COLOURS), strict=False):
        one = of_reader(risk, name)
        base = float(one["prior"])
        upper = expit(float(logit(base)) + reach[name])
        left.plot(x, expected[name], color=colour, gid=f"expected {name}")
        left.plot(coarse * x[-1] / factors[-1], upper, color=colour, lw=1.2, ls=(0, (5, 2)), gid=f"bound {name}")
        size = 3.0 if factors.size > 40 else 5.0
        right.plot(x, correct[name], "o", color=colour, ms=size, mew=0, gid=f"correct {name}")
        here = x[-1] / factors[-1]
        left.plot(here, float(one["posterior_mean"]), "o", color=colour, ms=8, mec="white", mew=1.2, zorder=5)
        right.plot(here, float(one["prob_correct"]), "o", color=colour, ms=8, mec="white", mew=1.2, zorder=5)
        ends[0].append((expected[name][-1], name or "expected posterior", colour))
        ends[1].append((correct[name][-1], name or "P(correct)", colour))
        if len(readers) == 1:
            ends[0].append((float(upper[-1]), bound_name(scenario, failure).replace(", ", ",\n"), colour))
    budget = "privacy budget rho, all levels together (zCDP)" if in_rho else "budget, as a multiple of the plan's"
    for ax in (left, right):
        ax.set_xscale("log")
        ax.set_xlim(x[0], x[-1])
        ax.axvline(x[-1] / factors[-1], color=GREY, lw=0.9, zorder=0)
        ax.set_xlabel(budget)
        plain_log_axis(ax, "x", lambda v: f"{v:g}")
    _posterior_axis(left, log=wide)
    right.set(ylabel="probability of a right guess", ylim=(-0.02, 1.02))
    right.yaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))
    for ax, end in zip((left, right), ends, strict=True):
        edge_labels(ax, end, x[-1], offset=6.0)
    dashed = f"\ndashed: {bound_name(scenario, failure)}" if len(readers) > 1 else ""
    panel_title(left, f"Expected posterior{dashed}")
    panel_title(right, "Right guesses, one point per budget" + "\n" * bool(dashed))
    first = next(iter(readers))
    low, now, high = expected[first][0], float(of_reader(risk, first)["posterior_mean"]), expected[first][-1]
    whose = f"the expected posterior of reader {first}" if first else "the expected posterior"
    moved = f"from {percent(now)} to {percent(high)}, a tenth of it to {percent(low)}"
    finding(figure, f"Ten times the budget moves {whose} {moved}")
    return figure


@styled
def risk_by_reader(scenario: Scenario, tree: xr.DataTree) -> Figure:
    """Expected posterior and ratio of every reader, the central 90 % of releases, and every bound."""
    risk, bound = tree["risk"].to_dataset(), tree["bound"].to_dataset()
    names = list(readers_of(scenario))
    definitions = [str(name) for name in bound["definition"].values]
    height = 1.6 + len(names) * (0.4 + 0.14 * len(definitions))
    figure = Figure(figsize=(10.0, height), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, measure in zip(axes, ("posterior", "ratio"), strict=True):
        for i, name in enumerate(names):
            one, limits = of_reader(risk, name), of_reader(bound, name)
            quantile = one[f"{measure}_quantile"].values
            ax.plot(quantile[[0, -1]], [i, i], color=BLUE, lw=5, alpha=0.3, solid_capstyle="butt", gid=f"90 % {name}")
            ax.plot(float(one[f"{measure}_mean"]), i, "o", color=BLUE, ms=7, mec="white", gid=f"expected {name}")
            start = float(one["prior"]) if measure == "posterior" else 1.0
            ax.plot([start, start], [i - 0.2, i + 0.2], color=GREY, lw=1.6, gid=f"prior {name}")
            for j, (definition, colour) in enumerate(zip(definitions, _bound_colours(bound), strict=True)):
                low, high = limits[measure].sel(definition=definition).values
                at = i + 0.22 + 0.16 * j
                ax.plot([low, high], [at, at], "|-", color=colour, lw=1.0, ms=7, gid=f"bound {definition} {name}")
    priors = risk["prior"].values
    if priors.min() > 0:
        axes[0].set_xscale("log")
        plain_log_axis(axes[0], "x", percent)
    if float(bound["ratio"].sel(side="lower").min()) > 0:
        axes[1].set_xscale("log")
        plain_log_axis(axes[1], "x", lambda r: f"{r:g}")
    axes[0].set_yticks(range(len(names)), [f"reader {name}" for name in names])
    axes[0].set_ylim(len(names) - 0.4 + 0.16 * len(definitions), -0.75)
    axes[0].set_xlabel("posterior that the target is in")
    axes[1].set_xlabel("ratio: posterior / prior")
    for ax in axes:
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    _key(axes[1], bound)
    finding(figure, _closest(names, risk, bound))
    return figure


def _key(ax: Axes, bound: xr.Dataset) -> None:
    """Names of the marks, at the right end of the first reader's row."""
    entries = [(0.0, "dot: expected; bar: 90 %\nof releases; tick: prior", BLUE)]
    for j, (definition, colour) in enumerate(zip(bound["definition"].values, _bound_colours(bound), strict=True)):
        entries.append((0.22 + 0.16 * j, f"bound: {called(str(definition))}", colour))
    edge_labels(ax, entries, 1.0, offset=8.0)


def _closest(names: Sequence[str], risk: xr.Dataset, bound: xr.Dataset) -> str:
    """The reader whose expected ratio uses up most of a bound."""
    found = []
    for name in names:
        one, limits = of_reader(risk, name), of_reader(bound, name)
        upper = limits["ratio"].sel(side="upper")
        ratio, start = float(one["ratio_mean"]), float(upper.min())
        found.append((ratio / start, name, ratio, start, called(str(upper.idxmin("definition").item()))))
    _, name, ratio, allowed, whose = max(found)
    limit = f"{whose} allows {outward(allowed, True)}"
    return f"Closest to its bound is reader {name}: expected ratio {ratio:.2f}, {limit}"


def _bound_colours(bound: xr.Dataset) -> list[str]:
    names = [str(name) for name in bound["definition"].values]
    free = iter(_cycle(BOUND_COLOURS[:-1]))
    return [INK if name == "privacy loss" else next(free) for name in names]


def _cycle(colours: Sequence[str]) -> list[str]:
    return list(colours) * 20
