"""A plan, a reader and a truth in sentences: what the noise is, what is believed of others, what "in" means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from adversary._core import figure_of, share
from adversary.desk.files import Scenario
from adversary.privacy.mechanisms import DiscreteGaussian, Exact, Gaussian, Geometric, Laplace, Mechanism
from adversary.privacy.mechanisms import RandomizedResponse as Response
from adversary.reader.beliefs import Belief, BetaBinomial, Each, GammaPoisson, Known, Others, Point, PrelizLaw, Uniform
from adversary.reader.path import MEANINGS, Adversary, Learned
from adversary.reader.plans import Plan
from adversary.reader.postprocessing import Clamped, Coarsened, LeastSquares, NonNegative, Postprocessing, Rounded


def noise(mechanism: Mechanism) -> str:
    """The kind of noise, with the parameter that fixes it."""
    match mechanism:
        case DiscreteGaussian():
            return f"discrete Gaussian, sigma² = {figure_of(float(mechanism.sigma) ** 2)}"
        case Gaussian():
            return f"Gaussian, sigma = {figure_of(mechanism.sigma)}"
        case Geometric():
            return f"two-sided geometric, epsilon = {figure_of(mechanism.epsilon)}"
        case Laplace():
            return f"Laplace, scale = {figure_of(mechanism.scale)}"
        case Response():
            return f"randomized response, epsilon = {figure_of(mechanism.epsilon)}, {mechanism.categories} categories"
        case Exact():
            return "none: published exactly"
        case Coarsened():
            return "; then ".join([noise(mechanism.noise), *_steps(mechanism)])
        case _:
            return repr(mechanism)


def belief(one: Belief, level: str, inside: str) -> str:
    """What a reader believes of one level's total."""
    others = f"the {level}'s people outside the {inside}"
    match one:
        case Uniform(upper=None):
            return f"of the {level}'s total, every number from the {inside}'s count upwards is equally likely"
        case Uniform():
            return f"of the {level}'s total, every number from the {inside}'s count up to {one.upper} is equally likely"
        case Point():
            return f"the {level}'s total is {one.total}, for certain"
        case Known():
            return f"everybody of the {level} outside the {inside}: {one.count} in the cell"
        case Others():
            return f"{others} follow {_law(one.law)}"
        case Each(law=None):
            return f"each other unit of the {level} holds any number of people, all equally likely"
        case Each():
            return f"each other unit of the {level} holds a number of its own, all after {_law(one.law)}"
        case GammaPoisson():
            law = f"a Gamma law of shape {figure_of(one.shape)} and rate {figure_of(one.rate)}"
            mean = one.shape * one.exposure / one.rate
            exposure = f", times {figure_of(one.exposure)}" * (one.exposure != 1.0)
            return f"{others} are Poisson with a rate not known: {law}{exposure} ({figure_of(mean)} people expected)"
        case BetaBinomial():
            chance = f"a Beta law, alpha = {figure_of(one.alpha)}, beta = {figure_of(one.beta)}"
            mean = one.n * one.alpha / (one.alpha + one.beta)
            return (
                f"each of {one.n} people of the {level} outside the {inside} is in the cell with the same chance, "
                f"which is not known: {chance} ({figure_of(mean)} people expected)"
            )
        case Learned():
            return f"the {level}'s count in the cell is {_unknown(one)}"
        case _:
            return f"of the {level}: {one!r}"


def _law(law: Any) -> str:
    """A law of a count, by name or by mean."""
    if isinstance(law, np.ndarray):
        mean = float((np.arange(law.size) * law).sum())
        return f"a law of {law.size} probabilities, mean {figure_of(mean)}"
    if isinstance(law, PrelizLaw):
        return repr(law)
    given = [*map(figure_of, law.args), *(f"{key} = {figure_of(v)}" for key, v in law.kwds.items())]
    return f"{law.dist.name}({', '.join(given)})"


def _unknown(one: Learned) -> str:
    """The range of a tabled belief, with its mean under both hypotheses."""
    means = []
    for row in np.exp(one.table):
        means.append(float((row * one.totals).sum()))
    low, high = int(one.totals[0]), int(one.totals[-1])
    out, present = figure_of(means[0]), figure_of(means[-1])
    return f"between {low} and {high}, {out} on average if the target is out and {present} if in"


