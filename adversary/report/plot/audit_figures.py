"""Figures of an audit, each from the tree that `adversary.audit` returned, under one truth; none computes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.special import expit

from adversary._core import (
    Floats,
    format_bound,
    format_interval,
    format_number,
    format_probability,
    logit,
    percent,
    posterior_ratio,
)
from adversary.adversaries.risk import same_law
from adversary.driver import OWN, shown_bound
from adversary.report.files import Scenario
from adversary.report.kit import of_reader
from adversary.report.kit.audit_words import bound_name, definition_words, nine_in_ten
from adversary.report.plot import sheet as kit
from adversary.report.plot.guarantee_figures import trade_off
from adversary.report.plot.sensitivity_figures import fan
from adversary.report.words import record_words

POSTERIOR = "posterior that the target is in"


@kit.house_style
def posterior_by_release(tree: xr.DataTree, *, level: str | None = None, ax: Axes | None = None) -> Axes:
    """Posterior of every adversary against the released value of a level, with how probable each value is.

    With more levels (or cells) a line is the average over all other releases at that value; for a single adversary the
    band holds the central 90% of them.

    Parameters
    ----------
    tree : of `adversary.audit`, under one truth
    level : whose released value is the axis; the lowest one if not given
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : no such level
    """
    level = check_level(tree, level)
    table, risk = _ByValue.of(tree, level), tree["risk"].to_dataset()
    ax = kit.panel(ax, 8.2, 4.8)
    labels = [(0.5, "decides “in” above 50%", kit.INK)]
    for (name, posterior), colour in kit.coloured(table.posterior.items()):
        prior, (mean, low, high) = float(of_reader(risk, name)["prior"]), table.summary(posterior)
        ax.plot(table.values, mean, "o-", color=colour, ms=4, gid=f"reader {name}" if name else "posterior")
        ax.axhline(prior, color=colour, lw=0.9, ls=":", gid=f"prior {name}".strip())
        if np.isfinite(mean[-1]):
            labels.append((mean[-1], name or ("average posterior" if table.several else "posterior"), colour))
        if len(table.posterior) == 1 and table.several:
            ax.fill_between(table.values, low, high, color=colour, alpha=0.18, lw=0, gid="band")
    ax.axhline(0.5, color=kit.INK, lw=1.2, ls=kit.MARK, gid="threshold")
    ax.set_xlabel(f"released count of the target's {level} (people)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    kit.probability_axis(ax, POSTERIOR, log=_wide(risk))
    _bars(ax, table)
    kit.edge_labels(ax, labels, ax.get_xlim()[1], offset=8.0)
    band = "; band: central 90%" * (len(table.posterior) == 1 and table.several)
    most = percent(table.probability.max())
    kit.panel_title(ax, f"dotted: before the release{band}\nbars: how probable each value is (up to {most})")
    if len(table.posterior) == 1:
        kit.title(ax, f"Nine releases in ten leave the posterior within {nine_in_ten(risk)}")
    else:
        ends = (float(pick(risk["ratio_quantile"])) for pick in (np.min, np.max))
        kit.title(ax, f"Nine releases in ten: {format_interval(*ends)} times the prior")
    return ax


def _wide(risk: xr.Dataset) -> bool:
    """True if the adversaries' priors need a log axis."""
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
    def of(cls, tree: xr.DataTree, level: str) -> _ByValue:
        release = tree["release"].to_dataset()
        learned = tree["exact" if "exact" in tree.children else "estimate"].to_dataset()
        real = release["weight"].values > 0  # releases of another truth may be padded
        noisy = release["noisy"].sel(level=level)
        column = (noisy.isel(cell=0) if "cell" in noisy.dims else noisy).values[real]
        weight = release["weight"].values[real] / float(release["weight"].sum())
        continuous = bool((column != np.rint(column)).any())
        if continuous:
            width = float(np.sqrt(np.cov(column, aweights=weight))) / 2.0
            column = np.round(column / width) * width
        values, place = np.unique(column, return_inverse=True)
        probability = np.bincount(place, weight)
        cumulative = np.cumsum(probability)
        kept = (cumulative > 5e-4) & (cumulative - probability < 1.0 - 5e-4)
        posterior = {name: of_reader(learned, name)["posterior"].values[real] for name in adversaries(tree)}
        several = release.sizes["level"] * release.sizes.get("cell", 1) > 1 or continuous
        rows = [np.flatnonzero(place == one) for one in np.flatnonzero(kept)]
        return cls(values[kept], probability[kept], rows, weight, posterior, several)

    def summary(self, y: Floats) -> tuple[Floats, Floats, Floats]:
        """(mean, 5% and 95% quantile) of y at every value, over the other releases."""
        mean = [np.average(y[rows], weights=self.weight[rows]) for rows in self.place]
        ends = [
            np.quantile(y[rows], [0.05, 0.95], weights=self.weight[rows], method="inverted_cdf") for rows in self.place
        ]
        return np.array(mean), *np.array(ends).T


