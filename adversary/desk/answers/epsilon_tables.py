"""The answer to a profile file as tables on the screen: parameters rounded down, bounds outward, text plain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from adversary._core import failure_of, shown_epsilon
from adversary.desk.kit import SAME, add, audit_words, few, put, sides, table
from adversary.policy.budget import BOUNDED

SHORT = ("approximate DP", "zCDP", "Gaussian DP", "discrete gaussian")
"""Definitions and noises beside epsilon where there are several profiles."""
WIDE = 10
"""Probabilities side by side."""
STATUS = {"bounded": "", "unattainable": "none above 0", "unconstrained": "unlimited"}


def show(answer: dict[str, Any], console: Console) -> None:
    """A `summary` as tables."""
    console.print(Text(answer["title"], style="bold"))
    covered = {"any": "anything that is published", "count": "one published count of the people in S"}
    what = f"For {covered[answer['statistic']]}. Every epsilon is rounded down, every bound outward."
    console.print(Text(what))
    named = "profiles" in answer
    every: dict[str, dict[str, Any]] = answer["profiles"] if named else {"": answer}
    if not named:
        console.print(Text(f"\n{answer['words']}"))
    _show_recommended(every, named, answer["round_down"], console)
    for name, one in every.items():
        if named and one["status"] != BOUNDED:
            console.print(Text(f"\n{name}: {one['words']}"))
    (_show_several if named else _show_forms)(answer, every, console)
    if "rate" in answer:
        _show_accuracy(answer, every, console)


def _show_recommended(every: Mapping[str, dict[str, Any]], named: bool, digits: int | None, console: Console) -> None:
    heads = ["epsilon", "inclusion", "value", "tolerated ratio", "ratio at most", "posterior at most"]
    what = "What each profile allows" if named else "What it allows"
    rounded = any(one["status"] == BOUNDED and one["epsilon"] < one["loss"] for one in every.values())
    more = " (the last two bounds: at the epsilon rounded down)" if rounded else ""
    made = table(f"{what}, and who needs the smallest epsilon{more}", ["profile"] if named else [], heads)
    made.add_column("found by")
    for name, one in every.items():
        cells = [_least(one, digits), _place(one["inclusion"]), _place(one["value"]), *_bounds(one), _how(one)]
        add(made, *([name] if named else []), *cells)
    put(made, console)


def _least(one: Mapping[str, Any], digits: int | None) -> str:
    """The recommended epsilon, rounded down, or why there is none."""
    if one["status"] != BOUNDED:
        return STATUS[one["status"]]
    return shown_epsilon(one["epsilon"], one["loss"], digits)


def _place(prior: float | None) -> str:
    """A prior of the reader who binds; 0 is a limit."""
    return "" if prior is None else "towards 0" if prior == 0.0 else audit_words.share(prior)


def _bounds(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """The tolerated ratio, the ratio reached and the posterior of the reader who binds."""
    at = one["binding"]
    if at["ratio"] is None or at["tolerated"] is None:
        return "", "", ""
    ratio, tolerated = sides(at["ratio"], at["tolerated"])
    same = abs(at["ratio"] - at["tolerated"]) <= SAME * at["tolerated"]
    posterior = min(1.0, one["inclusion"] * one["value"] * at["tolerated"]) if same else at["posterior"]
    return tolerated, ratio, audit_words.outward_percent(posterior, True) + audit_words.PERCENT


def _how(one: Mapping[str, Any]) -> str:
    low, high = one["bracket"]
    if one["method"] == "closed" or high is None:
        return "formula" if one["method"] == "closed" else str(one["method"])
    return f"{one['method']}, {audit_words.between(low, high)}"


def _show_forms(answer: Mapping[str, Any], every: Mapping[str, dict[str, Any]], console: Console) -> None:
    """Every definition and composition of a single profile."""
    (one,) = every.values()
    if not one["forms"]:
        return
    several = (answer["releases"] or 1) > 1
    made = table(_same(answer), ["definition or noise", "composition"], ["parameter"])
    made.add_column("the profile is kept")
    if several:
        made.add_column("delta of each", justify="right")
    for row in one["forms"]:
        each = [few(row["delta_each"]) if row["delta_each"] is not None else ""] * several
        kept = "" if row["failure"] is None else failure_of(row["failure"])
        add(made, row["definition"], row["composition"], f"{row['unit']} = {_parameter(row)}", kept, *each)
    put(made, console)


def _show_several(answer: Mapping[str, Any], every: Mapping[str, dict[str, Any]], console: Console) -> None:
    """The definitions that differ from epsilon, a column each, of named profiles."""
    exact = {name: [row for row in one["forms"] if row["composition"] == "exact"] for name, one in every.items()}
    rows = {name: {row["definition"]: row for row in found} for name, found in exact.items() if found}
    if not rows:
        return
    shown = ["pure DP", *SHORT] if (answer["releases"] or 1) > 1 else SHORT
    first = next(iter(rows.values()))
    sure = {name: {row[name]["failure"] for row in rows.values()} == {0.0} for name in shown}
    heads = [f"{name}: {first[name]['unit']}{', certain' if sure[name] else ''}" for name in shown]
    chance = failure_of(answer["failure"])
    made = table(f"{_same(answer)}; kept {chance}{', or certain as said' * any(sure.values())}", ["profile"], heads)
    for name, row in rows.items():
        add(made, name, *(_parameter(row[form]) for form in shown))
    put(made, console)


def _parameter(row: Mapping[str, Any]) -> str:
    """The parameter of a definition, rounded down, or why there is none."""
    return audit_words.outward(row["parameter"], False) if row["status"] == BOUNDED else STATUS[row["status"]]


def _same(answer: Mapping[str, Any]) -> str:
    """Title of a table of definitions."""
    several = (answer["releases"] or 1) > 1
    each = f", for each of {answer['releases']} releases" if several else ""
    delta = f"{few(answer['delta'])}{', of all releases together' * several}"
    return f"The same in other definitions{each}; delta of approximate DP is {delta}"


def _show_accuracy(answer: Mapping[str, Any], every: Mapping[str, dict[str, Any]], console: Console) -> None:
    """Error of the noise, and how often the published rate is on the wrong side of its target."""
    rate, named = answer["rate"], "profiles" in answer
    each = f", in each of {answer['releases']} releases" if (answer["releases"] or 1) > 1 else ""
    target = f"{per_thousand(rate['target'])} per 1,000"
    said = (
        f"Accuracy: {rate['noise']} noise on a count out of {rate['base']}{each}. A wrong decision: the published rate "
    )
    more = f"is on the other side of {target} than the true one, which is so far above it or below, per 1,000."
    console.print(Text(f"\n{said}{more}"))
    first = next(iter(every.values()))["utility"]["wrong_decision"]
    unit = next(iter(every.values()))["utility"]["unit"]
    sold = any(one["utility"]["parameter"] != one["epsilon"] for one in every.values())
    wide = WIDE - 2 if sold else WIDE
    heads = [f"{per_thousand(row['deviation'])} {row['side']}" for row in first]
    for start in range(0, len(heads), wide):
        part = slice(start, start + wide)
        made = table("", ["profile"] if named else [], [*[unit] * sold, "RMSE", "exact", *heads[part]])
        for name, one in every.items():
            found = one["utility"]
            wrong = [_chance(row["probability"]) for row in found["wrong_decision"][part]]
            error = "" if found["rmse"] is None else audit_words.figure_of(found["rmse"])
            given = found["parameter"]
            parameter = STATUS[one["status"]] if given is None else audit_words.outward(given, False)
            add(made, *([name] if named else []), *[parameter] * sold, error, _chance(found["prob_exact"]), *wrong)
        made.title = None
        console.print(made)


def per_thousand(rate: float) -> str:
    """A rate in events per 1,000, as people write it."""
    return f"{1000.0 * rate:.6g}"


def _chance(p: float | None) -> str:
    """A probability to four digits; nothing where there is none."""
    return "" if p is None else f"< 0.01{audit_words.PERCENT}" if 0.0 < p < 1e-4 else audit_words.share(p)
