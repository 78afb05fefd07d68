"""Posteriors of many releases, however they were found, and what they average to.

A table of releases becomes a law of log Bayes factors, and that the risk group of an audit. Where posteriors are Monte
Carlo estimates, averages carry the error of the fits as well as that of simulated releases; where a fit failed, they
are the word "unreliable" instead of a number, and bounds that leave that release open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr

from adversary._core import Floats, logit, posterior_ratio, scalar_or_array
from adversary.adversaries.path import Truth
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk import NOTHING, BayesFactorLaw, DiscretePart, release_table, risk_summary
from adversary.privacy import tolerated

UNRELIABLE = "unreliable"
"""Status of a fit, or of an average over fits, that stands for no number."""

# Share of an average's error up to which releases without an answer are part of that error.
NEGLIGIBLE = 0.1
# Use of NUTS, by engine; the other engines enumerate.
NUTS = {"importance": "where needed", "mcmc": "always"}
# Diagnostics of a fit, with what the worst of many is.
WORST = {"r_hat": np.max, "ess": np.min, "divergences": np.max}

MEASURES = ("posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass")

if TYPE_CHECKING:
    Groups = dict[str, xr.Dataset]
else:
    # to say more of it would import xarray before a file is read
    Groups = dict


@dataclass(frozen=True)
class Prior:
    """Prior of the target before the noisy levels are read.

    Parameters
    ----------
    log_odds : of the target, before the release; (adversary,) of several
    invariant : log Bayes factor of the exact levels
    base : probability of the target given these; (adversary,) of several
    error : Monte Carlo standard error of `base`, 0 where it is exact
    """

    log_odds: Any
    invariant: float
    base: Any
    error: float = 0.0

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims of what depends on the prior: none, or ("adversary",) of several."""
        return ("adversary",) * np.ndim(self.log_odds)

    @classmethod
    def from_chances(cls, before: tuple[float, float], settled: tuple[float, float]) -> Prior:
        """From (probability, its error) before the release, and given the exact levels."""
        start, there = float(logit(before[0])), float(logit(settled[0]))
        return cls(start, 0.0 if start == there or np.isinf(start) else there - start, *settled)


