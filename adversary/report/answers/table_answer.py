"""Answer about a table of counts with exact margins: an adversary's posterior, and the cost of noise for it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import format_bound, format_number, percent
from adversary.adversaries.known_totals import ExactTotals, table_posterior
from adversary.driver import UNRELIABLE
from adversary.privacy import Guarantee, tolerated
from adversary.privacy.invariants import VectorNoise, compare_costs, sensitivity_space
from adversary.report import plot
from adversary.report.files import MOST_RECORDS, TableFile
from adversary.report.kit import Column, Figure, Section, Table, attempt, tabulate
from adversary.report.sections import exact_guarantees

# Seed of random walks over tables too many to list, so that a repeated run gives the same numbers.
SEED = 2020
MADE = "noise made for the margins"
LISTED = ("table", "moved", "costs")


def totals_of(file: TableFile) -> ExactTotals:
    """Exact totals of a table file: its margins."""
    margins = file.invariants.margins
    return ExactTotals((), margins.semi_adjacency, margins.exact, margins.reading, 1)


def solve(file: TableFile) -> dict[str, xr.Dataset]:
    """Groups of a table file: `table` (of `table_posterior`), `moved` and `costs` (of `compare_costs`).

    `moved` has the largest shift of a cell's log odds by the release, if there is one.
    """
    margins, made = file.invariants.margins, file.mechanism
    guarantee, released = _first_guarantee(file), file.released
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            posterior = table_posterior(
                margins,
                released,
                None if released is None else made,
                file.prior,
                known=file.known,
                guarantee=guarantee,
                failure=_failure(file),
                rng=SEED,
            )
    except ValueError as error:
        raise ValueError(f"{file.path}: {error}") from None
    plain = {key: int(x) if isinstance(x, bool) else x for key, x in posterior.attrs.items() if x is not None}
    counted = {} if "tables" not in plain else {"tables": plain["tables"]}
    groups = {"table": posterior.assign_attrs(plain).assign(counted)}
    if "posterior" in posterior and "odds_bound" in posterior:
        groups["moved"] = _odds_shift(file, posterior, guarantee)
    rows, columns = margins.counts
    if sensitivity_space(rows, columns, 2).rank:
        groups["costs"] = compare_costs(rows, columns, **_scales(file)).sel(adjacency=[_compared_records(file)])
    return groups


def _first_guarantee(file: TableFile) -> Guarantee | None:
    """The first guarantee of a file, None if its noise is made for the margins."""
    return next(iter(file.guarantees.values()), None)


def _failure(file: TableFile) -> float:
    """Failure probability of the bounds: 0 if the guarantee implies a certain one, else the file's."""
    one = _first_guarantee(file) or file.mechanism.guarantee  # type: ignore[union-attr]
    return 0.0 if np.isfinite(one.loss_bound(0.0)) else file.failure


def _scales(file: TableFile) -> dict[str, float]:
    """mu and epsilon of the file's guarantees, as arguments of `compare_costs`, whose default is 1."""
    every: list[Guarantee] = [*file.guarantees.values()]
    every += [file.mechanism.guarantee] if isinstance(file.mechanism, VectorNoise) else []
    single = [one.parameters for one in every if len(one.parameters) == 1]
    return {name: float(given[name]) for given in single for name in ("mu", "epsilon") if name in given}


def _compared_records(file: TableFile) -> int:
    """Number of changed records for which noise is compared: a(t), within 2 and `MOST_RECORDS`."""
    return int(np.clip(totals_of(file).semi_adjacency, 2, MOST_RECORDS))


def _odds_shift(file: TableFile, posterior: xr.Dataset, guarantee: Guarantee | None) -> xr.Dataset:
    """Largest shift of a cell's log odds by the release, and the bound for a single record (nats)."""
    moved, failure, above = posterior["log_odds_factor"].values, _failure(file), {"direction": "upper"}
    achieved = float(np.abs(moved[np.isfinite(moved)]).max(initial=0.0))
    data: dict[str, Any] = {"achieved": achieved, "failure": failure}
    if guarantee is not None:
        single = float(guarantee.loss_bound(failure))
        exceeded = bool(np.isfinite(single)) and achieved > tolerated(single)
        data |= {"single_record_bound": ((), single, above), "single_record_exceeded": exceeded}
    return xr.Dataset(data)


def guarantees_with_totals(file: TableFile) -> exact_guarantees.GuaranteesWithTotals:
    """Guarantees of a table file for one record and given the margins.

    For noise made for the margins they are for the changes it was made for, and for all changes.
    """
    totals, first = totals_of(file), _first_guarantee(file)
    guarantees = exact_guarantees.before_and_after(file.guarantees, totals)
    if file.made_for is not None and isinstance(file.mechanism, VectorNoise):
        largest_change = min(totals.semi_adjacency, MOST_RECORDS)
        rows, columns = file.invariants.margins.counts
        after = file.mechanism.under(sensitivity_space(rows, columns, max(largest_change, 1)))
        guarantees[MADE] = (file.mechanism.guarantee, after)
    releases = {} if first is None else {f"release {k}": first for k in range(1, file.releases + 1)}
    return exact_guarantees.GuaranteesWithTotals(file.invariants, totals, guarantees, releases, file.made_for)


