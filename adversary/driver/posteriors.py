"""Posteriors of many releases, by any method, and their averages.

Posteriors of a table of releases give a distribution of log Bayes factors, and that the risk group of an audit. If
posteriors are Monte Carlo estimates, averages have the error of the fits as well as that of simulated releases. If fits
failed, averages have the status "unreliable" instead of a number, and bounds in which the posteriors of failed releases
may be anything.
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

# Status of a fit, or of an average over fits, that has no number.
UNRELIABLE = "unreliable"

# Share of an average's standard error up to which the mass of failed releases is added to that error. A posterior in
# [0, 1] cannot move an average by more than this mass.
NEGLIGIBLE = 0.1

# Use of NUTS, by engine; the other engines enumerate.
NUTS = {"importance": "where needed", "mcmc": "always"}

# Diagnostics of a fit, and the function that gives the worst over many fits.
WORST = {"r_hat": np.max, "ess": np.min, "divergences": np.max}

MEASURES = ("posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass")

if TYPE_CHECKING:
    Groups = dict[str, xr.Dataset]
else:
    # at run time without its types, so that a command can refuse a file before xarray is imported
    Groups = dict


@dataclass(frozen=True)
class Prior:
    """Prior of the target, before the release and given its exact levels.

    Parameters
    ----------
    log_odds : prior log odds of the target, in nats; (adversary,) for several
    invariant : log Bayes factor of the exact levels, in nats
    base : probability of the target given the exact levels; (adversary,) for several
    error : Monte Carlo standard error of `base`, 0 if it is exact
    """

    log_odds: Any
    invariant: float
    base: Any
    error: float = 0.0

    @property
    def dims(self) -> tuple[str, ...]:
        """Dims of arrays that depend on the prior: none, or ("adversary",) for several."""
        return ("adversary",) * np.ndim(self.log_odds)

    @classmethod
    def from_probabilities(cls, before: tuple[float, float], settled: tuple[float, float]) -> Prior:
        """Prior from two pairs (probability, its standard error): before the release, and given the exact levels."""
        start, there = float(logit(before[0])), float(logit(settled[0]))
        return cls(start, 0.0 if start == there or np.isinf(start) else there - start, *settled)


@dataclass(frozen=True)
class ReleasePosteriors:
    """Posteriors of the target given each of many releases of one truth.

    Parameters
    ----------
    release, weight : the releases, and the probability of each under the truth
    posterior : `posterior`, `log_odds` and `ratio` (release,), with errors and diagnostics if they are estimates; or
        `log_bayes_factor` (law, release) alone, with `law_index` and `prior_log_odds` of each adversary
    prior : of the target
    target : 1 if the target is in under the truth, else 0
    draws : number of simulated releases that the weights summarise, 0 if they are exact
    method : of the posteriors, in words
    groups : draws, by the names of their groups
    advice : remedy if a fit failed, in words
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
        """True if the posteriors are Monte Carlo estimates, with `mcse` and `status`."""
        return "status" in self.posterior

    @property
    def edge_mass(self) -> float:
        """Average probability that a latent is at or beyond the ends of its `support`; 0 without such supports."""
        return float((self.weight * self.posterior["edge_mass"]).sum(skipna=False)) if self._has_edge_mass else 0.0

    @property
    def _has_edge_mass(self) -> bool:
        return "edge_mass" in self.posterior

    @property
    def support_too_short(self) -> bool:
        """True if the supports given for latents leave out more mass than is negligible, or an unknown mass."""
        from adversary.models.enumeration import LARGEST_EDGE

        return not self.edge_mass <= LARGEST_EDGE

    @property
    def failed(self) -> float:
        """Probability of the releases whose fit failed; 1 if a support is too short."""
        if self._has_edge_mass and self.support_too_short:
            return 1.0
        bad = self.posterior["status"].values == UNRELIABLE if self.sampled else np.zeros(self.weight.shape, dtype=bool)
        return float(self.weight.values[bad].sum())

    @property
    def law(self) -> BayesFactorLaw:
        """Distribution of the log Bayes factor over these releases, without those whose fit failed."""
        start, odds = self.prior.log_odds, self.posterior["log_odds"].values
        known = ~np.isnan(odds)
        factor = odds[known] - start if np.isfinite(start) else np.zeros(int(known.sum()))
        weight = self.weight.values[known]
        table = DiscretePart(factor, weight / weight.sum()) if factor.size else NOTHING
        return BayesFactorLaw(start, self.target, NOTHING, table, self.draws, 1.0, False)

    def empirical_epsilon(self, failure: float) -> float:
        """Smallest e with P(|log Bayes factor| > e) <= failure over these releases, in nats; NaN if fits failed.

        The Bayes factor is that of the noisy levels, given the exact ones.
        """
        magnitude = np.abs(np.nan_to_num(self._log_bayes_factors, posinf=np.inf, neginf=-np.inf))
        order = np.argsort(-magnitude, kind="stable")
        beyond = np.cumsum(self.weight.values[order])
        place = int(np.searchsorted(beyond, tolerated(failure, 1e-15), side="right"))
        return np.nan if self.failed else float(magnitude[order][min(place, magnitude.size - 1)])

    @property
    def _log_bayes_factors(self) -> Floats:
        """Log Bayes factor of every release given the exact levels; 0 if the adversary is certain before."""
        start = np.ravel(logit(self.prior.base))[0]
        if np.isinf(start):
            return np.zeros(self.weight.size)
        if "log_bayes_factor" in self.posterior:
            return np.asarray(self.posterior["log_bayes_factor"].values[0] - self.prior.invariant)
        return np.asarray(self.posterior["log_odds"].values.reshape(-1, self.weight.size)[0] - start)

    def share_outside(self, limits: tuple[float, float]) -> tuple[float, float]:
        """(probability of a posterior outside these limits, its standard error over simulated releases).

        A posterior counts as outside if it is so by more than three of its standard errors.
        """
        posterior = self.posterior["posterior"].values
        three_errors = 3.0 * (self.posterior["mcse"].values + self.prior.error) + 1e-12
        with np.errstate(invalid="ignore"):
            beyond = (posterior - three_errors > limits[1]) | (posterior + three_errors < limits[0])
        share = min(float(self.weight.values[beyond].sum()), 1.0)
        return share, float(np.sqrt(share * (1.0 - share) / self.draws)) if self.draws else 0.0

    def as_group(self) -> xr.Dataset:
        """Group `exact` or `estimate` of an audit: the posteriors, and the target's `pmf`.

        With exact levels `ratio` is over the probability given these, and `invariant_ratio` is that over the prior.
        """
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
        is_settled = np.isinf(prior.invariant) or np.any(np.isinf(start))
        log_factor = np.zeros_like(odds) if is_settled else odds - start - prior.invariant
        return result.assign(ratio=(chance.dims, posterior_ratio(base, log_factor)))

    def risk(self) -> xr.Dataset:
        """Group `risk` of an audit; `mcse` combines the errors of simulated releases and of fits."""
        summary = risk_summary(self.law, self.prior.invariant, self.prior.base)
        if self.sampled:
            summary = self._with_errors(summary)
        if self._has_edge_mass:
            kind = {"direction": "estimate" if self.sampled or self.draws else "exact"}
            summary["edge_mass"] = (), self.edge_mass, kind | self.posterior["edge_mass"].attrs
        return self._with_status(summary) if self.sampled or self.failed else summary.assign(status="ok")

    def diagnostics(self) -> xr.Dataset:
        """Diagnostics of sampled posteriors: number of releases, failed ones, and the worst of each diagnostic."""
        weighted = self.weight.values > 0
        failed = self.posterior["status"].values[weighted] == UNRELIABLE
        # exactly 1, although the weights of a table of releases sum to slightly less
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
        """The averages with `mcse`: errors of simulated releases, of the fits and of the prior, in quadrature.

        Errors of releases that share draws are correlated, and are added without squaring.
        """
        weight, mcse = self.weight.values, self.posterior["mcse"].values
        posterior, base = self.posterior["posterior"].values, self.prior.base
        with np.errstate(divide="ignore", invalid="ignore"):
            # probability that the exact posterior is on the other side of 1/2 than its estimate, under normal errors
            wrong_decision = ndtr(-np.abs(posterior - 0.5) / mcse)
        # r-hat is of a sampler's chains: without it, the draws of the prior were shared by all releases
        own_draws = np.isfinite(self.posterior.get("r_hat", np.nan * self.weight).values)
        posterior_error, decision_error = (
            np.hypot(np.sqrt(np.nansum((weight * error)[own_draws] ** 2)), np.nansum((weight * error)[~own_draws]))
            for error in (mcse, np.sqrt(np.nan_to_num(wrong_decision * (1.0 - wrong_decision))))
        )
        ratio_error = (
            np.hypot(posterior_error, summary["ratio_mean"].item() * self.prior.error) / base if base > 0 else np.inf
        )
        fit_errors = np.array(
            [posterior_error, ratio_error, np.hypot(posterior_error, self.prior.error), decision_error, decision_error]
        )
        release_errors = summary["mcse"].values if "mcse" in summary else np.zeros(fit_errors.size)
        errors = np.append(np.hypot(fit_errors, release_errors), self.prior.error)
        result = summary.drop_vars(["mcse", "measure"], errors="ignore")
        result = result.assign(mcse=("measure", errors)).assign_coords(measure=[*MEASURES, "prior"])
        for name in result.data_vars:
            exact = name == "prior" and not self.prior.error
            result[name].attrs["direction"] = "exact" if exact else "estimate"
        return result

    def _with_status(self, summary: xr.Dataset) -> xr.Dataset:
        """The averages with `status`, the mass of failed releases, and bounds that cover any posterior of these.

        All averages become NaN if the failed releases could move them by more than a tenth of their errors; otherwise
        the possible shift is added to the errors.
        """
        failed, bounds = self.failed, self._failure_bounds(summary)
        error = summary["mcse"].sel(measure="posterior_mean").item() if "mcse" in summary else 0.0
        negligible = failed <= NEGLIGIBLE * error
        if failed and negligible:
            largest_shift = failed * np.array([1.0, 1.0 / self.prior.base, 1.0, 1.0, 1.0, 0.0])
            summary = summary.assign(mcse=summary["mcse"] + xr.DataArray(largest_shift, dims="measure"))
        elif failed:
            known = (
                {"edge_mass"}
                if self._has_edge_mass and self.support_too_short
                else {"prior", "invariant_ratio", "edge_mass"}
            )
            blank = {n: xr.full_like(summary[n], np.nan) for n in summary if n not in known}
            if "prior" in known and "mcse" in blank:
                blank["mcse"][{"measure": -1}] = self.prior.error
            summary = summary.assign(blank)
            summary = summary.assign_attrs(reason=self._reason(failed))
        status = "ok" if negligible else UNRELIABLE
        return summary.assign(status=status, unreliable_mass=failed).assign(bounds)

    def _reason(self, failed: float) -> str:
        """Reason, in a sentence, why the averages have no numbers."""
        if self._has_edge_mass and self.support_too_short:
            unknown = self.posterior["edge_mass"].attrs.get("not_checked")
            of = f"of {unknown} is not known" if unknown else f"is {self.edge_mass:.3g}, and may be 1e-06"
            return f"the probability at or beyond the ends of the values in support {of}: give a wider support"
        return f"fits of releases with a share of {failed:.3g} failed ({self.method}): {self.advice}"

    def _failure_bounds(self, summary: xr.Dataset) -> dict[str, tuple[str, Floats, dict[str, str]]]:
        """Bounds `lower` and `upper` (measure) of the averages, for any posteriors of failed releases in [0, 1]."""
        failed, base = self.failed, self.prior.base
        least = np.array([summary[name].item() if failed < 1.0 else 0.0 for name in MEASURES])
        least[[0, 3, 4]] *= 1.0 - failed
        most = least.copy()
        most[[0, 3, 4]] += failed
        for ends, at_zero in ((least, least[1]), (most, np.inf if failed else most[1])):
            # ratio and difference follow from the mean posterior
            ends[1] = ends[0] / base if base > 0 else at_zero
            ends[2] = ends[0] - base
        return {
            name: ("measure", np.append(ends, summary["prior"].item()), {"direction": name})
            for name, ends in (("lower", least), ("upper", most))
        }


