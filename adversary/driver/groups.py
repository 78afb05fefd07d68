"""Further groups of an audit: their inputs, their declaration, and the joining of groups of several cases.

To add one, write a function of a `Question` that returns groups by name, one line in `GROUPS` of its file, and, if
it is to be shown, a section in `report.sections`.
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

# Another plan, with its adversary and truth, or mappings of names to several of them.
Alternative = tuple[Plan, Any, Mapping[str, Any]]


@dataclass(frozen=True)
class Question:
    """Inputs of a further group: one plan, one cohort of adversaries and one truth.

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
    title : name for people
    make : function of a `Question` that returns groups of the audit's tree by name, none if they do not apply
    shown : whether every audit has it by default
    given : whether it has an argument of its own in `audit`, and is computed whenever that is given
    listed : groups of the tree whose numbers JSON lists; by default that of its own name
    """

    title: str
    make: Callable[[Question], Groups]
    shown: bool = False
    given: bool = False
    listed: Sequence[str] | None = None


def side_by_side(parts: Mapping[Any, xr.Dataset], dim: str) -> xr.Dataset:
    """Concatenate datasets along a new dim; variables that only some have are missing values in the others.

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
    """Concatenate datasets along a dim; a variable that is an estimate in one of them is marked as an estimate."""
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
    """Groups of several cases joined along a new dim; a single case with the name None stays as it is.

    A group that only some cases have is joined over these. Adversaries with the same releases share one table of them.
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
        # exact cases lack these, and have none of that mass
        for number in ("unreliable_mass", "edge_mass") if group == "risk" else ():
            if any(number in part for part in parts.values()):
                parts = {name: one if number in one else one.assign({number: 0.0}) for name, one in parts.items()}
        result[group] = _weighted(group, side_by_side(parts, dim))
    return result


def concat_cohorts(cases: list[tuple[Cohort, Groups]], order: Sequence[Any]) -> Groups:
    """Groups of an audit's cohorts joined along dim `adversary`, which groups of several adversaries have already.

    `order` are the names of all adversaries. If `exact` has log Bayes factors instead of posteriors, it gets one row of
    them for each cohort.
    """
    if all(len(cohort.names) == 1 for cohort, _ in cases) and "log_bayes_factor" not in cases[0][1].get("exact", {}):
        return concat_groups([(cohort.names[0], groups) for cohort, groups in cases], "adversary")
    result = {}
    for group in dict.fromkeys(name for _, groups in cases for name in groups):
        parts = {cohort.names: groups[group] for cohort, groups in cases if group in groups}
        if group == "release" and _alike(list(parts.values())):
            result[group] = next(iter(parts.values()))
            continue
        numbered = _numbered([_along(part, names) for names, part in parts.items()])
        if len(numbered) == 1:
            joined = numbered[0]
        else:
            joined = _by_law(numbered) if "law" in numbered[0].dims else _joined(numbered, "adversary")
        names = [name for some in parts for name in some]
        place = {name: i for i, name in enumerate(names)}
        order_of_cases = [place[name] for name in order if name in place]
        result[group] = _weighted(
            group, joined if order_of_cases == sorted(order_of_cases) else joined.isel(adversary=order_of_cases)
        )
    return result


def _alike(parts: list[xr.Dataset]) -> bool:
    """True if all datasets are equal, so that the cases can share one."""
    return all(part.equals(parts[0]) for part in parts[1:])


def _numbered(parts: list[xr.Dataset]) -> list[xr.Dataset]:
    """Datasets with coordinates for their releases if these differ in number, as joining them then needs."""
    if len({part.sizes.get("release") for part in parts}) == 1:
        return parts
    return [part.assign_coords(release=np.arange(part.sizes["release"])) for part in parts]


def _weighted(group: str, joined: xr.Dataset) -> xr.Dataset:
    """Joined group; if it is `release`, with weight 0 for releases that a case does not have."""
    return joined.assign(weight=joined["weight"].fillna(0.0)) if group == "release" else joined


def _along(group: xr.Dataset, names: Sequence[Any]) -> xr.Dataset:
    """Group with dim `adversary` in every variable; log Bayes factors, which the cohort shares, keep dim `law`."""
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
    """Group `exact` of several cohorts: log Bayes factors (law, release), and each adversary's index into them."""
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
