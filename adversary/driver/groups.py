"""Further groups of an audit: the question they answer, their function and their title.

A further group is a function of a `Question` in the file that it belongs to, one line in that file's `GROUPS`, and
where people are to read it, a section in `report.sections`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan
from adversary.driver.posteriors import Groups
from adversary.driver.shared_laws import Cohort, SharedLaws

# A plan, with its adversaries and truths.
Alternative = tuple[Plan, Any, Mapping[str, Any]]


@dataclass(frozen=True)
class Question:
    """One plan, one adversary and one truth, about which groups are made.

    Parameters
    ----------
    laws : distributions of the log Bayes factor, each computed once, with all priors of the cohort
    plan, cohort, truth : of the audit
    counts : the truth as the user gave it, by level
    failure : probability with which a bound may fail
    alternatives : other plans by name, each with its adversary and truth
    profile : the largest tolerated ratio of posterior to prior, of (inclusion, value)
    """

    laws: SharedLaws
    plan: Plan
    cohort: Cohort
    truth: Truth
    counts: Mapping[str, Any]
    failure: float
    alternatives: Mapping[str, Alternative] = field(default_factory=dict)
    profile: Callable[[float, float], Any] | None = None

    @property
    def adversary(self) -> Adversary:
        """The first of the cohort, whose laws are those of all."""
        adversary: Adversary = self.cohort.adversary
        return adversary


class AuditGroup(NamedTuple):
    """A further group of results of an audit.

    Parameters
    ----------
    title : what people call it
    make : groups of the audit's tree by name; none where there is nothing to say
    shown : whether every audit has it, without being asked
    given : whether it has an argument of its own, and is made where that is given, whatever else is asked
    listed : groups of the tree whose numbers JSON lists; that of its own name where not given
    """

    title: str
    make: Callable[[Question], Groups]
    shown: bool = False
    given: bool = False
    listed: Sequence[str] | None = None


def side_by_side(parts: Mapping[Any, xr.Dataset], dim: str) -> xr.Dataset:
    """Datasets along a new dim, what only some of them have missing in the others.

    Parameters
    ----------
    parts : by the new dim's labels
    dim : its name

    >>> parts = {"in": xr.Dataset({"mean": 0.9}), "out": xr.Dataset({"mean": 0.1})}
    >>> side_by_side(parts, "truth")["mean"].sel(truth="out").item()
    0.1
    """
    return _joined(list(parts.values()), xr.DataArray(list(parts), dims=dim, name=dim))


def _joined(parts: list[xr.Dataset], dim: Any) -> xr.Dataset:
    """Datasets along a dim, numbers that are estimates in one of them said to be."""
    joined = xr.concat(
        parts,
        dim,
        data_vars="all",
        coords="minimal",
        compat="override",
        join="outer",
        fill_value={"status": "", "route": ""},
        combine_attrs="override",
    )
    for name, array in joined.items():
        if any(name in one and one[name].attrs.get("direction") == "estimate" for one in parts):
            array.attrs["direction"] = "estimate"
    return joined


def concat_groups(cases: list[tuple[Any, Groups]], dim: str) -> Groups:
    """Groups of several cases along a new dim; a single unnamed case stays as it is.

    A group that only some cases have is stacked over these. Readers of the same releases share one table of them.
    """
    if cases[0][0] is None:
        return cases[0][1]
    result = {}
    for group in dict.fromkeys(name for _, groups in cases for name in groups):
        parts = {str(name): groups[group] for name, groups in cases if group in groups}
        if group == "release" and dim not in ("truth", "plan") and _alike(list(parts.values())):
            result[group] = next(iter(parts.values()))
            continue
        parts = dict(zip(parts, _numbered(list(parts.values())), strict=True))
        for number in ("unreliable_mass", "edge_mass") if group == "risk" else ():  # exact ones have none
            if any(number in part for part in parts.values()):
                parts = {name: one if number in one else one.assign({number: 0.0}) for name, one in parts.items()}
        result[group] = _weighted(group, side_by_side(parts, dim))
    return result


def concat_cohorts(cases: list[tuple[Cohort, Groups]], order: Sequence[Any]) -> Groups:
    """Groups of the cohorts of an audit along the dim adversary, in which those of several adversaries are already.

    `order` has the names of all adversaries. `exact` has a row of log Bayes factors of each law where it has no
    posteriors.
    """
    if all(len(cohort.names) == 1 for cohort, _ in cases) and "log_bayes_factor" not in cases[0][1].get("exact", {}):
        return concat_groups([(cohort.names[0], groups) for cohort, groups in cases], "adversary")
    result = {}
    for group in dict.fromkeys(name for _, groups in cases for name in groups):
        parts = {cohort.names: groups[group] for cohort, groups in cases if group in groups}
        if group == "release" and _alike(list(parts.values())):
            result[group] = next(iter(parts.values()))
            continue
        every = _numbered([_along(part, names) for names, part in parts.items()])
        if len(every) == 1:
            joined = every[0]
        else:
            joined = _by_law(every) if "law" in every[0].dims else _joined(every, "adversary")
        names = [name for some in parts for name in some]
        place = {name: i for i, name in enumerate(names)}
        wanted = [place[name] for name in order if name in place]
        result[group] = _weighted(group, joined if wanted == sorted(wanted) else joined.isel(adversary=wanted))
    return result


def _alike(parts: list[xr.Dataset]) -> bool:
    """True of equal datasets: the cases then share one."""
    return all(part.equals(parts[0]) for part in parts[1:])


def _numbered(parts: list[xr.Dataset]) -> list[xr.Dataset]:
    """Datasets with their releases numbered where they have different numbers of them."""
    if len({part.sizes.get("release") for part in parts}) == 1:
        return parts
    return [part.assign_coords(release=np.arange(part.sizes["release"])) for part in parts]


def _weighted(group: str, joined: xr.Dataset) -> xr.Dataset:
    """A joined group; releases that a case does not have weigh nothing there."""
    return joined.assign(weight=joined["weight"].fillna(0.0)) if group == "release" else joined


def _along(group: xr.Dataset, names: Sequence[Any]) -> xr.Dataset:
    """A group with every number of each adversary, but for what is of their law."""
    values = {}
    for name, array in group.data_vars.items():
        alone = "adversary" not in array.dims and "law" not in array.dims
        values[name] = (
            array.expand_dims(adversary=len(names)).copy()
            if alone
            else array.transpose("adversary", "law", ..., missing_dims="ignore")
        )
    coords = {**group.coords, "adversary": list(map(str, names))}
    return xr.Dataset(values, coords, group.attrs)


def _by_law(parts: list[xr.Dataset]) -> xr.Dataset:
    """Log Bayes factors of several laws, and of each adversary the law it has."""
    factors = xr.concat(
        [one[["log_bayes_factor"]] for one in parts],
        "law",
        join="outer",
        coords="minimal",
        compat="override",
        combine_attrs="override",
    )
    rest = [one.drop_vars("log_bayes_factor").assign(law_index=one["law_index"] + i) for i, one in enumerate(parts)]
    return _joined(rest, "adversary").merge(factors, combine_attrs="override")
