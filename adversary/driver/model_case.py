"""Audit of one plan, one `pymc.Model` and one truth: any model whose release is left free is an adversary.

The model's released variables are those that the plan publishes, under the names of `observed`: `noisy[level]`,
`sibling_sum[level]`, `siblings[level]`, or plain `noisy` if the plan has one level. It need not have all of them. If
its latents are discrete with finite supports, posteriors are exact, by enumeration; otherwise the discrete ones are
summed out and the continuous ones drawn from their prior, once, and weighted by every release.
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
from adversary.driver.posteriors import NUTS, Groups, model_posteriors, releases_to_read
from adversary.privacy import Guarantee, PrivacyUnit, largest_change
from adversary.privacy.losses import PrivacyLoss

# Default number of simulated releases if each distinct one is fitted by a sampler: fits take much longer than
# enumerations.
FITS = 1000

# Names of released variables.
_RELEASED = re.compile(r"(noisy|sibling_sum|siblings)(\[(.*)\])?")


def is_model(value: ArrayLike) -> bool:
    """True of a `pymc.Model`."""
    # without importing PyMC: whoever has a model has imported it
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
    names_of_target = [*(rv.name for rv in latents), *(v.name for v in model.deterministics)]
    if target not in names_of_target:
        raise ValueError(missing_target(target, model, names_of_target))
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


def target_side(truth: Any, target: str, *aliases: str) -> int:
    """1 if a truth has the target in, else 0; ValueError if it does not say so, or says both.

    It is looked up under the target's name and its `aliases`.
    """
    keys = [key for key in dict.fromkeys((target, *aliases)) if isinstance(truth, Mapping) and key in truth]
    if not keys:
        raise ValueError(f"truth must say whether the target is in: add {target!r} = 1 or 0 to the truth")
    for key in keys:
        if np.ndim(truth[key]) or truth[key] not in (0, 1):
            raise ValueError(f'truth: "{key}" must be 0 or 1, got {truth[key]!r}')
    if len({int(truth[key]) for key in keys}) > 1:
        raise ValueError(f'truth: "{target}" and "in" are the same target, got {truth[target]!r} and {truth["in"]!r}')
    return int(truth[keys[0]])


def settle_model_truth(plan: Plan, truth: Mapping[str, Any], target: str) -> Truth:
    """Truth of a plan from counts by level and the target's value, which must be named.

    Unlike those of an `Adversary`, the counts a model considers possible are not known, and are not checked.
    """
    side = target_side(truth, target, "in")
    levels = {name: value for name, value in truth.items() if name not in (target, "in")}
    return Truth(plan.counts(levels), side, plan.sibling_counts(levels))


@dataclass(frozen=True)
class ModelCase:
    """One plan, one model, one truth.

    Parameters
    ----------
    plan, model, truth : of the case
    failure : probability with which a bound that is not certain may fail
    target : name of the target among the model's variables
    records : number of privacy units in which the model's two hypotheses differ
    support : values of latents without a finite support of their own, by name
    prior_seed : seed of draws from the model's prior, the same for every plan and truth
    totals : totals published exactly
    sampling : lengths of sampled posteriors
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

    def run(self, engine: str, guarantees: dict[str, Guarantee], draws: int | None, seed: int, **how: Any) -> Groups:
        """Groups of the audit by name; `how` is progress, store and scheduler of the fits."""
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
        posteriors = model_posteriors(
            self.model, self.truth.target, *self.releases(names, nuts is not None, draws, seed), **options
        )
        bounds = Bounds(self.plan, *records_of_model(self.plan, self.records), self.failure, totals=self.totals)
        return groups_of(posteriors, posteriors.risk(), bounds.table(guarantees, posteriors.law, posteriors))

    def releases(
        self, names: list[str], fitted: bool, draws: int | None, seed: int
    ) -> tuple[xr.Dataset, xr.DataArray, dict[str, NDArray[Any]], int]:
        """(releases, their weights, arrays by the model's released variables, number of simulated releases at most).

        If releases are `fitted` each distinct one occurs once, with NaN for numbers that the model does not have.
        """
        size = (FITS if fitted else DRAWS) if draws is None else draws
        once = partial(self.without_unread, names=names)
        release, weight = releases_to_read(self.plan, self.truth, size, seed, fitted, once)
        return release, weight, self.read(release, names), size

    def read(self, release: xr.Dataset, names: list[str]) -> dict[str, NDArray[Any]]:
        """Arrays of the releases by the model's released variables, `names`.

        A number gets an axis of length one if the model's variable is a vector.
        """
        data = observed(release) | observed(release, individually=True)
        if "noisy" in names:
            data["noisy"] = data[f"noisy[{self.plan.names[0]}]"]
        vectors = [name for name in names if self.model[name].ndim == data[name].ndim == 1]
        return {name: data[name][:, None] if name in vectors else data[name] for name in names}

    def without_unread(self, release: xr.Dataset, names: list[str]) -> xr.Dataset:
        """The release with NaN for every number that is none of the model's released variables, `names`."""
        result = release.copy()
        for kind in result.data_vars:
            unread = [name for name in self.plan.names if f"{kind}[{name}]" not in names]
            if unread and not (kind == "noisy" and "noisy" in names):
                hidden = result["level"].isin(unread)
                result[kind] = result[kind].where(~hidden)
        return result