def reader(plan: Plan, one: Adversary, name: str) -> str:
    """A reader's prior, knowledge and beliefs in a sentence, and what "in" means to them."""
    chain = one.level_beliefs(plan)
    lowest = plan.names[0]
    knows = (
        f"knows everybody else in the {lowest} (in the cell: {_counts(one.known)})"
        if isinstance(chain[0], Known)
        else f"does not know all the others in the {lowest}: {belief(chain[0], lowest, 'target')}"
    )
    parts = [
        belief(given, level, inside)
        for given, level, inside in zip(chain[1:], plan.names[1:], plan.names[:-1], strict=True)
        if given != Known(0)
    ]
    believes = f"; believes that {'; that '.join(parts)}" if parts else ""
    k = one.records(plan)
    differ = f"the two hypotheses differ in {k} record{'s' * (k > 1)} (k = {k})"
    who = f"Adversary {name}" if name else "The adversary"
    start = f"starts from a probability of {share(one.prior)} that {MEANINGS[one.attack]}"
    attack = "" if one.attack == "characteristics" else f" (a {one.attack} attack: this is what “in” means)"
    return f"{who} {start}{attack}; {knows}{believes}. For this adversary {differ}."


def _counts(known: Any) -> str:
    counts = np.ravel(known)
    return f"{counts[0]}, and {counts[1]} in the second cell" if counts.size > 1 else f"{counts[0]}"


def published_levels(scenario: Scenario) -> str:
    """How many levels there are, and how often those of them are published that are published more than once."""
    count = len(set(scenario.origins.values()))
    again = "".join(f"; the {name} is published {number} times" for name, number in scenario.sequences.items())
    return f"{count} level{'s' * (count > 1)}, lowest first{again}"


def truth(scenario: Scenario, target: int) -> str:
    """The true counts these averages are taken at."""
    return f"True counts of the cell: {counts(scenario, ', ')}; in truth the target is “{'in' if target else 'out'}”."


def counts(scenario: Scenario, between: str = ", ") -> str:
    """The true counts of every level of the file, and of the siblings where they are given one by one."""
    one: Mapping[str, Any] = scenario.truth
    origins = scenario.origins
    shown = [f"{name} {_number(value)}" for name, value in one.items() if origins.get(name) == name]
    siblings = [f"siblings of the {origins[name]} {_number(v)}" for name, v in one.get("siblings", {}).items()]
    return between.join(shown + siblings)


def _number(value: Any) -> str:
    return json.dumps(np.asarray(value).tolist())


def processing(scenario: Scenario) -> list[str]:
    """What is done to the numbers after the noise, one sentence for each thing done."""
    plan, origins = scenario.plan, scenario.origins
    own = plan.levels[:1] if plan.postprocessing is not None else plan.levels
    done = {origins[level.name]: steps for level in own if (steps := _steps(level.mechanism))}
    found = [f"At the {name}, {'; then '.join(steps)}." for name, steps in done.items()]
    return found if plan.postprocessing is None else [*found, _adjusting(plan.postprocessing, *plan.names)]


def _steps(mechanism: Mechanism) -> list[str]:
    """What the wrappers of a mechanism do, the innermost first."""
    match mechanism:
        case Clamped(lower=None):
            step = f"numbers above {mechanism.upper} are published as {mechanism.upper}"
        case Clamped(upper=None):
            step = f"numbers below {mechanism.lower} are published as {mechanism.lower}"
        case Clamped():
            step = f"numbers outside {mechanism.lower} to {mechanism.upper} are published as the nearer end"
        case Rounded():
            step = f"numbers are rounded to multiples of {mechanism.base}, {_TIES[mechanism.ties]}"
        case _:
            return []
    return [*_steps(mechanism.mechanism), step]


def _adjusting(postprocessing: Postprocessing, lower: str, upper: str) -> str:
    start = f"The {upper}'s number comes first, at least 0. The noisy counts of the {lower} and its siblings are then"
    match postprocessing:
        case LeastSquares():
            w0, w = postprocessing.own_weight, postprocessing.sibling_weight
            weights = "" if w0 == w else f", the {lower}'s own squares weighing {w0} and each sibling's {w}"
            return (
                f"{start} moved as little as possible, in squares{weights}, to add up to it; the {lower}'s is rounded, "
                f"{_TIES[postprocessing.rounding]}, and kept between 0 and the {upper}'s."
            )
        case NonNegative():
            return (
                f"{start} replaced by the nearest non-negative numbers that add up to it; the {lower}'s is rounded, "
                f"{_TIES[postprocessing.rounding]}."
            )
        case _:
            return f"{start} put through {postprocessing!r}."


_TIES = {
    "half_even": "those half way to the even one",
    "half_up": "those half way upwards",
    "half_down": "those half way downwards",
}
