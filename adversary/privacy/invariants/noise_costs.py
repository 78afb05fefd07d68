"""Expected noise of a table with published margins: mechanisms on its sensitivity space compared with the usual ones.

Expected l_2 length of the noise in closed form, for the comparison that Cho and Awan make by simulation (section 5.2,
Figures 2 and 3). They compare span noise for two changed records (Delta_2 = 2) with usual noise for three (3 sqrt 2).
Here both cover the same number of records; their comparison is reported separately as `published_ratio`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfcx

from adversary._core import Floats, check_positive
from adversary.privacy.invariants.convex_hull import MOST_RANK
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian, VectorNoise, chi_mean
from adversary.privacy.invariants.two_way_tables import sensitivity_space

if TYPE_CHECKING:
    import xarray as xr

# Orders p of the l_p norms in which sensitivities are reported.
ORDERS = (1.0, 2.0, float("inf"))

# Range and step of the trapezium rule in log z; below z = _SERIES 1 - E exp(-z^2 x^2) would cancel.
_LOG_Z = np.arange(-30.0, 42.0, 0.05)
_SERIES = 0.01

RECORDS = (2, 3)
"""Possible semi-adjacencies of two published margins, in records."""


def naive_sensitivity(adjacency: int, order: float) -> float:
    """Sensitivity Delta_p of a table without invariants in which `adjacency` records change: adjacency 2^(1/p).

    Equivalent to dividing the privacy parameter by the number of records.

    Parameters
    ----------
    adjacency : number of records that change
    order : p >= 1, infinity included

    >>> round(naive_sensitivity(3, 2), 6)
    4.242641
    """
    return float(adjacency * np.linalg.norm([1.0, 1.0], ord=order))


def own_mechanisms(space: Any, mu: float, epsilon: float) -> dict[str, VectorNoise]:
    """Noise on the span of a sensitivity space by name: "gaussian", and "k-norm" if the rank is at most 8."""
    gaussian: dict[str, VectorNoise] = {"gaussian": SpanGaussian(space, mu)}
    return gaussian | ({"k-norm": KNorm(space, epsilon)} if space.rank <= MOST_RANK else {})


def naive_costs(cells: int, adjacency: int, mu: float, epsilon: float) -> dict[str, float]:
    """Expected l_2 length of noise on all cells that covers changes of `adjacency` records, by mechanism.

    "gaussian" is independent Gaussian noise. The others have density proportional to exp(-(epsilon / Delta_p) ||v||_p),
    with expected length cells Delta_p / epsilon times E|w|, where w has cone measure on the surface of the unit ball:
    normalised independent exponentials for l_1, a uniform point of the cube times (cells + 1) / cells for l_infinity
    (Cho and Awan, section 5.2 and appendix B).
    """
    delta_1, delta_2, delta_max = (naive_sensitivity(adjacency, order) for order in ORDERS)

    def exponential(z: Floats) -> Floats:
        return np.asarray(np.sqrt(np.pi) / (2.0 * z) * erfcx(0.5 / z))

    def uniform(z: Floats) -> Floats:
        return np.asarray(np.sqrt(np.pi) / (2.0 * z) * erf(z))

    return {
        "gaussian": delta_2 / mu * chi_mean(cells),
        "l1": delta_1 / epsilon * mean_length(exponential, (2.0, 24.0, 720.0), cells),
        "l2": cells * delta_2 / epsilon,
        "l infinity": (cells + 1) * delta_max / epsilon * mean_length(uniform, (1 / 3, 1 / 5, 1 / 7), cells),
    }


def mean_length(transform: Callable[[Floats], Floats], moments: tuple[float, float, float], count: int) -> float:
    """Mean length E sqrt(x_1^2 + ... + x_count^2) of independent, identically distributed x_i.

    E sqrt(S) = pi^(-1/2) times the integral over z > 0 of (1 - E exp(-z^2 S)) / z^2, by the trapezium rule in log z.
    Near 0 the series of the transform avoids cancellation. Relative error below 1e-9.

    Parameters
    ----------
    transform : z -> E exp(-z^2 x^2), elementwise
    moments : E x^2, E x^4, E x^6
    count : number of coordinates
    """
    z = np.exp(_LOG_Z)
    t = z**2
    near = t * (moments[0] - t * (moments[1] / 2.0 - t * moments[2] / 6.0))
    log_transform = np.where(z < _SERIES, np.log1p(-np.minimum(near, 0.5)), np.log(transform(z)))
    integrand = -np.expm1(count * log_transform) / z
    return float(integrand.sum() * (_LOG_Z[1] - _LOG_Z[0]) / np.sqrt(np.pi))


def compare_costs(rows: ArrayLike, columns: ArrayLike, mu: float = 1.0, epsilon: float = 1.0) -> xr.Dataset:
    """Expected l_2 length of the noise of a table with both margins published, on its span and on all cells.

    Parameters
    ----------
    rows, columns : the margins as counts, or numbers of non-empty levels; two or more of each
    mu : Gaussian DP parameter of `gaussian`; costs are proportional to 1 / mu
    epsilon : nats, for the other mechanisms; costs are proportional to 1 / epsilon

    Returns
    -------
    Dataset over `adjacency`, the number of records that change between conforming databases (2 or 3): `own` (adjacency,
    mechanism), costs on the span; `naive` (adjacency, baseline), costs on all cells; their sensitivities (adjacency,
    order); `ratio`, own over naive Gaussian cost (adjacency). `published_ratio` divides the own cost for 2 records by
    the naive cost for 3, as the paper does; the two are comparable only for two non-empty rows or columns.

    Raises
    ------
    ValueError : margins that leave nothing to protect, or as in `sensitivity_space`

    >>> costs = compare_costs(3, 3)
    >>> costs["own"].sel(mechanism="gaussian").round(4).values.tolist()
    [3.7599, 4.605]
    >>> costs["naive"].sel(baseline="gaussian").round(4).values.tolist()
    [8.2533, 12.3799]
    """
    import xarray as xr

    check_positive("mu", mu)
    check_positive("epsilon", epsilon)
    spaces = [sensitivity_space(rows, columns, records) for records in RECORDS]
    if spaces[0].rank == 0:
        raise ValueError("the margins determine the table, which needs no noise: give two non-empty rows and columns")
    own = [own_mechanisms(space, mu, epsilon) for space in spaces]
    naive = [naive_costs(spaces[0].cells, records, mu, epsilon) for records in RECORDS]
    costs = {
        "own": (("adjacency", "mechanism"), [[m.expected_cost for m in one.values()] for one in own]),
        "naive": (("adjacency", "baseline"), [list(one.values()) for one in naive]),
        "own_sensitivity": (("adjacency", "order"), [[space.norm(p) for p in ORDERS] for space in spaces]),
        "naive_sensitivity": (("adjacency", "order"), [[naive_sensitivity(k, p) for p in ORDERS] for k in RECORDS]),
    }
    coords = {
        "adjacency": list(RECORDS),
        "mechanism": list(own[0]),
        "baseline": list(naive[0]),
        "order": list(ORDERS),
    }
    data = xr.Dataset(costs, coords, {"mu": mu, "epsilon": epsilon, "unit": "people, expected l2 length"})
    ours, usual = data["own"].sel(mechanism="gaussian"), data["naive"].sel(baseline="gaussian")
    data["ratio"] = (ours / usual).drop_vars(["mechanism", "baseline"])
    data["published_ratio"] = float(ours.sel(adjacency=2) / usual.sel(adjacency=3))
    return data
