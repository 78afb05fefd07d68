"""What a profile file allows: recommendations, other definitions, several releases and accuracy.

A `ProfileFile` is worked out once; JSON, tables, figures and the NetCDF file are readings of the same answer. JSON has
every number unrounded (but for what `round_down` asks), and null where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from adversary._core import blocks, finite, numbers
from adversary.desk.answers.epsilon_tables import show as show
from adversary.desk.files import ProfileFile, Utility
from adversary.policy.budget import (
    BOUNDED,
    FORMS,
    Form,
    Recommendation,
    absolute_risk_bound,
    budget_table,
    recommend_epsilon,
    relative_risk_bound,
    release_curve,
    risk_surface,
    tradeoff_table,
)
from adversary.privacy import TOLERANCE

STEPS = 8
"""Numbers of releases of a curve, at most."""
ONCE = tuple(form for form in FORMS if form[1] == "exact")
"""Forms that differ for a single release."""


@dataclass(frozen=True)
class Answer:
    """A profile file worked out; everything by the name of the profile, "" for a single one.

    `forms` are budget tables and `curves` per-release budgets of those that are bounded, at the epsilon as it was
    rounded, and above 0; `curves` are empty where the file does not ask for several releases, and `utility` is None
    where it asks for none.
    """

    file: ProfileFile
    recommended: dict[str, Recommendation]
    forms: dict[str, xr.Dataset]
    curves: dict[str, xr.Dataset]
    utility: xr.Dataset | None


def work_out(file: ProfileFile) -> Answer:
    """Everything a profile file asks for."""
    recommended = {
        name: recommend_epsilon(profile, statistic=file.statistic, round_down=file.round_down)
        for name, profile in file.profiles.items()
    }
    bounded = {
        name: replace(one, loss=one.epsilon)  # what follows is of the epsilon that was asked for, rounded down
        for name, one in recommended.items()
        if one.status == BOUNDED and one.epsilon > 0.0
    }
    rows = FORMS if _count(file) > 1 else ONCE
    jobs: dict[tuple[str, str], list[Callable[[], xr.Dataset]]] = {}
    for name, one in bounded.items():
        jobs["forms", name] = [partial(_form, file, one, row) for row in rows]
        jobs["curves", name] = [partial(_curve, file, one)] * (file.releases is not None)
    flat = [(key, job) for key, every in jobs.items() for job in every]
    made = [(key, job()) for key, job in blocks.track(flat, "what the profiles allow")]
    forms = {name: xr.concat([row for key, row in made if key == ("forms", name)], "form") for name in bounded}
    curves = {name: curve for (what, name), curve in made if what == "curves"}
    utility = None if file.utility is None else _utility(file, file.utility)
    return Answer(file, recommended, forms, curves, utility)


def _count(file: ProfileFile) -> int:
    return file.releases or 1


def _form(file: ProfileFile, one: Recommendation, row: tuple[str, str]) -> xr.Dataset:
    """One row of a budget table, the failure it needs (0: it is kept for certain), and the delta of a release."""
    found = budget_table(one, _count(file), failure=file.failure, delta=file.delta, forms=[row])
    form, parameter = Form(*row, _count(file), file.delta), float(found["parameter"][0])
    values = one.statistic == "any" and one.profile.about_values
    failure = np.nan
    if str(found["status"].values[0]) == BOUNDED:
        certain = form.equivalent(parameter, 0.0, values) <= one.loss * (1.0 + TOLERANCE)
        failure = 0.0 if certain else file.failure
    delta, each = (form.delta, form.delta_each) if row[0] == "approximate DP" else (np.nan, np.nan)
    return found.assign(failure=("form", [failure]), delta=("form", [delta]), delta_each=("form", [each]))


def _curve(file: ProfileFile, one: Recommendation) -> xr.Dataset:
    counts = np.unique(np.rint(np.geomspace(1, _count(file), STEPS)).astype(int))
    definition = "approximate DP" if file.delta < file.failure else "pure DP"
    return release_curve(one, [int(n) for n in counts], definition, failure=file.failure, delta=file.delta)


def _utility(file: ProfileFile, asked: Utility) -> xr.Dataset:
    """The trade-off table, of one of the releases."""
    return tradeoff_table(
        file.profiles, base=asked.base, target=asked.target, deviations=asked.deviations, noise=asked.noise,
        statistic=file.statistic, round_down=file.round_down, failure=file.failure, releases=_count(file),
    )  # fmt: skip


def summary(answer: Answer) -> dict[str, Any]:
    """The answer as one JSON object: keys of a single profile at the top level, of named ones under "profiles"."""
    file = answer.file
    result: dict[str, Any] = {
        "title": file.title or file.path.name, "description": file.description, "source": file.source,
        "statistic": file.statistic, "round_down": file.round_down, "failure": file.failure, "delta": file.delta,
        "releases": file.releases,
    }  # fmt: skip
    if answer.utility is not None and file.utility is not None:
        result["rate"] = {"noise": file.utility.noise, "base": file.utility.base, "target": float(file.utility.target)}
    every = {name: _one(answer, name) for name in answer.recommended}
    return result | ({"profiles": every} if file.named else every[""])


def _one(answer: Answer, name: str) -> dict[str, Any]:
    one = answer.recommended[name]
    found: dict[str, Any] = {
        "epsilon": finite(one.epsilon), "loss": finite(one.loss), "status": one.status,
        "inclusion": finite(one.inclusion), "value": finite(one.value), "attained": one.attained,
        "method": one.method, "bracket": numbers(one.bracket), "profile": one.profile.words, "words": one.words,
        "binding": _binding(one), "forms": _rows(answer.forms.get(name)),
    }  # fmt: skip
    if name in answer.curves:
        found["per_release"] = _releases(answer.curves[name])
    if answer.utility is not None:
        found["utility"] = _accuracy(answer.utility.sel(profile=name))
    return found


def _binding(one: Recommendation) -> dict[str, float | None]:
    """What the reader who binds is allowed, and the most that the recommended epsilon lets them learn."""
    if not (one.attained and one.status == BOUNDED):
        return {"tolerated": None, "ratio": None, "posterior": None}
    where = one.inclusion, one.value, one.epsilon, "upper", one.statistic
    return {
        "tolerated": finite(one.profile(one.inclusion, one.value)),
        "ratio": finite(relative_risk_bound(*where)),
        "posterior": finite(absolute_risk_bound(*where)),
    }


def _rows(forms: xr.Dataset | None) -> list[dict[str, Any]]:
    """Every row of a budget table; `failure` 0 is for certain, `delta` is of all releases, `delta_each` of one."""
    if forms is None:
        return []
    texts, figures = ("definition", "composition", "unit", "status"), ("parameter", "failure", "delta", "delta_each")
    rows = [forms.isel(form=i) for i in range(forms.sizes["form"])]
    return [{n: str(row[n].values) for n in texts} | {n: finite(row[n]) for n in figures} for row in rows]


def _releases(curve: xr.Dataset) -> dict[str, list[dict[str, Any]]]:
    counts = [int(n) for n in curve["releases"].values]
    return {
        str(how): [
            {"releases": n, "epsilon": e}
            for n, e in zip(counts, numbers(curve["parameter"].sel(composition=how)), strict=True)
        ]
        for how in curve["composition"].values
    }


def _accuracy(row: xr.Dataset) -> dict[str, Any]:
    """Accuracy of one profile's noise, and how often the published rate is on the wrong side of the target."""
    return {
        "parameter": finite(row["parameter"]), "unit": row["parameter"].attrs["units"],
        **{key: finite(row[key]) for key in ("sd", "rmse", "prob_exact")},
        "wrong_decision": [
            {"deviation": float(d), "side": str(side), "probability": finite(row["switch"].sel(deviation=d, side=side))}
            for d in row["deviation"].values
            for side in row["side"].values
        ],
    }  # fmt: skip


