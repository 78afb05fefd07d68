"""Numbers in words, and the parts of an audit by name, for tables, figures and the report.

Bounds are rounded outward: a lower end down, an upper end up, so that a rounded bound never promises more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import xarray as xr

from adversary.desk.scenarios import Scenario
from adversary.reader.inference import Adversary

PERCENT = "\u00a0%"
UNRELIABLE = "unreliable"
"""Said in place of a number that a sampler could not give."""

STATUS = {
    "holds": "holds",
    "exceeded": "exceeded: this reader's beliefs are mistaken or improper; the promise is true",
    "violated": "violated: the promise is false; the plan's own privacy loss exceeds it",
    "unreliable": "unreliable: some posteriors could not be sampled, so that this cannot be judged",
}
"""What the status of a bound means."""


def readers_of(scenario: Scenario) -> dict[str, Adversary]:
    """Every reader by name; a single one has the name ""."""
    named = scenario.adversary if isinstance(scenario.adversary, Mapping) else {"": scenario.adversary}
    return {str(name): reader for name, reader in named.items()}


def of_reader(data: xr.Dataset, name: str) -> xr.Dataset:
    """The part of a group that is about one reader."""
    return data.sel(adversary=name, drop=True) if "adversary" in data.dims else data


def truths(scenario: Scenario) -> dict[str, Scenario]:
    """The scenario with one truth at a time, by the truth's name; a single truth has the name ""."""
    if "truths" not in scenario.document:
        return {"": scenario}
    found = {}
    for name, truth in scenario.truth.items():
        document = {key: value for key, value in scenario.document.items() if key != "truths"}
        document = {**document, "truth": scenario.document["truths"][name]}
        found[str(name)] = replace(scenario, truth=truth, document=document)
    return found


def cases(scenario: Scenario, tree: xr.DataTree) -> list[tuple[str, Scenario, xr.DataTree]]:
    """(name, scenario, audit) of every truth; a single truth has the name ""."""
    found = []
    for name, one in truths(scenario).items():
        if not name:
            return [("", scenario, tree)]
        groups = {group: node.to_dataset() for group, node in tree.children.items()}
        parts = {group: data.sel(truth=name) if "truth" in data.dims else data for group, data in groups.items()}
        part = xr.DataTree.from_dict({group: xr.DataTree(data) for group, data in parts.items()})
        part.attrs.update(tree.attrs)
        found.append((name, one, part))
    return found


def percent(p: float) -> str:
    """A probability at a glance: 57 %, 0.12 %, 99.97 %."""
    if not 0.0 < p < 1.0:
        return f"{100 * p:g}{PERCENT}"
    near = min(p, 1.0 - p)
    digits = 0 if near >= 0.0995 else int(np.clip(np.ceil(-np.log10(near)) - 1, 1, 8))
    shown = f"{100 * p:.{digits}f}"
    return (shown.rstrip("0").rstrip(".") if digits else shown) + PERCENT


def figure_of(x: float) -> str:
    """A number to four significant digits; a whole number as it is. Powers of ten as `outward` writes them."""
    if not np.isfinite(x):
        return "none" if np.isnan(x) else "unlimited" if x > 0 else "-unlimited"
    if abs(x - np.rint(x)) <= 1e-12 * abs(x) < 1e-8:
        return f"{x:.0f}"
    short = f"{x:.3e}"
    exponent = int(short.partition("e")[2])
    return f"{x:.{max(3 - exponent, 0)}f}" if -6 < exponent < 9 else short


def share(p: float) -> str:
    """A probability to four significant digits, in percent; to more where it would read as certain and is not."""
    if 0.0 < p < 1e-8:
        return f"< 0.000001{PERCENT}"
    if 0.99999999 < p < 1.0:
        return f"> 99.999999{PERCENT}"
    digits = next((n for n in range(3, 7) if f"{100.0 * p:.{n}f}" != f"{100:.{n}f}"), 6)
    return (f"{100.0 * p:.{digits}f}" if 0.9999 < p < 1.0 else figure_of(100.0 * p)) + PERCENT


def unreliable(risk: xr.Dataset) -> bool:
    """Whether the sampler's diagnostics failed, so that a reader's averages must not be told."""
    return "status" in risk and bool((risk["status"] == UNRELIABLE).any())


def stated(risk: xr.Dataset, text: str) -> str:
    """The text of a reader's number, or the word "unreliable" in its place."""
    return UNRELIABLE if unreliable(risk) else text


def error(risk: xr.Dataset, measure: str, unit: float = 1.0) -> str:
    """The Monte Carlo standard error of one of a reader's averages, as text to follow it; nothing where it is exact."""
    return give_or_take(unit * float(risk["mcse"].sel(measure=measure))) if "mcse" in risk else ""


def give_or_take(spread: float) -> str:
    """A standard error as text to follow its number; nothing where the number is exact (no error, or none known)."""
    return f" ± {spread:#.2g}".rstrip(".") if spread > 0.0 else ""


def outward(value: float, upper: bool, digits: int = 4) -> str:
    """A bound to so many significant digits: upper ends are rounded up, lower ends down.

    A value within the last digits of a double of a round one (four parts in 10^16) is that one.
    """
    if not np.isfinite(value):
        return "unlimited" if value > 0 else "-unlimited"
    exact = Decimal(repr(float(value)))
    if exact == 0:
        return "0"
    unit = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = exact.quantize(unit)
    if abs(rounded - exact) > Decimal("4e-16") * abs(exact):
        rounded = exact.quantize(unit, ROUND_CEILING if upper else ROUND_FLOOR)
    if rounded.adjusted() > exact.adjusted():  # 0.99999 up is 1.000, not 1.0000
        rounded = rounded.quantize(unit.scaleb(1))
    return f"{rounded:f}" if -6 < exact.adjusted() < 9 else f"{float(rounded):.{digits - 1}e}"


def outward_percent(p: float, upper: bool, digits: int = 4) -> str:
    """A bound on a probability in percent, without the sign; to more digits where it would read as 100 and is not."""
    last = max(digits, 10)
    shown = (outward(100.0 * p, upper, n) for n in range(digits, last))
    return next((text for text in shown if p >= 1.0 or float(text) < 100.0), outward(100.0 * p, upper, digits))


def between(low: float, high: float, *, percent: bool = False) -> str:
    """An interval, rounded outward."""
    if percent:
        return f"{outward_percent(low, False)} to {outward_percent(high, True)}{PERCENT}"
    return f"{outward(low, False)} to {outward(high, True)}"


def called(name: str) -> str:
    """A definition as a reader should see it."""
    return "the plan's own loss" if name == "privacy loss" else name


def beyond(p: float) -> str:
    """A probability in percent, rounded up; the word "unreliable" where a sampler could not give it."""
    if np.isnan(p):
        return UNRELIABLE
    return (outward_percent(p, True) if not 0.0 < p < 1e-8 else "< 0.000001") + PERCENT