def records_of_model(plan: Plan, records: int) -> tuple[int, int]:
    """(privacy units in which a model's hypotheses differ, largest difference of a count between them)."""
    counts_twice = plan.cells == 2 and plan.neighbours == "unbounded"
    return records * (2 if counts_twice else 1), largest_change(records, plan.contribution)


def released_names(plan: Plan, model: Any, siblings: Collection[str]) -> list[str]:
    """Names of the plan's released variables that the model leaves free; ValueError if there are none, or unknown ones.

    `siblings` are the names of the levels whose siblings are released one by one.
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
    """Names of the released variables of exact levels, on which the prior is conditioned."""
    exact = [level.name for level in plan.levels if level.is_exact]
    return [name for name in names if _level(plan, name) in exact]


def _check_name(plan: Plan, model: Any, name: str, accepted: list[str], free: Mapping[str, Any]) -> None:
    """ValueError for a released variable that the plan does not publish, or that is observed or not random."""
    if name == "noisy" and len(plan.names) > 1:
        raise ValueError(f"the model's noisy is the name for a plan with one level; this one publishes {accepted}")
    if name not in accepted:
        closest = difflib.get_close_matches(name, accepted, 1)
        hint = f"did you mean {closest[0]!r}?" if closest else f"it publishes {', '.join(accepted)}"
        raise ValueError(f"the model's released variable {name!r} is not in the plan: {hint}")
    if name not in free:
        if name in {rv.name for rv in model.observed_RVs}:
            raise ValueError(
                f"the model's released variable {name!r} is already observed: leave it free, without observed=; the "
                "audit draws its own releases"
            )
        raise ValueError(
            f"the model's released variable {name!r} is not random: give it the distribution of the release, for "
            "instance with adversary.models.noise.released"
        )


def _check_kind(plan: Plan, name: str, variable: Any) -> None:
    """ValueError unless a released variable is discrete if and only if its level publishes whole numbers."""
    mechanism = plan.levels[plan.names.index(_level(plan, name))].mechanism
    is_real, dtype = mechanism.is_continuous, variable.dtype
    if is_real and not dtype.startswith("float"):
        raise ValueError(
            f"the model's {name!r} is discrete ({dtype}), but the plan publishes real numbers there ({mechanism}): use "
            f"adversary.models.noise.released({name!r}, mechanism, value)"
        )
    if not is_real and dtype.startswith("float"):
        raise ValueError(
            f"the model's {name!r} is continuous ({dtype}), but the plan publishes whole numbers there ({mechanism}): "
            f"use adversary.models.noise.released({name!r}, mechanism, value)"
        )


def _level(plan: Plan, name: str) -> str:
    """Name of the level of a released variable; the lowest level for plain `noisy`."""
    match = _RELEASED.fullmatch(name)
    return plan.names[0] if match is None or match[3] is None else match[3]


@dataclass(frozen=True, eq=False)
class RecognisedNoise:
    """Privacy loss of a model's noise, with the attributes of a `Plan` that `Bounds` needs.

    Parameters
    ----------
    model : whose released variables were made by `models.noise.released`
    names : of the released variables
    unit : whose data a guarantee protects; a person unless given
    contribution : largest change of a number by one unit
    """

    model: Any
    names: tuple[str, ...]
    unit: PrivacyUnit | None = None
    contribution: float = 1.0

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return self.unit or PrivacyUnit()

    def units(self, change: int) -> int:
        """Privacy units that a change amounts to: the change itself, as a model's hypotheses differ in units."""
        return change

    def privacy_loss(self, records: int = 1) -> Guarantee:
        """Privacy loss if so many privacy units change."""
        from adversary.models.noise import released_loss

        return released_loss(self.model, self.names, records, self.unit)

    def unit_loss(self) -> Guarantee | None:
        """Privacy loss if one privacy unit changes; None if the mechanisms are unknown."""
        loss = self.privacy_loss()
        return loss if isinstance(loss, PrivacyLoss) else None
