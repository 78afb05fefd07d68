"""Figures of an audit, each from the tree of `adversary.audit` under one truth; they compute no results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from scipy.special import expit

from adversary._core import Floats, format_bound, format_number, logit, percent, posterior_ratio
from adversary.adversaries.risk import same_law
from adversary.driver import OWN, shown_bound
from adversary.report.files import Scenario
from adversary.report.kit import group_of_adversary
from adversary.report.kit.audit_words import bound_name, definition_words
from adversary.report.plot import marks, sheet
from adversary.report.plot.guarantee_figures import trade_off
from adversary.report.plot.interval_figures import odds_words
from adversary.report.plot.sensitivity_figures import fan
from adversary.report.words import record_words

POSTERIOR = "probability that the person is in"

# Largest number of adversaries with a curve and a label: more colours are hard to tell apart.
DRAWN = 5


@sheet.house_style
def posterior_by_release(tree: xr.DataTree, *, level: str | None = None, ax: Axes | None = None) -> Axes:
    """Posterior of up to five adversaries against the released value of a level, over how probable each value is.

    With more levels (or cells) a line is the average over all other releases at that value; for a single adversary the
    band holds the central 90% of them.

    Parameters
    ----------
    tree : of `adversary.audit`, under one truth
    level : whose released value is the axis; the lowest one if not given
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : the curves; the bars stand on a twin of it.

    Raises
    ------
    ValueError : no such level

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> tree = adv.audit(plan, adv.Adversary(0.5), {"block": 1})
    >>> ax = adv.plot.posterior_by_release(tree)
    >>> print(ax.figure.get_suptitle())
    In 9 of 10 releases even odds become 33% to 71%
    """
    level = check_level(tree, level)
    risk = tree["risk"].to_dataset()
    table = _ByValue.of(tree, level)
    ax = sheet.panel(ax)
    labels = []
    for (name, posterior), colour in marks.coloured(table.posterior.items()):
        prior, (mean, low, high) = float(group_of_adversary(risk, name)["prior"]), table.summary(posterior)
        ax.plot(table.values, mean, "o-", color=colour, ms=4, gid=f"reader {name}" if name else "posterior")
        ax.axhline(prior, color=colour, lw=0.9, ls=":", gid=f"prior {name}".strip())
        if np.isfinite(mean[-1]):
            labels.append((float(mean[-1]), odds_words(name, prior), colour))
        if len(table.posterior) == 1 and table.several:
            ax.fill_between(table.values, low, high, color=colour, alpha=marks.BAND, lw=0, gid="band")
    ax.set_xlabel(f"released count of the {level} (people)")
    marks.few_ticks(ax, "x", integer=True)
    marks.probability_axis(ax, POSTERIOR, log=_wide(risk))
    _bars(ax, table)
    band = "; band: 9 of 10 of them" * (len(table.posterior) == 1 and table.several)
    line = f"Line: posterior{', on average over the other counts' * table.several}{band}; dotted: before"
    most = percent(float(table.probability.max()))
    first = next(iter(table.posterior))
    of_first = group_of_adversary(risk, first)
    ends = [percent(float(of_first["posterior_quantile"][i])) for i in (0, -1)]
    who = odds_words(first, float(of_first["prior"]))
    verb = "become" if who == "even odds" else "becomes" if who.startswith("1 in ") or who[:1].isdigit() else "reaches"
    sheet.headline(
        ax, f"In 9 of 10 releases {who} {verb} {ends[0]} to {ends[1]}", line,
        f"Bars: how probable each count is, up to {most}.",
        f"Posteriors rise with the released count; counts from {table.values[0]:g} to {table.values[-1]:g} are likely.",
    )  # fmt: skip
    marks.edge_labels(ax, labels)
    return ax


def _wide(risk: xr.Dataset) -> bool:
    """True if the adversaries' priors need a log axis."""
    return float(risk["prior"].max()) > 10.0 * float(risk["prior"].min()) > 0.0


