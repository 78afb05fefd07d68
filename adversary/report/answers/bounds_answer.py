"""Answer of `adversary bounds`: bounds of a guarantee on beliefs and tests of every adversary, and epsilon at a delta.

Every number is a bound. Tables round lower ends down and upper ends up; JSON and the data file have them unrounded, and
null for infinity.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    DEFAULT_FAILURE,
    Floats,
    as_array,
    as_given,
    check_probability,
    format_bound,
    percent,
    percentage,
    sentence,
)
from adversary.driver import unit_of
from adversary.privacy import Guarantee, PrivacyUnit, definitions
from adversary.report import plot
from adversary.report.kit import (
    Card,
    Column,
    Document,
    Figure,
    Section,
    Summary,
    Table,
    attempt,
    guarded_document,
    summary_of,
    tabulate,
)
from adversary.report.words import unit_notes

# Defaults of the command.
PRIORS = (0.01, 0.1, 0.5)
LEVELS = (0.01, 0.05, 0.1)
DELTAS = (1e-6, 1e-10)
SIDES = ["lower", "upper"]


def deltas_of(delta: float | None) -> tuple[float, ...]:
    """Deltas at which epsilon is shown: the usual ones and the given one, the largest first."""
    wanted = () if delta is None else (float(definitions.check_delta("delta", delta, zero=False)),)
    return tuple(sorted({*DELTAS, *wanted}, reverse=True))


def solve(
    guarantee: Guarantee,
    parameters: dict[str, float],
    priors: Sequence[float] = PRIORS,
    levels: Sequence[float] = LEVELS,
    deltas: Sequence[float] = DELTAS,
    failure: float = DEFAULT_FAILURE,
    unit: PrivacyUnit | None = None,
    name: str = "",
    baselines: Sequence[float] = (),
) -> xr.DataTree:
    """Tree of bounds: groups `beliefs` (prior, side), `any_prior` (side), `tests` (level), `epsilon` (delta), `summary`

    Parameters
    ----------
    guarantee : of one privacy unit in one period
    parameters : its parameters by name, for title and attributes
    priors, levels, deltas : of adversaries, of tests (false-alarm rates), and at which epsilon is computed
    failure : failure probability of bounds that are not certain, and delta of the pbDP epsilon
    unit : privacy unit; if it has several periods, group `periods` (periods, prior, side) has the bounds of one and all
    name : title in place of the guarantee's
    baselines : success rates of attacks without the release: group `attacks` (baseline) has those with it
    """
    check_probability("level", levels)
    groups = beliefs(guarantee, priors, failure)
    above = {"direction": "upper"}
    epsilons = {"epsilon": ("delta", np.array([guarantee.epsilon(delta) for delta in deltas]), above)}
    if (rho := guarantee.parameters.get("rho")) is not None:
        epsilons["simple_epsilon"] = ("delta", np.array([definitions.simple_epsilon(rho, d) for d in deltas]), above)
    power, f1 = (np.asarray(of(as_array(x))) for of, x in ((guarantee.power, levels), (guarantee.f_score, priors)))
    groups["beliefs"]["largest_f1"] = ("prior", f1, above)
    groups["tests"] = xr.Dataset({"power": ("level", power, above)}, {"level": list(levels)})
    groups["epsilon"] = xr.Dataset(epsilons, {"delta": list(deltas)})
    single = {"advantage": guarantee.advantage, "auc": guarantee.auc, "pbdp_epsilon": guarantee.pbdp_epsilon(failure)}
    single |= {} if guarantee.implied_rho is None else {"zcdp_rho": float(guarantee.implied_rho)}
    groups["summary"] = xr.Dataset({name: ((), x, above) for name, x in single.items()})
    if baselines:
        check_probability("baseline", baselines)
        success = np.asarray(guarantee.attack_success(as_array(baselines)))
        gained = {"success": success, "advantage": success - as_array(baselines)}
        columns = {key: ("baseline", x, above) for key, x in gained.items()}
        groups["attacks"] = xr.Dataset(columns, {"baseline": list(baselines)})
    if unit is not None and unit.periods > 1:
        groups["periods"] = by_periods(guarantee, unit, priors, deltas, failure)
    tree = xr.DataTree.from_dict(groups)
    given = {"definition": guarantee.definition, **parameters, "pbdp_delta": float(failure)}
    given |= {} if unit is None else {"privacy_unit": json.dumps(unit_of(unit))}
    tree.attrs.update(given, failure=groups["beliefs"].attrs["failure"])
    usual = ("beliefs", "any_prior", "tests", "epsilon", "summary")
    listed = (*usual, *(one for one in ("attacks", "periods") if one in groups))
    return Summary(name or title(guarantee, parameters), listed, verdict(groups["beliefs"])).on(tree)


def by_periods(
    guarantee: Guarantee, unit: PrivacyUnit, priors: Sequence[float], deltas: Sequence[float], failure: float
) -> xr.Dataset:
    """Group `periods`: bounds on posterior, loss and epsilon, for one period and for a unit present in all of them.

    Bounds on posterior and loss are certain if such exist, else they hold except with probability `failure`; variable
    `failure` is 0 or that probability. Epsilon is at each of `deltas`, from the guarantee itself.
    """
    each = [guarantee, unit.over_periods(guarantee)]
    within = [certain(one, failure) for one in each]
    posterior = np.array([np.transpose(one.posterior_bounds(as_array(priors))) for one, _ in within])
    above = {"direction": "upper"}
    return xr.Dataset(
        {
            "posterior": (("periods", "prior", "side"), posterior),
            "loss_bound": ("periods", [one.loss_bound(0.0) for one, _ in within], above),
            "failure": ("periods", [chance for _, chance in within]),
            "epsilon": (("periods", "delta"), [[one.epsilon(delta) for delta in deltas] for one in each], above),
        },
        {"periods": [1, unit.periods], "prior": list(priors), "side": SIDES, "delta": list(deltas)},
    )


def beliefs(guarantee: Guarantee, priors: Sequence[float], failure: float) -> dict[str, xr.Dataset]:
    """Groups `beliefs` and `any_prior`: bounds on beliefs at these priors, and at any.

    Attribute `failure` is their failure probability, 0 if they are certain.
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
        "loss_bound": ((), within.loss_bound(0.0), {"direction": "upper"}),
    }
    attributes = {"failure": chance}
    return {
        "beliefs": xr.Dataset(by_prior, {"prior": p, "side": SIDES}, attributes),
        "any_prior": xr.Dataset(of_any, {"side": SIDES}, attributes),
    }


