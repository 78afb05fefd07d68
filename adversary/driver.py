"""One call from a plan, a reader and a truth to the risk averaged over releases, with the bounds beside it.

Three engines answer: `exact` (the recursion of `reader.inference`), `enumerate` (the PyMC model's own log probability
summed over its states) and `mcmc` (the model sampled by its corrected Gibbs step). They must agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from adversary import runner
from adversary._numeric import Floats, check_probability, check_whole, logit, posterior_ratio
from adversary.privacy.definitions import NoPrivacy, PureDP
from adversary.privacy.guarantees import Guarantee
from adversary.privacy.losses import PrivacyLoss
from adversary.privacy.mechanisms import Exact
from adversary.reader.factors import NOTHING, Atoms, FactorLaw
from adversary.reader.inference import Adversary
from adversary.reader.laws import DRAWS, factor_law, invariant_factor, release_table
from adversary.reader.plans import Plan
from adversary.reader.releases import observed
from adversary.reader.risk import risk_summary
from adversary.reader.truths import Truth, settle_truth

ENGINES = ("exact", "enumerate", "mcmc")
OWN = "privacy loss"
"""Definition under which the plan's own loss is shown beside every promise."""

MODEL_REACH = 50
"""An improper belief is cut, for PyMC, this many nats of noise beyond the largest count a release suggests."""


def audit(
    plan: Plan | Mapping[str, Plan],
    adversary: Adversary | Mapping[str, Adversary],
    truth: Mapping[str, Any],
    *,
    guarantee: Guarantee | Mapping[str, Guarantee] | None = None,
    failure: float = 0.05,
    engine: str = "exact",
    target: str = "in",
    draws: int = DRAWS,
    rng: Any = None,
    progress: bool = True,
    store: Any = None,
) -> xr.DataTree:
    """What a reader learns about the target, averaged over releases of a truth, and what the guarantee allows.

    Parameters
    ----------
    plan, adversary, truth : one each, or a mapping of names for several; the names become dims "plan", "adversary",
        "truth". A truth is a mapping of level name to count, with "in" where the counts do not settle the target
    guarantee : what was promised, one or a mapping of names; the plan's own privacy loss is always shown beside it
    failure : probability with which a bound that is not certain may fail
    engine : "exact", "enumerate" or "mcmc"
    target : name of the target, "in" for every model built from an Adversary
    draws : number of simulated releases, where releases are simulated: always for "mcmc", otherwise only when they are
        too many to enumerate
    rng : seed
    progress : show a bar on work of more than a few seconds
    store : folder for finished blocks of simulated work, from which a later call goes on

    Returns
    -------
    DataTree with groups `release` (noisy, sibling_sum, weight), `exact` (posterior, log_odds, ratio per release),
    `risk` (averages) and `bound` (dims definition, side); `posterior` and `sample_stats` too with "mcmc".

    Raises
    ------
    ValueError, TypeError : naming the argument, the rule and the value
    """
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {ENGINES}, got {engine!r}")
    if target != "in":
        raise ValueError(f'target must be "in", the target of every Adversary, got {target!r}')
    check_probability("failure", failure)
    size = int(check_whole("draws", draws, minimum=1))
    promises = _named_guarantees(guarantee)
    plans, readers = _named(plan, Plan, "plan"), _named(adversary, Adversary, "adversary")
    if not isinstance(truth, Mapping):
        raise TypeError(f"truth must be a mapping of level name to count, or of names to such mappings, got {truth!r}")
    several = bool(truth) and all(isinstance(value, Mapping) for value in truth.values())
    truths: Mapping[Any, Any] = truth if several else {None: truth}
    seed = runner.seed_sequence(rng)
    stacked_plans = []
    for plan_name, one_plan in plans.items():
        stacked_truths = []
        for truth_name, one_truth in truths.items():
            cases = []
            for reader_name, reader in readers.items():
                case = _Case(one_plan, reader, settle_truth(one_plan, reader, one_truth), float(failure))
                groups = case.run(engine, promises, size, _child(seed, one_plan, one_truth), progress, store)
                cases.append((reader_name, groups))
            stacked_truths.append((truth_name, _stacked(cases, "adversary")))
        stacked_plans.append((plan_name, _stacked(stacked_truths, "truth")))
    groups = _stacked(stacked_plans, "plan")
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    tree.attrs.update(_attributes(plans, readers, truths, engine, float(failure), size, seed, rng))
    return tree


