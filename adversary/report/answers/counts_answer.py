"""The risk of one person in every cell of a table of counts, and the noise that keeps a tolerated risk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    DEFAULT_FAILURE,
    PERCENT,
    failure_of,
    format_bound,
    format_number,
    format_probability,
    format_uncrossed,
    outward_percent,
    ranks_shown,
    sentence,
    shared_ranks,
    those_tied,
    tied,
)
from adversary.adversaries.beliefs import Uniform
from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Level
from adversary.budget import RiskProfile, split_rho
from adversary.driver import audit_table
from adversary.privacy.mechanisms import DiscreteGaussian, Mechanism
from adversary.report import figures
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
    tabulate,
)
from adversary.report.kit.audit_words import budget_words, may_fail
from adversary.report.words import coverage

WORST = 20
"""Cells on the screen, of the largest risk."""
NUMBERS = ("posterior_mean", "mcse", "ratio_mean", "prob_correct", "posterior_high", "bound", "outside")


def shares(text: str, number: Callable[[str, str], float], option: str, levels: Sequence[str]) -> list[float]:
    """The budget of each level: one number is split evenly over them, several are theirs in order."""
    given = [number(option, one) for one in text.split(",")]
    if len(given) not in (1, len(levels)):
        raise ValueError(f"{option} must be one number, or one for each of {len(levels)} levels, got {len(given)}")
    if min(given) <= 0.0:
        raise ValueError(f"{option} must be positive, such as 0.1, or 0.1,0.2 for two levels, got {text}")
    return [given[0] / len(levels)] * len(levels) if len(given) == 1 else given


def solve(
    title: str,
    frame: Any,
    noises: dict[str, Mechanism],
    prior: float,
    cells: Sequence[str] | None = None,
    failure: float = DEFAULT_FAILURE,
    seed: int = 2020,
    where: Callable[[int], str] = "row {}".format,
) -> xr.DataTree:
    """Every cell audited: `cells` (row), the columns of `audit_table`, and `summary`."""
    names, levels = list(noises), [Level(name, noise) for name, noise in noises.items()]
    reader = Adversary(prior, beliefs={name: Uniform() for name in names[1:]})
    found = audit_table(frame, levels, reader, cells=cells, failure=failure, rng=seed, where=where)
    columns = {name: ("row", found[name].to_numpy()) for name in ("count", *NUMBERS)}
    words = {**{f"level_{name}": name for name in names}, "cell": "cell", "target": "target", "status": "status"}
    columns |= {key: ("row", found[name].to_numpy().astype(str)) for key, name in words.items()}
    risk = found["posterior_mean"]
    columns["rank"] = ("row", shared_ranks(risk, found["mcse"]))
    certain = all(np.isfinite(one.privacy_loss(1, 1).loss_bound(0.0)) for one in noises.values())
    summary = {
        "shared": int(tied(risk, found["mcse"]).sum()),
        "cells": len(found),
        "units": len(found) // found["cell"].nunique(),
        "prior": prior,
        "worst": float(risk.iloc[0]),
        "median": float(risk.median()),
        "bound": float(found["bound"].max()),
        "failure": 0.0 if certain else failure,
    }
    tree = xr.DataTree.from_dict({"cells": xr.Dataset(columns), "summary": xr.Dataset(summary)})
    told = {name: repr(noise) for name, noise in noises.items()}
    tree.attrs.update(levels=names, noise=str(told), budget=budget_words(noises.items()), failure=failure, seed=seed)
    if cautions := found.attrs["cautions"]:
        tree.attrs["cautions"] = cautions
    judged = set(columns["status"][1])
    status = next(one for one in ("violated", "exceeded", "holds") if one in judged)
    rise = f"from {format_probability(prior)} before the release to {format_probability(summary['worst'])} on average"
    verdict = f"The largest risk is {_where(tree['cells'].to_dataset(), names)}: {rise} after it."
    return Summary(title, ("summary",), verdict, status, [*np.atleast_1d(cautions)] if cautions else ()).on(tree)


@guarded_document
def document(tree: xr.DataTree) -> Document:
    """Worst cells first; the distribution; every cell."""
    found, summary, names = tree["cells"].to_dataset(), tree["summary"].to_dataset(), list(tree.attrs["levels"])
    worst, bound, prior = (float(summary[name]) for name in ("worst", "bound", "prior"))
    shared = int(summary["shared"])
    every = f"{int(summary['cells']):,} cells of {int(summary['units']):,} units"
    card = Card(
        numbers=[
            ("before the release", format_probability(prior)),
            (f"after it, on average: largest risk{' (shared)' * (shared > 1)}", format_probability(worst)),
            ("median cell", format_probability(float(summary["median"]))),
            ("at most, by the plan's own loss", outward_percent(bound, True) + PERCENT),
        ],
        figure=Figure(
            "risk_of_cells",
            lambda: figures.audit_figures.risk_of_cells(found["posterior_mean"].values, prior, bound),
            f"Posterior probability of one person, averaged over the noise, in {every}, the largest first.",
        ),
        sentence="Each adversary knows everybody else in the cell; every total above is equally likely to them. "
        f"The budget is {tree.attrs['budget']}." + may_fail(float(summary["failure"])),
    )
    sections = [
        attempt(
            "The cells of the largest risk",
            lambda: Section(
                "The cells of the largest risk",
                f"Largest posterior first, of {every}; = marks a rank that is shared, within the errors of the numbers."
                + f" {WORST} of the {shared:,} that share the first are listed." * (shared > WORST),
                tables=[_table(found.isel(row=slice(WORST)), names, "worst")],
            ),
        ),
        attempt(
            "Every cell",
            lambda: Section(
                "Every cell", every + ".", tables=[_table(found, names, "cells")], folded=True, on_screen=False
            ),
        ),
    ]
    noise = [(name, str(tree.attrs[name])) for name in ("budget", "noise", "seed")]
    return Document(tree, card, sections=sections, provenance=noise)


def _where(found: xr.Dataset, names: Sequence[str]) -> str:
    """The cells whose risk cannot be told from the largest: one by its name, several by what they have in common."""
    risk, counts = found["posterior_mean"].values, found["count"].values
    most = tied(risk, found["mcse"].values)
    columns = (found[key].values[most] for key in (f"level_{names[0]}", "cell"))
    called = [f"{names[0]} {unit}, {cell}" for unit, cell in zip(*columns, strict=True)]
    if len(called) == 1:
        return f"in {called[0]}"
    kinds = {"occupied ": counts > 0, "empty ": counts == 0}
    kind = next((kind for kind, part in kinds.items() if np.array_equal(most, part) and not part.all()), None)
    where = those_tied(called, risk.size, "cells") if kind is None else f"all {len(called):,} {kind}cells"
    if tied(risk[most]).all():
        return f"the same in {where}"
    return f"in {where}, which the errors of the numbers do not tell apart"


def solve_plan(
    title: str,
    frame: Any,
    levels: Sequence[str],
    profile: RiskProfile,
    cells: Sequence[str] | None = None,
    where: Callable[[int], str] = "row {}".format,
    **how: Any,
) -> xr.DataTree:
    """The split of rho over the levels, as of `split_rho`: group `plan` (level)."""
    found = split_rho(frame, levels, profile, cells=cells, where=where, **how)
    found["loss"].attrs["direction"], found["allowed"].attrs["direction"] = "upper", "lower"
    tree = xr.DataTree.from_dict({"plan": found})
    noises = zip(map(str, found["level"].values), map(DiscreteGaussian.from_rho, found["rho"].values), strict=True)
    surely = f", {failure_of(float(how['failure']))}" * (float(how["failure"]) > 0.0)
    covered = coverage(profile, float(found["loss"]), how["statistic"], surely)
    tree.attrs.update(profile=profile.words, covered=covered, budget=budget_words(noises), **how)
    largest, again = format_bound(float(found["total"]), False), int(how["releases"])
    each = "" if again == 1 else f", in each of {again} releases,"
    verdict = f"rho = {largest} over all levels{each} keeps the risk profile: {profile.words}."
    return Summary(title, ("plan",), verdict).on(tree)


@guarded_document
def plan_document(counts: Path, tree: xr.DataTree) -> Document:
    """The budgets of the levels, their errors, and the command that audits every cell under them."""
    found = tree["plan"].to_dataset()
    names, rho = [str(one) for one in found["level"].values], ",".join(f"{x:.15g}" for x in found["rho"].values)
    again = int(tree.attrs["releases"])
    loss, allowed = (float(found[name]) for name in ("loss", "allowed"))
    reached = format_uncrossed(loss, allowed, range(4, 10)) or (format_bound(loss, True), "just that")
    quadratic = [float(np.sqrt((found[name] ** 2).sum())) for name in ("error", "even_error")]
    card = Card(
        numbers=[
            (f"rho of the {name}", f"{float(one):.15g}") for name, one in zip(names, found["rho"].values, strict=True)
        ],
        sentence=f"{sentence(failure_of(float(tree.attrs['failure'])))}, no adversary whom the profile is about and "
        "whose beliefs about others do not depend on the person learns more than it allows.",
    )
    heads = {
        "level": Column("level"),
        "rho": Column("rho", "parameter"),
        "mean_count": Column("mean count", "number"),
        "deviation": Column("standard deviation of the noise (people)", "number"),
        "error": Column("over the mean count", "probability"),
        "even_error": Column("were rho split evenly", "probability"),
    }
    table = tabulate(found, heads, name="plan")
    table.notes = [
        f"The squares of the errors over the mean counts add up to {format_number(quadratic[0] ** 2)}, the least "
        "for this "
        f"total; with an even split to {format_number(quadratic[1] ** 2)}.",
        f"Privacy loss of all noise together: {reached[0]}; allowed: {reached[1]}. Every rho is rounded down.",
    ]
    divided = f"The budget{' of each release' * (again > 1)} is {tree.attrs['budget']}."
    todo = f"What the table reveals cell by cell: adversary table {counts} --rho {rho} --levels {','.join(names)}"
    return Document(
        tree,
        card,
        sections=[Section("Budgets", divided, [*filter(None, [tree.attrs["covered"]]), todo], [table])],
    )


def _table(found: xr.Dataset, names: Sequence[str], name: str) -> Table:
    columns = {
        "row": None, "shown_rank": "rank", **{f"level_{one}": one for one in names}, "cell": "cell",
        "count": ("count", "count"), "target": "person", "posterior_mean": ("posterior", "probability"),
        "ratio_mean": ("ratio", "number"),
        "posterior_high": ("95 % of releases at most", "probability"), "prob_correct": ("P(correct)", "probability"),
        "bound": ("bound (own loss)", "% at most"), "status": ("status", "status"),
    }  # fmt: skip
    errors = found["mcse"].expand_dims(measure=["posterior_mean"])
    ranks = ("row", ranks_shown(found["rank"].values))
    return tabulate(found.assign(mcse=errors, shown_rank=ranks), columns, name=name)
