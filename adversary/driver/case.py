"""One plan, one adversary, one truth: posteriors of every release, what they average to, and the bounds beside them."""

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
from adversary.driver.posteriors import NUTS, UNRELIABLE, Groups, Prior, Readings, read_releases, releases_to_read
from adversary.driver.shared_laws import Cohort, SharedLaws
from adversary.privacy import Guarantee, largest_change
from adversary.privacy.definitions import NoPrivacy, PureDP
from adversary.privacy.losses import PrivacyLoss, amplified_loss, way_to_loss

OWN = "privacy loss"
"""Definition under which the plan's own loss is shown beside every guarantee."""

# An improper belief is cut, for PyMC, this many nats of noise beyond the largest count a release suggests.
MODEL_REACH = 50


@dataclass(frozen=True)
class Case:
    """One plan, one adversary or several who differ in their prior only, one truth."""

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
        self, engine: str, promises: dict[str, Guarantee], draws: int, laws: SharedLaws, *, factors_only: bool = False
    ) -> Groups:
        """Groups of the audit; `laws` has the seed, and progress, store and scheduler of simulated or fitted work.

        With `factors_only` the log Bayes factor of every release stands for the posteriors of all the adversaries.
        """
        adversary, seed = self.adversary, laws.seed
        invariant = invariant_factor(self.plan, adversary, self.truth)
        odds = self.cohort.log_odds
        prior = Prior(odds, invariant, scalar_or_array(expit(odds + invariant)) if invariant else self.cohort.prior)
        if engine == "exact":
            readings = self._by_recursion(prior, draws, laws, factors_only)
            law = laws.of(self.plan, adversary, self.truth)
            risk = risk_summary(law, invariant, prior.base)
        else:
            readings = self._by_model(prior, draws, seed, NUTS.get(engine), **laws.how)
            law, risk = readings.law, readings.risk()
        if exact_totals(self.plan) and "invariant_ratio" not in risk:
            risk["invariant_ratio"] = ((), 1.0, {"direction": "exact"})
        bounds = Bounds.of(self.plan, adversary, self.failure, self.totals)
        return groups_of(readings, risk, bounds.table(promises, law, readings))

    def _by_recursion(self, prior: Prior, draws: int, laws: SharedLaws, factors_only: bool) -> Readings:
        """By the exact engine."""
        release, weight = laws.releases(self.plan, self.truth, draws)
        factor = log_bayes_factor(self.plan, self.adversary, release_arrays(self.plan, release))
        # refuses what an adversary who is certain rules out
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
        return Readings(release, weight, posterior, prior, self.truth.target, 0, "exact recursion over levels")

    def _by_model(self, prior: Prior, draws: int, seed: int, nuts: str | None, **how: Any) -> Readings:
        """By the PyMC model of the same story, enumerated or drawn from."""
        release, weight = releases_to_read(self.plan, self.truth, draws, seed, nuts is not None)
        model, data = self._model_and_data(release)
        options: dict[str, Any] = {"support": {}, "nuts": nuts, "prior": prior, "sampling": self.sampling, "rng": seed}
        return read_releases(model, self.truth.target, release, weight, data, draws, **options, **how)

    def _model_and_data(self, release: xr.Dataset) -> tuple[Any, dict[str, Any]]:
        """The PyMC model of plan and adversary, and the releases as it names them."""
        from adversary.models.stories import hierarchical_counts

        cells = range(self.plan.cells)
        upper = largest_total(self.plan, self.adversary, release)
        apart = "siblings" in release and any(
            belief.each is not None for cell in cells for belief in self.adversary.level_beliefs(self.plan, cell)
        )
        model = hierarchical_counts(self.plan, self.adversary, upper=upper, individually=apart)
        data = observed(release) | observed(release, individually=apart)
        return model, {name: value for name, value in data.items() if name in model.named_vars}


def groups_of(readings: Readings, risk: xr.Dataset, bound: xr.Dataset) -> Groups:
    """Every group of an audit of one case."""
    posterior = "estimate" if readings.sampled else "exact"
    return {
        **readings.groups,
        **({"diagnostics": readings.diagnostics()} if readings.sampled else {}),
        "release": readings.release.assign(weight=readings.weight),
        posterior: readings.described(),
        "risk": risk if "status" in risk else risk.assign(status="ok"),
        "bound": bound,
    }


