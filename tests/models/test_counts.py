"""The count models against the exact engine on many releases: every story of the catalogue, and what they leave out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st

from adversary.adversaries.beliefs.belief import Others, Point, Uniform
from adversary.adversaries.beliefs.unknown_rate import BetaBinomial, GammaPoisson
from adversary.adversaries.path import attacks
from adversary.adversaries.path.adversary import Adversary
from adversary.adversaries.plans.plan import Level, Plan
from adversary.adversaries.plans.release import observed
from adversary.models import hierarchical_counts, membership
from adversary.models.enumeration.enumerate import enumerate_posterior
from adversary.models.noise.release_law import _law
from adversary.privacy import mechanisms
from tests.catalogue import STORIES
from tests.models.test_graphs import drawn_in_python

RHO = tuple(2.56 * level * query for level, query in [(165 / 4099, 3945 / 4097), (1256 / 4099, 1288 / 4099)])
BLOCK, GROUP = (mechanisms.DiscreteGaussian.from_rho(rho) for rho in RHO)
TWO = Plan([Level("block", BLOCK, siblings=27), Level("block group", GROUP)])
LEARNED = Adversary(0.4, 1, {"block group": Uniform(9)}).after(
    TWO, TWO.observe({"block": 1, "block group": 3}, {"block": 2})
)


GEOMETRIC = mechanisms.Geometric(0.8)
SAME = Plan(
    [
        Level("block", BLOCK, siblings=0),
        Level("zip", mechanisms.Gaussian(2.0), siblings=2),
        Level("tract", mechanisms.Laplace(3.0)),
    ]
)
CELLS = Plan([Level("block", BLOCK, siblings=3), Level("block group", GROUP)], cells=2)
BELIEFS: dict[str, Any] = {
    "bounded": Uniform(6),
    "point that excludes in": Point(2),
    "negative binomial": st.nbinom(2, 0.4),
    "far from the truth": st.poisson(200),
}
PAIRS = {
    "points": (Point(7), Point(5)),
    "mixed": (Uniform(), Others(st.poisson(2))),
    "point and bounded": (Point(7), Uniform(9)),
}

Scenario = tuple[Plan, Adversary, int | None, dict[str, Any]]
SCENARIOS: dict[str, Scenario] = {
    **{name: (story.plan, story.reader, 60, story.truth) for name, story in STORIES.items()},
    **{
        name: (TWO, Adversary(0.3, 2, {"block group": belief}), 90, {"block": 2, "block group": 4})
        for name, belief in BELIEFS.items()
    },
    **{
        f"two cells, {name}": (
            CELLS,
            Adversary(0.4, (2, 1), {"block group": belief}),
            40,
            {"block": (3, 1), "block group": (6, 4)},
        )
        for name, belief in PAIRS.items()
    },
    "learned": (TWO, LEARNED, None, {"block": 1, "block group": 3}),
    "one level, flat": (
        Plan([Level("block", GEOMETRIC)]),
        Adversary(0.2, beliefs={"block": Uniform()}),
        120,
        {"block": 30},
    ),
    "heavy target": (Plan([Level("block", BLOCK)]), Adversary(0.2, 3, hypotheses=(1, 4)), None, {"block": 7}),
    "random rounding above noisy counts": (
        Plan([Level("block", GEOMETRIC, siblings=3), Level("block group", mechanisms.RandomRounding(5))]),
        Adversary(0.3, 1, {"block group": Uniform(9)}),
        None,
        {"block": 2, "block group": 6},
    ),
    "same people, then more": (SAME, Adversary(0.5, 2, {"tract": Uniform()}), 300, {"block": 2, "zip": 2, "tract": 5}),
}
"""Plan, reader, the end of a flat law, and the truth: every story of the catalogue, and what they leave out."""


@pytest.mark.slow_cases("far from the truth")
@pytest.mark.parametrize("name", SCENARIOS)
def test_posteriors_equal_the_exact_engine(name: str) -> None:
    plan, reader, upper, truth = SCENARIOS[name]
    release = plan.release(truth=truth, rng=7, draws=25)
    model = hierarchical_counts(plan, reader, upper)
    assert model.logp().dtype == "float64"
    result = enumerate_posterior(model, observed(release))
    np.testing.assert_allclose(result.posterior, reader.posterior(plan, release).posterior, rtol=1e-9, atol=1e-13)


@pytest.mark.slow_cases("negative binomial")
@pytest.mark.parametrize("name", BELIEFS)
def test_counts_equal_the_exact_engine(name: str) -> None:
    plan, reader, upper, truth = SCENARIOS[name]
    release = plan.release(truth=truth, rng=3)
    result = enumerate_posterior(
        hierarchical_counts(plan, reader, upper), observed(release), ["in", "count[block group]"]
    )
    found = result["probability[count[block group]]"].rename({"count[block group]": "value"})
    exact = reader.posterior(plan, release)["count"].sel(level="block group")
    shared = np.intersect1d(found["value"], exact["value"])
    np.testing.assert_allclose(found.sel(value=shared), exact.sel(value=shared), atol=1e-13)
    assert float(found.sel(value=shared).sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("belief", [Uniform(), Uniform(9), Point(5), Others(st.poisson(3))])
def test_prior_draws_follow_the_story(belief: Any) -> None:
    model = hierarchical_counts(TWO, Adversary(0.25, 2, {"block group": belief}), upper=20)
    draws = pm.sample_prior_predictive(1000, model=model, random_seed=4).prior.isel(chain=0)
    assert float(draws["in"].mean()) == pytest.approx(0.25, abs=4 * math.sqrt(0.25 * 0.75 / 1000))
    assert (draws["count[block]"] == 2 + draws["in"]).all()
    others = draws["count[block group]"] - draws["count[block]"]
    assert (others >= 0).all()
    if isinstance(belief, Uniform):
        assert draws["count[block group]"].max() <= (belief.upper or 20)
    for released, centre, variance in [
        ("noisy[block]", draws["count[block]"], BLOCK.variance),
        ("noisy[block group]", draws["count[block group]"], GROUP.variance),
        ("sibling_sum[block]", others, 27 * BLOCK.variance),
    ]:
        noise = (draws[released] - centre).values
        assert noise.mean() == pytest.approx(0.0, abs=4 * math.sqrt(variance / noise.size))
        assert noise.var() == pytest.approx(variance, rel=4 * math.sqrt(2 / noise.size))


def test_intervening_on_the_target_fixes_the_count() -> None:
    model = pm.do(membership(Plan([Level("block", BLOCK)]), Adversary(0.5, 3)), {"in": 1})
    assert (pm.draw(model["count[block]"], draws=3) == 4).all()


@pytest.mark.parametrize(("pmf", "answer"), [([1.0, 0.0], 0.0), ([0.0, 0.0, 1.0], 1.0)])
def test_a_count_that_settles_the_target(pmf: list[float], answer: float) -> None:
    model = hierarchical_counts(Plan([Level("block", BLOCK)]), attacks.all_but(pmf, 2, level="block"))
    assert float(enumerate_posterior(model, {"noisy[block]": 3}).posterior) == answer


def test_bad_bounds_are_refused_with_the_remedy() -> None:
    reader = Adversary(0.5, 4, {"block group": Uniform()})
    with pytest.raises(ValueError, match=r"level 'block group' is improper: give upper, .* upper=65"):
        hierarchical_counts(TWO, reader)
    with pytest.raises(ValueError, match="level 'block group' is improper"):
        hierarchical_counts(TWO, reader, upper={"tract": 9})
    with pytest.raises(ValueError, match=r"at least known \+ 1 = 5, got 4"):
        hierarchical_counts(TWO, reader, upper=4)
    with pytest.raises(ValueError, match="excludes every count inside, 4 to 5"):
        hierarchical_counts(TWO, Adversary(0.5, 4, {"block group": Uniform(3)}))
    with pytest.raises(ValueError, match="use hierarchical_counts"):
        membership(TWO, reader)


@pytest.mark.parametrize("name", STORIES)
def test_every_law_of_a_story_is_drawn_by_compiled_code(name: str) -> None:
    """But for a mechanism without a formula, whose algorithm is the agency's own."""
    plan, reader = STORIES[name].plan, STORIES[name].reader
    rules = [*(level.mechanism for level in plan.levels), plan.postprocessing]
    own = {type(rule).__name__ for rule in rules if _law.dispatch(type(rule)) is _law.dispatch(object)}
    assert drawn_in_python(hierarchical_counts(plan, reader, upper=20)) <= own


@pytest.mark.parametrize(
    ("belief", "law"),
    [
        (Uniform(), "DiscreteUniform"),
        (Uniform(9), "DiscreteUniform"),
        (st.poisson(3.0), "TruncatedPoisson"),
        (st.nbinom(2, 0.4), "TruncatedNegativeBinomial"),
        (st.binom(5, 0.3), "Binomial(5, 0.3)"),
        (Others([0.2, 0.8]), "Categorical"),
        (BetaBinomial(4, 1.0, 2.0), "BetaBinomial(4, 1, 2)"),
        (GammaPoisson(2.0, 1.0), "TruncatedNegativeBinomial"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_model_says_its_laws_with_the_names_of_pymc(belief: Any, law: str) -> None:
    model = hierarchical_counts(TWO, Adversary(0.25, 2, {"block group": belief}), upper=20)
    told = {
        line.split("~")[0].strip(): line.split("~")[1].strip() for line in model.str_repr().split("\n") if "~" in line
    }
    assert told["others[block group]"].startswith(law)
    assert told["in"] == "Bernoulli(0.25)"
    assert "others[block group]" in pm.model_to_mermaid(model)