@dataclass(frozen=True)
class Readings:
    """Posteriors of many releases of one truth.

    Parameters
    ----------
    release, weight : the releases, and the share of each under the truth
    posterior : per release `posterior`, `log_odds` and `ratio`, and what else is known of each; or `log_bayes_factor`
        (law, release) alone, with `law_index` and `prior_log_odds` of each adversary
    prior : what was held before
    target : whether the target is in, in truth
    draws : simulated releases the weights stand for, 0 where they are exact
    method : how the posteriors were found
    groups : draws, by the names of their groups; with any, posteriors are estimates with `mcse` and `status`
    advice : what to do where a fit failed
    """

    release: xr.Dataset
    weight: xr.DataArray
    posterior: xr.Dataset
    prior: Prior
    target: int
    draws: int
    method: str
    groups: Groups = field(default_factory=dict)
    advice: str = ""

    @property
    def sampled(self) -> bool:
        """True where the posteriors are Monte Carlo estimates."""
        return "status" in self.posterior

    @property
    def edge_mass(self) -> float:
        """Average probability that a latent is at or beyond the ends of the values given for it; 0 without any."""
        return float((self.weight * self.posterior["edge_mass"]).sum(skipna=False)) if self._has_edges else 0.0

    @property
    def _has_edges(self) -> bool:
        return "edge_mass" in self.posterior

    @property
    def cut_short(self) -> bool:
        """True where the values given for latents leave out more than can be neglected, or nobody knows how much."""
        from adversary.models.enumeration import LARGEST_EDGE

        return not self.edge_mass <= LARGEST_EDGE

    @property
    def failed(self) -> float:
        """Share of the releases whose fit failed: all of them where a support is too short."""
        if self._has_edges and self.cut_short:
            return 1.0
        bad = self.posterior["status"].values == UNRELIABLE if self.sampled else np.zeros(self.weight.shape, dtype=bool)
        return float(self.weight.values[bad].sum())

    @property
    def law(self) -> BayesFactorLaw:
        """Law of the log Bayes factor over these releases, those without an answer left out."""
        start, odds = self.prior.log_odds, self.posterior["log_odds"].values
        known = ~np.isnan(odds)
        factor = odds[known] - start if np.isfinite(start) else np.zeros(int(known.sum()))
        weight = self.weight.values[known]
        table = DiscretePart(factor, weight / weight.sum()) if factor.size else NOTHING
        return BayesFactorLaw(start, self.target, NOTHING, table, self.draws, 1.0, False)

    def reached(self, failure: float) -> float:
        """Smallest e that log odds move by more than, from the exact levels on, in at most that share of releases."""
        size = np.abs(np.nan_to_num(self._moved, posinf=np.inf, neginf=-np.inf))
        order = np.argsort(-size, kind="stable")
        beyond = np.cumsum(self.weight.values[order])
        place = int(np.searchsorted(beyond, tolerated(failure, 1e-15), side="right"))
        return np.nan if self.failed else float(size[order][min(place, size.size - 1)])

    @property
    def _moved(self) -> Floats:
        """Log Bayes factor of every release from the exact levels on; 0 for who is certain before."""
        start = np.ravel(logit(self.prior.base))[0]
        if np.isinf(start):
            return np.zeros(self.weight.size)
        if "log_bayes_factor" in self.posterior:
            return np.asarray(self.posterior["log_bayes_factor"].values[0] - self.prior.invariant)
        return np.asarray(self.posterior["log_odds"].values.reshape(-1, self.weight.size)[0] - start)

    def clearly_outside(self, limits: tuple[float, float]) -> tuple[float, float]:
        """(share of releases whose posterior lies beyond these limits by more than three errors, its own error)."""
        posterior = self.posterior["posterior"].values
        slack = 3.0 * (self.posterior["mcse"].values + self.prior.error) + 1e-12
        with np.errstate(invalid="ignore"):
            beyond = (posterior - slack > limits[1]) | (posterior + slack < limits[0])
        share = min(float(self.weight.values[beyond].sum()), 1.0)
        return share, float(np.sqrt(share * (1.0 - share) / self.draws)) if self.draws else 0.0

    def described(self) -> xr.Dataset:
        """Posteriors with the target's pmf; ratios from the prior given exact levels, `invariant_ratio` to there."""
        prior, result = self.prior, self.posterior.assign_attrs(method=self.method)
        if prior.invariant:
            ratio = scalar_or_array(posterior_ratio(expit(prior.log_odds), prior.invariant))
            result["invariant_ratio"] = prior.dims, ratio
        if "log_bayes_factor" in result:
            return result
        chance = result["posterior"]
        pmf = np.stack([1.0 - chance, chance], axis=-1)
        result = result.assign(pmf=((*chance.dims, "target"), pmf)).assign_coords(target=["out", "in"])
        if not prior.invariant:
            return result
        odds, start, base = result["log_odds"].values, *map(_by_release, (prior.log_odds, prior.base))
        settled = np.isinf(prior.invariant) or np.any(np.isinf(start))
        since = np.zeros_like(odds) if settled else odds - start - prior.invariant
        return result.assign(ratio=(chance.dims, posterior_ratio(base, since)))

    def risk(self) -> xr.Dataset:
        """The risk group; with draws, its errors are of releases and of fits. `status` says whether it stands."""
        summary = risk_summary(self.law, self.prior.invariant, self.prior.base)
        if self.sampled:
            summary = self._with_errors(summary)
        if self._has_edges:
            kind = {"direction": "estimate" if self.sampled or self.draws else "exact"}
            summary["edge_mass"] = (), self.edge_mass, kind | self.posterior["edge_mass"].attrs
        return self._with_status(summary) if self.sampled or self.failed else summary.assign(status="ok")

    def diagnostics(self) -> xr.Dataset:
        """Of sampled posteriors: releases, how many failed and their share, and the worst of each diagnostic."""
        weighted = self.weight.values > 0
        failed = self.posterior["status"].values[weighted] == UNRELIABLE
        # but for what the table of releases leaves out
        share = 1.0 if failed.all() else self.failed
        diagnostics = {
            "releases": int(weighted.sum()),
            "unreliable_releases": int(failed.sum()),
            "unreliable_mass": share,
        }
        for name, worst in WORST.items():
            values = self.posterior[name].values[weighted] if name in self.posterior else np.empty(0)
            if (values := values[np.isfinite(values)]).size:
                diagnostics[name] = worst(values)
        return xr.Dataset(diagnostics, attrs={"method": self.method})

    def _with_errors(self, summary: xr.Dataset) -> xr.Dataset:
        """Monte Carlo errors of simulated releases, of the fits and of the prior, in quadrature.

        Releases that share draws err together: their errors add up as they are.
        """
        weight, mcse = self.weight.values, self.posterior["mcse"].values
        posterior, base = self.posterior["posterior"].values, self.prior.base
        with np.errstate(divide="ignore", invalid="ignore"):
            # that more draws would turn a decision
            wrong = ndtr(-np.abs(posterior - 0.5) / mcse)
        alone = np.isfinite(self.posterior.get("r_hat", np.nan * self.weight).values)
        noise, turned = (
            np.hypot(np.sqrt(np.nansum((weight * error)[alone] ** 2)), np.nansum((weight * error)[~alone]))
            for error in (mcse, np.sqrt(np.nan_to_num(wrong * (1.0 - wrong))))
        )
        of_ratio = np.hypot(noise, summary["ratio_mean"].item() * self.prior.error) / base if base > 0 else np.inf
        fits = np.array([noise, of_ratio, np.hypot(noise, self.prior.error), turned, turned])
        releases = summary["mcse"].values if "mcse" in summary else np.zeros(fits.size)
        errors = np.append(np.hypot(fits, releases), self.prior.error)
        result = summary.drop_vars(["mcse", "measure"], errors="ignore")
        result = result.assign(mcse=("measure", errors)).assign_coords(measure=[*MEASURES, "prior"])
        for name in result.data_vars:
            exact = name == "prior" and not self.prior.error
            result[name].attrs["direction"] = "exact" if exact else "estimate"
        return result

    def _with_status(self, summary: xr.Dataset) -> xr.Dataset:
        """With its status, and bounds in which a release whose fit failed may be anything.

        No numbers where such releases could move the averages by more than a tenth of their errors, which count them.
        """
        failed, bounds = self.failed, self._failure_bounds(summary)
        error = summary["mcse"].sel(measure="posterior_mean").item() if "mcse" in summary else 0.0
        negligible = failed <= NEGLIGIBLE * error
        if failed and negligible:
            moved = failed * np.array([1.0, 1.0 / self.prior.base, 1.0, 1.0, 1.0, 0.0])
            summary = summary.assign(mcse=summary["mcse"] + xr.DataArray(moved, dims="measure"))
        elif failed:
            known = {"edge_mass"} if self._has_edges and self.cut_short else {"prior", "invariant_ratio", "edge_mass"}
            blank = {n: xr.full_like(summary[n], np.nan) for n in summary if n not in known}
            if "prior" in known and "mcse" in blank:
                blank["mcse"][{"measure": -1}] = self.prior.error
            summary = summary.assign(blank)
            summary = summary.assign_attrs(reason=self._reason(failed))
        status = "ok" if negligible else UNRELIABLE
        return summary.assign(status=status, unreliable_mass=failed).assign(bounds)

    def _reason(self, failed: float) -> str:
        """Words for an average that has no number."""
        if self._has_edges and self.cut_short:
            unknown = self.posterior["edge_mass"].attrs.get("not_checked")
            of = f"of {unknown} is not known" if unknown else f"is {self.edge_mass:.3g}, and may be 1e-06"
            return f"the probability at or beyond the ends of the values in support {of}: give a wider support"
        return f"fits of releases with a share of {failed:.3g} failed ({self.method}): {self.advice}"

    def _failure_bounds(self, summary: xr.Dataset) -> dict[str, tuple[str, Floats, dict[str, str]]]:
        """`lower` and `upper` (measure): averages in which the posterior of a failed release is anything in [0, 1]."""
        failed, base = self.failed, self.prior.base
        least = np.array([summary[name].item() if failed < 1.0 else 0.0 for name in MEASURES])
        least[[0, 3, 4]] *= 1.0 - failed
        most = least.copy()
        most[[0, 3, 4]] += failed
        for ends, at_zero in ((least, least[1]), (most, np.inf if failed else most[1])):
            # ratio and difference are those of the mean posterior
            ends[1] = ends[0] / base if base > 0 else at_zero
            ends[2] = ends[0] - base
        return {
            name: ("measure", np.append(ends, summary["prior"].item()), {"direction": name})
            for name, ends in (("lower", least), ("upper", most))
        }


