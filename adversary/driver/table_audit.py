"""An audit of every cell of a table of counts, under the noise that is planned for it.

Every cell of every lowest unit has its adversary, who knows everybody else in the cell. Cells of which the adversary
is in the same position share their answer, and cells with as many siblings their noise (`laws_of_cells`), so that a
county takes seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from adversary._core import DEFAULT_FAILURE, Integers, check_probability, join_words, refuse_rounded
from adversary.adversaries.beliefs import Uniform
from adversary.adversaries.path import Adversary, settle_truth
from adversary.adversaries.plans import Level, Plan
from adversary.adversaries.risk import BayesFactorLaw, few_others, laws_of_cells, shift_invariant, tilt_warning
from adversary.driver.case import Bounds, exceeds, guarantee_within, own_loss, promise_kept
from adversary.privacy import Guarantee, PrivacyUnit

if TYPE_CHECKING:
    import pandas as pd

LONG = ("cell", "count")
"""Columns of a long table, beside those of the levels: one row for each unit and cell."""
HIGH = 0.95
"""The share of releases after which the probability is at most `posterior_high`."""


def audit_table(
    frame: pd.DataFrame,
    plan: Plan | Iterable[Level],
    adversary: Adversary | None = None,
    *,
    cells: Sequence[str] | None = None,
    guarantee: Guarantee | None = None,
    failure: float = DEFAULT_FAILURE,
    rng: Any = None,
    where: Callable[[int], str] = "row {}".format,
) -> pd.DataFrame:
    """The risk of one person in every cell of every unit of a table, averaged over the planned noise.

    The adversary of a cell knows everybody else in it, and the totals above through their noisy counts and those of
    the siblings. Where a cell is empty, the person the adversary asks about is not in it.

    Parameters
    ----------
    frame : one row for each lowest unit, with a column of names for every level of the plan and whole counts in the
        others; or one row for each unit and cell, with the columns "cell" and "count" (what is not listed is 0)
    plan : levels with their noise, lowest first, or a Plan; siblings are counted in the table
    adversary : prior and beliefs about the totals above. `known` is settled by the table, unless there is a belief
        about the lowest level. Unless given: prior 1/2, every total from the count inside upwards equally likely
    cells : columns of counts; unless given, all that are not levels
    guarantee : what is promised; unless given, the plan's own privacy loss
    failure : probability with which a bound that is not certain may fail
    rng : seed of simulated releases, where there are too many to list
    where : what errors call a row, by its place

    Returns
    -------
    DataFrame, a row for each unit and cell, largest `posterior_mean` first: the levels' names, "cell", "count",
    "target" ("in" or "out"), "prior", "posterior_mean", "mcse" (its standard error, 0 where it is exact), "ratio_mean",
    "prob_correct", "posterior_high" (95 % of releases lead to no more), "bound" (the largest posterior that the
    guarantee allows), "outside" (probability of a release beyond the bounds), "status" ("holds", "exceeded" or
    "violated", as in `audit`). `attrs["cautions"]`: what to know before the averages are believed, sentences

    Raises
    ------
    ValueError : a column is missing, a count is not a whole number >= 0, a unit occurs twice, a unit has no parent, or
        the table is empty; the message names the row, the column, the rule and the value

    >>> import pandas as pd
    >>> from adversary.privacy.mechanisms import DiscreteGaussian
    >>> town = pd.DataFrame({"block": ["a", "b"], "tract": ["t", "t"], "renters": [1, 7], "owners": [0, 3]})
    >>> noise = DiscreteGaussian.from_rho(0.1)
    >>> found = audit_table(town, [Level("block", noise, siblings=1), Level("tract", noise)])
    >>> found["block"].iloc[0], found["cell"].iloc[0], found["target"].iloc[-1]
    ('a', 'renters', 'out')
    """
    levels = plan.levels if isinstance(plan, Plan) else tuple(plan)
    if isinstance(plan, Plan) and (plan.cells != 1 or plan.postprocessing is not None):
        raise ValueError("plan must be of one cell and without post-processing that ties levels together")
    if any(level.query_of for level in levels):
        raise ValueError("plan must publish the cells of the table alone: audit other queries of a unit one by one")
    if any(level.is_exact for level in levels):
        raise ValueError("plan must have no exact level: audit the cells of a table with exact totals one by one")
    failure = float(check_probability("failure", failure))
    names = [level.name for level in levels]
    reader = adversary or Adversary(0.5, beliefs={name: Uniform() for name in names[1:]})
    if reader.hypotheses != (0, 1):
        raise ValueError(f"adversary: hypotheses must be (0, 1), a person in the cell or not, got {reader.hypotheses}")
    table = TableCounts.of(frame, names, cells, where)
    states, place = np.unique(table.states(shift=_shift_invariant(levels, reader)), axis=0, return_inverse=True)
    answers: list[dict[str, Any]] = [{}] * len(states)
    limits: dict[Any, tuple[float, float, bool]] = {}
    tilted = np.zeros((len(states), len(levels)), dtype=bool)
    unit = plan.privacy_unit if isinstance(plan, Plan) else None
    for rows, one_plan, believer in _configurations(levels, reader, states, unit):
        bounds = Bounds.of(one_plan, believer, failure)
        key = bounds.records, bounds.moved
        if key not in limits:
            limits[key] = _limit(bounds, guarantee)
        others = np.diff(states[rows, len(levels) + 1 :])
        for i in range(1, len(levels)):
            belief = believer.beliefs.get(names[i])
            tilted[rows, i] = belief is not None and not belief.proper and others[:, i - 1] < few_others(one_plan, i)
        laws = _laws(one_plan, believer, states[rows, len(levels) :], reader.beliefs.get(names[0]) is None, rng)
        for row, law in zip(rows, laws, strict=True):
            answers[row] = _answer(law, *limits[key])
    result = table.with_answers([answers[i] for i in place.ravel()], reader.prior)
    concerned = zip(names, tilted[place.ravel()].sum(axis=0), strict=True)
    few = {name: int(count) for name, count in concerned if count}
    said = f"few others are there in {join_words([f'{one:,}' for one in few.values()])} of {len(result):,} cells"
    result.attrs["cautions"] = [tilt_warning(one_plan, join_words([*few]), said)] if few else []
    return result


@dataclass(frozen=True)
class TableCounts:
    """Counts of every unit and cell, with the units above.

    Parameters
    ----------
    units : names of each lowest unit and those above it, (unit, level)
    cells : names of the counts
    counts : (unit, cell)
    names : of the levels, lowest first

    >>> import pandas as pd
    >>> town = pd.DataFrame({"block": ["a", "b"], "tract": ["t", "t"], "renters": [1, 7]})
    >>> TableCounts.of(town, ["block", "tract"]).totals[1].tolist()
    [[8]]
    """

    units: NDArray[Any]
    cells: tuple[str, ...]
    counts: Integers
    names: tuple[str, ...]

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        names: Sequence[str],
        cells: Sequence[str] | None = None,
        where: Callable[[int], str] = "row {}".format,
    ) -> TableCounts:
        """A checked table, wide or long."""
        long = set(LONG) <= set(frame.columns) and cells is None
        counted = (
            list(LONG[1:]) if long else [c for c in frame.columns if c not in names] if cells is None else [*cells]
        )
        for column in (*names, *(LONG if long else counted)):
            if column not in frame.columns:
                raise ValueError(f"column {column!r} is missing; there are {', '.join(map(str, frame.columns))}")
        if frame.empty or not counted:
            raise ValueError("the table is empty: it must have a row for each unit, and a column of counts at least")
        if frame.columns.has_duplicates:
            raise ValueError(f"column {frame.columns[frame.columns.duplicated()][0]!r} occurs twice")
        units = frame[list(names)].astype(object).to_numpy()
        for row, unit in enumerate(units):
            for name, value in zip(names, unit, strict=True):
                if value is None or value != value or not str(value).strip():
                    below = f": {names[0]} {unit[0]!r} has no parent" if name != names[0] else ""
                    raise ValueError(f"{where(row)}: column {name!r}: must name a unit, got nothing{below}")
        for column in (*names, *(("cell",) if long else ())):
            _check_alike(frame[column], column, where)
        counts = np.stack([whole_column(frame[c], c, where) for c in counted], axis=1)
        keys = [tuple(map(str, unit)) for unit in units]
        if long:
            keys = [(*key, str(cell)) for key, cell in zip(keys, frame["cell"], strict=True)]
        first: dict[tuple[str, ...], int] = {}
        for row, key in enumerate(keys):
            if first.setdefault(key, row) != row:
                said = ", ".join(f"{name} {part!r}" for name, part in zip([*names, "cell"], key, strict=False))
                raise ValueError(f"{where(row)}: must be another unit than {where(first[key])}, got {said} again")
        _check_order(keys, names)
        if not long:
            return cls(units, tuple(map(str, counted)), counts, tuple(names))
        places = {key: i for i, key in enumerate(dict.fromkeys(key[:-1] for key in keys))}
        columns = {key: i for i, key in enumerate(dict.fromkeys(key[-1] for key in keys))}
        wide = np.zeros((len(places), len(columns)), dtype=np.int64)
        kept = np.empty((len(places), len(names)), dtype=object)
        for key, unit, count in zip(keys, units, counts[:, 0], strict=True):
            wide[places[key[:-1]], columns[key[-1]]], kept[places[key[:-1]]] = count, unit
        return cls(kept, tuple(columns), wide, tuple(names))

    @property
    def totals(self) -> list[Integers]:
        """Counts of every level's units, lowest first: (unit, cell) each."""
        found = []
        for i in range(len(self.names)):
            own = self._codes(i)
            total = np.zeros((own.max() + 1, len(self.cells)), dtype=np.int64)
            np.add.at(total, own, self.counts)
            found.append(total)
        return found

    def _codes(self, level: int) -> Integers:
        """The unit of a level that every lowest unit lies in, as a number."""
        keys = [tuple(map(str, unit[level:])) for unit in self.units]
        codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
        return np.array([codes[key] for key in keys])

    def states(self, *, shift: bool) -> Integers:
        """An adversary's position: siblings of each level (-1 at the top), the target, counts of each level.

        (unit and cell, number). With `shift` the counts without everybody else in the cell.
        """
        ids = [self._codes(i) for i in range(len(self.names))]
        totals = [total[own] for total, own in zip(self.totals, ids, strict=True)]
        siblings = []
        for own, above in pairwise(ids):
            pairs = np.unique(np.stack([above, own]), axis=1)
            siblings.append(np.bincount(pairs[0])[above] - 1)
        siblings.append(np.full(len(self.units), -1))
        target = np.minimum(self.counts, 1)
        known = self.counts - target if shift else 0
        wide = [np.broadcast_to(one[:, None], self.counts.shape) for one in siblings]
        return np.stack([*wide, target, *(total - known for total in totals)], axis=-1).reshape(self.counts.size, -1)

    def with_answers(self, answers: list[dict[str, Any]], prior: float) -> pd.DataFrame:
        """A row for each unit and cell, the largest posterior first."""
        import pandas as pd

        rows = np.repeat(np.arange(len(self.units)), len(self.cells))
        count = self.counts.ravel()
        columns: dict[str, Any] = {name: self.units[rows, i] for i, name in enumerate(self.names)}
        columns |= {"cell": np.tile(self.cells, len(self.units)), "count": count}
        columns |= {"target": np.where(count > 0, "in", "out"), "prior": prior}
        columns |= {name: [answer[name] for answer in answers] for name in answers[0]}
        found = pd.DataFrame(columns)
        return found.sort_values("posterior_mean", ascending=False, kind="stable", ignore_index=True)