def _bars(ax: Axes, table: _ByValue) -> None:
    """Probability of each released value, as light bars on an axis of their own behind the curves."""
    behind = ax.twinx()
    width = 0.8 * float(np.diff(table.values).min()) if table.values.size > 1 else 0.8
    behind.bar(table.values, table.probability, width, color=kit.LIGHT, gid="probability")
    behind.set_ylim(0.0, 3.2 * table.probability.max())
    behind.set_yticks([])
    behind.spines[:].set_visible(False)
    behind.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)


def adversaries(tree: xr.DataTree) -> list[str]:
    """Names of the adversaries of an audit; "" of a single one."""
    risk = tree["risk"].to_dataset()
    return [str(name) for name in risk["adversary"].values] if "adversary" in risk.dims else [""]


def check_level(tree: xr.DataTree, level: str | None) -> str:
    """A level of the release, the lowest where none is named."""
    levels = [str(one) for one in tree["release"].to_dataset()["level"].values]
    if level is not None and level not in levels:
        raise ValueError(f"level must be one of {levels}, got {level!r}")
    return level or levels[0]


def check_group(tree: xr.DataTree, name: str) -> None:
    """ValueError where an audit has no such group."""
    if name not in tree.children:
        raise ValueError(f'tree: has no group {name!r}, which audit(..., also=("{name}",)) adds')


class _Range(NamedTuple):
    """What one adversary concludes of one release: probabilities, and the ends of what is allowed."""

    name: str
    prior: float
    mean: float
    low: float
    high: float
    least: float
    most: float


@kit.house_style
def before_after(found: xr.DataTree | pd.DataFrame | xr.Dataset, *, ax: Axes | None = None) -> Axes:
    """Prior, expected posterior, nine releases in ten and the bound that is shown, a row for each adversary.

    Parameters
    ----------
    found : of `adversary.audit`, under one truth; or rows of a table (at most twelve) with `prior`, `posterior_mean`,
        `posterior_low`, `posterior_high` and `bound`, as of `adversary.audit_tables`, named by the index
    ax : to draw on; a new figure if not given
    """
    if not isinstance(found, xr.DataTree):
        return _before_after_of_rows(found, ax)
    tree = found
    risk, bound = tree["risk"].to_dataset(), shown_bound(tree["bound"].to_dataset())
    rows = []
    for name in map(str, risk["adversary"].values) if "adversary" in risk.dims else [""]:
        one, limits = of_reader(risk, name), of_reader(bound, name)["posterior"]
        low, high = (float(one["posterior_quantile"][i]) for i in (0, -1))
        least, most = (float(limits.sel(side=side)) for side in ("lower", "upper"))
        rows.append(_Range(name, float(one["prior"]), float(one["posterior_mean"]), low, high, least, most))
    ax = _ranges(rows, bound_name(bound), ax)
    ends = dict.fromkeys(format_probability(float(pick(risk["posterior_mean"]))) for pick in (np.min, np.max))
    kit.title(ax, f"After the release, the probability is {' to '.join(ends)} on average")
    return ax


@kit.house_style
def compared_ranges(found: xr.Dataset) -> Axes:
    """Two plans on one axis: prior, expected posterior, nine releases in ten and bound of every truth and adversary."""
    places = found.stack(row=("truth", "adversary", "file")).dropna("row", subset=["posterior_mean"])
    rows = []
    for i, labels in enumerate(places["row"].values):
        one = places.isel(row=i)
        prior, mean, low, high, most = (float(one[key]) for key in ("prior", "posterior_mean", "low", "high", "bound"))
        rows.append(_Range(", ".join(filter(None, map(str, labels))), prior, mean, low, high, 0.0, most))
    ax = _ranges(rows, "the bound in the table", None)
    means = found["posterior_mean"].max([dim for dim in found["posterior_mean"].dims if dim != "file"])
    kit.title(ax, f"Highest risk: {' against '.join(format_probability(float(one)) for one in means)}")
    return ax


