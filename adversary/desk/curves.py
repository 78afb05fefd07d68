"""Guarantees and losses as curves: what the best test detects, what a delta costs, how sure a reader becomes.

Every function takes guarantees or losses by name and returns a matplotlib `Figure` with the finding in its title.
Losses are drawn solid, their curves being attained; definitions dashed, as bounds that none of their mechanisms exceeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import cycle
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import ArrayLike

from adversary._numeric import Floats, as_array, check_positive, check_probability
from adversary.desk.drawing import COLOURS, GREY, INK, apart, edge_labels, finding, panel_title, plain_log_axis, styled
from adversary.desk.words import PERCENT, between, outward, percent, share
from adversary.privacy import decisions
from adversary.privacy.concentrated import ZeroConcentratedDP
from adversary.privacy.conversions import pbdp_delta_markov, simple_epsilon
from adversary.privacy.guarantees import TOLERANCE, Guarantee
from adversary.privacy.losses import GaussianLoss
from adversary.privacy.pairs import PrivacyLoss
from adversary.privacy.posteriors import TRUTHS, PosteriorLaw

Guarantees = Guarantee | Mapping[str, Guarantee]
Laws = PosteriorLaw | Mapping[str, PosteriorLaw]
Label = tuple[float, str, str]

LEVELS = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 121), np.linspace(0.0, 1.0, 101)]))
"""Levels of a trade-off, the smallest positive one where its log axes begin."""
ASKED = 0.05
"""Level at which the title of a trade-off speaks."""
REFERENCE = 1e-10
"""Delta at which the title of a ladder speaks, where its axis holds it."""
RARE = 0.02
"""Posteriors are drawn on a log axis for priors below this."""
_BOUND: Any = (0, (5, 2))
_READING: Any = {"lw": 0.9, "ls": (0, (1, 2))}


@styled
def trade_off(guarantees: Guarantees, points: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None) -> Figure:
    """Power of the best test against its level, on plain axes and on log axes from 0.001, and what tests have achieved.

    Parameters
    ----------
    guarantees : by name, or one; each in its own direction, P ("in") against Q ("out")
    points : (level, power) of tests by name, one or several each: an audited adversary's false alarms and detections
    """
    named, tests = _named(guarantees), _checked_points(points or {})
    figure = Figure(figsize=(11.6, 4.9), layout="constrained")
    whole, small = figure.subplots(1, 2)
    whole.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    small.set(xscale="log", yscale="log", xlim=(1e-3, 1.0), ylim=(1e-3, 1.0))
    asked = {name: float(one.power(ASKED)) for name, one in named.items()}
    labels: list[Label] = [(1e-3, "no information", GREY)]
    for (name, one), colour in zip(named.items(), cycle(COLOURS), strict=False):
        power = as_array(one.power(LEVELS))
        for ax, start in ((whole, 0), (small, 1)):
            ax.plot(LEVELS[start:], power[start:], color=colour, ls=_dash(one), gid=f"power {name}")
        labels.append((float(power[1]), f"{name}: {_at_most(asked[name])}", colour))
    for ax in (whole, small):
        ax.plot(LEVELS[1:], LEVELS[1:], color=GREY, lw=1.2, zorder=0, gid="no information")
        ax.axvline(ASKED, color=GREY, zorder=0, **_READING)
        ax.set(xlabel="level: false alarms, P(says “in” | out)", ylabel="power: detections, P(says “in” | in)")
        for name, (level, power) in tests.items():
            ax.plot(level, power, "o", color=INK, ms=6, mec="white", clip_on=ax is small, zorder=5, gid=f"point {name}")
        _beside(ax, tests)
    _in_percent(whole.xaxis, whole.yaxis)
    for which in ("x", "y"):
        plain_log_axis(small, which, percent)
    _ticks_right(small)
    edge_labels(small, labels, 1e-3, offset=-8.0)
    panel_title(whole, "Every level")
    panel_title(small, f"Few false alarms, log axes; percentages: detections at {percent(ASKED)}")
    _title(figure, _closest_test(named, tests) if tests else _detected(asked))
    return figure


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
    ax.axvline(asked, color=GREY, zorder=0, **_READING)
    _decades(ax)
    ax.invert_xaxis()
    edge_labels(ax, labels, low, offset=8.0)
    panel_title(ax, f"numbers: epsilon at delta = {_plain(asked)}, the dotted line")
    _title(figure, _saved({name: end[1] for name, end in ends.items()}, asked, guarantees is None))
    return figure


@styled
def precision_recall(guarantees: Guarantees, prior: float = 0.5, beta: ArrayLike = (0.5, 1.0, 2.0)) -> Figure:
    """Precision of the best test against its recall, one panel for each beta, with the test of largest F_beta.

    Parameters
    ----------
    guarantees : by name, or one
    prior : probability that the target is in, strictly between 0 and 1
    beta : > 0; below 1 precision weighs more, above 1 recall
    """
    named, betas, p = _named(guarantees), np.atleast_1d(check_positive("beta", beta)), float(prior)
    best = {name: decisions.max_f_score(one, p, betas) for name, one in named.items()}
    curves = {name: decisions.pr_curve(one, p) for name, one in named.items()}
    figure = Figure(figsize=(3.4 + 3.4 * betas.size, 4.7), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, betas.size, sharey=True))
    tallest = max(float(curve["precision"].sel(recall=slice(0.02, None)).max()) for curve in curves.values())
    for i, (ax, b) in enumerate(zip(axes, betas, strict=True)):
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, min(1.0, 1.15 * tallest)), xlabel="recall: P(says “in” | in)")
        _contours(ax, float(b))
        ax.axhline(p, color=GREY, lw=1.2, gid="prior")
        labels: list[Label] = [(p, f"always “in”: {decisions.f_score(p, 1.0, b):.3f}", GREY)]
        for (name, curve), colour in zip(curves.items(), cycle(COLOURS), strict=False):
            ax.plot(curve["recall"], curve["precision"], color=colour, ls=_dash(named[name]), gid=f"curve {name}")
            recall, precision, score = (float(best[name][key][i]) for key in ("recall", "precision", "f_score"))
            ax.plot(recall, precision, "o", color=colour, ms=7, mec="white", clip_on=False, zorder=5,
                    gid=f"best {name} {b:g}")  # fmt: skip
            ax.plot([recall, 1.0], [precision] * 2, color=colour, **_READING)
            labels.append((precision, f"{name}: {outward(score, True, 3)}", colour))
        ax.set_xticks(np.linspace(0.0, 1.0, 5))
        _in_percent(ax.xaxis, ax.yaxis)
        edge_labels(ax, labels, 1.0, offset=6.0)
        panel_title(ax, f"beta = {b:g}: {_weighs(float(b))}\n")
    axes[0].set_ylabel("precision: P(in | says “in”)")
    middle = int(np.argmin(np.abs(np.log(betas))))
    scores = {name: float(one["f_score"][middle]) for name, one in best.items()}
    _title(figure, _scored(scores, float(betas[middle]), p))
    return figure


@styled
def posterior_law(laws: Laws, guarantee: Guarantees | None = None, failure: float = 0.0) -> Figure:
    """How often a reader's posterior is above each value, under both truths, beside what the guarantee allows.

    Parameters
    ----------
    laws : `loss.posterior(prior)` by name, or one; one prior each
    guarantee : its posterior bounds at each prior, one or several by name
    failure : probability that the bounds may leave out, as in `posterior_bounds`
    """
    named, promises = _named_laws(laws), {} if guarantee is None else _named(guarantee)
    rows = _promised(named, promises, failure)
    x, top = _posteriors(named, rows), 1.02 + 0.08 * len(rows)
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    ax = figure.add_subplot()
    ax.set(xlim=(x[0], x[-1]), ylim=(0.0, top), xlabel="posterior that the target is in", yticks=np.linspace(0, 1, 6))
    ax.set_ylabel("share of releases with a larger posterior")
    _in_percent(ax.yaxis) if x[0] > 0.0 else _in_percent(ax.xaxis, ax.yaxis)
    if x[0] > 0.0:
        ax.set_xscale("log")
        plain_log_axis(ax, "x", percent)
    means: dict[str, dict[str, float]] = {}
    labels: list[Label] = []
    for i, (name, law) in enumerate(named.items()):
        ax.axvline(_prior(law), 0.0, 1.0 / top, color=GREY, lw=1.0, zorder=0, gid=f"prior {name}")
        for side, truth in enumerate(TRUTHS):
            height = 1.0 - (side * len(named) + i + 1.0) / (2.0 * len(named) + 1.0)
            colour = COLOURS[(side if len(named) == 1 else i) % len(COLOURS)]
            mean = means.setdefault(truth, {}).setdefault(name, float(law.mean(truth)))
            _draw_law(ax, name, law, truth, mean, x, height, colour)
            labels.append((height, f"{name}, {truth}: mean {percent(mean)}".lstrip(", "), colour))
    labels += _draw_promises(ax, rows)
    edge_labels(ax, labels, x[-1], offset=6.0)
    kept = f"; bounds hold in {percent(1.0 - failure)} of releases" if rows and failure else ""
    panel_title(ax, f"thick: the target is in; thin: it is out; dots: means; grey: prior{kept}")
    _title(figure, _believed(means, rows))
    return figure


class _Rung(NamedTuple):
    """A reading of the noise: certified (lower, upper) delta at an epsilon, and the epsilon of a delta."""

    profile: Callable[[Floats], tuple[Any, Any]]
    epsilon: Callable[[float], Any]
    bound: bool


def _rungs(rho: float | Fraction | None, guarantees: Guarantees | None) -> dict[str, _Rung]:
    """The three readings of a rho, and each guarantee's own."""
    if rho is None and guarantees is None:
        raise ValueError("rho or guarantees must be given: there is nothing to draw")
    found: dict[str, _Rung] = {}
    if rho is not None:
        r = float(check_positive("rho", rho))
        found["simple zCDP"] = _Rung(lambda e: (_simple(r, e),) * 2, lambda d: simple_epsilon(r, d), True)
        found["tight zCDP"] = _rung(ZeroConcentratedDP(r))
        found["Gaussian noise"] = _rung(GaussianLoss(float(np.sqrt(2.0 * r))))
    return found | {name: _rung(one) for name, one in ({} if guarantees is None else _named(guarantees)).items()}


