r"""Importance sampling of both hypotheses about a rare target, given the side data.

If the target is rare, few or no draws of the prior have it; side data may leave few draws as well. Refined proposals
(see `refinement`) are then made before any release is read. Half of each mixture is placed where the target is 1, half
where it is 0:

.. math:: w_i^t = \frac{p(\theta_i, t, \text{side data})}{q(\theta_i)}, \qquad
          P(t) = \frac{\sum_i w_i^t}{\sum_i (w_i^0 + w_i^1)},

Each hypothesis thus has draws of its own, and its probability, with an error, follows from all draws. If no draw of the
prior belongs to a hypothesis, the mixtures start at points far from the draws.

References
----------
Rubinstein and Kroese (2017), "Simulation and the Monte Carlo Method", 3rd ed., chapter 8 (adaptive importance sampling
of rare events).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.model.fgraph import clone_model
from scipy.special import logsumexp

from adversary.models.enumeration import Tail, check_truth, condition, unbounded_latents

from .fit_limits import LARGEST_MISSED, FarPoints
from .latent_draws import log_indicator, number_shape
from .refinement import STAGES, Worlds
from .smoothing import Hypotheses
from .terms import Terms
from .truths import RareTruth, releases_given, releases_of_worlds
from .weighed_prior import DRAWS, ENOUGH, FEWEST, WeighedPrior

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]

_FEWEST_DRAWS, _FEWEST_PROPOSED = 1000, 2000

# Cells of side data read by the draws of one stage: 13,000 rows times 10,000 draws take four seconds.
_ROWS_READ = 2**27

# Largest size, in numbers, of the proposals' terms that are stored for reuse with the releases.
_LARGEST_KEPT = 2**24

# Largest Pareto shape k-hat of weights with a finite variance.
_LIGHT_TAIL = 0.5

# Smallest relative effective sample size of draws given the side data, which releases reweight again.
_MANY = 0.25

# Smallest relative effective sample size of each hypothesis among prior draws, up to `ENOUGH` draws.
_LEAST = 0.2
_CHECKED, _AT_ONCE, _LONGEST = 1000, 250, 4096
# Supports are lengthened at most so often. The draws move each time, because truncated states had too little weight.
_REBUILT = 3
# Largest mass outside a truncated support.
_ROUNDING = 1e-7
# Draws per release wanted.
_WORLDS = 4
# Smallest share of draws with the target value of a truth.
_LEAST_SHARE = 0.01
# Smallest effective number of draws per release wanted.
_SHARE = 0.5


def has_enough_draws(prior: WeighedPrior) -> bool:
    """True if each hypothesis has enough draws given the side data, and no far point fits the side data better.

    Parameters
    ----------
    prior : weighted draws of a model

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", np.float64(0.0), np.float64(1.0))
    ...     rare = pm.Deterministic("in", (x > 3.0).astype("int64"))
    ...     noisy = pm.Normal("noisy", rare, np.float64(1.0))
    >>> prior = WeighedPrior.of(model, ["noisy"], rng=1)
    >>> has_enough_draws(prior), has_enough_draws(refine_given_side_data(prior, np.random.default_rng(1)))
    (False, True)
    """
    size = len(prior.log_prior)
    if not prior.terms.has_side_data:
        held = prior.held_sample()
        own = size if prior.proposal is None else prior.proposal.sizes[0]
        unsure = held.answer.spread > 0 and held.answer.ess < min(ENOUGH, _LEAST * own)
        return bool(held.answer.weights.any()) and not unsure and not held.missed > LARGEST_MISSED
    # A cheap check first on some draws of every stage; all draws are evaluated only if it passes.
    every = slice(None, None, -(-size // _FEWEST_DRAWS))
    few = [value[every] for value in prior.values]
    pure = None if prior.worked_out is None else prior.worked_out[every]
    weights = np.logaddexp(*prior.terms.hypotheses(few, {}, pure))[:, 0] - prior.log_density[every]
    weights = np.exp(weights - weights.max())
    if weights.sum() ** 2 / (weights**2).sum() * size < 2 * FEWEST * weights.size:
        return False
    held = prior.held_sample()
    return held.reliable and held.answer.ess >= 2 * FEWEST


def refine_given_side_data(prior: WeighedPrior, rng: np.random.Generator, wanted: int | None = None) -> WeighedPrior:
    """Prior with draws from refined proposals for both hypotheses, given the side data.

    Truncated supports of counts are lengthened until the mass beyond is negligible at these draws too.

    Parameters
    ----------
    prior : draws for which `has_enough_draws` is false
    rng : generator
    wanted : sufficient number of draws with side data; default: as many as those of the prior

    Returns
    -------
    WeighedPrior of the same model with other draws. Its `lost` is 1 if supports are still too short.
    """
    population, longest = _proposed(prior, rng, wanted), dict[str, NDArray[np.int64]]()
    for _ in range(_REBUILT):
        if not (longer := _longer_supports(population, rng)):
            return population
        longest |= longer
        population = _proposed(prior.again(longest), rng, wanted)
    return replace(population, lost=1.0) if _longer_supports(population, rng) else population


def _longer_supports(prior: WeighedPrior, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    """Longer supports of unbounded latents whose current ones omit too much mass at these draws, by name."""
    given, joint = prior.terms.given, prior.log_joint({})
    names = unbounded_latents({name: given.model[name] for name in given.latents}, {}, given.moving)
    supports: dict[str, NDArray[np.int64]] = {}
    if not names:
        return supports
    heavy = [np.exp(part - part.max()) for part in (part[:, 0] - prior.log_density for part in joint)]
    place = np.concatenate([rng.choice(w.size, _CHECKED, p=w / w.sum()) for w in heavy if np.isfinite(w).all()])
    drawn = prior.terms.latents([value[place] for value in prior.values], {}, rng, place.size)
    for name, (_, start) in names.items():
        tail = Tail.of(given.model[name], number_shape(given.model[name]), given.moving)
        length = own = len(prior.terms.states.components.grid.axes[name][0])
        while length < 2 * _LONGEST and _lack(tail, drawn, np.arange(start, start + length)) > _ROUNDING:
            length *= 2
        if length > own:
            supports[name] = np.arange(start, start + length)
    return supports


def _lack(tail: Tail, drawn: Arrays, values: NDArray[np.int64]) -> float:
    """Mean mass of a latent's distribution beyond these values, over draws of its parents."""
    parents = [drawn[parent] for parent in tail.parents]
    lacks = [
        -np.expm1(logsumexp(tail.table(part, values, len(part[0]) if part else 1), axis=1)).sum(axis=1)
        for part in ([p[i : i + _AT_ONCE] for p in parents] for i in range(0, 2 * _CHECKED, _AT_ONCE))
        if not part or len(part[0])
    ]
    return float(np.concatenate(lacks).mean())


