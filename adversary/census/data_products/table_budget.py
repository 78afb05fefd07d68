"""Budget and noise of one published table at one geographic level, and the choice of its form.

The Detailed DHC products choose the form of a group's table by a noisy count: thresholds decide between a total and
tables of more and more cells, and a small total may be suppressed. The choice is a function of noisy numbers: the noise
determines its probabilities, and its privacy loss is that of the noisy numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.special import ndtri

from adversary._core import Floats, Integers, as_array, check_probability, check_whole
from adversary.adversaries.postprocessing import clamped
from adversary.privacy.losses import PrivacyLoss, compose_losses
from adversary.privacy.mechanisms import DiscreteGaussian, Mechanism

# Coverage of the Bureau's margins of error for the detailed products.
COVERAGE = 0.95

NOTHING = "not published"
"""Label of a group without a table."""


@dataclass(frozen=True)
class TableBudget:
    """Budget, noise and rules of one table at one level.

    Parameters
    ----------
    level, table : names; `universe` is what the table counts
    rho : zCDP of the table at this level, as in the configuration, in nats
    sensitivity, cells : change for which the noise is calibrated: `cells` counts by `sensitivity` each, so
        sigma^2 = cells sensitivity^2 / (2 rho)
    tau : largest number of people counted per household, if households are truncated; else None
    part_of : table whose budget this one spends, for other groups of people; such a row adds nothing to a sum
    stage_one : share of rho spent on the noisy count that chooses the form of the table; 0 without a choice
    thresholds : smallest noisy counts for the second, third, ... form, increasing
    details, counts : by form, its contents and its number of noisy counts; the first form is a single total
    suppression : probability that the total of an empty group is suppressed; None if all totals are published
    decided_by : table of another product whose noisy total is compared with the thresholds, or ""

    >>> from adversary.census import product
    >>> tract = product("DDHC-A").budget("tract", "detailed")
    >>> tract.noise.sigma2, round(tract.margin(), 2), tract.suppressed_up_to
    (Fraction(5000, 159), 10.99, 21)
    """

    level: str
    table: str
    universe: str
    rho: Fraction
    sensitivity: int = 1
    cells: int = 1
    tau: int | None = None
    part_of: str = ""
    stage_one: Fraction = Fraction(0)
    thresholds: tuple[int, ...] = ()
    details: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    suppression: Fraction | None = None
    decided_by: str = ""

    @cached_property
    def noise(self) -> DiscreteGaussian:
        """Noise of every published count."""
        return self._noise_of(self.rho * (1 - self.stage_one))

    @cached_property
    def stage_one_noise(self) -> DiscreteGaussian | None:
        """Noise of the count that chooses the form; None without a choice, or if another table decides."""
        return self._noise_of(self.rho * self.stage_one) if self.stage_one else None

    def _noise_of(self, rho: Fraction) -> DiscreteGaussian:
        """Noise of a count with budget rho, for the change of this table."""
        return DiscreteGaussian.from_rho(rho, self.sensitivity, self.cells)

    @cached_property
    def loss(self) -> PrivacyLoss:
        """Privacy loss of one count with its stage one, for a unit that changes it by one, or by tau.

        It covers an adversary who uses only this count; other groups, tables and levels add to it.
        """
        noises = [noise for noise in (self.stage_one_noise, self.noise) if noise is not None]
        return compose_losses([noise.privacy_loss(self.tau or 1, 1) for noise in noises])

    def margin(self, coverage: float = COVERAGE, counts: int = 1) -> float:
        """Margin of error of a sum of published counts, a quantile of the normal distribution with their variance.

        Parameters
        ----------
        coverage : probability of a smaller error, in (0, 1)
        counts : number of noisy counts in the sum, >= 1

        Returns
        -------
        Half the width of the interval, in people or households.
        """
        return float(
            ndtri(0.5 + 0.5 * _open_probability(coverage))
            * np.sqrt(check_whole("counts", counts, minimum=1) * float(self.noise.sigma2 or 0))
        )

    def largest_error(self, coverage: float = COVERAGE) -> int:
        """Smallest whole number that the error of one count exceeds with probability at most 1 - coverage.

        Parameters
        ----------
        coverage : in (0, 1)
        """
        # Symmetric noise: |error| > m has twice the probability of error > m.
        return _smallest_quantile(self.noise, 0.5 * (1.0 - _open_probability(coverage)))

    @cached_property
    def suppressed_up_to(self) -> int | None:
        """Largest noisy total that is suppressed; None if all totals are published."""
        return None if self.suppression is None else _smallest_quantile(self.noise, float(1 - self.suppression))

    @property
    def record(self) -> dict[str, Any]:
        """Row of `DataProduct.budgets`, by column."""
        first, nan = self.stage_one_noise, float("nan")
        return {
            "level": self.level,
            "table": self.table,
            "universe": self.universe,
            "rho": float(self.rho),
            "rho_exact": str(self.rho),
            "part_of": self.part_of,
            "sensitivity": self.sensitivity,
            "cells": self.cells,
            "tau": nan if self.tau is None else float(self.tau),
            "sigma2": float(self.noise.sigma2 or 0),
            "margin": self.margin(),
            "largest_error": self.largest_error(),
            "stage_one_rho": float(self.rho * self.stage_one) if first else nan,
            "stage_one_sigma2": float(first.sigma2 or 0) if first else nan,
            "thresholds": ", ".join(map(str, self.thresholds)),
            "suppressed_up_to": nan if self.suppressed_up_to is None else float(self.suppressed_up_to),
        }

    @property
    def has_noisy_form(self) -> bool:
        """True if the form of the table depends on a noisy count, or small totals are suppressed."""
        return bool(self.thresholds) or self.suppression is not None

    def probabilities(self, count: ArrayLike, decider: TableBudget | None = None) -> xr.DataArray:
        """Probability of each form of the table, and of none, for a group of this size.

        Parameters
        ----------
        count : true number of people in the group, whole, >= 0; or several
        decider : table whose noisy total decides, if there is a `decided_by`

        Returns
        -------
        DataArray, dims (count, published), or (published,) for one count: "not published" first, then the forms.

        Raises
        ------
        ValueError : a negative count, or a missing decider
        """
        true = check_whole("count", count, minimum=0)
        if self.decided_by and decider is None:
            raise ValueError(f"decider must be given: {self.decided_by!r} of another product decides {self.table!r}")
        values = (
            self._forms_by_other_table(decider, true) if self.decided_by and decider else self._forms_by_stage_one(true)
        )
        labels = [NOTHING, *(self.details or ("total",))]
        dims: Mapping[str, ArrayLike] = {"count": true} if true.ndim else {}
        return xr.DataArray(
            np.moveaxis(values, 0, -1), {**dims, "published": labels}, (*dims, "published"), name="probability"
        )

    def _forms_by_stage_one(self, true: Integers) -> Floats:
        """(form, ...) probabilities by stage one, suppression first.

        Groups below all thresholds are suppressed if their second noisy total is small.
        """
        forms = _interval_probabilities(self.stage_one_noise, self.thresholds, true)
        suppressed = forms[0] * self.suppression_probability(true)
        return np.stack([suppressed, forms[0] - suppressed, *forms[1:]])

    def _forms_by_other_table(self, decider: TableBudget, true: Integers) -> Floats:
        """(form, ...) probabilities by the published total of another table, suppression first.

        That total is one noisy count, or the sum of the noisy counts of the other table's form.
        """
        suppressed, forms = np.zeros(true.shape), np.zeros((len(self.thresholds) + 1, *true.shape))
        first = _interval_probabilities(decider.stage_one_noise, decider.thresholds, true)
        for form, counts in zip(first, decider.counts or (1,), strict=True):
            # Only a total of one noisy count can be suppressed; a sum of cells is always published.
            suppressed_up_to = decider.suppressed_up_to if counts == 1 else None
            total = decider.noise.total(counts) if counts > 1 else decider.noise
            edges = (
                self.thresholds
                if suppressed_up_to is None
                else tuple(max(t, suppressed_up_to + 1) for t in self.thresholds)
            )
            parts = form * _interval_probabilities(total, edges, true)
            newly_suppressed = (
                np.zeros(true.shape) if suppressed_up_to is None else form * decider.suppression_probability(true)
            )
            parts[0] -= newly_suppressed
            suppressed, forms = suppressed + newly_suppressed, forms + parts
        return np.stack([suppressed, *np.maximum(forms, 0.0)])

    def suppression_probability(self, count: ArrayLike) -> Floats:
        """Probability that the noisy total of a group below all thresholds is suppressed as too small.

        Parameters
        ----------
        count : true number of people in the group, >= 0; or several
        """
        true = check_whole("count", count, minimum=0)
        least = self.suppressed_up_to
        return np.zeros(true.shape) if least is None else as_array(self.noise.cdf(np.full(true.shape, least), true))

    def threshold(self, form: int = 1) -> Mechanism:
        """Mechanism that reveals only whether a group's table has this form or a more detailed one.

        Its release is the noisy count of stage one, clamped: the threshold if the group has the form, one less if not.
        Several forms, or the noisy count itself, reveal more; `DataProduct.plan(stage_one=True)` has the latter.

        Parameters
        ----------
        form : index in `details`, >= 1

        Raises
        ------
        ValueError : no such form, or a table without stage one
        """
        if self.stage_one_noise is None or not 1 <= form <= len(self.thresholds):
            raise ValueError(
                f"form must be from 1 to the number of thresholds, {len(self.thresholds)} of {self.table!r} at "
                f"{self.level!r}{'' if self.stage_one_noise else ' (without stage one)'}, got {form}"
            )
        least = self.thresholds[form - 1]
        return clamped(self.stage_one_noise, least - 1, least)


def _open_probability(probability: float) -> float:
    """Probability as float; ValueError unless above 0 and below 1."""
    p = float(check_probability("probability", probability))
    if not 0.0 < p < 1.0:
        raise ValueError(f"probability must be above 0 and below 1, got {p}")
    return p


def _smallest_quantile(noise: Mechanism, above: float) -> int:
    """Smallest whole number that the noise exceeds with at most the probability `above`."""
    values = noise.support(0)
    return int(values[int(np.argmax(as_array(noise.sf(values, 0)) <= above))])


def _interval_probabilities(noise: Mechanism | None, thresholds: Sequence[int], true: Integers) -> Floats:
    """(form, ...) probabilities that a noisy count lies below all thresholds, between two, or at least at the last."""
    reached = [np.ones(true.shape)]
    reached += [as_array(noise.sf(np.full(true.shape, t - 1), true)) for t in thresholds] if noise is not None else []
    return np.stack([a - b for a, b in zip(reached, [*reached[1:], np.zeros(true.shape)], strict=True)])
