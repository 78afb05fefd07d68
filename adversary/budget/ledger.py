"""A ledger of releases about the same people: total privacy loss and remaining budget under a limit, by five rules.

The limit is fixed before the first release. All rules but "losses" are valid if releases are chosen adaptively. "sum":
epsilons and deltas add up. "zCDP", "Renyi" and "Gaussian": rho, gamma at one order, and mu squared add up (filters:
Feldman and Zrnic 2021, "Individual privacy accounting via a Renyi filter"; Smith and Thakurta 2022, "Fully adaptive
composition for Gaussian differential privacy"). "losses": the privacy losses of all releases are composed; this is the
sharpest rule, and valid only if all parameters were fixed in advance.
"""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from adversary._core import check_whole, closest_name, format_bound
from adversary.privacy import Guarantee
from adversary.privacy.definitions import (
    ApproximateDP,
    GaussianDP,
    PureDP,
    RenyiDP,
    ZeroConcentratedDP,
    pure_mu,
    renyi_divergence,
)
from adversary.privacy.losses import PrivacyLoss, check_guarantee, compose_losses, repeat_loss
from adversary.privacy.profiles import tolerated

SUM, ZCDP, RENYI, GAUSSIAN, LOSSES = "sum", "zCDP", "Renyi", "Gaussian", "losses"
_ADAPTIVE = ", also where releases are chosen after others were seen."
RULES: Mapping[str, tuple[tuple[type[Guarantee], ...], str]] = {
    SUM: ((PureDP, ApproximateDP), f"Epsilons and deltas add up{_ADAPTIVE}"),
    ZCDP: ((ZeroConcentratedDP, ApproximateDP), f"Rhos add up to a limit fixed in advance{_ADAPTIVE}"),
    RENYI: ((RenyiDP,), f"Divergences of one order add up to a limit fixed in advance{_ADAPTIVE}"),
    GAUSSIAN: ((GaussianDP, ApproximateDP), f"Squares of mu add up to a limit fixed in advance{_ADAPTIVE}"),
    LOSSES: (
        (PureDP, ApproximateDP),
        "Privacy losses are composed, which is valid only as all parameters were fixed in advance.",
    ),
}
"""Definitions that the limit of each rule may have, and the rule in a sentence; the first that fits is the default."""
_ADDED = {SUM: "epsilon without a delta", ZCDP: "rho", RENYI: "gamma", GAUSSIAN: "mu"}
_CLASSES: tuple[type[Guarantee], ...] = (PureDP, ApproximateDP, ZeroConcentratedDP, GaussianDP, RenyiDP)
KINDS: Mapping[str, type[Guarantee]] = {one.kind or str(one.definition): one for one in _CLASSES}
"""Definitions that a ledger file may contain, by key."""

# Relative precision of a remaining budget that is searched for; it is rounded down.
PRECISION = 1e-6


@dataclass(frozen=True)
class Entry:
    """One release of a ledger, or several equal ones.

    Parameters
    ----------
    name : of the release
    guarantee : of each release
    times : number of releases
    fixed : whether its parameters were fixed before the first release of the ledger was seen
    date : as text; "" where none is given
    """

    name: str
    guarantee: Guarantee
    times: int = 1
    fixed: bool = False
    date: str = ""

    def __post_init__(self) -> None:
        check_guarantee("guarantee", self.guarantee)
        object.__setattr__(self, "times", int(check_whole("times", self.times, minimum=1)))
        if not self.name.strip():
            raise ValueError(f"name must say which release this is, got {self.name!r}")