def _by_release(prior: Any) -> Any:
    """A number of each adversary, beside releases."""
    return np.asarray(prior)[..., None]


def posterior_dataset(prior: float, present: Floats, out: Floats) -> xr.Dataset:
    """`posterior`, `log_odds` and `ratio` from P(target = 1 | release) and P(target = 0 | release)."""
    with np.errstate(divide="ignore"):
        odds = np.log(present) - np.log(out)
    factor = odds - float(logit(prior)) if 0 < prior < 1 else np.where(np.isnan(odds), np.nan, 0.0)
    values = {"posterior": present, "log_odds": odds, "ratio": posterior_ratio(prior, factor)}
    return xr.Dataset({name: ("release", value) for name, value in values.items()})


def read_releases(
    model: Any,
    side: int,
    release: xr.Dataset,
    weight: xr.DataArray,
    data: Mapping[str, NDArray[Any]],
    size: int,
    *,
    target: str = "in",
    support: Mapping[str, ArrayLike],
    settled: Sequence[str] = (),
    nuts: str | None = None,
    prior: Prior | None = None,
    **how: Any,
) -> Readings:
    """Posteriors of a model from releases (release, *shape) by name: by enumeration, or by `fit_many` as `nuts` says.

    side : of the truth; size : simulated releases, where they are not listed; prior : the model's own unless given
    """
    simulated = 0 if weight.attrs["direction"] == "exact" else size
    if nuts is not None:
        from adversary.models.fitting import LONG, fit_many

        fits = fit_many(model, data, target, nuts=nuts, support=support, settled=settled, **how)
        answer, held = fits.estimate, prior or Prior.from_chances(fits.before, fits.settled)
        start = float(expit(held.log_odds))
        posterior = posterior_dataset(start, answer["posterior"].values, answer["complement"].values)
        posterior = posterior.assign(answer.drop_vars(["posterior", "complement"]))
        posterior = posterior.assign(edge_mass=_edges(model, support, fits.groups, weight.size))
        if fits.expected >= LONG:
            posterior = posterior.assign_attrs(expected_seconds=round(fits.expected, 1))
        return Readings(release, weight, posterior, held, side, simulated, fits.method, fits.groups, fits.advice)
    from adversary.models.enumeration import compile_enumerator

    run = compile_enumerator(model, list(data), target, support)
    values = run.targets[0].values
    if not np.isin(values, (0, 1)).all():
        raise ValueError(f"target {target!r} must be 0 or 1, it takes the values {values[:10].tolist()}")
    answer = run(data)
    chances = [answer["probability"].reindex({target: [value]}, fill_value=0.0) for value in (1, 0)]
    before = after = float(answer["prior"].values.ravel()[0])
    if settled:
        given = compile_enumerator(model, list(data), target, support, settled)
        after = float(given({name: array[:1] for name, array in data.items()})["prior"].values.ravel()[0])
    posterior = posterior_dataset(before, *(chance.values.ravel() for chance in chances))
    posterior = posterior.assign(edge_mass=("release", answer["edge_mass"].values))
    held = prior or Prior.from_chances((before, 0.0), (after, 0.0))
    return Readings(release, weight, posterior, held, side, simulated, "enumeration of the model")


