"""Dataset of a sweep's averages along its dims, with bounds of guarantees, and the extremes over one input."""

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
from adversary.driver.posteriors import MEASURES, Prior, ReleasePosteriors
from adversary.privacy import Guarantee, PrivacyUnit

from .sweep_inputs import SweptCase, SweptInput

TRUTHS = ("in", "out")
_BOUNDS = ("loss_bound", "outside", "bound_status", "bound")

# Status and diagnostics of a case whose posteriors are exact: a k-hat that is below that of any fit.
EXACT = {"status": "ok", "k_hat": -np.inf, "anew": 0.0}


@dataclass(frozen=True)
class SweepGuarantees:
    """Guarantees whose bounds are computed for every case of a sweep.

    Parameters
    ----------
    guarantees : by name
    failure : probability with which a bound that is not certain may fail
    records : number of privacy units in which a model's hypotheses differ
    unit : privacy unit for models without a plan
    """

    guarantees: Mapping[str, Guarantee]
    failure: float
    records: int = 1
    unit: PrivacyUnit | None = None

    def of_model(self, case: SweptCase, names: Sequence[str], posteriors: ReleasePosteriors) -> xr.Dataset:
        """Bounds for a model with these released variables."""
        if case.plan is None:
            noise = RecognisedNoise(case.adversary, tuple(names), self.unit)
            bounds = Bounds(noise, self.records, self.records, self.failure)
        else:
            bounds = Bounds(case.plan, *records_of_model(case.plan, self.records), self.failure)
        return self._named(bounds.table(dict(self.guarantees), posteriors.law, posteriors))

    def of_adversary(self, case: SweptCase, law: BayesFactorLaw, invariant: float, side: int) -> xr.Dataset:
        """Bounds for an `Adversary`, from the distribution of its log Bayes factor over releases.

        `invariant` is the log Bayes factor of the exact levels, in nats; `side` is 1 if the target is in, else 0.
        """
        base = float(expit(law.log_odds + invariant))
        prior, no_releases = Prior(law.log_odds, invariant, base), xr.DataArray(np.empty(0), dims="release")
        posteriors = ReleasePosteriors(xr.Dataset(), no_releases, xr.Dataset(), prior, side, 0, "")
        return self._named(
            Bounds.of(case.plan, case.adversary, self.failure).table(dict(self.guarantees), law, posteriors)
        )

    @staticmethod
    def _named(table: xr.Dataset) -> xr.Dataset:
        """Variables of group `bound` that a sweep has, under a sweep's names."""
        return table[["loss_bound", "outside", "status", "posterior"]].rename(status="bound_status", posterior="bound")


def sweep_summary(posteriors: ReleasePosteriors) -> xr.Dataset:
    """Averages of one case, their status, the largest k-hat, and the share of releases fitted by draws of their own.

    Parameters
    ----------
    posteriors : of one case
    """
    risk, posterior = posteriors.risk(), posteriors.posterior
    if "mcse" in risk:
        risk = risk.sel(measure=list(MEASURES))
    if not posteriors.sampled:
        return risk.assign({**EXACT, "status": risk["status"]})
    anew = float((posteriors.weight * posterior["anew"]).sum())
    return risk.assign(k_hat=float(posterior["k_hat"].max()), anew=anew)


