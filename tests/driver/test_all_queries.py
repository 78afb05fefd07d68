"""All queries of a unit as the audit's answer: the sum of their losses, and every release written out."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import poisson

import adversary as adv
from adversary.adversaries.beliefs import Known
from adversary.adversaries.tables import Query, path_loss
from tests.commands import printed
from tests.tables import refusals

OWN, TOTAL, SEX = adv.DiscreteGaussian(0.9), adv.DiscreteGaussian(0.7), adv.Geometric(1.3)
BLOCK = {"total": TOTAL, "sex": SEX}
QUERIES = (Query("total", ((0, 0), (0, 0))), Query("sex", ((0, 0), (0, 1))))
TRUTH = {"block": 3, "tract": 6}


def two_levels(**queries: Any) -> adv.Plan:
    return adv.Plan([adv.Level("block", OWN, siblings=2), adv.Level("tract", SEX)], queries=queries)


def test_who_knows_everybody_has_the_sum_of_the_losses_of_all_queries_of_all_levels() -> None:
    plan = two_levels(block=BLOCK, tract={"total": OWN})
    assert plan.names == ("block, total", "block, sex", "block", "tract, total", "tract")
    reader = adv.Adversary(0.2, known=2, beliefs={"tract": Known(3)})
    noise = {"total": [TOTAL, OWN], "sex": SEX, "detailed": [OWN, SEX]}
    every = path_loss([*QUERIES, Query("detailed", ((0, 1), (0, 1)))], noise, present=0)
    risk = adv.audit(plan, reader, TRUTH)["risk"]
    assert float(risk["posterior_mean"]) == pytest.approx(every.posterior(0.2).mean("in"), rel=1e-9)
    assert float(plan.privacy_loss().tail(1.0)[0]) == pytest.approx(float(every.tail(1.0)[0]), rel=1e-9)


def test_a_known_block_under_a_tract_is_enumeration() -> None:
    """Releases of two queries and the cell of the block, of its siblings' sum and of the tract, each written out."""
    reader = adv.Adversary(0.2, known=2, beliefs={"tract": poisson(1.7)})
    tree = adv.audit(two_levels(block=BLOCK), reader, TRUTH)
    near, others = np.arange(-7, 8), np.arange(25)
    siblings = OWN.total(2)
    sums, tract = (grid.ravel() for grid in np.meshgrid(3 + np.arange(-9, 10), 6 + np.arange(-9, 10), indexing="ij"))

    def above(count: int) -> Any:
        law = poisson(1.7).logpmf(others) + siblings.log_likelihood(sums[:, None].astype(float), others)
        return logsumexp(law + SEX.log_likelihood(tract[:, None].astype(float), count + others), axis=1)

    known = siblings.log_likelihood(sums.astype(float), 3) + SEX.log_likelihood(tract.astype(float), 6)
    upper = above(3) - above(2)
    mean = mass = 0.0
    for released in itertools.product(near, repeat=3):
        pairs = list(zip((OWN, TOTAL, SEX), released, strict=True))
        log = sum(noise.log_prob(3 + y, 3) for noise, y in pairs)
        factor = sum(noise.log_prob(3 + y, 3) - noise.log_prob(3 + y, 2) for noise, y in pairs)
        weight = np.exp(log + known)
        mean += float((weight / (1 + 4 * np.exp(-factor - upper))).sum())
        mass += float(weight.sum())
    assert mass == pytest.approx(1.0, abs=2e-3)
    assert float(tree["risk"]["posterior_mean"]) == pytest.approx(mean / mass, abs=2e-3)
    assert float(tree["queries"]["posterior_mean"].sel(published="all", target="in")) == pytest.approx(
        float(tree["risk"]["posterior_mean"]), rel=1e-12
    )
    one = adv.audit(two_levels(), reader, TRUTH)
    assert "queries" not in one.children
    assert float(tree["queries"]["posterior_mean"].sel(published="one", target="in")) == pytest.approx(
        float(one["risk"]["posterior_mean"]), rel=1e-12
    )


