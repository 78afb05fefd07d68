"""Audit of one plan, one adversary and one truth: posteriors of every release, their averages, and bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary._core import Sampling, instance_hint, posterior_ratio, scalar_or_array
from adversary.adversaries.known_totals import ExactTotals, exact_totals
from adversary.adversaries.path import Adversary, Truth, log_bayes_factor
from adversary.adversaries.plans import Plan, observed, release_arrays
from adversary.adversaries.risk import BayesFactorLaw, invariant_factor, risk_summary
from adversary.driver.posteriors import (
    NUTS,
    UNRELIABLE,
    Groups,
    Prior,
    ReleasePosteriors,
    model_posteriors,
    releases_to_read,
)
from adversary.driver.shared_laws import Cohort, SharedLaws
from adversary.privacy import Guarantee, largest_change
from adversary.privacy.definitions import NoPrivacy, PureDP
from adversary.privacy.losses import PrivacyLoss, amplified_loss, way_to_loss

# Name, among the definitions of group `bound`, of the plan's own privacy loss.
OWN = "privacy loss"

# PyMC needs finite supports: an improper belief is truncated at the largest count that a release suggests plus the
# distance at which Gaussian noise of the largest variance has lost this many nats, far beyond rounding error.
MODEL_REACH = 50


@dataclass(frozen=True)
class Case:
    """One plan, one truth, and one adversary or several who differ in their prior only."""

    plan: Plan
    cohort: Cohort
    truth: Truth
    failure: float
    totals: ExactTotals | None = None
    sampling: Sampling | None = None

    @property
    def adversary(self) -> Adversary:
        """The first of the adversaries."""
        first: Adversary = self.cohort.adversary
        return first

    def run(
        self, engine: str, guarantees: dict[str, Guarantee], draws: int, laws: SharedLaws, *, factors_only: bool = False
    ) -> Groups:
        """Groups of the audit by name, as `audit` documents them.

        `guarantees` are by name, `draws` is the number of simulated releases, and `laws` has the seed, progress, store
        and scheduler of simulations and fits. With `factors_only` group `exact` has the log Bayes factor of every
        release instead of every adversary's posterior.
        """
        adversary, seed = self.adversary, laws.seed
        invariant = invariant_factor(self.plan, adversary, self.truth)
        odds = self.cohort.log_odds
        prior = Prior(odds, invariant, scalar_or_array(expit(odds + invariant)) if invariant else self.cohort.prior)
        if engine == "exact":
            posteriors = self._by_recursion(prior, draws, laws, factors_only)
            law = laws.of(self.plan, adversary, self.truth)
            risk = risk_summary(law, invariant, prior.base)
        else:
            posteriors = self._by_model(prior, draws, seed, NUTS.get(engine), **laws.how)
            law, risk = posteriors.law, posteriors.risk()
        if exact_totals(self.plan) and "invariant_ratio" not in risk:
            risk["invariant_ratio"] = ((), 1.0, {"direction": "exact"})
        bounds = Bounds.of(self.plan, adversary, self.failure, self.totals)
        return groups_of(posteriors, risk, bounds.table(guarantees, law, posteriors))

    def _by_recursion(self, prior: Prior, draws: int, laws: SharedLaws, factors_only: bool) -> ReleasePosteriors:
        """Posteriors of all releases by the exact recursion over levels."""
        release, weight = laws.releases(self.plan, self.truth, draws)
        factor = log_bayes_factor(self.plan, self.adversary, release_arrays(self.plan, release))
        # raises for a release that is impossible for an adversary who is certain
        own = self.adversary.updated(factor)
        dims, start = (*prior.dims, "release"), np.asarray(prior.log_odds)[..., None]
        if factors_only:
            start = start.ravel()
            law = np.zeros(start.size, dtype=np.int64)
            posterior = xr.Dataset(
                {
                    "log_bayes_factor": (("law", "release"), factor[None]),
                    "law_index": ("adversary", law),
                    "prior_log_odds": ("adversary", start),
                }
            )
        else:
            odds = start + factor if prior.dims else own
            ratio = posterior_ratio(np.asarray(self.cohort.prior)[..., None], factor)
            values = {"posterior": expit(odds), "log_odds": odds, "ratio": ratio}
            posterior = xr.Dataset({name: (dims, value) for name, value in values.items()})
        return ReleasePosteriors(release, weight, posterior, prior, self.truth.target, 0, "exact recursion over levels")

    def _by_model(self, prior: Prior, draws: int, seed: int, nuts: str | None, **how: Any) -> ReleasePosteriors:
        """Posteriors of all releases by the PyMC model of the plan and adversary, enumerated or sampled.

        `nuts` is None to enumerate, else as for `model_posteriors`.
        """
        release, weight = releases_to_read(self.plan, self.truth, draws, seed, nuts is not None)
        model, data = self._model_and_data(release)
        options: dict[str, Any] = {"support": {}, "nuts": nuts, "prior": prior, "sampling": self.sampling, "rng": seed}
        return model_posteriors(model, self.truth.target, release, weight, data, draws, **options, **how)

    def _model_and_data(self, release: xr.Dataset) -> tuple[Any, dict[str, Any]]:
        """PyMC model of plan and adversary, and the releases as arrays by the names of its released variables."""
        from adversary.models.stories import hierarchical_counts

        cells = range(self.plan.cells)
        upper = largest_total(self.plan, self.adversary, release)
        by_sibling = "siblings" in release and any(
            belief.each is not None for cell in cells for belief in self.adversary.level_beliefs(self.plan, cell)
        )
        model = hierarchical_counts(self.plan, self.adversary, upper=upper, individually=by_sibling)
        data = observed(release) | observed(release, individually=by_sibling)
        return model, {name: value for name, value in data.items() if name in model.named_vars}


def groups_of(posteriors: ReleasePosteriors, risk: xr.Dataset, bound: xr.Dataset) -> Groups:
    """Groups of the audit of one case by name: `release`, `exact` or `estimate`, `risk`, `bound`, and draws."""
    posterior = "estimate" if posteriors.sampled else "exact"
    return {
        **posteriors.groups,
        **({"diagnostics": posteriors.diagnostics()} if posteriors.sampled else {}),
        "release": posteriors.release.assign(weight=posteriors.weight),
        posterior: posteriors.as_group(),
        "risk": risk if "status" in risk else risk.assign(status="ok"),
        "bound": bound,
    }


@dataclass(frozen=True)
class Bounds:
    """Bounds that guarantees set for an adversary whose hypotheses differ in `records` privacy units.

    Parameters
    ----------
    plan : has `privacy_loss`, `privacy_unit` and `unit_loss` (None if unknown)
    records : number of privacy units in which the hypotheses differ
    count_shift : largest difference of a count between the hypotheses
    failure : probability with which a bound that is not certain may fail
    own_shift : difference of a count if no other record changes
    totals : totals published exactly, which bounds for `own_shift` ignore
    sampling_rate : probability q that the target was sampled, if the adversary does not know whether it was: a bound b
        on the loss becomes log(1 - q + q e^b)
    """

    plan: Any
    records: int
    count_shift: int
    failure: float
    own_shift: int = 1
    totals: ExactTotals | None = None
    sampling_rate: float = 1.0

    @classmethod
    def of(cls, plan: Plan, adversary: Adversary, failure: float, totals: ExactTotals | None = None) -> Bounds:
        """Bounds for an `Adversary`, who determines both differences and the sampling rate."""
        shifts = adversary.records(plan), adversary.count_shift(plan)
        return cls(plan, *shifts, failure, adversary.shift, totals, adversary.sampling_rate)

    def table(self, guarantees: dict[str, Guarantee], law: BayesFactorLaw, posteriors: ReleasePosteriors) -> xr.Dataset:
        """Group `bound` of an audit: every guarantee and the plan's own loss, dims definition and side.

        `law` is the distribution of the log Bayes factor over all releases, and `route` the method by which each loss
        is computed. Sampled posteriors count as outside only if they are three standard errors beyond a bound; if fits
        failed, `outside` is NaN.
        """
        rows = {name: (one.group(self.records), plan_satisfies(one, self.plan)) for name, one in guarantees.items()}
        rows[OWN] = (own_loss(self.plan, self.count_shift), True)
        table = [self._row(one, is_true, law, posteriors) for one, is_true in rows.values()]
        columns = {name: np.array([row[name] for row in table]) for name in ("posterior", "ratio", "difference")}
        result = xr.Dataset(
            {name: (("definition", "side", *posteriors.prior.dims), values) for name, values in columns.items()},
            coords={"definition": list(rows), "side": ["lower", "upper"]},
        )
        for name in ("loss_bound", "outside", "failure", "k", "status"):
            values = [self.records if name == "k" else row[name] for row in table]
            result[name] = ("definition", np.array(values))
        routes = [str(one.route) if isinstance(one, PrivacyLoss) else "formula" for one, _ in rows.values()]
        result["route"] = ("definition", np.array(routes))
        if self.plan.privacy_unit.periods > 1:
            result = result.assign(self._period_bounds(guarantees, posteriors))
        for name in map(str, result.data_vars):
            if result[name].dims[:2] == ("definition", "side"):
                result[name].attrs["direction"] = "lower and upper, by side"
            elif name.startswith("loss_bound"):
                result[name].attrs["direction"] = "upper"
        direction = "estimate" if law.simulated or posteriors.sampled else "exact"
        result["outside"].attrs["direction"] = direction
        if self.totals is not None:
            result = result.assign(self._invariant_bounds(self.totals, guarantees, law, posteriors, direction))
        return result

    def _period_bounds(self, guarantees: dict[str, Guarantee], posteriors: ReleasePosteriors) -> dict[str, Any]:
        """Bounds over all periods together, against an adversary who has the releases of all of them.

        The guarantee is composed over the periods first, and then extended to the k units that are present in each.
        """
        unit = self.plan.privacy_unit
        all_periods = [unit.over_periods(guarantee).group(self.records) for guarantee in guarantees.values()]
        limits = [self.limit(one) for one in (*all_periods, unit.over_periods(own_loss(self.plan, self.count_shift)))]
        bounds = [guarantee_of_bound(limit).posterior_bounds(posteriors.prior.base) for _, limit in limits]
        return {
            "loss_bound_all_periods": ("definition", [limit for _, limit in limits]),
            "posterior_all_periods": (("definition", "side", *posteriors.prior.dims), np.array(bounds)),
        }

    def _invariant_bounds(
        self,
        totals: ExactTotals,
        guarantees: dict[str, Guarantee],
        law: BayesFactorLaw,
        posteriors: ReleasePosteriors,
        direction: str,
    ) -> dict[str, Any]:
        """Limits of every guarantee with totals published exactly.

        `single_record_bound` ignores the totals and is no bound; `semi_loss_bound` is for a(t) records, the
        semi-adjacency of the totals.
        """
        units = totals.each * self.plan.units(self.own_shift)
        ignoring_totals = {name: guarantee.group(units) for name, guarantee in guarantees.items()}
        ignoring_totals[OWN] = own_loss(self.plan, self.own_shift)
        given_totals = {name: totals.group_guarantee(guarantee) for name, guarantee in guarantees.items()}
        given_totals[OWN] = (
            NoPrivacy()
            if totals.disclosed
            else own_loss(self.plan, largest_change(totals.semi_adjacency, self.plan.contribution))
        )
        single = [self.limit(guarantee) for guarantee in ignoring_totals.values()]
        beyond = [self._prob_beyond(limit, failure, law, posteriors) for failure, limit in single]
        upper_bound = {"direction": "upper"}
        return {
            "single_record_bound": ("definition", [limit for _, limit in single], {"direction": "not a bound"}),
            "prob_beyond_single_record": ("definition", [outside for outside, _ in beyond], {"direction": direction}),
            "single_record_exceeded": ("definition", [int(broken) for _, broken in beyond]),
            "semi_loss_bound": (
                "definition",
                [self.limit(guarantee)[1] for guarantee in given_totals.values()],
                upper_bound,
            ),
            "achieved": (
                "definition",
                [posteriors.empirical_epsilon(failure) for failure, _ in single],
                {"direction": direction},
            ),
            "semi_adjacency": ((), totals.semi_adjacency, {"direction": "exact" if totals.exact else "upper"}),
        }

    def _row(
        self, guarantee: Guarantee, is_true: bool, law: BayesFactorLaw, posteriors: ReleasePosteriors
    ) -> dict[str, Any]:
        """Entries of one definition in group `bound`; `is_true` says whether the plan satisfies the guarantee."""
        prior = posteriors.prior
        failure, loss_bound = self.limit(guarantee)
        bound = guarantee_of_bound(loss_bound)
        outside, exceeded = self._prob_beyond(loss_bound, failure, law, posteriors)
        verdict = UNRELIABLE if posteriors.failed else "exceeded" if exceeded else "holds"
        return {
            "posterior": bound.posterior_bounds(prior.base),
            "ratio": bound.ratio_bounds(prior.base),
            "difference": bound.difference_bounds(prior.base),
            "loss_bound": loss_bound,
            "outside": outside,
            "failure": failure,
            "status": verdict if is_true else "violated",
        }

    def limit(self, guarantee: Guarantee) -> tuple[float, float]:
        """(failure probability, bound on the absolute privacy loss in nats): with failure 0 if that bound is finite."""
        failure = 0.0 if np.isfinite(_loss_bound(guarantee, 0.0)) else self.failure
        return failure, float(amplified_loss(_loss_bound(guarantee, failure), self.sampling_rate))

    def _prob_beyond(
        self, limit: float, failure: float, law: BayesFactorLaw, posteriors: ReleasePosteriors
    ) -> tuple[float, bool]:
        """(probability of a release beyond a loss bound, NaN if fits failed; whether it exceeds the failure)."""
        prior = posteriors.prior
        outside, error = (
            posteriors.share_outside(guarantee_of_bound(limit).posterior_bounds(prior.base))
            if posteriors.sampled
            else law.outside(limit, prior.invariant)
        )
        return (np.nan if posteriors.failed else outside), exceeds_failure(
            outside, failure, error
        ) and not posteriors.failed


def exceeds_failure(outside: float, failure: float, error: float) -> bool:
    """True if P(beyond a bound) exceeds its failure probability by more than three standard errors and rounding."""
    return bool(outside > failure + 3.0 * error + 1e-12)


def shown_bound(bound: xr.Dataset) -> xr.Dataset:
    """Bound to show where there is room for one: the tightest guarantee among those that the noise satisfies.

    The plan's own loss if no such guarantee has a finite bound; that loss is no guarantee.

    Parameters
    ----------
    bound : group `bound` of an audit, dims `definition` and `side`, or also those of adversaries, plans and truths

    Returns
    -------
    the same group without dim `definition`; the name of the chosen definition is a coordinate.

    >>> names = {"definition": ["pure DP", "zCDP", OWN]}
    >>> status = ("definition", ["violated", "holds", "holds"])
    >>> group = xr.Dataset({"loss_bound": ("definition", [0.5, 2.0, 1.0]), "status": status}, names)
    >>> shown_bound(group)["definition"].item()
    'zCDP'
    """
    loss, own = bound["loss_bound"], bound["definition"] == OWN
    guaranteed = loss.where(~own & (bound["status"] != "violated") & np.isfinite(loss), np.inf)
    least, any_bound = guaranteed.argmin("definition"), guaranteed.min("definition") < np.inf
    return bound.isel(definition=least.where(any_bound, int(np.argmax(own.values))).astype(np.int64))


def guarantee_of_bound(loss_bound: float) -> Guarantee:
    """Pure DP with this bound on the loss, in nats; `NoPrivacy` if it is infinite."""
    return PureDP(loss_bound) if np.isfinite(loss_bound) else NoPrivacy()


@lru_cache(maxsize=64)
def own_loss(plan: Any, records: int) -> Guarantee:
    """Privacy loss of a plan's whole release if every count differs by `records`; cached, as cases share it."""
    loss: Guarantee = plan.privacy_loss(records)
    return loss


