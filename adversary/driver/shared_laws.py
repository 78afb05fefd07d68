"""Laws of the log Bayes factor, each computed once in an audit, whoever asks for it and however often.

Adversaries who differ in their prior only have one law, and are audited together: a `Cohort`.
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
    prior, log_odds : of the target, before the release: numbers of one alone, (adversary,) of several
    """

    names: tuple[Any, ...]
    adversary: Any
    prior: float | Floats
    log_odds: float | Floats

    @classmethod
    def of(cls, readers: Mapping[Any, Any]) -> Cohort:
        """These, who must differ in their prior only; a model stands alone."""
        first, *others = readers.values()
        if not isinstance(first, Adversary):
            return cls(tuple(readers), first, np.nan, np.nan)
        if not others:
            return cls(tuple(readers), first, first.prior, first.prior_log_odds)
        priors = np.array([[one.prior, one.prior_log_odds] for one in readers.values()])
        return cls(tuple(readers), first, *priors.T.copy())


def cohorts(readers: Mapping[Any, Any], others: Mapping[Any, Sequence[Adversary]]) -> list[Cohort]:
    """Adversaries by what they have in common besides the prior, in the order of their first.

    Parameters
    ----------
    readers : by name; who is certain before the release stands alone, and so does a model
    others : by the same names, who they are beside other plans; a cohort has one law beside each of these too
    """
    groups: list[dict[Any, Any]] = []
    for name, one in readers.items():
        sure = not isinstance(one, Adversary) or not 0.0 < one.prior < 1.0 or np.isinf(one.prior_log_odds)
        alike = () if sure else (group for group in groups if _alike(*next(iter(group.items())), name, one, others))
        group = next(iter(alike), None)
        if group is None:
            groups.append({name: one})
        else:
            group[name] = one
    return [Cohort.of(group) for group in groups]


def _alike(name: Any, one: Any, other_name: Any, other: Adversary, others: Mapping[Any, Sequence[Adversary]]) -> bool:
    """True of two who differ in their prior only, beside other plans too, where their priors are their own."""
    if not isinstance(one, Adversary) or not 0.0 < one.prior < 1.0 or one.attack != other.attack:
        return False
    pairs = zip((one, *others[name]), (other, *others[other_name]), strict=True)
    return all(
        same_law(a, b) and (a.prior_log_odds, b.prior_log_odds) == (one.prior_log_odds, other.prior_log_odds)
        for a, b in pairs
    )


@dataclass
class SharedLaws:
    """Laws for one plan and truth and whatever is compared with them.

    Parameters
    ----------
    draws, seed : simulated releases, where a law is simulated, and their seed
    how : progress, store, scheduler and workers of the simulations
    log_odds : priors of the laws; those of whoever asks unless given
    """

    draws: int
    seed: Any
    how: Mapping[str, Any] = field(default_factory=dict)
    log_odds: Any = None
    _known: dict[Any, list[tuple[Adversary, int, BayesFactorLaw]]] = field(default_factory=dict)
    _tables: dict[Any, tuple[xr.Dataset, xr.DataArray]] = field(default_factory=dict)

    def at(self, log_odds: float | Floats) -> SharedLaws:
        """The same laws, of these priors."""
        return replace(self, log_odds=log_odds)

    def of(
        self, plan: Plan, adversary: Adversary, truth: Truth, *, draws: int | None = None, coarse: bool = False
    ) -> BayesFactorLaw:
        """The law of this adversary; one law serves all who differ in their prior only.

        `coarse` asks for few values, enough for averages; `draws` for another number of simulated releases.
        """
        size = self.draws if draws is None else draws
        rows = self._known.setdefault((plan, *_key(truth), coarse), [])
        alike = (law for one, drawn, law in rows if same_law(one, adversary) and (drawn == size or not law.simulated))
        shared = next(alike, None)
        if shared is None:
            if coarse:
                shared = self.of(plan, adversary, truth, draws=draws).coarse
            else:
                shared = bayes_factor_law(plan, adversary, truth, draws=size, rng=self.seed, **self.how)
            rows.append((adversary, size, shared))
        return replace(shared, log_odds=adversary.prior_log_odds if self.log_odds is None else self.log_odds)

    def releases(self, plan: Plan, truth: Truth, draws: int) -> tuple[xr.Dataset, xr.DataArray]:
        """Releases of a truth and their probabilities, of `release_table`: the same for every adversary."""
        key = plan, *_key(truth), draws
        if key not in self._tables:
            self._tables[key] = release_table(plan, truth, draws=draws, rng=self.seed)
        return self._tables[key]


def _key(truth: Truth) -> tuple[Any, ...]:
    """What tells one truth from another."""
    siblings = tuple((name, counts.tobytes()) for name, counts in truth.siblings.items())
    return truth.target, truth.counts.tobytes(), siblings
