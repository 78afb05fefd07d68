"""The sections of one truth: what the readers learn, and what was promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import between, figure_of, share
from adversary.desk.files import Scenario
from adversary.desk.kit import PageTable, audit_words, of_reader, readers_of, shown, stated


def results(scenario: Scenario, tree: xr.DataTree) -> PageTable:
    """The averages of every reader under this truth; "unreliable" where a sampler could not give them."""
    several = isinstance(scenario.adversary, dict)
    heads = [*["reader"] * several, "prior", "expected posterior", "in nine releases of ten", "expected ratio"]
    table = PageTable([*heads, "expected difference (points)", "right guesses", "ties"], texts=int(several))
    for name in readers_of(scenario):
        one = of_reader(tree["risk"].to_dataset(), name)
        quantile = one["posterior_quantile"].values
        numbers = [
            share(float(one["posterior_mean"])) + audit_words.error(one, "posterior_mean", 100.0),
            f"{share(float(quantile[0]))} to {share(float(quantile[-1]))}",
            figure_of(float(one["ratio_mean"])) + audit_words.error(one, "ratio_mean"),
            figure_of(100.0 * float(one["difference_mean"])) + audit_words.error(one, "difference_mean", 100.0),
            share(float(one["prob_correct"])) + audit_words.error(one, "prob_correct", 100.0),
            share(float(one["tie_mass"])),
        ]
        table.add(*[name] * several, share(float(one["prior"])), *(stated(one, number) for number in numbers))
    return table


def notes(scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """What the numbers are, and what the further releases are worth."""
    risk = tree["risk"].to_dataset()
    if audit_words.unreliable(risk):
        yield (
            "The sampler failed on some releases, so that its averages are not told. The sections that follow, and the "
            "table of other neighbours above, come from the exact engine."
        )
    elif risk["posterior_mean"].attrs.get("direction") == "exact":
        yield "These averages are exact sums over every release, up to a mass below the one stated at the end."
    else:
        yield (
            f"These averages are estimates from {int(tree.attrs.get('draws', 0))} simulated releases; ± is one Monte "
            "Carlo standard error."
        )
    if "invariant_ratio" in risk:
        yield "Prior here means the prior given what is published exactly; ratio and difference start from there."
    if (
        len(scenario.plan.levels) * scenario.plan.cells > 1
        and "wrong_to_right" in risk
        and not audit_words.unreliable(risk)
    ):
        for name in readers_of(scenario):
            one = of_reader(risk, name)
            gained, lost = float(one["wrong_to_right"]), float(one["right_to_wrong"])
            if np.isnan(gained):  # this reader cannot tell the lowest release from the rest
                continue
            alone = float(one["prob_correct"]) - gained + lost
            yield (
                f"{f'Reader {name}: w' if name else 'W'}ith the lowest release alone the guess would be right in "
                f"{share(alone)} of releases. The further releases turn {share(gained)} of them from wrong to right "
                f"and {share(lost)} from right to wrong."
            )


def bounds(scenario: Scenario, tree: xr.DataTree) -> PageTable:
    """Every promise, stretched to the reader's records, with what it leaves open and whether it holds."""
    several = isinstance(scenario.adversary, dict)
    heads = [*["reader"] * several, "promise", "posterior", "ratio", "difference (points)"]
    heads += ["may fail in", "releases beyond it", "k", "status"]
    table = PageTable(heads, texts=1 + several)
    for name in readers_of(scenario):
        bound = of_reader(tree["bound"].to_dataset(), name)
        for definition in bound["definition"].values:
            one = bound.sel(definition=definition)
            difference = [100.0 * float(v) for v in one["difference"].values]
            table.add(
                *[name] * several,
                audit_words.called(str(definition)),
                between(*(float(v) for v in one["posterior"].values), percent=True),
                between(*(float(v) for v in one["ratio"].values)),
                between(difference[0], difference[1]),
                share(float(one["failure"])),
                audit_words.beyond(float(one["outside"])),
                str(int(one["k"])),
                status=str(one["status"].item()),
                verdict=audit_words.STATUS[str(one["status"].item())],
            )
    return table


def figures(scenario: Scenario, tree: xr.DataTree) -> Iterator[dict[str, str]]:
    """The figures of one truth; none of a reader whose averages are unreliable."""
    from adversary.desk.figures import audit_figures, audited_guarantees

    if audit_words.unreliable(tree["risk"].to_dataset()):
        return

    lowest = scenario.plan.names[0]
    more = len(scenario.plan.levels) * scenario.plan.cells > 1
    averaged = " The curve averages over everything else that is released." if more else ""
    drawn: list[tuple[Callable[[Scenario, xr.DataTree], Any], str]] = [
        (
            audit_figures.posterior_by_release,
            f"What a released count of the {lowest} does to the reader's belief. Bars show how often each value comes "
            f"up.{averaged}",
        ),
        (
            audit_figures.ratio_by_prior,
            "Posterior over prior at other priors, all else as in this scenario. Solid: average over releases; dotted: "
            "what 19 releases in 20 stay below; dashed: bounds, rounded outward. Dots: the scenario's readers.",
        ),
        (
            audit_figures.risk_by_budget,
            "The same scenario with the budget of every level multiplied by one tenth to ten. Large dots: as planned. "
            "Right guesses are computed at separate budgets and not joined: below a prior of one half they jump.",
        ),
    ]
    drawn += [
        (
            audited_guarantees.tests_of_readers,
            "What a test can detect. Curves: the most any test detects at each rate of false alarms, under each "
            "promise (dashed) and with this noise when everybody else is known (solid). Dots: tests that decide “in” "
            "where this reader's posterior is large enough, everybody else being as they truly are.",
        ),
        (
            audited_guarantees.posteriors_of_readers,
            "How sure the release leaves the reader, over all releases, everybody else being as they truly are: with "
            "the target in and with the target out. Intervals: what each promise allows at that prior.",
        ),
    ]
    if isinstance(scenario.adversary, dict):
        drawn.append((audit_figures.risk_by_reader, "Every reader beside the bounds that cover them."))
    for draw, text in drawn:
        yield shown(partial(draw, scenario, tree), text)