def _before_after_of_rows(found: pd.DataFrame | xr.Dataset, ax: Axes | None) -> Axes:
    """Rows of a table."""
    table = found.to_dataframe() if isinstance(found, xr.Dataset) else found
    if not 1 <= len(table) <= 12:
        raise ValueError(f"found must hold 1 to 12 rows to draw, got {len(table)}: use .head(12)")
    columns = ["prior", "posterior_mean", "posterior_low", "posterior_high", "bound"]
    rows = [
        _Range(str(name), *(float(one) for one in (*values[:4], 0.0, values[4])))
        for name, values in zip(table.index, table[columns].to_numpy(), strict=True)
    ]
    ax = _ranges(rows, "the bound in the table", ax)
    most = max(rows, key=lambda one: one.mean)
    kit.title(ax, f"The largest risk: from {percent(most.prior)} to {percent(most.mean)} on average")
    return ax


def _ranges(rows: Sequence[_Range], bounded_by: str, ax: Axes | None) -> Axes:
    """A row each: prior, mean, nine releases in ten, and what is allowed."""
    ax = kit.panel(ax, 5.6, 1.5 + 0.5 * len(rows))
    for i, one in enumerate(rows):
        ax.plot([one.least, one.most], [i, i], "|-", color=kit.INK, lw=1.0, ms=13, gid=f"bound {one.name}")
        ends = [one.low, one.high]
        ax.plot(ends, [i, i], color=kit.BLUE, lw=9, alpha=0.35, solid_capstyle="butt", gid=f"90% {one.name}")
        ax.plot(one.mean, i, "o", color=kit.BLUE, ms=8, mec="white", gid=f"expected {one.name}")
        ax.plot([one.prior] * 2, [i - 0.28, i + 0.28], color=kit.ORANGE, lw=2.2, gid=f"prior {one.name}")
    if max(one.prior for one in rows) > 10.0 * min(one.prior for one in rows) > 0.0:
        ax.set_xscale("log")
        kit.plain_log_axis(ax, "x", percent)
    else:
        ax.set_xlim(-0.01, 1.01)
        kit.in_percent(ax.xaxis)
    ax.set_yticks(range(len(rows)), [one.name for one in rows] if len(rows) > 1 else [""])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(
        "probability of “in”\norange: before; dot: after, on average\n"
        f"band: nine releases in ten\nline: the most by {bounded_by}"
    )
    return ax


@kit.house_style
def ratio_by_prior(tree: xr.DataTree, *, adversary: str | None = None, ax: Axes | None = None) -> Axes:
    """Posterior over prior against the prior, for what an adversary believes of others, beside the bounds.

    Parameters
    ----------
    tree : of `adversary.audit(..., also=("priors",))`, under one truth
    adversary : whose beliefs; the first if not given
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : the tree has no group "priors", or no such adversary
    """
    check_group(tree, "priors")
    names = adversaries(tree)
    found = tree["priors"].to_dataset()
    there = [one for one in names if "adversary" not in found.dims or one in found["adversary"].values]
    name = there[0] if adversary is None else adversary
    if name not in there:
        raise ValueError(f"adversary must be one of {there}, got {adversary!r}")
    one = of_reader(found, name)
    prior, expected, most, base = (one[key].values for key in ("at", "ratio_mean", "ratio_95", "given"))
    ax = kit.panel(ax, 8.4, 4.8)
    ax.set(xscale="log", yscale="log", xlabel="prior", xlim=(prior[0], prior[-1]))
    ax.axhline(1.0, color=kit.GREY, lw=1.0)
    said = {f"expected {expected[0]:.2f}": expected[0], f"19 in 20 below {most[0]:.2f}": most[0]}
    labels = [(at, text, kit.BLUE) for text, at in said.items()]
    ax.plot(prior, expected, color=kit.BLUE, gid="expected")
    ax.plot(prior, most, color=kit.BLUE, lw=1.2, ls=(0, (1, 1.5)), gid="95% of releases")
    bound = of_reader(tree["bound"].to_dataset(), name)
    free = cycle(kit.BOUND_COLOURS[:-1])
    for definition in bound["definition"].values:
        colour = kit.INK if definition == OWN else next(free)
        reach = float(bound["loss_bound"].sel(definition=definition))
        if not np.isfinite(reach):
            continue
        for sign, upper in (("≤", True), ("≥", False)):
            values = posterior_ratio(base, reach if upper else -reach)
            ax.plot(prior, values, color=colour, lw=1.4, ls=kit.BOUND, gid=f"bound {definition} {sign}")
            label = f"{definition_words(str(definition))} {sign} {format_bound(float(values[0]), upper)}"
            labels.append((float(values[0]), label, colour))
    risk = tree["risk"].to_dataset()
    for other in there:
        at, ratio = (float(of_reader(risk, other)[key]) for key in ("prior", "ratio_mean"))
        # adversaries who differ in their prior alone share the curve
        if np.array_equal(of_reader(found, other)["ratio_mean"], one["ratio_mean"]) and prior[0] <= at <= prior[-1]:
            ax.plot(at, ratio, "o", color=kit.BLUE, ms=7, mec="white", gid=f"reader {other}")
    kit.plain_log_axis(ax, "x", percent)
    kit.plain_log_axis(ax, "y")
    kit.ticks_right(ax)
    ax.set_ylabel("ratio: posterior / prior")
    kit.edge_labels(ax, labels, prior[0], offset=-8.0)
    shown = shown_bound(bound)
    reach = float(shown["loss_bound"])
    limit = format_bound(float(posterior_ratio(base, reach)[0]), True)
    allowed = f"; {bound_name(shown)} allows {limit}" if np.isfinite(reach) else ""
    kit.title(ax, f"Expected ratio up to {format_number(float(expected.max()))}{allowed}")
    return ax


