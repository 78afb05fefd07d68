"""Answer of `adversary epsilon`: the largest epsilon for a risk profile, other definitions, releases and accuracy.

Epsilon is rounded down and bounds are rounded outward; in JSON and the data file numbers are unrounded, except for the
option `round_down`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from adversary import budget
from adversary._core import (
    as_given,
    format_bound,
    format_interval,
    format_number,
    format_probability,
    join_words,
    percent,
    shown_epsilon,
    those_tied,
    tied,
)
from adversary.privacy import tolerated
from adversary.report import plot
from adversary.report.files import ProfileFile, Utility
from adversary.report.kit import Card, Column, Document, Figure, Section, Summary, attempt, guarded_document, tabulate
from adversary.report.words import coverage

# Largest number of points of a curve over releases.
STEPS = 8

# Forms of a budget for a single release, for which compositions do not differ.
ONCE = tuple(form for form in budget.FORMS if form[1] == "exact")

# Definitions and kinds of noise that are shown beside epsilon if there are several profiles.
SHORT = ("approximate DP", "zCDP", "Gaussian DP", "discrete gaussian")

# Relative difference within which a reached and a tolerated ratio count as equal: the epsilon was solved for them.
SAME = 1e-9

# Shown instead of a parameter that does not exist, by status.
STATUS = {"unattainable": "none above 0", "unconstrained": "unlimited"}
COVERED = {"any": "anything that is published", "count": "one published count of the people in S"}
Recommended = Mapping[str, budget.Recommendation]


def recommend(file: ProfileFile) -> dict[str, budget.Recommendation]:
    """Recommended epsilon of every profile, by name; a single one has the name ""."""
    options: dict[str, Any] = {"statistic": file.statistic, "round_down": file.round_down}
    return {name: budget.recommend_epsilon(profile, **options) for name, profile in file.profiles.items()}


def solve(file: ProfileFile, recommended: Recommended) -> xr.DataTree:
    """Tree of a profile file: groups `recommended` (profile) and `readers` (profile, inclusion, value), and options.

    `readers` has the largest epsilon for each pair of priors. Profiles whose rounded epsilon is finite and above 0 also
    have `forms` (profile, form) and `releases` (profile, composition, releases); `utility` (profile) if requested.
    """
    bounded = {name: replace(one, loss=one.epsilon) for name, one in recommended.items() if _positive(one)}
    parts_by_group: dict[str, dict[str, xr.Dataset]] = {
        "readers": {
            name: budget.risk_surface(one.profile, statistic=one.statistic) for name, one in recommended.items()
        },
        "forms": {name: _forms(file, one) for name, one in bounded.items()},
        "releases": {name: _curve(file, one) for name, one in bounded.items() if file.releases is not None},
    }
    groups = {"recommended": _summary(recommended)}
    for group, parts in parts_by_group.items():
        if parts:
            together = xr.concat(list(parts.values()), "profile", combine_attrs="drop_conflicts")
            groups[group] = together.assign_coords(profile=list(parts))
    if file.utility is not None:
        groups["utility"] = _utility(file, file.utility)
    tree = xr.DataTree.from_dict(groups)
    given = {
        name: getattr(file, name) for name in ("source", "statistic", "round_down", "failure", "delta", "releases")
    }
    tree.attrs.update({name: value for name, value in given.items() if value is not None})
    if file.utility is not None:
        rate = file.utility
        tree.attrs.update(noise=rate.noise, base=rate.base, target=float(rate.target))
    listed = [name for name in ("recommended", "forms", "releases", "utility") if name in groups]
    return Summary(file.name, listed, verdict(recommended)).on(tree)


def _positive(one: budget.Recommendation) -> bool:
    """True for a finite epsilon above 0."""
    return one.status == budget.BOUNDED and one.epsilon > 0.0


def _count(file: ProfileFile) -> int:
    """Number of releases of a file, 1 if not given."""
    return file.releases or 1


def _summary(recommended: Recommended) -> xr.Dataset:
    """Group `recommended`: recommendations, and the binding adversary's tolerated and reached ratio and posterior."""
    every = recommended.values()
    fields = ("epsilon", "loss", "inclusion", "value", "attained", "method", "status", "words")
    columns: dict[str, Any] = {name: ("profile", np.array([getattr(one, name) for one in every])) for name in fields}
    columns["tolerance"] = ("profile", np.array([one.profile.words for one in every]))
    columns["bracket"] = ("profile", "end"), np.array([one.bracket for one in every])
    reached = np.array([_binding(one) for one in every]).T
    for name, direction, values in zip(
        ("tolerated", "ratio", "posterior"), ("exact", "upper", "upper"), reached, strict=True
    ):
        columns[name] = ("profile", values, {"direction": direction})
    return xr.Dataset(columns, {"profile": list(recommended), "end": ["lower", "upper"]})


