"""Risk averaged over releases, from the distribution of the adversary's log Bayes factor under a truth.

Two special cases of many releases: a person known to be unique at several levels, and one count that is published
repeatedly. Both are a plan whose levels hold the same people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit

from adversary._core import (
    DEFAULT_FAILURE,
    Floats,
    Seed,
    check_number,
    check_probability,
    check_whole,
    one_number,
    posterior_ratio,
    scalar_or_array,
)
from adversary.adversaries.path import Adversary, ImpossibleRelease, opposite, settle_truth
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.risk.bayes_factors import BayesFactorLaw
from adversary.adversaries.risk.law_of_plan import bayes_factor_law
from adversary.adversaries.risk.listed_releases import DRAWS
from adversary.privacy.losses import side_of
from adversary.privacy.mechanisms import Mechanism

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_SMALLEST = 1e-300
RESOLUTION = 1e-14
"""Total mass of the releases of unbounded noise that are not listed; failure probabilities below it are refused."""


def risk_summary(
    law: BayesFactorLaw, invariant: float = 0.0, base: Any = None, factors: Floats | None = None
) -> xr.Dataset:
    """Risk measures of one distribution of the log Bayes factor: averages over releases, decisions and quantiles.

    Parameters
    ----------
    law : distribution of the log Bayes factor over releases, under one truth
    invariant : log Bayes factor of the exact levels alone, nats; infinite if they determine the target's side
    base : probability of "in" given the exact levels, of each adversary; by default from `law` and `invariant`
    factors : quantiles of the log Bayes factor at QUANTILES, (quantile,), nats, if already computed (they are the
        same for every prior)

    Returns
    -------
    Dataset of `posterior_mean`, `prob_correct`, `tie_mass`, `posterior_quantile` and `ratio_quantile` (quantile);
    `ratio_mean` and `difference_mean` against `base`, stored as `prior`; `invariant_ratio` = base / prior where there
    are exact levels; `wrong_to_right` and `right_to_wrong` if `law.separable`; `mcse` (measure), the Monte Carlo
    standard errors, if releases are simulated. The attribute `direction` of each is "exact" or "estimate". With
    several priors all have the dim adversary first.
    """
    posterior, correct, tie = law.posterior_mean(), law.prob_correct(), law.tie()
    prior, start, dims = law.prior, law.log_odds, law.dims
    ratio = (posterior[0] / prior, posterior[1] / prior) if np.all(prior > 0) else law.ratio_mean()
    base = scalar_or_array(expit(start + invariant)) if base is None else base
    levels, factors = np.array(QUANTILES), law.quantiles(QUANTILES) if factors is None else factors
    # If the exact levels determine the target's side, the noisy counts add nothing.
    settled = not np.isfinite(invariant)
    since = np.zeros_like(factors) if settled else factors - invariant
    if settled:
        none = 0.0 * base
        posterior, ratio, tie = (base, none), (1.0 + none, none), (none, none)
        correct = (scalar_or_array(np.equal(base, law.target).astype(np.float64)), none)
    elif invariant and np.all(base > _SMALLEST):
        ratio = (posterior[0] / base, posterior[1] / base)
    elif invariant:
        # posterior / base at base 0 is its limit, E[exp(log Bayes factor - invariant)].
        limits = [one * float(np.exp(-invariant)) for one in replace(law, log_odds=-np.inf).ratio_mean()]
        some, safe = base > _SMALLEST, np.maximum(base, _SMALLEST)
        pairs = zip(posterior, limits, strict=True)
        value, error = (scalar_or_array(np.where(some, mean / safe, limit)) for mean, limit in pairs)
        ratio = (value, error)
    odds, given = np.asarray(start)[..., None], np.asarray(base)[..., None]
    result = xr.Dataset(
        {
            "prior": (dims, base),
            "posterior_mean": (dims, posterior[0]),
            "ratio_mean": (dims, ratio[0]),
            "difference_mean": (dims, posterior[0] - base),
            "prob_correct": (dims, correct[0]),
            "tie_mass": (dims, tie[0]),
            "posterior_quantile": (
                (*dims, "quantile"),
                expit(odds + factors) if np.all(np.isfinite(start)) else 0 * levels + prior,
            ),
            "ratio_quantile": ((*dims, "quantile"), posterior_ratio(given, since)),
        },
        coords={"quantile": list(QUANTILES)},
    )
    if invariant:
        result["invariant_ratio"] = dims, scalar_or_array(posterior_ratio(prior, invariant))
    if law.separable:
        for change, mass in zip(("wrong_to_right", "right_to_wrong"), law.changed(), strict=True):
            result[change] = dims, mass
    for name in result.data_vars:
        result[name].attrs["direction"] = "estimate" if law.simulated and name != "prior" else "exact"
    if law.simulated:
        errors = np.stack([posterior[1], ratio[1], posterior[1], correct[1], tie[1]], axis=-1)
        measures = ["posterior_mean", "ratio_mean", "difference_mean", "prob_correct", "tie_mass"]
        result = result.assign(mcse=((*dims, "measure"), errors)).assign_coords(measure=measures)
    return result


def prob_correct(plan: Plan, adversary: Adversary, truth: Mapping[str, Any]) -> float:
    """Probability, over releases of this truth, that the adversary's best guess about the target is right (0-1 loss).

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : true counts by level name, as for `settle_truth`

    Returns
    -------
    Probability in [0, 1]; a Monte Carlo estimate where releases are simulated (see `bayes_factor_law`)

    Raises
    ------
    ValueError : a truth that the plan or the adversary's beliefs exclude

    >>> from adversary.privacy.mechanisms import Geometric
    >>> round(prob_correct(Plan([Level("block", Geometric(1.0))]), Adversary(), {"block": 1}), 6)
    0.731059
    """
    settled = settle_truth(plan, adversary, truth)
    return float(bayes_factor_law(plan, adversary, settled).prob_correct()[0])


def unique_target(
    mechanisms: Mechanism | Iterable[Mechanism], prior: float, *, truth: str = "in", rng: Seed = None
) -> xr.Dataset:
    """Risk of a target known to be unique at levels 1, ..., l: each publishes 1 if the target is in, 0 if out.

    The posterior is expit(logit p + sum_j rho_j (2 u_j - 1)) for discrete Gaussian noise, u_j the release of level j.

    Parameters
    ----------
    mechanisms : noise of levels 1, ..., l, or of one
    prior : probability that the target is in
    truth : "in" or "out"
    rng : seed, if several releases of continuous noise must be simulated

    Returns
    -------
    Dataset of averages over releases, as from `risk_summary`: `posterior_mean`, `ratio_mean`, `prob_correct`, ...

    References
    ----------
    Kazan and Reiter 2025, section 2.6.3, eq. (2.12): an adversary who knows that nobody else is there, on levels
    without siblings.

    >>> from adversary.privacy.mechanisms import Gaussian
    >>> twice, once = unique_target([Gaussian(2.0)] * 4, 0.1), unique_target([Gaussian(1.0)], 0.1)
    >>> bool(abs(twice["posterior_mean"] - once["posterior_mean"]) < 1e-12)
    True
    """
    return _average_risk(_same_people("level", mechanisms), Adversary(prior), truth, rng)


def sequential(
    releases: ArrayLike,
    mechanisms: Mechanism | Iterable[Mechanism],
    known: int,
    prior: float,
    *,
    truth: str = "in",
    rng: Seed = None,
) -> xr.Dataset:
    """Risk after each of several successive releases of one count.

        ratio after k releases = factor_1 ... factor_k,    factor_k = P(in | releases 1..k) / P(in | releases 1..k-1)

    Log Bayes factors add, so the total does not depend on the order of the releases; each factor does. The product
    holds for one observed sequence; averages over sequences do not multiply.

    Parameters
    ----------
    releases : the releases, oldest first
    mechanisms : noise of each release, or one mechanism for all
    known : count of everybody else
    prior : probability, before any release, that the target is in
    truth : "in" or "out", for the averages only
    rng : seed, if averages over several releases of continuous noise must be simulated

    Returns
    -------
    Dataset with dims `release`: `factor`, `log_factor` (log Bayes factor of the release alone), `posterior` and `ratio`
    (posterior / prior, from the start) after that release; and `posterior_mean`, `ratio_mean`, `prob_correct` and the
    rest of `risk_summary`, averages over all sequences with this noise under the truth. At prior 0 ratios and factors
    are their limits; at prior 1 they are 1.

    Raises
    ------
    ValueError : no release, different numbers of releases and mechanisms, or releases that are impossible in and out

    References
    ----------
    Kazan and Reiter 2025, section 2.10. The adversary is `Adversary.after` repeated.

    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> sequential([3, 0], DiscreteGaussian.from_rho(0.5), known=0, prior=0.5)["log_factor"].values.tolist()
    [2.5, -0.5]
    """
    values = check_number("releases", releases)
    if values.ndim != 1:
        raise ValueError(f"releases must be a list of numbers, got shape {values.shape}")
    if not values.size:
        raise ValueError("releases must not be empty: before any release the posterior is the prior")
    noises = [mechanisms] * values.size if isinstance(mechanisms, Mechanism) else list(mechanisms)
    if len(noises) != values.size:
        raise ValueError(f"mechanisms must be one, or one for each of {values.size} releases, got {len(noises)}")
    plan, one_person = _same_people("release", noises), Adversary(prior, int(check_whole("known", known, minimum=0)))
    factors = np.array([_factor(level, one_person, value) for level, value in zip(plan.levels, values, strict=True)])
    with np.errstate(invalid="ignore"):
        total = np.cumsum(factors)
    if np.isnan(total).any():
        worst = int(np.isnan(total).argmax())
        why = "neither count could give it" if np.isnan(factors[worst]) else "an earlier one rules it out"
        raise ValueError(f"release {worst + 1} is impossible: {why}")
    odds = np.append(one_person.prior_log_odds, one_person.updated(total))
    variables = {
        "factor": _change(odds, factors),
        "log_factor": factors,
        "posterior": expit(odds[1:]),
        "ratio": posterior_ratio(prior, total),
    }
    averages = _average_risk(plan, one_person, truth, rng)
    return averages.assign({name: ("release", value) for name, value in variables.items()})


def _same_people(name: str, mechanisms: Mechanism | Iterable[Mechanism]) -> Plan:
    """A plan whose levels "name 1", "name 2", ... hold the same people."""
    noises = [mechanisms] if isinstance(mechanisms, Mechanism) else list(mechanisms)
    if not noises:
        raise ValueError("mechanisms must not be empty: a risk needs at least one release")
    last = len(noises) - 1
    return Plan(Level(f"{name} {i + 1}", noise, None if i == last else 0) for i, noise in enumerate(noises))


def _factor(level: Level, adversary: Adversary, value: float) -> float:
    """Log Bayes factor of one release alone, nats; NaN if it is impossible in and out."""
    plan = Plan([Level(level.name, level.mechanism)])
    plan.observe({level.name: value})
    out, present = adversary.path(plan).known_counts()
    return float(level.mechanism.log_ratio(value, present, out))


def _change(odds: Floats, factors: Floats) -> Floats:
    """P(in) after each release divided by P(in) before it, from log-odds; at 0 its limit, exp(log factor)."""
    with np.errstate(invalid="ignore", over="ignore"):
        change = log_expit(odds[1:]) - log_expit(odds[:-1])
        return np.exp(np.where(np.isneginf(odds[:-1]), factors, change))


def _average_risk(plan: Plan, adversary: Adversary, truth: str, rng: Any) -> xr.Dataset:
    """Averages over releases, for an adversary who knows everybody else."""
    target = 1 - side_of(truth)
    count = int(np.ravel(adversary.known)[0]) + target
    settled = settle_truth(plan, adversary, {**dict.fromkeys(plan.names, count), "in": target})
    return risk_summary(bayes_factor_law(plan, adversary, settled, rng=rng))


def empirical_epsilon(
    plan: Plan,
    adversary: Adversary,
    truth: Mapping[str, Any],
    failure: float = DEFAULT_FAILURE,
    *,
    draws: int = DRAWS,
    rng: Seed = None,
) -> float:
    """Empirical epsilon of one adversary: the smallest e with P(|log Bayes factor| <= e) >= 1 - failure, in or out.

    With all other records fixed as in the truth, this adversary's pair is (e, failure) probabilistically private.
    Compare it with the bound for every adversary, `plan.privacy_loss().loss_bound(failure)`. It is the larger value of
    the two truths; if the adversary's beliefs or an exact level exclude one of them, only the other counts. For lattice
    noise it is a value of |log Bayes factor|; if releases are simulated (see `bayes_factor_law`), it is an estimate.

    Parameters
    ----------
    plan : the published counts
    adversary : the adversary
    truth : true counts, as for `audit`
    failure : probability of a larger |log Bayes factor|, in [0, 1]; 0 means the largest of all, infinite for
        unbounded noise
    draws, rng : number of simulated releases and their seed

    Returns
    -------
    epsilon in nats

    References
    ----------
    Kazan et al. 2025, section 3; `PrivacyLoss.loss_bound` is the same over every adversary.

    >>> from adversary.privacy.mechanisms import Geometric
    >>> round(empirical_epsilon(Plan([Level("block", Geometric(0.7))]), Adversary(), {"block": 1}, failure=0), 9)
    0.7
    """
    settled = settle_truth(plan, adversary, truth)
    truths = [settled]
    with suppress(ValueError):
        truths.append(opposite(plan, adversary, settled))
    laws = [bayes_factor_law(plan, adversary, truths[0], draws=draws, rng=rng)]
    with suppress(ImpossibleRelease):
        laws += [bayes_factor_law(plan, adversary, other, draws=draws, rng=rng) for other in truths[1:]]
    return empirical_epsilon_of(laws, failure)


def empirical_epsilon_of(laws: Iterable[BayesFactorLaw], failure: float = DEFAULT_FAILURE) -> float:
    """Empirical epsilon, as `empirical_epsilon`, from distributions already computed.

    Parameters
    ----------
    laws : distributions of the log Bayes factor, one for each truth; the result is the largest epsilon of any
    failure : probability of a larger |log Bayes factor|, in [0, 1]; 0 means the largest of all

    Returns
    -------
    epsilon in nats

    Raises
    ------
    ValueError : failure outside [0, 1], or above 0 and below 1e-14 with unbounded noise
    """
    every = list(laws)
    level = check_listed(failure, any(law.unbounded for law in every))
    return max(law.loss_bound(level) for law in every)


def check_listed(failure: float, unbounded: bool) -> float:
    """Check a failure probability against the mass to which releases are listed.

    Parameters
    ----------
    failure : probability; 0 allows no failure
    unbounded : True if the log Bayes factor is unbounded

    Returns
    -------
    The probability as a float

    Raises
    ------
    ValueError, TypeError : not a probability, or unbounded and below `RESOLUTION` but not 0
    """
    level = float(check_probability("failure", one_number("failure", failure)))
    if unbounded and 0.0 < level < RESOLUTION:
        raise ValueError(f"failure must be 0 or at least {RESOLUTION}, got {failure}: releases are listed to that mass")
    return level
