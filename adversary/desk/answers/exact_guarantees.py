"""What statistics published exactly do to a promise: semi-adjacency, and every guarantee before them and beside them.

As JSON holds it, and as tables. Nothing here depends on a reader. Upper ends are rounded up on the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from adversary._core import figure_of, finite
from adversary.desk.files import Published
from adversary.desk.kit import above, add, put, table
from adversary.desk.kit.exact_words import parameter
from adversary.privacy import Guarantee
from adversary.privacy.definitions import simple_epsilon
from adversary.privacy.invariants import LARGEST_COUNT, READINGS, compose_then_extend, extend_then_compose
from adversary.reader.conditioned import ONE_FEATURE, ExactTotals

DELTAS = (1e-5, 1e-10)
"""Where epsilon is shown."""

WRITTEN = 15
"""Numbers of databases are written out up to 10 to this."""


def of_margins(published: Published | None, totals: ExactTotals) -> dict[str, Any]:
    """Both readings of a(t), how many databases conform, and whether they are fixed altogether.

    Without margins only that one feature is published is known, which settles a(t) but not the number of databases.
    """
    if published is None:
        rows = {name: {"value": ONE_FEATURE, "lowest": ONE_FEATURE, "exact": True} for name in READINGS}
        counted: dict[str, Any] = {"features": None, "records": None, "databases": None, "log10_databases": None}
    else:
        margins = published.margins
        rows = {}
        for name in READINGS:
            low, high = margins.limits(name)
            rows[name] = {"value": high, "lowest": low, "exact": low == high}
        log10 = margins.log_databases / np.log(10.0)
        few = margins.n <= LARGEST_COUNT and log10 < WRITTEN
        counted = {
            "features": published.named,
            "records": margins.n,
            "databases": margins.databases if few else None,
            "log10_databases": float(log10) + 0.0,
        }
    return {
        "levels": list(totals.levels), **counted, "semi_adjacency": rows, "reading": totals.reading,
        "used": totals.semi_adjacency, "records_covered": totals.records, "disclosed": totals.disclosed,
    }  # fmt: skip


def of_guarantee(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee in numbers: its parameters, largest loss, advantage, and epsilon at each delta; null for none."""
    found = stated(guarantee)
    found["loss_bound"] = finite(guarantee.loss_bound(0.0))
    found["advantage"] = finite(guarantee.advantage)
    found["epsilon"] = [{"delta": delta, "epsilon": finite(guarantee.epsilon(delta))} for delta in DELTAS]
    if (rho := guarantee.parameters.get("rho")) is not None:
        found["mu_if_gaussian"] = float(np.sqrt(2.0 * rho))
        for row in found["epsilon"]:
            row["simple"] = finite(simple_epsilon(rho, row["delta"]))
    return found


def stated(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee by its definition and parameters alone."""
    return {"definition": guarantee.definition, "parameters": _numbers(guarantee)}


def _numbers(guarantee: Guarantee) -> dict[str, float]:
    return {name: float(x) for name, x in guarantee.parameters.items()}


def of_promises(
    promises: Mapping[str, Guarantee],
    totals: ExactTotals,
    describe: Callable[[Guarantee], dict[str, Any]] = of_guarantee,
) -> dict[str, Any]:
    """Every promise before, for one record, and after: for every pair of conforming databases a(t) apart."""
    return {
        name: {"before": describe(one.group(totals.each)), "after": describe(totals.promised(one))}
        for name, one in promises.items()
    }


def of_composition(parts: Mapping[str, Guarantee], totals: ExactTotals) -> dict[str, Any] | None:
    """Several releases beside one invariant: each stretched, then composed, against the other way round.

    None of fewer than two releases, or where nothing is left to promise.
    """
    if len(parts) < 2 or totals.disclosed:
        return None
    listed = list(parts.values())
    first, last = extend_then_compose(listed, totals.records), compose_then_extend(listed, totals.records)
    same = _same(first, last)
    described = of_guarantee(first)
    return {
        "releases": {name: stated(one) for name, one in parts.items()},
        "extend_then_compose": described,
        "compose_then_extend": described if same else of_guarantee(last),
        "same": same,
    }


def _same(first: Guarantee, last: Guarantee) -> bool:
    """Whether two promises have the same parameters, and no more than these."""
    one, other = _numbers(first), _numbers(last)
    alike = type(first) is type(last) and one.keys() == other.keys() and bool(one)
    return alike and bool(np.allclose(list(one.values()), list(other.values()), rtol=1e-12, atol=0.0))


def show_margins(found: Mapping[str, Any], console: Console) -> None:
    """The part of a summary that `of_margins` gives, as a table."""
    made = table("Records that have to change together: semi-adjacency a(t)", ["reading of the definition"], ["a(t)"])
    made.add_column("")
    for name, row in found["semi_adjacency"].items():
        exact = "exact" if row["exact"] else f"upper bound, at least {row['lowest']}"
        used = "; used here" if name == found["reading"] else ""
        add(made, name, str(row["value"]), exact + used)
    put(made, console)
    if found["log10_databases"] is not None:
        console.print(conforming(found))


def conforming(found: Mapping[str, Any]) -> str:
    """How many databases conform, in a sentence."""
    many = found["databases"]
    said = f"10^{found['log10_databases']:.1f}" if many is None else f"{many:,}"
    verb = "database conforms" if many == 1 else "databases conform"
    return f"{said} {verb}, of {found['records']:,} records."


def show_promises(found: Mapping[str, Any], covered: int, console: Console) -> None:
    """The part that `of_promises` gives: every promise, before and after."""
    heads = ["parameter", "largest loss", *(f"epsilon at {delta:g}" for delta in DELTAS)]
    simple = any("simple" in row for one in found.values() for row in one["before"]["epsilon"])
    heads += ["simple epsilon at 1e-10", "mu, if Gaussian"] if simple else []
    made = table("The promise (upper ends rounded up)", ["promise", "for"], heads)
    for name, one in found.items():
        first = f"{one['made_for']} records, beside them" if "made_for" in one else "one record, without totals"
        whom = {"before": first, "after": f"{covered or 'no'} records, beside them"}
        for when, text in whom.items():
            add(made, name if when == "before" else "", text, *_cells(one[when], simple))
    put(made, console)


def _cells(one: Mapping[str, Any], simple: bool) -> list[str]:
    cells = [parameter(one), above(one["loss_bound"]), *(above(row["epsilon"]) for row in one["epsilon"])]
    if simple:
        aid = one.get("mu_if_gaussian")
        cells += [above(one["epsilon"][-1].get("simple")), "" if aid is None else figure_of(aid)]
    return cells


def show_composition(found: Mapping[str, Any] | None, console: Console) -> None:
    """The part that `of_composition` gives."""
    if found is None:
        return
    names: Sequence[tuple[str, str]] = (
        ("extend_then_compose", "each stretched, then added up"),
        ("compose_then_extend", "added up, then stretched"),
    )
    heads = ["advantage of the best test", *(f"epsilon at {delta:g}" for delta in DELTAS)]
    made = table(f"{len(found['releases'])} releases beside the same totals", ["order"], heads)
    for key, text in names:
        one = found[key]
        add(made, text, above(one["advantage"]), *(above(row["epsilon"]) for row in one["epsilon"]))
    put(made, console)
