"""Sensitivity spaces: closed forms against lists of databases, hulls against linear programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adversary.privacy.invariants.convex_hull import Hull
from adversary.privacy.invariants.sensitivities import SensitivitySpace
from adversary.privacy.invariants.two_way_tables import sensitivity_space
from tests.oracles import invariant_tables

MARGINS = [
    ((2, 1), (2, 1)),
    ((1, 1), (2, 0)),
    ((4, 0), (2, 2)),
    ((3,), (1, 2)),
    ((2, 1, 1), (2, 2)),
    ((1, 1, 1), (1, 1, 1)),
    ((2, 0, 1, 1), (2, 1, 1)),
    ((2, 1, 2), (0, 3, 2)),
]
INF = float("inf")


@pytest.mark.parametrize("adjacency", [1, 2, 3])
@pytest.mark.parametrize(("rows", "columns"), MARGINS)
def test_changes_are_those_of_conforming_databases(
    rows: tuple[int, ...], columns: tuple[int, ...], adjacency: int
) -> None:
    space = sensitivity_space(rows, columns, adjacency)
    brute = invariant_tables.sensitivity_space(rows, columns, adjacency)
    assert {tuple(v) for v in space.vectors.tolist()} == brute
    assert len(space.vectors) == len(brute), "each change is listed once"
    array = np.array(sorted(brute), dtype=float)
    assert space.rank == np.linalg.matrix_rank(array)
    for order in (1.0, 1.5, 2.0, INF):
        assert space.norm(order) == pytest.approx(np.linalg.norm(array, order, axis=1).max(), rel=1e-14)
    assert all(space.contains(v) for v in brute)
    explicit = SensitivitySpace(array)
    assert explicit.rank == space.rank
    np.testing.assert_allclose(explicit.projection, space.projection, atol=1e-12)
    assert explicit.vectors.dtype == np.int64


def test_what_is_not_a_change_is_not_contained() -> None:
    space = sensitivity_space((2, 2, 0), (2, 1, 1), 3)
    for change in ([1, -1, 0, -1, 1.5, 0, 0, 0, 0], [2, -2, 0, -2, 2, 0, 0, 0, 0], [0, 0, 0, 1, -1, 0, -1, 1, 0]):
        assert not space.contains(change)
    assert not space.contains([1, 0, 0, 0, 0, 0, 0, 0, -1])
    assert SensitivitySpace(space.vectors).contains(space.vectors[-1].reshape(3, 3))
    assert not SensitivitySpace(space.vectors).contains(np.ones(9))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1, max_size=5), st.integers(1, 4))
def test_explicit_spaces_of_any_rank(vectors: list[tuple[int, ...]], scale: int) -> None:
    array = scale * np.array(vectors, dtype=float)
    space = SensitivitySpace(np.vstack([array, -array]))
    p = space.projection
    assert space.rank == np.linalg.matrix_rank(array)
    np.testing.assert_allclose(p @ p, p, atol=1e-12)
    np.testing.assert_allclose(array @ p, array, atol=1e-10)
    assert space.contains(np.zeros(3))
    assert np.all(space.on_span(array))
    np.testing.assert_allclose(space.along(array) @ space.basis, array, atol=1e-10)
    if space.rank:
        assert space.hull.gauge(space.along(space.vectors)).max() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("rows", "columns", "adjacency"), [(2, 2, 2), (2, 3, 2), (3, 3, 2), (3, 3, 3), (2, 4, 2)])
def test_gauge_is_the_least_sum_of_weights(rows: int, columns: int, adjacency: int) -> None:
    space = sensitivity_space(rows, columns, adjacency)
    rng = np.random.default_rng(3)
    for v in rng.normal(size=(6, space.cells)) @ space.projection:
        assert float(space.hull.gauge(space.along(v))) == pytest.approx(
            invariant_tables.k_norm(space.vectors, v), rel=1e-9
        )


def test_volume_and_averages_of_a_hull_are_those_of_its_simplices() -> None:
    """The octahedron and the cube, whose faces are not simplices, and what a large sample says of a 3 x 3 table."""
    octahedron = Hull(np.vstack([np.eye(3), -np.eye(3)]))
    corners = np.array([[x, y, z] for x in (1.0, -1.0) for y in (1.0, -1.0) for z in (1.0, -1.0)])
    cube = Hull(corners)
    assert octahedron.volume == pytest.approx(4.0 / 3.0)
    assert cube.volume == pytest.approx(8.0)
    assert len(cube.facets) == 6
    # E|w| on the surface of the cube is E sqrt(1 + u^2 + v^2)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    exact = float(weights @ np.sqrt(1 + nodes[:, None] ** 2 + nodes**2) @ weights) / 4.0
    assert cube.mean_surface(np.eye(3)) == pytest.approx(exact, abs=1e-8)
    space = sensitivity_space(3, 3, 3)
    points = np.random.default_rng(0).uniform(-1, 1, (200_000, 4))
    inside = points[space.hull.gauge(points) <= 1.0]
    assert len(inside) / len(points) == pytest.approx(space.hull.filled, abs=5e-3)
    length = np.linalg.norm(inside @ space.basis, axis=1)
    assert 5 / 4 * length.mean() == pytest.approx(space.hull.mean_surface(space.basis), rel=5e-3)


def test_large_tables_need_no_list_of_changes() -> None:
    space = sensitivity_space(60, 50, 3)
    assert space.rank == 59 * 49
    assert space.norm(2) == pytest.approx(6**0.5)
    with pytest.raises(ValueError, match="too many to list"):
        _ = space.vectors


def test_bad_spaces_are_refused() -> None:
    for rows, columns, match in [
        ((2, 1), (2, 2), "one total, got 3 and 4"),
        ((2, -1), (1,), "rows must be at least 0, got -1"),
        ((1, 1), (1.5, 0.5), "columns must be a whole number"),
        ((0, 0), (0, 0), "at least one record"),
        ((), (), "at least one record"),
    ]:
        with pytest.raises(ValueError, match=match):
            sensitivity_space(rows, columns, 2)
    for adjacency, match in ((0, "at least 1"), (4, "1, 2 or 3 records, got 4")):
        with pytest.raises(ValueError, match=match):
            sensitivity_space(2, 2, adjacency)
    lists: list[tuple[Any, str]] = [
        ([[1, -1]], r"opposite of each, got \[1.0, -1.0\]"),
        ([[np.inf, 0], [-np.inf, 0]], "finite"),
        ([[np.nan, 0]], "must be a number"),
        (np.zeros((0, 3)), "at least one change"),
        ([1, -1], "list of at least one change"),
    ]
    for vectors, match in lists:
        with pytest.raises(ValueError, match=match):
            SensitivitySpace(vectors)
    with pytest.raises(ValueError, match="order must be at least 1"):
        sensitivity_space(2, 2, 2).norm(0.5)
    with pytest.raises(ValueError, match="rank 9 has too many facets"):
        _ = sensitivity_space(4, 4, 2).hull