@dataclass
class Ledger:
    """Releases about the same people under one limit.

    Parameters
    ----------
    limit : guarantee that all releases together must satisfy: PureDP, ApproximateDP, ZeroConcentratedDP, RenyiDP of one
        order, or GaussianDP
    rule : one of `RULES`; by default the first one for this kind of limit
    entries : releases so far
    title : of the file

    Raises
    ------
    ValueError : a rule that does not fit the limit, or releases that exceed it

    References
    ----------
    Rogers, Roth, Ullman and Vadhan 2016, "Privacy odometers and filters": adaptive choice of releases needs special
    composition rules.

    >>> from adversary.privacy.definitions import PureDP, ZeroConcentratedDP
    >>> ledger = Ledger(ZeroConcentratedDP(1.0))
    >>> ledger.add("tables of 2025", ZeroConcentratedDP(0.4))
    >>> ledger.add("survey", PureDP(0.5), times=2)
    >>> ledger.rule, {kind: round(x, 4) for kind, x in ledger.left.items()}
    ('zCDP', {'pure DP': 0.8685, 'zCDP': 0.3551, 'Gaussian DP': 0.8427})
    """

    limit: Guarantee
    rule: str = ""
    entries: tuple[Entry, ...] = ()
    title: str = ""
    _text: str = field(default="", init=False, repr=False, compare=False)
    _loaded: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_guarantee("limit", self.limit)
        fits = [rule for rule, (kinds, _) in RULES.items() if isinstance(self.limit, kinds)]
        if not fits or isinstance(getattr(self.limit, "alpha", None), tuple):
            raise ValueError(f"limit must be one of {', '.join(KINDS)} of one order, got {self.limit!r}")
        self.rule = self.rule or fits[0]
        if self.rule not in fits:
            raise ValueError(
                f"rule of a limit of {self.limit.definition} must be one of {', '.join(fits)}, got {self.rule!r}"
            )
        given, self.entries = tuple(self.entries), ()
        for one in given:
            self._append(one)

    def add(self, name: str, guarantee: Guarantee, *, times: int = 1, fixed: bool = False, date: str = "") -> None:
        """Enter a release; one that would exceed the limit is refused, and the ledger is unchanged.

        Parameters
        ----------
        name : of the release
        guarantee : of each release, with this rule's parameter, or a privacy loss under "losses"
        times : number of releases
        fixed : whether its parameters were fixed before the first release was seen; "losses" requires it
        date : as text

        Raises
        ------
        ValueError : it would exceed the limit, the rule cannot add such a guarantee, or, under "losses", its parameters
            were not fixed in advance
        """
        self._append(Entry(name, guarantee, times, fixed, date))

    def _append(self, entry: Entry) -> None:
        entries = (*self.entries, entry)
        if not self._keeps(entries):
            left = ", ".join(f"{kind} {format_bound(x, False)}" for kind, x in self.left.items()) or "nothing"
            raise ValueError(
                f"release {entry.name!r} would overspend the limit, {self.limit.describe()}, by the rule "
                f"{self.rule!r}: {entry.times} x {entry.guarantee.describe()}; left, of one definition: {left}"
            )
        self.entries = entries

    @property
    def spent(self) -> Guarantee:
        """Guarantee of all releases together, composed by the rule."""
        return self._total(self.entries)

    @property
    def left(self) -> dict[str, float]:
        """Remaining budget: the largest parameter of one more release, by definition, rounded down if searched for."""
        return {name: x for name, kind in KINDS.items() if (x := self._largest(name, kind)) is not None}

    @property
    def words(self) -> str:
        """The rule in a sentence."""
        return RULES[self.rule][1]

    def _cost(self, guarantee: Guarantee) -> tuple[float, float]:
        """(additive cost, delta) of one release under the rule; ValueError if its guarantee implies no such cost."""
        pure = guarantee.loss_bound(0.0)
        rho: float | None = None
        if self.rule == SUM and isinstance(guarantee, ApproximateDP):
            return float(guarantee.epsilon0), float(guarantee.delta0)
        if self.rule == SUM and np.isfinite(pure):
            rho = float(pure)
        elif self.rule == ZCDP and guarantee.implied_rho is not None:
            rho = float(guarantee.implied_rho)
        elif self.rule == RENYI:
            try:
                rho = renyi_divergence(guarantee, float(self.limit.alpha))  # type: ignore[attr-defined]
            except TypeError:
                rho = None
        elif self.rule == GAUSSIAN and isinstance(guarantee, GaussianDP):
            rho = float(guarantee.mu) ** 2
        elif self.rule == GAUSSIAN and isinstance(guarantee, PureDP):
            rho = pure_mu(float(guarantee.epsilon0)) ** 2
        if rho is None:
            raise ValueError(
                f"the rule {self.rule!r} cannot add {guarantee.describe()}, which implies no {_ADDED[self.rule]}: "
                f"enter what does, or begin another ledger, by a rule that adds it"
            )
        return rho, 0.0

    @cached_property
    def _capacity(self) -> tuple[float, float]:
        """Largest total (cost, delta) within the limit, as `_cost` counts them; for "losses" its (epsilon, delta)."""
        one = self.limit
        if self.rule in (SUM, LOSSES):
            return float(one.epsilon0), float(getattr(one, "delta0", 0.0))  # type: ignore[attr-defined]
        if isinstance(one, RenyiDP):
            return float(one.gamma), 0.0
        if isinstance(one, ZeroConcentratedDP):
            return float(one.rho), 0.0
        if isinstance(one, GaussianDP):
            return float(one.mu) ** 2, 0.0
        assert isinstance(one, ApproximateDP)
        made = ZeroConcentratedDP if self.rule == ZCDP else lambda x: GaussianDP(math.sqrt(x))
        return _largest(lambda x: one.epsilon0 >= made(x).epsilon(one.delta0)), 0.0

    def _sums(self, entries: Iterable[Entry]) -> tuple[float, float]:
        costs = [(one.times, *self._cost(one.guarantee)) for one in entries]
        return math.fsum(n * x for n, x, _ in costs), math.fsum(n * d for n, _, d in costs)

    def _total(self, entries: tuple[Entry, ...]) -> Guarantee:
        if self.rule == LOSSES:
            return compose_losses([repeat_loss(_pair(one), one.times) for one in entries])
        total, delta = self._sums(entries)
        if self.rule == SUM:
            return ApproximateDP(total, delta) if delta else PureDP(total)
        if self.rule == RENYI:
            return RenyiDP(self.limit.alpha, total)  # type: ignore[attr-defined]
        return ZeroConcentratedDP(total) if self.rule == ZCDP else GaussianDP(math.sqrt(total))

    def _keeps(self, entries: tuple[Entry, ...]) -> bool:
        if self.rule == LOSSES:
            # Upper bounds, unlike in `is_satisfied_by`: the limit must hold for certain.
            total, (most, delta) = self._total(entries), self._capacity
            return bool(total.worst_delta(most) <= tolerated(delta)) if delta else total.loss_bound(0.0) <= most
        return all(x <= tolerated(most) for x, most in zip(self._sums(entries), self._capacity, strict=True))

    def _largest(self, name: str, kind: type[Guarantee]) -> float | None:
        """The largest parameter of one more release of this definition; None if the rule cannot add it."""
        if kind is RenyiDP and self.rule == RENYI:
            return max(0.0, self._capacity[0] - self._sums(self.entries)[0])
        if kind in (RenyiDP, ApproximateDP) or (self.rule == LOSSES and kind is ZeroConcentratedDP):
            return None
        one: Any = kind
        if self.rule != LOSSES:
            try:
                self._cost(one(1.0))
            except ValueError:
                return None
            room = self._capacity[0] - self._sums(self.entries)[0]
            if room <= 0.0:
                return 0.0
            return _largest(lambda x: self._cost(one(x))[0] <= tolerated(room))
        return _largest(lambda x: self._keeps((*self.entries, Entry(name, one(x), fixed=True))))

    @classmethod
    def load(cls, path: str | Path) -> Ledger:
        """Read a ledger file: TOML with `[limit]` and any number of `[[release]]`.

        Parameters
        ----------
        path : of the file

        Returns
        -------
        Ledger

        Raises
        ------
        OSError : the file cannot be read
        ValueError : it is not TOML, a key is unknown, missing or out of range, or the releases overspend the limit; the
            message names file, key, rule and value
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
            data = tomllib.loads(text)
        except ValueError as error:
            raise ValueError(f"{file}: not a TOML file: {error}") from None
        _known(file, "", data, ("title", "limit", "release"))
        if not isinstance(limit := data.get("limit"), dict):
            raise ValueError(f"{file}: limit: is required (a table with one definition, such as zCDP = 1.0)")
        rows = data.get("release", [])
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError(f"{file}: release: must be rows [[release]], in two brackets")
        entries = []
        for i, row in enumerate(rows, start=1):
            where = f"release[{i}]"
            guarantee = _guarantee(file, where, row, ("name", "times", "fixed", "date"))
            with_key = {key: row[key] for key in ("times", "fixed") if key in row}
            try:
                entries.append(Entry(str(row.get("name", "")), guarantee, date=str(row.get("date", "")), **with_key))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{file}: {where}: {error}") from None
        try:
            made = _guarantee(file, "limit", limit, ("rule",))
            ledger = cls(made, str(limit.get("rule", "")), tuple(entries), str(data.get("title", "")))
        except ValueError as error:
            raise ValueError(str(error) if str(error).startswith(str(file)) else f"{file}: {error}") from None
        ledger._text, ledger._loaded = text.rstrip() + "\n", len(entries)
        return ledger

    def save(self, path: str | Path) -> None:
        """Write the ledger as TOML, atomically; a loaded ledger retains its text, and new releases follow it.

        Parameters
        ----------
        path : of the file; TypeError for a release with a privacy loss, which no file can hold
        """
        file = Path(path)
        head = self._text or _head(self)
        text = head + "".join(_row(one) for one in self.entries[self._loaded :])
        new = file.with_name(f".{file.name}.new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, file)
        self._text, self._loaded = text, len(self.entries)


def _pair(entry: Entry) -> PrivacyLoss:
    """The privacy loss of one release whose parameters were fixed in advance."""
    if not entry.fixed:
        raise ValueError(
            f"release {entry.name!r}: the rule {LOSSES!r} holds only for parameters that were fixed before the first "
            f"release was seen: say fixed = true if they were, or keep the limit by another rule"
        )
    pair: PrivacyLoss = entry.guarantee.worst_pair
    return pair


def _largest(fits: Callable[[float], bool]) -> float:
    """The largest number >= 0 that fits, from below to a relative `PRECISION` or a round one; infinite if all fit."""
    low, high = 0.0, 1.0
    while fits(high):
        low, high = high, 4.0 * high
        if high > 1e12:
            return math.inf
    while low == 0.0 and high > 1e-12 and not fits(high / 4.0):
        high /= 4.0
    while high - low > PRECISION * high and high > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return above if (above := float(f"{low:.5g}")) > low and fits(above) else low


def _known(file: Path, where: str, table: Mapping[str, Any], keys: Iterable[str]) -> None:
    """ValueError for an unknown key of a table."""
    for key in table:
        if key not in keys:
            owners = [name for name, kind in KINDS.items() if name in keys and key in kind.parameter_names()]
            near = f"; did you mean {owners[0]!r}?" if owners else closest_name(key, keys)
            hint = near or f"; known here: {', '.join(keys)}"
            raise ValueError(f"{file}: {where + '.' if where else ''}{key}: unknown key{hint}")


def _guarantee(file: Path, where: str, table: Mapping[str, Any], others: Sequence[str]) -> Guarantee:
    """The guarantee of a table, which must have exactly one definition."""
    _known(file, where, table, (*KINDS, *others))
    given = [key for key in table if key in KINDS]
    if len(given) != 1:
        raise ValueError(
            f"{file}: {where}: must have exactly one of {', '.join(KINDS)}, got {', '.join(given) or 'none'}"
        )
    kind, value = KINDS[given[0]], table[given[0]]
    names = kind.parameter_names()
    try:
        if len(names) == 1:
            return kind(value)
        if not isinstance(value, dict) or set(value) != set(names):
            raise ValueError(f"must be {{ {', '.join(f'{name} = ..' for name in names)} }}, got {value!r}")
        return kind(*(value[name] for name in names))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file}: {where}.{given[0]}: {error}") from None


def _line(guarantee: Guarantee) -> str:
    """A guarantee as a line of a file."""
    kind = next((name for name, one in KINDS.items() if type(guarantee) is one), None)
    if kind is None:
        raise TypeError(f"a file holds {', '.join(KINDS)}, not {guarantee!r}")
    values = {name: float(x) for name, x in guarantee.parameters.items()}
    key = kind if kind.isalpha() else json.dumps(kind)
    if len(values) == 1:
        return f"{key} = {next(iter(values.values()))!r}\n"
    return f"{key} = {{ {', '.join(f'{name} = {x!r}' for name, x in values.items())} }}\n"


def _head(ledger: Ledger) -> str:
    title = f"title = {json.dumps(ledger.title, ensure_ascii=False)}\n\n" * bool(ledger.title)
    return f"{title}[limit]\n{_line(ledger.limit)}rule = {json.dumps(ledger.rule)}\n"


def _row(entry: Entry) -> str:
    rest = f"times = {entry.times}\n" * (entry.times > 1) + "fixed = true\n" * entry.fixed
    rest += f"date = {json.dumps(entry.date, ensure_ascii=False)}\n" * bool(entry.date)
    return f"\n[[release]]\nname = {json.dumps(entry.name, ensure_ascii=False)}\n{_line(entry.guarantee)}{rest}"