def sweep_dataset(
    plan: Plan | None,
    adversary: Any,
    ranges: Sequence[SweptInput],
    priors: Floats | None,
    table: Mapping[tuple[int, ...], list[xr.Dataset]],
    reasons: Mapping[tuple[int, ...], str],
) -> xr.Dataset:
    """Result of a sweep: averages along one dim for each input, and dim truth.

    Parameters
    ----------
    plan, adversary : of the sweep
    ranges : swept inputs, a dim each
    priors : values along dim prior, or None
    table : averages at each prior, by the indices of the inputs' values and of the truth
    reasons : errors of impossible cases, by the same indices
    """
    outer, first = ([] if priors is None else ["prior"]), next(iter(table.values()))[0]
    dims = [*outer, *(one.dim for one in ranges), "truth"]
    shape = ([] if priors is None else [priors.size]) + [len(one.values) for one in ranges] + [2]
    simulated = any("mcse" in one for rows in table.values() for one in rows)
    direction = {"direction": "estimate" if simulated else "exact"}
    rows = {at if priors is None else (i, *at): one for at, every in table.items() for i, one in enumerate(every)}

    def column(name: str, missing: Any, otherwise: Any, **inner: int) -> tuple[Any, ...]:
        """A variable over all dims: `otherwise` if a case does not have it, `missing` if there is no case."""
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
    with_bounds = next((one for one in rows.values() if "bound" in one), None)
    if with_bounds is not None:
        inner = {dim: with_bounds.sizes[dim] for dim in ("definition", "side")}
        for name in _BOUNDS:
            missing = "" if name == "bound_status" else np.nan
            sizes = {dim: size for dim, size in inner.items() if dim in with_bounds[name].dims}
            variables[name] = column(name, missing, missing, **sizes)
        coords |= {dim: with_bounds[dim].values for dim in inner}
    possible = np.zeros(shape[len(outer) :], dtype=bool)
    for place in table:
        possible[place] = True
    coords |= {"quantile": list(QUANTILES)} | ({} if priors is None else {"prior": priors})
    coords |= {"measure": first["measure"].values} if simulated and "measure" in first.coords else {}
    result = xr.Dataset({**variables, "possible": (dims[len(outer) :], possible)}, coords=coords)
    if "rho" in result.dims and plan is not None:
        result = result.assign_coords(budget=("rho", result["rho"].values / plan.total_rho))
    return result.assign_attrs(base_values(plan, adversary), impossible="; ".join(reasons.values()))


def base_values(plan: Plan | None, adversary: Any) -> dict[str, Any]:
    """Attributes with the inputs' values in the base case."""
    values: dict[str, Any] = {"base_prior": adversary.prior} if isinstance(adversary, Adversary) else {}
    if plan is not None:
        values["base_rho"] = plan.total_rho
        if len(plan.levels) > 1:
            values["base_siblings"] = plan.levels[plan.own].siblings
    return values


def range_ends(base: xr.Dataset, swept: xr.Dataset, dim: str) -> xr.Dataset:
    """Least and largest value of every measure over an input's range, and the input's values there.

    Parameters
    ----------
    base : sweep without any input, the base case
    swept : sweep over one input
    dim : name of that input

    Returns
    -------
    Dataset over (truth, end) as `extremes` returns it, of one input
    """
    label = swept[dim].values
    variables: dict[str, Any] = {}
    errors = np.zeros((2, 3, len(MEASURES)))
    for number, name in enumerate(MEASURES):
        table = np.full((2, 3), np.nan)
        value_at_end = np.full((2, 3), "as it is", dtype=object)
        for i, truth in enumerate(TRUTHS):
            start = float(base[name].sel(truth=truth))
            values = swept[name].sel(truth=truth).values
            known = np.flatnonzero(np.isfinite(values))
            table[i] = start
            errors[i, :, number] = error_of(base.sel(truth=truth), name)
            if not np.isfinite(start) or not known.size:
                continue
            for end, arg_extreme, is_beyond in ((0, np.argmin, np.less), (2, np.argmax, np.greater)):
                position = known[arg_extreme(values[known])]
                if is_beyond(values[position], start):
                    table[i, end], value_at_end[i, end] = values[position], _text(label[position])
                    errors[i, end, number] = error_of(swept.sel(truth=truth).isel({dim: position}), name)
        variables[name] = (("truth", "end"), table)
        variables[f"at_{name}"] = (("truth", "end"), value_at_end.astype(str))
    variables["mcse"] = (("truth", "end", "measure"), errors)
    return xr.Dataset(variables, {"truth": list(TRUTHS), "end": ["low", "base", "high"], "measure": list(MEASURES)})


def error_of(one: xr.Dataset, measure: str) -> float:
    """Standard error of an average; 0 if nothing was simulated."""
    return float(np.nan_to_num(one["mcse"].sel(measure=measure))) if "mcse" in one else 0.0


def _text(value: Any) -> str:
    """An input's value as text; numbers with six digits."""
    return str(value) if isinstance(value, str) else f"{float(value):.6g}"