def _by_release(prior: Any) -> Any:
    """Numbers of adversaries with a last axis for releases."""
    return np.asarray(prior)[..., None]


def posterior_dataset(prior: float, present: Floats, out: Floats) -> xr.Dataset:
    """Dataset of `posterior`, `log_odds` and `ratio` (release,).

    Parameters
    ----------
    prior : probability that the target is in
    present, out : P(target = 1 | release) and P(target = 0 | release), (release,): both, for accurate log odds
    """
    with np.errstate(divide="ignore"):
        odds = np.log(present) - np.log(out)
    factor = odds - float(logit(prior)) if 0 < prior < 1 else np.where(np.isnan(odds), np.nan, 0.0)
    values = {"posterior": present, "log_odds": odds, "ratio": posterior_ratio(prior, factor)}
    return xr.Dataset({name: ("release", value) for name, value in values.items()})


def model_posteriors(
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
) -> ReleasePosteriors:
    """Posteriors of a model's target given each of many releases, by enumeration or by `fit_many`.

    Parameters
    ----------
    model : pymc.Model
    side : 1 if the target is in under the truth, else 0
    release, weight : the releases, and the probability of each under the truth
    data : the releases as arrays (release, *shape) by the model's released variables
    size : number of simulated releases, if they are not listed
    target : name of the target
    support : values of latents without a finite support of their own, by name
    settled : released variables of exact levels, which condition the prior
    nuts : None to enumerate; else when `fit_many` uses NUTS, "where needed" or "always"
    prior : of the target; the model's own unless given
    **how : further options of `fit_many`
    """
    simulated = 0 if weight.attrs["direction"] == "exact" else size
    if nuts is not None:
        from adversary.models.fitting import LONG, fit_many

        fits = fit_many(model, data, target, nuts=nuts, support=support, settled=settled, **how)
        answer, target_prior = fits.estimate, prior or Prior.from_probabilities(fits.before, fits.settled)
        start = float(expit(target_prior.log_odds))
        posterior = posterior_dataset(start, answer["posterior"].values, answer["complement"].values)
        posterior = posterior.assign(answer.drop_vars(["posterior", "complement"]))
        posterior = posterior.assign(edge_mass=_edge_mass_of_draws(model, support, fits.groups, weight.size))
        if fits.expected >= LONG:
            posterior = posterior.assign_attrs(expected_seconds=round(fits.expected, 1))
        return ReleasePosteriors(
            release, weight, posterior, target_prior, side, simulated, fits.method, fits.groups, fits.advice
        )
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
    target_prior = prior or Prior.from_probabilities((before, 0.0), (after, 0.0))
    return ReleasePosteriors(release, weight, posterior, target_prior, side, simulated, "enumeration of the model")


