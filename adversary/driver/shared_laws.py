"""Laws of the log Bayes factor, each computed once in an audit, whoever asks for it and however often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from adversary.adversaries.path import Adversary, Truth
from adversary.adversaries.plans import Plan
from adversary.adversaries.risk import BayesFactorLaw, bayes_factor_law, same_law


@dataclass
class SharedLaws:
    """Laws for one plan and truth and whatever is compared with them.

    Parameters
    ----------
    draws, seed : simulated releases, where a law is simulated, and their seed
    how : progress, store, scheduler and workers of the simulations
    """

    draws: int
    seed: Any
    how: Mapping[str, Any] = field(default_factory=dict)
    _known: dict[Any, list[tuple[Adversary, int, BayesFactorLaw]]] = field(default_factory=dict)

    def of(
        self, plan: Plan, reader: Adversary, truth: Truth, *, draws: int | None = None, coarse: bool = False
    ) -> BayesFactorLaw:
        """The law of this adversary; one law serves all who differ in their prior only.

        `coarse` asks for few values, enough for averages; `draws` for another number of simulated releases.
        """
        size = self.draws if draws is None else draws
        siblings = tuple((name, counts.tobytes()) for name, counts in truth.siblings.items())
        rows = self._known.setdefault((plan, truth.target, truth.counts.tobytes(), siblings, coarse), [])
        alike = (law for one, drawn, law in rows if same_law(one, reader) and (drawn == size or not law.simulated))
        found = next(alike, None)
        if found is None:
            if coarse:
                found = self.of(plan, reader, truth, draws=draws).coarse
            else:
                found = bayes_factor_law(plan, reader, truth, draws=size, rng=self.seed, **self.how)
            rows.append((reader, size, found))
        return replace(found, log_odds=reader.prior_log_odds)
