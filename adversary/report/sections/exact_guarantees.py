"""Effect of exact statistics on guarantees: semi-adjacency, and every guarantee for one record and for a(t) records.

Nothing here depends on an adversary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import as_given, exactly, join_words
from adversary.adversaries.known_totals import ONE_FEATURE, ExactTotals
from adversary.privacy import Guarantee
from adversary.privacy.definitions import simple_epsilon
from adversary.privacy.invariants import LARGEST_COUNT, READINGS, compose_then_extend, extend_then_compose
from adversary.report.files import Published
from adversary.report.kit import Column, Figure, Section, Table, tabulate

# Deltas at which epsilon is shown.
DELTAS = (1e-5, 1e-10)

# Numbers of databases are written out up to 10 to this power, below which doubles hold whole numbers.
WRITTEN = 15
ORDERS = {"extend_then_compose": "each extended, then composed", "compose_then_extend": "composed, then extended"}
LISTED = ("published", "guarantees", "composition", "releases")
ABOVE = {"direction": "upper"}
GONE = "What is published exactly fixes every record: no privacy is left, whatever the noise."
PROVISO = (
    "The a(t) bound assumes a prior under which records are independent; for dependent priors use the bound for k "
    "records, the number in which an adversary's hypotheses differ."
)


@dataclass(frozen=True)
class GuaranteesWithTotals:
    """Guarantees of releases whose exact totals are published too.

    Parameters
    ----------
    published : exact margins, or None
    totals : what is published exactly
    pairs : (guarantee for one record, guarantee given the totals), by name
    releases : guarantees of the noisy releases, by name; fewer than two are not compared
    made_for : number of changed records for which noise was made that is made for the margins, or None
    """

    published: Published | None
    totals: ExactTotals
    pairs: Mapping[str, tuple[Guarantee, Guarantee]]
    releases: Mapping[str, Guarantee] = field(default_factory=dict)
    made_for: int | None = None

    def solve(self) -> dict[str, xr.Dataset]:
        """Groups `published`, `guarantees` (guarantee, when), `composition` (order) and `releases` (release)."""
        groups = {"published": _conforming_databases(self.published, self.totals)}
        if self.pairs:
            each = [_guarantee_numbers(pair, "when", ["before", "after"]) for pair in self.pairs.values()]
            joined = xr.concat(each, dim="guarantee", join="outer")
            groups["guarantees"] = _tidy(joined.assign_coords(guarantee=[*self.pairs]))
        if len(self.releases) > 1 and not self.totals.disclosed:
            parts, records = list(self.releases.values()), self.totals.records
            first, last = extend_then_compose(parts, records), compose_then_extend(parts, records)
            both = first, first if _same(first, last) else last
            groups["composition"] = _tidy(_guarantee_numbers(both, "order", list(ORDERS)))
            names = list(self.releases)
            groups["releases"] = _tidy(_named(parts, "release", names))
        return groups

    @property
    def verdict(self) -> str:
        """Sentence on the effect of the exact totals on the first guarantee."""
        if self.totals.disclosed:
            return GONE
        for name, before, after in self._parameter_texts():
            if self.made_for:
                return self._noise_words(name, before, after)
            records = self.totals.records
            return f"Beside exact totals, {name} with {before} for one record becomes {after} for {records} records."
        return f"Beside exact totals, up to {self.totals.semi_adjacency} records have to change together."

    def findings(self) -> Iterator[str]:
        """Sentences on the exact totals and on their effect on each guarantee."""
        totals = self.totals
        if totals.disclosed:
            yield GONE
            return
        features = [] if self.published is None else self.published.features
        margins = f"the margins of {join_words(features)}" if len(features) > 1 else "the margins"
        levels = join_words([f"the {name}'s count" for name in totals.levels])
        yield (
            f"Published exactly: {levels if levels and len(features) < 2 else margins}. Among databases consistent "
            f"with them, changing one record can require changing up to {totals.semi_adjacency} records in all "
            f"(semi-adjacency a(t) = {totals.semi_adjacency})."
        )
        for name, before, after in self._parameter_texts():
            if self.made_for:
                yield self._noise_words(name, before, after)
                continue
            yield (
                f"{name}: {before} for one record, {after} for {totals.records}. The former holds between consistent "
                "databases that differ in one record, in what is not counted exactly."
            )
        yield PROVISO

    def _parameter_texts(self) -> Iterator[tuple[str, str, str]]:
        """(name, parameters for one record, parameters given the totals) of every guarantee, as text."""
        for name, pair in self.pairs.items():
            before, after = (parameters_text(_parameters_of(one)) for one in pair)
            yield name, before, after

    def _noise_words(self, name: str, before: str, after: str) -> str:
        """Sentence on noise made for the margins: its guarantee for the changes it was made for, and for all."""
        records, made_for = self.totals.records, self.made_for or 0
        others = f", and {after} for all changes of {records}" if before != after else ""
        largest_change = made_for if others else max(made_for, records)
        return f"The {name} has {before} for changes of up to {largest_change} records that keep them{others}."

    def section(self, groups: Mapping[str, xr.Dataset], figures: Sequence[Figure] = ()) -> Section:
        """Section on the groups of `solve`."""
        finding, *paragraphs = self.findings()
        tables = [_semi_adjacency(groups["published"], self.totals)]
        if "guarantees" in groups:
            tables.append(_guarantees(groups["guarantees"], self.totals, self.made_for))
        if "composition" in groups:
            tables.append(_composition(groups["composition"], len(self.releases)))
        notes, one = [], groups["published"]
        if self.published is not None:
            many = f"{int(one['databases']):,}" if "databases" in one else f"10^{float(one['log10_databases']):.1f}"
            notes = [f"{many} {'database' if many == '1' else 'databases'} of {int(one['records']):,} records conform."]
        return Section("What exact totals do to the guarantee", finding, paragraphs, tables, [*figures], notes)


def _conforming_databases(published: Published | None, totals: ExactTotals) -> xr.Dataset:
    """Group `published`: both definitions of a(t), the number of conforming databases, and whether all are disclosed.

    Without margins only one published feature is known, which determines a(t) but not the number of databases.
    """
    data: dict[str, Any] = {
        "used": totals.semi_adjacency, "records_covered": totals.records, "disclosed": totals.disclosed,
    }  # fmt: skip
    limits, features = [(ONE_FEATURE, ONE_FEATURE)] * len(READINGS), {}
    if published is not None:
        margins, features = published.margins, published.named
        limits = [margins.limits(name) for name in READINGS]
        log10 = margins.log_databases / np.log(10.0) + 0.0
        data |= {"records": margins.n, "log10_databases": float(log10)}
        if margins.n <= LARGEST_COUNT and log10 < WRITTEN:
            data["databases"] = margins.databases
        counts = np.full((len(features), max(map(len, features.values()))), np.nan)
        for row, given in zip(counts, features.values(), strict=True):
            row[: len(given)] = given
        data["margin"] = (("feature", "category"), counts)
    data["semi_adjacency"] = (("reading", "side"), limits)
    at = {"reading": list(READINGS), "side": ["lower", "upper"]} | ({"feature": list(features)} if features else {})
    return xr.Dataset(data, at, {"reading": totals.reading, "levels": ", ".join(totals.levels)})


def _guarantee_numbers(guarantees: Sequence[Guarantee], dim: str, labels: Sequence[str]) -> xr.Dataset:
    """Dataset of guarantees along `dim`: parameters, largest loss, advantage, and epsilon at each delta."""
    rho = np.array([_parameters_of(one).get("rho", np.nan) for one in guarantees])
    simple = [[np.nan if np.isnan(r) else simple_epsilon(r, delta) for delta in DELTAS] for r in rho]
    numbers = _named(guarantees, dim, labels).assign_coords(delta=list(DELTAS))
    return numbers.assign(
        {
            "loss_bound": (dim, [float(one.loss_bound(0.0)) for one in guarantees], ABOVE),
            "advantage": (dim, [float(one.advantage) for one in guarantees], ABOVE),
            "epsilon": ((dim, "delta"), [[float(one.epsilon(delta)) for delta in DELTAS] for one in guarantees], ABOVE),
            "simple_epsilon": ((dim, "delta"), simple, ABOVE),
            "mu_if_gaussian": (dim, np.sqrt(2.0 * rho)),
        }
    )


def _named(guarantees: Sequence[Guarantee], dim: str, labels: Sequence[str]) -> xr.Dataset:
    """Dataset of the definitions and parameters of guarantees along `dim`."""
    given = [_parameters_of(one) for one in guarantees]
    symbols = list(dict.fromkeys(name for one in given for name in one))
    numbers = np.array([[one.get(name, np.nan) for name in symbols] for one in given])
    data = {"definition": (dim, [one.definition for one in guarantees]), "parameter": ((dim, "symbol"), numbers)}
    return xr.Dataset(data, {dim: list(labels), "symbol": symbols})


def _tidy(numbers: xr.Dataset) -> xr.Dataset:
    """The dataset without variables that are NaN for all guarantees."""
    return numbers.drop_vars(
        [name for name, one in numbers.items() if one.dtype.kind == "f" and bool(one.isnull().all())]
    )


def _parameters_of(guarantee: Guarantee) -> dict[str, float]:
    """Parameters of a guarantee by name, as floats."""
    return {name: float(x) for name, x in guarantee.parameters.items()}


def parameters_text(parameters_of: Mapping[str, float]) -> str:
    """Parameters in words."""
    return ", ".join(f"{name} = {exactly(float(f'{x:.6g}'))}" for name, x in parameters_of.items()) or "no privacy"


def _same(first: Guarantee, last: Guarantee) -> bool:
    """True if two guarantees have the same type and the same parameters, at least one."""
    one, other = _parameters_of(first), _parameters_of(last)
    alike = type(first) is type(last) and one.keys() == other.keys() and bool(one)
    return alike and bool(np.allclose(list(one.values()), list(other.values()), rtol=1e-12, atol=0.0))


def before_and_after(
    guarantees: Mapping[str, Guarantee] | None, totals: ExactTotals
) -> dict[str, tuple[Guarantee, Guarantee]]:
    """(guarantee for one record, guarantee for conforming databases that differ in a(t) records), by name."""
    return {name: (one.group(totals.each), totals.group_guarantee(one)) for name, one in (guarantees or {}).items()}


def _semi_adjacency(numbers: xr.Dataset, totals: ExactTotals) -> Table:
    """Table of a(t) under both definitions."""
    table = Table(["definition", Column("a(t)", "count"), "known", ""], name="semi_adjacency")
    for name in numbers["reading"].values:
        low, high = (int(end) for end in numbers["semi_adjacency"].sel(reading=name).values)
        known = "exactly" if low == high else f"as an upper bound; at least {low}"
        table.add(str(name), high, known, "used here" if name == totals.reading else "", marked=name == totals.reading)
    return table


def _guarantees(numbers: xr.Dataset, totals: ExactTotals, made_for: int | None) -> Table:
    """Table of every guarantee for one record and given the totals."""
    epsilons = [Column(f"epsilon at delta {as_given(delta)}", "at most") for delta in DELTAS]
    columns: list[Column | str] = ["guarantee", "for", "parameter", Column("largest loss", "at most"), *epsilons]
    simple = "simple_epsilon" in numbers
    more = [Column(f"simple epsilon at delta {as_given(DELTAS[-1])}", "at most"), Column("mu, if Gaussian", "number")]
    table = Table([*columns, *more * simple], name="guarantees")
    for name in numbers["guarantee"].values:
        for when, text in (
            ("before", f"{made_for} records, beside the totals" if made_for else "one record"),
            ("after", f"{totals.records or 'no'} records, beside the totals"),
        ):
            one = numbers.sel(guarantee=name, when=when)
            aids = [one["simple_epsilon"][-1], one["mu_if_gaussian"]] if simple else []
            table.add(str(name), text, _parameters(one), float(one["loss_bound"]), *map(float, one["epsilon"]), *(
                None if bool(aid.isnull()) else float(aid) for aid in aids
            ))  # fmt: skip
    return table


def _parameters(one: xr.Dataset) -> str:
    """Parameters of one guarantee of a dataset, in words."""
    if "parameter" not in one:
        return parameters_text({})
    given = {str(at["symbol"].item()): float(at) for at in one["parameter"]}
    return parameters_text({name: x for name, x in given.items() if not np.isnan(x)})


def _composition(numbers: xr.Dataset, releases: int) -> Table:
    """Table of several releases: each extended to a(t) records and then composed, and the other order."""
    at = {f"at {delta:g}": numbers["epsilon"].sel(delta=delta, drop=True) for delta in DELTAS}
    columns = {"order": "order", "advantage": ("advantage of the best test", "at most")} | {
        f"at {delta:g}": (f"epsilon at delta {as_given(delta)}", "at most") for delta in DELTAS
    }
    title, shown = f"{releases} releases beside the same totals", numbers[["advantage"]].assign(at)
    return tabulate(shown, columns, title=title, name="composition", called={"order": ORDERS})
