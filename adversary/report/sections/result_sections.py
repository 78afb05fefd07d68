"""Sections on the results under one truth: averages, bounds of guarantees, and the audit's further groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import xarray as xr

from adversary._core import (
    format_apart,
    format_bound,
    format_chance,
    format_number,
    format_probability,
    percentage,
    those_tied,
    tied,
)
from adversary.adversaries.path import MEANINGS, settle_truth
from adversary.driver import GROUPS, OWN, UNRELIABLE, shown_bound
from adversary.report import plot
from adversary.report.files import Scenario
from adversary.report.kit import Column, Figure, Section, Table, attempt, audit_words, tabulate
from adversary.report.kit.audit_words import (
    AVERAGES,
    RULED_OUT,
    both_targets,
    definition_words,
    group,
    group_of_adversary,
    joined,
    unreliable,
)
from adversary.report.sections import descriptions, exact_adversaries, profile_section, release_sections
from adversary.report.sections import sensitivity_sections as sensitivity_answer

# False alarms at which detections are shown.
ALARMS = 0.05
GLOSSARY = (
    "Target: the person the adversary asks about. Cell: a published count. Prior and posterior: the adversary's "
    "probability of “in” before and after the release. Bound: an inequality that a guarantee implies. k: number of "
    "privacy units in which the adversary's two hypotheses differ. Failure probability: how often a bound may not "
    "hold. Detections: how often the best test says “in” when that is true, at 5% false alarms."
)


# Function that makes a section from a scenario with one truth and its audit.
type Maker = Callable[[Scenario, xr.DataTree], Section | None]


def most_informed(risk: xr.Dataset, measure: str = "difference_mean") -> list[str]:
    """Names of the adversaries whose expected difference, or ratio, equals the largest within its error."""
    if "adversary" not in risk.dims:
        return [""]
    errors = risk["mcse"].sel(measure=measure).values if "mcse" in risk else 0.0
    return [str(name) for name in risk["adversary"].values[tied(np.abs(risk[measure].values), errors)]]


def finding(scenario: Scenario, tree: xr.DataTree) -> str:
    """Main result of an audit, in a sentence or two."""
    risk = tree["risk"].to_dataset()
    if unreliable(risk):
        return (
            f"The sampler's diagnostics failed on some releases. Averages are called {UNRELIABLE}, and no number is "
            "given; the section on diagnostics says why."
        )
    adversaries = scenario.adversaries
    if len(adversaries) > 1:
        moved, raised = (most_informed(risk, key) for key in ("difference_mean", "ratio_mean"))
        one, ratio = group_of_adversary(risk, moved[0]), float(group_of_adversary(risk, raised[0])["ratio_mean"])
        before, after = format_apart(format_probability, (float(one[key]) for key in ("prior", "posterior_mean")))
        return (
            f"On average over releases the probability moves most for {_adversaries(moved, len(adversaries))}: from "
            f"{before} to {after}, {format_number(100.0 * float(one['difference_mean']))} points. The largest ratio is "
            f"{format_number(ratio)} times the prior for {_adversaries(raised, len(adversaries))}."
        )
    ((name, adversary),) = adversaries.items()
    one = group_of_adversary(risk, name)
    error = partial(audit_words.error, one)
    meaning = "the target is in" if adversary.attack == "characteristics" else MEANINGS[adversary.attack]
    return (
        f"On average over releases, the adversary goes from {format_probability(float(one['prior']))} to "
        f"{format_probability(float(one['posterior_mean']))}{error('posterior_mean', 100.0)} that {meaning}, "
        f"{format_number(float(one['ratio_mean']))}{error('ratio_mean')} times the prior; in 9 of 10 releases "
        f"it is {audit_words.nine_in_ten(one)}."
    )


def _adversaries(names: list[str], of: int) -> str:
    """Names of adversaries that are equal within error, in words; `of` is the number of all adversaries."""
    named = those_tied(names, of, "adversaries")
    return named if named.startswith("all ") else f"adversar{'ies' if len(names) > 1 else 'y'} {named}"


def results(name: str, scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on one truth, with all its parts."""
    title = f"What the adversary learns{': ' * bool(name)}{name}"
    made = attempt(title, _averaged, title, name, scenario, tree)
    parts = {
        "What the guarantees allow": bounds,
        **_there(tree, {"both_truths": both_truths}),
        exact_adversaries.TITLE: exact_adversaries.exact_section,
        **_there(tree, {"tolerated": profile_section.tolerated_section, **release_sections.SECTIONS}),
        "Sensitivity": sensitivity_answer.section,
        "Diagnostics": diagnostics,
    }
    made.parts = list(filter(None, (attempt(part, make, scenario, tree) for part, make in parts.items())))
    return made


