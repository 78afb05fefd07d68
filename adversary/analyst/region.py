r"""Which means and variances data in [0, 1] can have: bounds that hold before any noise, and cost no privacy.

Kazan (2026), chapter 4, "the thesis" in this wing: Theorem 14 and Corollary 15 for the moments of a distribution,
Theorem 16 for the statistics of n values. All functions work on the unit interval; `BoundedRelease` rescales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._numeric import Floats, as_array, check_whole, scalar_or_array


def largest_variance(mean: ArrayLike) -> Any:
    """The largest variance of a distribution on [0, 1] with this mean, m (1 - m) (Theorem 14); 0 outside.

    >>> largest_variance(0.5)
    0.25
    """
    m = as_array(mean)
    return scalar_or_array(np.maximum(m * (1.0 - m), 0.0))


def mean_range(variance: ArrayLike) -> Floats:
    """Means that a distribution on [0, 1] with this variance can have, 1/2 -+ sqrt(1/4 - variance) (Corollary 15).

    Shape (..., 2); NaN above 1/4, where there is none.
    """
    v = as_array(variance)
    half = np.sqrt(np.where(v <= 0.25, 0.25 - v, np.nan))
    return np.stack([0.5 - half, 0.5 + half], axis=-1)


def largest_sample_variance(mean: ArrayLike, n: ArrayLike, *, attainable: bool = False) -> Any:
    """The largest sample variance (divisor n - 1) of n values in [0, 1] with this sample mean.

    n / (n - 1) m (1 - m) (Theorem 16). With `attainable`, the largest that some data set has: values 0 and 1 and one
    in between, (floor(nm) + f^2 - n m^2) / (n - 1) with f the fraction of nm; the two agree where nm is whole.
    """
    m, size = as_array(mean), as_array(check_whole("n", n, minimum=2))
    inside = (m >= 0.0) & (m <= 1.0)
    if attainable:
        whole = np.floor(size * m)
        top = (whole + (size * m - whole) ** 2 - size * m * m) / (size - 1.0)
    else:
        top = size / (size - 1.0) * m * (1.0 - m)
    return scalar_or_array(np.where(inside, np.maximum(top, 0.0), 0.0))
