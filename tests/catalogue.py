"""Every kind of object, once: a readable name and an example. Laws are tested over these; a new object is one line.

Where a law concerns some of them, the test selects by class or by a word of the name.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.stats
import xarray as xr

import adversary as adv
from adversary import models
from adversary.literature.canonical import Tulap  # annex: literature
from adversary.privacy.definitions.renyi import RenyiDP
from adversary.privacy.invariants import SpanGaussian, sensitivity_space
from adversary.privacy.losses.composition import compose_losses, repeat_loss
from adversary.privacy.losses.lattice import LatticeLoss
from adversary.privacy.losses.loss import PrivacyLoss, Route
from tests.oracles import paths

SKELETONS = Path(__file__).parents[1] / ".github" / "skeletons"


def skeleton(kind: str) -> ModuleType:
    """A skeleton as a module."""
    spec = importlib.util.spec_from_file_location(f"skeleton_{kind}", SKELETONS / f"{kind}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look
    spec.loader.exec_module(module)
    return module


RHO1 = 2.56 * 165 / 4099 * 3945 / 4097
RHO2 = 2.56 * 1256 / 4099 * 1288 / 4099
RHO_TRACT = 2.56 * 687 / 4099 * 241 / 2051

DG = adv.DiscreteGaussian.from_rho

CELL_KEY = adv.PerturbationTable(
    [
        [0.0, 0.0, 1.0, 0.0, 0.0],  # zeros stay
        [0.0, 0.4, 0.3, 0.2, 0.1],
        [0.2, 0.0, 0.5, 0.2, 0.1],  # never 1
        [0.1, 0.2, 0.4, 0.2, 0.1],
    ],
    lowest=-2,
)

SCORES = adv.PerturbationTable.on_range(adv.Geometric(0.6), 30)
"""Geometric noise on 0 to 30, drawn again until it fits: a range with an end."""

MECHANISMS: dict[str, adv.Mechanism] = {
    "discrete gaussian, census block": DG(RHO1),
    "discrete gaussian, fraction": DG(Fraction(1, 7)),
    "discrete gaussian, narrow": adv.DiscreteGaussian(0.4),
    "discrete gaussian, needle": DG(1e3),
    "discrete gaussian, wide": DG(1e-4),
    "discrete gaussian, very wide": DG(1e-8),
    "discrete gaussian, bounded neighbours": DG(0.3, cells=2),
    "discrete gaussian, sum of 27": DG(RHO1).total(27),
    "discrete gaussian, sum of 5 narrow": DG(1.0).total(5),
    "discrete gaussian, sum of 4 needles": DG(30.0).total(4),
    "geometric": adv.Geometric(1.0),
    "geometric, strong": adv.Geometric(12.0),
    "geometric, weak": adv.Geometric(1e-3),
    "geometric, sum of 6": adv.Geometric(0.7).total(6),
    "gaussian": adv.Gaussian(1.7),
    "laplace": adv.Laplace(0.8),
    "laplace, sum of 3": adv.Laplace(0.8).total(3),
    "staircase": adv.Staircase(1.1),
    "staircase, three wide": adv.Staircase(2.0, 0.7, sensitivity=3),
    "tulap": Tulap(0.9),  # annex: literature
    "tulap, bounded": Tulap(0.9, 0.02),  # annex: literature
    "randomized response": adv.RandomizedResponse(1.0),
    "randomized response, 5 answers": adv.RandomizedResponse(0.4, categories=5),
    "unary encoding": adv.UnaryEncoding.from_epsilon(1.1),
    "unary encoding, optimised": adv.UnaryEncoding.from_epsilon(1.4, optimised=True),
    "unary encoding, permanent bits": adv.UnaryEncoding(0.75, 0.5, ones=2, permanent=0.5),
    "unary encoding, 3 reports": adv.UnaryEncoding(0.75, 0.4, permanent=0.3, reports=3),
    "exact": adv.Exact(),
    "random rounding to 3": adv.RandomRounding(3),
    "random rounding to 5": adv.RandomRounding(5),
    "perturbation table": CELL_KEY,
    "perturbation table, closed": SCORES,
    "perturbation table, closed, local": replace(SCORES, local=True),
    "perturbation table, largest entropy": adv.PerturbationTable.from_parameters(D=2, V=1.05, js=1),
    "perturbation table, rows repeat": replace(CELL_KEY, period=2),
    "geometric on a range, truncated": adv.PerturbationTable.on_range(adv.Geometric(0.6), 30, "truncated"),
    "geometric on a range, reflected": adv.PerturbationTable.on_range(adv.Geometric(0.6), 8, "reflected"),
    "rounded laplace on a range, redrawn": adv.PerturbationTable.on_range(
        adv.postprocessing.rounded(adv.Laplace(1.5), 1), 12
    ),
    "rounded gaussian on a range, truncated": adv.PerturbationTable.on_range(
        adv.postprocessing.rounded(adv.Gaussian(4.0), 1), 8, "truncated"
    ),
    "discrete gaussian on a range, redrawn": adv.PerturbationTable.on_range(DG(0.05), 8),
    "discrete gaussian on a range, truncated": adv.PerturbationTable.on_range(DG(0.05), 8, "truncated"),
    "discrete gaussian on a range, reflected": adv.PerturbationTable.on_range(DG(0.05), 8, "reflected"),
    "laplace on a range, redrawn": adv.RangedNoise(adv.Laplace(1.5), 12),
    "laplace on a range, truncated": adv.RangedNoise(adv.Laplace(1.5), 8, "truncated"),
    "laplace on a range, reflected": adv.RangedNoise(adv.Laplace(4.0), 8, "reflected", local=True),
    "gaussian on a range, redrawn": adv.RangedNoise(adv.Gaussian(2.5), 8),
    "gaussian on a range, truncated": adv.RangedNoise(adv.Gaussian(2.5), 8, "truncated"),
    "gaussian on a range, reflected": adv.RangedNoise(adv.Gaussian(2.5), 8, "reflected"),
    "wide gaussian on a range, reflected": adv.RangedNoise(adv.Gaussian(6.0), 8, "reflected"),
    "suppressed": adv.postprocessing.suppressed(DG(0.3), 4),
    "suppressed laplace": adv.postprocessing.suppressed(adv.postprocessing.rounded(adv.Laplace(1.5), 2), 3),
    "selected": adv.postprocessing.selected(adv.Geometric(0.8), 6),
    "selected, discrete gaussian": adv.postprocessing.selected(DG(0.3), 5, strict=True),
    "suppressed, zeros shown": adv.postprocessing.suppressed(DG(0.3), 8, least=1),
    "suppressed, no noise": adv.postprocessing.suppressed(adv.Exact(), 3),
    "random rounding to 3, suppressed": adv.postprocessing.suppressed(adv.RandomRounding(3), 4),
    "clamped": adv.postprocessing.clamped(DG(RHO1)),
    "clamped at both ends": adv.postprocessing.clamped(adv.Geometric(0.8), 0, 6),
    "rounded": adv.postprocessing.rounded(DG(0.3), 5),
    "rounded, then clamped": adv.postprocessing.clamped(adv.postprocessing.rounded(DG(0.05), 3)),
    "rounded staircase, clamped": adv.postprocessing.clamped(adv.postprocessing.rounded(adv.Staircase(1.5), 2)),
    "rounded laplace": adv.postprocessing.rounded(adv.Laplace(1.5), 2, "half_up"),
    "skeleton": skeleton("mechanism").DiscreteLogistic(1.5),
}


def _uneven() -> LatticeLoss:
    """Four outcomes, one of them impossible under each hypothesis."""
    p, q = np.array([0.5, 0.3, 0.2, 0.0]), np.array([0.2, 0.6, 0.0, 0.2])
    with np.errstate(divide="ignore"):
        return LatticeLoss.from_log_probs(np.log(p), np.log(q))


LOSSES: dict[str, PrivacyLoss] = {
    "discrete gaussian": DG(0.3).privacy_loss(),
    "discrete gaussian, census block": DG(RHO1).privacy_loss(),
    "discrete gaussian, shift 3": DG(0.3).privacy_loss(3),
    "discrete gaussian, two cells": DG(0.3).privacy_loss(1, 2),
    "discrete gaussian, wide": DG(1e-4).privacy_loss(),
    "discrete gaussian, narrow": DG(4.0).privacy_loss(),
    "discrete gaussian, sum": DG(1.0).total(3).privacy_loss(),
    "geometric": adv.Geometric(0.8).privacy_loss(),
    "geometric, shift 3": adv.Geometric(0.8).privacy_loss(3),
    "geometric, two cells": adv.Geometric(0.8).privacy_loss(1, 2),
    "randomized response": adv.RandomizedResponse(1.2).privacy_loss(),
    "randomized response, 4 answers, twice": repeat_loss(adv.RandomizedResponse(0.5, 4).privacy_loss(), 2),
    "gaussian": adv.Gaussian(2.0).privacy_loss(),
    "laplace": adv.Laplace(1.5).privacy_loss(),
    "laplace, two cells": adv.Laplace(3.0).privacy_loss(1, 2),
    "discrete gaussian and geometric": DG(0.3).privacy_loss() + adv.Geometric(0.8).privacy_loss(),
    "gaussian and geometric": adv.Gaussian(2.0).privacy_loss() + adv.Geometric(0.8).privacy_loss(),
    "discrete gaussian and gaussian": DG(0.3).privacy_loss() + adv.Gaussian(2.0).privacy_loss(),
    "discrete gaussians, one lattice": DG(Fraction(1, 7)).privacy_loss(1, 30) + DG(Fraction(2, 5)).privacy_loss(2, 9),
    "discrete gaussians and partly revealing": DG(Fraction(1, 7)).privacy_loss(1, 30) + _uneven(),
    "laplace and geometric": adv.Laplace(1.5).privacy_loss() + adv.Geometric(0.8).privacy_loss(),
    "gaussian, sampled": adv.sampled_loss(adv.Gaussian(1.0).privacy_loss(), 0.2),
    "gaussian, sampled ten times": 10 * adv.sampled_loss(adv.Gaussian(1.0).privacy_loss(), 0.2),
    "laplace, sampled": adv.sampled_loss(adv.Laplace(1.5).privacy_loss(), 0.3),
    "gaussian, sampled without replacement": adv.sampled_loss(
        adv.Gaussian(1.0).privacy_loss(), 0.2, "without replacement"
    ),
    "laplace on a range": adv.RangedNoise(adv.Laplace(1.5), 5).privacy_loss(),
    "nothing released": compose_losses([]),
    "partly revealing": _uneven(),
    "exact": adv.Exact().privacy_loss(),
}

BRACKETED = [name for name, loss in LOSSES.items() if loss.route in (Route.CONTOUR, Route.SMOOTHED, Route.ROUNDED)]
"""Those whose law is known between certified ends only, and to rounding elsewhere."""

GUARANTEES: dict[str, adv.Guarantee] = {
    "pure": adv.PureDP(1.0),
    "pure, weak": adv.PureDP(20.0),
    "pure, zero": adv.PureDP(0.0),
    "approximate": adv.ApproximateDP(1.0, 1e-6),
    "approximate, delta zero": adv.ApproximateDP(0.5, 0.0),
    "approximate, large delta": adv.ApproximateDP(0.1, 0.02),
    "pure, groups of 3": adv.PureDP(1.0).group(3),
    "pure, weak, groups of 2": adv.PureDP(8.0).group(2),
    "approximate, groups of 2": adv.ApproximateDP(1.0, 1e-6).group(2),
    "approximate, groups of 5, little left": adv.ApproximateDP(1.0, 0.05).group(5),
    "probabilistic": adv.ProbabilisticDP(1.0, 1e-3),
    "zCDP": adv.ZeroConcentratedDP(0.07),
    "zCDP, census": adv.ZeroConcentratedDP(2.56),
    "zCDP, tiny": adv.ZeroConcentratedDP(1e-8),
    "zCDP, huge": adv.ZeroConcentratedDP(1e3),
    "renyi": RenyiDP(4.0, 0.3),
    "renyi, low order": RenyiDP(1.05, 2.0),
    "renyi, curve": RenyiDP([1.5, 4.0, 32.0], [0.1, 0.3, 2.4]),
    "approximate zcdp": adv.ApproximateZCDP(0.1, 1e-3),
    "renyi, high order": RenyiDP(200.0, 1e-4),
    "gaussian": adv.GaussianDP(0.5),
    "gaussian, strong": adv.GaussianDP(3.0),
    "none": adv.NoPrivacy(),
    "skeleton": skeleton("guarantee").TotalVariation(0.2),
}


class Believed(NamedTuple):
    """A belief and the same law as an oracle."""

    belief: adv.Belief
    oracle: paths.Law


def _pmf(law: Any, size: int = 400) -> list[float]:
    return [float(x) for x in law.pmf(np.arange(size))]


BELIEFS: dict[str, Believed] = {
    "flat": Believed(adv.Uniform(), paths.flat),
    "flat to 6": Believed(adv.Uniform(6), paths.flat_to(6)),
    "sure of 4": Believed(adv.Point(4), paths.point(4)),
    "sure of 0": Believed(adv.Point(0), paths.point(0)),
    "knows 2 others": Believed(adv.Known(2), paths.known(2)),
    "others pmf": Believed(adv.Others([0.3, 0.0, 0.5, 0.2]), paths.others([0.3, 0.0, 0.5, 0.2])),
    "others poisson": Believed(adv.Others(scipy.stats.poisson(2.5)), paths.others(_pmf(scipy.stats.poisson(2.5)))),
    "others binomial": Believed(adv.Others(scipy.stats.binom(3, 0.4)), paths.others(_pmf(scipy.stats.binom(3, 0.4)))),
    "others geometric": Believed(
        adv.Others(scipy.stats.geom(0.3, loc=-1)), paths.others(_pmf(scipy.stats.geom(0.3, loc=-1)))
    ),
    "unknown rate": Believed(adv.GammaPoisson(3.0, 1.5, 2.0), paths.others(_pmf(scipy.stats.nbinom(3.0, 1.5 / 3.5)))),
    "unknown chance": Believed(
        adv.BetaBinomial(5, 1.5, 4.0), paths.others(_pmf(scipy.stats.betabinom(5, 1.5, 4.0), 6))
    ),
    "skeleton": Believed(skeleton("belief").Turnout(3, 0.3), paths.others(_pmf(scipy.stats.binom(3, 0.3), 4))),
}

PROPER = [name for name, one in BELIEFS.items() if one.belief.proper]

NOISES: dict[str, tuple[adv.Mechanism, Callable[[int], paths.Law]]] = {
    "discrete gaussian": (DG(0.3), lambda count: paths.discrete_gaussian(0.3, count, reach=36)),
    "discrete gaussian, narrow": (DG(2.0), lambda count: paths.discrete_gaussian(2.0, count, reach=18)),
    "geometric": (adv.Geometric(0.9), lambda count: paths.geometric(0.9, count, reach=80)),
}
"""Integer noise, and the oracle's law of a sum of so many of it."""