@dataclass(frozen=True)
class _ByValue:
    """Releases grouped by the released value of one level.

    Parameters
    ----------
    values, probability : released values (value,), and the probability of each; continuous ones are binned
    place : indices of the releases of each value
    weight : of all releases
    posterior : of all releases, by adversary
    several : whether several releases have the same value, so that averages over them are drawn
    """

    values: Floats
    probability: Floats
    place: Any
    weight: Floats
    posterior: dict[str, Floats]
    several: bool

    @classmethod
    def of(cls, tree: xr.DataTree, level: str) -> _ByValue:
        """Releases of an audit under one truth, without the most improbable values."""
        release = tree["release"].to_dataset()
        learned = tree["exact" if "exact" in tree.children else "estimate"].to_dataset()
        # releases with weight 0 are padding, if truths have different numbers of releases
        real = release["weight"].values > 0
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
        probable = (cumulative > 5e-4) & (cumulative - probability < 1.0 - 5e-4)
        names = adversary_names(tree)[:DRAWN]
        posterior = {name: group_of_adversary(learned, name)["posterior"].values[real] for name in names}
        several = release.sizes["level"] * release.sizes.get("cell", 1) > 1 or continuous
        rows = [np.flatnonzero(place == one) for one in np.flatnonzero(probable)]
        return cls(values[probable], probability[probable], rows, weight, posterior, several)

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
    behind.bar(table.values, table.probability, width, color=sheet.LINE, gid="probability")
    behind.set_ylim(0.0, 3.2 * table.probability.max())
    behind.set_yticks([])
    behind.spines[:].set_visible(False)
    behind.set_zorder(ax.get_zorder() - 1)
    ax.patch.set_visible(False)


def adversary_names(tree: xr.DataTree) -> list[str]:
    """Names of the adversaries of an audit; "" of a single one."""
    risk = tree["risk"].to_dataset()
    return [str(name) for name in risk["adversary"].values] if "adversary" in risk.dims else [""]


def check_level(tree: xr.DataTree, level: str | None) -> str:
    """Name of a level of the release, the lowest by default; ValueError for an unknown one."""
    levels = [str(one) for one in tree["release"].to_dataset()["level"].values]
    if level is not None and level not in levels:
        raise ValueError(f"level must be one of {levels}, got {level!r}")
    return level or levels[0]


def check_group(tree: xr.DataTree, name: str) -> None:
    """ValueError if an audit does not have a group."""
    if name not in tree.children:
        raise ValueError(f'tree: has no group {name!r}, which audit(..., also=("{name}",)) adds')