def _edge_mass_of_draws(model: Any, support: Mapping[str, ArrayLike], groups: Groups, size: int) -> xr.DataArray:
    """Probability (release,) that a latent is at or beyond the ends of its support, from draws of fits; 0 without one.

    The attribute `not_checked` names latents of unknown distribution.
    """
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
    """Releases of a truth and their probabilities.

    If they are to be `fitted` one by one, each distinct one occurs once: all of them with their exact weights if they
    are at most `draws`, otherwise those among so many simulated ones. `read` replaces numbers that the model does not
    have, so that releases differing in these alone count as one.
    """
    release, weight = release_table(plan, truth, draws=draws, rng=seed)
    if not fitted:
        return release, weight
    if weight.attrs["direction"] == "exact":
        distinct_release = distinct(read(release), weight)
        if distinct_release[1].size <= draws:
            return distinct_release
    drawn = plan.release(truth.by_level(plan), np.random.default_rng(seed), draws)
    equal_weights = xr.DataArray(
        np.full(draws, 1.0 / draws), dims="release", attrs={"direction": "estimate", "mass": 1.0}
    )
    return distinct(read(drawn), equal_weights)


def distinct(release: xr.Dataset, weight: xr.DataArray) -> tuple[xr.Dataset, xr.DataArray]:
    """Distinct releases, each with the summed weight of all equal ones."""
    arrays = [array.transpose("release", ...).values for array in release.values()]
    first, total = _merged(arrays, weight.values)
    return release.isel(release=first), xr.DataArray(total, dims="release", attrs=weight.attrs)


def distinct_arrays(data: Mapping[str, NDArray[Any]]) -> tuple[dict[str, NDArray[Any]], xr.DataArray]:
    """Distinct ones among simulated releases, arrays (release, *shape) by name, and their frequencies."""
    first, count = _merged([*data.values()])
    weight = xr.DataArray(count / count.sum(), dims="release", attrs={"direction": "estimate", "mass": 1.0})
    return {name: array[first] for name, array in data.items()}, weight


def _merged(arrays: list[NDArray[Any]], weight: Floats | None = None) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """(index of the first of each set of equal rows, their number or summed weight), of arrays (row, *shape)."""
    from adversary.models.enumeration import distinct_rows

    first, place = distinct_rows([np.asarray(array).reshape(len(array), -1) for array in arrays])
    return first, np.bincount(place, weights=weight, minlength=first.size)
