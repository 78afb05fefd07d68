"""What a user's own model must keep, by every way in: one line that names the variable and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import adversary as adv
from adversary.models import fit, noise

Build = Callable[[], Any]
G = adv.Geometric(1.0)

ROUTES: dict[str, Callable[[pm.Model], Any]] = {
    "enumerate_posterior": lambda model: adv.enumerate_posterior(model, {"noisy": 1}),
    "audit_model": lambda model: adv.audit_model(model, {"in": 1}, draws=5, rng=1, progress=False),
    "importance": lambda model: adv.audit_model(model, {"in": 1}, draws=5, engine="importance", progress=False),
    "fit": lambda model: fit(model, {"noisy": 1}, progress=False),
    "audit": lambda model: adv.audit(adv.Plan([adv.Level("block", G)]), model, {"block": 1, "in": 1}, progress=False),
}


def model_of(build: Build, **coords: Any) -> pm.Model:
    with pm.Model(coords=coords) as model:
        build()
    return model


def present() -> Any:
    return pm.Bernoulli("in", np.float64(0.3))


def simulator(name: str, mean: Any, **options: Any) -> Any:
    """A free or observed simulator; what PyMC warns of while it is built is PyMC's affair."""
    return pm.Simulator(name, lambda rng, mean, size: rng.poisson(mean, size), mean, **options)


def random_density(value: Any) -> Any:
    return -0.5 * value**2 + pt.random.normal()