def _there(tree: xr.DataTree, makers: Mapping[str, Maker]) -> dict[str, Maker]:
    """Makers of sections whose groups the audit has, by title."""
    return {GROUPS[name].title: make for name, make in makers.items() if name in tree.children}


def _averaged(title: str, name: str, scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on the averages under one truth, without parts."""
    first = next(iter(scenario.adversaries.values()))
    target = settle_truth(scenario.plan, first, scenario.truth).target
    return Section(
        title,
        finding(scenario, tree),
        paragraphs=[descriptions.truth(scenario, target), *descriptions.processing(scenario)],
        tables=[averages(name, scenario, tree)],
        figures=list(truth_figures(scenario, tree)),
        notes=list(_notes(scenario, tree)),
    )


def averages(name: str, scenario: Scenario, tree: xr.DataTree) -> Table:
    """Table of the averages of every adversary under one truth."""
    risk = tree["risk"].to_dataset()
    means = {key: (risk, key) for key in ("posterior_mean", "ratio_mean", "difference_mean")}
    unused = (group(tree, "baseline"), "posterior_mean")
    averages_table = joined(
        risk, prior=(risk, "prior"), unused=unused, **means, detections=(detections(tree), "detections")
    )
    averages_table["range"] = (
        risk["posterior_quantile"].isel(quantile=[0, -1]).drop_vars("quantile").rename(quantile="side")
    )
    columns = {
        "adversary": "adversary",
        "prior": (f"prior{' given exact counts' * ('invariant_ratio' in risk)}", "probability"),
        "posterior_mean": ("expected posterior", "probability"),
        "range": ("9 of 10 releases", "% interval"), "ratio_mean": ("expected ratio", "number"),
        "difference_mean": ("difference (points)", "points"), "detections": ("detections", "probability"),
        "unused": ("record not used", "probability"),
    }  # fmt: skip
    failed = {key: {None: UNRELIABLE} for key in (*means, "range")} if unreliable(risk) else {}
    table = f"averages {name}".strip()
    first = ("adversary", "prior", "expected posterior", "9 of 10 releases", "difference (points)", "detections")
    return tabulate(averages_table, columns, name=table, notes=[GLOSSARY], called=failed, missing="–", first=first)


def detections(tree: xr.DataTree) -> xr.Dataset | None:
    """Group `tests` at the false-alarm rate `ALARMS`; None if the audit has no tests."""
    tests = group(tree, "tests")
    return None if tests is None else tests.sel(level=ALARMS, drop=True)


def _notes(scenario: Scenario, tree: xr.DataTree) -> Iterator[str]:
    """Notes under the averages: exact or simulated, exact levels, and the record not used."""
    risk = tree["risk"].to_dataset()
    if unreliable(risk):
        yield "Numbers that are given come from the exact engine, not from the sampler that failed."
    elif risk["posterior_mean"].attrs.get("direction") == "exact":
        yield "These averages are exact sums over every release, up to a mass below the one stated at the end."
    else:
        yield (
            f"These averages are estimates from {int(tree.attrs.get('draws', 0)):,} simulated releases; ± is one Monte "
            "Carlo standard error."
        )
    if "invariant_ratio" in risk:
        yield "Prior here means the prior given what is published exactly; ratio and difference start from there."
    yield "“Record not used” is the expected posterior if the release were computed without the target's record."
    baseline = group(tree, "baseline")
    if baseline is not None and "reason" in baseline.attrs:
        yield f"It is not given here: {baseline.attrs['reason']}."


def bounds(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on the guarantees: their bounds for k records, and their statuses."""
    bound = tree["bound"].to_dataset()
    columns = {
        "adversary": "adversary", "definition": "guarantee", "status": ("status", "status"),
        "posterior": ("posterior", "% interval"), "ratio": ("ratio", "interval"),
        "difference": ("difference (points)", "points interval"), "failure": ("failure probability", "probability"),
        "outside": ("P(beyond bound)", "% at most"), "k": ("k", "count"),
    }  # fmt: skip
    names = {"definition": {str(name): definition_words(str(name)) for name in bound["definition"].values}}
    table = tabulate(bound, columns, name="bounds", called=names, missing=UNRELIABLE)
    seen = set(map(str, bound["status"].values.ravel()))
    verdict = "Every guarantee holds." if seen == {"holds"} else "Not every guarantee holds."
    verdict = "No guarantee limits what is learned." if audit_words.is_unlimited(bound) else verdict
    notes = [f"{audit_words.STATUS[status].capitalize()}." for status in sorted(seen - {"holds"})]
    periods = [_all_periods(scenario, bound, names)] if "posterior_all_periods" in bound else []
    return Section("What the guarantees allow", verdict, tables=[table], notes=notes, parts=periods)


def _all_periods(scenario: Scenario, bound: xr.Dataset, names: Mapping[str, Mapping[str, str]]) -> Section:
    """Section on the guarantees of all periods together, against an adversary who has the releases of all of them."""
    unit = scenario.plan.privacy_unit
    columns = {
        "adversary": "adversary", "definition": "guarantee", "posterior_all_periods": ("posterior", "% interval"),
        "loss_bound_all_periods": ("privacy loss", "at most"),
    }  # fmt: skip
    table = tabulate(bound, columns, name="bounds of all periods", called=names)
    most = percentage(float(bound["posterior_all_periods"].sel(side="upper").max()), True)
    return Section(
        f"All {unit.periods:,} periods",
        f"Over {unit.periods:,} periods the guarantees allow a posterior of up to {most}.",
        [
            "The numbers above are of one period. These are for an adversary who reads the releases of all periods, of "
            f"one {unit.name} present in each, whose noise is independent: the guarantees add up."
        ],
        tables=[table],
    )


def both_truths(scenario: Scenario, tree: xr.DataTree) -> Section:
    """Section on both truths: averages, detections, and each adversary's empirical epsilon beside the bounds."""
    both, bound = tree["both_truths"].to_dataset(), tree["bound"].to_dataset()
    shown, own = shown_bound(bound), bound["loss_bound"].sel(definition=OWN, drop=True)
    stated = shown["loss_bound"].where(shown["definition"] != OWN).drop_vars("definition")
    by = f" ({audit_words.bound_name(shown)})" if bool(stated.notnull().any()) else ""
    limits = xr.Dataset({"guaranteed": stated, "own": own})
    tests = both_targets(
        both, both, detections=(detections(tree), "detections"), epsilon=(group(tree, "empirical"), "epsilon"),
        guaranteed=(limits, "guaranteed"), own=(limits, "own"),
    )  # fmt: skip
    columns = {
        "adversary": "adversary", "in": AVERAGES["in"], "out": AVERAGES["out"],
        "detections": ("detections", "probability"), "epsilon": ("empirical epsilon", "number"),
        "guaranteed": (f"guaranteed{by}", "at most"),
        "own": ("the plan's own loss", "at most"),
    }  # fmt: skip
    absent = {**dict.fromkeys(AVERAGES, RULED_OUT), "guaranteed": {None: "none"}}
    table = tabulate(tests, columns, name="both truths", called=absent, missing="–")
    sentence, epsilons = "", np.ravel(tests["epsilon"])
    if np.isfinite(epsilons).any():
        most = int(np.nanargmax(epsilons))
        one = shown.isel(adversary=most) if "adversary" in shown.dims else shown
        sentence = (
            f"Empirical epsilon {'up to ' * (epsilons.size > 1)}{format_number(epsilons[most])}, at a failure "
            f"probability of {format_probability(float(tree.attrs['failure']))}; {audit_words.bound_name(one)} allows "
            f"{format_bound(float(one['loss_bound']), True)}."
        )
    lines = [
        "One truth alone misleads: an adversary inclined to believe “in” does well when the target is in. Both are "
        "shown here, everybody else as they are. Empirical epsilon is the smallest epsilon that the log odds exceed, "
        "in either direction, with no more than the failure probability under either truth.",
    ]
    if "guess" in tree.children:
        lines.append(_guesses(tree["guess"].to_dataset()))
    note = " Tests use the exact counts too, which no guarantee limits." * ("invariant_ratio" in tree["risk"].data_vars)
    caption = TESTS + note
    curves = (
        [Figure("tests", lambda: plot.audit_figures.tests(scenario, tree), caption)] if "tests" in tree.children else []
    )
    return Section(GROUPS["both_truths"].title, sentence, lines, [table], curves)


def _guesses(tests: xr.Dataset) -> str:
    """Sentence on the best guess of the adversary with the largest advantage: success, baseline and advantage."""
    one = tests.isel(adversary=int(np.argmax(tests["advantage"].values))) if "adversary" in tests.dims else tests
    most = f" for {one['adversary'].item()}, who gains most" if tests.sizes.get("adversary", 1) > 1 else ""
    baseline, success = (format_probability(float(one[name])) for name in ("baseline", "success"))
    points = format_number(100.0 * float(one["advantage"]))
    return (
        f"Best guess of “in” or “out”, the target in with the adversary's prior: success {success}, baseline without "
        f"the release {baseline}, advantage {points} points{most}."
    )


TESTS = (
    "Detections of the best tests at each rate of false alarms. Curves: what each guarantee allows (dashed), and this "
    "noise to those who know everybody else (solid). Dots: tests of the adversaries of this scenario."
)


def truth_figures(scenario: Scenario, tree: xr.DataTree) -> Iterator[Figure]:
    """Figures of one truth; none if averages are unreliable."""
    if unreliable(tree["risk"].to_dataset()):
        return
    lowest = scenario.plan.levels[0].unit
    yield Figure(
        "posterior_by_release",
        lambda: plot.posterior_by_release(tree, level=scenario.plan.levels[scenario.plan.own].name),
        f"Average posterior at each released count of the {lowest}. Bars: how probable each count is.",
    )
    if "priors" in tree.children:
        yield Figure(
            "ratio_by_prior",
            lambda: plot.ratio_by_prior(tree),
            "Posterior over prior at other priors. Solid: average over releases; dotted: 19 releases in 20 are below; "
            "dashed: bounds, rounded outward. Dots: the adversaries of this scenario.",
        )
    if "budgets" in tree.children:
        yield Figure(
            "risk_by_budget",
            lambda: plot.risk_by_budget(tree),
            "Expected posterior if the budget of every level were multiplied by one tenth to ten. Dashed: bound of the "
            "plan's own loss. Dots: as planned.",
        )


DIAGNOSTICS = {
    "adversary": "adversary",
    "judged": Column("status", "status"),
    "releases": Column("different releases", "count"),
    "unreliable_releases": Column("unreliable", "count"),
    "unreliable_mass": Column("their share", "probability"),
    "r_hat": Column("largest R-hat", "number"),
    "ess": Column("smallest effective sample", "number"),
    "divergences": Column("most divergences", "number"),
}


def diagnostics(scenario: Scenario, tree: xr.DataTree) -> Section | None:
    """Section on the diagnostics of sampled posteriors; None if nothing was sampled."""
    if "diagnostics" not in tree.children:
        return None
    diagnostics_table, failed, notes = tree["diagnostics"].to_dataset(), dict[str, bool](), list[str]()
    for name in scenario.adversaries:
        failed[name] = unreliable(group_of_adversary(tree["risk"].to_dataset(), name))
        if failed[name]:
            mass = float(group_of_adversary(diagnostics_table, name)["unreliable_mass"])
            notes.append(
                f"{f'Adversary {name}' if name else 'The adversary'} is {UNRELIABLE}: posteriors of releases with a "
                f"share of {format_chance(mass)} could not be sampled so that the diagnostics hold, and an average "
                "without them would be of other releases. A model that is easier to sample, or the exact engine where "
                "it applies, are the remedies."
            )
    judged = xr.DataArray([UNRELIABLE if one else "ok" for one in failed.values()], {"adversary": list(failed)})
    shown = diagnostics_table.where(np.isfinite(diagnostics_table)).assign(
        judged=judged if "adversary" in diagnostics_table.dims else judged[0]
    )
    for key in DIAGNOSTICS:
        shown[key] = shown.get(key, np.nan) if key != "adversary" else judged["adversary"]
    table = tabulate(shown, DIAGNOSTICS, name="diagnostics", missing="–")
    sentence = "Some posteriors could not be sampled reliably." if notes else "All posteriors were sampled reliably."
    lines = [
        f"Posteriors were sampled (engine {tree.attrs['engine']}), release by release. R-hat compares chains and "
        "should be close to 1; the effective sample is how many independent draws they are worth; a divergence is a "
        "step that the sampler could not follow.",
    ]
    return Section("Diagnostics", sentence, lines, [table], notes=notes)