def _simple(rho: float, epsilon: Floats) -> Any:
    """exp(-(epsilon - rho)^2 / (4 rho)) above rho: the simple conversion read the other way."""
    return pbdp_delta_markov(epsilon, rho=rho)


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

    return _Rung(certified, one.epsilon, not isinstance(one, PrivacyLoss))


def _draw_rung(ax: Axes, name: str, rung: _Rung, epsilon: Floats, colour: str) -> None:
    """Epsilon against delta, and the certified interval of delta, which is seen where it is wide."""
    low, high = (np.maximum(end, ax.get_xlim()[0]) for end in rung.profile(epsilon))
    ax.plot(high, epsilon, color=colour, ls=_BOUND if rung.bound else "-", gid=f"epsilon {name}")
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


def _contours(ax: Axes, beta: float) -> None:
    """Points of equal F_beta: precision = F recall / ((1 + beta^2) recall - beta^2 F), named at the top."""
    top, b2 = ax.get_ylim()[1], beta**2
    corner = (1.0 + b2) * top / (b2 * top + 1.0)
    step = 0.1 if corner > 0.35 else 0.05 if corner > 0.15 else 0.1 * 10.0 ** np.floor(np.log10(corner))
    last = 0.0
    for score in np.arange(step, corner * (1.0 - 1e-9), step):
        start = b2 * score * top / ((1.0 + b2) * top - score)
        if start < last + 0.07:
            continue
        last = start
        recall = np.linspace(start, 1.0, 201)
        precision = score * recall / ((1.0 + b2) * recall - b2 * score)
        ax.plot(recall, precision, color=GREY, lw=0.6, alpha=0.6, zorder=0, gid=f"F {score:g}")
        ax.annotate(
            f"{score:.3g}",
            (start, top),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
            color=GREY,
        )