def _named(value: Any, kind: type, name: str) -> dict[Any, Any]:
    named = dict(value) if isinstance(value, Mapping) else {None: value}
    if not named:
        raise ValueError(f"{name} must not be an empty mapping")
    for one in named.values():
        if not isinstance(one, kind):
            article = "an" if kind is Adversary else "a"
            raise TypeError(f"{name} must be {article} {kind.__name__} or a mapping of names to them, got {one!r}")
    return named


def _named_guarantees(guarantee: Any) -> dict[str, Guarantee]:
    named = dict(guarantee) if isinstance(guarantee, Mapping) else {None: guarantee} if guarantee is not None else {}
    for one in named.values():
        if not isinstance(one, Guarantee):
            raise TypeError(f"guarantee must be a Guarantee or a mapping of names to them, got {one!r}")
    titled = {_title(one) if name is None else str(name): one for name, one in named.items()}
    if OWN in titled:
        raise ValueError(f"guarantee: the name {OWN!r} is kept for the plan's own loss; choose another")
    return titled


def _title(guarantee: Guarantee) -> str:
    return f"promised {guarantee.definition}" if guarantee.definition == OWN else guarantee.definition


def _child(seed: np.random.SeedSequence, plan: Plan, truth: Mapping[str, Any]) -> int:
    """A seed for one plan and truth that does not depend on what else is audited."""
    text = json.dumps([plan.names, {k: np.asarray(v).tolist() for k, v in truth.items()}])
    words = np.frombuffer(text.encode().ljust(-(-len(text) // 4) * 4), dtype=np.uint32)
    return int(
        np.random.SeedSequence([*np.atleast_1d(seed.generate_state(4)), *words]).generate_state(2, np.uint64)[0] >> 1
    )


@dataclass(frozen=True)
class _Case:
    """One plan, one reader, one truth."""

    plan: Plan
    reader: Adversary
    truth: Truth
    failure: float

    def run(
        self, engine: str, promises: dict[str, Guarantee], draws: int, seed: int, progress: bool, store: Any
    ) -> dict[str, xr.Dataset]:
        """Groups of the audit."""
        if engine == "mcmc":
            drawn = self.plan.release(self.truth.by_level(self.plan), np.random.default_rng(seed), draws)
            release, weight = _distinct(drawn)
        else:
            release, weight = release_table(self.plan, self.truth, draws=draws, rng=seed)
        groups: dict[str, xr.Dataset] = {}
        invariant = invariant_factor(self.plan, self.reader, self.truth)
        base = float(expit(self.reader.prior_log_odds + invariant)) if invariant else self.reader.prior
        if engine == "exact":
            law = factor_law(self.plan, self.reader, self.truth, draws=draws, rng=seed, progress=progress, store=store)
            exact = self.reader.posterior(self.plan, release, counts=False)
        else:
            exact, groups = self._modelled(engine, release, seed, progress)
            simulated = draws if weight.attrs["direction"] == "estimate" else 0
            law = _tabled_law(self.reader, self.truth.target, exact["log_odds"].values, weight, simulated)
        groups["release"] = release.assign(weight=weight)
        groups["exact" if engine != "mcmc" else "estimate"] = self._since(exact, base, invariant)
        groups["risk"] = risk_summary(law, invariant, base)
        groups["bound"] = self._bounds(promises, law, base, invariant)
        return groups

    def _since(self, posterior: xr.Dataset, base: float, invariant: float) -> xr.Dataset:
        """Posteriors with the target's pmf; ratios from the prior given exact levels, `invariant_ratio` to there."""
        pmf = np.stack([1.0 - posterior["posterior"], posterior["posterior"]], axis=-1)
        result = posterior.assign(pmf=(("release", "target"), pmf)).assign_coords(target=["out", "in"])
        if not invariant:
            return result
        odds, start = posterior["log_odds"].values, self.reader.prior_log_odds
        settled = np.isinf(invariant) or np.isinf(start)
        since = np.zeros_like(odds) if settled else odds - start - invariant
        ratio = ("release", posterior_ratio(base, since))
        return result.assign(ratio=ratio, invariant_ratio=float(posterior_ratio(self.reader.prior, invariant)))

    def _modelled(
        self, engine: str, release: xr.Dataset, seed: int, progress: bool
    ) -> tuple[xr.Dataset, dict[str, xr.Dataset]]:
        """Posteriors of every release from the PyMC model, and groups of draws where there are some."""
        from adversary.models import hierarchical_counts

        model = hierarchical_counts(self.plan, self.reader, upper=_upper(self.plan, self.reader, release))
        data = observed(release)
        if engine == "enumerate":
            from adversary.reader.enumeration import enumerate_posterior

            probability = enumerate_posterior(model, data)["posterior"].values
            return _posterior_dataset(self.reader.prior, probability), {}
        if any(isinstance(level.mechanism, Exact) for level in self.plan.levels[1:]):
            raise ValueError(
                'engine "mcmc" moves one count at a time and cannot cross an exact level, which ties the target to the '
                'others: use "exact" or "enumerate"'
            )
        from adversary.models import batched_gibbs

        draws = batched_gibbs(model, data, rng=seed, progress=progress)
        estimate = _posterior_dataset(self.reader.prior, draws["probability"].values)
        estimate = estimate.assign(r_hat=draws["r_hat"], ess=draws["ess"])
        return estimate, {"posterior": draws.drop_vars(["probability", "r_hat", "ess"])}

    def _bounds(self, promises: dict[str, Guarantee], law: FactorLaw, base: float, invariant: float) -> xr.Dataset:
        """The bound group: every promise for the number of records in which the hypotheses differ."""
        records = self.reader.records(self.plan)
        rows = {name: (one.group(records), _kept(one, self.plan)) for name, one in promises.items()}
        rows[OWN] = (_own_loss(self.plan, self.reader.moved(self.plan)), True)
        table = [self._bound(one, kept, law, base, invariant) for one, kept in rows.values()]
        columns = {name: np.array([row[name] for row in table]) for name in ("posterior", "ratio", "difference")}
        result = xr.Dataset(
            {name: (("definition", "side"), values) for name, values in columns.items()},
            coords={"definition": list(rows), "side": ["lower", "upper"]},
        )
        for name in ("loss_bound", "outside", "failure", "k", "status"):
            values = [records if name == "k" else row[name] for row in table]
            result[name] = ("definition", np.array(values))
        for name in ("posterior", "ratio", "difference", "loss_bound"):
            result[name].attrs["direction"] = "lower and upper, by side" if name != "loss_bound" else "upper"
        result["outside"].attrs["direction"] = "estimate" if law.simulated else "exact"
        return result

    def _bound(self, guarantee: Guarantee, kept: bool, law: FactorLaw, base: float, invariant: float) -> dict[str, Any]:
        failure = 0.0 if np.isfinite(_loss_bound(guarantee, 0.0)) else self.failure
        loss_bound = _loss_bound(guarantee, failure)
        bound = PureDP(loss_bound) if np.isfinite(loss_bound) else NoPrivacy()
        outside, error = law.outside(loss_bound, invariant)
        exceeded = outside > failure + 3.0 * error + 1e-12
        return {
            "posterior": bound.posterior_bounds(base),
            "ratio": bound.ratio_bounds(base),
            "difference": bound.difference_bounds(base),
            "loss_bound": loss_bound,
            "outside": outside,
            "failure": failure,
            "status": "violated" if not kept else "exceeded" if exceeded else "holds",
        }


@lru_cache(maxsize=64)
def _own_loss(plan: Plan, records: int) -> PrivacyLoss:
    return plan.privacy_loss(records)


@lru_cache(maxsize=256)
def _loss_bound(guarantee: Guarantee, failure: float) -> float:
    return guarantee.loss_bound(failure)


@lru_cache(maxsize=256)
def _kept(guarantee: Guarantee, plan: Plan) -> bool:
    return guarantee.is_kept_by(plan.neighbour_loss())


def _upper(plan: Plan, reader: Adversary, release: xr.Dataset) -> int | None:
    """Where to cut improper beliefs so that the cut does not show: beyond what any of these releases suggests."""
    if all(belief.proper for cell in range(plan.cells) for belief in reader.chain(plan, cell)):
        return None
    top = float(release["noisy"].max())
    rise = float(
        np.nansum(np.maximum(release["sibling_sum"].max([d for d in release["sibling_sum"].dims if d != "level"]), 0.0))
    )
    reach = max(np.sqrt(level.mechanism.variance) for level in plan.levels) * np.sqrt(2.0 * MODEL_REACH)
    known = max(np.atleast_1d(reader.known))
    if all(isinstance(level.mechanism, Exact) for level in plan.levels[1:]):
        return int(max(top, known + 1))
    return int(np.ceil(max(top, known + 1 + (rise if len(plan.levels) > 2 else 0.0), 0.0) + reach))


def _distinct(release: xr.Dataset) -> tuple[xr.Dataset, xr.DataArray]:
    """Each distinct release once, with its share of the draws."""
    flat = np.concatenate(
        [release[name].values.reshape(release.sizes["release"], -1) for name in ("noisy", "sibling_sum")], 1
    )
    _, first, counts = np.unique(flat, axis=0, return_index=True, return_counts=True, equal_nan=True)
    attrs = {"direction": "estimate", "mass": 1.0}
    return release.isel(release=first), xr.DataArray(counts / counts.sum(), dims="release", attrs=attrs)


def _posterior_dataset(prior: float, probability: Floats) -> xr.Dataset:
    odds = logit(np.clip(probability, 0.0, 1.0))
    factor = odds - float(logit(prior)) if 0 < prior < 1 else np.zeros_like(odds)
    values = {"posterior": probability, "log_odds": odds, "ratio": posterior_ratio(prior, factor)}
    return xr.Dataset({name: ("release", value) for name, value in values.items()})


def _tabled_law(reader: Adversary, target: int, log_odds: Floats, weight: xr.DataArray, draws: int) -> FactorLaw:
    """The law of the log Bayes factor from a table of releases."""
    start = reader.prior_log_odds
    factor = log_odds - start if np.isfinite(start) else np.zeros_like(log_odds)
    table = Atoms(factor, weight.values / weight.values.sum())
    return FactorLaw(start, target, NOTHING, table, draws, 1.0, False)


def _stacked(cases: list[tuple[Any, dict[str, xr.Dataset]]], dim: str) -> dict[str, xr.Dataset]:
    """Groups of several cases along a new dim; a single unnamed case stays as it is."""
    if cases[0][0] is None:
        return cases[0][1]
    names = [str(name) for name, _ in cases]
    result = {}
    for group in cases[0][1]:
        parts = [groups[group] for _, groups in cases]
        if group == "release" and dim == "adversary":
            result[group] = parts[0]
            continue
        if "release" in parts[0].dims and len({part.sizes["release"] for part in parts}) > 1:
            parts = [part.assign_coords(release=np.arange(part.sizes["release"])) for part in parts]
        joined = xr.concat(
            parts,
            xr.DataArray(names, dims=dim, name=dim),
            data_vars="all",
            coords="minimal",
            join="outer",
            compat="override",
            combine_attrs="override",
        )
        result[group] = joined.assign(weight=joined["weight"].fillna(0.0)) if group == "release" else joined
    return result


def _attributes(
    plans: Mapping[Any, Plan],
    readers: Mapping[Any, Adversary],
    truths: Mapping[Any, Any],
    engine: str,
    failure: float,
    draws: int,
    seed: Any,
    rng: Any,
) -> dict[str, Any]:
    """What was done, in values that NetCDF can hold."""
    allocation = {
        str(name or "plan"): {
            level.name: {"noise": repr(level.mechanism), "siblings": level.siblings} for level in one.levels
        }
        for name, one in plans.items()
    }
    named = {str(name or "truth"): {k: np.asarray(v).tolist() for k, v in one.items()} for name, one in truths.items()}
    return {
        "engine": engine,
        "failure": failure,
        "draws": draws,
        "seed": str(seed.entropy if rng is None or isinstance(rng, (int, np.integer)) else "given as a generator"),
        "neighbours": ", ".join(dict.fromkeys(one.neighbours for one in plans.values())),
        "cells": ", ".join(dict.fromkeys(str(one.cells) for one in plans.values())),
        "sensitivity": ", ".join(dict.fromkeys(str(one.shift) for one in readers.values())),
        "allocation": json.dumps(allocation),
        "truth": json.dumps(named),
        "truncation_mass": 1e-12,
        "versions": json.dumps({name: version(name) for name in ("adversary", "numpy", "scipy", "xarray")}),
    }