@kit.house_style
def risk_by_budget(tree: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Expected posterior of every adversary when the budget of every level is multiplied by 1/10 to 10.

    Parameters
    ----------
    tree : of `adversary.audit(..., also=("budgets",))`, under one truth
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : the tree has no group "budgets"
    """
    check_group(tree, "budgets")
    names, risk, found = adversaries(tree), tree["risk"].to_dataset(), tree["budgets"].to_dataset()
    in_rho = bool(np.isfinite(found["rho"]).all() and (found["rho"] > 0.0).all())
    x = found["rho" if in_rho else "budget"].values
    ax = kit.panel(ax, 8.4, 4.6)
    ax.set(xscale="log", xlim=(x[0], x[-1]))
    ax.set_xlabel("privacy budget rho, all levels together (zCDP)" if in_rho else "budget, as a multiple of the plan's")
    here = x[-1] / found["budget"].values[-1]
    ax.axvline(here, color=kit.GREY, lw=0.9, zorder=0)
    ends: list[Any] = []
    for name, colour in kit.coloured(names):
        one, now = of_reader(found, name), of_reader(risk, name)
        upper = expit(float(logit(float(now["prior"]))) + one["loss_bound"].values)
        ax.plot(x, one["posterior_mean"], color=colour, gid=f"expected {name}")
        ax.plot(x, upper, color=colour, lw=1.2, ls=kit.BOUND, gid=f"bound {name}")
        ax.plot(here, float(now["posterior_mean"]), "o", color=colour, ms=8, mec="white", mew=1.2, zorder=5)
        ends.append((float(one["posterior_mean"][-1]), name or "expected posterior", colour))
        if len(names) == 1:
            ends.append((float(upper[-1]), "bound of the\nplan's own loss", colour))
    kit.plain_log_axis(ax, "x")
    kit.probability_axis(ax, POSTERIOR, log=_wide(risk))
    kit.edge_labels(ax, ends, x[-1], offset=6.0)
    first = of_reader(found, names[0])["posterior_mean"]
    low, high = percent(float(first[0])), percent(float(first[-1]))
    whose = f" of {names[0]}" if len(names) > 1 else ""
    kit.title(ax, f"Budget times 1/10: posterior{whose} {low}; times 10: {high}")
    return ax


def tests(scenario: Scenario, tree: xr.DataTree) -> Axes:
    """Trade-off of the guarantees and of the release itself, with the tests that the audited adversaries make of it."""
    found, readers = tree["tests"].to_dataset(), scenario.readers
    records = max(reader.records(scenario.plan) for reader in readers.values())
    record = record_words(scenario.plan.privacy_unit)["record"]
    stretched = f" ({records} {record}s)" if records > 1 else ""
    curves = {
        definition_words(name) + stretched: one.group(records) for name, one in (scenario.guarantee or {}).items()
    }
    points: dict[str, Any] = {}
    shown: list[Any] = []
    for name, reader in readers.items():
        if "adversary" in found.dims and name not in found["adversary"].values:
            continue
        if float(of_reader(tree["risk"].to_dataset(), name)["prior"]) in (0.0, 1.0):
            continue  # exact counts have told all: there is nothing to test
        if not any(same_law(reader, one) for one in shown):  # a prior alone changes no test
            shown.append(reader)
            one = of_reader(found, name)
            points[f"adversary {name}" if name else "the adversary"] = (one["level"].values, one["detections"].values)
    own = scenario.plan.privacy_loss(max(reader.count_shift(scenario.plan) for reader in readers.values()))
    return trade_off({**curves, f"this release{stretched or ' (others known)'}": own}, points)


def repeated_releases(tree: xr.DataTree, count: str, name: str) -> kit.Panels:
    """Posteriors after 1, 2, ... releases of one count."""
    found = of_reader(tree["repeated"].to_dataset(), name).sel(count=count, drop=True).rename(target="truth")
    if found.sizes["releases"] < 3:
        raise ValueError("two releases make no curve")
    return fan(found.where(found["posterior_mean"].notnull().any("truth"), drop=True), "releases")


@kit.house_style
def risk_by_count(
    found: pd.DataFrame | xr.Dataset, *, prior: float | None = None, bound: float | None = None, ax: Axes | None = None
) -> Axes:
    """Expected posterior of one person in every cell, by the people in it, beside prior and bound.

    Parameters
    ----------
    found : of `adversary.audit_tables`: `posterior_mean`, `posterior_low`, `posterior_high` and `count` by row
    prior, bound : probabilities; those of the rows if not given, the bound the largest of them
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : rows of several priors, and none given
    """
    if prior is None:
        prior, *more = np.unique(found["prior"])
        if more:
            raise ValueError(f"prior: the rows have {1 + len(more)}, say which one is drawn")
    bound = float(np.max(found["bound"])) if bound is None else bound
    columns = ("count", "posterior_mean", "posterior_low", "posterior_high")
    rows = np.stack([np.asarray(found[name]).astype(np.float64) for name in columns], axis=1)
    # cells that are alike on the page are one point, as large as they are many
    places, many = np.unique(np.round(rows, 4), axis=0, return_counts=True)
    count, risk, low, high = places.T
    ax = kit.panel(ax, 5.6, 4.4)
    wide = places.shape[0] <= 400
    if wide:
        ax.vlines(count, low, high, color=kit.BLUE, alpha=0.25, lw=2.0, gid="nine releases in ten")
    ax.scatter(count, risk, s=14.0 + 26.0 * np.log10(many), color=kit.BLUE, alpha=0.75, lw=0, gid="people")
    ax.set_xscale("symlog", linthresh=10.0)
    ax.set_xlim(-0.6, max(2.0, 1.15 * count.max()))
    steps, below = ((1, 2, 5), (1, 2, 5)) if count.max() < 1000 else ((1,), (5,))
    ticks = [0, *below, *(m * 10**e for e in range(1, 9) for m in steps)]
    shown = sorted({tick for tick in ticks if tick <= count.max()})
    ax.set_xticks(shown, [f"{tick:,}" for tick in shown])
    ax.minorticks_off()
    ax.set_ylim(0.0, min(1.0, 1.12 * max(bound, float(high.max()) if wide else 0.0, float(risk.max()))))
    for level, text, colour, style in (
        (prior, "before", kit.ORANGE, "-"),
        (bound, "most by the noise", kit.INK, kit.BOUND),
    ):
        ax.axhline(level, color=colour, ls=style, lw=1.2, zorder=0, gid=text)
        ax.annotate(text, (1.0, level), xycoords=("axes fraction", "data"), textcoords="offset points", xytext=(-2, 3),
                    ha="right", color=colour, fontsize=9.5)  # fmt: skip
    kit.in_percent(ax.yaxis)
    band = "\ndot: after, on average; line: nine releases in ten" if wide else "\nafter the release, on average"
    ax.set_xlabel(f"people in the cell{band}")
    ax.set_ylabel("probability")
    reached = format_probability(float(risk.max()))
    kit.title(ax, f"One person: up to {reached} on average, from {format_probability(prior)}")
    return ax
