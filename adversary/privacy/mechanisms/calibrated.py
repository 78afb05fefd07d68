"""Base class of noise that records its calibration; and `Exact`, publication without noise."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import (
    TAIL_NATS,
    Floats,
    Integers,
    Size,
    check_non_negative,
    check_positive,
    check_whole,
    labelled,
    one_number,
    scalar_or_array,
)
from adversary.privacy.losses import LatticeLoss, PrivacyLoss, compose_losses
from adversary.privacy.mechanisms.mechanism import Mechanism, root_of


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibrated(Mechanism):
    """Noise that records the change it is calibrated for, as set by `from_rho` or `from_epsilon`.

    Parameters
    ----------
    sensitivity, cells : a change of `sensitivity` in each of `cells` counts, the default change of `privacy_loss`
    """

    sensitivity: float = 1
    cells: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "cells", checked_change(self.sensitivity, self.cells)[1])

    def __repr__(self) -> str:
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        change = {name: value for name in ("sensitivity", "cells") if (value := own.pop(name)) != 1}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in (own | change).items())})"

    @property
    def calibration(self) -> tuple[float, int]:
        return self.sensitivity, self.cells


def checked_change(sensitivity: float, cells: int) -> tuple[float, int]:
    """Sensitivity and number of cells, checked to be a positive number and a whole number >= 1."""
    check_positive("sensitivity", sensitivity)
    one_number("sensitivity", sensitivity)
    return sensitivity, int(check_whole("cells", one_number("cells", cells), minimum=1))


@dataclass(frozen=True, slots=True)
class Exact(Mechanism):
    """Publication without noise: the value is an invariant."""

    kind = "exact"
    log_concave = True
    is_exact = True
    is_continuous = False
    smallest_release = 0.0  # counts start there

    def describe(self) -> str:
        return "none: published exactly"

    def log_likelihood(self, release: ArrayLike, value: ArrayLike) -> Floats:
        return np.where(release == value, 0.0, -np.inf)

    def tail_radius(self, nats: float = TAIL_NATS) -> float:
        return 0.0

    @labelled
    def log_prob(self, release: ArrayLike, value: ArrayLike) -> Any:
        same = check_whole("release", release) == check_whole("value", value)
        return scalar_or_array(np.where(same, 0.0, -np.inf))

    @labelled
    def cdf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array((check_whole("release", release) >= check_whole("value", value)).astype(np.float64))

    @labelled
    def sf(self, release: ArrayLike, value: ArrayLike) -> Any:
        return scalar_or_array((check_whole("release", release) < check_whole("value", value)).astype(np.float64))

    variance = 0.0

    def rho(self, change: float = 1) -> float:
        return float("inf") if check_non_negative("change", change) else 0.0

    def sample(self, value: ArrayLike, rng: np.random.Generator, size: Size = None) -> Any:
        centre = check_whole("value", value)
        return scalar_or_array(centre if size is None else np.broadcast_to(centre, size).copy())

    def support(self, value: int) -> Integers:
        return check_whole("value", [value])

    def total(self, count: int) -> Exact:
        check_whole("count", count, minimum=0)
        return self

    def scaled(self, factor: float) -> Exact:
        """The mechanism itself: an invariant has no budget."""
        root_of(factor)
        return self

    def privacy_loss(self, sensitivity: float | None = None, cells: int | None = None) -> PrivacyLoss:
        change, cells = self.change(sensitivity, cells)
        if cells == 0 or int(check_whole("sensitivity", change, minimum=0)) == 0:
            return compose_losses([])
        return LatticeLoss(np.zeros(0), np.zeros(0), np.zeros(0), 1.0, 1.0)