WITHOUT_DENSITY: dict[str, tuple[Build, str]] = {
    "a simulated release": (lambda: simulator("noisy", present()), "'noisy' is a pm.Simulator"),
    "a simulated latent": (
        lambda: noise.released("noisy", G, present() + pm.math.ceil(simulator("s", 3.0)).astype("int64")),
        "'s' is a pm.Simulator",
    ),
    "simulated side data": (
        lambda: (noise.released("noisy", G, present()), simulator("s", 3.0, observed=2.0)),
        "'s' is a pm.Simulator",
    ),
    "a release of an unnamed variable": (
        lambda: noise.released("noisy", G, present() + pm.Poisson.dist(2.0)),
        r"'noisy' reads a random variable \(poisson\) that is not in the model",
    ),
    "a latent of an unnamed variable": (
        lambda: noise.released("noisy", G, pm.Bernoulli("in", pm.Beta.dist(1, 1))),
        r"'in' reads a random variable \(beta\)",
    ),
    "a potential that draws": (
        lambda: (noise.released("noisy", G, present()), pm.Potential("p", pm.Normal.dist(0, 1))),
        r"'p' reads a random variable \(normal\)",
    ),
    "a target that draws": (
        lambda: (
            noise.released("noisy", G, x := pm.Bernoulli("x", 0.5)),
            pm.Deterministic("in", x * pm.Bernoulli.dist(0.5)),
        ),
        r"'in' reads a random variable \(bernoulli\)",
    ),
    "a density that draws": (
        lambda: (
            noise.released("noisy", G, present()),
            pm.CustomDist("side", logp=random_density, observed=1.0),
        ),
        r"'side' reads a random variable \(normal\)",
    ),
    "a law without a density": (
        lambda: (
            noise.released("noisy", G, present()),
            pm.CustomDist("side", random=lambda rng=None, size=None: rng.normal(size=size), observed=1.0),
        ),
        "the law of 'side' has no log density that PyMC can derive",
    ),
    "a product of draws": (
        lambda: (
            noise.released("noisy", G, present()),
            pm.CustomDist(
                "side", dist=lambda size: pm.Normal.dist(size=size) * pm.Normal.dist(size=size), observed=1.0
            ),
        ),
        "the law of 'side' has no log density that PyMC can derive",
    ),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("case", WITHOUT_DENSITY)
def test_a_law_without_a_fixed_density_is_refused_by_every_way_in(case: str, route: str) -> None:
    build, message = WITHOUT_DENSITY[case]
    model = model_of(build)
    enumerable = all(rv.dtype.startswith("int") for rv in model.free_RVs)
    if route == "enumerate_posterior" and not enumerable and "noisy" not in message:
        message = r"latent 's' is continuous"
    if route == "audit" and case == "a simulated release":
        message = "the model's 'noisy' is continuous"
    with pytest.raises((ValueError, TypeError), match=message) as refused:
        ROUTES[route](model)
    assert "\n" not in str(refused.value)


def test_draws_inside_named_laws_are_no_draws_of_the_density() -> None:
    """Components of mixtures and truncations are laws, and a derived release has the density of its draw."""

    def build() -> None:
        parts = [pm.Binomial.dist(3, np.float64(p)) for p in (0.2, 0.7)]
        others = pm.Mixture("others", np.array([0.5, 0.5]), parts)
        pm.Deterministic("noisy", present() + others + noise.Geometric.dist(0, 1.0))

    found = adv.enumerate_posterior(model_of(build), {"noisy": 2})
    law = [0.5 * sum(np.prod([p**k, (1 - p) ** (3 - k), [1, 3, 3, 1][k]]) for p in (0.2, 0.7)) for k in range(4)]
    joint = [chance * sum(law[k] * np.exp(-abs(2 - i - k)) for k in range(4)) for i, chance in ((0, 0.7), (1, 0.3))]
    assert found.posterior.item() == pytest.approx(joint[1] / sum(joint), abs=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: noise.released("noisy", G, present() + pm.Binomial("o", 3, pm.math.sigmoid(pm.Flat("f")))), "'f' has"),
        (
            lambda: noise.released("noisy", G, present() + pm.Poisson("o", pm.HalfFlat("f"))),
            r"'f' has no proper law \(pm.HalfFlat\)",
        ),
        (
            lambda: pm.CustomDist("noisy", present(), logp=lambda v, mean: -abs(v - mean), dtype="int64"),
            "'noisy' is a pm.CustomDist without random=.* simulate=",
        ),
        (
            lambda: pm.Normal("noisy", present() + pm.DiracDelta("d", 2.5)),
            "'d' is a pm.DiracDelta over the real numbers",
        ),
        (
            lambda: pm.Potential("p", -abs(noise.released("noisy", G, present()))),
            "pm.Potential 'p' reads the release 'noisy'.* Put it into the law of 'noisy'",
        ),
    ],
    ids=["flat", "half flat", "no random", "real point mass", "potential of the release"],
)
def test_a_model_whose_releases_cannot_be_drawn_is_refused(build: Build, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        ROUTES["audit_model"](model_of(build))
    assert "\n" not in str(refused.value)


def test_releases_made_by_hand_need_no_random() -> None:
    model = model_of(lambda: pm.CustomDist("noisy", present(), logp=lambda v, mean: -abs(v - mean), dtype="int64"))
    tree = adv.audit_model(model, {"in": 1}, simulate=lambda rng, n: {"noisy": np.ones(n, int)}, draws=3, rng=1)
    assert tree["risk"]["posterior_mean"].item() == pytest.approx(0.3 / (0.3 + 0.7 / np.e), abs=1e-12)


@pytest.mark.parametrize("point", [3, 300, 70_000])
def test_a_point_mass_of_whole_numbers_is_enumerated_whatever_its_size(point: int) -> None:
    """PyTensor stores it in 8, 16 or 32 bits."""
    model = model_of(lambda: noise.released("noisy", G, present() + pm.DiracDelta("d", point)))
    found = adv.enumerate_posterior(model, {"noisy": point + 1})
    assert found.posterior.item() == pytest.approx(0.3 / (0.3 + 0.7 / np.e), abs=1e-14)


@pytest.mark.parametrize("route", ["enumerate_posterior", "audit_model", "fit"])
@pytest.mark.parametrize(
    ("build", "coords", "message"),
    [
        (lambda: noise.released("noisy", G, present() + np.zeros(2, int), dims="release"), {"release": "ab"}, "dimens"),
        (lambda: noise.released("noisy", G, present() + pm.Binomial("release", 2, 0.5)), {}, "variable 'release'"),
        (lambda: noise.released("noisy", G, present() + pm.Binomial("chain", 2, 0.5)), {}, "variable 'chain'"),
    ],
    ids=["dimension", "variable", "chain"],
)
def test_a_name_that_the_result_has_itself_is_refused(route: str, build: Build, coords: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}.* has the name of a part of the result: rename it"):
        ROUTES[route](model_of(build, **coords))


def test_a_release_or_a_target_called_like_a_number_of_the_result_is_refused() -> None:
    weight = model_of(lambda: noise.released("weight", G, present()))
    with pytest.raises(ValueError, match="released variable 'weight' of the model has the name of a part"):
        adv.audit_model(weight, {"in": 1}, released="weight", draws=5)
    named = model_of(lambda: noise.released("noisy", G, pm.Bernoulli("posterior", 0.3)))
    with pytest.raises(ValueError, match="'posterior' of the model has the name of a part of the result"):
        adv.enumerate_posterior(named, {"noisy": 1}, target="posterior")


@pytest.mark.parametrize("route", ["enumerate_posterior", "audit_model"])
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: pm.Bernoulli("member", 0.3), r"did you mean target='member'\?"),
        (lambda: pm.Bernoulli("member", 0.3) + pm.Binomial("others", 3, 0.2), r"did you mean target='member'\?"),
        (lambda: pm.Bernoulli("in_", 0.3) + pm.Bernoulli("b", 0.2), r"did you mean target='in_'\?"),
        (
            lambda: pm.Bernoulli("one", 0.3) + pm.Bernoulli("two", 0.2),
            r"name one of \['(one|two)', '(one|two)'\] with target=",
        ),
    ],
    ids=["only one", "only one binary", "close", "several"],
)
def test_a_target_under_another_name_is_proposed(route: str, build: Build, message: str) -> None:
    model = model_of(lambda: noise.released("noisy", G, build()))
    with pytest.raises(ValueError, match=f"target 'in' is not in the model; {message}"):
        ROUTES[route](model)


