"""What a release file says of the mean and standard deviation behind it, with the bounds used and with them ignored.

A `ReleaseFile` is worked out once; JSON, tables, figures and the NetCDF file are readings of the same answer. JSON has
every number unrounded, and null where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from rich.console import Console

from adversary._core import as_array, blocks, exactly, finite, numbers, percent, share
from adversary.analyst.bounded import BoundedRelease, Flat
from adversary.desk.answers import both_readings
from adversary.desk.answers.both_readings import READINGS
from adversary.desk.files import HYPERPARAMETERS, PRIORS, ReleaseFile
from adversary.desk.kit import add, error_of, nearly, put, table, unsure, with_unit
from adversary.desk.kit.bounded_words import NAMES, conclusion, span

if TYPE_CHECKING:
    from adversary.analyst.bounded import Posterior

DRAWS, SEED = 4000, 2020
"""Of the posterior that is written, for ArviZ; every number shown comes from the quadrature instead."""

NO_MEAN = "none"
"""Of a law whose tails are both too heavy for one."""

type Answer = both_readings.Answer[ReleaseFile, Posterior]


def work_out(file: ReleaseFile) -> Answer:
    """Both readings of a release file.

    Raises
    ------
    ValueError : the reading that was asked for does not exist; the message names the file and says why
    """
    return both_readings.both(file, _read)


def _read(file: ReleaseFile, name: str) -> Posterior:
    from adversary.analyst.bounded import posterior

    constrained = name == "constrained"
    feasibility = file.feasibility if constrained else "event"  # without the bounds nothing is infeasible
    return posterior(file.release, file.prior, constrained, feasibility, cap=file.cap)


def summary(answer: Answer) -> dict[str, Any]:
    """The answer as one JSON object; each reading under its name, the one that was asked for also as "main"."""
    file = answer.file
    about = {
        "quantity": file.quantity, "unit": file.unit, "release": _release(file.release), "prior": _prior(file),
        "feasibility": file.feasibility,
    }  # fmt: skip
    found = both_readings.summed_up(answer, about, _reading, conclusion)
    found["notes"] += unsure({READINGS[name]: found[name] for name in answer.posteriors})
    return found


def _release(release: BoundedRelease) -> dict[str, Any]:
    numbers_of = {name: getattr(release, name) for name in ("mean", "variance")}
    budget = "epsilon" if release.rho is None else "rho"
    return {
        **{name: None if x is None else float(x) for name, x in numbers_of.items()},
        "n": int(release.size), "noise": release.noise, "bounds": [float(end) for end in release.bounds],
        budget: [None if x is None else float(x) for x in release.budgets],
    }  # fmt: skip


def _prior(file: ReleaseFile) -> dict[str, Any]:
    if isinstance(file.prior, Flat):
        return {"kind": PRIORS[0]}
    return {"kind": PRIORS[1], **{name: float(as_array(getattr(file.prior, name))) for name in HYPERPARAMETERS}}


def _reading(file: ReleaseFile, one: Posterior) -> dict[str, Any]:
    """Everything about one reading."""
    prob = file.prob
    about = {
        quantity: {
            "mean": finite(one.mean(quantity)), "sd": finite(one.sd(quantity)), "mode": finite(one.mode(quantity)),
            "hdi": numbers(one.hdi(quantity, prob)), "eti": numbers(one.eti(quantity, prob)),
        }
        for quantity in NAMES
    }  # fmt: skip
    new = one.predictive()
    predicted = {key: finite(getattr(new, key)) for key in ("mean", "sd", "below", "above", "outside")}
    alone = {"infeasible": finite(one.infeasible), "log_evidence": finite(one.log_evidence)}
    alone |= {"cap": finite(one.largest), "quadrature_error": finite(one.quadrature_error)}
    return {**about, "predictive": predicted, **alone}


def show(found: dict[str, Any], console: Console) -> None:
    """A `summary` as tables."""
    shown = both_readings.show_first(found, _published(found), console)
    _show_intervals(found, shown, console)
    _show_beside(found, shown, console)
    both_readings.show_rest(found, console)


def _published(found: Mapping[str, Any]) -> str:
    """The release and the prior in two lines."""
    release, prior = found["release"], found["prior"]
    budget = "epsilon" if "epsilon" in release else "rho"
    parts = [
        f"{name} {exactly(release[name])} ({release['noise'].capitalize()} noise, {budget} = {x:g})"
        for name, x in zip(("mean", "variance"), release[budget], strict=True)
        if release[name] is not None
    ]
    low, high = release["bounds"]
    values = with_unit(f"{release['n']} values between {low:g} and {high:g}", found["unit"])
    numbers_of = ", ".join(f"{name} = {prior[name]:g}" for name in HYPERPARAMETERS if name in prior)
    return f"Released of {values}: {', '.join(parts)}.\nPrior: {prior['kind']}{f' ({numbers_of})' * bool(numbers_of)}."


def _show_intervals(found: Mapping[str, Any], shown: Mapping[str, Any], console: Console) -> None:
    prob = percent(found["prob"])
    heads = ["estimate", "sd", "mode", f"shortest {prob}", f"equal-tailed {prob}"]
    unit = f" ({found['unit']}; the variance in its square)" if found["unit"] else ""
    made = table(f"Posterior, with intervals{unit}", ["", ""], heads)
    for name, one in shown.items():
        for i, (quantity, called) in enumerate(NAMES.items()):
            at = one[quantity]
            scale = at["hdi"][1] - at["hdi"][0] if at["sd"] is None else at["sd"]
            mean = NO_MEAN if quantity == "mu" and at["mean"] is None else nearly(_number(at["mean"]), scale)
            cells = [mean, *(nearly(_number(at[key]), scale) for key in ("sd", "mode"))]
            add(made, name if i == 0 else "", called, *cells, span(at["hdi"]), span(at["eti"]))
    put(made, console)


def _show_beside(found: Mapping[str, Any], shown: Mapping[str, Any], console: Console) -> None:
    """What else there is to say, the readings side by side."""
    low, high = found["release"]["bounds"]
    made = table("What the bounds change", [""], list(shown))
    rows = {
        "length of the interval of the mean": [_length(one["mu"]["hdi"]) for one in shown.values()],
        "length of the interval of the standard deviation": [_length(one["sigma"]["hdi"]) for one in shown.values()],
        "probability of a mean and deviation no such data have": [_share(one["infeasible"]) for one in shown.values()],
        "a new value: mean": [_near(one["predictive"], "mean") for one in shown.values()],
        "a new value: sd": [_near(one["predictive"], "sd") for one in shown.values()],
        f"a new value: below {low:g}": [_share(one["predictive"]["below"]) for one in shown.values()],
        f"a new value: above {high:g}": [_share(one["predictive"]["above"]) for one in shown.values()],
        "log marginal likelihood": [_evidence(one["log_evidence"]) for one in shown.values()],
        "largest variance looked at": [_largest(one["cap"]) for one in shown.values()],
        "numerical error, estimated": [error_of(one["quadrature_error"]) for one in shown.values()],
    }
    for what, cells in rows.items():
        add(made, what, *cells)
    put(made, console)


def _number(x: float | None) -> float:
    return np.inf if x is None else x


def _length(ends: list[float]) -> str:
    return nearly(ends[1] - ends[0], ends[1] - ends[0])


def _share(p: float | None) -> str:
    return "none" if p is None else share(p)


def _near(new: Mapping[str, float | None], key: str) -> str:
    if key == "mean" and new[key] is None:
        return NO_MEAN
    return nearly(_number(new[key]), _number(new["sd"]))


def _evidence(log: float | None) -> str:
    return "none: the prior is improper" if log is None else f"{log:.3f}"


def _largest(cap: float | None) -> str:
    return "any" if cap is None else nearly(cap, cap)


def data(answer: Answer) -> xr.DataTree:
    """The posterior that was asked for, as `Posterior.to_xarray` gives it, with draws; the other under its name."""
    file = answer.file
    parts = {name: one.to_xarray() for name, one in answer.posteriors.items()}
    tree = parts.pop(answer.main)
    tree["posterior"] = answer.posteriors[answer.main].sample(DRAWS, SEED)["posterior"]
    for name, other in parts.items():
        tree[name] = other
    tree.attrs.update(title=file.title or file.path.name, source=file.source, unit=file.unit, main=answer.main)
    return tree


def figures(answer: Answer) -> dict[str, Any]:
    """The figures of an answer by name."""
    from adversary.desk.figures import bounded_posterior

    both = {READINGS[name]: one for name, one in answer.posteriors.items()}
    words = {"quantity": answer.file.quantity, "unit": answer.file.unit}
    drawn = {
        "marginals": lambda: bounded_posterior.marginals(both, answer.file.prob, **words),
        "joint": lambda: bounded_posterior.joint(both, **words),
        "predictive": lambda: bounded_posterior.predictive(both, **words),
    }
    return {name: drawn[name]() for name in blocks.track(list(drawn), "drawing")}
