"""One plan, one `pymc.Model`, one truth: any model whose release is left free is an adversary.

The model's released variables are those that the plan publishes, under the names of `observed`: `noisy[level]`,
`sibling_sum[level]`, `siblings[level]`, or plain `noisy` where the plan has one level. It may leave some unread. Where
its latents are discrete and finitely many, posteriors are exact, by enumeration; otherwise the discrete ones are summed
out and the continuous ones drawn from their prior, once, and weighed by every release.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from adversary._core import Sampling
from adversary.adversaries.known_totals import ExactTotals
from adversary.adversaries.path import Truth
from adversary.adversaries.plans import Plan, observed
from adversary.adversaries.risk import DRAWS
from adversary.driver.case import Bounds, groups_of
from adversary.driver.posteriors import NUTS, Groups, read_releases, releases_to_read
from adversary.privacy import Guarantee, PrivacyUnit, largest_change
from adversary.privacy.losses import PrivacyLoss

# Default number of simulated releases where each distinct one is fitted by a sampler.
FITS = 1000

_RELEASED = re.compile(r"(noisy|sibling_sum|siblings)(\[(.*)\])?")


def is_model(value: ArrayLike) -> bool:
    """True of a `pymc.Model`; PyMC is not imported for it."""
    pymc = sys.modules.get("pymc")
    return pymc is not None and isinstance(value, pymc.Model)


def latents_of(
    model: Any, names: Collection[str], target: str, support: Mapping[str, ArrayLike] | None = None
) -> list[str]:
    """The model's continuous latents; ValueError without latents, or for a target or support that cannot be used."""
    from pymc.vartypes import discrete_types

    from adversary.models.enumeration import check_potentials, check_support, missing_target

    latents = [rv for rv in model.free_RVs if rv.name not in names]
    if not latents:
        raise ValueError(
            "the model has no latents besides its release: nothing is unknown to this adversary. Make the target a "
            f"random variable, for instance pm.Bernoulli({target!r}, 0.5)"
        )
    known = [*(rv.name for rv in latents), *(v.name for v in model.deterministics)]
    if target not in known:
        raise ValueError(missing_target(target, model, known))
    variable = model[target]
    if variable.ndim:
        raise ValueError(
            f"target {target!r} has {variable.ndim} dimension{'s' * (variable.ndim > 1)}, and an audit is "
            f'about one person: give one of its cells a name, for instance pm.Deterministic("one", '
            f'model[{target!r}][{", ".join("0" * variable.ndim)}]), and target="one"'
        )
    if variable in model.free_RVs and variable.dtype not in discrete_types:
        raise ValueError(
            f"target {target!r} is continuous ({variable.dtype}), and an audit asks whether it is 0 or 1: name an "
            f'event, for instance pm.Deterministic("high", model[{target!r}] > 0.5), and target="high"'
        )
    check_potentials(model, [*names])
    check_support([rv.name for rv in latents], support or {})
    return [rv.name for rv in latents if rv.dtype not in discrete_types]


def target_side(truth: Any, target: str, *also: str) -> int:
    """1 where a truth says that the target is in, under its own name or another; else 0."""
    keys = [key for key in dict.fromkeys((target, *also)) if isinstance(truth, Mapping) and key in truth]
    if not keys:
        raise ValueError(f"truth must say whether the target is in: add {target!r} = 1 or 0 to the truth")
    for key in keys:
        if np.ndim(truth[key]) or truth[key] not in (0, 1):
            raise ValueError(f'truth: "{key}" must be 0 or 1, got {truth[key]!r}')
    if len({int(truth[key]) for key in keys}) > 1:
        raise ValueError(f'truth: "{target}" and "in" are the same target, got {truth[target]!r} and {truth["in"]!r}')
    return int(truth[keys[0]])


def settle_model_truth(plan: Plan, truth: Mapping[str, Any], target: str) -> Truth:
    """True counts and target of a truth that names both; a model does not say which counts it holds possible."""
    side = target_side(truth, target, "in")
    levels = {name: value for name, value in truth.items() if name not in (target, "in")}
    return Truth(plan.counts(levels), side, plan.sibling_counts(levels))