def _binding(one: budget.Recommendation) -> tuple[float, float, float]:
    """(tolerated ratio, reached ratio, reached posterior) of the binding adversary; NaN if there is none."""
    if not (one.attained and one.status == budget.BOUNDED):
        return np.nan, np.nan, np.nan
    where = one.inclusion, one.value, one.epsilon, "upper", one.statistic
    tolerated = float(one.profile(one.inclusion, one.value))
    return tolerated, float(budget.relative_risk_bound(*where)), float(budget.absolute_risk_bound(*where))


def _forms(file: ProfileFile, one: budget.Recommendation) -> xr.Dataset:
    """Group `forms` of one profile: its budget table, each row's failure probability (0 if certain), and deltas."""
    count, given = _count(file), {"failure": file.failure, "delta": file.delta}
    rows = budget.FORMS if count > 1 else ONCE
    forms_table = budget.budget_table(one, count, **given, forms=rows, progress=True)
    values, limit = one.statistic == "any" and one.profile.about_values, tolerated(one.loss)
    added = np.full((3, len(rows)), np.nan)
    for i, (row, parameter, status) in enumerate(
        zip(rows, forms_table["parameter"].values, forms_table["status"].values, strict=True)
    ):
        form = budget.Form(*row, count, file.delta)
        if status == budget.BOUNDED:
            added[0, i] = 0.0 if form.equivalent(float(parameter), 0.0, values) <= limit else file.failure
        if row[0] == "approximate DP":
            added[1:, i] = form.delta, form.delta_each
    return forms_table.assign(
        {name: ("form", row) for name, row in zip(("failure", "delta", "delta_each"), added, strict=True)}
    )


def _curve(file: ProfileFile, one: budget.Recommendation) -> xr.Dataset:
    """Group `releases` of one profile: epsilon of each release by number of releases and composition."""
    counts = np.unique(np.rint(np.geomspace(1, _count(file), STEPS)).astype(int))
    definition = "approximate DP" if file.delta < file.failure else "pure DP"
    return budget.release_curve(
        one, [int(n) for n in counts], definition, failure=file.failure, delta=file.delta, progress=True
    )


def _utility(file: ProfileFile, utility: Utility) -> xr.Dataset:
    """Group `utility`: the trade-off table for the noise of one release."""
    return budget.tradeoff_table(
        file.profiles, base=utility.base, target=utility.target, deviations=utility.deviations, noise=utility.noise,
        statistic=file.statistic, round_down=file.round_down, failure=file.failure, releases=_count(file),
    )  # fmt: skip


@guarded_document
def document(file: ProfileFile, recommended: Recommended, tree: xr.DataTree) -> Document:
    """Document of a profile file.

    Parameters
    ----------
    file : profile file
    recommended : of `recommend`
    tree : of `solve`
    """
    groups = {name: tree[name].to_dataset() for name in ("forms", "releases", "utility") if name in tree.children}
    sections = [attempt("Recommended epsilon", _recommended_section, recommended, tree)]
    if "forms" in groups:
        sections.append(attempt("The same in other definitions", _definitions, file, groups["forms"]))
    if "releases" in groups and _count(file) > 1:
        sections.append(attempt("Epsilon of each release", _release_section, file, groups["releases"]))
    if "utility" in groups:
        sections.append(attempt("Accuracy", _accuracy_section, file, recommended, groups["utility"]))
    return Document(
        tree,
        card=_card(recommended),
        lead=[
            *[file.description] * bool(file.description),
            f"The bounds hold for {COVERED[file.statistic]}, against adversaries whose beliefs about everybody else do "
            "not depend on the person. Every epsilon is rounded down, every bound outward.",
        ],
        sections=sections,
        provenance=file.provenance,
    )


