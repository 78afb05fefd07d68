"""PyMC models inside a sweep: posteriors under many priors of the same latents, from one set of draws.

Discrete models are enumerated. Draws of the other latents come from all priors of the sweep together, once, and every
model weighs them by its own prior and by each release; where such weights cannot be trusted the release is fitted anew
by the model's own draws, and what then fails is "unreliable".
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
    Readings,
    distinct_arrays,
    posterior_dataset,
    read_releases,
)

from .sweep_inputs import SweptCase

if TYPE_CHECKING:
    import pymc as pm

    from adversary.models.fitting import Fits
    from adversary.models.importance import Likeness, PooledDraws, SharedModel, WeighedPrior

Place = tuple[int, ...]

# Draws of each prior of a sweep, at least.
FEWEST = 1000
WEIGHED = "draws of all priors of the sweep, weighed by each prior and release"


@dataclass(frozen=True)
class _Drawn:
    """A model with latents to be drawn.

    Parameters
    ----------
    model : with its latents on their own scale, unless transforms cut their support (`cut`)
    names : of its released variables
    likeness : by which it is compared with others, None where a comparison says nothing
    number : the same for models that differ in the prior of their drawn latents only
    """

    model: pm.Model
    names: list[str]
    cut: bool
    likeness: Likeness | None
    number: int


@dataclass
class ModelSweep:
    """The models of a sweep, by their places in it.

    Parameters
    ----------
    cases : with their models built
    truths : by side, the truth with the target in and with it out
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
        """Models with latents to be drawn, which are not enumerated."""
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
        """Draws of the latents that several models have, by names and shapes, made by every prior of them."""
        from adversary.models.importance import PooledDraws

        models: dict[Any, dict[Any, Any]] = {}
        for one in self._drawn.values():
            if one.likeness is not None:
                models.setdefault(one.likeness.drawn, {}).setdefault(one.likeness.prior, one.model)
        every = {}
        for (drawn, some), seed in zip(models.items(), self.seed.spawn(len(models)), strict=True):
            size = max(self.sampling.prior_draws // len(some), FEWEST)
            every[drawn] = PooledDraws.of(some, [name for name, *_ in drawn], size, seed)
        return every

    def in_order(self, places: Sequence[Place]) -> list[Place]:
        """Places of the sweep, those one after another whose models differ in the prior of drawn latents only."""
        return sorted(places, key=lambda place: self._drawn[place].number if place in self._drawn else -1)

    def prior(self, place: Place) -> WeighedPrior:
        """Draws of a model that is not enumerated: of all models with the same latents."""
        one = self._drawn[place]
        if self._current is None or self._current[0] != one.number:
            self._current = one.number, self._shared(one, place)
        shared = self._current[1]
        if shared is None or one.likeness is None:
            return self._alone[place]
        return shared.prior(one.likeness.prior)

    def _shared(self, one: _Drawn, place: Place) -> SharedModel | None:
        """All of a model but the prior of what is drawn; None where it must be worked out for each model anew."""
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
        """Draws of each model that shares nothing but these, one set for all with the same latents."""
        from adversary.models.importance import WeighedPrior, shared_draws

        left = self._drawn
        wanted = max(self.sampling.prior_draws // max(len(left), 1), FEWEST)
        groups: dict[Any, dict[Place, WeighedPrior]] = {}
        for (place, one), seed in zip(left.items(), self.seed.spawn(len(left)), strict=True):
            options: dict[str, Any] = {"target": self.target, "support": self.support, "settled": self._settled(place)}
            prior = WeighedPrior.of(one.model, one.names, **options, rng=seed, draws=wanted)
            drawn = [(n, v.shape[1:]) for n, v in zip(prior.terms.given.continuous, prior.values, strict=True)]
            groups.setdefault((*drawn, place if one.cut else None), {})[place] = prior
        pooled = (zip(group, shared_draws(list(group.values())), strict=True) for group in groups.values())
        return {place: prior for group in pooled for place, prior in group}

    def names(self, case: SweptCase) -> list[str]:
        """Released variables of a model."""
        from adversary.models.enumeration import released_names

        if case.plan is None:
            return list(released_names(case.adversary, self.released))
        return names_of_plan(case.plan, case.adversary, self.truths["in"].get("siblings", {}))

    def readings(self, place: Place, side: str) -> Readings:
        """Posteriors of the releases of one truth; `k_hat` of each, and `anew` where its draws were made anew.

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
            return read_releases(model, target, release, weight, data, size, **options)
        prior, posterior = self._weighed(place, data, settled)
        simulated = 0 if weight.attrs["direction"] == "exact" else size
        return Readings(release, weight, posterior, prior, target, simulated, WEIGHED, advice=_ADVICE)

    def groups(self) -> dict[str, xr.Dataset]:
        """Groups of ArviZ of the first model, given the most probable release of its first possible truth."""
        assert self._shown is not None
        fits = self._fits(*self._shown)
        first = {"release": 0}
        return {name: one.isel(first, drop=True, missing_dims="ignore") for name, one in fits.groups.items()}

    def _weighed(self, place: Place, data: Mapping[str, Any], settled: Sequence[str]) -> tuple[Prior, xr.Dataset]:
        """By the shared draws, and anew where these do not do."""
        from adversary.models.enumeration import edge_of_draws

        prior = self.prior(place)
        first = {name: data[name][:1] for name in settled}
        held, there = prior.held(), prior.held(first)
        size = len(next(iter(data.values())))
        columns: dict[str, Any] = {
            name: np.full(size, np.nan) for name in ("posterior", "complement", "mcse", "log_odds_mcse", "ess", "k_hat")
        }
        anew = np.ones(size, dtype=bool)
        if prior.sees_both and prior.held_sample().reliable and there.reliable:
            for i, sample in enumerate(prior.weigh(data, refine=False)):
                answer, anew[i] = sample.answer, not sample.reliable
                one = (answer.present, answer.out, answer.mcse, answer.spread, answer.ess, answer.k_hat)
                for column, value in zip(columns.values(), one, strict=True):
                    column[i] = value
        status = np.full(size, "ok", dtype=f"<U{len(UNRELIABLE)}")
        chances = (held.present, held.mcse), (there.present, there.mcse)
        if anew.any():
            fits = self._fits(place, {name: array[anew] for name, array in data.items()})
            for name, column in columns.items():
                column[anew] = fits.estimate[name].values
            status[anew] = fits.estimate["status"].values
            chances = (fits.before, fits.settled) if anew.all() else chances
        before = Prior.from_chances(*chances)
        posterior = posterior_dataset(
            float(expit(before.log_odds)), columns.pop("posterior"), columns.pop("complement")
        )
        columns |= {"status": status, "anew": anew}
        if self.support:
            columns["edge_mass"] = np.broadcast_to(edge_of_draws(prior.model, self.support, prior.latents)[0], size)
        variables = {name: ("release", column) for name, column in columns.items()}
        return before, posterior.assign(variables)

    def _fits(self, place: Place, data: Mapping[str, Any]) -> Fits:
        """By the model's own draws."""
        from adversary.models.fitting import fit_many

        options: dict[str, Any] = {"support": self.support, "settled": self._settled(place), "progress": False}
        seed = seed_sequence(int(self.seed.generate_state(1)[0]))
        return fit_many(self.cases[place].adversary, data, self.target, sampling=self.sampling, rng=seed, **options)

    def _releases(self, place: Place, side: str) -> tuple[xr.Dataset, xr.DataArray, dict[str, Any], int]:
        """Releases of one truth, their weights, what the model reads of them, and how many are simulated at most."""
        case, fitted = self.cases[place], place in self._drawn
        if case.plan is None:
            size = (FITS if fitted else DRAWS) if self.draws is None else self.draws
            return (*self._own(side, size), size)
        whole = ModelCase(case.plan, case.adversary, settle_model_truth(case.plan, self.truths[side], self.target), 0.0)
        return whole.releases(self.names(case), fitted, self.draws, int(self.seed.generate_state(2)[1]))

    def _own(self, side: str, size: int) -> tuple[xr.Dataset, xr.DataArray, dict[str, Any]]:
        """Without a plan: releases of the first model, which every other one reads too."""
        if (side, size) not in self._published:
            from adversary.models.importance import releases_under

            first = next(iter(self.cases.values()))
            generator = np.random.default_rng(self.seed.generate_state(4))
            data = releases_under(first.adversary, self.truths[side], self.names(first), size, generator)
            once, weight = distinct_arrays(data)
            self._published[side, size] = xr.Dataset(), weight, once
        return self._published[side, size]

    def _settled(self, place: Place) -> list[str]:
        case = self.cases[place]
        return [] if case.plan is None else settled_names(case.plan, self.names(case))


_ADVICE = "more draws of the prior, or priors that explain the release, may help"


def truths_of_models(plan: Any, truth: Mapping[str, Any], target: str) -> dict[str, dict[str, Any]]:
    """The truth with the target in and with it out: of a plan, with one person less or more at every level.

    Parameters
    ----------
    plan : whose levels move by one person, or None
    truth : one of the two, or both as {"in": ..., "out": ...}
    target : its name
    """
    if set(truth) == {"in", "out"} and all(isinstance(one, Mapping) for one in truth.values()):
        return {side: {**truth[side], target: int(side == "in")} for side in truth}
    side = target_side(truth, target)
    other = dict(truth) | {target: 1 - side}
    if plan is not None:
        other |= {name: np.asarray(value) + 1 - 2 * side for name, value in truth.items() if name in plan.names}
    return {"in": dict(truth), "out": other} if side else {"in": other, "out": dict(truth)}


def at_prior_of(readings: Readings, prior: float) -> Readings:
    """These releases for an adversary who holds the target in with another probability, and all else the same.

    Parameters
    ----------
    readings : of the adversary as it is
    prior : the other probability
    """
    before = readings.prior
    if not np.isfinite(before.log_odds):
        raise ValueError("a model that is certain of the target has no other priors")
    start = float(logit(prior))
    base = float(expit(start + before.invariant))
    reading, factor = readings.posterior, readings.posterior["log_odds"].values - before.log_odds
    odds = start + factor
    posterior = posterior_dataset(prior, expit(odds), expit(-odds))
    rest = reading.drop_vars(["posterior", "log_odds", "ratio"])
    if "mcse" in rest:
        own, there = (expit(x) * expit(-x) for x in (reading["log_odds"].values, odds))
        with np.errstate(invalid="ignore", divide="ignore"):
            rest["mcse"] = ("release", np.where(there > 0, rest["mcse"].values * there / own, 0.0))
    return replace(readings, posterior=posterior.assign(rest), prior=Prior(start, before.invariant, base))
