"""Attacks as PyMC models: what "in" means is the adversary's, the model is `hierarchical_counts`. Numbers: test_zoo."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import adversary as adv
from adversary import models
from adversary.reader.path import attacks
from tests.catalogue import DG

BLOCK = adv.Plan([adv.Level("block", DG(0.8))])
BOTH = adv.Plan([adv.Level("block", DG(0.8))], cells=2)


def test_a_record_is_in_one_of_two_cells() -> None:
    for attack in (attacks.misreport, attacks.unknown_attribute):
        model = models.hierarchical_counts(BOTH, attack(0.3, (4, 1)))
        prior = pm.sample_prior_predictive(200, model=model, random_seed=1).prior
        record = prior["count[block]"] - np.array([4, 1])
        assert (record.sum("cell") == 1).all()
        assert (record.isel(cell=0) == prior["in"]).all()
        assert pm.draw(pm.do(model, {"in": 0})["count[block]"]).tolist() == [4, 2]


@pytest.mark.parametrize(("pmf", "answer"), [([1.0, 0.0], 0.0), ([0.0, 0.0, 1.0], 1.0)])
def test_a_count_that_settles_the_target(pmf: list[float], answer: float) -> None:
    model = models.hierarchical_counts(BLOCK, attacks.all_but(pmf, 2, level="block"))
    assert float(adv.enumerate_posterior(model, {"noisy[block]": 3}).posterior) == answer
