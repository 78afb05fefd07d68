"""Effect of exact totals, then of the noisy release, on each adversary of an audit, and the bounds that hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from adversary._core import Floats, format_bound, format_chance, format_probability, join_words, logit, those_tied, tied
from adversary.adversaries.known_totals import ExactTotals, exact_totals
from adversary.privacy import Guarantee, unit_loss, unit_rho
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP
from adversary.report import plot
from adversary.report.files import Scenario
from adversary.report.kit import Figure, Section, Table, audit_words, group_of_adversary, tabulate
from adversary.report.kit.audit_words import definition_words
from adversary.report.sections import exact_guarantees

TITLE = "What publishing totals exactly costs"
LEARNED = "What the totals and the noisy release reveal"
LISTED = (*exact_guarantees.LISTED, "adversaries", "limits")
AVERAGES = ["posterior_mean", "ratio_mean"]

# Variables of group `bound` about exact totals.
LIMITS = [
    "failure", "single_record_bound", "prob_beyond_single_record", "single_record_exceeded", "k", "loss_bound",
    "semi_loss_bound", "status", "achieved",
]  # fmt: skip

# A ratio closer to 1 than this counts as no change: it would be shown as 1.00.
SAME = 5e-5
UNTOLD = (
    "No level of the plan is exact, so its adversaries do not condition on the margins: what the margins reveal is not "
    "computed here."
)
NOTE = (
    "Bounds are on the change of the log odds, in nats, after the totals, certain where no failure probability is "
    "given. One record: the guarantee applied to one record, which is no bound here; P(beyond it): share of releases "
    "that exceed it; k: records in which the adversary's hypotheses differ."
)
CAPTION = (
    "Share of releases that move an adversary's odds by more than a factor, after the totals. Vertical lines: the "
    "guarantee for one record, which is no bound here, and for a(t) records."
)


def require_totals(scenario: Scenario) -> ExactTotals:
    """Exact totals of the scenario; ValueError if nothing is published exactly."""
    totals = exact_totals(scenario.plan, scenario.margins)
    if totals is None:
        ways = 'give a level noise = "exact", or a table [invariants] with margins'
        raise ValueError(f"{scenario.path}: nothing is published exactly: {ways}")
    return totals


def releases(scenario: Scenario) -> dict[str, Guarantee]:
    """Guarantee of each noisy level alone, by its name: pure DP if its loss is bounded, zCDP otherwise."""
    unit = scenario.plan.privacy_unit
    guarantees: dict[str, Guarantee] = {}
    for level in scenario.plan.levels:
        if level.is_exact:
            continue
        limit = unit_loss([level.mechanism], unit).loss_bound(0.0)
        rho = unit_rho([level.mechanism], unit)
        guarantees[level.name] = PureDP(float(limit)) if np.isfinite(limit) else ZeroConcentratedDP(rho)
    return guarantees


def solve(scenario: Scenario, tree: xr.DataTree) -> dict[str, xr.Dataset]:
    """Groups `adversaries` (adversary) and `limits` (adversary, definition) of an audit under one truth.

    Empty if no level is exact, or if the exact totals disclose every record. A single adversary has the name "".
    """
    totals, every = require_totals(scenario), scenario.adversaries
    if not totals.levels or totals.disclosed:
        return {}
    risk, bound = (tree[name].to_dataset() for name in ("risk", "bound"))
    if "adversary" not in risk.dims:
        risk, bound = (one.expand_dims(adversary=list(every)) for one in (risk, bound))
    errors = (
        risk["mcse"].sel(measure=AVERAGES).fillna(0.0)
        if "mcse" in risk
        else 0.0 * risk[AVERAGES].to_dataarray("measure")
    )
    prior = risk["prior"].copy(data=[float(one.prior) for one in every.values()])
    ratio = risk.get("invariant_ratio", xr.ones_like(prior))
    people = xr.Dataset(
        {"prior": prior, "given": risk["prior"], "invariant_ratio": ratio, **risk[AVERAGES], "mcse": errors}
    )
    limits = (
        bound[LIMITS].rename(semi_loss_bound="semi_adjacency_bound").assign_attrs(semi_adjacency=totals.semi_adjacency)
    )
    limits["single_record_bound"].attrs["direction"] = "upper"
    return {"adversaries": people, "limits": limits}


def moves(scenario: Scenario, tree: xr.DataTree) -> dict[str, tuple[Floats, Floats]]:
    """(shift of the log odds given the totals, weight) of every release, by adversary who is not yet certain."""
    totals, moved_by_name = require_totals(scenario), dict[str, tuple[Floats, Floats]]()
    learned = tree["exact" if "exact" in tree.children else "estimate"].to_dataset()
    for name in scenario.adversaries if totals.levels and not totals.disclosed else ():
        start = float(logit(float(group_of_adversary(tree["risk"].to_dataset(), name)["prior"])))
        odds = group_of_adversary(learned, name)["log_odds"].values
        if np.isfinite(start) and np.any(moved := np.nan_to_num(odds - start, posinf=np.inf, neginf=-np.inf)):
            moved_by_name[name] = moved, group_of_adversary(tree["release"].to_dataset(), name)["weight"].values
    return moved_by_name


def findings(scenario: Scenario, tree: xr.DataTree, results: Mapping[str, xr.Dataset]) -> Iterator[str]:
    """Sentences on what the exact totals reveal to the adversaries, and on guarantees that fail or do not apply.

    In this order: the adversary to whom the totals alone reveal most; margins that the adversaries do not condition on;
    guarantees that the plan violates; releases that exceed the bound for a single record. Only one sentence if no level
    is exact, and none if the totals disclose every record.
    """
    totals = require_totals(scenario)
    if totals.disclosed:
        return
    if not totals.levels:
        yield UNTOLD
        return
    yield from _most_informed(results["adversaries"])
    if scenario.invariants is not None and len(scenario.invariants.features) > 1:
        counts = join_words([f"the {name}'s count" for name in totals.levels])
        yield (
            f"The adversaries condition on {counts} only; the other margins enter a(t), and what they reveal is not "
            "computed here."
        )
    status = tree["bound"].to_dataset()["status"]
    for name in status["definition"].values:
        if bool((status.sel(definition=name) == "violated").any()):
            violated = definition_words(str(name))
            yield f"The plan violates {violated}: its own privacy loss exceeds it, and no bound of it holds."
    yield from _single_record(results)


def _most_informed(people: xr.Dataset) -> Iterator[str]:
    """Sentence on the adversary to whom the totals alone reveal most."""
    ratio = people["invariant_ratio"].fillna(np.inf)
    most = np.flatnonzero(tied(np.abs(np.log(np.maximum(ratio.values, 1e-300)))))
    worst = people.isel(adversary=int(most[0]))
    moved = float(ratio.sel(adversary=worst["adversary"]))
    if abs(moved - 1.0) < SAME:
        yield "The exact totals alone reveal nothing to these adversaries."
        return
    prior, given = (format_probability(float(worst[key])) for key in ("prior", "given"))
    certain = " The noise hides nothing from them." if float(worst["given"]) in (0.0, 1.0) else ""
    others = [str(name) for name in people["adversary"].values[most[1:]]]
    alike = f" To {those_tied(others, ratio.size, 'adversaries')} they reveal as much." if others else ""
    yield (
        f"The exact totals alone take {_who(str(worst['adversary'].item()))} from {prior} to {given}; no guarantee "
        f"limits this.{certain}{alike}"
    )


def _single_record(results: Mapping[str, xr.Dataset]) -> Iterator[str]:
    """Sentence on releases that exceed a guarantee for one record, as if nothing were published exactly.

    It covers the first satisfied definition that is exceeded, or else the first with a finite bound, and the adversary
    who exceeds it most often.
    """
    unsure, limits = ~results["adversaries"]["given"].isin([0.0, 1.0]), results["limits"]
    satisfied = limits.sel(definition=~(limits["status"] == "violated").any("adversary"), adversary=unsure.values)
    passed = satisfied["definition"][satisfied["single_record_exceeded"].astype(bool).any("adversary").values]
    finite = satisfied["definition"][(satisfied["single_record_bound"] < np.inf).any("adversary").values]
    for definition in [*map(str, (passed if passed.size else finite).values)][:1]:
        one = satisfied.sel(definition=definition)
        beyond = one["prob_beyond_single_record"].fillna(0.0)
        most = tied(beyond.values)
        worst = one.isel(adversary=int(np.argmax(most)))
        failure = float(worst["failure"])
        often = f", except in {format_chance(failure)} of releases" if failure else ""
        sentence = (
            f"Applied to one record as if nothing were published exactly, {definition_words(definition)} would keep "
            f"the odds within a factor exp({format_bound(float(worst['single_record_bound']), True)}){often}. "
            "That is no bound here"
        )
        name, others = str(worst["adversary"].item()), int(most.sum()) - 1
        alike = f", and as many take {others} other{'s' * (others > 1)} beyond it" if others else ""
        passes = f": {format_chance(float(beyond.max()))} of releases take {_who(name)} beyond it{alike}."
        yield sentence + (passes if passed.size else ", though no adversary here exceeds it more often.")


def _who(name: str) -> str:
    """An adversary's name for a sentence."""
    return f"the adversary “{name}”" if name else "the adversary"


