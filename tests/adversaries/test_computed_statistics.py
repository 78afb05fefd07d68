"""Ratios and synthetic records of noisy counts: by brute force they reveal no more than the counts that are audited."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.adversaries.plans import PUBLISHED, STATISTICS
from tests.tables import refusals

PRIOR = 0.3
KNOWN, PEOPLE = 2, 6
"""Everybody else in the cell, and in the unit: an adversary who knows both."""
SPREAD = np.arange(-12, 22)
"""Noisy counts that are listed."""
type Law = dict[Hashable, tuple[float, float]]
"""Of a statistic, its probabilities with the target in and out."""


def _noise(count: int, epsilon: float) -> np.ndarray[Any, Any]:
    """Probabilities of noisy counts, by the definition of geometric noise."""
    a = np.exp(-epsilon)
    return np.asarray((1.0 - a) / (1.0 + a) * a ** np.abs(SPREAD - count))


@cache
def counts_law(epsilon: float, shift: int = 0) -> Law:
    """Of both noisy counts; the adversary's, who believes in so many more people in the unit."""
    laws = [np.outer(_noise(KNOWN + t, epsilon), _noise(PEOPLE + shift + t, epsilon)) for t in (1, 0)]
    places = product(range(SPREAD.size), repeat=2)
    return {(int(SPREAD[i]), int(SPREAD[j])): (float(laws[0][i, j]), float(laws[1][i, j])) for i, j in places}


def law_of(statistic: Callable[..., Law | Hashable], law: Law) -> Law:
    """What is computed from counts; a statistic that is drawn at random is a mapping to probabilities, twice."""
    found: defaultdict[Hashable, np.ndarray[Any, Any]] = defaultdict(lambda: np.zeros(2))
    for counts, pair in law.items():
        given = statistic(*counts)  # type: ignore[misc]
        for value, chance in given.items() if isinstance(given, dict) else [(given, (1.0, 1.0))]:
            found[value] += np.array(pair) * chance
    return {value: (float(pair[0]), float(pair[1])) for value, pair in found.items()}


def ratio(cell: int, people: int) -> Fraction | None:
    return Fraction(cell, people) if people else None


def two_records(cell: int, people: int) -> Law:
    """Number of two synthetic records that are in the cell, drawn at the noisy share, which is kept within 0 and 1."""
    share = min(max(cell, 0) / people, 1.0) if people > 0 else 0.5
    chances = ((1.0 - share) ** 2, 2.0 * share * (1.0 - share), share**2)
    return {number: (chance, chance) for number, chance in enumerate(chances)}


def posteriors(law: Law) -> np.ndarray[Any, Any]:
    """Rows of: posterior of "in", probability in, probability out."""
    pairs = np.array([*law.values()])
    pairs = pairs[pairs.sum(-1) > 0.0]
    joint = pairs * (PRIOR, 1.0 - PRIOR)
    return np.column_stack([joint[:, 0] / joint.sum(-1), pairs])


def information(law: Law) -> dict[str, float]:
    """How much a statistic reveals, by measures that cannot grow in what is computed from it."""
    posterior, inside, outside = posteriors(law).T
    order = np.argsort(-posterior, kind="stable")
    alarms, detections = np.cumsum(outside[order]), np.cumsum(inside[order])
    found = {"mean in": inside @ posterior, "mean out": -(outside @ posterior)}
    found["divergence"] = float(np.sum(inside * np.log(inside / outside)))
    for level in (0.01, 0.05, 0.2):
        found[f"detections at {level}"] = np.interp(level, [0.0, *alarms], [0.0, *detections])
    found["auc"] = float(np.trapezoid([0.0, *detections], [0.0, *alarms]))
    return {name: float(x) for name, x in found.items()}


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("statistic", [ratio, two_records])
def test_what_is_computed_reveals_less_than_the_counts(statistic: Callable[..., Any], epsilon: float) -> None:
    counts = information(counts_law(epsilon))
    for name, value in information(law_of(statistic, counts_law(epsilon))).items():
        assert value < counts[name], name


