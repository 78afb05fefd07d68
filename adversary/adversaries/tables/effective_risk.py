"""Risk beside tables that cross, by one effective measurement of each finest cell, for noise near to Gaussian.

All tables together are read as one estimate of each finest cell, with the true count as its mean and the variance of
generalised least squares. Given that estimate the count is a whole number again. Other cells may be of any size, even
below none: to small cells the answer is an approximation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from adversary._core import Floats, Integers
from adversary.adversaries.tables.cell_risks import CellRisks, risk_of_loss, risks_of_releases
from adversary.adversaries.tables.effective import linear_variances
from adversary.adversaries.tables.published import Joined, TableAdversary
from adversary.privacy.losses import GaussianLoss
from adversary.privacy.mechanisms import Mechanism

_WIDTH, _NODES = 8.5, 341
"""Standard deviations on either side, and nodes, of the average over estimates."""


def near_gaussian(noise: Mechanism) -> bool:
    """True of noise whose log likelihood is a parabola: the discrete Gaussian and the Gaussian."""
    return noise.is_additive and noise.parabola is not None


def information(world: Joined) -> tuple[Floats, Integers]:
    """The variance of each cell's estimate, (cell,), and the table without which it would grow most, (cell,)."""
    variances = np.array([noise.variance for noise in world.noises])
    together = linear_variances(world.queries, variances)
    owner = np.array(world.owner)
    lost = np.zeros((len(world.names), world.size))
    if len(world.names) > 1:
        for table in range(len(world.names)):
            rest = linear_variances(world.queries, np.where(owner == table, np.inf, variances))
            with np.errstate(divide="ignore"):
                lost[table] = 1.0 / together - 1.0 / rest
    return together, np.argmax(np.round(lost, 12), axis=0)


def effective_risks(
    world: Joined, who: TableAdversary, variance: Floats, counts: Integers, limit: float
) -> CellRisks:
    """The risk in each cell from one estimate of its count.

    Parameters
    ----------
    world : tables and their finest cells
    who : the adversary; every number of others in a cell that is not known is equally likely
    variance : of the estimates, (cell,), infinite where there is none
    counts : people, (cell,)
    limit : the largest loss that is allowed, nats
    """
    target, prior = np.minimum(counts, 1), who.prior
    least = None if who.knows == "cell" else np.zeros_like(counts)
    if least is not None and who.at_least is not None:
        least = world.over_cells("at_least", who.at_least).astype(np.int64)
    start = np.zeros_like(counts) if least is None else np.minimum(least, counts)
    away = target if least is None else counts - start
    keys, place = np.unique(np.stack([np.round(variance, 12), target, away]), axis=1, return_inverse=True)
    rows = []
    for v, side, n in keys.T:
        if np.isinf(v):
            rows.append(_nothing(prior, bool(side)))
        elif least is None:
            rows.append(risk_of_loss(GaussianLoss(1.0 / np.sqrt(v)), prior, int(side), limit))
        else:
            found = flat_risk(float(v), int(n), prior, int(side), limit)
            rows.append(tuple(float(x[0]) for x in vars(found).values()))
    return CellRisks.of(rows).at(place.ravel())


def flat_risk(variance: float, count: int, prior: float, target: int, limit: float) -> CellRisks:
    """The risk where every number of others from 0 upwards is equally likely."""
    nodes = np.linspace(-_WIDTH, _WIDTH, _NODES)
    weight = np.exp(-0.5 * nodes**2)
    estimate = count + np.sqrt(variance) * nodes
    window = np.arange(0.0, np.ceil(count + 2.0 * _WIDTH * np.sqrt(variance)) + 2.0)
    terms = -0.5 * (estimate[:, None] - window) ** 2 / variance
    values = logsumexp(terms[:, 1:], axis=1) - logsumexp(terms, axis=1)
    return risks_of_releases(values[None], prior, np.array([target]), limit, weight / weight.sum())


def _nothing(prior: float, present: bool) -> Sequence[float]:
    """A row of `CellRisks` where nothing is learned."""
    inside = float(prior > 0.5)
    return prior, 0.0, 1.0, inside if present else 1.0 - inside, prior, prior, 0.0, 0.0
