"""What an audit found, in sentences: where each reader starts, where they end on average, and the bounds beside it.

Averages are exact or estimates, and each says which; they are not bounds. Bounds are rounded outward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import (
    PERCENT,
    RARE,
    ends,
    exactly,
    figure_of,
    give_or_take,
    holding,
    how_often,
    in_100,
    listed,
    outward,
    outward_percent,
    percentage,
    plain,
    sentence,
    share,
)
from adversary.driver import OWN, UNRELIABLE
from adversary.policy.explain.outcomes import STATUS, Finding, findings, told


def _readers(tree: xr.DataTree, tell: Callable[[Finding], str]) -> Iterator[str]:
    """Reader by reader, plan by plan and truth by truth."""
    for where, found in findings(tree):
        named, rest = told(found)
        for one in named:
            yield f"Under {where}: {tell(one)}" if where else tell(one)
        if rest:
            yield rest


# The person in the data


def audit_respondent(tree: xr.DataTree) -> Iterator[str]:
    """Where a reader ends on average, and within what; no symbols, no formulas."""
    about = "whether you are among those counted" if tree.attrs.get("target", "in") == "in" else "something about you"
    yield (
        f"What is to be published was tried out on imagined readers, who want to know {about}. All numbers are their "
        f"beliefs in that, before they read the results and after.{_assumed(tree)}"
    )
    yield from _readers(tree, _respondent)
    yield (
        "Averages are no limits: single results may bring a reader further, and other readers may learn more. The "
        "limits hold for every reader they cover."
    )


def _assumed(tree: xr.DataTree) -> str:
    """The true counts from which the results were made up."""
    truths = json.loads(tree.attrs.get("truth", "{}"))
    told = [f"{f'under truth “{name}”, ' * (len(truths) > 1)}{_counts(truth)}" for name, truth in truths.items()]
    return f" The results are made up from counts taken to be true: {'; '.join(told)}." if told else ""


def _counts(truth: Any) -> str:
    if not isinstance(truth, dict):
        return str(truth)
    siblings = truth.get("siblings", {})
    told = [f"“{name}” {_numbers(n)}" for name, n in truth.items() if name != "siblings"]
    return listed([*told, *(f"its siblings at “{name}” {_numbers(n)}" for name, n in siblings.items())])


def _numbers(counts: Any) -> str:
    return listed([figure_of(float(x)) for x in np.ravel(counts)])


def _respondent(one: Finding) -> str:
    text = _exactly_published(one) if one.settled else ""
    if one.unreliable:
        return (
            f"{text}{sentence(one.who)} starts at {in_100(one['prior'])} in 100. The calculation of where they end did "
            f"not succeed, so no number is given. {_limit(one)}"
        )
    kind = "worked out exactly" if one.exact else "an estimate from simulated results"
    error = one.error("posterior_mean")
    about = f", give or take {in_100(error)}" if error > 0.0 else ""
    return (
        f"{text}{sentence(one.who)} starts at {in_100(one['prior'])} in 100 and ends on average at "
        f"{in_100(one['posterior_mean'])} in 100{about} ({kind}). Their best guess is "
        f"{_right(one['prob_correct'])}. {_limit(one)}"
    )


def _right(p: float) -> str:
    word, comma, rest = how_often(p).partition(",")
    return f"right {word}" if word[0].isdigit() else f"{word} right{comma}{rest}"


def _exactly_published(one: Finding) -> str:
    before = one.before
    start = "" if before is None else f" from {in_100(before)}"
    return (
        f"Some totals are published as they are, without chance. They alone bring {one.who}{start} to "
        f"{in_100(one['prior'])} in 100, which no limit here is about. "
    )


def _limit(one: Finding) -> str:
    """The limit of a promise, or of the noise, for this start, and whether it is kept."""
    bound = one.told
    what = "the chance in the results" if str(bound["definition"].item()) == OWN else "the promise"
    status = str(bound["status"].item())
    if one.sure:
        broken = " There is too little chance in the results for the promise." if status == "violated" else ""
        return f"Results that are made with chance do not move somebody who is already sure.{broken}"
    if not np.isfinite(float(bound["loss_bound"])):
        return f"For a reader with that start {what} sets no limit."
    low, high = ends(one["prior"], *_posterior(bound), digits=2)
    failure, k = float(bound["failure"]), int(bound["k"])
    surely = "with certainty" if failure == 0.0 else holding(failure)
    within = f"a reader with that start between {low} and {high} in 100, {surely}"
    stretched = f" It has to stretch over the data of {k} people here, and is wider for it." if k > 1 else ""
    said = {
        "violated": f"was to keep {within}; but there is too little chance in the results for that.{stretched}",
        "exceeded": (
            f"keeps {within}.{stretched} That is for readers whose beliefs about other people are not mistaken. This "
            f"one's are, or do not add up, and they end beyond it {_beyond(float(bound['outside']))}."
        ),
        UNRELIABLE: f"keeps {within}; whether this reader stays within it could not be worked out.{stretched}",
    }
    return f"{sentence(what)} {said.get(status, f'keeps {within}. This holds here.{stretched}')}"


def _posterior(bound: xr.Dataset) -> tuple[float, float]:
    low, high = (float(end) for end in bound["posterior"].values)
    return low, high


def _beyond(p: float) -> str:
    """How often, at most; as `how_often` where it never happens or hardly ever."""
    return how_often(p) if p < RARE else f"{_above(p)} times in 100"


def _above(p: float) -> str:
    """A probability times 100, rounded up."""
    return outward_percent(p, True) if p == 0.0 or p >= 1e-8 else "less than 0.000001"


# The regulator


def audit_regulator(tree: xr.DataTree) -> Iterator[str]:
    """Every reader's start, average end, ratio and guesses, and every promise with its status, in percent."""
    yield (
        "The plan was audited: for every reader below, what they come to believe of the target, averaged over all "
        "releases of the same true counts, and the bounds of every promise beside it."
    )
    yield from _readers(tree, _regulator)
    yield _verdicts(tree)
    yield (
        "An average is no bound: single releases may lead further. A bound is: lower ends are rounded down and upper "
        "ends up. What a promise does not limit is what the release teaches about people in general."
    )