@sheet.house_style
def ratio_by_prior(tree: xr.DataTree, *, adversary: str | None = None, ax: Axes | None = None) -> Axes:
    """Posterior over prior against the prior, for what an adversary believes of others, with the bounds.

    Parameters
    ----------
    tree : of `adversary.audit(..., also=("priors",))`, under one truth
    adversary : whose beliefs; the first if not given
    ax : to draw on; a new figure if not given

    Returns
    -------
    Axes : log axes, the prior across.

    Raises
    ------
    ValueError : the tree has no group "priors", or no such adversary

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> tree = adv.audit(plan, adv.Adversary(0.5), {"block": 1}, also=("priors",))
    >>> ax = adv.plot.ratio_by_prior(tree)
    >>> print(ax.figure.get_suptitle().split(",")[0])
    The release multiplies a small prior by 1.22 on average
    """
    check_group(tree, "priors")
    names = adversary_names(tree)
    priors = tree["priors"].to_dataset()
    there = [one for one in names if "adversary" not in priors.dims or one in priors["adversary"].values]
    name = there[0] if adversary is None else adversary
    if name not in there:
        raise ValueError(f"adversary must be one of {there}, got {adversary!r}")
    one = group_of_adversary(priors, name)
    prior, expected, most, base = (one[key].values for key in ("at", "ratio_mean", "ratio_95", "given"))
    ax = sheet.panel(ax)
    ax.set(xscale="log", yscale="log", xlabel="prior, before the release", xlim=(prior[0], prior[-1]))
    ax.axhline(1.0, color=sheet.LINE, lw=1.0, zorder=0)
    labels = [
        (float(expected[0]), f"average {expected[0]:.2f}", sheet.AFTER),
        (float(most[0]), f"19 of 20 releases below {most[0]:.2f}", sheet.AFTER),
    ]
    ax.plot(prior, expected, color=sheet.AFTER, gid="expected")
    ax.plot(prior, most, color=sheet.AFTER, lw=1.2, ls=(0, (1, 1.5)), gid="95% of releases")
    bound = group_of_adversary(tree["bound"].to_dataset(), name)
    shown = shown_bound(bound)
    named = [str(shown["definition"].item()), *([OWN] if OWN in bound["definition"].values else [])]
    for definition in dict.fromkeys(named[:1] if sheet.size().stacked else named):
        colour = sheet.INK if definition == OWN else sheet.FINDING
        loss_bound = float(bound["loss_bound"].sel(definition=definition))
        if not np.isfinite(loss_bound):
            continue
        for sign, upper in (("≤", True), ("≥", False)):
            values = posterior_ratio(base, loss_bound if upper else -loss_bound)
            ax.plot(prior, values, color=colour, lw=marks.BOUND_WIDTH * sheet.POINT, ls=marks.BOUND,
                    gid=f"bound {definition} {sign}")  # fmt: skip
            label = f"{definition_words(str(definition))} {sign} {format_bound(float(values[0]), upper, 3)}"
            labels.append((float(values[0]), label, colour))
    risk = tree["risk"].to_dataset()
    for other in there:
        at, ratio = (float(group_of_adversary(risk, other)[key]) for key in ("prior", "ratio_mean"))
        # a dot only for adversaries with the same curve, who differ in their prior alone
        if (
            np.array_equal(group_of_adversary(priors, other)["ratio_mean"], one["ratio_mean"])
            and prior[0] <= at <= prior[-1]
        ):
            ax.plot(at, ratio, "o", color=sheet.AFTER, mec=sheet.PAPER, gid=f"reader {other}")
    marks.plain_log_axis(ax, "x", percent)
    marks.plain_log_axis(ax, "y")
    marks.ticks_right(ax)
    ax.set_ylabel("posterior over prior")
    loss_bound = float(shown["loss_bound"])
    limit = format_bound(float(posterior_ratio(base, loss_bound)[0]), True, 3)
    allowed = f", {bound_name(shown)} allows {limit}" if np.isfinite(loss_bound) else ""
    sheet.headline(
        ax, f"The release multiplies a small prior by {float(expected[0]):.3g} on average{allowed}",
        "Dots: adversaries of this audit; dashed: bounds", "",
        f"The ratio falls from {format_number(float(expected[0]))} at small priors to "
        f"{format_number(float(expected[-1]))} at {percent(float(prior[-1]))}.",
    )  # fmt: skip
    marks.edge_labels(ax, labels, left=True)
    return ax