def data(answer: Answer) -> xr.DataTree:
    """The answer as arrays: groups `recommended`, `readers`, and, where asked for, `forms`, `releases`, `utility`."""
    every = answer.recommended
    fields = ("epsilon", "loss", "inclusion", "value", "attained", "method", "status", "words")
    columns = {key: ("profile", np.array([getattr(one, key) for one in every.values()])) for key in fields}
    ends = ("profile", "end"), np.array([one.bracket for one in every.values()])
    coords = {"profile": list(every), "end": ["lower", "upper"]}
    groups = {
        "recommended": xr.Dataset({**columns, "bracket": ends}, coords),
        "readers": _joined({name: risk_surface(one.profile, statistic=one.statistic) for name, one in every.items()}),
    }
    for group, found in (("forms", answer.forms), ("releases", answer.curves)):
        if found:
            groups[group] = _joined(found)
    if answer.utility is not None:
        groups["utility"] = answer.utility
    file = answer.file
    tree = xr.DataTree.from_dict({name: xr.DataTree(group) for name, group in groups.items()})
    tree.attrs.update(title=file.title or file.path.name, source=file.source, statistic=file.statistic)
    return tree


def _joined(parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    return xr.concat(list(parts.values()), "profile", combine_attrs="drop_conflicts").assign_coords(profile=list(parts))


def figures(answer: Answer) -> dict[str, Any]:
    """The figures of an answer by name; those that would be empty are left out."""
    from adversary.desk.figures import budget_figures

    recommended, shown = answer.recommended, _shown(answer)
    drawn: dict[str, Callable[[], Any]] = {
        "epsilon_by_reader": lambda: budget_figures.epsilon_by_reader(recommended),
    }
    if shown["tolerated_and_kept"]:
        drawn["tolerated_and_kept"] = lambda: budget_figures.tolerated_and_kept(recommended)
    if answer.utility is not None and shown["accuracy"]:
        table = answer.utility
        drawn["accuracy"] = lambda: budget_figures.accuracy(table, answer.file.round_down)
    if shown.get("per_release"):
        curves = {name: answer.curves[name] for name in shown["per_release"]}
        drawn["per_release"] = lambda: budget_figures.per_release(curves)
    return {name: drawn[name]() for name in blocks.track(list(drawn), "drawing")}


def _shown(answer: Answer) -> dict[str, list[str]]:
    """The profiles that a figure can show, by figure; figures that the file does not ask for are not there."""
    from adversary.desk.figures import budget_figures

    every = answer.recommended
    positive = [name for name, one in every.items() if one.status == BOUNDED and one.epsilon > 0.0]
    shown = {"epsilon_by_reader": list(every), "tolerated_and_kept": positive}
    if answer.utility is not None:
        shown["accuracy"] = [str(name) for name in budget_figures.with_noise(answer.utility)["profile"].values]
    if _count(answer.file) > 1:
        curves = {name: curve["parameter"] for name, curve in answer.curves.items()}
        shown["per_release"] = [name for name, each in curves.items() if bool(((each > 0.0) & np.isfinite(each)).any())]
    return shown


def left_out(answer: Answer) -> str:
    """What the figures do not show, in one line: figures that would be empty, profiles that have no place in one."""
    parts = []
    for figure, names in _shown(answer).items():
        missing = [name for name in answer.recommended if name not in names]
        if missing:
            parts.append(f"{figure} of {', '.join(missing)}" if names or len(missing) > 1 else figure)
    return f"nothing to draw, and left out: {'; '.join(parts)}" if parts else ""
