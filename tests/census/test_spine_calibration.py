"""Synthetic counties drawn from the prior: sets hold the truth as often as they claim, and membership is calibrated.

Highest posterior density sets of counts hold more than they were asked to, so coverage is compared with the mean
probability in the sets. The linear estimator stands beside.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import adversary as adv

spine = adv.spine
COUNTIES = 1000
RHO = (0.0513777347, 0.0504162067, 0.2464845096, 0.0992263542)
"""The 2020 Census's person tables: county, tract, optimised block group, block."""
PRIOR = spine.SharedRate()


def counties():
    """(tree, counts, noisy, rho): (unit, county) counts of many counties drawn from the default prior."""
    rng = np.random.default_rng(2020)
    parents = {"c": None} | {f"t{i}": "c" for i in range(2)} | {f"g{i}": f"t{i // 2}" for i in range(4)}
    parents |= {f"b{i}": f"g{i // 6}" for i in range(24)}
    tree = spine.Tree.of(parents, ("county", "tract", "group", "block"))
    rates = rng.choice(np.asarray(PRIOR.means), (4, COUNTIES))
    counts = tree.sums(rng.poisson(rng.gamma(0.5, rates[np.arange(24) // 6] / 0.5)))
    noise = [adv.DiscreteGaussian.from_rho(RHO[i]).sample(np.zeros(COUNTIES, int), rng) for i in tree.level]
    return tree, counts, counts + np.array(noise), np.array(RHO)[tree.level]


@pytest.mark.slow
def test_posteriors_of_counties_drawn_from_the_prior_are_calibrated():
    tree, counts, noisy, rho = counties()
    found = spine.posterior(tree, noisy, rho)
    linear = spine.least_squares(tree, noisy, np.repeat(rho[:, None], COUNTIES, axis=1))
    claimed, covered = found.hdi(0.9)["mass"].values, found.covers(counts, 0.9).values
    z = norm.ppf(0.95)
    for i, level in enumerate(tree.levels):
        here = tree.level == i
        assert claimed[here].mean() > 0.9
        per_county = (covered[here] - claimed[here]).mean(axis=0)
        assert abs(per_county.mean()) < 4 * per_county.std() / np.sqrt(COUNTIES), level
        errors = [np.sqrt(((m[here] - counts[here]) ** 2).mean()) for m in (found.mean.values, linear["mean"].values)]
        assert errors[0] < errors[1], level
        within = np.abs(linear["mean"].values[here] - counts[here]) <= z * linear["sd"].values[here]
        assert within.mean() == pytest.approx(0.9, abs=0.06), level


@pytest.mark.slow
def test_membership_of_counties_drawn_from_the_readers_own_laws_is_calibrated():
    """One leaf of each county holds known + 1 people with probability p: posteriors are as often right as they say."""
    tree, counts, noisy, rho = counties()
    rng = np.random.default_rng(7)
    leaf, known, p = int(tree.leaves[3]), 2, 0.4
    inside = rng.random(COUNTIES) < p
    change = known + inside - counts[leaf]
    v = leaf
    while v >= 0:
        noisy[v] += change
        v = int(tree.parent[v])
    found = spine.posterior(tree, noisy, rho).membership(prior=p, known=known).sel(unit=str(tree.names[leaf]))
    assert np.isin(found["status"].values, (0, 1)).all()
    posterior = found["posterior"].values
    gap = inside - posterior
    assert abs(gap.mean()) < 4 * np.sqrt((posterior * (1 - posterior)).mean() / COUNTIES)
    for low, high in ((0.0, 0.3), (0.3, 0.5), (0.5, 1.0)):
        some = (posterior >= low) & (posterior < high)
        spread = np.sqrt((posterior[some] * (1 - posterior[some])).sum())
        assert abs(gap[some].sum()) < 4 * spread
    assert np.log(np.where(inside, posterior, 1 - posterior)).mean() > np.log(np.where(inside, p, 1 - p)).mean()
