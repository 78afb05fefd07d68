"""Readers of a plan with exact totals: what these taught, what the noise added, and which limits hold.

Taken from the tree of an audit, for the command line and for the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console

from adversary._core import Floats, figure_of, finite, logit, outward, share
from adversary.desk.answers import exact_guarantees
from adversary.desk.files import Scenario
from adversary.desk.kit import (
    PageSection,
    PageTable,
    add,
    audit_words,
    exact_words,
    of_reader,
    put,
    readers_of,
    shown,
    table,
)
from adversary.privacy import Guarantee
from adversary.privacy.definitions import PureDP, ZeroConcentratedDP
from adversary.reader.conditioned import ExactTotals, exact_totals

TITLE = "What publishing totals exactly costs"


def totals_of(scenario: Scenario) -> ExactTotals | None:
    """What the scenario publishes exactly; None where that is nothing."""
    return exact_totals(scenario.plan, scenario.margins)


def published(scenario: Scenario) -> ExactTotals:
    """The same, or ValueError."""
    totals = totals_of(scenario)
    if totals is None:
        ways = 'give a level noise = "exact", or a table [invariants] with margins'
        raise ValueError(f"{scenario.path}: nothing is published exactly: {ways}")
    return totals


def releases(scenario: Scenario) -> dict[str, Guarantee]:
    """What each noisy level promises by itself: pure DP where its loss has a limit, zCDP otherwise."""
    moved = 2 if scenario.neighbours == "bounded" else 1
    found: dict[str, Guarantee] = {}
    for level in scenario.plan.levels:
        if level.is_exact:
            continue
        limit = level.mechanism.privacy_loss(1, moved).loss_bound(0.0)
        rho = moved * float(level.mechanism.rho)
        found[level.name] = PureDP(float(limit)) if np.isfinite(limit) else ZeroConcentratedDP(rho)
    return found


def readers(scenario: Scenario, tree: xr.DataTree) -> dict[str, dict[str, Any]]:
    """Every reader under one truth: the two steps, and every promise with its limits and what is achieved.

    None where no level is exact, so that no reader was told the totals, or where these fix every record.
    """
    return {name: _reader(scenario, tree, name) for name in readers_of(scenario)} if _told(published(scenario)) else {}


def _told(totals: ExactTotals) -> bool:
    """Whether readers of the plan condition on what is published exactly, and something is left to learn."""
    return bool(totals.levels) and not totals.disclosed


def _reader(scenario: Scenario, tree: xr.DataTree, name: str) -> dict[str, Any]:
    risk, bound = (of_reader(tree[group].to_dataset(), name) for group in ("risk", "bound"))
    failed = audit_words.unreliable(risk)
    moved, weight = odds_moved(tree, name)
    rows = {}
    for definition in bound["definition"].values:
        one = bound.sel(definition=definition)
        failure = float(one["failure"])
        rows[str(definition)] = {
            "failure": failure,
            "naive": finite(one["naive_loss_bound"]),
            "naive_outside": finite(one["naive_outside"]),
            "naive_broken": bool(one["naive_broken"]),
            "k": int(one["k"]),
            "limit": finite(one["loss_bound"]),
            "semi_limit": finite(one["semi_loss_bound"]),
            "achieved": None if failed else finite(achieved(moved, weight, failure)),
            "status": str(one["status"].item()),
        }
    averages = ("posterior_mean", "ratio_mean")
    numbers = {key: finite(risk[key]) for key in ("invariant_ratio", *averages) if key in risk}
    simulated = "mcse" in risk and not failed
    errors = {key: float(risk["mcse"].sel(measure=key)) if simulated else 0.0 for key in averages}
    prior = readers_of(scenario)[name].prior
    steps = {"prior": prior, "given": float(risk["prior"]), "invariant_ratio": 1.0, **numbers}
    return {**steps, "mcse": errors, "bounds": rows}


def odds_moved(tree: xr.DataTree, name: str) -> tuple[Floats, Floats]:
    """(how far every release moves the log odds from the exact totals on, its share): (release,)."""
    group = "exact" if "exact" in tree.children else "estimate"
    found = of_reader(tree[group].to_dataset(), name)["log_odds"].values
    weight = of_reader(tree["release"].to_dataset(), name)["weight"].values
    start = float(logit(float(of_reader(tree["risk"].to_dataset(), name)["prior"])))
    moved = np.zeros_like(found) if np.isinf(start) else found - start
    return np.nan_to_num(moved, posinf=np.inf, neginf=-np.inf), weight


def achieved(moved: Floats, weight: Floats, failure: float) -> float:
    """Smallest e that the log odds move by more than in a share of releases of at most `failure`.

    >>> achieved(np.array([-2.0, 0.5, 1.0]), np.array([0.1, 0.6, 0.3]), 0.1)
    1.0
    """
    order = np.argsort(-np.abs(moved), kind="stable")
    size, beyond = np.abs(moved)[order], np.cumsum(weight[order])
    return float(size[min(int(np.searchsorted(beyond, failure * (1 + 1e-9) + 1e-15, side="right")), size.size - 1)])


def summary(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """What totals published exactly cost, under one truth: promises in full, and readers with their limits."""
    totals = published(scenario)
    return {
        **brief(scenario, tree),
        "promises": exact_guarantees.of_promises(scenario.guarantee or {}, totals),
        "composition": exact_guarantees.of_composition(releases(scenario), totals),
    }


def brief(scenario: Scenario, tree: xr.DataTree) -> dict[str, Any]:
    """The same without composition, promises by their parameters alone."""
    totals = published(scenario)
    return {
        "published": exact_guarantees.of_margins(scenario.invariants, totals),
        "promises": exact_guarantees.of_promises(scenario.guarantee or {}, totals, exact_guarantees.stated),
        "violated": _violated(tree),
        "readers": readers(scenario, tree),
    }


def _violated(tree: xr.DataTree) -> list[str]:
    """Promises that the plan does not keep, whoever reads."""
    status = tree["bound"].to_dataset()["status"]
    return [str(name) for name in status["definition"].values if (status.sel(definition=name) == "violated").any()]


def sentences(found: Mapping[str, Any]) -> list[str]:
    """The answer in words: what it does to the promises, what each reader learns, and which bound is none."""
    said = [*exact_words.cost(found), *exact_words.untold(found["published"])]
    said += [exact_words.learned(name, one) for name, one in found["readers"].items()]
    return [*said, *exact_words.broken(found), *exact_words.naive(found)]


def show(found: Mapping[str, Any], console: Console) -> None:
    """The readers of a summary, as two tables; nothing where there are none."""
    if not found["readers"]:
        return
    made = table(
        "What it taught alone, and what the noise added",
        ["reader"],
        ["prior", "given the totals", "ratio", "expected posterior", "ratio from there"],
    )
    for name, one in found["readers"].items():
        ratio = one["invariant_ratio"]
        numbers = [
            share(one["prior"]),
            share(one["given"]),
            audit_words.UNRELIABLE if ratio is None else figure_of(ratio),
        ]
        add(made, name or "the reader", *numbers, *exact_words.after(one))
    put(made, console)
    made = table(LIMITS, ["reader", "promise"], HEADS)
    for name, one in found["readers"].items():
        for definition, row in one["bounds"].items():
            add(made, name or "the reader", audit_words.called(definition), *cells(row))
    put(made, console)


HEADS = ["one record", "beyond it", "k", "limit at k", "at a(t)", "achieved", "may fail in"]
"""Of one promise of one reader. The first is no bound."""
LIMITS = "How far a release moves the log odds (nats); a promise read for one record is no bound here"


def cells(row: Mapping[str, Any]) -> list[str]:
    """One promise of one reader, limits rounded up."""
    naive, limit, semi = (audit_words.outward(np.inf if row[key] is None else row[key], True) for key in _LIMITS)
    beyond = audit_words.UNRELIABLE if row["naive_outside"] is None else share(row["naive_outside"])
    reached = audit_words.UNRELIABLE if row["achieved"] is None else outward(row["achieved"], True)
    return [naive, beyond, str(row["k"]), limit, semi, reached, share(row["failure"])]


_LIMITS = ("naive", "limit", "semi_limit")


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection | None:
    """The part of the report; None where nothing is published exactly."""
    if totals_of(scenario) is None:
        return None
    found = brief(scenario, tree)
    if not found["readers"]:
        return PageSection(TITLE, sentences(found))
    several = isinstance(scenario.adversary, dict)
    grid = PageTable([*["reader"] * several, "promise", *HEADS], texts=1 + several)
    for name, one in found["readers"].items():
        for definition, row in one["bounds"].items():
            grid.add(*[name] * several, audit_words.called(definition), *cells(row))
    figures = []
    if not audit_words.unreliable(tree["risk"].to_dataset()):
        from adversary.desk.figures import exact_figures

        figures = [shown(lambda: exact_figures.odds_moved(found, moves(scenario, tree)), CAPTION)]
    return PageSection(TITLE, sentences(found), grid, notes=[NOTE], figures=figures)


NOTE = (
    "Columns of numbers are limits of the log of the factor by which the odds move, in nats, from the prior given the "
    "totals on: of the promise read for one record, which is no bound; the share of releases beyond it; the number k "
    "of records in which this reader's hypotheses differ, and the limit for so many; the limit for a(t) records; what "
    "releases reach."
)


CAPTION = (
    "How often a release moves a reader's odds by more than a factor, from what is published exactly on. Vertical "
    "lines: the promise read for one record alone, which is no bound, and for as many as have to be let differ."
)


def moves(scenario: Scenario, tree: xr.DataTree) -> dict[str, tuple[Floats, Floats]]:
    """`odds_moved` of every one of the `readers` who is not sure already."""
    if not _told(published(scenario)):
        return {}
    found = {name: odds_moved(tree, name) for name in readers_of(scenario)}
    return {name: (moved, weight) for name, (moved, weight) in found.items() if np.any(moved)}