class Story(NamedTuple):
    """A plan, a reader and a truth the reader holds possible."""

    plan: adv.Plan
    reader: adv.Adversary
    truth: dict[str, Any]


def _two(**siblings: Any) -> adv.Plan:
    return adv.Plan([adv.Level("block", DG(0.4), **siblings), adv.Level("tract", DG(0.6))])


_ONE = adv.Plan([adv.Level("block", DG(0.4))])
_CENSUS = adv.Plan([adv.Level("block", DG(RHO1), siblings=27), adv.Level("block group", DG(RHO2))])
_THREE = adv.Plan(
    [
        adv.Level("block", DG(2.0), siblings=1),
        adv.Level("tract", DG(2.0), siblings=1),
        adv.Level("county", adv.Geometric(2.5)),
    ]
)

STORIES: dict[str, Story] = {
    "one block": Story(_ONE, adv.Adversary(0.5), {"block": 1}),
    "one block, geometric, rare trait": Story(
        adv.Plan([adv.Level("block", adv.Geometric(0.8))]), adv.Adversary(0.01, known=3), {"block": 3}
    ),
    "one block, gaussian": Story(adv.Plan([adv.Level("block", adv.Gaussian(1.5))]), adv.Adversary(0.3), {"block": 0}),
    "one block, laplace": Story(adv.Plan([adv.Level("block", adv.Laplace(1.5))]), adv.Adversary(0.3), {"block": 1}),
    "one block, randomized response": Story(
        adv.Plan([adv.Level("answer", adv.RandomizedResponse(1.0))]), adv.Adversary(0.3), {"answer": 1}
    ),
    "one block, others unknown": Story(
        _ONE, adv.Adversary(0.4, beliefs={"block": adv.Others([0.25, 0.5, 0.25])}), {"block": 2, "in": 1}
    ),
    "one block, sampled": Story(_ONE, adv.Adversary(0.3, known=2, sampling_rate=0.1), {"block": 3}),
    "two levels, sampled": Story(
        _two(siblings=3),
        adv.Adversary(0.4, beliefs={"block": adv.Others([0.5, 0.5]), "tract": adv.Uniform(5)}, sampling_rate=0.3),
        {"block": 1, "tract": 2, "in": 0},
    ),
    "one block, two cells": Story(
        adv.Plan([adv.Level("block", DG(0.4))], cells=2), adv.Adversary(0.4, known=(0, 2)), {"block": [1, 2]}
    ),
    "two levels, flat": Story(
        _two(siblings=3), adv.Adversary(beliefs={"tract": adv.Uniform()}), {"block": 1, "tract": 2}
    ),
    "two levels, flat to 8": Story(
        _two(siblings=3), adv.Adversary(0.2, beliefs={"tract": adv.Uniform(8)}), {"block": 0, "tract": 4}
    ),
    "two levels, sure": Story(
        _two(siblings=3), adv.Adversary(known=1, beliefs={"tract": adv.Point(6)}), {"block": 2, "tract": 6}
    ),
    "two levels, poisson": Story(
        _two(siblings=3), adv.Adversary(beliefs={"tract": scipy.stats.poisson(2.0)}), {"block": 1, "tract": 3}
    ),
    "two levels, same people": Story(_two(siblings=0), adv.Adversary(0.3, known=2), {"block": 3, "tract": 3}),
    "two levels, invariant": Story(
        adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", adv.Exact())]),
        adv.Adversary(0.3, beliefs={"tract": adv.Uniform(5)}),
        {"block": 1, "tract": 4},
    ),
    "two levels, two cells": Story(
        adv.Plan([adv.Level("block", DG(1.5), siblings=1), adv.Level("tract", DG(1.5))], cells=2),
        adv.Adversary(beliefs={"tract": adv.Uniform(3)}),
        {"block": [1, 0], "tract": [2, 1]},
    ),
    "two levels, census": Story(
        _CENSUS, adv.Adversary(beliefs={"block group": adv.Uniform()}), {"block": 1, "block group": 1}
    ),
    "one block, clamped": Story(
        adv.Plan([adv.Level("block", adv.postprocessing.clamped(DG(0.4)))]), adv.Adversary(0.3, known=1), {"block": 2}
    ),
    "one block, random rounding, others unknown": Story(
        adv.Plan([adv.Level("block", adv.RandomRounding(3))]),
        adv.Adversary(0.3, beliefs={"block": adv.Others([0.2, 0.5, 0.2, 0.1])}),
        {"block": 2, "in": 1},
    ),
    "same people, cell key and random rounding": Story(
        adv.Plan([adv.Level("block", CELL_KEY, 0), adv.Level("table 2", adv.RandomRounding(5))]),
        adv.Adversary(0.3, known=1),
        {"block": 2, "table 2": 2},
    ),
    "same people, suppressed and noisy": Story(
        adv.Plan(
            [
                adv.Level("block", adv.postprocessing.suppressed(adv.Exact(), 3), 0),
                adv.Level("table 2", adv.postprocessing.suppressed(DG(0.4), 2)),
            ]
        ),
        adv.Adversary(0.4, beliefs={"block": adv.BetaBinomial(3, 1.0, 2.0)}),
        {"block": 1, "table 2": 1, "in": 0},
    ),
    "one block, rounded, others unknown": Story(
        adv.Plan([adv.Level("block", adv.postprocessing.rounded(DG(0.4), 3))]),
        adv.Adversary(0.4, beliefs={"block": adv.BetaBinomial(3, 1.0, 2.0)}),
        {"block": 1, "in": 0},
    ),
    "two levels, each sibling": Story(
        _two(siblings=2), adv.Adversary(0.3, beliefs={"tract": adv.Each([0.6, 0.3, 0.1])}), {"block": 1, "tract": 2}
    ),
    "two levels, unknown rate": Story(
        _two(siblings=3), adv.Adversary(0.3, beliefs={"tract": adv.GammaPoisson(2.0, 1.0)}), {"block": 0, "tract": 2}
    ),
    "two levels, least squares": Story(
        adv.Plan(
            [adv.Level("block", DG(0.6), siblings=2), adv.Level("tract", DG(0.8))],
            postprocessing=adv.postprocessing.LeastSquares(),
        ),
        adv.Adversary(0.4, beliefs={"tract": adv.Uniform(4)}),
        {"block": 1, "tract": 2},
    ),
    "two levels, least squares, invariant": Story(
        adv.Plan(
            [adv.Level("block", DG(0.6), siblings=3), adv.Level("tract", adv.Exact())],
            postprocessing=adv.postprocessing.LeastSquares("half_up", own_weight=2),
        ),
        adv.Adversary(0.4, known=1, beliefs={"tract": adv.Point(4)}),
        {"block": 2, "tract": 4},
    ),
    "two levels, same people, clamped": Story(
        adv.Plan(
            [adv.Level("block", DG(0.4), siblings=0), adv.Level("tract", DG(0.6))],
            postprocessing=adv.postprocessing.clamped,
        ),
        adv.Adversary(0.3, known=2),
        {"block": 3, "tract": 3},
    ),
    "three levels": Story(
        _THREE,
        adv.Adversary(0.4, beliefs={"tract": adv.Uniform(3), "county": adv.Others([0.5, 0.5])}),
        {"block": 1, "tract": 2, "county": 2},
    ),
}