@lru_cache(maxsize=256)
def _loss_bound(guarantee: Guarantee, failure: float) -> float:
    """Bound on the absolute loss except with the failure probability; cached, as it can be slow."""
    return guarantee.loss_bound(failure)


@lru_cache(maxsize=256)
def plan_satisfies(guarantee: Guarantee, plan: Any) -> bool:
    """True if the plan satisfies the guarantee for one privacy unit; assumed if the plan's loss is unknown."""
    loss = plan.unit_loss()
    return loss is None or guarantee.is_satisfied_by(loss)


def largest_total(plan: Plan, adversary: Adversary, release: xr.Dataset) -> int | None:
    """Total at which improper beliefs can be truncated without effect, beyond what any of these releases suggests.

    None if all beliefs are proper.
    """
    if all(belief.proper for cell in range(plan.cells) for belief in adversary.level_beliefs(plan, cell)):
        return None
    sums, known = release["sibling_sum"], max(np.atleast_1d(adversary.known))
    largest_count = float(release["noisy"].max())
    largest_sums = float(np.nansum(np.maximum(sums.max([dim for dim in sums.dims if dim != "level"]), 0.0)))
    noise_range = max(np.sqrt(level.mechanism.variance) for level in plan.levels) * np.sqrt(2.0 * MODEL_REACH)
    if all(level.is_exact for level in plan.levels[1:]):
        return int(max(largest_count, known + 1))
    return int(
        np.ceil(max(largest_count, known + 1 + (largest_sums if len(plan.levels) > 2 else 0.0), 0.0) + noise_range)
    )


def named_guarantees(guarantee: Any) -> dict[str, Guarantee]:
    """Guarantees by name, from one (named after its definition) or a mapping; ValueError for the name `OWN`."""
    named = dict(guarantee) if isinstance(guarantee, Mapping) else {None: guarantee} if guarantee is not None else {}
    for one in named.values():
        if not isinstance(one, Guarantee):
            raise TypeError(
                f"guarantee must be a Guarantee or a mapping of names to them, got {one!r}{way_to_loss(one)}"
                f"{instance_hint(one)}"
            )
    titled = {_title(one) if name is None else str(name): one for name, one in named.items()}
    if OWN in titled:
        raise ValueError(f"guarantee: the name {OWN!r} is kept for the plan's own loss; choose another")
    return titled


def _title(guarantee: Guarantee) -> str:
    """Name of a guarantee: its definition, told apart from `OWN` if a privacy loss is itself the guarantee."""
    return f"guaranteed {guarantee.definition}" if guarantee.definition == OWN else guarantee.definition
