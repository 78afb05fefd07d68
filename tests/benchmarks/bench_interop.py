"""On demand:  uv run --group bench pytest tests/benchmarks/bench_interop.py

Loss distributions of dp_accounting, both ways: 16,000 atoms and more keep their profile to 1e-12.
"""

import numpy as np
import pytest

import adversary as adv
from adversary.privacy.losses import interop

distributions = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
EPSILONS = np.linspace(0.0, 6.0, 61)


def test_a_distribution_of_16_000_atoms_is_the_same_there_and_back() -> None:
    pld = distributions.from_gaussian_mechanism(1.0, value_discretization_interval=1e-3, use_connect_dots=True)
    loss = interop.from_pld(pld)
    assert loss.losses.size >= 16_000
    back = interop.to_pld(loss, 1e-3)
    theirs, again = (np.array([one._pmf_remove.get_delta_for_epsilon(e) for e in EPSILONS]) for one in (pld, back))
    np.testing.assert_allclose(loss.delta(EPSILONS), theirs, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(again, theirs, rtol=0, atol=1e-12)


def test_a_loss_of_ours_is_bounded_by_theirs_and_read_back() -> None:
    loss = adv.DiscreteGaussian(3.0).privacy_loss()
    theirs = interop.to_pld(loss, 1e-4)
    values = np.array([theirs.get_delta_for_epsilon(e) for e in EPSILONS])
    assert (values >= loss.delta(EPSILONS) - 1e-15).all()
    np.testing.assert_allclose(interop.from_pld(theirs).delta(EPSILONS), values, rtol=0, atol=1e-12)
