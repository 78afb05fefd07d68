"""Persons beside housing: chances against convolutions written out and a simulation, posteriors against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import xarray as xr

import adversary as adv

spine = adv.spine


def weights(variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts and probabilities of a discrete Gaussian, from its definition."""
    k = np.arange(-60, 61)
    p = np.exp(-(k**2) / (2.0 * variance))
    return k, p / p.sum()


@pytest.mark.parametrize("persons", [3, 9, 14, 30])
def test_the_chance_of_a_contradiction_is_a_sum_over_all_noises(persons: int) -> None:
    sizes, counts, variances = [1, 3], [4, 3], [2.0, 1.0]
    found = spine.persons_beside_households(persons, 3.0, counts, variances, sizes)
    k, own = weights(3.0)
    total = 0.0
    for (i, p), (j, q) in product(*(list(zip(*weights(v), strict=True)) for v in variances)):
        total += p * q * own[k - i - 3 * j <= persons - 13].sum()
    assert float(found["implied"]) == 13.0
    assert float(found["gap"]) == persons - 13.0
    assert float(found["chance"]) == pytest.approx(total, abs=1e-14)
    assert float(found["sd"]) == pytest.approx(np.sqrt(3.0 + 2.0 + 9.0))


def test_the_chance_of_a_contradiction_is_that_of_simulated_releases() -> None:
    """31 persons beside 67 by household size: as often among releases of 67 persons in these households."""
    rng, draws = np.random.default_rng(1), 200_000
    sizes, truth = np.arange(1, 8), np.array([10, 8, 4, 3, 1, 2, 0])
    noise = adv.DiscreteGaussian(sigma=2.0)
    published = np.stack([noise.sample(n, rng, draws) for n in truth], axis=1)
    persons = noise.sample(int(sizes @ truth), rng, draws)
    gaps, implied = persons - published @ sizes, int(sizes @ truth)
    for gap in (-60, -36, -10):
        found = spine.persons_beside_households(implied + gap, 4.0, truth, 4.0, sizes)
        observed, chance = float((gaps <= gap).mean()), float(found["chance"])
        assert abs(observed - chance) < 4.0 * np.sqrt(chance / draws) + 1e-6
        assert float(found["implied"]) == implied


def test_wide_noise_is_gaussian_and_exact_counts_have_none() -> None:
    wide = spine.persons_beside_households(0, 1e10, [0], 1e10, 7)
    assert float(wide["chance"]) == pytest.approx(0.5, abs=1e-4)
    for gap, chance in ((-1, 0.0), (0, 1.0), (2, 1.0)):
        found = spine.persons_beside_households(5 + gap, 0.0, [5])
        assert (float(found["chance"]), float(found["sd"])) == (chance, 0.0)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="as many as households, 2, got 1 and 3"):
        spine.persons_beside_households(5, 1.0, [5, 4], 1.0, [1, 2, 3])
    with pytest.raises(ValueError, match="sizes whole"):
        spine.persons_beside_households(5, 1.0, [5], 1.0, 1.5)
    with pytest.raises(ValueError, match="variance"):
        spine.persons_beside_households(5, -1.0, [5])


@pytest.mark.parametrize("only", [True, False])
def test_persons_and_housing_together_are_all_pairs_of_leaf_vectors(only: bool) -> None:
    """Two trees of two blocks, enumerated: the pairs of counts of one block that do not contradict each other."""
    tree = spine.Tree.of({"g": None, "a": "g", "b": "g"})
    laws, tables = [], []
    for released, rho, mean in (([5, 1, 2], 0.3, 2.0), ([4, 3, 1], 0.4, 1.5)):
        found = spine.posterior(tree, released, rho, spine.Poisson(mean))
        laws.append(found.pmf("a"))
        x = np.arange(40)
        prior = np.exp(x * np.log(mean) - np.array([np.sum(np.log(np.arange(1, n + 1))) for n in x]))
        table = np.multiply.outer(prior, prior) * np.exp(
            -rho * ((released[0] - np.add.outer(x, x)) ** 2)
            - rho * ((released[1] - x[:, None]) ** 2 + (released[2] - x) ** 2)
        )
        tables.append(table.sum(axis=1) / table.sum())
    both = spine.households_and_persons(*laws, only_households=only)
    joint = np.multiply.outer(*tables)
    x, u = np.indices(joint.shape)
    joint[(x < u) | (only & ((x == 0) != (u == 0)))] = 0.0
    assert float(both["consistent"]) == pytest.approx(joint.sum(), abs=1e-12)
    joint /= joint.sum()
    for name, law, own in (("persons", joint.sum(axis=1), tables[0]), ("occupied", joint.sum(axis=0), tables[1])):
        for read, p in (("together", law), ("alone", own)):
            one, mean = both.sel(of=name, read=read), float(np.arange(40) @ p)
            assert float(one["mean"]) == pytest.approx(mean, abs=1e-10)
            assert float(one["p_zero"]) == pytest.approx(p[0], abs=1e-10)
            assert float(one["sd"]) == pytest.approx(np.sqrt((np.arange(40) - mean) ** 2 @ p), abs=1e-9)


def test_counts_that_cannot_be_together_are_refused() -> None:
    nobody, somebody = (xr.DataArray([1.0], {"count": [n]}, ("count",)) for n in (0, 3))
    with pytest.raises(ValueError, match="contradict each other"):
        spine.households_and_persons(nobody, somebody)
