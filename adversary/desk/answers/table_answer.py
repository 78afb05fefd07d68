"""A table of counts with margins published exactly: what its reader concludes, and what noise for it costs.

A `TableFile` is worked out once; JSON, tables, figures and the NetCDF file are readings of the same answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console

from adversary._core import figure_of, finite, numbers, share
from adversary.desk.answers import exact_guarantees
from adversary.desk.files import MOST_RECORDS, TableFile
from adversary.desk.kit import above, add, put, table
from adversary.driver import UNRELIABLE
from adversary.privacy import Guarantee
from adversary.privacy.invariants import VectorNoise, compare_costs, sensitivity_space
from adversary.reader.conditioned import ExactTotals, table_posterior

SEED = 2020
"""Of walks over tables too many to list: a run that is repeated gives the same numbers."""


@dataclass(frozen=True)
class Answer:
    """A table file worked out.

    `posterior` is that of `table_posterior`; `costs` compares noise made for the margins with the usual kind, or is
    None where the margins leave nothing to compare.
    """

    file: TableFile
    posterior: xr.Dataset
    costs: xr.Dataset | None

    @property
    def totals(self) -> ExactTotals:
        """The margins as what is published exactly."""
        margins = self.file.invariants.margins
        return ExactTotals((), margins.semi_adjacency, margins.exact, margins.reading, 1)


def work_out(file: TableFile) -> Answer:
    """The posterior of the table, and the cost of noise.

    Raises
    ------
    ValueError : the prior rules out every table with these margins, or the release is impossible under all of them;
        the message names the file
    """
    margins, made = file.invariants.margins, file.mechanism
    promise = next(iter(file.guarantees.values()), None)
    released = file.released
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = table_posterior(
                margins,
                released,
                None if released is None else made,
                file.prior,
                known=file.known,
                guarantee=promise,
                failure=_failure(file),
                rng=SEED,
            )
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None
    return Answer(file, found, _costs(file))


def _failure(file: TableFile) -> float:
    """0 where the promise has a bound that holds for certain."""
    one = next(iter(file.guarantees.values()), None) or file.mechanism.guarantee  # type: ignore[union-attr]
    return 0.0 if np.isfinite(one.loss_bound(0.0)) else file.failure


def _costs(file: TableFile) -> xr.Dataset | None:
    rows, columns = file.invariants.margins.counts
    if sensitivity_space(rows, columns, 2).rank == 0:
        return None
    return compare_costs(rows, columns, **_scales(file))


def _scales(file: TableFile) -> dict[str, float]:
    """mu and epsilon of the file, 1 where it has none."""
    every: list[Guarantee] = [*file.guarantees.values()]
    every += [file.mechanism.guarantee] if isinstance(file.mechanism, VectorNoise) else []
    single = [one.parameters for one in every if len(one.parameters) == 1]
    return {name: float(given[name]) for given in single for name in ("mu", "epsilon") if name in given}


def summary(answer: Answer) -> dict[str, Any]:
    """The answer as one JSON object."""
    file, found = answer.file, answer.posterior
    shown: dict[str, Any] = {name: _grid(found[name]) for name in TABLED if name in found}
    shown |= {name: finite(found[name]) for name in ("odds_bound", "log_evidence") if name in found}
    if "radius" in found:
        shown |= {"radius": int(found["radius"]), "radius_exact": bool(found.attrs["radius_exact"])}
    shown |= {key: found.attrs.get(key) for key in ("engine", "status", "tables")}
    if "posterior" in found and "odds_bound" in found:
        moved = found["log_odds_factor"].values
        shown["achieved"] = finite(np.abs(moved[np.isfinite(moved)]).max(initial=0.0))
        shown["failure"] = _failure(file)
        promise = next(iter(file.guarantees.values()), None)
        shown["naive"] = None if promise is None else finite(promise.loss_bound(shown["failure"]))
        shown["naive_broken"] = None if shown["naive"] is None else shown["achieved"] > shown["naive"] * (1 + 1e-9)
    return {
        "published": exact_guarantees.of_margins(file.invariants, answer.totals),
        "promises": exact_guarantees.of_promises(file.guarantees, answer.totals) | _made(answer),
        "composition": exact_guarantees.of_composition(_repeated(file), answer.totals),
        "table": shown,
        "costs": None if answer.costs is None else _costed(answer),
    }


def _repeated(file: TableFile) -> dict[str, Guarantee]:
    """The first promise, of each release of the table."""
    promise = next(iter(file.guarantees.values()), None)
    return {} if promise is None else {f"release {k}": promise for k in range(1, file.releases + 1)}


TABLED = ("prior", "given", "invariant_ratio", "posterior", "ratio", "mean", "log_odds_factor")


def _grid(one: xr.DataArray) -> list[list[float | None]]:
    return [numbers(row) for row in one.values]


def _made(answer: Answer) -> dict[str, Any]:
    """What noise made for the margins promises: for the changes it was made for, and for all that may happen."""
    file = answer.file
    if file.made_for is None or not isinstance(file.mechanism, VectorNoise):
        return {}
    reach = min(answer.totals.semi_adjacency, MOST_RECORDS)
    rows, columns = file.invariants.margins.counts
    after = file.mechanism.under(sensitivity_space(rows, columns, max(reach, 1)))
    before = exact_guarantees.of_guarantee(file.mechanism.guarantee)
    one = {"made_for": file.made_for, "before": before, "after": exact_guarantees.of_guarantee(after)}
    return {"noise made for the margins": one}


def _costed(answer: Answer) -> dict[str, Any]:
    """Expected length of the noise, made for the margins and usual, for as many records as a(t)."""
    assert answer.costs is not None
    one = answer.costs.sel(adjacency=cost_records(answer))
    own = {str(name): float(one["own"].sel(mechanism=name)) for name in one["mechanism"].values}
    usual = {str(name): float(one["naive"].sel(baseline=name)) for name in one["baseline"].values}
    scales = {key: float(answer.costs.attrs[key]) for key in ("mu", "epsilon")}
    return {"records": cost_records(answer), **scales, "own": own, "usual": usual, "ratio": float(one["ratio"])}


def cost_records(answer: Answer) -> int:
    """Records of the changes whose noise is compared."""
    return int(np.clip(answer.totals.semi_adjacency, 2, MOST_RECORDS))


def show(found: Mapping[str, Any], features: Mapping[str, Any], console: Console) -> None:
    """The table and the costs of a summary."""
    one = found["table"]
    first, second = features
    after = "posterior" in one
    heads = ["before", "given the margins", "ratio", *["after the release", "ratio"] * after, "expected count"]
    made = table("Where an unknown record is", [first, second], heads)
    for i, row in enumerate(one["given"]):
        for j in range(len(row)):
            steps = ["prior", "given", "invariant_ratio", *["posterior", "ratio"] * after, "mean"]
            cells = [_cell(one[name][i][j], name) for name in steps]
            add(made, str(i + 1), str(j + 1), *cells)
    put(made, console)
    if "achieved" in one:
        made = table("How far the release moves the log odds of a cell (nats)", ["what"], ["value"])
        if one["naive"] is not None:
            add(made, "promise read for one record: no bound", above(one["naive"]))
        add(made, f"limit at this reader's k = {one['radius']}", above(one["odds_bound"]))
        add(made, "this release", above(one["achieved"]))
        put(made, console)
    if found["costs"] is not None:
        costs = found["costs"]
        called = f"Expected length of noise for changes of {costs['records']} records (people)"
        made = table(called, ["noise"], ["length"])
        for kind, text in (("own", "made for the margins"), ("usual", "usual")):
            for name, value in costs[kind].items():
                add(made, f"{text}: {name}", figure_of(value))
        put(made, console)


def _cell(x: float | None, name: str) -> str:
    if x is None:
        return UNRELIABLE if name != "ratio" else "–"
    return figure_of(x) if name in ("invariant_ratio", "ratio", "mean") else share(x)


def figures(answer: Answer) -> dict[str, Any]:
    """The figures of an answer by name; what there is nothing to draw of is left out."""
    from adversary.desk.figures import exact_figures

    first, second = answer.file.invariants.features
    drawn: dict[str, Any] = {}
    if answer.posterior.attrs["status"] != UNRELIABLE:
        drawn["table"] = exact_figures.table_beliefs(answer.posterior, (first, second))
    if answer.costs is not None:
        drawn["noise"] = exact_figures.noise_costs(answer.costs, cost_records(answer))
    return drawn


def data(answer: Answer) -> xr.DataTree:
    """The posterior, and the costs beside it."""
    plain = {key: int(value) if isinstance(value, bool) else value for key, value in answer.posterior.attrs.items()}
    groups = {"table": answer.posterior.assign_attrs(plain)}
    if answer.costs is not None:
        groups["costs"] = answer.costs
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    tree.attrs.update(title=answer.file.title or answer.file.path.name, source=answer.file.source, seed=SEED)
    return tree
