"""Distributions of the log Bayes factor, each computed once in an audit and shared.

Adversaries who differ in their prior only have the same distribution, and are audited together: a `Cohort`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import Floats
from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk import BayesFactorLaw, bayes_factor_law, release_table, same_law


@dataclass(frozen=True)
class Cohort:
    """Adversaries who differ in their prior only.

    Parameters
    ----------
    names : of all of them
    adversary : the first
    prior, log_odds : prior probability of the target, and its log odds in nats; a number for a single adversary,
        (adversary,) for several
    """

    names: tuple[Any, ...]
    adversary: Any
    prior: float | Floats
    log_odds: float | Floats

    @classmethod
    def of(cls, adversaries: Mapping[Any, Any]) -> Cohort:
        """Cohort of these adversaries, who must differ in their prior only; a model is a cohort of its own."""
        first, *others = adversaries.values()
        if not isinstance(first, Adversary):
            return cls(tuple(adversaries), first, np.nan, np.nan)
        if not others:
            return cls(tuple(adversaries), first, first.prior, first.prior_log_odds)
        priors = np.array([[one.prior, one.prior_log_odds] for one in adversaries.values()])
        return cls(tuple(adversaries), first, *priors.T.copy())


def cohorts(adversaries: Mapping[Any, Any], others: Mapping[Any, Sequence[Adversary]]) -> list[Cohort]:
    """Cohorts of adversaries who differ in their prior only, in the order of their first members.

    Parameters
    ----------
    adversaries : by name; one who is certain before the release is a cohort of its own, and so is a model
    others : by the same names, the adversaries for alternative plans; members of a cohort must agree in these too
    """
    groups: list[dict[Any, Any]] = []
    for name, one in adversaries.items():
        is_single = not isinstance(one, Adversary) or not 0.0 < one.prior < 1.0 or np.isinf(one.prior_log_odds)
        alike = (
            () if is_single else (group for group in groups if _alike(*next(iter(group.items())), name, one, others))
        )
        group = next(iter(alike), None)
        if group is None:
            groups.append({name: one})
        else:
            group[name] = one
    return [Cohort.of(group) for group in groups]


def _alike(name: Any, first: Any, other_name: Any, other: Adversary, others: Mapping[Any, Sequence[Adversary]]) -> bool:
    """True if two adversaries differ in their prior only, for every alternative plan too.

    Their adversaries for other plans must have the same priors as they have for this one.
    """
    if not isinstance(first, Adversary) or not 0.0 < first.prior < 1.0 or first.attack != other.attack:
        return False
    pairs = zip((first, *others[name]), (other, *others[other_name]), strict=True)
    return all(
        same_law(a, b) and (a.prior_log_odds, b.prior_log_odds) == (first.prior_log_odds, other.prior_log_odds)
        for a, b in pairs
    )


@dataclass
class SharedLaws:
    """Cache of distributions of the log Bayes factor, for one plan and truth and those compared with them.

    Parameters
    ----------
    draws, seed : number of simulated releases, if a distribution has to be simulated, and their seed
    how : progress, store, scheduler and workers of the simulations
    log_odds : prior log odds that the results have; each adversary's own unless given
    """

    draws: int
    seed: Any
    how: Mapping[str, Any] = field(default_factory=dict)
    log_odds: Any = None
    _known: dict[Any, list[tuple[Adversary, int, BayesFactorLaw]]] = field(default_factory=dict)
    _tables: dict[Any, tuple[xr.Dataset, xr.DataArray]] = field(default_factory=dict)

    def at(self, log_odds: float | Floats) -> SharedLaws:
        """The same cache, whose results have these prior log odds."""
        return replace(self, log_odds=log_odds)

    def of(
        self, plan: Plan, adversary: Adversary, truth: Truth, *, draws: int | None = None, coarse: bool = False
    ) -> BayesFactorLaw:
        """Distribution of the log Bayes factor of an adversary over releases of a truth.

        It is shared by all adversaries who differ in their prior only. A `coarse` one has few values, enough for
        averages; `draws` is another number of simulated releases.
        """
        size = self.draws if draws is None else draws
        known = self._known.setdefault((plan, *_key(truth), coarse), [])
        alike = (law for one, drawn, law in known if same_law(one, adversary) and (drawn == size or not law.simulated))
        shared = next(alike, None)
        if shared is None:
            if coarse:
                shared = self.of(plan, adversary, truth, draws=draws).coarse
            else:
                shared = bayes_factor_law(plan, adversary, truth, draws=size, rng=self.seed, **self.how)
            known.append((adversary, size, shared))
        return replace(shared, log_odds=adversary.prior_log_odds if self.log_odds is None else self.log_odds)

    def releases(self, plan: Plan, truth: Truth, draws: int) -> tuple[xr.Dataset, xr.DataArray]:
        """Releases of a truth and their probabilities, as `release_table` returns them, cached for all adversaries."""
        key = plan, *_key(truth), draws
        if key not in self._tables:
            self._tables[key] = release_table(plan, truth, draws=draws, rng=self.seed)
        return self._tables[key]


def _key(truth: Truth) -> tuple[Any, ...]:
    """Hashable key of a truth: equal for equal truths."""
    siblings = tuple((name, counts.tobytes()) for name, counts in truth.siblings.items())
    return truth.target, truth.counts.tobytes(), siblings