def _weighs(beta: float) -> str:
    """What a beta says of precision and recall."""
    if beta == 1.0:
        return "F weighs both alike"
    return f"F weighs {'recall' if beta > 1.0 else 'precision'} more"


def _scored(scores: Mapping[str, float], beta: float, prior: float) -> str:
    """The least and the largest F-score."""
    return (
        f"At a prior of {percent(prior)} no test has an F{beta:g} above {_span(scores, lambda f: outward(f, True, 3))}"
    )


def _draw_law(
    ax: Axes, name: str, law: PosteriorLaw, truth: str, mean: float, x: Floats, height: float, colour: str
) -> None:
    """P(posterior > x) under one truth, its mean, and a line to the label."""
    width = 2.0 if truth == "in" else 1.1
    beyond, at_mean = (1.0 - as_array(law.cdf(at, truth)) for at in (x, mean))
    ax.plot(x, beyond, color=colour, lw=width, drawstyle="steps-post", gid=f"{truth} {name}")
    ax.plot(mean, at_mean, "o", color=colour, ms=7, mec="white", zorder=5, gid=f"mean {truth} {name}")
    ax.plot([law.quantile(1.0 - height, truth), x[-1]], [height] * 2, color=colour, **_READING)


class _Promise(NamedTuple):
    """Bounds of one guarantee at one prior."""

    name: str
    prior: float
    low: float
    high: float
    colour: str


