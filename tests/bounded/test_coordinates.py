"""Coordinates of the sampler: there and back, the volume they add, never outside the region, tails that stay normal."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from adversary.models.enumeration.batched_graphs import NUMPY_MODE
from adversary.models.summaries.coordinates import RootUpTo, Standardised

Q = np.linspace(-12.0, 12.0, 49)
MEANS = [
    (m, s, v) for m in (-3.0, 0.1, 0.5, 2.0) for s in (1e-4, 0.03, 1.0, 50.0) for v in (1e-6, 0.01, 0.2, 0.25 - 1e-9)
]
CASES: dict[str, tuple[Any, list[tuple[float, ...]]]] = {
    "sigma2, root": (RootUpTo(0.25), [(0.5, beta) for beta in (1e-6, 7e-4, 0.3, 40.0)]),
    "sigma2, root, no end": (RootUpTo(np.inf), [(0.5, beta) for beta in (1e-6, 40.0)]),
    "mu": (Standardised(None), MEANS[::5]),
    "mu, constrained": (Standardised((0.0, 1.0)), MEANS),
}


@cache
def compiled(case: str) -> Any:
    """Value, log volume, and the coordinate again, of coordinates and parameters."""
    transform, settings = CASES[case]
    q, inputs = pt.dvector(), [pt.dscalar() for _ in settings[0]]
    value = transform.backward(q, *inputs)
    outputs = [value, transform.log_jac_det(q, *inputs), transform.forward(value, *inputs)]
    return pytensor.function([q, *inputs], outputs, mode=NUMPY_MODE, on_unused_input="ignore")


@pytest.mark.parametrize("case", CASES)
def test_there_and_back_with_the_volume_that_is_added(case: str) -> None:
    for given in CASES[case][1]:

        def function(q: Any, given: tuple[float, ...] = given) -> Any:
            return compiled(case)(q, *given)

        value, volume, _ = function(Q)
        assert np.isfinite(volume).all(), given
        assert (np.diff(value) >= 0).all(), given
        inner = Q[np.abs(Q) < 5]
        value, volume, again = function(inner)
        scale = np.exp(volume) * np.maximum(1e-6, 1e-14 / np.exp(volume) * np.abs(value).max())
        kept = scale < 1e-3 * np.exp(volume)  # of those that a double can tell apart
        np.testing.assert_allclose(again[kept], inner[kept], atol=1e-3)
        step = 1e-5
        rise = (function(inner + step)[0] - function(inner - step)[0]) / (2 * step)
        np.testing.assert_allclose(rise[kept], np.exp(volume)[kept], rtol=2e-3)


def test_constrained_means_never_leave_the_region() -> None:
    far = np.array([-1e5, -40.0, 0.0, 40.0, 1e5])
    for m, s, v in MEANS:
        mu = compiled("mu, constrained")(far, m, s, v)[0]
        edge = mu * (1 - mu) - v
        assert (edge >= -1e-15).all(), (m, s, v)
        np.testing.assert_allclose(edge[[0, -1]], 0.0, atol=1e-8)
    for beta in (1e-6, 40.0):
        v = compiled("sigma2, root")(np.clip(far, -700, 700), 0.5, beta)[0]
        assert (v <= 0.25 * (1 + 1e-15)).all()
        assert (v > 0).all()


def test_far_from_the_ends_a_standardised_mean_is_its_own_coordinate() -> None:
    mu = compiled("mu, constrained")(np.array([-5.0, -1.0, 0.0, 3.0]), 0.4, 0.01, 0.001)[0]
    np.testing.assert_allclose((mu - 0.4) / 0.01, [-5.0, -1.0, 0.0, 3.0], atol=1e-12)


def test_the_wall_of_an_inverse_gamma_law_is_a_parabola_in_the_root() -> None:
    """beta / sigma2 = q^2 for q well below 0."""
    q = np.array([-60.0, -40.0, -20.0])
    np.testing.assert_allclose(0.3 / compiled("sigma2, root, no end")(q, 0.5, 0.3)[0], q**2, rtol=1e-7)
