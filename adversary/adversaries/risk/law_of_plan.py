"""The distribution of the adversary's log Bayes factor over releases of one truth, for a plan.

The log Bayes factor is a sum of independent parts: every release of the lowest unit's own people, and the evidence of
all levels above. The lowest part is summed analytically, the rest on a grid of releases (one matrix product per
hypothesis), so averages are exact up to the truncated mass of a support (1e-18). Many releases of the same people are
convolved in two halves of similar size. If the grid is too large or the noise continuous, the rest is simulated and
every average has a Monte Carlo standard error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np

from adversary._core import Floats, Seed, as_array, blocks
from adversary.adversaries.path import Adversary, Path, Truth, log_bayes_factor
from adversary.adversaries.plans import Plan, Released, release_arrays
from adversary.adversaries.risk import upper_evidence
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_fingerprint import law_fingerprint
from adversary.adversaries.risk.law_parts import (
    NOTHING,
    ContinuousPart,
    DiscretePart,
    Part,
    compatible,
    outer_sum,
)
from adversary.adversaries.risk.listed_releases import DRAWS, list_releases, work_per_release
from adversary.privacy.losses import (
    GaussianLoss,
    LatticeLoss,
    PrivacyLoss,
    amplified_loss,
    compose_losses,
    repeat_product,
)
from adversary.privacy.mechanisms import IntegerNoise, Mechanism

# Work of a list of releases, in counts gone over, from which on they are simulated: an audit, which lists them for both
# truths, then takes over 1.5 seconds. It is more than a simulation may take, since an exact answer is worth more.
_MOST_LISTED = 8e6
_HALF = 6_000_000

# Total probability of the least probable releases that a large grid leaves out.
PRUNED = 1e-15

# The same for a small grid: less than the truncated mass of the supports.
FAINT = 1e-20
_SMALL = 200_000
_APART = 4_000_000


def bayes_factor_law(
    plan: Plan,
    adversary: Adversary,
    truth: Truth,
    *,
    draws: int = DRAWS,
    rng: Seed = None,
    progress: bool = False,
    store: Any = None,
    scheduler: str | None = None,
    workers: int | None = None,
) -> BayesFactorLaw:
    """Distribution of the log Bayes factor over releases of this truth: exact if listing them is little work.

    Otherwise, if listing is over half a second's work and more than simulating `draws`, all but the lowest release is
    simulated, and averages have Monte Carlo standard errors.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : checked true counts, from `settle_truth`
    draws, rng : number of simulated releases, and their seed or Generator
    progress : whether to show a progress bar
    store, scheduler, workers : folder of stored blocks and parallel execution, as for `blocks.simulate`

    Returns
    -------
    BayesFactorLaw, in nats

    Raises
    ------
    ImpossibleRelease : releases of this truth are impossible under both hypotheses of the adversary (a ValueError)

    >>> from adversary.privacy.mechanisms import Geometric
    >>> from adversary.adversaries.plans import Level
    >>> plan = Plan([Level("block", Geometric(1.0))])
    >>> round(bayes_factor_law(plan, Adversary(), Truth(np.array([[1]]), 1)).posterior_mean()[0], 6)
    0.606776
    """
    paths = [adversary.path(plan, cell) for cell in range(plan.cells)]
    known = all(path.known and not path.steps[0].adjusted for path in paths)
    lowest = own_release(plan, paths[0], truth, 0, 0) if known else None
    known, own = lowest is not None, NOTHING if lowest is None else lowest

    def listed(most: float) -> tuple[Part, DiscretePart] | None:
        if known:
            return _in_two([own, *_other_parts(plan, paths, truth, progress, most)])
        return _whole(plan, adversary, truth, most)

    split = listed(_MOST_LISTED)
    if split is None and (work := draws * work_per_release(plan, adversary, truth)) > _MOST_LISTED:
        split = listed(work)
    if known and adversary.sampling_rate < 1.0:
        known, own, split = False, NOTHING, _of_sampled(split, adversary.sampling_rate)
    simulated = 0 if split else draws
    how = {"progress": progress, "store": store, "scheduler": scheduler, "workers": workers}
    first, rest = split or (own, _simulated_rest(plan, adversary, truth, draws, rng, whole=not known, **how))
    first, rest = compatible(first, rest)
    alone = first is own and (bool(simulated) or plan.cells == 1 or all(len(path.steps) == 1 for path in paths))
    return BayesFactorLaw(
        adversary.prior_log_odds,
        truth.target,
        first,
        rest,
        simulated,
        own.spacing,
        known and alone,
        is_unbounded(plan, paths),
    )


def is_unbounded(plan: Plan, paths: Sequence[Path]) -> bool:
    """True if the log Bayes factor is unbounded.

    Parameters
    ----------
    plan : the published counts
    paths : one recursion per cell, from `Adversary.path`
    """
    return not all(is_bounded(noise) for path in paths for noise in _telling(plan, path))


def _telling(plan: Plan, path: Path) -> Iterator[Mechanism]:
    """Noise of the informative levels: none above a count that is exact or believed to be certain."""
    for step in path.steps:
        if step is not path.steps[0] and step.belief.known_total is not None:
            return
        noises = [plan.levels[i].mechanism for i in step.levels]
        yield from noises
        if any(noise.is_exact for noise in noises):
            return


@lru_cache(maxsize=256)
def is_bounded(noise: Mechanism) -> bool:
    """True for noise with a bounded loss, and for exact counts, whose infinite losses are listed."""
    if noise.is_exact:
        return True
    loss = noise.privacy_loss(1, 1)
    return bool(np.isfinite(max(loss.maximum, loss.swapped.maximum)))


def own_release(plan: Plan, path: Path, truth: Truth, level: int, cell: int) -> Part | None:
    """Distribution of the log Bayes factor of one release of the lowest unit.

    None for post-processed continuous noise, which has atoms besides a density.
    """
    noise = plan.levels[level].mechanism
    out, present = path.known_counts()
    shift = int(abs(present - out))
    if noise.is_continuous:
        return None if noise.steps else _of_density(noise.pair_loss(int(present), int(out)), truth.target)
    support, weight = noise.releases(int(truth.counts[level, cell]))
    support, weight = support[weight > 0.0], weight[weight > 0.0]
    values = as_array(noise.log_ratio(support, present, out))
    if not isinstance(noise, IntegerNoise) or np.isinf(values).any():
        return DiscretePart(values, weight)
    # log E[exp(log Bayes factor)] is 0 if out: the likelihood ratio has mean 1 if no release is impossible.
    return DiscretePart(values, weight, lambda: noise.privacy_loss(shift, 1).log_moment(1.0) if truth.target else 0.0)


def _of_density(loss: PrivacyLoss, target: int) -> Part:
    """Part of a release with a density; listed if its loss takes finitely many values, as for a piecewise density."""
    if not isinstance(loss, LatticeLoss):
        return ContinuousPart(loss, target)
    log_mass, proof, mass = (loss.log_p, np.inf, loss.infinite_p) if target else (loss.log_q, -np.inf, loss.infinite_q)
    settled = [mass] if mass else []
    values, weights = np.append(loss.losses, [proof] * len(settled)), np.append(np.exp(log_mass), settled)
    return DiscretePart(values, weights)


def _other_parts(plan: Plan, paths: list[Path], truth: Truth, progress: bool, most: float) -> Iterator[Part | None]:
    """All parts but the first cell's lowest release; None for a part that cannot be listed."""
    for cell, path in enumerate(paths):
        for level in path.steps[0].levels[0 if cell else 1 :]:
            yield own_release(plan, path, truth, level, cell)
        if len(path.steps) > 1:
            yield upper_evidence.evidence_above(plan, path, truth, cell, progress, most)


