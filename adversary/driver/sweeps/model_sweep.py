"""PyMC models in a sweep: posteriors under many priors of the same latents, from one set of draws.

Discrete models are enumerated. Other latents are drawn once from the mixture of all priors of the sweep, and the draws
weighted by each model's own prior and each release. If such weights are unreliable, the release is fitted by draws of
the model's own; if that fails too, the result is "unreliable".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import Sampling, logit, seed_sequence
from adversary.adversaries.risk import DRAWS
from adversary.driver.model_case import (
    FITS,
    ModelCase,
    latents_of,
    settle_model_truth,
    settled_names,
    target_side,
)
from adversary.driver.model_case import released_names as names_of_plan
from adversary.driver.posteriors import (
    UNRELIABLE,
    Prior,
    ReleasePosteriors,
    distinct_arrays,
    model_posteriors,
    posterior_dataset,
)

from .sweep_inputs import SweptCase

if TYPE_CHECKING:
    import pymc as pm

    from adversary.models.fitting import Fits
    from adversary.models.importance import Likeness, PooledDraws, SharedModel, WeighedPrior

Place = tuple[int, ...]

# Draws from each prior of a sweep, at least, however many priors share them: fewer make weights unreliable.
FEWEST = 1000
WEIGHED = "draws of all priors of the sweep, weighed by each prior and release"


@dataclass(frozen=True)
class _Drawn:
    """A model of a sweep whose latents are drawn, not enumerated.

    Parameters
    ----------
    model : with its latents on their own scale, unless transforms cut their support (`cut`)
    names : of its released variables
    likeness : fingerprint by which models are compared, None if they cannot be
    number : of its group: equal for models that differ in the prior of their drawn latents only
    """

    model: pm.Model
    names: list[str]
    cut: bool
    likeness: Likeness | None
    number: int


@dataclass
class ModelSweep:
    """The models of a sweep, by the indices of the inputs' values (`Place`).

    Parameters
    ----------
    cases : with their models built
    truths : under "in" and "out", the truth with the target in and with it out
    released, target, support, sampling : as for `audit_model`
    draws, seed : simulated releases and seed
    """

    cases: Mapping[Place, SweptCase]
    truths: Mapping[str, Mapping[str, Any]]
    released: Any
    target: str
    support: Mapping[str, Any]
    draws: int | None
    seed: np.random.SeedSequence
    sampling: Sampling
    _published: dict[tuple[str, int], tuple[xr.Dataset, xr.DataArray, dict[str, Any]]] = field(default_factory=dict)
    _shown: tuple[Place, dict[str, Any]] | None = None
    _current: tuple[int, SharedModel | None] | None = None

    @cached_property
    def _drawn(self) -> dict[Place, _Drawn]:
        """Models that cannot be enumerated, with their groups."""
        from pymc.model.transform.conditioning import remove_value_transforms

        from adversary.models.enumeration import is_enumerable, without_starts
        from adversary.models.importance import Likeness, cuts_support

        drawn = {}
        numbers: dict[Any, int] = {}
        for place, case in self.cases.items():
            names = self.names(case)
            continuous = latents_of(case.adversary, names, self.target, self.support)
            if not continuous and is_enumerable(case.adversary, names, self.support, [self.target]):
                continue
            model = without_starts(case.adversary)
            cut = cuts_support(model)
            model = model if cut else remove_value_transforms(model)
            likeness = Likeness.of(model, self.target)
            rest = place if likeness is None else (likeness.drawn, likeness.rest, tuple(self._settled(place)))
            number = numbers.setdefault(rest, len(numbers))
            drawn[place] = _Drawn(model, names, cut, likeness, number)
        return drawn

    @cached_property
    def _pools(self) -> dict[Any, PooledDraws]:
        """Draws from the mixture of all priors of the same latents, by the names and shapes of these latents."""
        from adversary.models.importance import PooledDraws

        models: dict[Any, dict[Any, Any]] = {}
        for one in self._drawn.values():
            if one.likeness is not None:
                models.setdefault(one.likeness.drawn, {}).setdefault(one.likeness.prior, one.model)
        pools = {}
        for (drawn, models_by_prior), seed in zip(models.items(), self.seed.spawn(len(models)), strict=True):
            size = max(self.sampling.prior_draws // len(models_by_prior), FEWEST)
            pools[drawn] = PooledDraws.of(models_by_prior, [name for name, *_ in drawn], size, seed)
        return pools

    def in_order(self, places: Sequence[Place]) -> list[Place]:
        """Places in an order in which models of one group are consecutive, so that their shared work is done once."""
        return sorted(places, key=lambda place: self._drawn[place].number if place in self._drawn else -1)

    def prior(self, place: Place) -> WeighedPrior:
        """Weighted draws of a model's prior, from the draws shared by all models with the same latents."""
        one = self._drawn[place]
        if self._current is None or self._current[0] != one.number:
            self._current = one.number, self._shared(one, place)
        shared = self._current[1]
        if shared is None or one.likeness is None:
            return self._alone[place]
        return shared.prior(one.likeness.prior)

    def _shared(self, one: _Drawn, place: Place) -> SharedModel | None:
        """Parts of a model that its whole group shares, all but the prior of drawn latents; None if nothing can be."""
        from adversary.models.importance import SharedModel

        if one.likeness is None or (key := self._pools[one.likeness.drawn].everywhere) is None:
            return None
        alike = ((other, other.likeness) for other in self._drawn.values() if other.number == one.number)
        first = next((other for other, likeness in alike if likeness is not None and likeness.prior == key), None)
        if first is None:
            return None
        options = (self._pools[one.likeness.drawn], first.names, self.target, self.support, self._settled(place))
        return SharedModel.of(first.model, key, *options, self.seed.spawn(1)[0])

    @cached_property
    def _alone(self) -> dict[Place, WeighedPrior]:
        """Weighted draws of the models that share draws with others of the same latents, and nothing else."""
        from adversary.models.importance import WeighedPrior, shared_draws

        drawn_models = self._drawn
        wanted = max(self.sampling.prior_draws // max(len(drawn_models), 1), FEWEST)
        groups: dict[Any, dict[Place, WeighedPrior]] = {}
        for (place, one), seed in zip(drawn_models.items(), self.seed.spawn(len(drawn_models)), strict=True):
            options: dict[str, Any] = {"target": self.target, "support": self.support, "settled": self._settled(place)}
            prior = WeighedPrior.of(one.model, one.names, **options, rng=seed, draws=wanted)
            drawn = [(n, v.shape[1:]) for n, v in zip(prior.terms.given.continuous, prior.values, strict=True)]
            groups.setdefault((*drawn, place if one.cut else None), {})[place] = prior
        pooled = (zip(group, shared_draws(list(group.values())), strict=True) for group in groups.values())
        return {place: prior for group in pooled for place, prior in group}

    def names(self, case: SweptCase) -> list[str]:
        """Names of a model's released variables."""
        from adversary.models.enumeration import released_names

        if case.plan is None:
            return list(released_names(case.adversary, self.released))
        return names_of_plan(case.plan, case.adversary, self.truths["in"].get("siblings", {}))

    def posteriors(self, place: Place, side: str) -> ReleasePosteriors:
        """Posteriors of the releases of one truth, with `k_hat` of each, and `anew` if it was fitted by own draws.

        Parameters
        ----------
        place : indices of the inputs' values
        side : "in" or "out"

        Raises
        ------
        ValueError : the truth is impossible
        """
        model, target = self.cases[place].adversary, int(side == "in")
        release, weight, data, size = self._releases(place, side)
        if self._shown is None:
            best = int(np.argmax(weight.values))
            self._shown = place, {name: array[[best]] for name, array in data.items()}
        settled = self._settled(place)
        if place not in self._drawn:
            options: dict[str, Any] = {"target": self.target, "support": self.support, "settled": settled}
            return model_posteriors(model, target, release, weight, data, size, **options)
        prior, posterior = self._weighed(place, data, settled)
        simulated = 0 if weight.attrs["direction"] == "exact" else size
        return ReleasePosteriors(release, weight, posterior, prior, target, simulated, WEIGHED, advice=_ADVICE)

    def groups(self) -> dict[str, xr.Dataset]:
        """Groups of ArviZ of the first model, given the most probable release of its first possible truth."""
        assert self._shown is not None
        fits = self._fits(*self._shown)
        first = {"release": 0}
        return {name: one.isel(first, drop=True, missing_dims="ignore") for name, one in fits.groups.items()}

    def _weighed(self, place: Place, data: Mapping[str, Any], settled: Sequence[str]) -> tuple[Prior, xr.Dataset]:
        """(prior, posteriors of the releases) by the shared draws, or by the model's own where these are unreliable."""
        from adversary.models.enumeration import edge_of_draws

        prior = self.prior(place)
        first = {name: data[name][:1] for name in settled}
        prior_sample, settled_sample = prior.held(), prior.held(first)
        size = len(next(iter(data.values())))
        columns: dict[str, Any] = {
            name: np.full(size, np.nan) for name in ("posterior", "complement", "mcse", "log_odds_mcse", "ess", "k_hat")
        }
        anew = np.ones(size, dtype=bool)
        if prior.sees_both and prior.held_sample().reliable and settled_sample.reliable:
            for i, sample in enumerate(prior.weigh(data, refine=False)):
                answer, anew[i] = sample.answer, not sample.reliable
                one = (answer.present, answer.out, answer.mcse, answer.spread, answer.ess, answer.k_hat)
                for column, value in zip(columns.values(), one, strict=True):
                    column[i] = value
        status = np.full(size, "ok", dtype=f"<U{len(UNRELIABLE)}")
        prior_and_settled = (prior_sample.present, prior_sample.mcse), (settled_sample.present, settled_sample.mcse)
        if anew.any():
            fits = self._fits(place, {name: array[anew] for name, array in data.items()})
            for name, column in columns.items():
                column[anew] = fits.estimate[name].values
            status[anew] = fits.estimate["status"].values
            prior_and_settled = (fits.before, fits.settled) if anew.all() else prior_and_settled
        before = Prior.from_probabilities(*prior_and_settled)
        posterior = posterior_dataset(
            float(expit(before.log_odds)), columns.pop("posterior"), columns.pop("complement")
        )
        columns |= {"status": status, "anew": anew}
        if self.support:
            columns["edge_mass"] = np.broadcast_to(edge_of_draws(prior.model, self.support, prior.latents)[0], size)
        variables = {name: ("release", column) for name, column in columns.items()}
        return before, posterior.assign(variables)

    def _fits(self, place: Place, data: Mapping[str, Any]) -> Fits:
        """Fits of some releases by draws of the model's own."""
        from adversary.models.fitting import fit_many

        options: dict[str, Any] = {"support": self.support, "settled": self._settled(place), "progress": False}
        seed = seed_sequence(int(self.seed.generate_state(1)[0]))
        return fit_many(self.cases[place].adversary, data, self.target, sampling=self.sampling, rng=seed, **options)

    def _releases(self, place: Place, side: str) -> tuple[xr.Dataset, xr.DataArray, dict[str, Any], int]:
        """(releases of one truth, weights, arrays by released variable, number of simulated releases at most)."""
        case, fitted = self.cases[place], place in self._drawn
        if case.plan is None:
            size = (FITS if fitted else DRAWS) if self.draws is None else self.draws
            return (*self._own(side, size), size)
        whole = ModelCase(case.plan, case.adversary, settle_model_truth(case.plan, self.truths[side], self.target), 0.0)
        return whole.releases(self.names(case), fitted, self.draws, int(self.seed.generate_state(2)[1]))

    def _own(self, side: str, size: int) -> tuple[xr.Dataset, xr.DataArray, dict[str, Any]]:
        """Releases of one truth without a plan: simulated by the first model, and the same for all others."""
        if (side, size) not in self._published:
            from adversary.models.importance import releases_under

            first = next(iter(self.cases.values()))
            generator = np.random.default_rng(self.seed.generate_state(4))
            data = releases_under(first.adversary, self.truths[side], self.names(first), size, generator)
            distinct_data, weight = distinct_arrays(data)
            self._published[side, size] = xr.Dataset(), weight, distinct_data
        return self._published[side, size]

    def _settled(self, place: Place) -> list[str]:
        """Names of the released variables of exact levels, which condition the prior; none without a plan."""
        case = self.cases[place]
        return [] if case.plan is None else settled_names(case.plan, self.names(case))


_ADVICE = "more draws of the prior, or priors that explain the release, may help"


def both_model_truths(plan: Any, truth: Mapping[str, Any], target: str) -> dict[str, dict[str, Any]]:
    """Truths with the target in and with it out; counts of a plan differ by one person at every level.

    Parameters
    ----------
    plan : whose levels' counts change with the target, or None
    truth : one of the two, or both as {"in": ..., "out": ...}
    target : name of the target in the model
    """
    if set(truth) == {"in", "out"} and all(isinstance(one, Mapping) for one in truth.values()):
        return {side: {**truth[side], target: int(side == "in")} for side in truth}
    side = target_side(truth, target)
    other = dict(truth) | {target: 1 - side}
    if plan is not None:
        other |= {name: np.asarray(value) + 1 - 2 * side for name, value in truth.items() if name in plan.names}
    return {"in": dict(truth), "out": other} if side else {"in": other, "out": dict(truth)}


def with_prior(posteriors: ReleasePosteriors, prior: float) -> ReleasePosteriors:
    """Posteriors of the same releases for another prior probability of the target, all other beliefs unchanged.

    Parameters
    ----------
    posteriors : under the adversary's own prior
    prior : the other probability
    """
    old_prior = posteriors.prior
    if not np.isfinite(old_prior.log_odds):
        raise ValueError("a model that is certain of the target has no other priors")
    start = float(logit(prior))
    base = float(expit(start + old_prior.invariant))
    old_posterior, factor = posteriors.posterior, posteriors.posterior["log_odds"].values - old_prior.log_odds
    odds = start + factor
    posterior = posterior_dataset(prior, expit(odds), expit(-odds))
    other_variables = old_posterior.drop_vars(["posterior", "log_odds", "ratio"])
    # d posterior / d log odds = p (1 - p): the error of the log odds is the same under both priors
    if "mcse" in other_variables:
        old_variance, new_variance = (expit(x) * expit(-x) for x in (old_posterior["log_odds"].values, odds))
        with np.errstate(invalid="ignore", divide="ignore"):
            other_variables["mcse"] = (
                "release",
                np.where(new_variance > 0, other_variables["mcse"].values * new_variance / old_variance, 0.0),
            )
    return replace(
        posteriors, posterior=posterior.assign(other_variables), prior=Prior(start, old_prior.invariant, base)
    )
