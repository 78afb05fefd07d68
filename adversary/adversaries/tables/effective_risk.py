"""Approximate risk from tables that cross, by one effective measurement of each finest cell, for Gaussian noise.

All tables together are summarised by one estimate of each finest cell, with the true count as its mean and the variance
of generalised least squares. Given that estimate, the cell's count is a whole number. The counts of other cells may be
of any size, even negative, so the answer is an approximation for small cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from adversary._core import Floats, Integers, Seed, format_probability
from adversary.adversaries.tables.cell_risks import CellRisks, risk_of_loss, risks_of_releases
from adversary.adversaries.tables.crossing_risk import LEAST, SHIFTS, CrossingRisk, believed_laws, known_least
from adversary.adversaries.tables.effective import linear_variances
from adversary.adversaries.tables.published import Joined, TableAdversary
from adversary.privacy.losses import GaussianLoss, PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import Mechanism

# Relative error above which the page cautions about small cells.
CAUTION = 0.1

# Noise variance below which averages differ visibly between whole-number and Gaussian releases.
NARROW = 1.0

# Largest number of terms of the exact answer for a part of the file; about a second.
PART_WORK = 2e8

# Largest number of counts in tables other than the finest, with a belief: the size of a matrix.
MOST_ROWS = 3_000

# Standard deviations on either side, and number of nodes, of the average over estimates.
_WIDTH, _NODES = 8.5, 341


def near_gaussian(noise: Mechanism) -> bool:
    """True for noise whose log likelihood is a parabola: the discrete Gaussian and the Gaussian.

    Parameters
    ----------
    noise : of one table
    """
    return noise.is_additive and noise.parabola is not None


def information(world: Joined) -> tuple[Floats, Integers]:
    """The variance of each cell's estimate, and the most informative table for each cell.

    Parameters
    ----------
    world : the tables over their finest cells

    Returns
    -------
    (variance, table): people squared, (cell,), infinite if not determined; and the place of the table whose removal
    lowers the precision most, (cell,)
    """
    variances = np.array([noise.variance for noise in world.noises])
    together = linear_variances(world.queries, variances)
    owner = np.array(world.owner)
    lost = np.zeros((len(world.names), world.size))
    if len(world.names) > 1:
        for table in range(len(world.names)):
            rest = linear_variances(world.queries, np.where(owner == table, np.inf, variances))
            with np.errstate(divide="ignore"):
                lost[table] = 1.0 / together - 1.0 / rest
    least = np.argmax(np.bincount(owner, 1.0 / variances))
    return together, np.where(np.isinf(together), least, np.argmax(np.round(lost, 12), axis=0))


def effective_risks(world: Joined, who: TableAdversary, variance: Floats, counts: Integers, limit: float) -> CellRisks:
    """The risk in each cell from one estimate of its count.

    Parameters
    ----------
    world : tables and their finest cells
    who : the adversary
    variance : of the estimates without a belief, (cell,), people squared; infinite where not determined
    counts : true counts of people, (cell,)
    limit : the largest |log Bayes factor| that is tolerated, nats

    Returns
    -------
    CellRisks, (cell,) each
    """
    target, prior = np.minimum(counts, 1), who.prior
    if who.belief is not None:
        return _believed_risks(world, who, counts, limit)
    least = None if who.knows == "cell" else known_least(world, who)
    start = np.zeros_like(counts) if least is None else np.minimum(least, counts)
    away = target if least is None else counts - start
    keys, place = np.unique(np.stack([np.round(variance, 12), target, away]), axis=1, return_inverse=True)
    own = [noise for query, noise in zip(world.queries, world.noises, strict=True) if query.size == world.size]
    rows = []
    for v, side, n in keys.T:
        if np.isinf(v):
            rows.append(_nothing(prior, bool(side)))
        elif least is None:
            rows.append(risk_of_loss(_loss_of(own, float(v)), prior, int(side), limit))
        else:
            risks = flat_risk(float(v), int(n), prior, int(side), limit)
            rows.append(tuple(float(x[0]) for x in vars(risks).values()))
    return CellRisks.of(rows).at(place.ravel())


def _loss_of(own: Sequence[Mechanism], variance: float) -> PrivacyLoss:
    """The loss between two adjacent counts: exact for narrow noise of the cell itself, Gaussian for all the rest."""
    narrow = [noise for noise in own if noise.variance < NARROW]
    left = 1.0 / variance - sum(1.0 / noise.variance for noise in narrow)
    wide = [GaussianLoss(np.sqrt(left))] if left > 1e-9 else []
    return compose_losses([*(noise.privacy_loss(1, 1) for noise in narrow), *wide])


def flat_risk(variance: float, count: int, prior: float, target: int, limit: float) -> CellRisks:
    """The risk of one cell if every number of others from 0 upwards is equally likely."""
    nodes = np.linspace(-_WIDTH, _WIDTH, _NODES)
    weight = np.exp(-0.5 * nodes**2)
    estimate = count + np.sqrt(variance) * nodes
    window = np.arange(0.0, np.ceil(count + 2.0 * _WIDTH * np.sqrt(variance)) + 2.0)
    terms = -0.5 * (estimate[:, None] - window) ** 2 / variance
    values = logsumexp(terms[:, 1:], axis=1) - logsumexp(terms, axis=1)
    return risks_of_releases(values[None], prior, np.array([target]), limit, weight / weight.sum())


def _believed_risks(world: Joined, who: TableAdversary, counts: Integers, limit: float) -> CellRisks:
    """The risk in each cell with a belief about others in every cell."""
    laws, least = believed_laws(world, who), known_least(world, who)
    moments = {id(law): _moments(law) for law in laws}
    mean, spread = np.array([moments[id(law)] for law in laws]).T
    variance, bias, sampled = believed_estimates(world, mean + least, spread, counts)
    nodes = np.linspace(-_WIDTH, _WIDTH, _NODES)
    weight = np.exp(-0.5 * nodes**2)
    values = np.zeros((counts.size, _NODES))
    target = np.minimum(counts, 1)
    for cell in np.flatnonzero(np.isfinite(variance)):
        estimate = counts[cell] + bias[cell] + np.sqrt(sampled[cell]) * nodes
        if who.knows == "cell":
            values[cell] = (estimate - (counts[cell] - target[cell]) - 0.5) / variance[cell]
            continue
        low, high = laws[cell].bulk()
        beyond = np.arange(low, high + 1.0)
        others, log = least[cell] + beyond, laws[cell].log_pmf(beyond)
        out, present = (
            logsumexp(log - 0.5 * (estimate[:, None] - others - k) ** 2 / variance[cell], axis=1) for k in (0, 1)
        )
        values[cell] = present - out
    return risks_of_releases(values, who.prior, target, limit, weight / weight.sum())


def _moments(law: Any) -> tuple[float, float]:
    """Mean and variance of a distribution of others."""
    low, high = law.bulk()
    count = np.arange(low, high + 1.0)
    mass = np.exp(law.log_pmf(count))
    mean = float(mass @ count)
    return mean, float(mass @ (count - mean) ** 2)


def believed_estimates(world: Joined, mean: Floats, spread: Floats, counts: Integers) -> tuple[Floats, Floats, Floats]:
    """Estimates of each cell from all tables and a belief about all other cells, approximated as normal.

    Parameters
    ----------
    world : tables and their finest cells
    mean, spread : mean and variance of the belief about the count of each cell, (cell,)
    counts : true counts of people, (cell,)

    Returns
    -------
    (variance, bias, sampled), (cell,) each: the estimate's variance for the adversary, and its mean error and variance
    over releases of these counts

    Raises
    ------
    ValueError : more than `MOST_ROWS` counts of tables other than the finest
    """
    fine = [i for i, query in enumerate(world.queries) if query.size == world.size]
    coarse = [i for i in range(len(world.queries)) if i not in fine]
    shown = sum(1.0 / world.noises[i].variance for i in fine)
    starts = np.cumsum([0, *(world.queries[i].size for i in coarse)])
    if starts[-1] > MOST_ROWS:
        raise ValueError(
            f"tables beside the finest have {starts[-1]:,} counts, more than {MOST_ROWS:,}, to be read together with a "
            'belief: leave a table out, or ask about an adversary without a belief, or knows="everybody"'
        )
    rows = np.array([start + world.queries[i].rows for start, i in zip(starts, coarse, strict=False)], dtype=np.int64)
    with np.errstate(divide="ignore"):
        own = 1.0 / (shown + 1.0 / spread)
    if not coarse:
        with np.errstate(divide="ignore"):
            alone = np.full(world.size, 1.0 / np.float64(shown))
        return alone, np.zeros(world.size), alone

    def over_rows(values: Floats) -> Floats:
        total = np.zeros((starts[-1], starts[-1]))
        for one in rows:
            for other in rows:
                np.add.at(total, (one, other), values)
        return total

    def at_cells(matrix: Floats) -> Floats:
        return np.asarray(sum(matrix[one, other] for one in rows for other in rows))

    noise = np.concatenate([np.full(world.queries[i].size, world.noises[i].variance) for i in coarse])
    inverse = np.linalg.inv(np.diag(noise) + over_rows(own))
    away = (1.0 - own * shown) * (mean - counts)
    pull = inverse @ sum(np.bincount(one, away, starts[-1]) for one in rows)
    seen = at_cells(inverse)
    above = seen / np.maximum(1.0 - own * seen, 1e-12)
    variance = 1.0 / (shown + above)
    bias = -variance * above * (sum(pull[one] for one in rows) - seen * away) / seen
    both = at_cells(inverse @ (np.diag(noise) + over_rows(own**2 * shown)) @ inverse) / seen**2 - own**2 * shown
    return variance, bias, variance**2 * (shown + above**2 * np.maximum(both, 0.0))


@dataclass(frozen=True)
class EffectiveError:
    """Error of the approximation, measured in a part of the file that is small enough for the exact answer.

    Parameters
    ----------
    estimate, exact : mean posterior by the approximation and exactly, in the occupied cell where they differ most
    mcse : Monte Carlo standard error of the exact one
    cells : number of cells in the part
    """

    estimate: float
    exact: float
    mcse: float
    cells: int

    @property
    def relative(self) -> float:
        """Absolute difference divided by the exact posterior."""
        return abs(self.estimate - self.exact) / self.exact

    @property
    def words(self) -> str:
        """Sentence that compares the approximate and the exact posterior of the cell where they differ most."""
        pair = f"{format_probability(self.estimate)} for {format_probability(self.exact)}"
        return (
            f"Risks are those of one estimate of each finest cell, an approximation: in {self.cells} cells of the file "
            f"by themselves, where others' counts can be summed out exactly, the largest difference is {pair}"
            + ("." if self.relative <= CAUTION else ": read the risks of small cells with caution.")
        )


def effective_error(world: Joined, who: TableAdversary, counts: Integers, limit: float, rng: Seed) -> EffectiveError:
    """The error of the approximation in a part of the file around the smallest occupied cell.

    Parameters
    ----------
    world : tables and their finest cells
    who : the adversary
    counts : true counts of people, (cell,)
    limit : the largest |log Bayes factor| that is tolerated, nats
    rng : seed of the releases

    Returns
    -------
    EffectiveError
    """
    shape = world.population.counts.shape
    focus = np.unravel_index(int(np.argmin(np.where(counts > 0, counts, np.inf))), shape)
    nearest = []
    for a, own in enumerate(focus):
        shared = np.sum([np.equal(query.groups[a], query.groups[a][own]) for query in world.queries], axis=0)
        away = np.abs(np.arange(shape[a]) - int(own))
        nearest.append([int(i) for i in np.lexsort((away, -shared * (away > 0)))])
        nearest[-1].remove(int(own))
    chosen = [[int(own)] for own in focus]
    part = _part(world, who, counts, chosen)
    open_axes = [a for a, left in enumerate(nearest) if left]
    while open_axes:
        axis = min(open_axes, key=lambda a: len(chosen[a]))
        wider = [own + nearest[a][:1] if a == axis else own for a, own in enumerate(chosen)]
        tried = _part(world, who, counts, wider)
        if fits := tried.plan.terms * SHIFTS * LEAST <= PART_WORK:
            part, chosen = tried, wider
            nearest[axis].pop(0)
        if not (fits and nearest[axis]):
            open_axes.remove(axis)
    exact = part.risks(limit, rng, LEAST)
    variance, _ = information(part.world)
    near = effective_risks(part.world, part.who, variance, part.counts, limit)
    off = np.abs(near.posterior_mean - exact.posterior_mean) / exact.posterior_mean
    worst = int(np.argmax(np.where(part.counts > 0, off, -1.0)))
    estimate, there = (float(one.posterior_mean[worst]) for one in (near, exact))
    return EffectiveError(estimate, there, float(exact.mcse[worst]), part.counts.size)


def _part(world: Joined, who: TableAdversary, counts: Integers, chosen: Sequence[Sequence[int]]) -> CrossingRisk:
    """The part of the file with these categories of every axis."""
    part = world.cut(chosen, counts)
    arrays = {
        name: world.over_cells(name, given).reshape(world.population.counts.shape)[np.ix_(*chosen)]
        for name in ("belief", "at_least")
        if isinstance(given := getattr(who, name), np.ndarray)
    }
    if "at_least" in arrays:
        arrays["at_least"] = arrays["at_least"].astype(np.int64)
    return CrossingRisk(part, replace(who, **arrays), part.counts)


def _nothing(prior: float, present: bool) -> Sequence[float]:
    """A row of `CellRisks` for a posterior equal to the prior."""
    inside = float(prior > 0.5)
    return prior, 0.0, 1.0, inside if present else 1.0 - inside, prior, prior, 0.0, 0.0