@sheet.house_style
def risk_by_budget(tree: xr.DataTree, *, ax: Axes | None = None) -> Axes:
    """Average posterior of up to five adversaries when the budget of every level is multiplied by 1/10 to 10.

    Parameters
    ----------
    tree : of `adversary.audit(..., also=("budgets",))`, under one truth
    ax : to draw on; a new figure if not given

    Raises
    ------
    ValueError : the tree has no group "budgets"

    Examples
    --------
    >>> import adversary as adv
    >>> plan = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])
    >>> ax = adv.plot.risk_by_budget(adv.audit(plan, adv.Adversary(0.5), {"block": 1}, also=("budgets",)))
    >>> print(ax.figure.get_suptitle())
    Ten times the budget takes the average posterior from 52% to 68%
    """
    check_group(tree, "budgets")
    names, risk, budgets = adversary_names(tree)[:DRAWN], tree["risk"].to_dataset(), tree["budgets"].to_dataset()
    in_rho = bool(np.isfinite(budgets["rho"]).all() and (budgets["rho"] > 0.0).all())
    x = budgets["rho" if in_rho else "budget"].values
    ax = sheet.panel(ax)
    ax.set(xscale="log", xlim=(x[0], x[-1]))
    ax.set_xlabel("budget rho of all levels together (zCDP)" if in_rho else "budget, as a multiple of the plan's")
    here = x[-1] / budgets["budget"].values[-1]
    ax.axvline(here, color=sheet.LINE, lw=1.0, zorder=0)
    ends: list[marks.Label] = []
    for name, colour in marks.coloured(names):
        one, now = group_of_adversary(budgets, name), group_of_adversary(risk, name)
        prior = float(now["prior"])
        upper = expit(float(logit(prior)) + one["loss_bound"].values)
        ax.plot(x, one["posterior_mean"], color=colour, gid=f"expected {name}")
        ax.plot(here, float(now["posterior_mean"]), "o", color=colour, mec=sheet.PAPER, mew=1.0, zorder=5)
        ends.append(
            (float(one["posterior_mean"][-1]), odds_words(name, prior) if name else "average posterior", colour)
        )
        if len(names) == 1:
            ax.plot(x, upper, color=sheet.INK, lw=sheet.POINT * marks.BOUND_WIDTH, ls=marks.BOUND, gid="bound ")
            ends.append((float(upper[-1]), "bound of the plan's noise", sheet.INK))
    marks.plain_log_axis(ax, "x")
    marks.probability_axis(ax, POSTERIOR, log=_wide(risk))
    first = group_of_adversary(budgets, names[0])["posterior_mean"]
    start, high = percent(float(group_of_adversary(risk, names[0])["posterior_mean"])), percent(float(first[-1]))
    whose = f" of {odds_words(names[0], float(group_of_adversary(risk, names[0])['prior']))}" if len(names) > 1 else ""
    sheet.headline(
        ax, f"Ten times the budget takes the average posterior{whose} from {start} to {high}",
        f"Dots: as planned{'; dashed: bound of the noise' * (len(names) == 1)}", "",
        f"Averages rise with the budget, from {percent(float(first[0]))} at a tenth of it.",
    )  # fmt: skip
    marks.edge_labels(ax, ends)
    return ax


def tests(scenario: Scenario, tree: xr.DataTree) -> Axes:
    """Trade-off curves of the guarantees and of the release itself, with the tests of the audited adversaries."""
    drawn, adversaries = tree["tests"].to_dataset(), scenario.adversaries
    records = max(one_adversary.records(scenario.plan) for one_adversary in adversaries.values())
    record = record_words(scenario.plan.privacy_unit)["record"]
    stretched = f" ({records} {record}s)" if records > 1 else ""
    curves = {
        definition_words(name) + stretched: one.group(records) for name, one in (scenario.guarantee or {}).items()
    }
    points: dict[str, Any] = {}
    shown: list[Any] = []
    for name, one_adversary in adversaries.items():
        if "adversary" in drawn.dims and name not in drawn["adversary"].values:
            continue
        if float(group_of_adversary(tree["risk"].to_dataset(), name)["prior"]) in (0.0, 1.0):
            # exact counts determine the target: there is nothing to test
            continue
        # adversaries who differ in their prior alone have the same tests
        if not any(same_law(one_adversary, one) for one in shown):
            shown.append(one_adversary)
            one = group_of_adversary(drawn, name)
            points[f"adversary {name}" if name else "the adversary"] = (one["level"].values, one["detections"].values)
    points = {"the adversary": next(iter(points.values()))} if len(points) == 1 else points
    own = scenario.plan.privacy_loss(
        max(one_adversary.count_shift(scenario.plan) for one_adversary in adversaries.values())
    )
    return trade_off({**curves, f"this release{stretched or ' (others known)'}": own}, points)


def repeated_releases(tree: xr.DataTree, count: str, name: str) -> sheet.Panels:
    """Fan of posteriors after 1, 2, ... releases of one count, for the adversary `name`."""
    repeated = (
        group_of_adversary(tree["repeated"].to_dataset(), name).sel(count=count, drop=True).rename(target="truth")
    )
    if repeated.sizes["releases"] < 3:
        raise ValueError("two releases make no curve")
    return fan(repeated.where(repeated["posterior_mean"].notnull().any("truth"), drop=True), "releases")