def _format_epsilon(one: budget.Recommendation) -> str:
    """Recommended epsilon as text, rounded down, or words for why there is none."""
    return STATUS.get(one.status) or shown_epsilon(one.epsilon, one.loss, one.round_down)


def verdict(recommended: Recommended) -> str:
    """Sentence on the largest epsilon of a single profile, or on the smallest and largest of several."""
    if len(recommended) == 1:
        (one,) = recommended.values()
        largest = f"epsilon = {_format_epsilon(one)} is the largest that keeps the profile."
        return largest if one.status == budget.BOUNDED else f"{one.words.split(': ')[0].split(' (')[0]}."
    ends = _ends(recommended)
    if not ends:
        return "None of these profiles has a finite epsilon above 0."
    names = [name for name, one in recommended.items() if one.status == budget.BOUNDED]
    same = f"{next(iter(ends.values()))}, the same for {those_tied(names, len(names), 'profiles')}"
    apart = " to ".join(f"{shown} ({name})" for name, shown in ends.items())
    return f"The profiles allow epsilon = {same if len(ends) == 1 < len(names) else apart}."


def _ends(recommended: Recommended) -> dict[str, str]:
    """Smallest and largest epsilon as text, by the names of their profiles; one if all are equal."""
    bounded = {name: one.loss for name, one in recommended.items() if one.status == budget.BOUNDED}
    alike = not bounded or tied(list(bounded.values())).all()
    names = [pick(bounded, key=lambda name: bounded[name]) for pick in ((min,) if alike else (min, max)) if bounded]
    return {name: _format_epsilon(recommended[name]) for name in names}


def _card(recommended: Recommended) -> Card:
    """Card with the epsilons and the figure of all profiles."""
    drawing = Figure(
        "epsilon_by_reader",
        lambda: plot.epsilon_profile(recommended),
        "The largest epsilon that each profile allows, not rounded (open: approached, never reached)."
        if len(recommended) > 1
        else "The largest epsilon that the tolerance for each adversary allows, by their priors. Dots: adversaries who "
        "need the smallest epsilon, not rounded (open: approached, never reached).",
    )
    if len(recommended) == 1:
        (one,) = recommended.values()
        if one.status != budget.BOUNDED:
            return Card(figure=drawing, sentence=one.words)
        who = [("inclusion prior that binds", _place(one.inclusion)), ("value prior that binds", _place(one.value))]
        return Card([("epsilon", _format_epsilon(one)), *who], drawing, one.words)
    return Card([(f"epsilon of {name}", shown) for name, shown in _ends(recommended).items()], drawing)


def _place(prior: float) -> str:
    """Prior of the binding adversary as text; "towards 0" for a limit, "" for NaN."""
    return "" if np.isnan(prior) else "towards 0" if prior == 0.0 else format_probability(prior)


def _recommended_section(recommended: Recommended, tree: xr.DataTree) -> Section:
    """Section on the recommended epsilon of every profile, and on the adversary who needs the smallest one."""
    recommended_table, named = tree["recommended"].to_dataset(), "" not in recommended
    tolerated, ratio = recommended_table["tolerated"], recommended_table["ratio"]
    same = np.abs(ratio - tolerated) <= SAME * tolerated
    start = recommended_table["inclusion"] * recommended_table["value"]
    shown = recommended_table.assign(
        epsilon=_parameter_or_status(recommended_table["status"], recommended_table["epsilon"]),
        ratio=ratio.where(~same, tolerated),
        posterior=recommended_table["posterior"].where(~same, np.minimum(1.0, start * tolerated)),
        method=("profile", [_method(one) for one in recommended.values()]),
    )
    columns = {
        "profile": Column("profile"), "epsilon": Column("epsilon", "at least"),
        "inclusion": Column("inclusion", "probability"), "value": Column("value", "probability"),
        "tolerated": Column("tolerated ratio", "at most"), "ratio": Column("ratio at most", "at most"),
        "posterior": Column("posterior at most", "% at most"), "method": Column("method"),
    }  # fmt: skip
    limits = {key: {0.0: _place(0.0)} for key in ("inclusion", "value")}
    table = tabulate(shown, columns, name="recommended", called=limits)
    table.notes = ["Inclusion, value: priors of the adversary who needs the smallest epsilon."]
    if any(_positive(one) and one.epsilon < one.loss for one in recommended.values()):
        table.notes.append("The last two bounds are at the epsilon rounded down.")
    drawn = [name for name, one in recommended.items() if _positive(one)]
    return Section(
        "Recommended epsilon",
        "No adversary whom the profile is about exceeds its tolerance at the recommended epsilon." if drawn else "",
        [
            *(f"{name}: {one.words}" for name, one in recommended.items() if named and one.status != budget.BOUNDED),
            *_covered({name: one for name, one in recommended.items() if name in drawn}),
        ],
        tables=[table],
    )


