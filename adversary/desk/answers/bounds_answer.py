"""One guarantee against every reader: what it leaves open, as one JSON object and as tables on the screen.

Every number is a bound. On the screen lower ends are rounded down and upper ends up; JSON has them unrounded, and null
where nothing is promised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from adversary._core import as_array, blocks, check_probability, finite, numbers
from adversary.desk.kit import add, audit_words, put, table
from adversary.privacy import Guarantee
from adversary.privacy.definitions import (
    ApproximateDP,
    GaussianDP,
    NoPrivacy,
    PureDP,
    ZeroConcentratedDP,
    check_delta,
    simple_epsilon,
)

PRIORS = (0.01, 0.1, 0.5)
LEVELS = (0.01, 0.05, 0.1)
DELTAS = (1e-6, 1e-10)
FAILURE = 0.05
"""What is shown where nothing is asked for."""

ABOUT = (
    "What it leaves open to any reader, whatever they know of everybody else and compute from the release. "
    "Lower ends are rounded down, upper ends up."
)


def guarantee_of(
    epsilon: float | None, rho: float | None, mu: float | None, delta: float | None = None
) -> tuple[Guarantee, dict[str, float]]:
    """The one guarantee that was asked for, and its parameters; delta belongs to epsilon only."""
    given = {name: x for name, x in {"epsilon": epsilon, "rho": rho, "mu": mu}.items() if x is not None}
    if len(given) != 1:
        got = " and ".join(f"--{name}" for name in given) or "none"
        raise ValueError(f"give exactly one of --epsilon, --rho and --mu, got {got}")
    if rho is not None:
        return ZeroConcentratedDP(rho), given
    if mu is not None:
        return GaussianDP(mu), given
    if delta is not None:
        return ApproximateDP(given["epsilon"], delta), {**given, "delta": delta}
    return PureDP(given["epsilon"]), given


def deltas_of(delta: float | None) -> tuple[float, ...]:
    """Where epsilon is shown: at the usual deltas and at the one asked for, the largest first."""
    asked = () if delta is None else (float(check_delta("delta", delta, zero=False)),)
    return tuple(sorted({*DELTAS, *asked}, reverse=True))


def summary(
    guarantee: Guarantee,
    parameters: dict[str, float],
    priors: Sequence[float] = PRIORS,
    levels: Sequence[float] = LEVELS,
    deltas: Sequence[float] = DELTAS,
    failure: float = FAILURE,
) -> dict[str, Any]:
    """Every statement that follows from a guarantee, as one JSON object.

    Parameters
    ----------
    priors : of readers; each gets bounds on posterior, ratio and difference, and the largest F1 score of a guess
    levels : of tests, probabilities of a false "in"; each gets the largest power
    deltas : at which epsilon is given; for zCDP the published simple one beside the tight one
    failure : with which a bound may fail that is not certain; also the delta of the pbDP epsilon
    """
    check_probability("level", levels)
    believed = beliefs(guarantee, priors, failure)
    jobs: dict[str, Callable[[], Any]] = {
        "f1": lambda: numbers(guarantee.f_score(as_array(priors))),
        "power": lambda: numbers(guarantee.power(as_array(levels))),
        "advantage": lambda: finite(guarantee.advantage),
        "auc": lambda: finite(guarantee.auc),
        "epsilon": lambda: [{"delta": float(d), **_epsilons(guarantee, d)} for d in deltas],
        "pbdp": lambda: {"delta": float(failure), "epsilon": finite(guarantee.pbdp_epsilon(failure))},
        "zcdp_rho": lambda: _rho(guarantee),
    }
    done = {name: jobs[name]() for name in blocks.track(list(jobs), guarantee.definition)}
    for row, f1 in zip(believed["priors"], done.pop("f1"), strict=True):
        row["f1"] = f1
    done["power"] = [{"level": float(a), "power": r} for a, r in zip(levels, done["power"], strict=True)]
    return {"definition": guarantee.definition, "parameters": parameters, **believed, **done}


def beliefs(guarantee: Guarantee, priors: Sequence[float], failure: float) -> dict[str, Any]:
    """Bounds on what readers with these priors may come to believe, and over all priors.

    Certain where the guarantee has such bounds; else each may fail with probability `failure`.
    """
    within, chance = certain(guarantee, failure)
    names = ("posterior", "ratio", "difference")
    bounds = within.posterior_bounds, within.ratio_bounds, within.difference_bounds
    ends = [as_array(bound(as_array(priors))).T for bound in bounds]
    return {
        "failure": chance,
        "loss_bound": finite(within.loss_bound(0.0)),
        "priors": [
            {"prior": float(p), **{name: numbers(end[i]) for name, end in zip(names, ends, strict=True)}}
            for i, p in enumerate(priors)
        ],
        "any_prior": {"ratio": numbers(within.ratio_bounds()), "difference": numbers(within.difference_bounds())},
    }


def certain(guarantee: Guarantee, failure: float) -> tuple[Guarantee, float]:
    """What a guarantee promises for certain, or, if that is nothing, all but with probability `failure`; and which.

    It has the bounds on beliefs of the guarantee itself, and is found once.
    """
    check_probability("failure", failure)
    for chance in (0.0, float(failure)):
        if np.isfinite(e := guarantee.loss_bound(chance)):
            return PureDP(e), chance
    return NoPrivacy(), float(failure)


def _epsilons(guarantee: Guarantee, delta: float) -> dict[str, float | None]:
    tight = finite(guarantee.epsilon(delta))
    rho = guarantee.parameters.get("rho")
    return {"epsilon": tight} if rho is None else {"epsilon": tight, "simple": finite(simple_epsilon(rho, delta))}


def _rho(guarantee: Guarantee) -> float | None:
    """The zCDP that follows, where some does: epsilon^2 / 2, mu^2 / 2."""
    return None if guarantee.implied_rho is None else finite(guarantee.implied_rho)


def title(answer: dict[str, Any]) -> str:
    """The guarantee of a `summary` by name, with its parameters."""
    return ", ".join([answer["definition"], *(f"{name} = {x:.15g}" for name, x in answer["parameters"].items())])


def show(answer: dict[str, Any], console: Console) -> None:
    """A `summary` as tables."""
    console.print(Text(title(answer), style="bold"))
    console.print(Text(ABOUT))
    show_beliefs(answer, console)
    tests = table("Tests of “in” against “out”", [], ["false alarms", "detections at most"])
    for row in answer["power"]:
        add(tests, audit_words.percent(row["level"]), share_above(row["power"]))
    put(tests, console)
    simple = any("simple" in row for row in answer["epsilon"])
    heads = ["delta", "epsilon (tight)", "epsilon (simple)"] if simple else ["delta", "epsilon"]
    ladder = table("As approximate DP", [], heads)
    for row in answer["epsilon"]:
        add(ladder, f"{row['delta']:.15g}", *(above(row[key]) for key in ("epsilon", "simple") if key in row))
    put(ladder, console)
    single = table("In one number", ["what"], ["at most"])
    add(single, f"privacy loss in either direction, {_chance(answer['failure'])}", above(answer["loss_bound"]))
    pbdp = answer["pbdp"]
    add(single, f"epsilon of probabilistic-bound DP at delta = {pbdp['delta']:.15g}", above(pbdp["epsilon"]))
    if answer["zcdp_rho"] is not None:
        add(single, "rho of the zCDP it implies", above(answer["zcdp_rho"]))
    add(single, "detections minus false alarms (advantage)", share_above(answer["advantage"]))
    add(single, "area under detections against false alarms", above(answer["auc"]))
    put(single, console)


def show_beliefs(answer: dict[str, Any], console: Console) -> None:
    """The part of a `summary` that `beliefs` gives, as a table."""
    scored = any("f1" in row for row in answer["priors"])
    heads = ["prior", "posterior", "ratio", "difference (points)", *["largest F1"] * scored]
    believed = table(f"Beliefs about one person, {_chance(answer['failure'])}", [], heads)
    for row in answer["priors"]:
        cells = [
            audit_words.share(row["prior"]),
            between(row["posterior"], 100.0) + audit_words.PERCENT,
            between(row["ratio"]),
        ]
        add(believed, *cells, points(row["difference"]), *[above(row.get("f1"))] * scored)
    every = answer["any_prior"]
    add(believed, "any", "", between(every["ratio"]), points(every["difference"]))
    put(believed, console)


def above(x: float | None, digits: int = 4) -> str:
    """An upper end, rounded up; None is no limit."""
    return audit_words.outward(np.inf if x is None else x, True, digits)


def share_above(x: float | None, digits: int = 4) -> str:
    """A probability that is an upper end, in percent and rounded up."""
    return above(None if x is None else 100.0 * x, digits) + audit_words.PERCENT


def between(ends: Sequence[float | None], unit: float = 1.0) -> str:
    """An interval, rounded outward."""
    low, high = (np.inf if end is None else unit * end for end in ends)
    return audit_words.between(low, high)


def points(ends: Sequence[float | None]) -> str:
    """An interval of differences in percentage points; what is only rounding error of a subtraction is 0."""
    return between([None if end is None else end * (abs(end) > 1e-15) for end in ends], 100.0)


def _chance(failure: float) -> str:
    return f"except with probability {audit_words.percent(failure)}" if failure else "for certain"