@dataclass(frozen=True)
class ModelCase:
    """One plan, one model, one truth.

    `records` is the number of privacy units that differ between the model's two hypotheses, which no model says;
    `support` the values of latents without a finite support of their own, and `prior_seed` that of draws of what the
    model holds before any release, the same for every plan and truth.
    """

    plan: Plan
    model: Any
    truth: Truth
    failure: float
    target: str = "in"
    records: int = 1
    support: Mapping[str, ArrayLike] = field(default_factory=dict)
    prior_seed: int = 0
    totals: ExactTotals | None = None
    sampling: Sampling | None = None

    def run(self, engine: str, promises: dict[str, Guarantee], draws: int | None, seed: int, **how: Any) -> Groups:
        """Groups of the audit; `how` is progress, store and scheduler of the fits."""
        names = released_names(self.plan, self.model, self.truth.siblings)
        continuous = latents_of(self.model, names, self.target, self.support)
        if engine == "enumerate" and continuous:
            raise ValueError(
                f'engine "enumerate" adds up discrete states, and latent {continuous[0]!r} is continuous: use "exact" '
                'or "importance", which sum out the discrete latents and draw the continuous ones'
            )
        nuts = NUTS.get(engine, NUTS["importance"] if continuous else None)
        options: dict[str, Any] = {"target": self.target, "support": self.support}
        options |= {"settled": settled_names(self.plan, names), "sampling": self.sampling}
        options |= {"nuts": nuts, "rng": seed, "prior_rng": self.prior_seed, **how}
        readings = read_releases(
            self.model, self.truth.target, *self.releases(names, nuts is not None, draws, seed), **options
        )
        bounds = Bounds(self.plan, *records_of_model(self.plan, self.records), self.failure, totals=self.totals)
        return groups_of(readings, readings.risk(), bounds.table(promises, readings.law, readings))

    def releases(
        self, names: list[str], fitted: bool, draws: int | None, seed: int
    ) -> tuple[xr.Dataset, xr.DataArray, dict[str, NDArray[Any]], int]:
        """Releases, their weights, what the model reads of them, and how many are simulated at most.

        Each distinct one once where they are fitted; what the model leaves unread is NaN there.
        """
        size = (FITS if fitted else DRAWS) if draws is None else draws
        once = partial(self.without_unread, names=names)
        release, weight = releases_to_read(self.plan, self.truth, size, seed, fitted, once)
        return release, weight, self.read(release, names), size

    def read(self, release: xr.Dataset, names: list[str]) -> dict[str, NDArray[Any]]:
        """Arrays that the model reads of these releases, by its own names; one number may be a vector of length one."""
        data = observed(release) | observed(release, individually=True)
        if "noisy" in names:
            data["noisy"] = data[f"noisy[{self.plan.names[0]}]"]
        vectors = [name for name in names if self.model[name].ndim == data[name].ndim == 1]
        return {name: data[name][:, None] if name in vectors else data[name] for name in names}

    def without_unread(self, release: xr.Dataset, names: list[str]) -> xr.Dataset:
        """The release with NaN in place of every number the model does not read."""
        result = release.copy()
        for kind in result.data_vars:
            unread = [name for name in self.plan.names if f"{kind}[{name}]" not in names]
            if unread and not (kind == "noisy" and "noisy" in names):
                hidden = result["level"].isin(unread)
                result[kind] = result[kind].where(~hidden)
        return result


def records_of_model(plan: Plan, records: int) -> tuple[int, int]:
    """Privacy units in which a model's hypotheses differ, and the largest number by which a count does."""
    both = plan.cells == 2 and plan.neighbours == "unbounded"
    return records * (2 if both else 1), largest_change(records, plan.contribution)


