"""What tells one reader's stored blocks from another's: the same in every process, and different for every belief."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import preliz
import pytest
from scipy import stats

import adversary as adv
from adversary.adversaries.path.truth import settle_truth
from adversary.adversaries.risk.law_fingerprint import law_fingerprint
from tests.catalogue import MECHANISMS

PLAN = adv.Plan([adv.Level("block", adv.Gaussian(2.0), siblings=2), adv.Level("tract", adv.Gaussian(2.0))])
VALUES = [0, 1, 2, 5]


def beliefs() -> dict[str, Any]:
    """Beliefs of every kind, no two of which are the same."""
    return {
        "poisson": stats.poisson(3.0),
        "another rate": stats.poisson(3.0000001),
        "shifted": stats.poisson(3.0, loc=1),
        "binomial": stats.binom(9, 0.3),
        "many": stats.nbinom(30000, 0.0484),
        "listed": stats.rv_discrete(values=(VALUES, [0.4, 0.3, 0.2, 0.1])),
        "listed otherwise": stats.rv_discrete(values=(VALUES, [0.4, 0.3, 0.1, 0.2])),
        "listed and frozen": stats.rv_discrete(values=(VALUES, [0.1, 0.3, 0.2, 0.4]))(),
        "listed and named": stats.rv_discrete(name="a", values=(VALUES, [0.1, 0.3, 0.2, 0.4]))(),
        "pmf": [0.25, 0.25, 0.5],
        "another pmf": [0.25, 0.5, 0.25],
        "preliz": preliz.Poisson(2.0),
        "another preliz": preliz.Poisson(2.0000001),
        "each": adv.Each(stats.poisson(2.0)),
        "each of a pmf": adv.Each([0.5, 0.5]),
        "each flat": adv.Each(),
        "gamma poisson": adv.GammaPoisson(2.0, 1.0),
        "another gamma poisson": adv.GammaPoisson(2.0, 1.5),
        "beta binomial": adv.BetaBinomial(9, 1.0, 2.0),
        "flat": adv.Uniform(),
        "bounded": adv.Uniform(9),
        "point": adv.Point(3),
    }


def fingerprint(plan: adv.Plan, belief: Any) -> str:
    reader = adv.Adversary(0.5, 0, {"tract": belief})
    return law_fingerprint(plan, reader, settle_truth(plan, reader, {"block": 1, "tract": 3}))


def fingerprints() -> dict[str, str]:
    found = {name: fingerprint(PLAN, belief) for name, belief in beliefs().items()}
    for name, noise in (MECHANISMS | {"gaussian, wider": adv.Gaussian(1.8)}).items():
        plan, reader = adv.Plan([adv.Level("block", noise)]), adv.Adversary(0.5, 0)
        found[f"noise: {name}"] = law_fingerprint(plan, reader, settle_truth(plan, reader, {"block": 1}))
    return found


@pytest.mark.slow
def test_they_differ_from_one_another_and_not_from_process_to_process() -> None:
    here = fingerprints()
    assert len(set(here.values())) == len(here)
    code = "import json; from tests.adversaries import test_law_fingerprints as t; print(json.dumps(t.fingerprints()))"
    where = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], env=where, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == here


@pytest.mark.parametrize("name", ["poisson", "preliz", "each", "gamma poisson", "listed"])
def test_what_was_computed_before_changes_none(name: str) -> None:
    belief = adv.Adversary(0.5, 0, {"tract": beliefs()[name]}).level_beliefs(PLAN)[1]
    before = fingerprint(PLAN, belief)
    belief.log_prob(np.arange(5.0), 1.0)
    belief.window(1)
    assert fingerprint(PLAN, belief) == before


def test_laws_without_parameters_print_by_name() -> None:
    coin = adv.Others(stats.rv_discrete(name="coin", values=([0, 1], [0.5, 0.5])))
    assert repr(coin) == "Others(coin)"
    assert coin.describe("tract", "block") == "the tract's people outside the block follow coin, mean 0.500"