def _regulator(one: Finding) -> str:
    lines = [*_settled(one), _average(one)]
    for bound in [*one.promises, one.own]:
        lines.append(_bound(one, bound))
    return " ".join(lines)


def _settled(one: Finding) -> Iterator[str]:
    if one.settled:
        start = "" if one.before is None else f" from {share(one.before)}"
        yield (
            f"What is published exactly alone takes {one.who}{start} to {share(one['prior'])}, "
            f"{figure_of(one['invariant_ratio'])} times as much, which no promise is about; the rest counts from there."
        )


def _average(one: Finding) -> str:
    if one.unreliable:
        failed = f", on a share of {share(one['unreliable_mass'])} of the releases" if one["unreliable_mass"] else ""
        return (
            f"{sentence(one.who)} starts at {share(one['prior'])}. The sampler failed{failed}, so that no average is "
            "given."
        )
    measures = (("posterior_mean", 100.0), ("ratio_mean", 1.0), ("prob_correct", 100.0))
    errors = {name: give_or_take(unit * one.error(name)) for name, unit in measures}
    kind = "exact averages" if one.exact else "estimates from simulated or sampled releases, ± one standard error"
    return (
        f"{sentence(one.who)} starts at {share(one['prior'])} and ends on average at {share(one['posterior_mean'])}"
        f"{errors['posterior_mean']}, {figure_of(one['ratio_mean'])}{errors['ratio_mean']} times the start; the best "
        f"guess is right in {share(one['prob_correct'])}{errors['prob_correct']} of releases ({kind})."
    )