def learned(
    scenario: Scenario, tree: xr.DataTree, results: Mapping[str, xr.Dataset], prefix: str = ""
) -> Section | None:
    """Section on the groups of `solve` under one truth; its sentences alone if there are no groups, None without any.

    `prefix` names the truth in names of files.
    """
    lines = list(findings(scenario, tree, results))
    if not lines:
        return None
    made = Section(f"{LEARNED}, truth {prefix}" if prefix else LEARNED, lines[0], lines[1:])
    if results:
        made.tables = [_steps(results["adversaries"], prefix), _limits(results["limits"], prefix)]
        made.figures, made.notes = _figures(scenario, tree, results["limits"], prefix), [NOTE]
    return made


def _figures(scenario: Scenario, tree: xr.DataTree, limits: xr.Dataset, prefix: str) -> list[Figure]:
    """Figure of the odds shifts; none if every adversary is certain before the noise, or samplers failed."""
    moved = moves(scenario, tree)
    if not moved or audit_words.unreliable(tree["risk"].to_dataset()):
        return []
    return [Figure(_file(prefix, "odds"), lambda: plot.odds_moved(limits, moved), CAPTION)]


def _steps(people: xr.Dataset, prefix: str) -> Table:
    """Table of each adversary's probabilities: prior, given the totals, and expected given the release."""
    columns = {
        "adversary": "adversary", "prior": ("prior", "probability"), "given": ("given the totals", "probability"),
        "invariant_ratio": ("ratio", "number"), "posterior_mean": ("expected posterior", "probability"),
        "ratio_mean": ("ratio given totals", "number"),
    }  # fmt: skip
    return tabulate(people, columns, name=_file(prefix, "adversaries"), missing=audit_words.UNRELIABLE)


