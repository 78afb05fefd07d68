"""What a table with published margins costs in noise: mechanisms made for its sensitivity space against the usual ones.

Expected l_2 length of the noise, in closed form, for the comparison Cho and Awan draw by simulation (section 5.2,
Figures 2 and 3). They set noise for two records that change (2 for Delta_2) against usual noise for three (3 sqrt 2);
here both sides cover the same number of records, and their pair is given under a name of its own.
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

ORDERS = (1.0, 2.0, float("inf"))
"""The norms of which a sensitivity is reported."""

_LOG_Z = np.arange(-30.0, 42.0, 0.05)
_SERIES = 0.01

RECORDS = (2, 3)
"""Records that may change between conforming databases of two published margins: semi-adjacency is one of the two."""


def naive_sensitivity(adjacency: int, order: float) -> float:
    """Delta_p of a table of which `adjacency` records may change and nothing is published: adjacency 2^(1/p).

    Dividing the privacy parameter by the number of records comes to the same.

    >>> round(naive_sensitivity(3, 2), 6)
    4.242641
    """
    return float(adjacency * np.linalg.norm([1.0, 1.0], ord=order))


def own_mechanisms(space: Any, mu: float, epsilon: float) -> dict[str, VectorNoise]:
    """Noise on the span of a space: "gaussian", and "k-norm" where the rank is at most 8."""
    gaussian: dict[str, VectorNoise] = {"gaussian": SpanGaussian(space, mu)}
    return gaussian | ({"k-norm": KNorm(space, epsilon)} if space.rank <= MOST_RANK else {})


def naive_costs(cells: int, adjacency: int, mu: float, epsilon: float) -> dict[str, float]:
    """Of noise on all cells that covers any change of `adjacency` records: independent Gaussian, and norm balls.

    Density proportional to exp(-(epsilon / Delta_p) ||v||_p) has cost cells Delta_p / epsilon times E|w|, w on the
    surface of the unit ball under cone measure: coordinates over the sum of independent exponentials for l_1, a cube's
    uniform point times (cells + 1) / cells for l_infinity (Cho and Awan, section 5.2 and appendix B).
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
    """E sqrt(x_1^2 + ... + x_count^2) of independent x_i, from z -> E exp(-z^2 x^2) and the moments E x^2, x^4, x^6.

    E sqrt(S) = pi^(-1/2) times the integral over z > 0 of (1 - E exp(-z^2 S)) / z^2; trapezium rule in log z, with the
    series of the transform near 0, where one minus it would cancel. Relative error below 1e-9.
    """
    z = np.exp(_LOG_Z)
    t = z**2
    near = t * (moments[0] - t * (moments[1] / 2.0 - t * moments[2] / 6.0))
    log_transform = np.where(z < _SERIES, np.log1p(-np.minimum(near, 0.5)), np.log(transform(z)))
    integrand = -np.expm1(count * log_transform) / z
    return float(integrand.sum() * (_LOG_Z[1] - _LOG_Z[0]) / np.sqrt(np.pi))


def compare_costs(rows: ArrayLike, columns: ArrayLike, mu: float = 1.0, epsilon: float = 1.0) -> xr.Dataset:
    """Expected l_2 length of the noise of a table with both margins published, own mechanisms against the usual ones.

    Parameters
    ----------
    rows, columns : the margins as counts, or numbers of non-empty levels; two or more of each
    mu : Gaussian DP parameter, for `gaussian`; costs are proportional to 1 / mu
    epsilon : nats, for the others; costs are proportional to 1 / epsilon

    Returns
    -------
    Dataset over `adjacency`, the records that may change between conforming databases (2 or 3): `own` (adjacency,
    mechanism), `naive` (adjacency, baseline), their sensitivities (adjacency, order), and `ratio`, own over naive
    Gaussian at one adjacency. `published_ratio` sets own noise for 2 records against usual noise for 3, as the paper
    does: like for like only where there are two non-empty rows or columns.

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