@dataclass(frozen=True)
class Bounds:
    """Bounds that guarantees set for an adversary whose hypotheses differ in `records` privacy units.

    `plan` has `privacy_loss`, `privacy_unit` and `unit_loss` (None if unknown). `moved` is the largest difference of a
    count between the hypotheses, and `failure` the probability with which a bound that is not certain may fail.
    `alone` is the difference of a count if nobody else changes, and `totals` are the totals published exactly, which
    bounds for `alone` ignore. `rate` is the probability q that the target was sampled, for an adversary who does not
    know whether it was: a loss within b becomes one within log(1 - q + q e^b).
    """

    plan: Any
    records: int
    moved: int
    failure: float
    alone: int = 1
    totals: ExactTotals | None = None
    rate: float = 1.0

    @classmethod
    def of(cls, plan: Plan, adversary: Adversary, failure: float, totals: ExactTotals | None = None) -> Bounds:
        """Those of an adversary."""
        moved = adversary.records(plan), adversary.count_shift(plan)
        return cls(plan, *moved, failure, adversary.shift, totals, adversary.sampling_rate)

    def table(self, promises: dict[str, Guarantee], law: BayesFactorLaw, readings: Readings) -> xr.Dataset:
        """The bound group. `law` is that of the log Bayes factor over all releases.

        `route` names the way to each loss: a formula, or how the law of the plan's own loss is worked out. Of sampled
        posteriors only those three standard errors beyond a bound count as outside it; where fits failed,
        `outside` is not a number.
        """
        rows = {name: (one.group(self.records), promise_kept(one, self.plan)) for name, one in promises.items()}
        rows[OWN] = (own_loss(self.plan, self.moved), True)
        table = [self._row(one, is_true, law, readings) for one, is_true in rows.values()]
        columns = {name: np.array([row[name] for row in table]) for name in ("posterior", "ratio", "difference")}
        result = xr.Dataset(
            {name: (("definition", "side", *readings.prior.dims), values) for name, values in columns.items()},
            coords={"definition": list(rows), "side": ["lower", "upper"]},
        )
        for name in ("loss_bound", "outside", "failure", "k", "status"):
            values = [self.records if name == "k" else row[name] for row in table]
            result[name] = ("definition", np.array(values))
        routes = [str(one.route) if isinstance(one, PrivacyLoss) else "formula" for one, _ in rows.values()]
        result["route"] = ("definition", np.array(routes))
        if self.plan.privacy_unit.periods > 1:
            result = result.assign(self._period_bounds(promises, readings))
        for name in map(str, result.data_vars):
            if result[name].dims[:2] == ("definition", "side"):
                result[name].attrs["direction"] = "lower and upper, by side"
            elif name.startswith("loss_bound"):
                result[name].attrs["direction"] = "upper"
        direction = "estimate" if law.simulated or readings.sampled else "exact"
        result["outside"].attrs["direction"] = direction
        if self.totals is not None:
            result = result.assign(self._invariant_bounds(self.totals, promises, law, readings, direction))
        return result

    def _period_bounds(self, promises: dict[str, Guarantee], readings: Readings) -> dict[str, Any]:
        """Every guarantee of all periods together, against an adversary who reads the releases of all of them.

        The guarantee of T periods is that of one T times, and then for k units, who are present in each.
        """
        unit = self.plan.privacy_unit
        every = [unit.over_periods(guarantee).group(self.records) for guarantee in promises.values()]
        limits = [self.limit(one) for one in (*every, unit.over_periods(own_loss(self.plan, self.moved)))]
        bounds = [guarantee_within(limit).posterior_bounds(readings.prior.base) for _, limit in limits]
        return {
            "loss_bound_all_periods": ("definition", [limit for _, limit in limits]),
            "posterior_all_periods": (("definition", "side", *readings.prior.dims), np.array(bounds)),
        }

    def _invariant_bounds(
        self,
        totals: ExactTotals,
        promises: dict[str, Guarantee],
        law: BayesFactorLaw,
        readings: Readings,
        direction: str,
    ) -> dict[str, Any]:
        """Every guarantee read as if nothing were published exactly, which is no bound, and for a(t) records."""
        units = totals.each * self.plan.units(self.alone)
        one = {name: guarantee.group(units) for name, guarantee in promises.items()}
        one[OWN] = own_loss(self.plan, self.alone)
        beside = {name: totals.group_guarantee(guarantee) for name, guarantee in promises.items()}
        beside[OWN] = (
            NoPrivacy()
            if totals.disclosed
            else own_loss(self.plan, largest_change(totals.semi_adjacency, self.plan.contribution))
        )
        single = [self.limit(guarantee) for guarantee in one.values()]
        passed = [self._prob_beyond(limit, failure, law, readings) for failure, limit in single]
        upper = {"direction": "upper"}
        return {
            "single_record_bound": ("definition", [limit for _, limit in single], {"direction": "not a bound"}),
            "prob_beyond_single_record": ("definition", [outside for outside, _ in passed], {"direction": direction}),
            "single_record_exceeded": ("definition", [int(broken) for _, broken in passed]),
            "semi_loss_bound": ("definition", [self.limit(guarantee)[1] for guarantee in beside.values()], upper),
            "achieved": ("definition", [readings.reached(failure) for failure, _ in single], {"direction": direction}),
            "semi_adjacency": ((), totals.semi_adjacency, {"direction": "exact" if totals.exact else "upper"}),
        }

    def _row(self, guarantee: Guarantee, is_true: bool, law: BayesFactorLaw, readings: Readings) -> dict[str, Any]:
        prior = readings.prior
        failure, loss_bound = self.limit(guarantee)
        bound = guarantee_within(loss_bound)
        outside, exceeded = self._prob_beyond(loss_bound, failure, law, readings)
        judged = UNRELIABLE if readings.failed else "exceeded" if exceeded else "holds"
        return {
            "posterior": bound.posterior_bounds(prior.base),
            "ratio": bound.ratio_bounds(prior.base),
            "difference": bound.difference_bounds(prior.base),
            "loss_bound": loss_bound,
            "outside": outside,
            "failure": failure,
            "status": judged if is_true else "violated",
        }

    def limit(self, guarantee: Guarantee) -> tuple[float, float]:
        """(failure, largest loss, nats): for certain where there is such a limit."""
        failure = 0.0 if np.isfinite(_loss_bound(guarantee, 0.0)) else self.failure
        return failure, float(amplified_loss(_loss_bound(guarantee, failure), self.rate))

    def _prob_beyond(self, limit: float, failure: float, law: BayesFactorLaw, readings: Readings) -> tuple[float, bool]:
        """(probability of a release that takes this adversary beyond a limit, whether it is above the failure)."""
        prior = readings.prior
        outside, error = (
            readings.clearly_outside(guarantee_within(limit).posterior_bounds(prior.base))
            if readings.sampled
            else law.outside(limit, prior.invariant)
        )
        return (np.nan if readings.failed else outside), exceeds(outside, failure, error) and not readings.failed


