"""The count models against explicit sums over every state, and against the exact engine on many releases."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pymc as pm
import pytest
import scipy.stats as st
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify

from adversary.models import hierarchical_counts, membership
from adversary.models.enumeration.enumerate import enumerate_posterior
from adversary.privacy import mechanisms
from adversary.reader.beliefs.belief import Others, Point, Uniform
from adversary.reader.beliefs.unknown_rate import BetaBinomial, GammaPoisson
from adversary.reader.path.adversary import Adversary
from adversary.reader.plans.plan import Level, Plan
from adversary.reader.plans.release import observed
from adversary.reader.postprocessing import suppressed
from tests.catalogue import CELL_KEY, STORIES

RHO = tuple(
    2.56 * level * query
    for level, query in [(165 / 4099, 3945 / 4097), (1256 / 4099, 1288 / 4099), (687 / 4099, 241 / 2051)]
)
BLOCK, GROUP, TRACT = (mechanisms.DiscreteGaussian.from_rho(rho) for rho in RHO)
TWO = Plan([Level("block", BLOCK, siblings=27), Level("block group", GROUP)])
THREE = Plan([Level("block", BLOCK, siblings=27), Level("block group", GROUP, siblings=3), Level("tract", TRACT)])
LEARNED = Adversary(0.4, 1, {"block group": Uniform(9)}).after(
    TWO, TWO.observe({"block": 1, "block group": 3}, {"block": 2})
)


def gaussian(k: int, rho: float) -> float:
    return math.exp(-rho * k * k) / sum(math.exp(-rho * j * j) for j in range(-80, 81))


def gaussian_sum(rho: float, count: int, reach: int = 40) -> dict[int, float]:
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, [gaussian(k, rho) for k in range(-reach, reach + 1)])
    return dict(zip(range(-(total.size // 2), total.size // 2 + 1), total.tolist(), strict=True))


def law(belief: Any, total: int, inside: int) -> float:
    """Weight of a total, written out afresh for each kind of belief."""
    match belief:
        case Uniform(upper=None):
            return float(total >= inside)
        case Uniform(upper=upper):
            return (inside <= total <= upper) / max(upper - inside + 1, 1)
        case Point(total=value):
            return float(total == value >= inside)
        case Others(law=pmf) if isinstance(pmf, np.ndarray):
            return float(pmf[total - inside]) if 0 <= total - inside < len(pmf) else 0.0
        case _:
            return float(belief.pmf(total - inside)) if total >= inside else 0.0


BELIEFS: dict[str, Any] = {
    "flat": Uniform(),
    "bounded": Uniform(6),
    "point": Point(4),
    "point that excludes in": Point(0),
    "pmf": Others([0.1, 0.0, 0.6, 0.3]),
    "poisson": st.poisson(3.0),
    "negative binomial": st.nbinom(2, 0.4),
}


@pytest.mark.parametrize("name", BELIEFS)
def test_two_levels_equal_a_loop_over_states(name: str) -> None:
    belief, known = BELIEFS[name], 0
    reader = Adversary(0.3, known, {"block group": belief})
    model = hierarchical_counts(TWO, reader, upper=70)
    h = gaussian_sum(RHO[0], 27, 22)
    for noisy1, noisy2, total in [(2, 1, -1), (-1, 4, 7)]:
        joint = {
            (k, x): (0.3 if k else 0.7)
            * law(belief, x, k)
            * gaussian(noisy1 - k, RHO[0])
            * gaussian(noisy2 - x, RHO[1])
            * h[total - x + k]
            for k, x in itertools.product((0, 1), range(71))
        }
        values = {"noisy[block]": noisy1, "noisy[block group]": noisy2, "sibling_sum[block]": total}
        result = enumerate_posterior(model, values, ["in", "count[block group]"])
        evidence = sum(joint.values())
        expected = sum(p for (k, _), p in joint.items() if k) / evidence
        assert result["posterior[in]"].item() == pytest.approx(expected, abs=1e-13)
        counts = result["probability[count[block group]]"]
        for x in counts["count[block group]"].values:
            expected = (joint.get((0, x), 0) + joint.get((1, x), 0)) / evidence
            assert counts.sel({"count[block group]": x}).item() == pytest.approx(expected, abs=1e-13)


GEOMETRIC = mechanisms.Geometric(0.8)
ONE = Plan([Level("block", GEOMETRIC)])
SAME = Plan(
    [
        Level("block", BLOCK, siblings=0),
        Level("zip", mechanisms.Gaussian(2.0), siblings=2),
        Level("tract", mechanisms.Laplace(3.0)),
    ]
)
INVARIANT = Plan([Level("block", GEOMETRIC, siblings=3), Level("block group", mechanisms.Exact())])
CELLS = Plan([Level("block", BLOCK, siblings=3), Level("block group", GROUP)], cells=2)
ABOVE = {**BELIEFS, "point": Point(7), "point that excludes in": Point(2), "far from the truth": st.poisson(200)}
PAIRS = {
    "flat": Uniform(),
    "points": (Point(7), Point(5)),
    "mixed": (Uniform(), Others(st.poisson(2))),
    "point and bounded": (Point(7), Uniform(9)),
    "poisson": st.poisson(3.0),
}

Scenario = tuple[Plan, Adversary, int | None, dict[str, Any]]
SCENARIOS: dict[str, Scenario] = {
    **{
        name: (TWO, Adversary(0.3, 2, {"block group": belief}), 90, {"block": 2, "block group": 4})
        for name, belief in ABOVE.items()
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
    "one level": (ONE, Adversary(0.2, 4), None, {"block": 5}),
    "one level, unknown others": (ONE, Adversary(0.2, beliefs={"block": st.binom(5, 0.5)}), None, {"block": 3}),
    "one level, flat": (ONE, Adversary(0.2, beliefs={"block": Uniform()}), 120, {"block": 30}),
    "heavy target": (Plan([Level("block", BLOCK)]), Adversary(0.2, 3, hypotheses=(1, 4)), None, {"block": 7}),
    "randomised response": (
        Plan([Level("block", mechanisms.RandomizedResponse(1.0, 3))]),
        Adversary(0.3, 1),
        None,
        {"block": 2},
    ),
    "random rounding, unknown others": (
        Plan([Level("block", mechanisms.RandomRounding(3))]),
        Adversary(0.2, beliefs={"block": st.binom(5, 0.5)}),
        None,
        {"block": 3},
    ),
    "cell key and suppression": (
        Plan([Level("block", CELL_KEY, 0), Level("table 2", suppressed(mechanisms.Exact(), 3))]),
        Adversary(0.2, beliefs={"block": st.binom(5, 0.5)}),
        None,
        {"block": 2, "table 2": 2},
    ),
    "random rounding above noisy counts": (
        Plan([Level("block", GEOMETRIC, siblings=3), Level("block group", mechanisms.RandomRounding(5))]),
        Adversary(0.3, 1, {"block group": Uniform(9)}),
        None,
        {"block": 2, "block group": 6},
    ),
    "three levels": (
        THREE,
        Adversary(0.5, 0, {"block group": Uniform(8), "tract": Uniform(12)}),
        None,
        {"block": 1, "block group": 2, "tract": 4},
    ),
    "same people": (SAME, Adversary(0.5, 2, {"tract": Uniform()}), 300, {"block": 2, "zip": 2, "tract": 5}),
    "invariant": (INVARIANT, Adversary(0.5, 2, {"block group": Uniform()}), 30, {"block": 3, "block group": 7}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_story_agrees_with_the_exact_engine(name: str) -> None:
    plan, reader, upper, truth = SCENARIOS[name]
    release = plan.release(truth=truth, rng=7, draws=25)
    model = hierarchical_counts(plan, reader, upper)
    assert model.logp().dtype == "float64"
    result = enumerate_posterior(model, observed(release))
    np.testing.assert_allclose(result.posterior, reader.posterior(plan, release).posterior, rtol=1e-9, atol=1e-13)


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


def test_every_law_of_a_story_is_drawn_by_compiled_code() -> None:
    """But for a post-processing, whose algorithm is the agency's own: otherwise Numba mode would warn."""
    for name, story in STORIES.items():
        model = hierarchical_counts(story.plan, story.reader, upper=20)
        for node in (rv.owner for rv in model.basic_RVs):
            if not isinstance(node.op, CustomDistRV | SymbolicRandomVariable):
                assert numba_core_rv_funcify.dispatch(type(node.op)) is not numba_core_rv_funcify.dispatch(object), name


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