def certain(guarantee: Guarantee, failure: float) -> tuple[Guarantee, float]:
    """(pure DP with the same bounds on beliefs, its failure probability): 0 if a certain bound exists, else `failure`.

    `NoPrivacy` if there is no bound at either.
    """
    check_probability("failure", failure)
    for chance in (0.0, float(failure)):
        if np.isfinite(e := guarantee.loss_bound(chance)):
            return definitions.PureDP(e), chance
    return definitions.NoPrivacy(), float(failure)


def largest_posteriors(guarantee: Guarantee, priors: Sequence[float], failure: float) -> Floats:
    """Upper bounds (prior,) on the posteriors from these priors: certain, or except with probability `failure`."""
    return as_array(certain(guarantee, failure)[0].posterior_bounds(as_array(priors))[1])


def title(guarantee: Guarantee, parameters: Mapping[str, float]) -> str:
    """Title of an answer: the definition and its parameters."""
    return ", ".join([guarantee.definition, *(f"{name} = {as_given(x)}" for name, x in parameters.items())])


def limit(most: float) -> str:
    """Upper bound in words, "unlimited" if infinite."""
    return f"at most {format_bound(most, True)}" if np.isfinite(most) else "unlimited"


LEAD = (
    "Bounds on every adversary whose beliefs about everybody else do not depend on the {person}, whatever they know of "
    "the others and compute from the release. Lower ends are rounded down, upper ends up."
)


