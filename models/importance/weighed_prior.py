r"""Posteriors of a target for many releases from one set of draws of the prior.

.. math::
   P(t = 1 \mid y) = \frac{\sum_i \sum_{s : t = 1} p(\theta_i, s, y) / p(\theta_i)}
                          {\sum_i \sum_s p(\theta_i, s, y) / p(\theta_i)}, \qquad \theta_i \sim p(\theta)

Discrete latents s are summed out as far as there are not too many of their states; the others are drawn with the
continuous ones. The draws serve every release, and what they do not reach is said to be so: a release is given no
number if the tail of its weights is heavy, if few draws carry them, or if even the best draw explains it worse than
draws explain releases of their own. Before that, draws of a proposal nearer to the release are tried: see `refinement`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from adversary._core import blocks
from adversary.models.enumeration import Conditioned, condition

from .prior_predictive import PriorPredictive
from .refinement import LARGEST_DIMENSION, refine_proposal
from .smoothing import Hypotheses
from .terms import Terms
from .truths import releases_given

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

DRAWS = 10_000
"""Draws of the prior that are weighed."""
FEWEST = 200
"""Effective number of these draws below which what is known beside the release leaves too few of them."""
_REFERENCE = 512
"""Releases drawn from the prior, to see how well draws explain releases of their own."""
_RARE = 2  # so many of these releases may be explained worse than all others
_SLACK = 7.0
"""Nats by which a release may be explained worse than that. Of 1,500 releases that each of ten models of the tests made
itself, 3 nats refuse up to 2.7 in a thousand, 5 up to 0.7 and 7 none; only a funnel, whose neck no draw reaches, loses
6.7 with 5 nats and with 10 alike. A part of the prior without draws can outweigh those that explain a release so badly
only where it has a share of exp(-7) or more: of 10,000 draws nine or more should have been there."""
_CELLS_AT_ONCE = 2**22
_LARGEST_GRID_CELLS = 2**25  # draws times states that they meet
_FEWEST_DRAWS = 1000
_REFINED = 4000
"""Draws of a better proposal."""
_UNDRAWABLE = "the model's latents cannot be drawn from their prior ({}): give every latent a proper law"


@dataclass(frozen=True)
class Sample:
    """Draws of the latents that are not summed out, and their weights under one release.

    Parameters
    ----------
    values : (draw, *shape) each, on the scale of the model's value variables
    pure, table : terms of the density at these draws, and of the release: see `Terms`
    answer : what they say of the target, and their weights
    explained : nats by which the best draw explains the release better (or, negative, worse) than draws of the prior
        explain releases of their own at worst
    """

    values: Sequence[NDArray[Any]]
    pure: Floats
    table: Floats
    answer: Hypotheses
    explained: float

    @property
    def reliable(self) -> bool:
        """Whether the answer may be used."""
        return self.answer.reliable and self.reached

    @property
    def reached(self) -> bool:
        """Whether some draw explains the release."""
        return self.explained >= -_SLACK


@dataclass(frozen=True)
class WeighedPrior:
    """Draws of a model's latents from its prior, and its terms at them.

    Parameters
    ----------
    model : with its release left free
    terms : its compiled terms
    values : draws (draw, *shape) of the latents that are not summed out, on the scale of the model's value variables
    rng : seed of the releases that draws are compared on
    known : whether the draws are given what is known beside the release, and not of the prior alone
    log_density : log density of the draws (draw,), where other priors made them too
    """

    model: pm.Model
    terms: Terms
    values: tuple[NDArray[Any], ...]
    rng: np.random.SeedSequence
    known: bool = False
    log_density: Floats | None = None

    @classmethod
    def of(
        cls,
        model: pm.Model,
        observed: Sequence[str],
        target: str | None = "in",
        support: Mapping[str, ArrayLike] | None = None,
        settled: Sequence[str] = (),
        rng: Any = None,
        draws: int = DRAWS,
    ) -> WeighedPrior:
        """Compile `model` for releases of the variables named in `observed`, and draw its prior.

        Raises
        ------
        ValueError : an improper prior, a target that is not 0 or 1 or reads the release
        """
        given = condition(model, observed, continuous=True)
        terms = Terms.of(given, target, support or {}, settled)
        draws = int(np.clip(_LARGEST_GRID_CELLS // terms.met, min(draws, _FEWEST_DRAWS), draws))
        first, second = blocks.seed_sequence(rng).spawn(2)
        try:
            return cls(model, terms, _draw_prior(model, terms.given, draws, np.random.default_rng(first)), second)
        except NotImplementedError as error:
            raise ValueError(_UNDRAWABLE.format(error)) from error

    @cached_property
    def pure(self) -> Floats:
        """Terms of the density at the draws that no release enters, (draw, met)."""
        return self.terms.pure[0](self.values, len(self.values[0]) if self.values else 1)

    @cached_property
    def log_base(self) -> Floats:
        """Log density that the draws have, up to a constant, (draw,)."""
        return self._base(self.values, self.pure) if self.log_density is None else self.log_density

    def _base(self, values: Sequence[NDArray[Any]], pure: Floats) -> Floats:
        """The same of any values and their pure terms."""
        if not self.known:
            return self.terms.base(values)
        return np.asarray(np.logaddexp(*self.terms.hypotheses(values, {}, pure))[:, 0])

    @cached_property
    def latents(self) -> Arrays:
        """Some draws of every latent on its own scale, given what is known beside the release."""
        return self.prior_draws(_REFERENCE, np.random.default_rng(self.rng))

    @cached_property
    def reference(self) -> Arrays:
        """Releases of these draws, (release, *shape), to see how well draws explain releases of their own."""
        released = self.terms.given.released
        try:
            found = releases_given(self.model, self.latents, list(released), np.random.default_rng(self.rng))
        except NotImplementedError as error:
            raise ValueError(_UNDRAWABLE.format(error)) from error
        return {name: found[name].astype(value.dtype) for name, value in released.items()}

    @property
    def enough_of_what_is_known(self) -> bool:
        """Whether the side data leave enough of the draws, as the first of these tell."""
        few = [value[:_FEWEST_DRAWS] for value in self.values]
        size = len(few[0])
        weights = np.logaddexp(*self.terms.hypotheses(few, {}))[:, 0] - self.terms.base(few)
        weights = np.exp(weights - weights.max())
        return bool(weights.sum() ** 2 / (weights**2).sum() * len(self.values[0]) >= 2 * FEWEST * size)

    def before(self, settled: Mapping[str, NDArray[Any]] | None = None) -> tuple[float, float]:
        """P(target = 1) before the release, given those settled, and its Monte Carlo standard error."""
        found = self.held(settled)
        if not found.ess > 0:
            raise ValueError("what is published exactly is impossible under the model")
        if found.mcse > 0 and found.ess < FEWEST:
            raise ValueError(
                f"what the model knows beside the release leaves {found.ess:.0f} of {self.log_base.size} draws of its "
                f"continuous latents, fewer than {FEWEST}, to average its prior over: put it into their laws instead"
            )
        return found.present, found.mcse

    def held(self, settled: Mapping[str, NDArray[Any]] | None = None) -> Hypotheses:
        """What is held of the target before the release."""
        present, out = self._log_weights({n: v[:1] for n, v in (settled or {}).items()})
        return Hypotheses.of(present[:, 0], out[:, 0])

    def weigh(self, observed: Mapping[str, ArrayLike], rng: Any = None, refine: bool = True) -> Iterator[Sample]:
        """One release after another: the draws weighed by it, or draws of a better proposal where that is needed."""
        released = self.batched(observed)
        size = next(iter(released.values())).shape[0]
        seeds = rng if isinstance(rng, Sequence) else blocks.seed_sequence(rng).spawn(size)
        for start in range(0, size, self.width):
            window = slice(start, min(start + self.width, size))
            rows = {name: value[window] for name, value in released.items()}
            table = self.terms.table(rows)
            parts = [np.ascontiguousarray(part.T) for part in self._log_weights(rows, table)]
            for i, present, out in zip(range(start, size), *parts, strict=False):
                answer, best = Hypotheses.of(present, out), _largest_sum(present, out)
                own = table[..., i - start : i - start + 1]
                found = Sample(self.values, self.pure, own, answer, best - self.fit if self.values else np.inf)
                if not found.reliable and refine and self._may_be_refined and best > -np.inf:
                    row = {name: value[i] for name, value in released.items()}
                    better = self._refine(row, own, (present, out), np.random.default_rng(seeds[i]))
                    found = better if better.reliable or better.explained > found.explained else found
                yield found

    @property
    def is_smooth(self) -> bool:
        """Whether something is drawn, and all of it continuous."""
        return bool(self.values) and all(value.dtype.kind == "f" for value in self.values)

    @property
    def _may_be_refined(self) -> bool:
        """Whether all that is drawn is continuous, and not too much."""
        return self.is_smooth and self.points(self.values).shape[1] <= LARGEST_DIMENSION

    def _refine(
        self, row: Arrays, table: Floats, log_weights: tuple[Floats, Floats], rng: np.random.Generator
    ) -> Sample:
        """Draws of a mixture around those of the prior that are near to one release."""
        released = {name: value[None] for name, value in row.items()}
        pure = self.pure

        def density(points: Floats) -> tuple[Floats, Floats, Floats]:
            nonlocal pure
            values = self.split(points)
            pure = self.terms.pure[0](values, len(points))
            present, out = self.terms.hypotheses(values, released, pure, table)
            return present[:, 0], out[:, 0], self._base(values, pure)

        every = self.points(self.values)
        points, present, out, likelihood = refine_proposal(
            every,
            log_weights,
            None if self.known else lambda few: every[rng.integers(len(every), size=few)],
            density,
            lambda *parts: Hypotheses.of(*parts).reliable,
            _REFINED,
            rng,
        )
        answer = Hypotheses.of(present, out)
        fit = float(likelihood[answer.weights > 0].max(initial=-np.inf) - self.fit)
        return Sample(self.split(points), pure, table, answer, fit)

    def points(self, values: Sequence[NDArray[Any]]) -> Floats:
        """Values (draw, *shape) of each drawn latent as points (draw, cell)."""
        return np.concatenate([value.reshape(len(value), -1) for value in values], axis=1)

    def split(self, points: Floats) -> list[NDArray[Any]]:
        """Points (draw, cell) as values (draw, *shape) of each drawn latent."""
        sizes = [int(np.prod(value.shape[1:])) for value in self.values]
        parts = np.split(points, np.cumsum(sizes)[:-1], axis=1)
        return [part.reshape(-1, *value.shape[1:]) for part, value in zip(parts, self.values, strict=True)]

    def draws_of(self, sample: Sample, row: Arrays, size: int, rng: np.random.Generator) -> Arrays:
        """So many draws (draw, *shape) of every latent on its own scale given one release, by a sample's weights."""
        place = rng.permutation(_systematic(sample.answer.weights, size, rng))
        values = [value[place] for value in sample.values]
        return self.terms.latents(values, row, rng, size, sample.pure[place], sample.table)

    def prior_draws(self, size: int, rng: np.random.Generator) -> Arrays:
        """So many draws of every latent given what is known beside the release, (draw, *shape)."""
        held = self.held()
        if not held.ess > 0:
            raise ValueError("what the model knows beside the release is impossible under its prior")
        return self.draws_of(Sample(self.values, self.pure, self.terms.table({}), held, np.inf), {}, size, rng)

    def batched(self, observed: Mapping[str, ArrayLike]) -> Arrays:
        """Releases (release, *shape) as the model's variables hold them, checked."""
        return {slot.name: slot.batch(observed[slot.name])[0][0] for slot in self.terms.slots}

    def at_first_draws(self, released: Mapping[str, NDArray[Any]]) -> tuple[Floats, Floats]:
        """What the model computes for these releases at a few draws, (draw, release) under each hypothesis."""
        return self.terms.hypotheses([value[:3] for value in self.values], released)

    @property
    def width(self) -> int:
        """Releases weighed at once."""
        return max(1, _CELLS_AT_ONCE // max(self.log_base.size, self.terms.grid.size))

    def _log_weights(self, released: Mapping[str, NDArray[Any]], table: Floats | None = None) -> tuple[Floats, Floats]:
        """Log weights of the draws under each hypothesis, (draw, release)."""
        present, out = self.terms.hypotheses(self.values, released, self.pure, table)
        return present - self.log_base[:, None], out - self.log_base[:, None]

    @cached_property
    def fit(self) -> float:
        """Log weight of the best draw, for a release drawn from the prior that is explained worse than most.

        Where every draw meets every release anew, of fewer releases and draws.
        """
        few = self.terms.groups[tuple(self.reference)].mixed
        releases = _REFERENCE // 16 if few else _REFERENCE
        draws = len(self.log_base) // (10 if few else 1)
        values, base = [value[:draws] for value in self.values], self.log_base[:draws, None]
        pure = self.pure[:draws]
        best = []
        for start in range(0, releases, self.width):
            rows = {name: value[start : min(start + self.width, releases)] for name, value in self.reference.items()}
            best.append((np.logaddexp(*self.terms.hypotheses(values, rows, pure)) - base).max(axis=0))
        return float(np.sort(np.concatenate(best))[0 if few else _RARE])


def shared_draws(priors: Sequence[WeighedPrior]) -> list[WeighedPrior]:
    r"""Several priors of the same latents over one set of draws: those of all of them together.

    A draw has the density :math:`\sum_k n_k p_k(\theta) / \sum_k n_k` of the mixture of all priors, so their
    weights are bounded, and none has a part that no draw reaches because another prior made the draws.

    Parameters
    ----------
    priors : of models whose drawn latents have the same names and shapes, on their own scale

    References
    ----------
    Owen and Zhou (2000), "Safe and effective importance sampling", Journal of the American Statistical Association 95.
    """
    sizes = [len(one.values[0]) if one.values else 1 for one in priors]
    if len(priors) == 1 or not priors[0].values:
        return list(priors)
    values = tuple(np.concatenate(parts) for parts in zip(*(one.values for one in priors), strict=True))
    densities = np.stack([one.terms.base(values) for one in priors])
    log_density = logsumexp(densities, axis=0, b=np.array(sizes)[:, None] / sum(sizes))
    return [replace(one, values=values, log_density=log_density) for one in priors]


def _draw_prior(model: pm.Model, given: Conditioned, draws: int, rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
    """Many values of the latents that are not summed out.

    Worlds whose values are infinite on the unconstrained scale, where a probability underflows, are left out.
    """
    graphs = {name: _value(model, name) for name in given.continuous}
    found = PriorPredictive.of(model, (), graphs).draw(draws, rng)[0] if graphs else {}
    values = list(found.values())
    finite = np.all([np.isfinite(v.reshape(len(v), -1)).all(axis=1) for v in values] or [np.ones(1, bool)], axis=0)
    return tuple(v[finite].astype(given.continuous[n].dtype) for n, v in found.items())


def _largest_sum(first: Floats, second: Floats) -> float:
    """Largest of log(exp(first) + exp(second)), entry by entry: at most log 2 above the larger of them."""
    larger = np.maximum(first, second)
    near = larger >= larger.max() - np.log(2.0)
    return float(np.logaddexp(first[near], second[near]).max())


def _systematic(weights: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Indices drawn by their weights, each as often as it should be but for one."""
    cumulative = np.cumsum(weights)
    wanted = (np.arange(size) + rng.random()) / size * cumulative[-1]
    return np.asarray(np.minimum(np.searchsorted(cumulative, wanted), len(weights) - 1), dtype=np.int64)


def _value(model: pm.Model, name: str) -> Any:
    """A latent's own draw on the scale of its value variable."""
    rv = model[name]
    transform = model.rvs_to_transforms[rv]
    return rv if transform is None else transform.forward(rv, *rv.owner.inputs)