def findings(file: TableFile, results: Mapping[str, xr.Dataset]) -> Iterator[str]:
    """Findings on the margins, on the release, and on the single-record bound, which does not apply."""
    one = results["table"]
    if one.attrs["status"] == UNRELIABLE:
        yield "The walk over tables did not converge, so no number is given."
        return
    ratios = one["invariant_ratio"].values
    ratios = ratios[np.isfinite(ratios) & (ratios > 0.0)]
    most = max(ratios.max(), 1.0 / ratios.min())
    yield (
        "The margins alone change the probability that a record is in a cell by a factor of up to "
        f"{format_number(most)}; "
        "no guarantee limits this."
    )
    if "moved" not in results:
        return
    moved, radius = results["moved"], int(one["radius"])
    if radius == 0:
        yield "With what the adversary knows, they settle where the record is: the noise hides nothing."
        return
    bound = float(one["odds_bound"])
    yield (
        "The noisy table moves the odds of a cell by a factor of up to "
        f"exp({format_number(float(moved['achieved']))}); "
        f"the guarantee allows exp({format_bound(bound, True)}), for this adversary's k = {radius} records."
        if np.isfinite(bound)
        else "No bound limits how far the noisy table may move the odds of a cell."
    )
    single = float(moved.get("single_record_bound", np.inf))
    if np.isfinite(single):
        passed = "exceeds" if bool(moved["single_record_exceeded"]) else "does not exceed"
        yield (
            f"For one record it would allow exp({format_bound(single, True)}): no bound here; this release {passed} it."
        )


def sections(file: TableFile, results: Mapping[str, xr.Dataset]) -> list[Section]:
    """Sections on the groups of `solve`."""
    made = [attempt("What the margins and the noisy table reveal", _revealed, file, results)]
    if "costs" in results:
        made.append(attempt("What the noise costs", _costs, file, results))
    return made


def _revealed(file: TableFile, results: Mapping[str, xr.Dataset]) -> Section:
    """Section on the posterior of a record's cell, and on the shift of its odds."""
    finding, *more = findings(file, results)
    tables = [_cells(file, results["table"]), *([_bounds(results)] if "moved" in results else [])]
    return Section(
        "What the margins and the noisy table reveal", finding, more, tables, table_figures(file, results)[:1]
    )


def _costs(file: TableFile, results: Mapping[str, xr.Dataset]) -> Section:
    """Section on the expected length of noise made for the margins, against the usual one."""
    costs = results["costs"].isel(adjacency=0)
    own, usual = float(costs["own"].sel(mechanism="gaussian")), float(costs["naive"].sel(baseline="gaussian"))
    sentence = f"Gaussian noise made for the margins is {percent(1.0 - own / usual)} shorter than the usual."
    drawn = table_figures(file, results)[1:]
    return Section("What the noise costs", sentence, tables=[_lengths(costs)], figures=drawn)


def _cells(file: TableFile, cells: xr.Dataset) -> Table:
    """Table of every cell: prior, probability given the margins, and posterior of an unknown record."""
    row, column = file.invariants.features
    columns = {
        "row": (row, "count"), "column": (column, "count"), "prior": ("prior", "probability"),
        "given": ("given the margins", "probability"), "invariant_ratio": ("ratio", "number"),
        "posterior": ("after the release", "probability"), "ratio": ("ratio given margins", "number"),
        "mean": ("expected count", "number"),
    }  # fmt: skip
    places = {dim: np.arange(1, cells.sizes[dim] + 1) for dim in ("row", "column")}
    title, absent = "Where an unknown record is", {"ratio": {None: "–"}}
    return tabulate(cells.assign_coords(places), columns, title=title, name="table", missing=UNRELIABLE, called=absent)


def _bounds(results: Mapping[str, xr.Dataset]) -> Table:
    """Table of the change of a cell's log odds: bounds, and that of the release."""
    table = Table(["change of the log odds of a cell (nats)", Column("at most", "at most")], name="moved")
    if "single_record_bound" in results["moved"]:
        table.add("guarantee applied to one record: no bound here", float(results["moved"]["single_record_bound"]))
    table.add(
        f"bound for this adversary's k = {int(results['table']['radius'])}", float(results["table"]["odds_bound"])
    )
    table.add("this release", float(results["moved"]["achieved"]))
    return table


def _lengths(costs: xr.Dataset) -> Table:
    """Table of the expected lengths of noise."""
    title = f"Expected length of noise for changes of {int(costs['adjacency'])} records (people)"
    kinds = (("own", "mechanism", "made for the margins"), ("naive", "baseline", "usual"))
    rows = [(f"{text}: {x}", float(costs[kind].sel({dim: x}))) for kind, dim, text in kinds for x in costs[dim].values]
    return Table(["noise", Column("length", "number")], [*rows], title=title, name="noise")


def table_figures(file: TableFile, results: Mapping[str, xr.Dataset]) -> list[Figure]:
    """Figures of the beliefs about the table, and of the cost of noise if the answer has it."""

    def table() -> Any:
        if results["table"].attrs["status"] == UNRELIABLE:
            raise ValueError("the walk over tables did not converge")
        return plot.table_beliefs(results["table"], file.invariants.features)

    def noise() -> Any:
        return plot.noise_costs(results["costs"].isel(adjacency=0))

    beliefs = "Probability that an unknown record is in each cell, before and after each step."
    lengths = "Expected length of the noise made for the margins, and of the usual kinds."
    return [Figure("table", table, beliefs), *[Figure("noise", noise, lengths)] * ("costs" in results)]