@pytest.mark.parametrize("route", ["enumerate_posterior", "audit_model", "fit"])
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: noise.released("noisy", G, pm.Bernoulli("in", 1.3)), "the law of 'in' has a parameter .* 0 <= p <= 1"),
        (
            lambda: (pm.Normal("side", present(), sigma=-1.0, observed=0.0), noise.released("noisy", G, 1)),
            "the law of 'side' has a parameter out of its range: it must have sigma > 0",
        ),
    ],
    ids=["latent", "side data"],
)
def test_a_fixed_parameter_out_of_its_range_is_named(route: str, build: Build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ROUTES[route](model_of(build))


MISTAKES: dict[str, tuple[Build, str]] = {
    "no release": (lambda: present(), "no variable is called noisy: name the released ones in released"),
    "a misspelt release": (
        lambda: noise.released("nosiy", G, present()),
        r"no variable is called noisy.*did you mean 'nosiy'\?",
    ),
    "a continuous target": (
        lambda: noise.released("noisy", G, pm.Binomial("n", 3, pm.Beta("in", 1, 1))),
        r"target 'in' is continuous.* pm.Deterministic\(\"high\", model\['in'\] > 0.5\)",
    ),
    "a count as target": (
        lambda: noise.released("noisy", G, pm.Binomial("in", 3, 0.5)),
        r"target 'in' must be 0 or 1, it takes the values \[0, 1, 2, 3\]",
    ),
    "a vector as target": (
        lambda: noise.released("noisy", G, pm.Bernoulli("in", 0.3, shape=2)),
        r"target 'in' has 1 dimension.* model\['in'\]\[0\]\), and target=\"one\"",
    ),
    "nothing unknown": (lambda: noise.released("noisy", G, 3), "the model has no latents besides its release"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_newcomers_mistake_is_one_line(case: str) -> None:
    build, message = MISTAKES[case]
    with pytest.raises(ValueError, match=message) as refused:
        adv.audit_model(model_of(build), {"in": 1}, draws=5, rng=1, progress=False)
    assert "\n" not in str(refused.value)


def test_a_misspelt_observed_name_is_proposed() -> None:
    model = model_of(lambda: noise.released("noisy", G, present()))
    with pytest.raises(ValueError, match=r"observed 'nosy' is not in the model.*did you mean 'noisy'\?"):
        adv.enumerate_posterior(model, {"nosy": 1})
