r"""Posteriors of a target for many releases from one set of draws of the prior.

.. math::
   P(t = 1 \mid y) = \frac{\sum_i \sum_{s : t = 1} p(\theta_i, s, y) / p(\theta_i)}
                          {\sum_i \sum_s p(\theta_i, s, y) / p(\theta_i)}, \qquad \theta_i \sim p(\theta)

Discrete latents s are summed out unless their states are too many; the others are drawn with the continuous ones. The
same draws serve every release. A release is reported as unreliable if the tail of its weights is heavy, if the
effective number of draws is small, or if even the best draw fits badly (see `fit_limits`). Before that, draws of a
refined proposal are tried (see `refinement`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray

from adversary._core import Seed, blocks
from adversary.models.enumeration import Conditioned, condition

from .fit_limits import RARE, FarPoints, FitLimits, Sample, best_of, stacked, unstacked
from .prior_predictive import PriorPredictive
from .refinement import LARGEST_DIMENSION, Proposal, Worlds, refine
from .smoothing import LARGEST_KHAT, Hypotheses
from .terms import Terms
from .truths import releases_given

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

DRAWS = 10_000
"""Default number of prior draws."""

# Smallest effective number of draws for an estimate of the prior of the target.
FEWEST = 200
# Sufficient effective number of draws of each hypothesis.
ENOUGH = 2000
# Largest number of prior draws that an error message recommends.
MOST_PRIOR_DRAWS = 5_000_000
# Number of releases drawn from the prior predictive distribution, to calibrate the limits of fit.
_REFERENCE = 512
_CELLS_AT_ONCE = 2**22
# Largest number of draws times states that are evaluated for every draw.
_LARGEST_GRID_CELLS = 2**25
_FEWEST_DRAWS = 1000
# Number of draws used to estimate the probability at the ends of truncated supports.
_AT_END = 100
# Number of draws per stage of a refined proposal.
_REFINED = 4000
_UNDRAWABLE = "the model's latents cannot be drawn from their prior ({}): give every latent a proper law"


@dataclass(frozen=True)
class WeighedPrior:
    """Draws of a model's latents from its prior or a proposal, and the model's compiled terms.

    Parameters
    ----------
    model : the model with its release left free
    terms : its compiled terms
    values : draws (draw, *shape) of the latents that are not summed out, on the scale of the model's value variables
    log_prior, log_density : log density of the draws under the prior, and under their proposal, (draw,)
    rng : seed of the releases that calibrate the limits of fit
    far : points far from the draws of the prior
    log_share : log prior mass within the range of the latents' transforms
    lost : share of the prior lost because draws round to the end of a support
    again : function from longer supports, by name, to the same prior with these supports
    proposal : proposal of the draws, None for the prior
    known : whether the draws are posterior draws given the side data, with a density known up to a constant
    worked_out : `pure`, if it is known already
    """

    model: pm.Model
    terms: Terms
    values: tuple[NDArray[Any], ...]
    log_prior: Floats
    log_density: Floats
    rng: np.random.SeedSequence
    far: FarPoints
    again: Callable[[Mapping[str, ArrayLike]], WeighedPrior]
    log_share: float = 0.0
    lost: float = 0.0
    proposal: Proposal | None = None
    known: bool = False
    worked_out: Floats | None = None

    @classmethod
    def of(
        cls,
        model: pm.Model,
        observed: Sequence[str],
        target: str | None = "in",
        support: Mapping[str, ArrayLike] | None = None,
        settled: Sequence[str] = (),
        rng: Seed = None,
        draws: int = DRAWS,
    ) -> WeighedPrior:
        """Compile `model` for releases of the variables named in `observed`, and draw its prior.

        Raises
        ------
        ValueError : an improper prior, or a target that has values other than 0 and 1 or depends on the release
        """
        given = condition(model, observed, continuous=True)
        terms = Terms.of(given, target, support or {}, settled)
        draws = int(np.clip(_LARGEST_GRID_CELLS // terms.met.total, min(draws, _FEWEST_DRAWS), draws))
        first, second = blocks.seed_sequence(rng).spawn(2)
        try:
            values, share = _draw_prior(model, terms.given, draws, np.random.default_rng(first))
        except NotImplementedError as error:
            raise ValueError(_UNDRAWABLE.format(error)) from error
        log_share = float(np.log(share))
        log_prior = terms.base(values, far=True) - log_share
        possible = np.isfinite(log_prior)
        for value in values:
            possible &= np.isfinite(value.reshape(len(value), -1)).all(axis=1)
        if not possible.any():
            raise ValueError("the model's log density is not a number, or infinite, at all draws of its prior")
        values, log_prior = tuple(value[possible] for value in values), log_prior[possible]
        far = FarPoints.around(terms, values, log_share, np.random.default_rng(second))
        lost = 1.0 - float(possible.mean())
        again = partial(_again, (model, observed, target, support or {}, settled, rng, draws))
        return cls(model, terms, values, log_prior, log_prior, second, far, again, log_share, lost)

    @cached_property
    def pure(self) -> Floats:
        """Terms of the density at the draws that do not depend on a release, (draw, met)."""
        if self.worked_out is not None:
            return self.worked_out
        return self.terms.pure[0](self.values, len(self.log_prior))

    @cached_property
    def latents(self) -> Arrays:
        """Some draws of every latent on its own scale, given the side data."""
        return self.prior_draws(_REFERENCE, np.random.default_rng(self.rng))

    @cached_property
    def reference(self) -> Arrays:
        """Releases (release, *shape) of the draws `latents`, to calibrate the limits of fit."""
        released = self.terms.given.released
        try:
            drawn = releases_given(self.model, self.latents, list(released), np.random.default_rng(self.rng))
        except NotImplementedError as error:
            raise ValueError(_UNDRAWABLE.format(error)) from error
        return {name: drawn[name].astype(value.dtype) for name, value in released.items()}

    def before(self, settled: Mapping[str, NDArray[Any]] | None = None) -> tuple[float, float]:
        """P(target = 1) before the release, given those settled, and its error: Monte Carlo error and lost mass."""
        sample = self.held(settled)
        if not sample.weights.any():
            raise ValueError("what is published exactly is impossible under the model")
        heavy = sample.k_hat > LARGEST_KHAT and (bool(settled) or self.terms.has_side_data)
        if not self.sees_both or (sample.spread > 0 and (sample.ess < FEWEST or heavy)):
            raise ValueError(self._too_few(sample, bool(settled) or self.terms.has_side_data))
        return sample.present, float(np.hypot(sample.mcse, self.lost))

    @cached_property
    def sees_both(self) -> bool:
        """False if the target depends on drawn latents and is the same in all draws: its prior is then unknown."""
        return not self.terms.one_reads_draws or 0.0 < self.held().present < 1.0

    def _too_few(self, answer: Hypotheses, known: bool) -> str:
        """Message for too few draws, with the remedy."""
        size = self.log_prior.size
        if known:
            return (
                f"what the model knows beside the release leaves {answer.ess:.0f} of {size} draws of its continuous "
                f"latents, fewer than {FEWEST} or with too heavy a tail (k-hat {answer.k_hat:.2g}), to average its "
                "prior over: put it into their laws instead"
            )
        own = answer.ess if 0.0 < answer.present < 1.0 else 0.0
        rare = int(answer.present < 0.5)
        few = f"of {size} draws of the prior {own:.0f} speak for the target being {rare}, fewer than "
        if own and (wanted := size * ENOUGH / own) <= MOST_PRIOR_DRAWS:
            more = int(np.ceil(wanted / 10_000)) * 10_000
            return f"{few}{FEWEST}: the target is rare, use adversary.Sampling(prior_draws={more})"
        return (
            f"{few}{FEWEST}, and more than {MOST_PRIOR_DRAWS} prior_draws would be needed: make the target a variable "
            "with a probability of its own, or let it read fewer continuous latents"
        )

    def held(self, settled: Mapping[str, NDArray[Any]] | None = None) -> Hypotheses:
        """Distribution of the target before the release, given the side data and exact releases `settled`."""
        return self.held_sample({n: v[:1] for n, v in (settled or {}).items()}).answer

    def held_sample(self, settled: Arrays | None = None) -> Sample:
        """Weighted draws given the side data and the exact releases `settled`, (1, *shape) by name."""
        return self._held_given(settled) if settled else self._held

    @cached_property
    def _held(self) -> Sample:
        """`held_sample` given the side data only, cached."""
        return self._held_given(None)

    def _held_given(self, settled: Arrays | None) -> Sample:
        joint, far = self.log_joint(settled or {}), self.far.joint(settled or {})
        best = float(best_of(np.logaddexp(*joint), self.log_prior, self.log_density)[0])
        explained = best - self.far.best(far)[0] if self.terms.has_side_data else np.inf
        answer = Hypotheses.of(*(part[:, 0] - self.log_density for part in joint))
        sample = Sample(self.values, self.pure, self.terms.table(settled or {}), answer, float(explained), self.lost)
        both = np.logaddexp(joint[0][:, 0], joint[1][:, 0])
        return self.far.counted(sample, (far[0][:, 0], far[1][:, 0]), both)[0]

    def weigh(
        self,
        observed: Mapping[str, ArrayLike],
        rng: Seed | Sequence[np.random.SeedSequence] = None,
        refine: bool = True,
    ) -> Iterator[Sample]:
        """Yield a sample per release: the draws weighted by it, or those of a refined proposal if these are poor."""
        released = self.batched(observed)
        size = next(iter(released.values())).shape[0]
        seeds = rng if isinstance(rng, Sequence) else blocks.seed_sequence(rng).spawn(size)
        for start in range(0, size, self.width):
            window = slice(start, min(start + self.width, size))
            rows = {name: value[window] for name, value in released.items()}
            table = self.terms.table(rows)
            joint = self.log_joint(rows, table)
            best = best_of(np.logaddexp(*joint), self.log_prior, self.log_density)
            far = self.far.joint(rows, table)
            far_best = self.far.best(far)
            parts = [np.ascontiguousarray(part.T) for part in (*joint, *far)]
            for i, present, out, *there in zip(range(best.size), *parts, strict=True):
                own, explained = table[..., i : i + 1], np.inf
                if self.values:
                    explained = self.fit_limits.explained(float(best[i]), float(far_best[i]))
                answer = Hypotheses.of(present - self.log_density, out - self.log_density)
                sample = Sample(self.values, self.pure, own, answer, explained, self.lost)
                sample, guide = self.far.counted(sample, there, np.logaddexp(present, out))
                row = {name: value[i] for name, value in rows.items()}
                if not sample.settled and refine and self.may_be_refined and best[i] > -np.inf:
                    generator = np.random.default_rng(seeds[start + i])
                    sample = sample.better_of(self._refine(row, own, (present, out), there, guide, generator))
                yield self._with_cut(sample, row)

    def _with_cut(self, sample: Sample, row: Arrays) -> Sample:
        """Sample with `cut`, the probability at the ends of truncated supports, estimated from some of its draws."""
        if not sample.answer.weights.any() or not self.terms.sums_truncated_latent:
            return sample
        place = _systematic(sample.answer.weights, _AT_END, np.random.default_rng(self.rng))
        shares = self.terms.at_end([value[place] for value in sample.values], row, sample.table)
        return replace(sample, cut=float(shares.mean()))

    @property
    def is_smooth(self) -> bool:
        """True if some latent is drawn, and all drawn latents are continuous."""
        return bool(self.values) and all(value.dtype.kind == "f" for value in self.values)

    @property
    def may_be_refined(self) -> bool:
        """True if all drawn latents are continuous, with at most `LARGEST_DIMENSION` cells."""
        return self.is_smooth and stacked(self.values).shape[1] <= LARGEST_DIMENSION

    def _refine(
        self,
        row: Arrays,
        table: Floats,
        log_joint: tuple[Floats, Floats],
        far: Sequence[Floats],
        guide: Worlds | None,
        rng: np.random.Generator,
    ) -> Sample:
        """Sample of a refined proposal for one release; `far` is the log joint density of the far points."""
        released = {name: value[None] for name, value in row.items()}
        population = self.population(released, table, log_joint, _is_reliable, _REFINED, rng, guide)
        both, answer = np.logaddexp(*population.log_joint), Hypotheses.of(*population.log_weights)
        best = best_of(both[:, None], population.log_prior, population.log_density)
        explained = self.fit_limits.explained(float(best[0]), float(self.far.best([part[:, None] for part in far])[0]))
        sample = Sample(self.split(population.points), None, table, answer, explained, self.lost)
        return self.far.made_by(population).counted(sample, far, both)[0]

    def population(
        self,
        released: Arrays,
        table: Floats,
        log_joint: tuple[Floats, Floats],
        enough: Callable[[Floats, Floats], bool],
        size: int,
        rng: np.random.Generator,
        guide: Worlds | None = None,
        pilot: int | None = None,
        pure: Floats | None = None,
    ) -> Worlds:
        """Draws of refined proposals for one release, (1, *shape) by name; see `refine`.

        The first mixture is fitted to these draws, with their log joint density under each hypothesis, and to `guide`.
        With `pure`, the terms of all draws are collected too.
        """

        def density(points: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            values = self.split(points)
            with np.errstate(all="ignore"):
                own = self.terms.pure[0](values, len(points), True)
                present, out = self.terms.hypotheses(values, released, own, table, far=True)
                return present[:, 0], out[:, 0], self.terms.base(values, far=True) - self.log_share, own

        start = Worlds(stacked(self.values), log_joint, self.log_prior, self.log_density, self.proposal, pure)
        return refine(start, not self.known, density, enough, size, rng, guide, pilot)

    def points(self, values: Sequence[NDArray[Any]]) -> Floats:
        """Values (draw, *shape) of each drawn latent as points (draw, cell)."""
        return stacked(values)

    def split(self, points: Floats) -> list[NDArray[Any]]:
        """Points (draw, cell) as values (draw, *shape) of each drawn latent."""
        return unstacked(points, self.values)

    def draws_of(self, sample: Sample, row: Arrays, size: int, rng: np.random.Generator) -> Arrays:
        """Draws (draw, *shape) of every latent on its own scale given one release, resampled by a sample's weights."""
        return self.draws_and_chances(sample, row, size, rng)[0]

    def draws_and_chances(
        self, sample: Sample, row: Arrays, size: int, rng: np.random.Generator
    ) -> tuple[Arrays, Floats]:
        """Draws as in `draws_of`, and P(target = 1 | latents not summed out, release) in each, (draw,)."""
        place = rng.permutation(_systematic(sample.answer.weights, size, rng))
        values = [value[place] for value in sample.values]
        pure = None if sample.pure is None else sample.pure[place]
        return self.terms.latents(values, row, rng, size, pure, sample.table), sample.answer.chances[place]

    def prior_draws(self, size: int, rng: np.random.Generator) -> Arrays:
        """Draws (draw, *shape) of every latent given the side data."""
        return self.draws_of(self.known_sample(), {}, size, rng)

    def known_sample(self) -> Sample:
        """Weighted draws given the side data, without diagnostics of fit; ValueError for impossible side data."""
        held = self.held()
        if not held.ess > 0:
            raise ValueError("what the model knows beside the release is impossible under its prior")
        return Sample(self.values, self.pure, self.terms.table({}), held, np.inf)

    def batched(self, observed: Mapping[str, ArrayLike]) -> Arrays:
        """Releases as checked arrays (release, *shape) of the model's dtypes."""
        return {slot.name: slot.batch(observed[slot.name])[0][0] for slot in self.terms.slots}

    def at_first_draws(self, released: Mapping[str, NDArray[Any]]) -> tuple[Floats, Floats]:
        """Log joint density at three draws, (draw, release) under each hypothesis: a fingerprint for stored results."""
        return self.terms.hypotheses([value[:3] for value in self.values], released)

    @property
    def width(self) -> int:
        """Number of releases weighted per call."""
        return max(1, _CELLS_AT_ONCE // max(self.log_prior.size, self.terms.states.total))

    def log_joint(self, released: Mapping[str, NDArray[Any]], table: Floats | None = None) -> tuple[Floats, Floats]:
        """Log joint density of the draws under each hypothesis, (draw, release)."""
        return self.terms.hypotheses(self.values, released, self.pure, table)

    @cached_property
    def fit_limits(self) -> FitLimits:
        """Limits of fit, from releases drawn from the model itself.

        Fewer releases, draws and far points are used if terms depend on both draws and releases, which is slow.
        """
        few = self.terms.groups[tuple(self.reference)].mixed
        releases, every = (_REFERENCE // 16, 10) if few else (_REFERENCE, 1)
        size = len(self.log_prior) // every
        values, pure, log_prior = [value[:size] for value in self.values], self.pure[:size], self.log_prior[:size]
        log_density = log_prior if self.log_density is self.log_prior else self.log_density[:size]
        best, far = [], []
        for start in range(0, releases, self.width):
            rows = {name: value[start : min(start + self.width, releases)] for name, value in self.reference.items()}
            best.append(best_of(np.logaddexp(*self.terms.hypotheses(values, rows, pure)), log_prior, log_density))
            far.append(self.far.best(self.far.joint(rows, every=every), every))
        return FitLimits.of(np.concatenate(best), np.concatenate(far), 0 if few else RARE)


def _again(options: tuple[Any, ...], longer: Mapping[str, ArrayLike]) -> WeighedPrior:
    """The prior compiled again with longer supports."""
    model, observed, target, support, settled, rng, draws = options
    return WeighedPrior.of(model, observed, target, {**longer, **support}, settled, rng, draws)


def _is_reliable(present: Floats, out: Floats) -> bool:
    return Hypotheses.of(present, out).reliable


def _draw_prior(
    model: pm.Model, given: Conditioned, draws: int, rng: np.random.Generator
) -> tuple[tuple[NDArray[Any], ...], float]:
    """Prior draws of the latents that are not summed out, and the prior mass within their transforms' range."""
    if not given.continuous:
        return (), 1.0
    drawn, share = PriorPredictive.of(model, (), values=tuple(given.continuous)).draw(draws, rng)
    return tuple(drawn[name].astype(value.dtype) for name, value in given.continuous.items()), share


def _systematic(weights: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Systematic resampling: index i is drawn floor(n w_i) or ceil(n w_i) times."""
    cumulative = np.cumsum(weights)
    wanted = (np.arange(size) + rng.random()) / size * cumulative[-1]
    return np.asarray(np.minimum(np.searchsorted(cumulative, wanted), len(weights) - 1), dtype=np.int64)