def exceeds(outside: float, failure: float, error: float) -> bool:
    """True if P(beyond a bound) exceeds its failure probability by more than three standard errors and 1e-12."""
    return bool(outside > failure + 3.0 * error + 1e-12)


def shown_bound(bound: xr.Dataset) -> xr.Dataset:
    """The bound that stands for all where one is shown: the guarantee that allows least, of those the noise satisfies.

    The plan's own loss where no guarantee that the noise satisfies bounds anything: it is no guarantee.

    Parameters
    ----------
    bound : group `bound` of an audit, dims `definition` and `side`, or also those of adversaries, plans and truths

    Returns
    -------
    the same without the dim `definition`, the name of the definition chosen being a coordinate.

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


def guarantee_within(loss_bound: float) -> Guarantee:
    """The guarantee of a largest loss."""
    return PureDP(loss_bound) if np.isfinite(loss_bound) else NoPrivacy()


@lru_cache(maxsize=64)
def own_loss(plan: Any, records: int) -> Guarantee:
    """The plan's own privacy loss where every count differs by that much."""
    loss: Guarantee = plan.privacy_loss(records)
    return loss


@lru_cache(maxsize=256)
def _loss_bound(guarantee: Guarantee, failure: float) -> float:
    return guarantee.loss_bound(failure)


@lru_cache(maxsize=256)
def promise_kept(guarantee: Guarantee, plan: Any) -> bool:
    """True where the plan satisfies the guarantee for one privacy unit; taken to be so where its loss is not known."""
    loss = plan.unit_loss()
    return loss is None or guarantee.is_satisfied_by(loss)


def largest_total(plan: Plan, adversary: Adversary, release: xr.Dataset) -> int | None:
    """Total at which to cut improper beliefs so that it does not show: beyond what any of these releases suggests."""
    if all(belief.proper for cell in range(plan.cells) for belief in adversary.level_beliefs(plan, cell)):
        return None
    sums, known = release["sibling_sum"], max(np.atleast_1d(adversary.known))
    top = float(release["noisy"].max())
    rise = float(np.nansum(np.maximum(sums.max([dim for dim in sums.dims if dim != "level"]), 0.0)))
    reach = max(np.sqrt(level.mechanism.variance) for level in plan.levels) * np.sqrt(2.0 * MODEL_REACH)
    if all(level.is_exact for level in plan.levels[1:]):
        return int(max(top, known + 1))
    return int(np.ceil(max(top, known + 1 + (rise if len(plan.levels) > 2 else 0.0), 0.0) + reach))


def named_guarantees(guarantee: Any) -> dict[str, Guarantee]:
    """Guarantees by the names under which they are shown."""
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
    return f"guaranteed {guarantee.definition}" if guarantee.definition == OWN else guarantee.definition