def _bound(one: Finding, bound: xr.Dataset) -> str:
    name = str(bound["definition"].item())
    what = "the noise itself" if name == OWN else f"the promise of {name}"
    k, failure = int(bound["k"]), float(bound["failure"])
    over = f", stretched over {k} records," if k > 1 else ""
    if one.sure:
        return f"{sentence(what)}: a start of {share(one['prior'])} does not move{_judged(bound)}."
    if not np.isfinite(float(bound["loss_bound"])):
        return f"For this start {what}{over} sets no bound{_judged(bound)}."
    low, high = ends(one["prior"], *_posterior(bound))
    surely = "for certain" if failure == 0.0 else f"but for at most {percentage(failure, True)} of releases"
    return (
        f"For this start {what}{over} allows {low}{PERCENT} to {high}{PERCENT}, a ratio of at most "
        f"{plain(float(bound['ratio'].sel(side='upper')), True)}, {surely}{_judged(bound)}."
    )


def _judged(bound: xr.Dataset) -> str:
    """How often it is passed, and what that says of it."""
    outside, status = float(bound["outside"]), str(bound["status"].item())
    often = "" if np.isnan(outside) else f"; {_above(outside)}{PERCENT} of releases lead beyond it"
    return f"{often}. Status: {STATUS[status]}"


def _verdicts(tree: xr.DataTree) -> str:
    """All statuses in a sentence."""
    every = [str(status) for status in np.unique(tree["bound"].to_dataset()["status"].values) if status]
    if every == ["holds"]:
        return "Every bound holds for every reader here."
    return f"Not every bound is known to hold for every reader here: {listed([s for s in every if s != 'holds'])}."


# Who keeps the data


def audit_curator(tree: xr.DataTree) -> Iterator[str]:
    """The same with quantiles, ties, losses, numbers of records, and where the numbers come from."""
    attrs = tree.attrs
    truth = json.loads(attrs.get("truth", "{}"))
    yield (
        f"Audit of target {attrs.get('target', 'in')!r} by the {attrs.get('engine', 'exact')} engine. Truth: "
        f"{json.dumps(truth.get('truth', truth))}. Neighbours: {attrs.get('neighbours', 'unknown')}. Averages are over "
        "releases drawn from this truth; posterior and ratio are of the target being in, under either truth."
    )
    yield from _readers(tree, _curator)
    yield _verdicts(tree)
    yield (
        "Bounds are at the prior given exact levels, of the guarantee for hypotheses k records apart, and hold for "
        "any reader whose hypotheses differ in so many. `outside` is the probability under this truth of a release "
        "beyond the bound; `exceeded` means that it is above the failure while the promise is true."
    )


def _curator(one: Finding) -> str:
    return " ".join([*_settled(one), _average(one), *_spread(one), *map(_curator_bound, [*one.promises, one.own])])


def _spread(one: Finding) -> Iterator[str]:
    if not one.unreliable:
        low, high = (float(one.risk["posterior_quantile"][i]) for i in (0, -1))
        yield (
            f"Nine releases in ten leave the posterior between {share(low)} and {share(high)}; X - p is "
            f"{figure_of(100.0 * one['difference_mean'])} points on average; ties in {share(one['tie_mass'])}."
        )


OWN_LOSS = "The plan's own loss"


def _loss(e: float) -> str:
    return f"|log(P / Q)| <= {outward(e, True)}" if np.isfinite(e) else "no bound on log(P / Q)"


def _curator_bound(bound: xr.Dataset) -> str:
    name = str(bound["definition"].item())
    low, high = _posterior(bound)
    least, most = (float(end) for end in bound["ratio"].values)
    outside = float(bound["outside"])
    shown = "unknown" if np.isnan(outside) else f"{_above(outside)}{PERCENT}"
    return (
        f"{OWN_LOSS if name == OWN else name}: {_loss(float(bound['loss_bound']))} at failure "
        f"{exactly(float(bound['failure']))}, k = {int(bound['k'])}, X in {outward_percent(low, False)} to "
        f"{outward_percent(high, True)}{PERCENT}, ratio {outward(least, False)} to {outward(most, True)}, outside "
        f"{shown}. Status: {STATUS[str(bound['status'].item())]}."
    )
