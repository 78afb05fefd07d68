"""Convex hulls symmetric about 0, and the norms whose unit balls they are: facets, gauge, volume and averages.

The K-norm mechanism adds noise whose level sets are multiples of the hull of the sensitivity space (Hardt and Talwar
2010; Awan and Slavkovic 2021). On a span of lower dimension the hull is computed in coordinates along a basis (Cho and
Awan, Lemma 29).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import factorial

import numpy as np

from adversary._core import Floats

# Largest dimension for which facets are computed: a 4 x 4 table, of rank 9, has hundreds of thousands of facets.
MOST_RANK = 8

# Largest number of quadrature nodes on one simplex.
_POINTS = 4000


@dataclass(frozen=True, eq=False)
class Hull:
    """Convex hull K of points symmetric about 0 that span R^s, with gauge ||v||_K = min {c >= 0 : v in c K}.

    Parameters
    ----------
    points : coordinates (count, s), s at most 8

    Raises
    ------
    ValueError : s above 8

    >>> square = Hull(np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]))
    >>> round(square.volume, 12), round(float(square.gauge(np.array([0.5, -3.0]))), 12)
    (4.0, 3.0)
    """

    points: Floats

    def __post_init__(self) -> None:
        if self.dimension > MOST_RANK:
            raise ValueError(
                f"the hull of changes of rank {self.dimension} has too many facets, {MOST_RANK} is the most: "
                "use Gaussian noise on the span, SpanGaussian"
            )

    @property
    def dimension(self) -> int:
        """Dimension s of the span."""
        return int(self.points.shape[1])

    @cached_property
    def _surface(self) -> tuple[Floats, Floats]:
        """(simplices, facets) of the surface."""
        from scipy.spatial import ConvexHull

        hull = ConvexHull(self.points)
        normals = hull.equations[:, :-1] / -hull.equations[:, -1:]
        _, unique = np.unique(np.round(normals, 9) + 0.0, axis=0, return_index=True)
        simplices = self.points[hull.simplices]
        # The triangulation of a facet may contain flat simplices, which have no volume.
        return simplices[np.abs(np.linalg.det(simplices)) > 1e-9], normals[unique]

    @property
    def simplices(self) -> Floats:
        """Triangulated surface, (count, s vertices, s coordinates); each simplex together with 0 spans a part of K."""
        if self.dimension > 1:
            return self._surface[0]
        ends = np.array([[[1.0]], [[-1.0]]]) * self.box
        return ends if self.dimension else np.zeros((1, 0, 0))

    @property
    def facets(self) -> Floats:
        """Normals a, (count, s), with K = {v : a . v <= 1 for each a}."""
        if self.dimension > 1:
            return self._surface[1]
        return 1.0 / self.simplices[:, 0] if self.dimension else np.zeros((1, 0))

    @cached_property
    def shares(self) -> Floats:
        """Volume of the part of K that each surface simplex spans with 0, in coordinates; (count,)."""
        return np.asarray(np.abs(np.linalg.det(self.simplices)) / factorial(self.dimension), dtype=np.float64)

    @property
    def volume(self) -> float:
        """Volume of K, in coordinates; 1 for a single point."""
        return float(self.shares.sum())

    @property
    def box(self) -> Floats:
        """Largest absolute coordinates c_i of the points: K lies in the product of the intervals [-c_i, c_i]."""
        return np.asarray(np.abs(self.points).max(0, initial=0.0), dtype=np.float64)

    @property
    def filled(self) -> float:
        """Share of the volume of `box` that K fills: vol(K) / prod(2 c_i)."""
        return self.volume / float(np.prod(2.0 * self.box))

    def gauge(self, coordinates: Floats) -> Floats:
        """Norm ||v||_K = max over facets of a . v; (..., s) to (...)."""
        return np.asarray((coordinates @ self.facets.T).max(-1, initial=0.0), dtype=np.float64)

    def mean_surface(self, basis: Floats) -> float:
        """Mean l_2 length E|w| for w on the surface of K under cone measure, in the space of the basis (s, cells).

        Gaussian quadrature on each surface simplex, with a relative error of about 1e-9 up to s = 4 and 1e-5 at s = 8.
        """
        if self.dimension == 0:
            return 0.0
        weights, barycentric = _simplex_rule(self.dimension)
        corners = self.simplices @ basis
        means = [weights @ np.linalg.norm(barycentric @ one, axis=-1) for one in corners]
        return float(self.shares @ np.array(means)) / self.volume


def _simplex_rule(corners: int) -> tuple[Floats, Floats]:
    """Quadrature rule on a simplex: weights (m,) with sum 1, and barycentric coordinates (m, corners).

    Stick breaking: the rest of the stick after i pieces is cut at a Gauss-Jacobi node of (1 - x)^(corners - 2 - i).
    """
    from scipy.special import roots_jacobi

    cuts = corners - 1
    points, weights, left = np.zeros((1, 0)), np.ones(1), np.ones(1)
    nodes = min(40, int(_POINTS ** (1.0 / cuts) + 1e-9)) if cuts else 1
    for i in range(cuts):
        x, w = roots_jacobi(nodes, cuts - 1 - i, 0.0)
        cut, w = 0.5 * (1.0 + x), w / w.sum()
        points = np.repeat(points, nodes, axis=0)
        points = np.column_stack([points, (left[:, None] * cut).ravel()])
        weights, left = np.outer(weights, w).ravel(), np.outer(left, 1.0 - cut).ravel()
    return weights, np.column_stack([points, left])