def released_names(plan: Plan, model: Any, siblings: Collection[str]) -> list[str]:
    """The plan's released variables that the model leaves free; ValueError naming reason and remedy otherwise.

    siblings : names of the levels whose siblings are released one by one
    """
    expected = [f"noisy[{name}]" for name in plan.names]
    expected += [f"sibling_sum[{name}]" for i, name in enumerate(plan.names) if plan.sibling_noise(i) is not None]
    expected += [f"siblings[{name}]" for name in plan.names if name in siblings]
    accepted = [*expected, *["noisy"] * (len(plan.names) == 1)]
    free = {rv.name: rv for rv in model.free_RVs}
    for name in model.named_vars:
        if _RELEASED.fullmatch(name):
            _check_name(plan, model, name, accepted, free)
    names = [name for name in accepted if name in free]
    if not names:
        raise ValueError(
            f"the model leaves no release free. Its free variables are {list(free) or 'none'}; name those that the "
            f"plan publishes {', '.join(accepted)}, and do not observe them: the audit draws its own releases"
        )
    if "noisy" in names and len(names) > 1 and f"noisy[{plan.names[0]}]" in names:
        raise ValueError(f"the model has both noisy and {expected[0]}, which are the same release: keep one of them")
    for name in names:
        _check_kind(plan, name, free[name])
    return names


def settled_names(plan: Plan, names: list[str]) -> list[str]:
    """Released variables of exact levels, which condition the prior."""
    exact = [level.name for level in plan.levels if level.is_exact]
    return [name for name in names if _level(plan, name) in exact]


def _check_name(plan: Plan, model: Any, name: str, accepted: list[str], free: Mapping[str, Any]) -> None:
    if name == "noisy" and len(plan.names) > 1:
        raise ValueError(f"the model's noisy is the name for a plan with one level; this one publishes {accepted}")
    if name not in accepted:
        near = difflib.get_close_matches(name, accepted, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"it publishes {', '.join(accepted)}"
        raise ValueError(f"the model's released variable {name!r} is not in the plan: {hint}")
    if name not in free:
        if name in {rv.name for rv in model.observed_RVs}:
            raise ValueError(
                f"the model's released variable {name!r} is already observed: leave it free, without observed=; the "
                "audit draws its own releases"
            )
        raise ValueError(
            f"the model's released variable {name!r} is not random: give it the law of the release, for instance with "
            "adversary.models.noise.released"
        )


def _check_kind(plan: Plan, name: str, variable: Any) -> None:
    """A released variable is discrete just where its level publishes whole numbers."""
    mechanism = plan.levels[plan.names.index(_level(plan, name))].mechanism
    real, kind = mechanism.is_continuous, variable.dtype
    if real and not kind.startswith("float"):
        raise ValueError(
            f"the model's {name!r} is discrete ({kind}), but the plan publishes real numbers there ({mechanism}): use "
            f"adversary.models.noise.released({name!r}, mechanism, value)"
        )
    if not real and kind.startswith("float"):
        raise ValueError(
            f"the model's {name!r} is continuous ({kind}), but the plan publishes whole numbers there ({mechanism}): "
            f"use adversary.models.noise.released({name!r}, mechanism, value)"
        )


def _level(plan: Plan, name: str) -> str:
    """The level of a released variable."""
    match = _RELEASED.fullmatch(name)
    return plan.names[0] if match is None or match[3] is None else match[3]


@dataclass(frozen=True, eq=False)
class RecognisedNoise:
    """Privacy of a model's noise as a `Plan` has it, from the mechanisms of the released variables."""

    model: Any
    names: tuple[str, ...]
    unit: PrivacyUnit | None = None
    contribution: float = 1.0

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return self.unit or PrivacyUnit()

    def units(self, change: int) -> int:
        """A model's hypotheses differ in units, not in counts."""
        return change

    def privacy_loss(self, records: int = 1) -> Guarantee:
        """The loss when so many privacy units change."""
        from adversary.models.noise import released_loss

        return released_loss(self.model, self.names, records, self.unit)

    def unit_loss(self) -> Guarantee | None:
        """The loss when one does; None where the mechanisms are not known."""
        loss = self.privacy_loss()
        return loss if isinstance(loss, PrivacyLoss) else None