def _check_order(keys: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """ValueError where a unit lies in several of the next level, which hold nothing else: they stand the wrong way."""
    for i, (lower, upper) in enumerate(pairwise(names)):
        pairs = {(key[i], key[i + 1]) for key in keys}
        inside, above = ({pair[side] for pair in pairs} for side in (0, 1))
        if len(inside) < len(above) == len(pairs):
            raise ValueError(
                f"levels must stand lowest first: every {upper} holds one {lower} only, and {len(above)} of them share "
                f"{len(inside)}; got {','.join(names)}, did you mean "
                f"{','.join([*names[:i], upper, lower, *names[i + 2 :]])}?"
            )


def _check_alike(labels: Iterable[Any], column: str, where: Callable[[int], str]) -> None:
    """ValueError where two names differ in their spaces alone: 'T' and 'T ' would be two units."""
    first: dict[str, tuple[str, int]] = {}
    for row, label in enumerate(map(str, labels)):
        other, before = first.setdefault(" ".join(label.split()), (label, row))
        if other != label:
            raise ValueError(
                f"{where(row)}: column {column!r}: must be written as in {where(before)}, from which it differs in "
                f"spaces alone, got {label!r} and {other!r}"
            )


def whole_column(column: Any, name: str, where: Callable[[int], str]) -> Integers:
    """A column of counts as whole numbers.

    Parameters
    ----------
    column : numbers, or words for them
    name : of the column, for messages
    where : place of a row, for messages

    Raises
    ------
    ValueError : an entry that is no whole number >= 0, or may have been rounded; its place is named

    >>> whole_column(["3", 0.0], "count", lambda row: f"row {row}").tolist()
    [3, 0]
    """
    if hasattr(column, "dtype"):
        refuse_rounded(f"column {name!r}", column)
    values = []
    for row, value in enumerate(column):
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not (0.0 <= number <= 2.0**53) or number % 1.0 or isinstance(value, bool):
            raise ValueError(f"{where(row)}: column {name!r}: must be a whole number >= 0, got {value!r}")
        values.append(int(number))
    return np.array(values, dtype=np.int64)


def _shift_invariant(levels: Sequence[Level], reader: Adversary) -> bool:
    """True where only differences of counts matter, as where every level has siblings."""
    plan = Plan([*(replace(level, siblings=1) for level in levels[:-1]), replace(levels[-1], siblings=None)])
    return shift_invariant(plan, reader)


def _configurations(
    levels: Sequence[Level], reader: Adversary, states: Integers, unit: PrivacyUnit | None
) -> Iterator[tuple[Integers, Plan, Adversary]]:
    """Rows of the states with as many siblings, their plan, and the adversary's beliefs about it."""
    siblings = states[:, : len(levels)]
    for one in np.unique(siblings, axis=0):
        counts = [*map(int, one[:-1]), None]
        plan = Plan([replace(level, siblings=n) for level, n in zip(levels, counts, strict=True)], privacy_unit=unit)
        same = {above.name for above, n in zip(levels[1:], counts[:-1], strict=True) if n == 0}
        beliefs = {name: belief for name, belief in reader.beliefs.items() if name not in same}
        rows = np.flatnonzero((siblings == one).all(axis=1))
        yield rows, plan, replace(reader, beliefs=beliefs)


def _laws(plan: Plan, reader: Adversary, states: Integers, knows: bool, rng: Any) -> Iterator[BayesFactorLaw]:
    """The law of each state, (target, counts)."""
    known = states[:, 1] - states[:, 0] if knows else np.zeros(len(states), dtype=np.int64)
    laws: dict[int, BayesFactorLaw] = {}
    for others in np.unique(known):
        rows = np.flatnonzero(known == others)
        one = replace(reader, known=int(others))
        truths: list[Mapping[str, Any]] = [
            {**dict(zip(plan.names, map(int, states[i, 1:]), strict=True)), "in": int(states[i, 0])} for i in rows
        ]
        found = laws_of_cells(plan, one, [settle_truth(plan, one, truth) for truth in truths], rng=rng)
        laws |= dict(zip(map(int, rows), found, strict=True))
    return (laws[i] for i in range(len(states)))


def _limit(bounds: Bounds, guarantee: Guarantee | None) -> tuple[float, float, bool]:
    """(failure, largest loss, whether the plan keeps the guarantee)."""
    promise = own_loss(bounds.plan, bounds.moved) if guarantee is None else guarantee.group(bounds.records)
    return *bounds.limit(promise), guarantee is None or promise_kept(guarantee, bounds.plan)


def _answer(law: BayesFactorLaw, failure: float, limit: float, kept: bool) -> dict[str, Any]:
    """The columns of one state."""
    mean, error = law.posterior_mean()
    outside, uncertain = law.outside(limit)
    exceeded = exceeds(outside, failure, uncertain)
    return {
        "posterior_mean": mean,
        "mcse": error,
        "ratio_mean": law.ratio_mean()[0] if law.prior == 0.0 else mean / law.prior,
        "prob_correct": law.prob_correct()[0],
        "posterior_high": float(expit(law.log_odds + law.quantiles(HIGH)[0])),
        "bound": float(guarantee_within(limit).posterior_bounds(law.prior)[1]),
        "outside": outside,
        "status": "violated" if not kept else "exceeded" if exceeded else "holds",
    }