def _in_two(parts: list[Part | None]) -> tuple[Part, DiscretePart] | None:
    """(first, rest): the first part and the sum of the others or, if these are too many, two halves of similar size.

    A continuous part stays separate; several Gaussian ones are composed. None if a part cannot be listed.
    """
    discrete = [part for part in parts if isinstance(part, DiscretePart)]
    smooth = [part for part in parts if isinstance(part, ContinuousPart)]
    if len(discrete) + len(smooth) < len(parts):
        return None
    if smooth:
        loss, rest = compose_losses([part.loss for part in smooth]), _total(discrete, _HALF)
        if rest is None or not (len(smooth) == 1 or isinstance(loss, GaussianLoss)):
            return None
        return smooth[0] if len(smooth) == 1 else ContinuousPart(loss, 1 - smooth[0].side), rest
    rest = _total(discrete[1:], _APART)
    if rest is not None:
        return discrete[0], rest
    halves: tuple[list[DiscretePart], list[DiscretePart]] = ([], [])
    for part, times in sorted(_alike(discrete), key=lambda pair: -pair[0].values.size):
        shorter = min(halves, key=lambda half: sum(np.log(one.values.size) for one in half))
        shorter += [part] * times
    first, rest = (_total(half, _HALF) for half in halves)
    return None if first is None or rest is None else (first, rest)