def expected_draws(prior: WeighedPrior) -> int:
    """Expected number of draws that `refine_given_side_data` makes and weighs by the side data.

    Parameters
    ----------
    prior : draws for which `has_enough_draws` is false
    """
    size, pilot = _sizes(prior, None)
    return size + (0 if pilot is None else STAGES * pilot + max(_FEWEST_DRAWS, size // 4))


def _sizes(prior: WeighedPrior, wanted: int | None) -> tuple[int, int | None]:
    """Numbers of draws of refined proposals (fewer if side data have many rows) and of pilot stages."""
    size = len(prior.log_prior)
    if not prior.terms.has_side_data:
        return size, None
    most = size if wanted is None else min(max(wanted, _FEWEST_PROPOSED), size)
    return int(np.clip(_ROWS_READ // prior.terms.pure[0].widest, _FEWEST_PROPOSED, most)), _FEWEST_DRAWS


def _proposed(prior: WeighedPrior, rng: np.random.Generator, wanted: int | None) -> WeighedPrior:
    """Prior with draws from refined proposals."""
    size, pilot = _sizes(prior, wanted)
    if prior.terms.has_side_data:
        few = max(_FEWEST_DRAWS, size // 4)
        first_rows: dict[str, Any] = {name: getattr(prior, name)[:few] for name in ("log_prior", "log_density")}
        first_rows["worked_out"] = None if prior.worked_out is None else prior.worked_out[:few]
        prior = replace(prior, values=tuple(value[:few] for value in prior.values), **first_rows)
    joint, far = ([part[:, 0] for part in parts] for parts in (prior.log_joint({}), prior.far.joint({})))
    _, guide = prior.far.counted(prior.held_sample(), far, np.logaddexp(*joint))

    def many(*log_weights: Floats) -> bool:
        answer = Hypotheses.of(*log_weights)
        return answer.k_hat <= _LIGHT_TAIL and answer.ess >= _MANY * size

    table, cells = prior.terms.table({}), size * prior.terms.met.total
    pure = prior.pure if prior.terms.has_side_data and cells <= _LARGEST_KEPT else None
    return _with(prior, prior.population({}, table, (joint[0], joint[1]), many, size, rng, guide, pilot, pure))


def given_chains(prior: WeighedPrior, points: Floats) -> WeighedPrior:
    """Prior whose draws are those of an MCMC run given the side data, with the density of that distribution.

    Parameters
    ----------
    prior : draws of the same model
    points : draws (draw, cell) given the side data, on the unconstrained scale

    Returns
    -------
    WeighedPrior with these draws; their density is known up to a constant.
    """
    values = prior.split(points)
    present, out = (part[:, 0] for part in prior.terms.hypotheses(values, {}, None, None, far=True))
    log_prior = prior.terms.base(values, far=True) - prior.log_share
    return _with(prior, Worlds(points, (present, out), log_prior, np.logaddexp(present, out)))


def _with(prior: WeighedPrior, population: Worlds) -> WeighedPrior:
    """Prior with other draws, without those of zero weight, and with far points around the new draws too."""
    log_weights = np.logaddexp(*population.log_joint) - population.log_density
    weights = np.exp(log_weights - log_weights.max())
    weighted, rng = np.flatnonzero(weights > 0), np.random.default_rng(prior.rng)
    values = tuple(prior.split(population.points[weighted]))
    place = rng.choice(weighted.size, weighted.size, p=weights[weighted] / weights[weighted].sum())
    far = prior.far.joined(FarPoints.around(prior.terms, [value[place] for value in values], prior.log_share, rng))
    changed: dict[str, Any] = {
        "log_prior": population.log_prior[weighted],
        "log_density": population.log_density[weighted],
    }
    changed |= {"proposal": population.proposal, "known": population.proposal is None}
    changed["worked_out"] = None if population.pure is None else population.pure[weighted]
    return replace(prior, values=values, far=far.made_by(population), **changed)


def releases_under(
    model: pm.Model,
    truth: Mapping[str, Any],
    released: Sequence[str],
    draws: int,
    rng: np.random.Generator,
    known: tuple[WeighedPrior, str] | None = None,
) -> Arrays:
    """Draw releases under a truth, which may be rare under the prior.

    Parameters
    ----------
    model : pymc.Model with its release left free
    truth : values of latents and of deterministics, by name
    released : names of the released variables
    draws : number of releases
    rng : generator
    known : draws given the side data and the name of their target, if they exist already

    Returns
    -------
    dict of released variable to array (release, *shape).

    Raises
    ------
    ValueError : a name that is neither latent nor deterministic, a value of the wrong shape, or a truth that is
        impossible, or too improbable to draw, under the model

    Examples
    --------
    >>> with pm.Model() as model:
    ...     present = pm.Bernoulli("in", np.float64(0.5))
    ...     noisy = pm.Normal("noisy", np.float64(100.0) * present, np.float64(1.0))
    >>> bool((releases_under(model, {"in": 1}, ["noisy"], 50, np.random.default_rng(1))["noisy"] > 90).all())
    True
    """
    if known is not None and (made := _releases_of_known(model, truth, released, draws, rng, *known)) is not None:
        return made
    try:
        return releases_of_worlds(model, truth, released, draws, rng)
    except RareTruth as rare:
        try:
            releases = _rare_releases(model, truth, released, draws, rng)
        # PyMC cannot copy the model, or the prior cannot be weighed: the first error has the better message.
        except (NotImplementedError, ValueError):
            releases = None
        if releases is None:
            raise ValueError(str(rare)) from None
        return releases


def _releases_of_known(
    model: pm.Model,
    truth: Mapping[str, Any],
    released: Sequence[str],
    draws: int,
    rng: np.random.Generator,
    prior: WeighedPrior,
    target: str,
) -> Arrays | None:
    """Releases from existing draws given the side data, for a truth that fixes the target only.

    None if the truth fixes anything else, if the draws are plain prior draws, or if too few draws have this target.
    """
    held, _ = check_truth(model, truth, released)
    if set(truth) != {target} or target not in held or not (prior.known or prior.proposal is not None):
        return None
    answer = prior.held_sample().answer
    share = answer.present if truth[target] == 1 else answer.out
    if share < _LEAST_SHARE or answer.ess < _SHARE * draws or not prior.terms.has_side_data:
        return None
    parts: list[Arrays] = []
    while sum([len(part[target]) for part in parts]) < draws:
        place = rng.choice(answer.weights.size, int(1.2 * draws / share) + 1, p=answer.weights / answer.weights.sum())
        drawn = prior.terms.latents([v[place] for v in prior.values], {}, rng, place.size, prior.pure[place])
        parts.append({name: value[drawn[target] == held[target]] for name, value in drawn.items()})
    latents = {name: np.concatenate([part[name] for part in parts])[:draws] for name in parts[0]}
    return releases_given(model, latents, released, rng)


def _rare_releases(
    model: pm.Model, truth: Mapping[str, Any], released: Sequence[str], draws: int, rng: np.random.Generator
) -> Arrays | None:
    """Releases from latents drawn given a truth by refined proposals; None if the proposals are too poor."""
    held, awaited = check_truth(model, truth, released)
    target, wanted = next(iter(awaited.items()), (None, np.zeros((), dtype=np.int64)))
    if len(awaited) > 1 or wanted.shape or wanted not in (0, 1):
        return None
    given = pm.observe(model, held) if held else model
    prior = WeighedPrior.of(given, tuple(released), target, rng=rng.integers(2**63), draws=max(DRAWS, _WORLDS * draws))
    if not prior.may_be_refined:
        return None
    prior = prior if has_enough_draws(prior) else refine_given_side_data(prior, rng, _WORLDS * draws)
    log_weights = prior.log_joint({})[0 if wanted else 1][:, 0] - prior.log_density
    weights = np.exp(log_weights - max(log_weights.max(), -1e300))
    if not weights.sum() ** 2 >= _SHARE * draws * (weights**2).sum() > 0:
        return None
    terms = prior.terms
    if target is not None:
        with given if held else clone_model(model) as certain:
            pm.Potential("_truth", log_indicator(pt.eq(certain[target], wanted)))
        terms = Terms.of(condition(certain, tuple(released), continuous=True), None, {})
        if [*terms.given.continuous] != [*prior.terms.given.continuous]:
            return None
    place = rng.choice(weights.size, draws, p=weights / weights.sum())
    latents = terms.latents([value[place] for value in prior.values], {}, rng, draws)
    latents |= {name: np.broadcast_to(value, (draws, *value.shape)) for name, value in held.items()}
    return releases_given(model, latents, released, rng)