def _promised(laws: Mapping[str, PosteriorLaw], promises: Mapping[str, Guarantee], failure: float) -> list[_Promise]:
    """What each guarantee allows at each prior; a single one in the colour of the first law with the prior."""
    first = {_prior(law): colour for law, colour in reversed(list(zip(laws.values(), cycle(COLOURS), strict=False)))}
    priors = dict.fromkeys(_prior(law) for law in laws.values())
    rows = []
    for (name, one), colour in zip(promises.items(), cycle(COLOURS[::-1]), strict=False):
        for prior in priors:
            low, high = one.posterior_bounds(prior, failure)
            shared = len(priors) == 1 or len(promises) > 1
            rows.append(_Promise(name, prior, float(low), float(high), colour if shared else first[prior]))
    return rows


def _draw_promises(ax: Axes, rows: list[_Promise]) -> list[Label]:
    """Each promise as an interval above the curves, dashed down to the axis at both ends; their labels."""
    labels = []
    several = len({row.prior for row in rows}) > 1
    for i, row in enumerate(reversed(rows)):
        at, which = 1.06 + 0.08 * i, f"{row.name} {row.prior:g}"
        ax.plot([row.low, row.high], [at, at], "|-", color=row.colour, lw=1.2, ms=7, gid=f"bound {which}")
        for end in (row.low, row.high):
            ax.plot([end, end], [0.0, at], color=row.colour, lw=1.2, ls=_BOUND, gid=f"end {which}")
        start = f" at prior {percent(row.prior)}" if several else ""
        labels.append((at, f"{row.name}{start}: {between(row.low, row.high, percent=True)}", row.colour))
    return labels


def _posteriors(laws: Mapping[str, PosteriorLaw], rows: list[_Promise]) -> Floats:
    """Where the laws are drawn: all of [0, 1], or log-spaced about them where a prior is rare."""
    smallest = min(_prior(law) for law in laws.values())
    if not 0.0 < smallest < RARE:
        return np.linspace(0.0, 1.0, 1201)
    ends = [law.quantile([1e-3, 1.0 - 1e-3], truth) for law in laws.values() for truth in TRUTHS]
    every = np.concatenate([*ends, [end for row in rows for end in (row.low, row.high)]])
    return np.geomspace(max(every.min(), 1e-2 * smallest) / 1.3, min(1.0, 1.3 * every.max()), 1201)


def _believed(means: Mapping[str, Mapping[str, float]], rows: list[_Promise]) -> str:
    """Expected posteriors, and the tightest promise where there is one prior."""
    names = list(means["in"])
    true, false = (
        " to ".join(dict.fromkeys(percent(pick(means[truth].values())) for pick in (min, max))) for truth in TRUTHS
    )
    whose = "The expected posterior is" if len(names) == 1 else "Expected posteriors are"
    said = f"{whose} {true} if the target is in, {false} if it is out"
    if len({row.prior for row in rows}) != 1:
        return said
    tightest = min(rows, key=lambda row: row.high - row.low)
    return f"{said}; {tightest.name} allows {outward(100.0 * tightest.low, False, 3)} to {_at_most(tightest.high)}"


def _prior(law: PosteriorLaw) -> float:
    return float(as_array(law.prior))


def _named(guarantees: Guarantees) -> dict[str, Guarantee]:
    """Guarantees by name; a single one is called by its definition."""
    given = {guarantees.definition: guarantees} if isinstance(guarantees, Guarantee) else dict(guarantees)
    if not given:
        raise ValueError("guarantees must hold at least one, got none")
    for name, one in given.items():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantees must be guarantees or losses, got {type(one).__name__} as {name!r}")
    return {str(name): one for name, one in given.items()}


def _named_laws(laws: Laws) -> dict[str, PosteriorLaw]:
    """Laws by name, each of one prior; a single one needs no name."""
    given = {"": laws} if isinstance(laws, PosteriorLaw) else dict(laws)
    if not given:
        raise ValueError("laws must hold at least one, got none")
    for name, law in given.items():
        if not isinstance(law, PosteriorLaw):
            raise TypeError(f"laws must be loss.posterior(prior), got {type(law).__name__} as {name!r}")
        if np.ndim(law.prior):
            raise ValueError(f"prior must be one number for each law, got {np.size(law.prior)} as {name!r}")
    return {str(name): law for name, law in given.items()}