def _levels(**options: Any) -> adv.Plan:
    return adv.Plan([adv.Level("block", DG(0.4), siblings=3), adv.Level("tract", DG(0.6))], **options)


def _knows(belief: Any) -> adv.Adversary:
    return adv.Adversary(0.4, beliefs={"tract": belief})


def _nested(name: str) -> Any:
    return models.hierarchical_counts(STORIES[name].plan, STORIES[name].reader, upper=9)


_PEOPLE = xr.DataArray([0.2, 0.5, 0.3], dims="rest")
_RECORD = xr.DataArray([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]], dims=("rest", "record"))
_ANSWERS = xr.DataArray(np.arange(18).reshape(3, 3, 2) % 5, dims=("rest", "record", "query"))
_WORLD = (_PEOPLE, _RECORD, DG(0.5), _ANSWERS)

_TOTALS = ([3, 2], [2, 2, 1])
_SHARES = np.array([[0.3, 0.1, 0.1], [0.1, 0.1, 0.3]])


def _of_the_field(name: str) -> Any:
    """A model with an oracle of its own; PyMC is imported for it."""
    from tests.oracles.field import FIELD

    return FIELD[name].build()


MODELS: dict[str, Callable[[], Any]] = {
    "membership": lambda: models.membership(_ONE, adv.Adversary(0.3, known=2)),
    "membership, a rare target": lambda: models.membership(_ONE, adv.Adversary(1e-6, known=2)),
    "membership, others unknown": lambda: models.membership(
        _ONE, adv.Adversary(0.3, beliefs={"block": scipy.stats.poisson(2.0)})
    ),
    **{f"hierarchical_counts, {name}": lambda name=name: _nested(name) for name in STORIES},  # type: ignore[misc]
    "hierarchical_counts, siblings one by one": lambda: models.hierarchical_counts(
        adv.Plan([adv.Level("block", DG(0.4), siblings=2), adv.Level("tract", DG(0.6))]),
        _knows(adv.Each([0.5, 0.3, 0.2])),
        individually=True,
    ),
    "membership, all but three": lambda: models.membership(
        _ONE, adv.attacks.all_but([0.1, 0.2, 0.3, 0.4], 1, level="block")
    ),
    "hierarchical_counts, least squares": lambda: models.hierarchical_counts(
        _levels(postprocessing=adv.postprocessing.LeastSquares()), _knows(adv.Uniform(5))
    ),
    "hierarchical_counts, projected": lambda: models.hierarchical_counts(
        adv.Plan(
            [adv.Level("block", DG(0.9), siblings=1), adv.Level("tract", DG(0.9))],
            postprocessing=adv.postprocessing.NonNegative(),
        ),
        _knows(adv.Uniform(4)),
    ),
    "hierarchical_counts, clamped": lambda: models.hierarchical_counts(
        adv.Plan([adv.Level("block", adv.postprocessing.clamped(DG(0.4)))]), adv.Adversary(0.4, known=1)
    ),
    "actual_world": lambda: models.actual_world(*_WORLD),
    "counterfactual_world": lambda: models.counterfactual_world(*_WORLD),
    "counterfactual_world, a record instead": lambda: models.counterfactual_world(*_WORLD, default=1),
    "invariants": lambda: models.invariants(_TOTALS, DG(0.4), _SHARES, target=(0, 1)),
    "invariants, some records known": lambda: models.invariants(
        ([3, 2], [2, 3]),
        adv.Laplace(1.5),
        adv.known_totals.Dirichlet([[1.0, 2.0], [0.5, 1.5]]),
        known=[[1, 0], [0, 1]],
        target=(1, 1),
    ),
    "invariants, noise on the span": lambda: models.invariants(
        _TOTALS, SpanGaussian(sensitivity_space(*_TOTALS, 3), 1.0), target=(1, 0)
    ),
    "skeleton": lambda: skeleton("model").shared_household(adv.Geometric(0.8), 0.2),
    "field, multinomial cells": lambda: _of_the_field("multinomial cells"),
    "field, Dirichlet-multinomial blocks": lambda: _of_the_field("Dirichlet-multinomial blocks"),
    "field, hypergeometric sample": lambda: _of_the_field("hypergeometric sample"),
}
"""Models whose latents are all discrete, by the name of the function that builds them; "field" is `oracles.field`."""