@pytest.mark.slow_cases("2")
@pytest.mark.parametrize("cells", [1, 2])
def test_the_models_of_the_same_story_agree(cells: int) -> None:
    levels = [adv.Level("block", OWN, siblings=1), adv.Level("tract", OWN)]
    plan = adv.Plan(levels, cells, queries={"block": BLOCK, "tract": {"total": TOTAL}})
    reader = adv.Adversary(0.3, known=(1, 2)[:cells] if cells > 1 else 1, beliefs={"tract": Known(2)})
    truth = {"block": [2, 2], "tract": [4, 4]} if cells == 2 else {"block": 2, "tract": 4}
    release = plan.release({**truth, "in": 1}, 1, 20)
    exact = reader.posterior(plan, release)["posterior"]
    found = adv.enumerate_posterior(adv.models.hierarchical_counts(plan, reader), adv.observed(release))["posterior"]
    np.testing.assert_allclose(found.values, exact.values, atol=1e-10)


test_what_does_not_fit_is_refused = refusals(
    (lambda: two_levels(county=BLOCK), "queries: unknown level 'county'"),
    (lambda: two_levels(block={}), "must be a mapping of their names to mechanisms", TypeError),
    (lambda: two_levels(block={"total": 3}), "mechanism must be a Mechanism", TypeError),
    (
        lambda: two_levels(block={"total": adv.Exact()}),
        "must be noisy: exact totals are invariants",
    ),
    (
        lambda: adv.Plan(
            [adv.Level("block", OWN, 2), adv.Level("tract", OWN)],
            1,
            adv.postprocessing.LeastSquares(),
            queries={"block": BLOCK},
        ),
        "cannot be read beside counts that are adjusted",
    ),
    (
        lambda: adv.audit(two_levels(tract=BLOCK), adv.Adversary(0.5, 2, {"tract": poisson(2)}), TRUTH),
        "the other queries of level 'tract' count other people too",
    ),
    (
        lambda: adv.audit(
            two_levels(block=BLOCK), adv.Adversary(0.5, 0, {"block": poisson(2), "tract": poisson(2)}), TRUTH
        ),
        "the other queries of level 'block' count other people too",
    ),
)


FILE = """
neighbours = "bounded"
[plan]
[[plan.level]]
name = "block"
rho = "1/5"
siblings = 3
[plan.level.queries]
total = { rho = "1/4" }
sex = { noise = "geometric", epsilon = 0.5 }
[[plan.level]]
name = "tract"
rho = "1/5"
[truth]
block = 1
tract = 4
[adversary]
prior = "1/10"
known = 0
beliefs = { tract = { law = "poisson", mu = 2 } }
"""


def test_a_file_says_what_all_is_published(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(FILE)
    scenario = adv.load_scenario(path)
    assert scenario.plan.levels[0].mechanism == adv.DiscreteGaussian.from_rho(0.25, cells=2)
    assert scenario.truth == {"block, total": 1, "block, sex": 1, "block": 1, "tract": 4}
    said = printed("audit", str(path))
    assert "One query and all" in said
    assert "block, sex" in said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("siblings = 3", "siblings = 3\nreleases = 2", "must be left out where the level is published several times"),
        ('total = { rho = "1/4" }', "total = 3", "plan.level\\[1\\].queries.total"),
        ('total = { rho = "1/4" }', "total = { roh = 1 }", "did you mean"),
        ('total = { rho = "1/4" }', "total = { }", "noise takes"),
        ('name = "tract"', 'name = "tract"\nqueries = { total = { rho = 1 } }', "the other queries of level 'tract'"),
        ('total = { rho = "1/4" }', 'total = { noise = "exact" }', "must be noisy"),
        ('{ law = "poisson", mu = 2 }', "{ known = -1 }", "at least 0"),
    ],
)
def test_what_a_file_says_wrongly_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "all.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises((ValueError, TypeError), match=words) as error:
        adv.load_scenario(path)
    assert "all.toml" in str(error.value)