def _covered(recommended: Recommended) -> Iterator[str]:
    """Sentences on the adversaries that each profile is about, and on the largest posteriors of others."""
    names_by_coverage: dict[str, list[str]] = {}
    for name, one in recommended.items():
        names_by_coverage.setdefault(coverage(one.profile, one.epsilon, one.statistic), []).append(name)
    for text, names in names_by_coverage.items():
        if text:
            yield f"{join_words(names)}: {text}" if any(names) else text


def _parameter_or_status(status: xr.DataArray, parameter: xr.DataArray) -> xr.DataArray:
    """Parameters as an object array, with the words of `STATUS` for those that do not exist."""
    words = [STATUS.get(str(one)) or x for one, x in np.broadcast(status.values, parameter.values)]
    return parameter.copy(data=np.reshape(np.array(words, dtype=object), parameter.shape))


def _not_drawn(names: Iterable[str], drawn: list[str]) -> str:
    """Sentence on the profiles that a figure does not show; "" if it shows all."""
    missing = [name for name in names if name not in drawn]
    return f" Not drawn: {', '.join(missing)}." if missing else ""


def _method(one: budget.Recommendation) -> str:
    """Method of a recommendation in words, with its certified interval if it is a search."""
    if one.method == "closed" or not np.isfinite(one.bracket[1]):
        return "formula" if one.method == "closed" else one.method
    return f"{one.method}, {format_interval(*one.bracket)}"


def _definitions(file: ProfileFile, forms: xr.Dataset) -> Section:
    """Section on other definitions: a row for each of a single profile; for several profiles, a column for each."""
    several = _count(file) > 1
    each = f", for each of {file.releases} releases" if several else ""
    shown = forms.assign(parameter=_parameter_or_status(forms["status"], forms["parameter"]))
    names, ways = (forms[key].isel(profile=0).values for key in ("definition", "composition"))
    columns: Mapping[str, Column | None]
    if file.named:
        some = [i for i in np.flatnonzero(ways == "exact") if names[i] in SHORT or (several and names[i] == "pure DP")]
        sure = [not forms["failure"].isel(form=i).fillna(1.0).any() for i in some]
        units = forms["unit"].isel(profile=0).values
        heads = {f"{names[i]}: {units[i]}{', certain' * one}": i for i, one in zip(some, sure, strict=True)}
        columns = {"profile": Column("profile"), **{head: Column(head, "at least") for head in heads}}
        shown_definitions = xr.Dataset({head: shown["parameter"].isel(form=i, drop=True) for head, i in heads.items()})
        table = tabulate(shown_definitions, columns, name="definitions")
        table.notes.append(f"Failure probability {percent(file.failure)}, except where certain.")
    else:
        columns = {
            "form": None, "definition": Column("definition or noise"), "composition": Column("composition"),
            "unit": Column("parameter"), "parameter": Column("at most", "at least"),
            "failure": Column("failure probability", "probability"),
            **({"delta_each": Column("delta of each", "at least")} if several else {}),
        }  # fmt: skip
        table = tabulate(shown.isel(profile=0), columns, name="definitions")
    together = ", of all releases together" * several
    table.notes.append(f"delta of approximate DP: {as_given(file.delta)}{together}.")
    rho = shown["parameter"].isel(profile=0, form=int(np.flatnonzero(names == "zCDP")[0])).item()
    which = f" of {forms['profile'].values[0]}" * file.named
    rho_words = rho if isinstance(rho, str) else f"rho = {format_bound(rho, False)}"
    finding = f"In zCDP the tolerance{which} allows {rho_words}{each}."
    return Section(f"The same in other definitions{each}", finding, tables=[table])


