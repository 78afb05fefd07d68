"""Perturbation tables, the cell-key method of statistical offices: a distribution of release minus count per count.

A table is given by perturbation, by published count, or as a long list, three forms that look alike; or by the three
parameters that an office publishes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    Floats,
    Integers,
    check_number,
    check_positive,
    check_probability,
    check_whole,
    has_labels,
    one_number,
    paired_arrays,
)
from adversary.privacy.losses import PrivacyLoss, compose_losses, repeat_loss
from adversary.privacy.mechanisms.mechanism import MOST_VALUES, Mechanism
from adversary.privacy.mechanisms.perturbation import PerturbedCount, worst_loss
from adversary.privacy.mechanisms.perturbation_files import labelled_matrix, labelled_rows, read_layout

# Mean perturbation, in people, above which a table is probably misread: offices use unbiased tables.
NEAR_ZERO = 0.05
ENDS = ("redrawn", "truncated", "reflected")
"""Methods that restrict noise to a range."""

# Limits of Newton's method for maximum entropy; the tolerance of moments is relative to the largest perturbation.
_NEWTON_STEPS, _ENTROPY_TOLERANCE = 200, 1e-14

# Tolerance for the sum of the printed probabilities of a row; within it they are rescaled to one.
TABLE_SUM = 1e-6


@dataclass(frozen=True, slots=True)
class PerturbationTable(PerturbedCount):
    """Perturbation of counts by a table of probabilities per count, such as the cell-key method of ABS and Eurostat.

    A published count is the true count plus a perturbation drawn from the row of the count. With cell keys the
    perturbation is looked up instead of drawn; it has the same distribution for an adversary who does not know the
    keys. Equal cells of several tables then share their perturbation, and count as one release.

    `variance` is the mean square of release minus count at the count where it is largest.

    Parameters
    ----------
    probabilities : (row, perturbation); row i is for count i, the last row also for all larger counts. Labels of a
        DataFrame are used: rows are counts, columns perturbations. `from_transitions` takes a matrix whose columns are
        published counts
    lowest : perturbation of the first column; each further column is one more
    closed : the last row belongs to the largest possible count, as for scores from 0 to 4
    local : a local report: the count is the answer of one unit, as in PRAM, where each record's category is perturbed
    period : number of last rows that repeat for all larger counts, as the last 250 of a p-table of the ONS
    layout : interpretation of the columns of a file, for descriptions

    Raises
    ------
    ValueError : rows of several lengths, a probability outside [0, 1], or a row that does not add up to 1 within 1e-6

    Warns
    -----
    UserWarning : `lowest` is 0 and a mean perturbation exceeds 0.05, which suggests a matrix of transitions

    References
    ----------
    Fraser and Wooton (2005), "A proposed method for confidentialising tabular output to protect against differencing",
    UNECE work session on statistical data confidentiality.
    Gouweleeuw, Kooiman, Willenborg and de Wolf (1998), "Post randomisation for statistical disclosure control: theory
    and implementation", Journal of Official Statistics 14(4), for PRAM.

    >>> noise = PerturbationTable([[0.0, 1.0, 0.0], [0.25, 0.5, 0.25]], lowest=-1)
    >>> noise.support(9).tolist(), noise.privacy_loss().delta(1.0)
    ([8, 9, 10], 0.75)
    >>> pram = PerturbationTable.from_transitions(np.full((3, 3), 0.1) + 0.7 * np.eye(3), closed=True, local=True)
    >>> round(pram.report_loss().epsilon(0.0), 4)
    2.0794
    """

    kind = "perturbation table"
    parameters = ("table", "transitions", "V")
    options = MappingProxyType({"closed": "flag", "local": "flag", "D": "whole", "js": "whole"})
    tables = ("table", "transitions")

    probabilities: tuple[tuple[float, ...], ...]
    lowest: int = 0
    closed: bool = False
    local: bool = False
    period: int = 1
    layout: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if has_labels(self.probabilities):
            table, first = labelled_rows(self.probabilities, self.lowest)
            object.__setattr__(self, "probabilities", table)
            object.__setattr__(self, "lowest", first)
        rows = [tuple(map(float, check_probability("probabilities", row))) for row in self.probabilities]
        if not rows or not rows[0] or len({len(row) for row in rows}) > 1:
            raise ValueError(f"probabilities must be rows of one length, got {sorted({len(row) for row in rows})}")
        for i, row in enumerate(rows):
            if abs((total := sum(row)) - 1.0) > TABLE_SUM:
                raise ValueError(f"probabilities must add up to 1 in every row, got {total:.10g} in that of count {i}")
        object.__setattr__(self, "probabilities", tuple(tuple(p / sum(row) for p in row) for row in rows))
        object.__setattr__(self, "lowest", int(check_whole("lowest", one_number("lowest", self.lowest))))
        for name in ("closed", "local"):
            if not isinstance(given := getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False, got {given!r}")
        period = int(check_whole("period", one_number("period", self.period), minimum=1))
        if period > (most := 1 if self.closed else len(rows)):
            raise ValueError(f"period must be at most {most}, the rows that repeat for larger counts, got {period}")
        object.__setattr__(self, "period", period)
        steps, probs = self.transitions
        if self.lowest == 0 and (mean := float((probs @ steps).max())) > NEAR_ZERO:
            warnings.warn(
                f"lowest is 0, so that every count is released as itself or more, by {mean:.3g} on average in one row: "
                "if columns are published counts, use PerturbationTable.from_transitions; otherwise give lowest, the "
                "perturbation of the first column",
                stacklevel=3,
            )

    @classmethod
    def from_transitions(cls, matrix: Any, **flags: bool) -> Self:
        """Table from a transition matrix: the probability of each published count given each true count.

        Parameters
        ----------
        matrix : (count, published count), both from 0 on; the perturbations of the last row apply to all larger counts.
            Labels of a DataFrame are used: rows are true counts, columns published counts; a first column with a
            non-numeric name holds the true counts
        **flags : `closed`, `local`

        Raises
        ------
        ValueError : labels that are not whole numbers, a missing true count, or probabilities that do not add up to 1

        >>> noise = PerturbationTable.from_transitions([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25]])
        >>> noise.support(1).tolist(), noise.support(9).tolist()
        ([0, 1, 2], [8, 9, 10])
        """
        counts, published, probs = labelled_matrix(matrix)
        count, column = np.nonzero(probs)
        missing = sorted({*range(len(counts))} - {*counts.tolist()})
        if missing or not count.size:
            raise ValueError(
                f"the rows of matrix must be those of counts 0, 1, ..., without {missing or 'probabilities'}"
            )
        return cls.from_columns(counts[count], published[column], probs[count, column], **flags)

    @classmethod
    def from_table(
        cls, parameter: str, table: Any, place: Callable[[int], str] = "row {}".format, **flags: Any
    ) -> Self:
        if others := sorted({*flags} - {"closed", "local"}):
            raise ValueError(f"{others[0]} must be left out where there is a table: it is for V")
        layout = read_layout(table, place, parameter)
        return cls.from_columns(*layout[:3], period=layout.period, layout=layout.words, **flags)

    @classmethod
    def from_columns(cls, *columns: ArrayLike, **flags: Any) -> Self:
        """Table from a long list, with one entry per count and possible release.

        Parameters
        ----------
        *columns : count, release, probability: arrays (entry,), or Series with one index. Counts run from 0 to the last
            row, which all larger counts share. In the R package ptable they are called i, j and p
        **flags : `closed`, `local`, `period`

        Raises
        ------
        ValueError : a missing count, or probabilities of a count that do not add up to 1

        >>> PerturbationTable.from_columns([0, 1, 1], [0, 0, 3], [1.0, 0.5, 0.5]).support(5).tolist()
        [4, 7]
        """
        names = ("count", "release", "probability")
        columns = tuple(paired_arrays(dict(zip(names, columns, strict=len(columns) == len(names)))))
        if len(columns) != 3 or len({np.shape(column) for column in columns}) != 1 or np.ndim(columns[0]) != 1:
            raise ValueError(f"columns must be three of one length: {', '.join(names)}")
        count = check_whole("count", columns[0], minimum=0)
        step = check_whole("release", columns[1]) - count
        if missing := sorted({*range(int(count.max(initial=0)) + 1)} - {*count.tolist()}):
            raise ValueError(f"count must run from 0 to the last without gaps, missing {missing}")
        # A negative `lowest` shows that columns are perturbations, so that the constructor does not warn.
        lowest = min(int(step.min()), -1)
        shape = int(count.max()) + 1, int(step.max()) - lowest + 1
        if shape[0] * shape[1] > MOST_VALUES:
            raise ValueError(f"the table must have at most {MOST_VALUES:,} entries, got {shape[0]} x {shape[1]}")
        table = np.zeros(shape)
        np.add.at(table, (count, step - lowest), check_number("probability", columns[2]))
        return cls(tuple(map(tuple, table.tolist())), lowest, **flags)

    @classmethod
    def from_parameters(cls, D: int, V: float, js: int = 0) -> Self:
        """Maximum-entropy table with mean 0 and a given variance, from the three parameters that an office publishes.

        Each row has the largest entropy among distributions on -D, ..., D with mean 0 and variance `V` that release no
        count below 0 and none from 1 to `js`. Zeros are not perturbed. By default the R package ptable also requires
        that probabilities do not decrease towards 0 from below. If that constraint is active, its table differs from
        this one and should be read from a file.

        Parameters
        ----------
        D : largest perturbation, >= 1
        V : variance of the perturbation of every count except 0, people squared
        js : counts from 1 to `js` are never released

        Raises
        ------
        ValueError : no distribution on the perturbations of a count has this variance; the message names the count

        References
        ----------
        Giessing (2016), "Computational issues in the design of transition probabilities and disclosure risk estimation
        for additive noise", Privacy in Statistical Databases, LNCS 9867, section 2.

        >>> noise = PerturbationTable.from_parameters(D=2, V=1.05, js=1)
        >>> np.exp(noise.log_prob([0, 2, 3], 1)).round(6).tolist()
        [0.508333, 0.475, 0.016667]
        """
        most = int(check_whole("D", one_number("D", D), minimum=1))
        variance = float(check_positive("V", one_number("V", V)))
        blocked = int(check_whole("js", one_number("js", js), minimum=0))
        if blocked > most:
            raise ValueError(f"js must be at most D = {most}, by which a count of 1 can rise, got {blocked}")
        if (entries := (rows := most + blocked + 2) * (2 * most + 1)) > MOST_VALUES:
            raise ValueError(f"the table must have at most {MOST_VALUES:,} entries, got {entries:,} of D = {most}")
        table = np.zeros((rows, 2 * most + 1))
        table[0, most] = 1.0
        for i in range(1, rows):
            steps = np.arange(max(-i, -most), most + 1)
            steps = steps[(steps == -i) | (steps + i > blocked)]
            try:
                table[i, most + steps] = _largest_entropy(steps.astype(np.float64), variance)
            except ValueError as error:
                raise ValueError(f"{error}: the perturbations of count {i} (D = {most}, js = {blocked})") from None
        return cls(tuple(map(tuple, table.tolist())), -most)

    @classmethod
    def from_V(cls, value: float, sensitivity: float = 1, cells: int = 1, **options: Any) -> Self:
        """`from_parameters` with the signature for scenario files; `sensitivity` and `cells` are ignored."""
        if others := sorted({*options} - {"D", "js"}):
            raise ValueError(f"{others[0]} must be left out of a table by D, V and js")
        if "D" not in options:
            raise ValueError("D, the largest perturbation, must be given beside V; js, 0 unless given, too")
        return cls.from_parameters(V=float(value), **options)

    @classmethod
    def on_range(cls, noise: Mechanism, largest: int, ends: str = "redrawn", *, local: bool = False) -> Self:
        """Closed table of integer noise that is restricted to the range from 0 to the largest count.

        Parameters
        ----------
        noise : additive integer noise, such as `Geometric` or `DiscreteGaussian`, or continuous noise that is rounded
        largest : largest count, >= 1; for scores from 0 to 4, 4
        ends : "redrawn", noise is drawn again until the release is in the range, with a probability that depends on the
            count; "truncated", releases outside are moved to the nearer end; "reflected", y below 0 becomes -y and y
            above the largest count n becomes 2 n - y, repeatedly
        local : True if the count is the answer of one unit

        Raises
        ------
        TypeError : noise that is not additive integer noise
        ValueError : a largest count below 1 or with too many entries, or an unknown value of `ends`

        >>> from adversary.privacy.mechanisms import Geometric
        >>> scores = PerturbationTable.on_range(Geometric(1.0), 4, local=True)
        >>> round(scores.report_loss(1).epsilon(0.0), 6), round(scores.report_loss().epsilon(0.0), 6)
        (1.20087, 4.0)
        """
        last = int(check_whole("largest", one_number("largest", largest), minimum=1))
        if not isinstance(noise, Mechanism) or noise.is_continuous or not noise.noise.is_additive:
            raise TypeError(
                f"noise must be additive and of whole numbers, such as Geometric or DiscreteGaussian, got {noise!r}: "
                "use adversary.RangedNoise for Laplace and Gaussian noise, or round it with "
                "adversary.postprocessing.rounded"
            )
        if ends not in ENDS:
            raise ValueError(f"ends must be one of {', '.join(ENDS)}, got {ends!r}")
        if (entries := (last + 1) ** 2) > MOST_VALUES:
            raise ValueError(f"the table must have at most {MOST_VALUES:,} entries, got {entries:,}")
        return cls.from_transitions(np.array([_row_within(noise, i, last, ends) for i in range(last + 1)]), closed=True,
                                    local=local)  # fmt: skip

    def describe(self) -> str:
        values = f"{'answers' if self.local else 'counts'} 0 to {len(self.probabilities) - 1}"
        steps = self.transitions[0][self.transitions[1].any(axis=0)]
        above = "" if self.closed else " and above"
        last = len(self.probabilities) - 1
        again = f", {last + 1 - self.period} to {last} repeated above" if self.period > 1 else ""
        read = f"; read as {self.layout}" if self.layout else ""
        return f"perturbation table, {values}{above}, perturbations {steps[0]} to {steps[-1]}{again}{read}"

    @property
    def is_local(self) -> bool:
        return self.local

    @property
    def largest_count(self) -> float:
        return len(self.probabilities) - 1 if self.closed else np.inf

    def report_loss(self, apart: float | None = None, cells: int = 1) -> PrivacyLoss:
        if not self.local:
            return PerturbedCount.report_loss(self, apart, cells)
        steps, probs = self.transitions
        # Answers farther apart have no release in common.
        last = len(probs) - 1 + (0 if self.closed else steps.size)
        most = int(min(last, np.inf if apart is None else math.floor(check_positive("apart", apart))))
        if (entries := 2 * most * len(probs) * (steps.size + most)) > MOST_VALUES:
            raise ValueError(
                f"a table of {len(probs):,} answers has too many pairs of them, {entries:,} numbers for at most "
                f"{MOST_VALUES:,}: state by how much one unit may change its answer, or use RandomizedResponse"
            )
        if not most:
            return compose_losses([])
        return repeat_loss(worst_loss(self, (*range(1, most + 1), *range(-most, 0))), cells)

    @property
    def transitions(self) -> tuple[Integers, Floats]:
        probs = np.array(self.probabilities)
        return self.lowest + np.arange(probs.shape[1]), probs

    def row(self, value: Any) -> Any:
        first = len(self.probabilities) - self.period
        return np.where(value < first, value, first + (value - first) % self.period)[()]


def _largest_entropy(steps: Floats, variance: float) -> Floats:
    """Maximum-entropy distribution on perturbations v with mean 0 and a variance: p ~ exp(b v + c v^2), by Newton."""
    low = 0.0 if (steps == 0.0).any() else float(-steps[steps < 0.0].max(initial=-np.inf) * steps[steps > 0.0].min())
    high = abs(float(steps[0] * steps[-1]))
    if not low <= variance <= high:
        raise ValueError(f"V must be from {low:g} to {high:g}, got {variance:g}")
    # At the limits only a distribution on two points (or on 0) has this variance.
    if variance in (low, high):
        ends = steps[[0, -1]] if variance == high else np.array([steps[steps < 0.0].max(), steps[steps > 0.0].min()])
        on_ends = np.array([ends[1], -ends[0]]) / (ends[1] - ends[0])
        return np.array([on_ends[ends == step].sum() for step in steps])
    scale = steps[-1]
    x = np.stack([steps / scale, (steps / scale) ** 2])
    target, tilt = np.array([0.0, variance / scale**2]), np.zeros(2)
    for _ in range(_NEWTON_STEPS):
        weight = tilt @ x
        law = np.exp(weight - weight.max())
        law /= law.sum()
        short = target - x @ law
        if np.abs(short).max() <= _ENTROPY_TOLERANCE:
            return np.asarray(law)
        step = np.linalg.solve((x * law) @ x.T - np.outer(x @ law, x @ law), short)
        tilt = tilt + step * _damping(x, tilt, target, step)
    raise ValueError(f"V is too near an end of {low:g} to {high:g} for a law to be worked out, got {variance:g}")


def _damping(x: Floats, tilt: Floats, target: Floats, step: Floats) -> float:
    """Step length of Newton's method: halved until the dual objective log sum exp(tilt x) - tilt target decreases."""

    def dual(at: Floats) -> float:
        weight = at @ x
        return float(weight.max() + np.log(np.exp(weight - weight.max()).sum()) - at @ target)

    here, share = dual(tilt), 1.0
    while share > 1e-10 and dual(tilt + share * step) > here + 1e-15:
        share /= 2.0
    return share


def _row_within(noise: Mechanism, count: int, last: int, ends: str) -> Floats:
    """Probabilities of the releases 0, ..., `last` for one count, with noise restricted by the method `ends`."""
    row = np.exp(noise.log_prob(np.arange(last + 1), count))
    if ends == "truncated":
        row[0], row[-1] = noise.cdf(0, count), noise.sf(last - 1, count)
    elif ends == "reflected":
        drawn = noise.support(count)
        outside = drawn[(drawn < 0) | (drawn > last)]
        folded = outside % (2 * last)
        row += np.bincount(np.minimum(folded, 2 * last - folded), np.exp(noise.log_prob(outside, count)), last + 1)
    return np.asarray(row / row.sum())
