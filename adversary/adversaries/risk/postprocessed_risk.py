"""Postprocessing of noisy counts before publication, and the average posterior given the result.

`clamped` and `rounded` change single counts: they wrap a mechanism in a mechanism. A `Postprocessing` adjusts a unit
and its siblings to their parent's published count: by `LeastSquares` or, with counts of at least 0, by `NonNegative`.
`consistency_risk` averages the adversary's posterior over the published counts (Kazan and Reiter 2025, section 2.11).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import (
    Floats,
    Seed,
    as_array,
    check_probability,
    check_whole,
    log_sum_exp,
    logit,
    one_number,
    quoted,
)
from adversary.adversaries.postprocessing import LeastSquares, NonNegative, Postprocessing
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_parts import NOTHING, DiscretePart
from adversary.privacy.mechanisms import DiscreteGaussian, Mechanism

HYPOTHESES = ("out", "in")


def consistency_risk(
    parent: int,
    mechanism: Mechanism,
    siblings: int,
    count: int,
    prior: float,
    rounding: str = "half_even",
    *,
    known: int = 0,
    truth: str = "in",
    own_weight: int | Fraction | float = 1,
    sibling_weight: int | Fraction | float = 1,
    nonnegative: bool = False,
    draws: int = 20_000,
    rng: Seed = None,
    approximate: bool = False,
) -> xr.Dataset:
    """The risk of one person from a count adjusted to its parent's, and from the raw counts for comparison.

    The adversary observes the parent's published count t2 and the unit's t1, and knows the parent's true count and
    everyone in the unit but the target: X1 = m ("out") or m + 1 ("in"), with count - X1 people in the d siblings.

        posterior(a) = p P(a | in) / (p P(a | in) + (1 - p) P(a | out)),    its mean = sum_a P(a | truth) posterior(a)

    (equations 2.43 to 2.47). The mean can exceed that of the unit's raw noisy count alone, `raw_posterior_mean`: t1
    depends on the siblings too, who are informative about the target if the parent's true count is known
    (`exceeds_raw`). It cannot exceed the posterior mean given all raw counts that t1 is computed from,
    `bound_posterior_mean` (data processing).

    Parameters
    ----------
    parent : t2, the parent's published count, >= 0
    mechanism : integer noise of the unit's and of every sibling's count
    siblings : d, >= 1
    count : the parent's true count, which the adversary knows; at least known + 1
    prior : p, probability of "in"
    rounding : "half_even", "half_up" or "half_down"
    known : m, people in the unit apart from the target
    truth : "in" or "out": the hypothesis whose releases are averaged over
    own_weight, sibling_weight : weights of the least squares
    nonnegative : whether counts are projected on those of at least 0 instead (`NonNegative`)
    draws, rng : number of simulated vectors of siblings, and their seed or Generator, if more than two are projected
    approximate : whether the siblings' summed noise is approximated by one discrete Gaussian with d times sigma^2, as
        in the paper

    Returns
    -------
    Dataset over release 0, ..., t2: `likelihood` (hypothesis, release) and `posterior` of "in"; `posterior_mean`,
    `raw_posterior_mean`, `bound_posterior_mean`, and each over the prior, `ratio_mean`, ...; `exceeds_raw`; `mcse`, the
    standard error of `posterior_mean` (delta method over the 50 parts of the simulation), if it is simulated. For truth
    "out" the bound is a lower one. `NonNegative` uses single siblings: its bound is for an adversary who also knows the
    siblings of all but one of their people, and in which sibling that one would be.

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> risk = consistency_risk(10, DiscreteGaussian.from_rho(0.5), siblings=27, count=1, prior=0.5)
    >>> round(float(risk["posterior_mean"]), 6), round(float(risk["raw_posterior_mean"]), 6)
    (0.590395, 0.602029)
    """
    t2, m = (int(check_whole(name, x, minimum=0)) for name, x in (("parent", parent), ("known", known)))
    d = int(check_whole("siblings", siblings, minimum=1))
    p = float(check_probability("prior", one_number("prior", prior)))
    if truth not in HYPOTHESES:
        raise ValueError(f"truth must be one of {quoted(HYPOTHESES)}, got {truth!r}")
    rule: Postprocessing
    if nonnegative:
        if (own_weight, sibling_weight) != (1, 1) or approximate:
            raise ValueError(
                "nonnegative takes equal weights and exact noise: leave out own_weight, sibling_weight, approximate"
            )
        rule = NonNegative(rounding, draws, int(np.random.default_rng(rng).integers(2**53)))
    else:
        rule = LeastSquares(rounding, own_weight, sibling_weight)
    total, own_counts = int(check_whole("count", count)), m + np.arange(2)[:, None]
    if total < m + 1:
        raise ValueError(f"count must be at least known + 1 = {m + 1}, or the target cannot be in, got {total}")
    release = np.arange(t2 + 1)
    outcomes = release, t2, own_counts, total - own_counts, mechanism, d
    parts = _as_published(rule, *outcomes) if approximate else rule.parts(*outcomes)
    log_like = log_sum_exp(parts, axis=0) - np.log(len(parts))
    target, factor = HYPOTHESES.index(truth), log_like[1] - log_like[0]
    posterior, weight = expit(logit(p) + factor), np.exp(log_like[target])
    with np.errstate(divide="ignore"):
        log_ratio = -np.logaddexp(np.log(p), np.log1p(-p) - factor)
    result = xr.Dataset(
        {
            "likelihood": (("hypothesis", "release"), np.exp(log_like)),
            "posterior": ("release", posterior),
            "posterior_mean": float((weight * posterior).sum() / weight.sum()),
            "ratio_mean": float(np.exp(log_like[target] + log_ratio).sum() / weight.sum()),
        },
        coords={"hypothesis": list(HYPOTHESES), "release": release},
        attrs={"truth": truth, "prior": p, "parent": t2, "known": m, "count": total, "siblings": d},
    )
    simulated = len(parts) > 1
    if simulated:
        result["mcse"] = _standard_error(parts, log_like, posterior, target)
    own = _atoms(mechanism, m + 1, m, target)
    rest = mechanism if nonnegative else mechanism.total(d)
    others = _atoms(rest, total - m - 1, total - m, target)
    for name, above in (("raw", NOTHING), ("bound", others)):
        average = BayesFactorLaw(float(logit(p)), target, own, above, 0, 1.0, False)
        result[f"{name}_posterior_mean"] = average.posterior_mean()[0]
        result[f"{name}_ratio_mean"] = average.ratio_mean()[0]
    gap = float(result["posterior_mean"] - result["raw_posterior_mean"])
    result["exceeds_raw"] = bool((gap if target else -gap) > 1e-12)
    for name in ("posterior_mean", "ratio_mean"):
        result[name].attrs["direction"] = "estimate" if simulated else "exact"
        result[f"raw_{name}"].attrs["direction"] = "exact"
        result[f"bound_{name}"].attrs["direction"] = "upper" if target else "lower"
    return result


def _as_published(rule: Postprocessing, release: Any, parent: int, own: Any, others: Any, noise: Any, d: int) -> Floats:
    """log P(t1 | hypothesis), (1, hypothesis, release), with the siblings' summed noise as one discrete Gaussian."""
    if not isinstance(rule, LeastSquares) or not isinstance(noise, DiscreteGaussian):
        raise TypeError(f"approximate takes a sum of discrete Gaussians as one: it needs that noise, got {noise!r}")
    return rule.given_noise(release, parent, own, others, noise, d, DiscreteGaussian(sigma2=d * (noise.sigma2 or 0)))[
        None
    ]


def _standard_error(parts: Floats, log_like: Floats, posterior: Floats, target: int) -> float:
    """Standard error of sum_a P(a | truth) posterior(a), linearised in the parts of the simulation.

    `parts` has dims (part, hypothesis, release). Hypotheses share random numbers, so their errors are correlated.
    """
    relative = np.exp(parts - log_like)
    slope = np.exp(log_like[target]) * posterior
    influence = relative[:, target] @ slope + (relative[:, 1] - relative[:, 0]) @ (slope * (1.0 - posterior))
    return float(influence.std(ddof=1) / np.sqrt(len(parts)))


def _atoms(mechanism: Mechanism, present: int, absent: int, target: int) -> DiscretePart:
    """Distribution of one raw count's log Bayes factor under the truth."""
    values, weights = mechanism.releases(present if target else absent)
    return DiscretePart(as_array(mechanism.log_ratio(values, present, absent)), weights)