def _release_section(file: ProfileFile, curves: xr.Dataset) -> Section:
    """Section on epsilon per release, by number of releases; with several profiles, for all releases only."""
    ways = [str(way) for way in curves["composition"].values]
    rows = curves.isel(releases=-1, drop=True) if file.named else curves.isel(profile=0, drop=True)
    columns = {"profile": Column("profile"), "releases": Column("releases", "count")}
    columns |= {way: Column(f"epsilon, {way}", "at least") for way in ways}
    table = tabulate(
        _parameter_or_status(rows["status"], rows["parameter"]).to_dataset("composition"), columns, name="releases"
    )
    settings, chance = curves.attrs, curves.attrs["failure"]
    delta = f", delta {as_given(settings['delta'])} of all releases together"
    what = f"{settings['definition']}{delta if settings['delta'] and chance else ''}"
    table.notes.append(f"{what}; {f'failure probability {percent(chance)}' if chance else 'for certain'}.")
    budgets = curves["parameter"].where(lambda e: (e > 0.0) & np.isfinite(e))
    drawn = [str(name) for name in curves["profile"].values if budgets.sel(profile=name).notnull().any()]
    title = f"Epsilon of each of {file.releases} releases"
    if not drawn:
        return Section(title, tables=[table])
    last = budgets.sel(profile=drawn[0]).isel(releases=-1).fillna(0.0)
    best = those_tied([way for way, one in zip(ways, tied(last.values), strict=True) if one], len(ways), "compositions")
    most = format_bound(float(last.max()), False)
    which = f" of {drawn[0]}" * file.named
    drawing = Figure(
        "per_release",
        lambda: plot.epsilon_by_releases({name: curves.sel(profile=name) for name in drawn}),
        "Epsilon of each release by number of releases and composition." + _not_drawn(file.profiles, drawn),
    )
    finding = f"Each of {file.releases} releases{which} may spend epsilon = {most} (composition: {best})."
    return Section(title, finding, tables=[table], figures=[drawing])


def _accuracy_section(file: ProfileFile, recommended: Recommended, utility: xr.Dataset) -> Section:
    """Error of the noise, and how often the published rate is on the wrong side of its target."""
    settings = utility.attrs
    other = bool((utility["parameter"] != utility["epsilon"]).any())
    wrong = {
        f"{_per_thousand(float(d))} {side}": utility["switch"].sel(deviation=d, side=side, drop=True)
        for d in utility["deviation"].values
        for side in utility["side"].values
    }
    status = xr.DataArray([one.status for one in recommended.values()], dims="profile")
    shown = utility.assign(wrong | {"parameter": _parameter_or_status(status, utility["parameter"])})
    unit = Column(str(utility["parameter"].attrs["units"]), "at least")
    columns = {
        "profile": Column("profile"), **({"parameter": unit} if other else {}),
        "rmse": Column("RMSE", "number"), "prob_exact": Column("exact", "probability"),
        **{head: Column(head, "chance") for head in wrong},
    }  # fmt: skip
    table = tabulate(shown, columns, name="accuracy")
    noisy = (utility["rmse"] > 0.0) & np.isfinite(utility["epsilon"]) & (utility["epsilon"] > 0.0)
    drawn = [str(name) for name in utility["profile"].values[noisy.values]]
    errors = utility["rmse"].sel(profile=drawn)
    ends = [format_number(float(end)) for end in (errors.min(), errors.max())] if drawn else []
    each = f", in each of {file.releases} releases" if _count(file) > 1 else ""
    drawing = Figure(
        "accuracy",
        lambda: plot.accuracy(utility, file.round_down),
        "Root mean square error, and probability of a wrong decision by distance from the target."
        + _not_drawn(recommended, drawn),
    )
    return Section(
        "Accuracy",
        f"The root mean square error of the noisy count is {' to '.join(dict.fromkeys(ends))}." if drawn else "",
        [
            f"{str(settings['noise']).capitalize()} noise is added to a count out of "
            f"{settings['base']:,}{each}. A decision is wrong where the published rate is on "
            f"the other side of {_per_thousand(settings['target'])} per 1,000 "
            "than the true rate. Column heads: distance of the true rate from the target, per 1,000."
        ],
        tables=[table],
        figures=[drawing] * bool(drawn),
    )


def _per_thousand(rate: float) -> str:
    """Rate as text, in events per 1,000."""
    return f"{1000.0 * rate:.6g}"
