"""What a table with published margins costs in noise: mechanisms made for its sensitivity space against the usual ones.

Expected l_2 length of the noise, in closed form, for the comparison Cho and Awan draw by simulation (section 5.2,
Figures 2 and 3). They set noise for two records that change (2 for Delta_2) against usual noise for three (3 sqrt 2);
here both sides cover the same number of records, and their pair is given under a name of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from adversary._core import check_positive
from adversary.privacy.invariants.baseline_noise import CellGaussian, L1Noise, L2Noise, LInfinityNoise
from adversary.privacy.invariants.convex_hull import MOST_RANK
from adversary.privacy.invariants.span_noise import KNorm, SpanGaussian
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from adversary.privacy.invariants.vector_noise import VectorNoise

if TYPE_CHECKING:
    import xarray as xr

ORDERS = (1.0, 2.0, float("inf"))
"""The norms of which a sensitivity is reported."""

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


def naive_mechanisms(shape: tuple[int, ...], adjacency: int, mu: float, epsilon: float) -> dict[str, VectorNoise]:
    """Noise on all cells that covers any change of `adjacency` records: "gaussian", "l1", "l2" and "l infinity"."""
    delta_1, delta_2, delta_max = (naive_sensitivity(adjacency, order) for order in ORDERS)
    return {
        "gaussian": CellGaussian(shape, delta_2, mu),
        "l1": L1Noise(shape, delta_1, epsilon),
        "l2": L2Noise(shape, delta_2, epsilon),
        "l infinity": LInfinityNoise(shape, delta_max, epsilon),
    }


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
    naive = [naive_mechanisms(spaces[0].shape, records, mu, epsilon) for records in RECORDS]
    costs = {
        "own": (("adjacency", "mechanism"), [[m.expected_cost for m in one.values()] for one in own]),
        "naive": (("adjacency", "baseline"), [[m.expected_cost for m in one.values()] for one in naive]),
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
