"""Averages over releases of the risk in a cell: from a distribution, a privacy loss, or weighted releases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from adversary._core import Floats, above_ties, as_array, logit
from adversary.adversaries.risk import BayesFactorLaw
from adversary.privacy.losses import TRUTHS, PrivacyLoss

# Quantile levels of the 90 % interval over releases.
RANGE = (0.05, 0.95)


@dataclass(frozen=True)
class CellRisks:
    """Risks over the releases of one truth, cell by cell, (cell,) each.

    Parameters
    ----------
    posterior_mean, mcse : mean posterior of "in" over releases, and its Monte Carlo standard error
    ratio_mean : mean of posterior / prior
    prob_correct : P(the best guess is right)
    posterior_low, posterior_high : 5 % and 95 % quantiles of the posterior over releases
    outside, uncertain : P(|log Bayes factor| > limit) and its standard error
    """

    posterior_mean: Floats
    mcse: Floats
    ratio_mean: Floats
    prob_correct: Floats
    posterior_low: Floats
    posterior_high: Floats
    outside: Floats
    uncertain: Floats

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> CellRisks:
        """From one row of numbers for each cell, in the order of the fields."""
        return cls(*np.array(rows, dtype=np.float64).reshape(len(rows), -1).T)

    def at(self, place: Any) -> CellRisks:
        """Risks of the cells at these places, which may repeat."""
        return CellRisks(*(values[place] for values in vars(self).values()))

    @classmethod
    def averaged(cls, every: Sequence[CellRisks]) -> CellRisks:
        """The average over independently drawn truths, whose spread enters the standard error.

        The 90 % interval is the hull of the truths' intervals.
        """
        stacked = {name: np.stack([vars(one)[name] for one in every]) for name in vars(every[0])}
        means = {name: values.mean(axis=0) for name, values in stacked.items()}
        spread = stacked["posterior_mean"].std(axis=0, ddof=1) / np.sqrt(len(every))
        # The spread of equal numbers is rounding error, and is set to 0.
        spread = np.where(spread > 1e-12 * means["posterior_mean"], spread, 0.0)
        means["mcse"] = np.hypot(means["mcse"] / np.sqrt(len(every)), spread)
        means["posterior_low"] = stacked["posterior_low"].min(axis=0)
        means["posterior_high"] = stacked["posterior_high"].max(axis=0)
        return cls(**means)


def risk_of_law(law: BayesFactorLaw, limit: float) -> tuple[float, ...]:
    """A row of `CellRisks` from the distribution of the log Bayes factor.

    Parameters
    ----------
    law : of the log Bayes factor over releases of one truth
    limit : the largest |log Bayes factor| that is tolerated, nats

    Returns
    -------
    Numbers in the order of the fields of `CellRisks`
    """
    mean, error = law.posterior_mean()
    outside, uncertain = law.outside(limit)
    ratio = law.ratio_mean()[0] if law.prior == 0.0 else mean / law.prior
    low, high = expit(law.log_odds + law.quantiles(RANGE))
    return mean, error, ratio, law.prob_correct()[0], float(low), float(high), outside, uncertain


def risk_of_loss(loss: PrivacyLoss, prior: float, target: int, limit: float) -> tuple[float, ...]:
    """A row of `CellRisks` from the privacy loss between "in" and "out".

    Parameters
    ----------
    loss : of all tables together
    prior : probability of "in"
    target : 1 for releases under "in", 0 under "out"
    limit : the largest |log Bayes factor| that is tolerated, nats

    Returns
    -------
    Numbers in the order of the fields of `CellRisks`
    """
    truth, side, log_odds = TRUTHS[1 - target], 1 - target, float(logit(prior))
    law = loss.posterior(prior)
    mean = float(law.mean(truth))
    ratio = mean / prior if prior > 0.0 else float(as_array(loss.expect(np.exp)[side]))
    inside = float(as_array(loss.tail(-log_odds)[side])) if np.isfinite(log_odds) else prior
    low, high = as_array(law.quantile(np.array(RANGE), truth))
    end = float(above_ties(limit))
    beyond = [loss.tail(end)[side], loss.swapped.tail(end)[1 - side]] if np.isfinite(end + log_odds) else [0.0, 0.0]
    correct = inside if target else 1.0 - inside
    return mean, 0.0, ratio, correct, float(low), float(high), float(as_array(beyond).sum()), 0.0


def risks_of_releases(
    values: Floats, prior: float, target: Any, limit: float, weights: Floats | None = None, blocks: int = 1
) -> CellRisks:
    """`CellRisks` from log Bayes factors of releases.

    Parameters
    ----------
    values : log Bayes factors, (cell, release), nats
    prior : probability of "in"
    target : 1 for cells whose target is in, 0 for out, (cell,)
    limit : the largest |log Bayes factor| that is tolerated, nats
    weights : probabilities of the releases, (release,); None for equal ones
    blocks : number of independent repetitions that the releases consist of, one after another, for standard errors

    >>> risks = risks_of_releases(np.array([[-1.0, 1.0]]), 0.5, np.array([1]), 5.0)
    >>> risks.posterior_mean.round(9).tolist(), risks.prob_correct.tolist()
    ([0.5], [0.5])
    """
    count = values.shape[1]
    weight = np.full(count, 1.0 / count) if weights is None else weights
    log_odds = float(logit(prior))
    posterior = expit(log_odds + values) if np.isfinite(log_odds) else np.full(values.shape, prior)
    mean = posterior @ weight
    with np.errstate(over="ignore"):
        ratio = mean / prior if prior > 0.0 else np.exp(values) @ weight
    far = (np.abs(values) > float(above_ties(limit))).astype(np.float64)
    outside = far @ weight
    mcse, uncertain = (_error(x, blocks) for x in (posterior, far))
    ordered = np.argsort(values, axis=1)
    z = np.take_along_axis(values, ordered, axis=1)
    own = np.broadcast_to(weight, values.shape) if weights is None else weight[ordered]
    upto = np.cumsum(own, axis=1) - 0.5 * own
    low, high = (np.array([np.interp(q, c, x) for c, x in zip(upto, z, strict=True)]) for q in RANGE)
    if weights is None:
        inside = (values > -log_odds + 1e-9) @ weight
    else:
        # Weighted releases are nodes of a smooth distribution: the cdf between them is interpolated.
        inside = 1.0 - np.array([np.interp(-log_odds, x, c) for c, x in zip(upto, z, strict=True)])
    correct = np.clip(np.where(target, inside, 1.0 - inside), 0.0, 1.0)
    low, high = (expit(log_odds + x) if np.isfinite(log_odds) else np.full(len(x), prior) for x in (low, high))
    return CellRisks(mean, mcse, ratio, correct, low, high, outside, uncertain)


def _error(values: Floats, blocks: int) -> Floats:
    """Standard errors of the means over releases, (cell,), from those of the blocks."""
    if blocks == 1:
        return np.zeros(len(values))
    means = values.reshape(len(values), blocks, -1).mean(axis=2)
    return np.asarray(means.std(axis=1, ddof=1) / np.sqrt(blocks))