@pytest.mark.parametrize("statistic", [ratio, two_records])
def test_a_posterior_is_a_mean_of_those_of_the_counts(statistic: Callable[..., Any]) -> None:
    law = counts_law(1.0)
    ends: defaultdict[Hashable, list[float]] = defaultdict(list)
    for counts, (inside, outside) in law.items():
        given = statistic(*counts)
        for value in given if isinstance(given, dict) else [given]:
            ends[value].append(PRIOR * inside / (PRIOR * inside + (1.0 - PRIOR) * outside))
    for value, (inside, outside) in law_of(statistic, law).items():
        posterior = PRIOR * inside / (PRIOR * inside + (1.0 - PRIOR) * outside)
        assert min(ends[value]) - 1e-12 <= posterior <= max(ends[value]) + 1e-12


def test_a_ratio_to_a_known_number_is_the_count() -> None:
    alone = law_of(lambda cell, _: cell, counts_law(1.0))
    assert information(law_of(lambda cell: Fraction(cell, 1200), {(k,): v for k, v in alone.items()})) == (
        pytest.approx(information(alone), rel=1e-14)
    )


def test_the_audit_is_of_the_counts_underneath() -> None:
    noise, expected = adv.Geometric(epsilon=1.0), information(counts_law(1.0))
    ratios = adv.Plan([adv.Level("cell", noise)], queries={"cell": {"people": noise}}, published="ratios")
    trees = {
        truth: adv.audit(ratios, adv.Adversary(PRIOR, KNOWN), {"cell": KNOWN + inside})
        for truth, inside in (("in", 1), ("out", 0))
    }
    assert float(trees["in"]["risk"]["posterior_mean"]) == pytest.approx(expected["mean in"], abs=2e-5)
    assert float(trees["out"]["risk"]["posterior_mean"]) == pytest.approx(-expected["mean out"], abs=2e-5)
    tree = adv.audit(replace(ratios, published="counts"), adv.Adversary(PRIOR, KNOWN), {"cell": KNOWN + 1})
    assert tree["risk"].to_dataset().identical(trees["in"]["risk"].to_dataset())


def test_mistaken_beliefs_may_end_further_away_by_a_ratio() -> None:
    """The condition of the caution: of an adversary who believes in two people too many no such order holds."""
    truth, believed = counts_law(1.0), counts_law(1.0, shift=2)
    means = []
    for statistic in (lambda *counts: counts, ratio):
        real, own = law_of(statistic, truth), law_of(statistic, believed)
        means.append(sum(real[value][0] * float(posteriors({value: own[value]})[0, 0]) for value in own))
    assert means[0] < means[1]


@pytest.mark.parametrize("published", PUBLISHED)
def test_every_audit_says_what_is_published(published: str) -> None:
    plan = adv.Plan([adv.Level("cell", adv.Geometric(epsilon=1.0))], published=published)
    tree = adv.audit(plan, adv.Adversary(0.5), {"cell": 1})
    assert tree.attrs["published"] == published
    caution = STATISTICS[published].caution
    assert json.loads(tree.attrs["warnings"]) == [caution] * bool(caution)
    assert bool(caution) == (published in ("ratios", "synthetic records"))
    assert plan.scaled(2.0).published == published


EXACT = [adv.Level("cell", adv.Geometric(epsilon=1.0), siblings=2), adv.Level("people", adv.Exact())]

test_it_is_refused = refusals(
    (lambda: adv.Plan(EXACT[:1], published="ratio"), "published must be one of 'counts', 'ratios', .*, got 'ratio'"),
    (lambda: adv.Plan(EXACT, published="ratios"), "published must be 'ratios to known numbers' where .*'people'"),
)


def test_exact_counts_may_stand_beside_ratios_to_known_numbers_and_synthetic_records() -> None:
    for published in ("counts", "ratios to known numbers", "synthetic records"):
        assert adv.Plan(EXACT, published=published).published == published
