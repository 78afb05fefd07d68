"""One-at-a-time sensitivity to prior, budget, siblings and beliefs, under both truths: answer and section.

Of several adversaries the inputs of the first are varied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import numpy as np
import xarray as xr

from adversary._core import format_number, format_probability
from adversary.adversaries.risk import cautions
from adversary.driver import TRUTHS, base_and_sweeps, group_name, most_moving, side_by_side, sweep_groups
from adversary.report import plot
from adversary.report.files import Scenario
from adversary.report.kit import Document, Figure, Section, Summary, Table, attempt, guarded_document, tabulate
from adversary.report.kit.audit_words import AVERAGES, RULED_OUT, both_targets, truths

# Continuous inputs, of which a fan of posteriors is drawn.
SMOOTH = {"prior": "priors", "rho": "budgets, every level with the same factor"}

# Simulated releases, if a distribution has to be simulated: a power of two, for scrambled sequences.
DRAWS = 4096
RISKS = ("posterior_mean", "ratio_mean", "possible", "mcse")
AS_IT_IS = "as it is"

# A change of an expected posterior below this is called small.
MOVED = 0.005


def solve(scenario: Scenario) -> xr.DataTree:
    """Tree of a scenario's sweeps: `base`, `extremes` and a group per input; under each truth's name if several."""
    if scenario.sensitivity is None:
        raise ValueError(
            f"{scenario.path}: sensitivity: is required (what to go over: a table with prior, rho, siblings or beliefs)"
        )
    adversary, groups = next(iter(scenario.adversaries.values())), dict[str, xr.Dataset]()
    every = truths(scenario)
    for name, one in every.items():
        given = scenario.sensitivity.given
        groups |= sweep_groups(
            *base_and_sweeps(scenario.plan, adversary, one.truth, **given, draws=DRAWS, rng=0), name or None
        )
    tree = xr.DataTree.from_dict(groups)
    warned = cautions(scenario.plan, [adversary], [one.truth for one in every.values()])
    tree.attrs.update(title=scenario.name, warnings=json.dumps(warned))
    listed = [node.path.strip("/") for node in tree.subtree if node.data_vars]
    return Summary(scenario.name, listed, warnings=warned).on(tree)


@guarded_document
def document(scenario: Scenario, tree: xr.DataTree) -> Document:
    """Document of the sweeps."""
    every = truths(scenario)
    sections = [
        attempt(f"Sensitivity{': ' * bool(name)}{name}", _of_truth, one, tree, name) for name, one in every.items()
    ]
    return Document(
        tree,
        sections=sections,
        provenance=[("Scenario file", scenario.path.name)],
    )


def section(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """Section of an audit of one truth; None if it has no sweep."""
    return _section(scenario, tree.children["sensitivity"]) if "sensitivity" in tree.children else None


def _of_truth(scenario: Scenario, tree: xr.DataTree, truth: str) -> Section:
    """Section on the sweeps under one truth, of the tree of `solve`."""
    return _section(scenario, tree.children[group_name(truth)] if truth else tree, truth)


def _section(scenario: Scenario, tree: xr.DataTree, truth: str = "") -> Section:
    """Section on the sweeps whose groups the tree has."""
    base, extremes = tree["base"].to_dataset(), tree["extremes"].to_dataset()
    swept = {str(dim): tree[group_name(str(dim))].to_dataset() for dim in extremes["input"].values}
    who = next(iter(scenario.adversaries))
    whose = f" Inputs are those of adversary {who}." if who else ""
    swing = (extremes["posterior_mean"].sel(end="high") - extremes["posterior_mean"].sel(end="low")).max("truth")
    much = f": by up to {format_number(100.0 * float(swing.max()))} percentage points" if most_moving(extremes) else ""
    return Section(
        f"Sensitivity{': ' * bool(truth)}{truth}",
        f"{plot.moving_words(extremes)}{much}.",
        [f"One input changes at a time, all others as they are; the target is truly in, or truly out.{whose}"],
        [_table(base, swept, truth)],
        list(_figures(base, extremes, swept, truth)),
        [*_sibling_lines(swept), *_belief_lines(base, swept)],
    )


def _table(base: xr.Dataset, swept: dict[str, xr.Dataset], truth: str) -> Table:
    """Table of averages under both truths: the base case, then each input at each of its values."""
    rows = [("", None, base)]
    rows += [(dim, value, one.sel({dim: value})) for dim, one in swept.items() for value in one[dim].values]
    each = [one[[name for name in RISKS if name in one]].reset_coords(drop=True) for _, _, one in rows]
    risk = side_by_side(dict(enumerate(each)), "row").rename(truth="target")
    risk = risk.where(risk["possible"].astype(bool))
    inputs = [plot.INPUTS.get(dim, dim) if dim else AS_IT_IS for dim, _, _ in rows]
    values = [plot.input_value(dim, str(value)) if dim else "" for dim, value, _ in rows]
    by_row = both_targets(risk, risk).assign(input=("row", inputs), value=("row", values))
    columns = {"row": None, "input": "input", "value": "value", **AVERAGES}
    words, name = dict.fromkeys(AVERAGES, RULED_OUT), f"sensitivity {truth}".strip()
    return tabulate(by_row, columns, name=name, called=words, marked={"input": AS_IT_IS})


def _figures(base: xr.Dataset, extremes: xr.Dataset, swept: dict[str, xr.Dataset], truth: str) -> Iterator[Figure]:
    """Tornado of all inputs, and a fan of each continuous one."""
    yield Figure(
        f"tornado {truth}".strip(),
        lambda: plot.tornado(extremes),
        "How far the expected posterior moves as one input goes over its values, all others as they are. Ends are "
        "labelled with the input's value there.",
    )
    for dim, what in SMOOTH.items():
        if dim in swept and swept[dim].sizes[dim] > 1:
            own = float(base.attrs[f"base_{dim}"])
            yield Figure(
                f"fan_{dim} {truth}".strip(),
                partial(plot.fan, _with_own(base, swept[dim], dim, own), dim, own=own),
                f"Posteriors at other {what}.",
            )


def _with_own(base: xr.Dataset, swept: xr.Dataset, dim: str, own: float) -> xr.Dataset:
    """A sweep over positive values, with the scenario's own value added if it lies between the ends."""
    values = swept[dim].values
    names = ["posterior_mean", "ratio_mean", "posterior_quantile", "ratio_quantile"]
    positive = swept.sel({dim: values > 0.0})[names].drop_vars("budget", errors="ignore")
    if not values.min() <= own <= values.max() or np.isclose(values, own, rtol=1e-9, atol=0.0).any():
        return positive
    return xr.concat([positive, base[names].expand_dims({dim: [own]})], dim)