SMALLEST, LARGEST = 5e-324, 1e250
"""The smallest positive double, and one whose square is none while ten of it are."""

EXTREME_GUARANTEES: dict[str, adv.Guarantee] = {
    "pure, 1e-10": adv.PureDP(1e-10),
    "pure, 1e5": adv.PureDP(1e5),
    "pure, 1e-10, groups of 3": adv.PureDP(1e-10).group(3),
    "pure, 1e5, groups of 2": adv.PureDP(1e5).group(2),
    "approximate, 1e-10 and 1e-300": adv.ApproximateDP(1e-10, 1e-300),
    "approximate, 1e5 and 1e-300": adv.ApproximateDP(1e5, 1e-300),
    "approximate, delta near 1": adv.ApproximateDP(1.0, 1.0 - 1e-10),
    "approximate, 1e-10 and 1e-300, groups of 2": adv.ApproximateDP(1e-10, 1e-300).group(2),
    "approximate, 1e5 and 1e-300, groups of 2": adv.ApproximateDP(1e5, 1e-300).group(2),
    "probabilistic, 1e-10 and 1e-300": adv.ProbabilisticDP(1e-10, 1e-300),
    "probabilistic, 1e5 and 1e-300": adv.ProbabilisticDP(1e5, 1e-300),
    "zCDP, zero": adv.ZeroConcentratedDP(0.0),
    "renyi, small gamma": RenyiDP(2.0, 1e-10),
    "renyi, order 1.0001": RenyiDP(1.0001, 0.5),
    "renyi, high order, large gamma": RenyiDP(1e5, 1e3),
    "gaussian, 1e-10": adv.GaussianDP(1e-10),
    "gaussian, 1e3": adv.GaussianDP(1e3),
    "gaussian, zero": adv.GaussianDP(0.0),
    "pure, smallest": adv.PureDP(SMALLEST),
    "pure, smallest, groups of 2": adv.PureDP(SMALLEST).group(2),
    "approximate, smallest": adv.ApproximateDP(SMALLEST, SMALLEST),
    "approximate, smallest, groups of 2": adv.ApproximateDP(SMALLEST, SMALLEST).group(2),
    "probabilistic, smallest": adv.ProbabilisticDP(SMALLEST, SMALLEST),
    "zCDP, smallest": adv.ZeroConcentratedDP(SMALLEST),
    "zCDP, denormal": adv.ZeroConcentratedDP(1e-310),
    "zCDP, 1e-160": adv.ZeroConcentratedDP(1e-160),
    "zCDP, 1e5": adv.ZeroConcentratedDP(1e5),
    "zCDP, largest": adv.ZeroConcentratedDP(LARGEST),
    "zCDP, largest double": adv.ZeroConcentratedDP(1.7976931348623157e308),
    "renyi, smallest gamma": RenyiDP(2.0, SMALLEST),
    "renyi, largest gamma": RenyiDP(2.0, LARGEST),
    "renyi, high order, largest gamma": RenyiDP(1e300, LARGEST),
    "pure, largest": adv.PureDP(LARGEST),
    "approximate, largest": adv.ApproximateDP(LARGEST, 1e-6),
    "probabilistic, largest": adv.ProbabilisticDP(LARGEST, 1e-6),
    "renyi, order next to 1, smallest gamma": RenyiDP(1.0 + 2.0**-52, SMALLEST),
    "renyi, high order, smallest gamma": RenyiDP(1e300, SMALLEST),
    "gaussian, smallest": adv.GaussianDP(SMALLEST),
    "gaussian, largest": adv.GaussianDP(LARGEST),
}
"""The ends of what definitions are asked about, those of zCDP above."""

