"""What each reader could do under both truths, against what the accounting allows anybody at all.

A reader's own epsilon is the smallest e with P(|log Bayes factor| > e) <= failure, the target in and the target out.
The accounting must cover readers who know everybody else and tests nobody makes, so it is usually far above.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import figure_of, give_or_take, outward, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageSection, PageTable, as_audited, epsilon_of, of_reader, readers_of, source
from adversary.desk.kit.audit_words import called
from adversary.driver import OWN, TRUTHS
from adversary.reader.path import Adversary, opposite, settle_truth
from adversary.reader.risk import BayesFactorLaw, DiscretePart, at_prior, bayes_factor_law, invariant_factor, same_law


@dataclass(frozen=True)
class EmpiricalEpsilon:
    """One reader under both truths.

    Parameters
    ----------
    posterior, correct : expected posterior of "in" and probability of a right guess, by truth; None where the reader
        holds a truth impossible
    epsilon : the reader's own epsilon at `failure`; None where exact levels settle the target
    allowed : by definition, what the loss may exceed with no more than its failure
    errors : standard errors of `posterior`, `correct` (by truth) and `epsilon`, 0 where nothing was simulated
    """

    posterior: dict[str, float | None]
    correct: dict[str, float | None]
    epsilon: float | None
    failure: float
    allowed: dict[str, float]
    errors: dict[str, Any] = field(default_factory=dict)

    @property
    def promised(self) -> float | None:
        """The least that a promise allows; None where nothing is promised."""
        found = [value for name, value in self.allowed.items() if name != OWN]
        return min(found) if found else None


def capabilities(scenario: Scenario, tree: xr.DataTree) -> dict[str, EmpiricalEpsilon]:
    """Every reader under both truths, everybody else as they truly are, by the exact engine.

    Where laws are simulated, the releases are those of the audit. Laws are computed once for readers who differ only
    in their prior.
    """
    failure = float(tree.attrs.get("failure", scenario.failure))
    found: dict[str, EmpiricalEpsilon] = {}
    shared: list[tuple[Adversary, dict[str, BayesFactorLaw], tuple[float, float] | None]] = []
    for name, reader in readers_of(scenario).items():
        entry = next((one for one in shared if same_law(one[0], reader)), None)
        if entry is None:
            laws, centred = _laws(scenario, tree, reader)
            entry = (reader, laws, None if centred is None else epsilon_of(centred, failure))
            shared.append(entry)
        own = {side: at_prior(law, reader.prior) if law else None for side, law in entry[1].items()}
        posterior = {side: law.posterior_mean() if law else None for side, law in _by_truth(own).items()}
        correct = {side: law.prob_correct() if law else None for side, law in _by_truth(own).items()}
        found[name] = EmpiricalEpsilon(
            {side: pair and pair[0] for side, pair in posterior.items()},
            {side: pair and pair[0] for side, pair in correct.items()},
            entry[2] and entry[2][0],
            failure,
            _allowed(of_reader(tree["bound"].to_dataset(), name)),
            {
                "posterior": {side: pair[1] for side, pair in posterior.items() if pair},
                "correct": {side: pair[1] for side, pair in correct.items() if pair},
                "epsilon": entry[2][1] if entry[2] else 0.0,
            },
        )
    return found


def _by_truth(laws: dict[str, BayesFactorLaw | None]) -> dict[str, BayesFactorLaw | None]:
    return {side: laws.get(side) for side in TRUTHS}


def _laws(
    scenario: Scenario, tree: xr.DataTree, reader: Adversary
) -> tuple[dict[str, Any], list[BayesFactorLaw] | None]:
    """Laws of the log Bayes factor by truth; and the same from the exact levels on, None where those settle it."""
    plan = scenario.plan
    truth = settle_truth(plan, reader, scenario.truth)
    both = [truth]
    with suppress(ValueError):  # this reader holds the other truth impossible
        both.append(opposite(plan, reader, truth))
    same = as_audited(scenario, tree)
    laws = {TRUTHS[1 - one.target]: bayes_factor_law(plan, reader, one, **same) for one in both}
    invariants = [invariant_factor(plan, reader, one) for one in both]
    if not np.isfinite(invariants).all():
        return laws, None
    return laws, [_since(law, start) for law, start in zip(laws.values(), invariants, strict=True)]


def _since(law: BayesFactorLaw, invariant: float) -> BayesFactorLaw:
    return replace(law, rest=DiscretePart(law.rest.values - invariant, law.rest.weights)) if invariant else law


def _allowed(bound: xr.Dataset) -> dict[str, float]:
    return {str(name): float(bound["loss_bound"].sel(definition=name)) for name in bound["definition"].values}


def section(scenario: Scenario, tree: xr.DataTree) -> PageSection:
    """The part of the report: both truths, and the reader's own epsilon beside the accounting's."""
    several = isinstance(scenario.adversary, dict)
    heads = [*["reader"] * several, "expected posterior, in", "expected posterior, out", "right guesses, in"]
    table = PageTable(
        [*heads, "right guesses, out", "own epsilon", "promised", "the plan's own loss"], texts=int(several)
    )
    found = capabilities(scenario, tree)
    for name, one in found.items():
        table.add(*[name] * several, *_cells(one))
    failure = next(iter(found.values())).failure
    lines = [
        *source(tree),
        "Under one truth alone a reader may look clever for being biased. The table has both, the target truly in and "
        "truly out, everybody else being as they are.",
        "A reader's own epsilon is the least e such that their odds change by more than a factor exp(e), up or down, "
        f"in no more than {share(failure)} of releases, whichever truth holds. The accounting covers anybody who "
        "might read, so it usually allows more.",
    ]
    return PageSection("Both truths, and what a reader could do", lines, table, notes=told(found))


def _cells(one: EmpiricalEpsilon) -> list[str]:
    chances = [(p[side], errors.get(side, 0.0)) for p, errors in _with_errors(one) for side in TRUTHS]
    shown = ["not held possible" if p is None else share(p) + give_or_take(100.0 * error) for p, error in chances]
    promised = "nothing" if one.promised is None else outward(one.promised, True)
    return [*shown, _own(one), promised, outward(one.allowed[OWN], True)]


def _with_errors(one: EmpiricalEpsilon) -> list[tuple[dict[str, float | None], dict[str, float]]]:
    return [(one.posterior, one.errors.get("posterior", {})), (one.correct, one.errors.get("correct", {}))]


def _own(one: EmpiricalEpsilon) -> str:
    return "–" if one.epsilon is None else figure_of(one.epsilon) + give_or_take(one.errors.get("epsilon", 0.0))


def told(found: dict[str, EmpiricalEpsilon]) -> list[str]:
    """What each reader could do against what the accounting allows; once, where it is the same for all of them."""
    said = {name: could(one) for name, one in found.items()}
    if len(found) > 1 and len(set(said.values())) == 1:
        return [f"Each of the {len(found)} readers {next(iter(said.values()))}"]
    return [f"{f'Reader {name}' if name else 'This reader'} {text}" for name, text in said.items()]


def could(one: EmpiricalEpsilon) -> str:
    """What a reader could do against what the accounting allows, as the end of a sentence."""
    if one.epsilon is None:
        return "learns the target from what is published exactly, before any noise is read."
    promises = {name: value for name, value in one.allowed.items() if name != OWN}
    least = min(promises, key=promises.__getitem__, default="")
    promised = f", and {_limit(promises[least])} that {called(least)} promises" if least else ""
    return (
        f"could do epsilon = {_own(one)} (failing in {share(one.failure)} of releases), against "
        f"{_limit(one.allowed[OWN])} that the plan's own loss allows anybody at all{promised}."
    )


def _limit(value: float) -> str:
    return outward(value, True) if np.isfinite(value) else "any"