def _limits(limits: xr.Dataset, prefix: str) -> Table:
    """Table of the bounds of each guarantee: for one record (no bound), for k records and for a(t)."""
    columns = {
        "adversary": "adversary", "definition": "guarantee", "single_record_bound": ("one record", "at most"),
        "prob_beyond_single_record": ("P(beyond it)", "probability"), "k": ("k", "count"),
        "loss_bound": ("for k", "at most"), "semi_adjacency_bound": ("for a(t)", "at most"),
        "achieved": ("reached", "at most"),
    }  # fmt: skip
    if bool((limits["failure"] > 0.0).any()):
        columns["failure"] = ("failure probability", "probability")
    names = {"definition": {str(name): definition_words(str(name)) for name in limits["definition"].values}}
    name, missing = _file(prefix, "limits"), audit_words.UNRELIABLE
    return tabulate(limits, columns, name=name, called=names, missing=missing)


def _file(prefix: str, name: str) -> str:
    """Name of a file, with the truth's name before it if there are several."""
    return "_".join(filter(None, [prefix, name]))


def exact_section(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """Section of the audit's page on exact totals under one truth; None if nothing is published exactly."""
    totals = exact_totals(scenario.plan, scenario.margins)
    if totals is None:
        return None
    results, pairs = solve(scenario, tree), exact_guarantees.before_and_after(scenario.guarantee, totals)
    beside = exact_guarantees.GuaranteesWithTotals(scenario.invariants, totals, pairs)
    first, *lines = beside.findings()
    made = learned(scenario, tree, results) or Section(LEARNED)
    lines += [made.finding, *made.paragraphs] if made.finding else []
    return Section(TITLE, first, lines, made.tables, made.figures, made.notes)
