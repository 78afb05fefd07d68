"""What tables and figures of a recommended epsilon say in words: the same numbers, rounded the same way, everywhere.

A recommendation is shown as it was asked for, rounded down; what a reader needs is shown unrounded, and called so where
the two differ. No title says that one reader alone binds: several may, and some are only approached.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap

import numpy as np
import xarray as xr

from adversary._core import failure_of, outward, share, shown_epsilon, uncrossed
from adversary.policy.budget import BOUNDED, SEARCH, Recommendation

SAME = 1e-9
"""Relative difference within which what is reached and what is tolerated are equal: they were solved for."""
WIDTH = 26
"""Letters in a line over a small panel."""


def told(one: Recommendation) -> str:
    """`shown_epsilon` of a recommendation."""
    return shown_epsilon(one.epsilon, one.loss, one.round_down)


def sides(reached: float, tolerated: float) -> tuple[str, str]:
    """(reached, rounded up; tolerated, rounded down), to as many digits as keep them from crossing.

    Where they are equal, and not a round number, no digits do: both are shown rounded up.

    >>> sides(1.5, 1.5), sides(1.10526, 1.1053), sides(2.1 / 1.9, 2.1 / 1.9)
    (('1.500', '1.500'), ('1.1053', '1.1053'), ('1.106', '1.106'))
    """
    if abs(reached - tolerated) <= SAME * tolerated:
        up = outward(tolerated, True)
        return up, up
    return uncrossed(reached, tolerated, range(4, 13)) or (outward(reached, True), outward(tolerated, False))


def prior(p: float) -> str:
    """A prior in words; 0 is a limit."""
    return "near 0" if p == 0.0 else share(p)


def short(name: str) -> str:
    """A name that fits into a title, or beside other names."""
    return name if len(name) <= 36 else f"{name[:35]}…"


def called(name: str, text: str) -> str:
    """What is said of a profile, after its name, if it has one."""
    return f"{short(name)}: {text[:1].lower()}{text[1:]}" if name else text


def in_two_lines(name: str) -> str:
    """A name that fits over a small panel."""
    if len(name) <= WIDTH:
        return name
    lines = wrap(name, WIDTH - 1)
    return "\n".join(lines if len(lines) <= 2 else (lines[0], f"{lines[1]}…"))


def few(delta: float) -> str:
    """A delta as people write it: 1e-6."""
    return f"{delta:.4g}".replace("e-0", "e-")


def needed(recommended: Mapping[str, Recommendation]) -> str:
    """Finding of a map of readers: who needs the smallest epsilon, or between what the recommendations lie."""
    if len(recommended) == 1:
        (one,) = recommended.values()
        return _needed(one) if one.status == BOUNDED else one.words.split(": ")[0].split(" (")[0]
    bounded = {name: one for name, one in recommended.items() if one.status == BOUNDED}
    if not bounded:
        return "None of these profiles has an epsilon above 0 and below infinity"
    least, most = (pick(bounded, key=lambda name: bounded[name].loss) for pick in (min, max))
    if least == most:
        return f"Only one profile, {short(least)}, has an epsilon above 0 and below infinity: {told(bounded[least])}"
    ends = [f"{told(bounded[name])} ({short(name)})" for name in (least, most)]
    dots = _dots(bounded, "not rounded" if any(one.epsilon < one.loss for one in bounded.values()) else "")
    return f"The profiles allow an epsilon from {ends[0]} to {ends[1]}; {dots}"


def _needed(one: Recommendation) -> str:
    who = f"Readers with inclusion prior {prior(one.inclusion)} and value prior {prior(one.value)}"
    verb = "need" if one.attained else "come ever closer to needing"
    rounded = f" (recommended, rounded down: {told(one)})" if one.epsilon < one.loss else ""
    return f"{who} {verb} epsilon = {outward(one.loss, False)}{rounded}, and no reader needs less{_found(one)}"


def _dots(recommended: Mapping[str, Recommendation], how: str) -> str:
    notes = [how] if how else []
    notes += ["open: ever closer"] if any(not one.attained for one in recommended.values()) else []
    return f"dots: readers who need the smallest epsilon{f' ({", ".join(notes)})' if notes else ''}"


def _found(one: Recommendation) -> str:
    return ", as far as a search has found" if one.method == SEARCH else ""


def kept(bounded: Mapping[str, Recommendation]) -> str:
    """Finding of what is tolerated beside what is kept."""
    if len(bounded) > 1:
        return f"Nobody is moved beyond the tolerance; {_dots(bounded, '')}"
    (one,) = bounded.values()
    loss, where = outward(one.loss, False), "at the dot" if one.attained else "ever closer to the open dot"
    if one.epsilon < one.loss:
        start = f"At epsilon = {told(one)}, rounded down from {loss}, every reader has room"
        return f"{start}; readers {where} have the least{_found(one)}"
    start = f"At epsilon = {told(one)} nobody is moved beyond the tolerance"
    return f"{start}, and readers {where} {'right' if one.attained else 'nearly'} up to it{_found(one)}"


def agreed(curve: xr.Dataset) -> str:
    """What several releases share, and how surely it is kept; attributes as of a `release_curve`."""
    asked = curve.attrs
    each = f", {few(asked['delta_each'])} of each" if asked["delta_each"] else ""
    delta = f", delta {few(asked['delta'])} of all together{each}" if asked["delta"] and asked["failure"] else ""
    return f"{asked['definition']}{delta}; the profile is kept {failure_of(float(asked['failure']))}"


def spent(curve: xr.Dataset, single: bool) -> str:
    """Finding of a `release_curve`: what a release gets under the best and the plainest composition."""
    last = curve["parameter"].isel(releases=-1)
    last = last.where(np.isfinite(last), 0.0)
    count, basic = int(last["releases"]), float(last.sel(composition="basic"))
    if not single or not float(last.max()):
        how = ", so that together they keep the profile" if single else f": {agreed(curve)}"
        return f"What each of {count} releases may spend{how}"
    best = str(last["composition"].values[int(np.argmax(last.values))])
    most, least = outward(float(last.max()), False), outward(basic, False)
    start = f"Each of {count} releases may spend epsilon = {most}"
    if most == least:
        return f"{start}, as by adding up"
    return f"{start} by {best} composition{f', {least} by adding up' if basic else ''}"
