"""Posterior of a model given a release, by reweighted prior draws or by NUTS, with a verdict on its reliability.

NUTS is used if the weights are unreliable, or always if so chosen. Its chains start at weighted draws that lie far
apart, so that separate modes show in R-hat. A fit by NUTS must pass `diagnose` in every quantity, have no divergence,
and agree with the weighted draws as far as these are reliable; one that fails is run once more, four times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from adversary._core import Sampling, Seed, diagnose
from adversary._core import blocks as runner
from adversary.models.importance import (
    Sample,
    WeighedPrior,
    given_chains,
    has_enough_draws,
    refine_given_side_data,
    starting_points,
)

from .expected_cost import seconds_of_side_data, tell_cost
from .nuts import STATS, Nuts, OwnSteps, Trace

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

# Name of the field with the target's probability in every draw.
CHANCE = "chance"

# Factor on the lengths of chains in the second attempt of a fit.
LONGER = 4
# Rounding error of a sum over all states: a lower bound on the reported error.
_ROUNDING = 1e-14
# Standard errors by which a fit may differ from weighted draws: few false alarms over thousands of releases and cells.
_ERRORS = 5


@dataclass(frozen=True)
class Fit:
    """Posterior of one release.

    Parameters
    ----------
    posterior, complement : P(target = 1 | release) and P(target = 0 | release), each precise when small
    mcse, log_odds_mcse : Monte Carlo standard errors of either probability, and of the log odds
    ess : smallest effective number of draws over all quantities
    k_hat, explained : diagnostics of the importance weights: see `Hypotheses` and `Sample`
    passed : whether the diagnostics allow the numbers to be used
    latents : draws (chain, draw, *shape) of every latent on its own scale
    chance : P(target = 1 | latents not summed out, release) in every draw, (chain, draw)
    r_hat : largest R-hat, NaN without NUTS
    trace : trajectories of NUTS; None without NUTS
    """

    posterior: float
    complement: float
    mcse: float
    log_odds_mcse: float
    ess: float
    k_hat: float
    explained: float
    passed: bool
    latents: Arrays
    chance: Floats
    r_hat: float = np.nan
    trace: Trace | None = None

    @property
    def divergences(self) -> float:
        """Number of draws that diverged, NaN without NUTS."""
        return np.nan if self.trace is None else float(self.trace.diverging.sum())

    @property
    def stats(self) -> Arrays:
        """Sampler statistics of the draws by name, (chain, draw) each; NaN without NUTS."""
        unknown = np.full(self.chance.shape, np.nan)
        return dict.fromkeys(STATS, unknown) if self.trace is None else dict(self.trace.stats)


@dataclass(frozen=True)
class Fitter:
    """A compiled model that fits releases.

    Parameters
    ----------
    prior : draws of the model's prior, and the terms of its density
    sampling : numbers and lengths of chains and of prior draws
    nuts : "never", "where needed" (the weights are unreliable) or "always". NUTS is never used if a discrete latent has
        too many values to be summed out, or if no latent is left to sample
    expected : expected seconds for draws given the side data
    step : user's step methods in place of NUTS, for all releases: see `OwnSteps`
    """

    prior: WeighedPrior
    sampling: Sampling
    nuts: str = "where needed"
    expected: float = 0.0
    step: Callable[[pm.Model], Any] | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        observed: Sequence[str],
        target: str | None = "in",
        support: Mapping[str, ArrayLike] | None = None,
        settled: Sequence[str] = (),
        rng: Seed = None,
        sampling: Sampling | None = None,
        nuts: str = "where needed",
        progress: bool = False,
    ) -> Fitter:
        """Compile `model` for releases of the variables named in `observed`; `target` may be None.

        With `progress`, the expected time of draws given the side data is printed first if it is long.

        Raises
        ------
        ValueError : an improper prior, or a target with values other than 0 and 1
        """
        sampling = sampling or Sampling()
        first, second = runner.seed_sequence(rng).spawn(2)
        prior = WeighedPrior.of(model, observed, target, support, settled, first, sampling.prior_draws)
        fitter = cls(prior, sampling, nuts)
        if not prior.is_smooth or has_enough_draws(prior):
            return fitter
        if prior.may_be_refined and prior.terms.has_side_data:
            fitter = replace(fitter, expected=seconds_of_side_data(prior))
            tell_cost(fitter.expected, "draws of the latents given the side data", progress)
        return fitter.given_side_data(second)

    def given_side_data(self, seed: np.random.SeedSequence) -> Fitter:
        """This fitter with draws of both hypotheses given the side data, in place of draws of the prior.

        The draws come from a refined importance proposal, or else from one NUTS fit without the release.

        Raises
        ------
        ValueError : both are unreliable
        """
        first, second = seed.spawn(2)
        rng, prior = np.random.default_rng(first), self.prior
        if prior.may_be_refined:
            prior = refine_given_side_data(prior, rng)
            if has_enough_draws(prior):
                return replace(self, prior=prior)
        # Without side data the target is rare; the error estimate of the prior's draws accounts for that.
        if not prior.terms.has_side_data:
            return replace(self, prior=max(self.prior, prior, key=lambda one: (one.sees_both, one.held().ess)))
        held = prior.held_sample()
        sampling = self.sampling
        long = replace(sampling, draws=max(sampling.draws, -(-sampling.prior_draws // sampling.chains)))
        starts = starting_points(prior.points(held.values), held.answer.weights, sampling.chains, rng)
        sampler = Nuts.of(self.prior, False, sampling.compile_kwargs)
        trace = sampler.sample({}, starts, long, int(second.generate_state(1, np.uint64)[0] >> 1))
        diagnosis = diagnose(trace.points)
        points = trace.points.reshape(-1, trace.points.shape[-1])
        passed = bool(diagnosis.passed.all() and trace.passed)
        chance = expit(self._log_odds(prior.split(points), {})).reshape(trace.diverging.shape) if passed else None
        if chance is None or not held.reached or not replace(self, prior=prior)._agrees(held, trace, chance):
            raise ValueError(
                f"the posterior given the side data could not be sampled: R-hat {diagnosis.r_hat.max():.3g}, effective "
                f"size {diagnosis.ess.min():.0f}, {trace.diverging.sum()} divergences"
                + ", and draws of the prior show places that the chains have not been to" * passed
                + ": give a longer Sampling, another parametrisation, or a prior that is nearer to the side data"
            )
        independent = np.linspace(0, len(points) - 1, int(min(diagnosis.ess.min(), len(points)))).astype(np.int64)
        return replace(self, prior=given_chains(self.prior, points[independent]))

    @cached_property
    def sampler(self) -> Nuts | OwnSteps:
        """Sampler, compiled on first use."""
        if self.step is not None:
            return OwnSteps(self.prior, self.step)
        return Nuts.of(self.prior, True, self.sampling.compile_kwargs)

    def fits(
        self,
        observed: Mapping[str, ArrayLike],
        seeds: Sequence[np.random.SeedSequence],
        traces: int,
        progress: bool = False,
    ) -> list[Fit]:
        """Fits of every release, each with `traces` draws per chain."""
        released = self.prior.batched(observed)
        each = [runner.seed_sequence(seed).spawn(3) for seed in seeds]
        fits = []
        for i, sample in enumerate(self.prior.weigh(observed, [three[0] for three in each])):
            row = {name: value[i] for name, value in released.items()}
            fit = None
            if self._to_be_sampled(sample):
                fit = self._by_nuts(sample, row, each[i][2], traces, progress)
            if fit is None or (self.nuts != "always" and not fit.passed):
                fit = self._by_importance(sample, row, traces, np.random.default_rng(each[i][1]))
            fits.append(fit)
        return fits

    def _to_be_sampled(self, sample: Sample) -> bool:
        if self.step is not None:
            return bool(self.prior.values)
        needed = sample.reached and not sample.reliable
        return self.prior.is_smooth and (self.nuts == "always" or (self.nuts == "where needed" and needed))

    def _by_importance(self, sample: Sample, row: Arrays, traces: int, rng: np.random.Generator) -> Fit:
        """Fit by importance sampling: draws of the prior, resampled by their weights."""
        answer, sizes = sample.answer, (self.sampling.chains, traces)
        latents, chance = None, np.full(sizes[0] * traces, answer.present)
        if answer.weights.any():
            latents, chance = self.prior.draws_and_chances(sample, row, chance.size, rng)
        return Fit(
            answer.present,
            answer.out,
            max(answer.mcse, _ROUNDING),
            max(answer.spread, _ROUNDING),
            answer.ess,
            answer.k_hat,
            sample.explained,
            sample.reliable,
            self._by_chain(latents, sizes),
            chance.reshape(sizes),
        )

    def _by_chain(self, latents: Arrays | None, sizes: tuple[int, int]) -> Arrays:
        """Draws (draw, *shape) of every latent as (chain, draw, *shape); placeholders (NaN or -1) if there are none."""
        if latents is None:
            latents = {
                name: np.full((sizes[0] * sizes[1], *like.shape[1:]), np.nan if like.dtype.kind == "f" else -1)
                for name, like in self.prior.latents.items()
            }
        return {name: value.reshape(*sizes, *value.shape[1:]) for name, value in latents.items()}

    def _by_nuts(self, sample: Sample, row: Arrays, seed: Any, traces: int, progress: bool) -> Fit:
        """Fit by NUTS, with a second and longer attempt if the first one fails."""
        first, second = seed.spawn(2)
        fit = self.fit_once(sample, row, self.sampling, first, traces, progress)
        if fit.passed or not sample.reached:
            return fit
        return self.fit_once(sample, row, self.sampling.longer(LONGER), second, traces, progress)

    def fit_once(
        self,
        sample: Sample,
        row: Arrays,
        sampling: Sampling,
        seed: np.random.SeedSequence,
        traces: int,
        progress: bool = False,
    ) -> Fit:
        """Fit one release by NUTS once: diagnostics over all draws, and `traces` evenly spaced draws of each chain."""
        rng = np.random.default_rng(seed)
        starts = starting_points(self.prior.points(sample.values), sample.answer.weights, sampling.chains, rng)
        trace = self.sampler.sample(row, starts, sampling, int(seed.generate_state(1, np.uint64)[0] >> 1), progress)
        sizes = trace.diverging.shape
        values = self.prior.split(trace.points.reshape(-1, trace.points.shape[-1]))
        broken = not np.isfinite(trace.points).all()
        odds = np.full(sizes, np.nan) if broken else self._log_odds(values, row).reshape(sizes)
        chance = expit(odds)
        target, smooth = diagnose(chance[..., None]), diagnose(trace.points)
        one = self.prior.terms.is_one([value[:1] for value in values])
        open_target = self.prior.terms.one_reads_draws or (one.any() and not one.all())
        settled = not open_target or bool(target.constant[0] and sample.reliable)
        place = np.linspace(0, sizes[1] - 1, min(traces, sizes[1])).astype(np.int64)
        kept_trace = trace.at(place)
        shape = kept_trace.diverging.shape
        flat = self.prior.split(kept_trace.points.reshape(-1, trace.points.shape[-1]))
        latents = None if broken else self.prior.terms.latents(flat, row, rng, len(flat[0]))
        present, out = float(chance.mean()), float(expit(-odds).mean())
        error = sample.answer.mcse if settled else float(target.mcse[0])
        return Fit(
            present,
            out,
            error,
            sample.answer.spread if settled else float(error / max(present * out, 1e-300)),
            min(smooth.ess.min(), np.inf if settled else target.ess[0]),
            sample.answer.k_hat,
            sample.explained,
            bool(
                (settled or target.passed[0])
                and smooth.passed.all()
                and trace.passed
                and sample.reached
                and self._agrees(sample, trace, chance)
            ),
            self._by_chain(latents, shape),
            chance[:, place],
            float(np.fmax(target.r_hat[0], smooth.r_hat.max())),
            kept_trace,
        )

    def _log_odds(self, values: Sequence[NDArray[Any]], row: Arrays) -> Floats:
        """Log odds of the target in every draw."""
        present, out = self.prior.terms.hypotheses(values, {name: value[None] for name, value in row.items()})
        with np.errstate(invalid="ignore"):
            return np.asarray((present - out)[:, 0])

    def _agrees(self, sample: Sample, trace: Trace, chance: Floats) -> bool:
        """True if a fit covers the modes of the weighted draws.

        If the weights are reliable, P(target = 1) and every cell's mean rank among draws of the prior must agree within
        `_ERRORS` standard errors. Otherwise the range of the fit, tripled, must include the heaviest draws.
        """
        weights, every = sample.answer.weights, self.prior.points(sample.values)
        if not sample.reliable:
            heavy = every[weights > 0.01 * weights.max()]
            low, high = trace.points.min(axis=(0, 1)), trace.points.max(axis=(0, 1))
            inside = (heavy >= low - (high - low)) & (heavy <= high + (high - low))
            return bool(inside.all())
        expected, drawn = (self._places(points) for points in (every, trace.points))
        mean = weights @ expected
        error = np.sqrt(weights**2 @ (expected - mean) ** 2)
        off = np.append(drawn.mean(axis=(0, 1)) - mean, chance.mean() - sample.answer.present)
        diagnosis = diagnose(np.concatenate([drawn, chance[..., None]], axis=-1))
        slack = (
            _ERRORS * np.hypot(np.append(error, sample.answer.mcse), np.nan_to_num(diagnosis.mcse)) + 1.0 / chance.size
        )
        return bool((np.abs(off) <= slack).all())

    def _places(self, points: Floats) -> Floats:
        """Relative ranks of the cells of points (..., cell) among the draws of the prior, from 0 to 1."""
        pairs = zip(self._sorted_draws, np.moveaxis(points, -1, 0), strict=True)
        return np.stack([np.searchsorted(drawn, cell) / drawn.size for drawn, cell in pairs], axis=-1)

    @cached_property
    def _sorted_draws(self) -> Floats:
        """Prior draws of every cell in ascending order, (cell, draw)."""
        return np.sort(self.prior.points(self.prior.values).T, axis=1)