def _total(parts: list[DiscretePart], limit: int) -> DiscretePart | None:
    """Distribution of the sum of independent parts, equal ones by repeated squaring; None if a step exceeds `limit`."""

    def plus(a: DiscretePart | None, b: DiscretePart | None) -> DiscretePart | None:
        if a is None or b is None or a is NOTHING or b is NOTHING:
            return b if a is NOTHING else (a if b is NOTHING else None)
        lost = FAINT if a.values.size * b.values.size <= _SMALL else PRUNED
        a, b = a.without(lost), b.without(lost)
        return a.plus(b).without(lost) if a.values.size * b.values.size <= limit else None

    nothing: DiscretePart | None = NOTHING
    return reduce(plus, (repeat_product(part, times, nothing, plus) for part, times in _alike(parts)), nothing)


def _alike(parts: list[DiscretePart]) -> list[tuple[DiscretePart, int]]:
    """Distinct parts with their multiplicities."""
    groups: list[tuple[DiscretePart, int]] = []
    for part in parts:
        for i, (other, times) in enumerate(groups):
            if np.array_equal(part.values, other.values) and np.array_equal(part.weights, other.weights):
                groups[i] = other, times + 1
                break
        else:
            groups.append((part, 1))
    return groups


def _of_sampled(split: tuple[Part, DiscretePart] | None, rate: float) -> tuple[Part, DiscretePart] | None:
    """Parts for an adversary who does not know whether the target was sampled; None if not listed, or too many."""
    if split is None or not isinstance(split[0], DiscretePart) or split[0].values.size * split[1].values.size > _HALF:
        return None
    values, weights = outer_sum(split[0], split[1])
    return NOTHING, DiscretePart(amplified_loss(values, rate), weights)


def _whole(plan: Plan, adversary: Adversary, truth: Truth, most: float) -> tuple[Part, DiscretePart] | None:
    """All releases in one list, if the lowest one is not independent of the rest; None if that is too much work."""
    listed = list_releases(plan, truth, upper_evidence.MAX_GRID // 20)
    if listed is None:
        return None
    released, weights = listed
    keep = upper_evidence.most_probable(weights)
    if keep.size * work_per_release(plan, adversary, truth) > most:
        return None
    return NOTHING, DiscretePart(log_bayes_factor(plan, adversary, released.rows(keep)), weights[keep])


def _simulated_rest(
    plan: Plan,
    adversary: Adversary,
    truth: Truth,
    draws: int,
    rng: Any,
    *,
    whole: bool,
    **how: Any,
) -> DiscretePart:
    """Draws of everything but the first cell's lowest release (of everything, if `whole`), equally weighted."""
    values = blocks.simulate(
        partial(_simulate_factors, plan, adversary, truth, whole),
        draws,
        rng,
        description="simulated releases",
        key=None if how.get("store") is None else law_fingerprint(plan, adversary, truth),
        **how,
    )
    return DiscretePart(values, np.full(values.size, 1.0 / values.size))


def _simulate_factors(
    plan: Plan, adversary: Adversary, truth: Truth, whole: bool, size: int, generator: np.random.Generator
) -> Floats:
    """Log Bayes factors of releases of this truth, without the first cell's lowest release unless `whole`."""
    released = release_arrays(plan, plan.release(truth.by_level(plan), generator, size))
    return log_bayes_factor(plan, adversary, released, lowest=whole)


def invariant_factor(plan: Plan, adversary: Adversary, truth: Truth) -> float:
    """Log Bayes factor of the exact levels alone: the evidence of the invariants, before any noisy count is read.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : checked true counts, from `settle_truth`

    Returns
    -------
    Nats, summed over cells; 0 if no level is exact, infinite if the exact counts determine the target's side
    """
    if not any(level.is_exact for level in plan.levels):
        return 0.0
    noisy = truth.counts[None].astype(np.float64)
    total = 0.0
    for cell in range(plan.cells):
        path = adversary.path(plan, cell, exact_only=True)
        if path.steps:
            total += float(path.log_bayes_factor(Released(noisy[:, :, cell], np.zeros_like(noisy[:, :, cell])))[0])
    return total
