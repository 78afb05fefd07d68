"""One guarantee against every adversary: bounds on beliefs, on tests, and epsilon at a delta.

Every number is a bound. Tables round lower ends down and upper ends up; JSON and the data file have them unrounded, and
null where nothing is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import as_array, blocks, check_probability, percent
from adversary.desk.kit import Column, Document, Figure, Section, Table
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
SIDES = ["lower", "upper"]


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


def solve(
    guarantee: Guarantee,
    parameters: dict[str, float],
    priors: Sequence[float] = PRIORS,
    levels: Sequence[float] = LEVELS,
    deltas: Sequence[float] = DELTAS,
    failure: float = FAILURE,
) -> xr.DataTree:
    """Every bound that follows from a guarantee.

    Parameters
    ----------
    guarantee, parameters : as `guarantee_of` returns them
    priors : of adversaries; each gets bounds on posterior, ratio and difference, and the largest F1 score of a guess
    levels : false alarm probabilities of tests; each gets the largest power
    deltas : at which epsilon is given; for zCDP the published simple one beside the tight one
    failure : failure probability of bounds that are not certain; also the delta of the pbDP epsilon

    Returns
    -------
    DataTree with groups `beliefs` (prior, side), `any_prior` (side), `tests` (level), `epsilon` (delta) and `summary`.
    """
    check_probability("level", levels)
    found = beliefs(guarantee, priors, failure)
    above = {"direction": "upper"}
    within, _ = certain(guarantee, failure)
    jobs: dict[str, Callable[[], Any]] = {
        "f1": lambda: guarantee.f_score(as_array(priors)),
        "power": lambda: guarantee.power(as_array(levels)),
        "epsilon": lambda: [guarantee.epsilon(delta) for delta in deltas],
        "loss_bound": lambda: within.loss_bound(0.0),
        "advantage": lambda: guarantee.advantage,
        "auc": lambda: guarantee.auc,
        "pbdp_epsilon": lambda: guarantee.pbdp_epsilon(failure),
        "zcdp_rho": lambda: _rho(guarantee),
    }
    done = {name: jobs[name]() for name in blocks.track(list(jobs), guarantee.definition)}
    found["beliefs"]["largest_f1"] = ("prior", np.asarray(done.pop("f1")), above)
    epsilons = {"epsilon": ("delta", np.array(done.pop("epsilon")), above)}
    if isinstance(guarantee, ZeroConcentratedDP):
        epsilons["simple_epsilon"] = ("delta", np.array([simple_epsilon(guarantee.rho, d) for d in deltas]), above)
    found["tests"] = xr.Dataset({"power": ("level", np.asarray(done.pop("power")), above)}, {"level": list(levels)})
    found["epsilon"] = xr.Dataset(epsilons, {"delta": list(deltas)})
    found["summary"] = xr.Dataset({name: ((), x, above) for name, x in done.items() if x is not None})
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in found.items()})
    tree.attrs.update(definition=guarantee.definition, **parameters, failure=_failure(found), pbdp_delta=float(failure))
    return tree


def beliefs(guarantee: Guarantee, priors: Sequence[float], failure: float) -> dict[str, xr.Dataset]:
    """Bounds on what adversaries with these priors may come to believe (`beliefs`), and over all priors (`any_prior`).

    Certain where the guarantee has such bounds; else each may fail with probability `failure`: attribute `failure`.
    """
    within, chance = certain(guarantee, failure)
    p = as_array(priors)
    bounds = {
        "posterior": within.posterior_bounds(p),
        "ratio": within.ratio_bounds(p),
        "difference": within.difference_bounds(p),
    }
    by_prior = {name: (("prior", "side"), np.transpose(ends)) for name, ends in bounds.items()}
    of_any = {
        "ratio": ("side", np.array(within.ratio_bounds())),
        "difference": ("side", np.array(within.difference_bounds())),
    }
    attributes = {"failure": chance}
    return {
        "beliefs": xr.Dataset(by_prior, {"prior": p, "side": SIDES}, attributes),
        "any_prior": xr.Dataset(of_any, {"side": SIDES}, attributes),
    }


def certain(guarantee: Guarantee, failure: float) -> tuple[Guarantee, float]:
    """What a guarantee bounds for certain, or, if that is nothing, except with probability `failure`; and which.

    It has the bounds on beliefs of the guarantee itself, and is found once.
    """
    check_probability("failure", failure)
    for chance in (0.0, float(failure)):
        if np.isfinite(e := guarantee.loss_bound(chance)):
            return PureDP(e), chance
    return NoPrivacy(), float(failure)


def _failure(found: dict[str, xr.Dataset]) -> float:
    return float(found["beliefs"].attrs["failure"])


def _rho(guarantee: Guarantee) -> float | None:
    """The zCDP that follows, where some does: epsilon^2 / 2, mu^2 / 2."""
    if isinstance(guarantee, PureDP | GaussianDP | ZeroConcentratedDP):
        return (guarantee + ZeroConcentratedDP(0.0)).rho
    return None


def title(tree: xr.DataTree) -> str:
    """The guarantee of an answer by name, with its parameters."""
    given = (f"{name} = {tree.attrs[name]:.15g}" for name in ("epsilon", "delta", "rho", "mu") if name in tree.attrs)
    return ", ".join([tree.attrs["definition"], *given])


def document(guarantee: Guarantee, tree: xr.DataTree) -> Document:
    """The answer of `solve` for people."""
    priors = [float(p) for p in tree["beliefs"]["prior"].values]
    drawn = figures(guarantee, title(tree), priors, float(tree.attrs["pbdp_delta"]))
    tests = tree["tests"].to_dataset()
    power = Table([Column("false alarms", "probability"), Column("detections at most", "% at most")], name="tests")
    for level, most in zip(tests["level"].values, tests["power"].values, strict=True):
        power.add(float(level), float(most))
    return Document(
        title(tree),
        tree,
        listed=("beliefs", "any_prior", "tests", "epsilon", "summary"),
        lead=[
            "Bounds on any adversary, whatever they know of everybody else and compute from the release. "
            "Lower ends are rounded down, upper ends up."
        ],
        sections=[
            belief_section(tree, [drawn["posterior_by_prior"]]),
            Section("Tests of “in” against “out”", tables=[power], figures=[drawn["trade_off"]]),
            Section(
                "As approximate DP",
                tables=[_epsilons(tree["epsilon"].to_dataset())],
                figures=[drawn[name] for name in ("epsilon_ladder",) if name in drawn],
            ),
            Section("In one number", tables=[_summary(tree)]),
        ],
    )


def figures(guarantee: Guarantee, name: str, priors: Sequence[float], failure: float) -> dict[str, Figure]:
    """Trade-off, posterior by prior, and, for zCDP and Gaussian DP, epsilon by delta: drawn when they are asked for."""
    from adversary.desk.figures import belief_bounds, trade_off_curves

    rho = float(guarantee.rho) if isinstance(guarantee, ZeroConcentratedDP) else 0.0
    named = {
        name: guarantee,
        **({"Gaussian noise of that rho": GaussianDP(float(np.sqrt(2.0 * rho))).worst_pair} if rho else {}),
    }
    found = {
        "trade_off": Figure(
            "trade_off",
            lambda: trade_off_curves.trade_off(named),
            "Most detections that any test has at each false alarm probability.",
        ),
        "posterior_by_prior": Figure(
            "posterior_by_prior",
            lambda: belief_bounds.posterior_by_prior(*certain(guarantee, failure), priors),
            "Range of posteriors that the guarantee allows at each prior.",
        ),
    }
    ladder = {"rho": rho} if rho else {"guarantees": named} if getattr(guarantee, "mu", 0.0) else {}
    if ladder:
        found["epsilon_ladder"] = Figure(
            "epsilon_by_delta",
            lambda: trade_off_curves.epsilon_ladder(**ladder),
            "Epsilon of approximate DP at each delta.",
        )
    return found


def belief_section(tree: xr.DataTree, figures: Sequence[Figure] = ()) -> Section:
    """The groups that `beliefs` makes, as a section."""
    found, of_any = tree["beliefs"].to_dataset(), tree["any_prior"].to_dataset()
    columns = [
        Column("prior", "probability"),
        Column("posterior", "% interval"),
        Column("ratio", "interval"),
        Column("difference (points)", "points interval"),
    ]
    scored = "largest_f1" in found
    table = Table([*columns, *[Column("largest F1", "at most")] * scored], name="beliefs")
    for i, prior in enumerate(found["prior"].values):
        one = found.isel(prior=i)
        cells = [_ends(one["posterior"]), _ends(one["ratio"]), _ends(one["difference"], 1e-15)]
        table.add(float(prior), *cells, *([float(one["largest_f1"])] if scored else []))
    table.add("any", None, _ends(of_any["ratio"]), _ends(of_any["difference"], 1e-15), *[None] * scored)
    return Section(
        f"Beliefs about one person, {_chance(float(found.attrs['failure']))}", tables=[table], figures=list(figures)
    )


def _ends(side: xr.DataArray, rounding: float = 0.0) -> tuple[float, float]:
    """(lower, upper); what is only the rounding error of a subtraction is 0."""
    low, high = (float(end) * (abs(float(end)) > rounding) if rounding else float(end) for end in side.values)
    return low, high


def _epsilons(found: xr.Dataset) -> Table:
    simple = "simple_epsilon" in found
    heads = ["epsilon (tight)", "epsilon (simple)"] if simple else ["epsilon"]
    table = Table([Column("delta", "text"), *(Column(head, "at most") for head in heads)], name="epsilon")
    for i, delta in enumerate(found["delta"].values):
        table.add(f"{float(delta):.15g}", *(float(found[name][i]) for name in found.data_vars))
    return table


def _summary(tree: xr.DataTree) -> Table:
    found, table = tree["summary"].to_dataset(), Table(["bound on", Column("at most", "at most")], name="summary")
    attrs = tree.attrs
    words = {
        "loss_bound": f"privacy loss in either direction, {_chance(float(attrs['failure']))}",
        "pbdp_epsilon": f"epsilon of probabilistic-bound DP at delta = {attrs['pbdp_delta']:.15g}",
        "zcdp_rho": "rho of the zCDP it implies",
        "advantage": "detections minus false alarms (advantage)",
        "auc": "area under detections against false alarms (AUC)",
    }
    for name, text in words.items():
        if name in found:
            table.add(text, float(found[name]))
    return table


def _chance(failure: float) -> str:
    return f"except with probability {percent(failure)}" if failure else "for certain"