EXTREME_LOSSES: dict[str, PrivacyLoss] = {
    "randomized response, 1e-10": adv.RandomizedResponse(1e-10).privacy_loss(),
    "randomized response, 1e5": adv.RandomizedResponse(1e5).privacy_loss(),
    "randomized response, 800, 4 answers": adv.RandomizedResponse(800.0, 4).privacy_loss(),
    "geometric, 1e-10": adv.Geometric(1e-10).privacy_loss(),
    "geometric, 1e5": adv.Geometric(1e5).privacy_loss(),
    "geometric, 1e5, shift 3": adv.Geometric(1e5).privacy_loss(3),
    "laplace, 1e-10": adv.Laplace.from_epsilon(1e-10).privacy_loss(),
    "laplace, 1e5": adv.Laplace.from_epsilon(1e5).privacy_loss(),
    "gaussian, 1e-10": adv.Gaussian(1e10).privacy_loss(),
    "gaussian, 1e3": adv.Gaussian(1e-3).privacy_loss(),
    "discrete gaussian, 1e-8": DG(1e-8).privacy_loss(),
    "discrete gaussian, 1e3": DG(1e3).privacy_loss(),
    "pure, 1e-10, three times": 3 * adv.PureDP(1e-10),
    "pure, 1e5, three times": 3 * adv.PureDP(1e5),
    "randomized response, 1e-17": adv.RandomizedResponse(1e-17).privacy_loss(),
    "geometric, 1e-100, two cells": adv.Geometric(1e-100).privacy_loss(1, 2),
    "pure, 1e-17, three times": 3 * adv.PureDP(1e-17),
    "laplace and geometric, 1e-10": adv.Laplace.from_epsilon(1e-10).privacy_loss()
    + adv.Geometric(1e-10).privacy_loss(),
    "gaussian and geometric, 1e-10": adv.Gaussian(1e10).privacy_loss() + adv.Geometric(1e-10).privacy_loss(),
    "discrete gaussians, 1e-10 and 0.3": DG(1e-10).privacy_loss() + DG(0.3).privacy_loss(),
    "discrete gaussians, 1e-10 and 0.3, and geometric": DG(1e-10).privacy_loss()
    + DG(0.3).privacy_loss()
    + adv.Geometric(1e-10).privacy_loss(),
    "gaussian and laplace, 1e-5": adv.Gaussian(1e5).privacy_loss() + adv.Laplace.from_epsilon(1e-5).privacy_loss(),
}
"""Losses of noise that hides nearly all, or nearly nothing."""