def _checked_points(points: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> dict[str, tuple[Floats, Floats]]:
    found = {}
    for name, (level, power) in points.items():
        a, t = np.broadcast_arrays(check_probability("level", level), check_probability("power", power))
        found[str(name)] = np.ravel(a), np.ravel(t)
    return found


def _range(name: str, values: ArrayLike) -> tuple[float, float]:
    """The smallest and the largest of probabilities strictly between 0 and 1, two different ones at least."""
    x = np.unique(check_probability(name, values))
    if x.size < 2 or not 0.0 < x[0] < x[-1] < 1.0:
        raise ValueError(f"{name} must hold two different values strictly between 0 and 1, got {values!r}")
    return float(x[0]), float(x[-1])


def _detected(asked: Mapping[str, float]) -> str:
    """The weakest and the strongest at the level asked."""
    return f"With {percent(ASKED)} false alarms no test detects more than {_span(asked, _at_most)} of those who are in"


def _span(values: Mapping[str, float], said: Callable[[float], str]) -> str:
    """The least and the largest of named values."""
    least, most = (pick(values, key=values.__getitem__) for pick in (min, max))
    if least == most:
        return said(values[most])
    return f"{said(values[least])} ({least}) to {said(values[most])} ({most})"


def _closest_test(named: Mapping[str, Guarantee], tests: Mapping[str, tuple[Floats, Floats]]) -> str:
    """The test that uses up most of the detections that its false alarms leave room for."""
    found = []
    for test, (level, power) in tests.items():
        for name, one in named.items():
            limit = np.maximum(as_array(one.power(level)), level)
            used = np.where(power > level, (power - level) / np.maximum(limit - level, TOLERANCE), 0.0)
            i = int(np.argmax(used))
            found.append((float(used[i]), test, float(level[i]), float(power[i]), name, float(limit[i])))
    _, who, alarms, detections, whose, allowed = max(found)
    start = f"{who} detects {share(detections)} with {share(alarms)} false alarms"
    if detections > allowed * (1.0 + TOLERANCE):
        return f"{start}: {whose} allows no more than {_at_most(allowed)}"
    return f"Closest to a limit: {start}; {whose} allows {_at_most(allowed)}"


def _at_most(p: float) -> str:
    """An upper end in percent, rounded up to three digits."""
    return f"{outward(100.0 * p, True, 3)}{PERCENT}"


def _dash(one: Guarantee) -> Any:
    return "-" if isinstance(one, PrivacyLoss) else _BOUND


def _in_percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))


def _ticks_right(ax: Axes) -> None:
    ax.yaxis.tick_right()
    ax.yaxis.set_label_position("right")
    ax.spines["left"].set_visible(False)
    ax.spines["right"].set_visible(True)


def _beside(ax: Axes, tests: Mapping[str, tuple[Floats, Floats]]) -> None:
    """Names of tests beside the dot farthest above the diagonal, pushed apart where they would overlap."""
    height = float(ax.figure.get_size_inches()[1]) * 72.0 * 0.72  # type: ignore[union-attr]
    scale, start = ax.transData + ax.transAxes.inverted(), max(ax.get_xlim()[0], 0.0)
    farthest = {name: int(np.argmax(power - level)) for name, (level, power) in tests.items()}
    dots = {name: (tests[name][0][i], tests[name][1][i]) for name, i in farthest.items()}
    dots = {name: dot for name, dot in dots.items() if min(dot) >= start}
    places = [scale.transform(dot) for dot in dots.values()]
    apart_at = apart([float(y) for _, y in places], [12.5 / height] * len(places))
    for (name, dot), (x, y), place in zip(dots.items(), places, apart_at, strict=True):
        side = 1.0 if x < 0.65 else -1.0
        ax.annotate(
            name, dot, xytext=(9.0 * side, (place - y) * height - 4.0), textcoords="offset points",
            va="center", ha="left" if side > 0 else "right", fontsize=9.0, color=INK, zorder=6, gid=f"name {name}",
        )  # fmt: skip


def _title(figure: Figure, text: str) -> None:
    """The finding, on as many lines as it needs."""
    finding(figure, fill(text, int(9.8 * figure.get_figwidth())))