def _sibling_lines(swept: dict[str, xr.Dataset]) -> Iterator[str]:
    """Note on the inputs that a sweep over siblings leaves unchanged."""
    if any(dim.startswith("siblings") for dim in swept):
        yield (
            "Another number of siblings changes what is published beside the unit, and nothing else: the beliefs stay "
            "as the file has them, also those about the people of all siblings together (a total, or an exposure)."
        )


def _belief_lines(base: xr.Dataset, swept: dict[str, xr.Dataset]) -> Iterator[str]:
    """Sentences on the expected posterior under other beliefs, each compared with the adversary's own belief.

    One per belief, with the target in and with the target out; then one on the truths that a belief rules out. None if
    no beliefs were varied.
    """
    if "beliefs" not in swept:
        return
    for name in swept["beliefs"]["beliefs"].values:
        yield belief_line(str(name), base, swept["beliefs"].sel(beliefs=name))
    if swept["beliefs"].attrs.get("impossible"):
        yield f"Truths that a belief rules out: {swept['beliefs'].attrs['impossible']}."


def belief_line(name: str, base: xr.Dataset, risk: xr.Dataset) -> str:
    """Sentence on the expected posterior under a belief, with the target in and with the target out."""
    if not bool((risk["possible"] & base["possible"]).all()):
        return f"With the belief “{name}” only one truth is possible: there is nothing left to infer."
    now, was = ({t: float(one["posterior_mean"].sel(truth=t)) for t in TRUTHS} for one in (risk, base))
    numbers = (
        f"the expected posterior is {format_probability(now['in'])} with the target in (as it is: "
        f"{format_probability(was['in'])}) and "
        f"{format_probability(now['out'])} with the target out ({format_probability(was['out'])})"
    )
    return f"The belief “{name}” {_effect({t: now[t] - was[t] for t in TRUTHS})}: {numbers}."


def _effect(moved: dict[str, float]) -> str:
    """Clause on the changes of the expected posterior, with the target in and with the target out."""
    present, out = moved["in"], moved["out"]
    if abs(present) < MOVED and abs(out) < MOVED:
        return "makes little difference"
    if present > -MOVED and out > -MOVED:
        return "raises the posterior whatever the truth: closer with the target in, further off with it out"
    if present < MOVED and out < MOVED:
        return "lowers the posterior whatever the truth: closer with the target out, further off with it in"
    return f"separates the two truths {'better' if present > 0 else 'less well'}"