def _edges(model: Any, support: Mapping[str, ArrayLike], groups: Groups, size: int) -> xr.DataArray:
    """Probability at or beyond the ends of a support, of each release, from the draws of its fit; 0 without one."""
    from adversary.models.enumeration import edge_of_draws

    if not support or "posterior" not in groups:
        return xr.DataArray(np.full(size, np.nan if support else 0.0), dims="release")
    prior, posterior = (
        {
            str(name): v.values.reshape(-1, *v.shape[2:])
            for name, v in groups[group].data_vars.items()
            if name in model.named_vars
        }
        for group in ("prior", "posterior")
    )
    share, unknown = edge_of_draws(model, support, prior, posterior)
    return xr.DataArray(np.broadcast_to(share, size), dims="release", attrs={"not_checked": unknown} if unknown else {})


def releases_to_read(
    plan: Plan,
    truth: Truth,
    draws: int,
    seed: int,
    fitted: bool,
    read: Callable[[xr.Dataset], xr.Dataset] = lambda release: release,
) -> tuple[xr.Dataset, xr.DataArray]:
    """Releases and their shares; those that are to be `fitted` one by one, each distinct one once, as it is `read`.

    Of these every release that matters, with its exact weight, if they are at most `draws`, or so many simulated ones.
    """
    release, weight = release_table(plan, truth, draws=draws, rng=seed)
    if not fitted:
        return release, weight
    if weight.attrs["direction"] == "exact":
        once = distinct(read(release), weight)
        if once[1].size <= draws:
            return once
    drawn = plan.release(truth.by_level(plan), np.random.default_rng(seed), draws)
    even = xr.DataArray(np.full(draws, 1.0 / draws), dims="release", attrs={"direction": "estimate", "mass": 1.0})
    return distinct(read(drawn), even)


def distinct(release: xr.Dataset, weight: xr.DataArray) -> tuple[xr.Dataset, xr.DataArray]:
    """Each distinct release once, with the shares of all that are like it."""
    arrays = [array.transpose("release", ...).values for array in release.values()]
    first, total = _merged(arrays, weight.values)
    return release.isel(release=first), xr.DataArray(total, dims="release", attrs=weight.attrs)


def distinct_arrays(data: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], xr.DataArray]:
    """Distinct ones of simulated releases (release, *shape) by name, and their shares."""
    first, count = _merged([*data.values()])
    weight = xr.DataArray(count / count.sum(), dims="release", attrs={"direction": "estimate", "mass": 1.0})
    return {name: array[first] for name, array in data.items()}, weight


def _merged(arrays: list[NDArray[Any]], weight: Floats | None = None) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Places of each distinct row of arrays (row, *shape) together, and how many there are, or their weight."""
    from adversary.models.enumeration import distinct_rows

    first, place = distinct_rows([np.asarray(array).reshape(len(array), -1) for array in arrays])
    return first, np.bincount(place, weights=weight, minlength=first.size)