@guarded_document
def document(
    guarantee: Guarantee,
    parameters: Mapping[str, float],
    tree: xr.DataTree,
    unit: PrivacyUnit | None = None,
    delta: float | None = None,
) -> Document:
    """Report on the bounds of one guarantee: words, tables and figures from the result of `solve`.

    Parameters
    ----------
    guarantee : the guarantee
    parameters : its parameters by name, for the title
    tree : result of `solve`
    unit : whom it protects, for the wording and the section on several periods; default: one person
    delta : one of the result's, whose epsilon is on the card; the smallest unless given
    """
    name, failure = title(guarantee, parameters), float(tree.attrs["pbdp_delta"])
    rho, mu = (float(guarantee.parameters.get(one, 0.0)) for one in ("rho", "mu"))
    same = {"Gaussian noise of that rho": definitions.GaussianDP(definitions.mu_of_rho(rho)).worst_pair} if rho else {}
    ladder: dict[str, Any] = {"rho": rho} if rho else {"guarantees": {name: guarantee}} if mu else {}
    tests, epsilon = tree["tests"].to_dataset(), tree["epsilon"].to_dataset()
    alarms = {"level": ("false alarms", "probability"), "power": ("detections at most", "% at most")}
    powers = tabulate(tests, alarms, name="tests")
    tight = f"epsilon{' (tight)' * ('simple_epsilon' in epsilon)}"
    ladders = epsilon_table(epsilon, {"epsilon": tight, "simple_epsilon": "epsilon (simple)"})
    power = powers.rows[len(powers.rows) // 2]
    at_delta = next((row for row in ladders.rows if row[0] == delta), ladders.rows[-1])
    return Document(
        tree,
        card=card(tree, certain(guarantee, failure), (power[0], power[1]), (at_delta[0], at_delta[1])),
        lead=[
            *([f"{name}."] if summary_of(tree).title != name else []),
            LEAD.format(person="person" if unit is None else unit.name),
            *([] if unit is None else unit_notes(unit)),
        ],
        sections=[
            attempt(BELIEFS, belief_section, tree),
            *noise_sections(powers, ladders, (power[0], power[1]), {name: guarantee, **same}, ladder),
            *([attempt(ATTACKS, attacks_section, tree)] if "attacks" in tree else []),
            attempt("Summary measures", _summary, tree),
            *([attempt(PERIODS, periods_section, tree, unit)] if unit is not None and "periods" in tree else []),
        ],
    )


def verdict(beliefs_of: xr.Dataset) -> str:
    """Sentence on the largest rise from a prior of group `beliefs`."""
    return f"{sentence(_chance(float(beliefs_of.attrs['failure'])))}, {_claim(beliefs_of)}."


def _claim(beliefs_at: xr.Dataset) -> str:
    """Clause on the largest rise."""
    prior, most = _largest_rise(beliefs_at)
    return f"a prior of {prior} can rise to at most {most}"


def _largest_rise(beliefs_at: xr.Dataset) -> tuple[str, str]:
    """(prior that can rise most, its largest posterior), as text."""
    upper, at = beliefs_at["posterior"].sel(side="upper"), _at_largest_rise(beliefs_at)
    return percent(float(beliefs_at["prior"][at])), percentage(float(upper[at]), True)


def _at_largest_rise(beliefs_at: xr.Dataset) -> int:
    """Index of the prior that can rise most."""
    return int(np.argmax(beliefs_at["posterior"].sel(side="upper").values - beliefs_at["prior"].values))


def epsilon_table(epsilon: xr.Dataset, heads: Mapping[str, str]) -> Table:
    """Table of epsilon by delta, with a column for each array in `heads`."""
    columns = {name: (head, "at most") for name, head in heads.items()}
    return tabulate(epsilon, {"delta": ("delta", "parameter"), **columns}, name="epsilon")


def card(
    tree: xr.DataTree, within: tuple[Guarantee, float], power: tuple[float, float], epsilon: tuple[float, float]
) -> Card:
    """Card with the largest rise of a belief, a test and an epsilon.

    Parameters
    ----------
    tree : of `solve`
    within : of `certain`
    power : (false alarms, detections) of the test
    epsilon : (delta, epsilon)
    """
    beliefs_at = tree["beliefs"].to_dataset()
    prior, most = _largest_rise(beliefs_at)
    every = []
    if "periods" in tree:
        all_periods = tree["periods"].to_dataset().isel(periods=-1)
        over = float(all_periods["posterior"].sel(side="upper").isel(prior=_at_largest_rise(beliefs_at)))
        every = [
            (
                f"the same over {int(all_periods['periods']):,} periods",
                f"at most {percentage(over, True)}",
            )
        ]
    return Card(
        numbers=[
            (f"posterior at prior {prior}", f"at most {most}"),
            *every,
            (f"detections at {percent(power[0])} false alarms", f"at most {percentage(power[1], True)}"),
            (f"epsilon at delta = {as_given(epsilon[0])}", limit(epsilon[1])),
        ],
        figure=Figure(
            "posterior_by_prior",
            lambda: plot.posterior_by_prior(*within, beliefs_at["prior"].values.tolist()),
            "Range of posteriors that the guarantee allows at each prior.",
            sentence(_claim(beliefs_at)),
        ),
    )


def noise_sections(
    powers: Table,
    epsilons: Table,
    test: tuple[float, float],
    named: Mapping[str, Guarantee],
    ladder: Mapping[str, Any],
    beside: Sequence[str] = ("", ""),
) -> list[Section]:
    """Sections on the power of tests and on epsilon at each delta, with tables and figures.

    Parameters
    ----------
    powers, epsilons : tables of the two sections; the last row of `epsilons` is quoted
    test : (false alarms, largest detections) to quote
    named : guarantees by name, for the figure of trade-off curves
    ladder : keyword arguments of `plot.epsilon_delta` for the second figure; empty for none
    beside : text appended to each of the two findings, such as another limit
    """

    def tests(title: str) -> Section:
        at, most = test
        caption = "Most detections that any test has at each false alarm probability."
        return Section(
            title,
            f"With {percent(at)} false alarms, no test detects more than {percentage(most, True)}{beside[0]}.",
            tables=[powers],
            figures=[Figure("trade_off", lambda: plot.trade_off(named), caption)],
        )

    def approximate(title: str) -> Section:
        caption = "Epsilon of approximate DP at each delta."
        return Section(
            title,
            f"At delta = {epsilons.texts[-1][0]}, epsilon is {limit(epsilons.rows[-1][1])}{beside[1]}.",
            tables=[epsilons],
            figures=[Figure("epsilon_by_delta", lambda: plot.epsilon_delta(**ladder), caption)] * bool(ladder),
        )

    makers = {"Tests of “in” against “out”": tests, "Approximate DP": approximate}
    return [attempt(title, make, title) for title, make in makers.items()]


BELIEFS = "Beliefs about one person"


def belief_section(tree: xr.DataTree) -> Section:
    """Section on the groups of `beliefs`."""
    beliefs_at, of_any = tree["beliefs"].to_dataset(), tree["any_prior"].to_dataset()
    columns = {
        "prior": ("prior", "probability"), "posterior": ("posterior", "% interval"), "ratio": ("ratio", "interval"),
        "difference": ("difference (points)", "points interval"), "largest_f1": ("largest F1", "at most"),
    }  # fmt: skip
    table = tabulate(beliefs_at.assign(difference=_exact(beliefs_at["difference"])), columns, name="beliefs")
    most = tuple(map(float, _exact(of_any["difference"]).values))
    table.add("any", None, tuple(map(float, of_any["ratio"].values)), most, *[None] * ("largest_f1" in beliefs_at))
    return Section(
        BELIEFS,
        f"{sentence(_chance(float(beliefs_at.attrs['failure'])))}, no adversary's probability moves by more than "
        f"{format_bound(100.0 * max(map(abs, most)), True)} percentage points, if their beliefs about everybody else "
        "do not depend on the person.",
        tables=[table],
    )


ATTACKS = "Any attack, from its baseline"


def attacks_section(tree: xr.DataTree) -> Section:
    """Section on the success of any attack, by its success without the release."""
    columns = {
        "baseline": ("baseline success", "probability"), "success": ("success at most", "% at most"),
        "points": ("advantage at most (points)", "at most"),
    }  # fmt: skip
    attacks = tree["attacks"].to_dataset()
    attacks["points"] = 100.0 * attacks["advantage"]
    last = attacks.isel(baseline=-1)
    most = percentage(float(last["success"]), True)
    return Section(
        ATTACKS,
        f"An attack that succeeds in {percent(float(last['baseline']))} of cases without the release succeeds in at "
        f"most {most} with it.",
        ["Of any kind: membership, an attribute, reconstruction of a record; the baseline is that of the best guess."],
        tables=[tabulate(attacks, columns, name="attacks")],
    )


PERIODS = "One period and all of them"


def periods_section(tree: xr.DataTree, unit: PrivacyUnit) -> Section:
    """Section on the group of `by_periods`."""
    periods = tree["periods"].to_dataset()
    columns = {
        "periods": ("periods", "count"), "prior": ("prior", "probability"), "posterior": ("posterior", "% interval"),
        "loss_bound": ("privacy loss", "at most"),
    }  # fmt: skip
    table = tabulate(periods, columns, name="periods")
    last = periods.isel(periods=-1, prior=-1)
    most = percentage(float(last["posterior"].sel(side="upper")), True)
    return Section(
        PERIODS,
        f"For one {unit.name} present in all {unit.periods:,} periods, a prior of {percent(float(last['prior']))} can "
        f"rise to at most {most}, {_chance(float(last['failure']))}.",
        ["The guarantee is that of one period. Guarantees of releases with independent noise add up over the periods."],
        tables=[table],
    )


def _exact(difference: xr.DataArray) -> xr.DataArray:
    """Difference with values up to 1e-15, the rounding error of a subtraction, set to 0."""
    return difference.where(np.abs(difference) > 1e-15, 0.0)


def _summary(tree: xr.DataTree) -> Section:
    """Section on single numbers: privacy loss, advantage, AUC, and parameters of implied definitions."""
    summary, table = tree["summary"].to_dataset(), Table(["bound on", Column("at most", "at most")], name="summary")
    words = {
        "pbdp_epsilon": f"epsilon of probabilistic-bound DP at delta = {as_given(tree.attrs['pbdp_delta'])}",
        "zcdp_rho": "rho of the zCDP it implies",
        "advantage": "detections minus false alarms (advantage)",
        "auc": "area under detections against false alarms (AUC)",
    }
    loss = float(tree["any_prior"]["loss_bound"])
    table.add(f"privacy loss in either direction, {_chance(float(tree.attrs['failure']))}", loss)
    table.rows += [(text, float(summary[name])) for name, text in words.items() if name in summary]
    points = format_bound(100.0 * float(summary["advantage"]), True)
    return Section(
        "Summary measures", f"Detections exceed false alarms by at most {points} percentage points.", tables=[table]
    )


def _chance(failure: float) -> str:
    """Clause on a failure probability."""
    return f"except with probability {percent(failure)}" if failure else "for certain"
