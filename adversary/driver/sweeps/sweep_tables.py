"""Summaries of a sweep laid out along its dims, with bounds beside them, and the ends of its ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import Floats
from adversary.adversaries.path import Adversary
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk import QUANTILES, BayesFactorLaw
from adversary.driver.case import Bounds
from adversary.driver.model_case import RecognisedNoise, records_of_model
from adversary.driver.posteriors import MEASURES, Prior, Readings
from adversary.privacy import Guarantee, PrivacyUnit

from .sweep_inputs import Range, SweptCase

TRUTHS = ("in", "out")
_BOUNDS = ("loss_bound", "outside", "bound_status", "bound")
EXACT = {"status": "ok", "k_hat": -np.inf, "anew": 0.0}


@dataclass(frozen=True)
class Promised:
    """Guarantees that stand beside every average of a sweep.

    Parameters
    ----------
    guarantees : by name
    failure : probability with which a bound that is not certain may fail
    records : of a model, privacy units in which its hypotheses differ
    unit : of a model without a plan, whose data a guarantee protects
    """

    guarantees: Mapping[str, Guarantee]
    failure: float
    records: int = 1
    unit: PrivacyUnit | None = None

    def of_model(self, case: SweptCase, names: Sequence[str], readings: Readings) -> xr.Dataset:
        """Bounds of a model that reads the releases of these names."""
        if case.plan is None:
            noise = RecognisedNoise(case.adversary, tuple(names), self.unit)
            bounds = Bounds(noise, self.records, self.records, self.failure)
        else:
            bounds = Bounds(case.plan, *records_of_model(case.plan, self.records), self.failure)
        return self._named(bounds.table(dict(self.guarantees), readings.law, readings))

    def of_adversary(self, case: SweptCase, law: BayesFactorLaw, invariant: float, side: int) -> xr.Dataset:
        """Bounds of an `Adversary`, by the law of the log Bayes factor."""
        base = float(expit(law.log_odds + invariant))
        prior, none = Prior(law.log_odds, invariant, base), xr.DataArray(np.empty(0), dims="release")
        readings = Readings(xr.Dataset(), none, xr.Dataset(), prior, side, 0, "")
        return self._named(
            Bounds.of(case.plan, case.adversary, self.failure).table(dict(self.guarantees), law, readings)
        )

    @staticmethod
    def _named(table: xr.Dataset) -> xr.Dataset:
        """The columns that a sweep has."""
        return table[["loss_bound", "outside", "status", "posterior"]].rename(status="bound_status", posterior="bound")


def summary_of(readings: Readings) -> xr.Dataset:
    """Averages, their status, the largest k-hat and the share of releases whose draws were made anew.

    Parameters
    ----------
    readings : of one case
    """
    risk, posterior = readings.risk(), readings.posterior
    if "mcse" in risk:
        risk = risk.sel(measure=list(MEASURES))
    if not readings.sampled:
        return risk.assign({**EXACT, "status": risk["status"]})
    anew = float((readings.weight * posterior["anew"]).sum())
    return risk.assign(k_hat=float(posterior["k_hat"].max()), anew=anew)


def laid_out(
    plan: Plan | None,
    adversary: Any,
    ranges: Sequence[Range],
    priors: Floats | None,
    table: Mapping[tuple[int, ...], list[xr.Dataset]],
    why: Mapping[tuple[int, ...], str],
) -> xr.Dataset:
    """Summaries laid out along the named dims.

    Parameters
    ----------
    plan, adversary : of the sweep
    ranges : inputs that change, a dim each
    priors : a dim too, or None
    table : summaries by the places of the inputs
    why : what went wrong, by the same places
    """
    outer, first = ([] if priors is None else ["prior"]), next(iter(table.values()))[0]
    dims = [*outer, *(one.dim for one in ranges), "truth"]
    shape = ([] if priors is None else [priors.size]) + [len(one.values) for one in ranges] + [2]
    simulated = any("mcse" in one for rows in table.values() for one in rows)
    direction = {"direction": "estimate" if simulated else "exact"}
    rows = {at if priors is None else (i, *at): one for at, every in table.items() for i, one in enumerate(every)}

    def column(name: str, missing: Any, otherwise: Any, **inner: int) -> tuple[Any, ...]:
        """A variable at every place, `otherwise` where a summary is without it and `missing` where there is none."""
        values = np.full([*shape, *inner.values()], missing, dtype="<U10" if missing == "" else np.float64)
        for place, one in rows.items():
            values[place] = one[name].values if name in one else otherwise
        return [*dims, *inner], values

    variables: dict[str, Any] = {name: (*column(name, np.nan, 0.0), direction) for name in MEASURES}
    variables |= {
        name: (*column(name, np.nan, 0.0, quantile=len(QUANTILES)), direction)
        for name in ("posterior_quantile", "ratio_quantile")
    }
    if simulated:
        variables["mcse"] = *column("mcse", np.nan, 0.0, measure=len(MEASURES)), direction
    if any("status" in one for one in rows.values()):
        variables |= {name: column(name, "" if name == "status" else np.nan, EXACT[name]) for name in EXACT}
    coords: dict[str, Any] = {one.dim: list(one.values) for one in ranges} | {"truth": list(TRUTHS)}
    bounded = next((one for one in rows.values() if "bound" in one), None)
    if bounded is not None:
        inner = {dim: bounded.sizes[dim] for dim in ("definition", "side")}
        for name in _BOUNDS:
            missing = "" if name == "bound_status" else np.nan
            sizes = {dim: size for dim, size in inner.items() if dim in bounded[name].dims}
            variables[name] = column(name, missing, missing, **sizes)
        coords |= {dim: bounded[dim].values for dim in inner}
    possible = np.zeros(shape[len(outer) :], dtype=bool)
    for place in table:
        possible[place] = True
    coords |= {"quantile": list(QUANTILES)} | ({} if priors is None else {"prior": priors})
    coords |= {"measure": first["measure"].values} if simulated and "measure" in first.coords else {}
    result = xr.Dataset({**variables, "possible": (dims[len(outer) :], possible)}, coords=coords)
    if "rho" in result.dims and plan is not None:
        result = result.assign_coords(budget=("rho", result["rho"].values / plan.total_rho))
    return result.assign_attrs(base_values(plan, adversary), impossible="; ".join(why.values()))


def base_values(plan: Plan | None, adversary: Any) -> dict[str, Any]:
    """Values of the inputs where they are not swept."""
    values: dict[str, Any] = {"base_prior": adversary.prior} if isinstance(adversary, Adversary) else {}
    if plan is not None:
        values["base_rho"] = plan.total_rho
        if len(plan.levels) > 1:
            values["base_siblings"] = plan.levels[plan.own].siblings
    return values


def ends(base: xr.Dataset, swept: xr.Dataset, dim: str) -> xr.Dataset:
    """Least and largest value of every measure over an input's range, and where they are.

    Parameters
    ----------
    base : the case as it is
    swept : over one input
    dim : name of that input
    """
    label = swept[dim].values
    variables: dict[str, Any] = {}
    errors = np.zeros((2, 3, len(MEASURES)))
    for number, name in enumerate(MEASURES):
        table = np.full((2, 3), np.nan)
        where = np.full((2, 3), "as it is", dtype=object)
        for i, truth in enumerate(TRUTHS):
            start = float(base[name].sel(truth=truth))
            over = swept[name].sel(truth=truth).values
            known = np.flatnonzero(np.isfinite(over))
            table[i] = start
            errors[i, :, number] = error_of(base.sel(truth=truth), name)
            if not np.isfinite(start) or not known.size:
                continue
            for end, pick, better in ((0, np.argmin, np.less), (2, np.argmax, np.greater)):
                at = known[pick(over[known])]
                if better(over[at], start):
                    table[i, end], where[i, end] = over[at], _text(label[at])
                    errors[i, end, number] = error_of(swept.sel(truth=truth).isel({dim: at}), name)
        variables[name] = (("truth", "end"), table)
        variables[f"at_{name}"] = (("truth", "end"), where.astype(str))
    variables["mcse"] = (("truth", "end", "measure"), errors)
    return xr.Dataset(variables, {"truth": list(TRUTHS), "end": ["low", "base", "high"], "measure": list(MEASURES)})


def error_of(one: xr.Dataset, measure: str) -> float:
    """The standard error of an average; 0 where nothing was simulated."""
    return float(np.nan_to_num(one["mcse"].sel(measure=measure))) if "mcse" in one else 0.0


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{float(value):.6g}"
