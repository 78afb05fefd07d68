"""Privacy frameworks on joint laws, against posteriors and likelihoods spelled out in loops, one release at a time."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.special import rel_entr

import adversary as adv
from adversary.literature import frameworks
from adversary.literature.frameworks import compare
from adversary.literature.joint_distribution import LEVELS, JointDistribution
from adversary.literature.noise_mixtures import Mixtures
from adversary.privacy.mechanisms import LocalReport
from adversary.privacy.mechanisms.mechanism import Mechanism
from tests.catalogue import MECHANISMS
from tests.tables import over

XOR = JointDistribution([[[0.25, 0.0], [0.0, 0.25]], [[0.0, 0.25], [0.25, 0.0]]])
AGREE = JointDistribution([[0.4, 0.1], [0.1, 0.4]])


def random_case(rng: np.random.Generator, *, impossible: bool = False) -> tuple[JointDistribution, Any]:
    """A law of one to three records with two or three values each, and a query without any structure."""
    shape = tuple(rng.integers(2, 4, rng.integers(1, 4)))
    p = rng.dirichlet(np.full(math.prod(shape), rng.choice([0.1, 0.3, 1.0, 5.0]))).reshape(shape)
    p = np.maximum(p, 1e-12)
    if impossible:
        p *= rng.random(shape) < 0.6
        p.flat[0] += 1e-3
    return JointDistribution(p / p.sum()), rng.integers(0, rng.integers(2, 6), shape)


def independent_case(rng: np.random.Generator) -> tuple[JointDistribution, Any]:
    sizes = rng.integers(2, 4, rng.integers(1, 4))
    law = JointDistribution.independent({f"r{i}": rng.dirichlet(np.ones(k)).tolist() for i, k in enumerate(sizes)})
    return law, rng.integers(0, 5, tuple(sizes))


def mechanisms(rng: np.random.Generator) -> list[Mechanism]:
    scale = float(rng.uniform(0.3, 3.0))
    return [
        adv.Laplace(scale),
        adv.Geometric(1.0 / scale),
        adv.RandomizedResponse(1.0 / scale, 6),
        adv.Gaussian(scale),
        adv.DiscreteGaussian(scale),
        adv.Exact(),
    ]


# The oracle: dictionaries and loops


def density(mechanism: Any, output: float, answer: float) -> float:
    match mechanism:
        case adv.Laplace():
            return math.exp(-abs(output - answer) / mechanism.scale) / (2 * mechanism.scale)
        case adv.Geometric():
            a = math.exp(-mechanism.epsilon)
            return (1 - a) / (1 + a) * a ** abs(output - answer)
    e = math.exp(mechanism.epsilon)
    return (e if output == answer else 1.0) / (e + mechanism.categories - 1)


def outputs(mechanism: Any, answers: set[int]) -> list[float]:
    match mechanism:
        case adv.Laplace():
            low, high = min(answers) - 3 * mechanism.scale, max(answers) + 3 * mechanism.scale
            return sorted({low + (high - low) * i / 300 for i in range(301)} | {float(a) for a in answers})
        case adv.Geometric():
            return [float(k) for k in range(min(answers) - 60, max(answers) + 61)]
    return [float(k) for k in range(mechanism.categories)]


class Oracle:
    """Posterior against prior, odds and ratios by their definitions, from the joint table of (database, output)."""

    def __init__(self, law: JointDistribution, query: Any, mechanism: Any) -> None:
        sizes = law.array.shape
        self.everything = list(itertools.product(*(range(k) for k in sizes)))
        self.records = range(len(sizes))
        self.prior = {x: float(law.array[x]) for x in self.everything if law.array[x] > 0}
        self.outputs = outputs(mechanism, {int(query[x]) for x in self.everything})
        self.f = {x: [density(mechanism, o, float(query[x])) for o in self.outputs] for x in self.everything}

    def chance(self, event: Any) -> list[float]:
        """P(event, output) over outputs."""
        total = [0.0] * len(self.outputs)
        for x, p in self.prior.items():
            if event(x):
                total = [a + p * f for a, f in zip(total, self.f[x], strict=True)]
        return total

    def mass(self, event: Any) -> float:
        return sum(p for x, p in self.prior.items() if event(x))

    def differential_privacy(self) -> float:
        return max(
            abs(math.log(a / b))
            for x, y in itertools.combinations(self.everything, 2)
            if sum(i != j for i, j in zip(x, y, strict=True)) == 1
            for a, b in zip(self.f[x], self.f[y], strict=True)
        )

    def contests(self, level: str) -> list[list[Any]]:
        """Sets of competing events, with what else is known."""
        if level == "database":
            return [[(lambda x, y=y: x == y, lambda x: True) for y in self.prior]]
        found = []
        for i in self.records:
            rests = {x[:i] + x[i + 1 :] for x in self.prior} if level == "known" else {None}
            for rest in rests:

                def known(x: Any, i: int = i, rest: Any = rest) -> bool:
                    return rest is None or x[:i] + x[i + 1 :] == rest

                values = sorted({x[i] for x in self.prior if known(x)})
                found.append([(lambda x, i=i, v=v, known=known: known(x) and x[i] == v, known) for v in values])
        return found

    def inferential(self, level: str) -> float:
        """Posterior odds over prior odds, all pairs of one contest."""
        worst = 0.0
        for contest in self.contests(level):
            for (a, _), (b, _) in itertools.combinations(contest, 2):
                prior = self.mass(a) / self.mass(b)
                for p, q in zip(self.chance(a), self.chance(b), strict=True):
                    worst = max(worst, abs(math.log(p / q / prior)))
        return worst

    def membership(self, level: str) -> float:
        worst = 0.0
        for contest in self.contests(level):
            for event, known in contest:
                prior = self.mass(event) / self.mass(known)
                for p, q in zip(self.chance(event), self.chance(known), strict=True):
                    worst = max(worst, abs(math.log(p / q / prior)))
        return worst

    def information(self, level: str) -> float:
        """E[log posterior / prior], for mechanisms whose outputs are all listed."""
        each = []
        for contest in self.contests(level):
            each.append(0.0)
            for event, known in contest:
                prior = self.mass(event) / self.mass(known)
                for p, q in zip(self.chance(event), self.chance(known), strict=True):
                    each[-1] += p * math.log(p / q / prior)
        if level != "known":
            return max(each)
        rests = [len({x[:i] + x[i + 1 :] for x in self.prior}) for i in self.records]
        ends = list(itertools.accumulate(rests))
        return max(sum(each[end - rest : end]) for end, rest in zip(ends, rests, strict=True))


@pytest.mark.parametrize("seed", range(12))
def test_epsilons_are_those_of_posteriors_enumerated_in_loops(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law, query = random_case(rng, impossible=seed % 3 == 0)
    while law.array.size > 12:
        law, query = random_case(rng, impossible=seed % 3 == 0)
    mechanism = mechanisms(rng)[seed % 3]
    oracle = Oracle(law, query, mechanism)
    close = {"rel": 1e-9, "abs": 1e-11}
    assert frameworks.differential_privacy(law, query, mechanism) == pytest.approx(
        oracle.differential_privacy(), **close
    )
    for level in LEVELS:
        assert frameworks.membership(law, query, mechanism, level) == pytest.approx(oracle.membership(level), **close)
        if level != "database" or len(law.blocks) == 1:
            expected = oracle.inferential(level)
            assert frameworks.inferential(law, query, mechanism, level) == pytest.approx(expected, **close)
        if not isinstance(mechanism, adv.Laplace):
            expected = oracle.information(level)
            answer = frameworks.mutual_information_privacy(law, query, mechanism, level)
            assert answer == pytest.approx(expected, rel=1e-9, abs=1e-13)


# Theorem 7 and Proposition 1


NOISES = pytest.mark.parametrize(
    "which", range(6), ids=["laplace", "geometric", "response", "gaussian", "discrete", "exact"]
)


@cache
def comparisons(which: int, *, impossible: bool = False) -> list[xr.Dataset]:
    """Forty random laws and queries under one kind of noise."""
    rng = np.random.default_rng([which, impossible])
    cases = [(*random_case(rng, impossible=impossible), mechanisms(rng)[which]) for _ in range(40)]
    return [compare(*case) for case in cases]


@NOISES
def test_theorem_7_holds_where_every_database_is_possible(which: int) -> None:
    """240 laws in all, at the level of complete databases and with the others known."""
    for table in comparisons(which):
        assert table.attrs["every_database_possible"]
        assert bool(table.holds.sel(level=["database", "known"]).all())


@NOISES
def test_at_the_level_of_a_record_only_the_comparison_with_dp_can_fail(which: int) -> None:
    """82 of the 240 laws break eps_IP >= eps_DP there, half of those whose epsilon is finite; nothing else breaks."""
    broken = 0
    for table in comparisons(which):
        record = table.holds.sel(level="record")
        assert bool(record.drop_sel(inequality="inferential >= DP").all())
        broken += not bool(record.sel(inequality="inferential >= DP"))
    assert 3 <= broken <= 30


def test_impossible_databases_are_compared_by_dp_and_blowfish_only() -> None:
    """Two records that always agree: their difference is known beforehand, DP does not know it."""
    same = JointDistribution([[0.5, 0.0], [0.0, 0.5]])

    def difference(x: tuple[int, int]) -> int:
        return x[0] - x[1]

    table = compare(same, difference, adv.Laplace(1.0))
    assert not table.attrs["every_database_possible"]
    assert table.epsilon.sel(level="database").values.tolist() == [1.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    assert not bool(table.holds.sel(inequality="inferential >= DP", level="database"))


def test_independent_records_make_four_frameworks_one() -> None:
    """Proposition 1."""
    rng = np.random.default_rng(5)
    for i in range(48):
        law, query = independent_case(rng)
        mechanism = mechanisms(rng)[i % 6]
        assert law.blocks == tuple((name,) for name in law.records)
        table = compare(law, query, mechanism).epsilon
        four = table.sel(framework=["DP", "Blowfish", "dependent DP", "inferential"], level="database")
        assert np.all(four.values == four.values[0])
        assert np.all(table.sel(framework="inferential", level="record") <= four.values[0] * (1 + 1e-12) + 1e-12)


# Largest ratios


@pytest.mark.parametrize("seed", range(16))
def test_gaussian_ratios_of_mixtures_are_found_between_the_answers(seed: int) -> None:
    """Where both mixtures reach as far, the largest log ratio is finite; against a grid over the whole active range."""
    rng = np.random.default_rng(seed)
    answers = np.unique(rng.integers(0, 9, 6)).astype(float)
    if seed % 2:
        answers = np.unique(np.round(answers + rng.uniform(0, 0.5, answers.size), 2))
    size = answers.size
    v, w = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    if seed % 4 == 3:
        w = v * (1 + 1e-5 * rng.standard_normal(size))
        w /= w.sum()
    sigma = float(rng.choice([0.3, 1.0, 4.0]))
    o = np.linspace(answers[0] - 60 * sigma**2 - 5, answers[-1] + 60 * sigma**2 + 5, 200_001)
    nats = -((o[:, None] - answers) ** 2) / (2 * sigma**2)
    nats -= nats.max(1, keepdims=True)
    with np.errstate(divide="ignore"):
        g = np.log(np.exp(nats) @ v) - np.log(np.exp(nats) @ w)
    exact = Mixtures(adv.Gaussian(sigma), answers).largest_log_ratio(v, w)
    assert g.max() - 1e-11 <= exact <= g.max() + 1e-5 * max(abs(g).max(), 1e-6)
    assert exact <= np.log(v / w).max() + 1e-11


@pytest.mark.parametrize("seed", range(8))
def test_discrete_gaussian_ratios_are_attained_at_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    answers = np.unique(rng.integers(-3, 6, 5)).astype(float)
    v, w = rng.dirichlet(np.ones(answers.size)), rng.dirichlet(np.ones(answers.size))
    noise = adv.DiscreteGaussian(float(rng.choice([0.6, 1.0, 2.5])))
    k = np.arange(-500.0, 501.0)
    nats = -noise.curvature * (k[:, None] - answers) ** 2
    nats -= nats.max(1, keepdims=True)
    g = np.log(np.exp(nats) @ v) - np.log(np.exp(nats) @ w)
    assert Mixtures(noise, answers).largest_log_ratio(v, w) == pytest.approx(g.max(), rel=1e-11, abs=1e-11)


def test_gaussian_ratios_are_infinite_where_one_mixture_reaches_further() -> None:
    for noise in (adv.Gaussian(1.0), adv.DiscreteGaussian(1.0), adv.DiscreteGaussian(30.0).total(3)):
        three = Mixtures(noise, np.array([0.0, 1.0, 2.0]))
        outer, inner = np.array([0.5, 0.0, 0.5]), np.array([0.0, 1.0, 0.0])
        assert three.largest_log_ratio(outer, inner) == math.inf
        assert three.largest_absolute_log_ratio(inner, outer) == math.inf
        assert frameworks.differential_privacy(AGREE, sum, noise) == math.inf
        assert frameworks.inferential(AGREE, sum, noise, "record") == math.inf
    middle = Mixtures(adv.Gaussian(1.0), np.array([0.0, 1.0, 2.0])).largest_log_ratio(inner, outer)
    assert middle == pytest.approx(0.5, abs=1e-11)  # at 1, both neighbours one sigma away


def test_integer_noise_never_cuts_a_tail_short() -> None:
    """A sum of geometrics approaches its largest ratio without reaching it: the limit is the answer."""
    noise = adv.Geometric(0.8).total(4)
    law = JointDistribution([0.5, 0.5])
    assert frameworks.differential_privacy(law, sum, noise) == pytest.approx(0.8, rel=1e-14)
    k = np.arange(-400, 400)
    assert (noise.log_prob(k, 1) - noise.log_prob(k, 0)).max() < 0.8
    assert frameworks.differential_privacy(law, sum, adv.Laplace(2.0).total(3)) == 0.5
    for level in ("known", "record"):
        assert frameworks.inferential(law, sum, noise, level) == pytest.approx(0.8, rel=1e-14)


def test_ratios_of_mixtures_of_sums_are_refused() -> None:
    for noise in (adv.Geometric(0.8).total(4), adv.Laplace(1.0).total(2), adv.DiscreteGaussian(0.4).total(2)):
        with pytest.raises(NotImplementedError, match="not derived"):
            frameworks.inferential(AGREE, sum, noise, "record")


def test_no_noise_reveals_everything_it_can() -> None:
    assert frameworks.differential_privacy(AGREE, sum, adv.Exact()) == math.inf
    assert frameworks.differential_privacy(AGREE, lambda x: 7, adv.Exact()) == 0.0
    total = frameworks.mutual_information_privacy(AGREE, sum, adv.Exact(), "database")
    assert total == pytest.approx(-(2 * 0.4 * math.log(0.4) + 0.2 * math.log(0.2)), rel=1e-14)


# Post-processing


@dataclass(frozen=True, eq=False)
class Channel(Mechanism):
    """A table of release probabilities, (value, release), as a mechanism."""

    table: Any
    open_ended: bool = False

    def log_likelihood(self, release: Any, value: Any) -> Any:
        inside = (release >= 0) & (release < self.table.shape[1])
        row, column = np.broadcast_arrays(np.asarray(value, int), np.where(inside, release, 0).astype(int))
        with np.errstate(divide="ignore"):
            return np.where(inside, np.log(self.table[row, column]), -5.0 if self.open_ended else -np.inf)

    def support(self, value: int) -> Any:
        return np.arange(self.table.shape[1])

    def log_prob(self, release: Any, value: Any) -> Any:
        return self.log_likelihood(release, value)

    is_continuous = False
    cdf = sf = sample = privacy_loss = total = scaled = tail_radius = variance = rho = describe = None  # type: ignore[assignment]


def all_epsilons(law: JointDistribution, query: Any, mechanism: Mechanism) -> Any:
    worst = [frameworks.mutual_information_privacy(law, query, mechanism, level, worst_prior=True) for level in LEVELS]
    return np.append(compare(law, query, mechanism).epsilon.values.ravel(), worst)


@pytest.mark.parametrize("seed", range(8))
def test_post_processing_never_raises_any_epsilon(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law, query = random_case(rng)
    table = rng.dirichlet(np.ones(7), 6)
    merge = rng.dirichlet(np.full(4, 0.3), 7)
    merge[rng.random(merge.shape) < 0.2] = 0.0
    merge[:, 0] += 1.0 - merge.sum(1)
    before, after = (all_epsilons(law, query, Channel(t)) for t in (table, table @ merge))
    assert np.all(after <= before + 2e-8)


def test_endless_tables_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="neither additive noise nor finite"):
        frameworks.differential_privacy(AGREE, sum, Channel(np.full((3, 2), 0.5), open_ended=True))


# Pufferfish and Blowfish


def test_pufferfish_with_all_values_as_secrets_is_inferential_privacy_of_a_record() -> None:
    rng = np.random.default_rng(8)
    for _ in range(30):
        law, query = random_case(rng, impossible=True)
        noise = mechanisms(rng)[1]
        try:
            answer = frameworks.pufferfish(law, query, noise)
        except ValueError:
            answer = 0.0  # each record is certain
        assert answer == pytest.approx(frameworks.inferential(law, query, noise, "record"), rel=1e-12, abs=1e-14)


def test_pufferfish_takes_the_worst_law_and_the_worst_pair_of_secrets() -> None:
    laws = [JointDistribution([[c / 2, (1 - c) / 2], [(1 - c) / 2, c / 2]]) for c in (0.5, 0.8, 0.95)]
    noise = adv.Laplace(1.0)
    each = [frameworks.pufferfish(law, sum, noise) for law in laws]
    assert each[0] == pytest.approx(1.0, abs=1e-14)
    assert frameworks.pufferfish(laws, sum, noise) == max(each) == each[2]
    databases = list(itertools.product((0, 1), repeat=2))
    complete = [(lambda x, a=a: x == a, lambda x, b=b: x == b) for a, b in itertools.combinations(databases, 2)]
    assert frameworks.pufferfish(laws[1], sum, noise, complete) == pytest.approx(2.0, abs=1e-14)


def test_secrets_may_be_mappings_functions_or_booleans() -> None:
    noise = adv.Geometric(0.7)
    table = np.array([[False, False], [True, True]])
    answers = [
        frameworks.pufferfish(AGREE, sum, noise, [pair])
        for pair in (
            ({"record 0": 1}, {"record 0": 0}),
            (lambda x: x[0] == 1, lambda x: x[0] == 0),
            (table, ~table),
            (AGREE.probability.copy(data=table).transpose(), {"record 0": 0}),
        )
    ]
    assert answers == [answers[0]] * 4


def test_a_public_count_ties_independent_records() -> None:
    """One of three is 1, who? Weighted sum 1, 2 or 3: databases that keep the count differ by 2, neighbours by 3."""
    law = JointDistribution.independent({name: [0.5, 0.5] for name in "abc"})

    def weighted(x: tuple[int, int, int]) -> int:
        return x[0] + 2 * x[1] + 3 * x[2]

    noise = adv.Laplace(1.0)
    assert frameworks.blowfish(law, weighted, noise) == frameworks.differential_privacy(law, weighted, noise) == 3.0
    assert frameworks.blowfish(law, weighted, noise, lambda x: sum(x) == 1) == 2.0
    assert frameworks.blowfish(law, sum, noise, lambda x: sum(x) == 1) == 0.0
    table = compare(law, weighted, noise, constraint=lambda x: sum(x) == 1)
    assert table.epsilon.sel(framework="dependent DP", level="database") == 2.0
    assert table.epsilon.sel(framework="DP", level="database") == 3.0
    assert bool(table.holds.drop_sel(inequality="inferential >= DP").all())


def test_a_constraint_on_some_records_leaves_the_others_alone() -> None:
    """A margin over a and b ties them; c stays on its own, so no pair differs in c and in them."""
    law = JointDistribution.independent({name: [0.5, 0.5] for name in "abc"})

    def query(x: tuple[int, int, int]) -> int:
        return 4 * (x[0] - x[1]) + x[2]

    assert frameworks.blowfish(law, query, adv.Laplace(1.0), lambda x: x[0] + x[1] == 1) == 8.0
    assert frameworks.blowfish(law, query, adv.Laplace(1.0), {"c": 0}) == 4.0


def test_fewer_records_at_a_time_cost_less() -> None:
    rng = np.random.default_rng(4)
    noise = adv.Geometric(1.0)
    for _ in range(30):
        law, query = random_case(rng)
        size = law.array.ndim
        steps = [frameworks.dependent(law, query, noise, records=k) for k in range(1, size + 1)]
        assert steps == sorted(steps)
        assert steps[0] == frameworks.differential_privacy(law, query, noise)
        assert steps[-1] == frameworks.dependent(law, query, noise) == frameworks.blowfish(law, query, noise)
        assert frameworks.dependent(law, query, noise, "known") == pytest.approx(steps[0], rel=1e-12)


# The joint law


def test_blocks_are_the_finest_independent_groups() -> None:
    assert XOR.blocks == (("record 0", "record 1", "record 2"),)  # pairwise independent, all three dependent
    pair = np.array([[0.4, 0.1], [0.1, 0.4]])
    law = JointDistribution(np.einsum("ac,b,d->abcd", pair, [0.3, 0.7], [0.2, 0.8]))
    assert law.blocks == (("record 0", "record 2"), ("record 1",), ("record 3",))
    two = JointDistribution(np.einsum("ac,bd->abcd", pair, pair))
    assert two.blocks == (("record 0", "record 2"), ("record 1", "record 3"))
    assert frameworks.dependent(two, sum, adv.Laplace(1.0)) == 2.0
    assert JointDistribution([[0.25, 0.25], [0.25, 0.25 - 1e-13]]).blocks == (("record 0",), ("record 1",))


def test_conditioning_gives_another_joint_law() -> None:
    given = AGREE.given({"record 0": 1})
    assert given.array.tolist() == [[0.0, 0.0], [pytest.approx(0.2), pytest.approx(0.8)]]
    assert given.records == AGREE.records
    assert AGREE.given(lambda x: True).array.tolist() == AGREE.array.tolist()
    assert AGREE.mass(lambda x: x[0] == x[1]) == pytest.approx(0.8)


def test_labels_name_records_and_values() -> None:
    p = xr.DataArray(
        [[0.1, 0.2], [0.3, 0.4]], dims=("ann", "bob"), coords={"ann": ["no", "yes"], "bob": ["flu", "well"]}
    )
    law = JointDistribution(p)
    assert law.records == {"ann": ["no", "yes"], "bob": ["flu", "well"]}
    assert law.mass({"ann": "yes", "bob": "flu"}) == pytest.approx(0.3)
    noise = adv.Laplace(1.0)
    counted = frameworks.inferential(law, lambda x: (x[0] == "yes") + (x[1] == "flu"), noise, "record")
    answers = xr.DataArray([[1, 2], [0, 1]], dims=("bob", "ann"), coords={"ann": ["no", "yes"], "bob": ["flu", "well"]})
    assert frameworks.inferential(law, answers, noise, "record") == counted
    same = JointDistribution.independent({"ann": {"no": 0.5, "yes": 0.5}, "bob": [0.1, 0.9]})
    assert same.records == {"ann": ["no", "yes"], "bob": [0, 1]}


def test_the_order_of_records_and_of_values_does_not_matter() -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        law, query = random_case(rng)
        noise = mechanisms(rng)[0]
        order = rng.permutation(law.array.ndim)
        turned = JointDistribution(law.array.transpose(order)[::-1])
        plain, other = (compare(a, q, noise) for a, q in ((law, query), (turned, query.transpose(order)[::-1])))
        np.testing.assert_allclose(plain.epsilon, other.epsilon, rtol=1e-9, atol=1e-12)


def test_real_answers_need_continuous_noise_and_scale_with_it() -> None:
    rng = np.random.default_rng(10)
    law, query = random_case(rng)
    for noise, wide in ((adv.Laplace(1.0), adv.Laplace(0.37)), (adv.Gaussian(1.0), adv.Gaussian(0.37))):
        one, other = compare(law, query, noise).epsilon, compare(law, 0.37 * query, wide).epsilon
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match=r"query must be a whole number between -2\^53 and 2\^53, got 0\.37"):
        frameworks.membership(AGREE, lambda x: 0.37 * sum(x), adv.Geometric(1.0))


# Closed forms of one binary record


@pytest.mark.parametrize("epsilon", [0.03, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("prior", [0.01, 0.2, 0.5, 0.9])
def test_closed_forms_agree_with_the_joint_law(epsilon: float, prior: float) -> None:
    law = JointDistribution([1 - prior, prior])
    for noise in (adv.Laplace(1 / epsilon), adv.Geometric(epsilon), adv.RandomizedResponse(epsilon)):
        for level in LEVELS:
            expected = frameworks.membership_epsilon(prior, epsilon)
            assert frameworks.membership(law, sum, noise, level) == pytest.approx(expected, rel=1e-12)
    others = adv.Gaussian(1 / epsilon), adv.DiscreteGaussian(1 / epsilon), adv.Exact()
    for noise in (adv.Laplace(1 / epsilon), adv.Geometric(epsilon), adv.RandomizedResponse(epsilon), *others):
        expected = frameworks.mutual_information(noise.privacy_loss(), prior)
        for level in LEVELS:
            answer = frameworks.mutual_information_privacy(law, sum, noise, level)
            assert answer == pytest.approx(expected, rel=1e-8, abs=1e-14)
        if prior == 0.5:
            worst = frameworks.mutual_information_privacy(law, sum, noise, worst_prior=True)
            assert worst == pytest.approx(frameworks.mutual_information(noise.privacy_loss()), rel=1e-6, abs=1e-9)
            assert worst >= expected - 1e-12


def test_capacity_of_randomised_response_is_known() -> None:
    """A symmetric channel: log k - H(row), at the uniform prior."""
    for k in (2, 3, 6):
        noise = adv.RandomizedResponse(1.1, k)
        row = np.exp(noise.log_prob(np.arange(k), 0))
        law = JointDistribution(np.random.default_rng(k).dirichlet(np.ones(k)))
        expected = math.log(k) + float((row * np.log(row)).sum())
        worst = frameworks.mutual_information_privacy(law, sum, noise, worst_prior=True)
        assert worst == pytest.approx(expected, rel=1e-9)
        everything = frameworks.mutual_information_privacy(law, sum, adv.Exact(), worst_prior=True)
        assert everything == pytest.approx(math.log(k), rel=1e-7)


def test_worst_prior_bounds_every_prior_and_is_below_membership() -> None:
    """The capacity is the least worst divergence from any law of releases, so below every membership epsilon too."""
    rng = np.random.default_rng(12)
    for i in range(30):
        law, query = random_case(rng)
        noise = mechanisms(rng)[i % 3]
        for level in LEVELS:
            worst = frameworks.mutual_information_privacy(law, query, noise, level, worst_prior=True)
            assert frameworks.mutual_information_privacy(law, query, noise, level) <= worst + 1e-12
            assert worst <= frameworks.membership(law, query, noise, level) + 1e-12


def test_information_under_laplace_noise_is_that_of_a_fine_grid() -> None:
    law, noise = AGREE, adv.Laplace(0.7)
    o, step = np.linspace(-30, 32, 6_200_01, retstep=True)
    f = np.exp([noise.log_prob(o, a) for a in (0, 1, 2)])
    mixture = np.array([0.4, 0.2, 0.4]) @ f
    expected = float((np.array([0.4, 0.2, 0.4]) @ rel_entr(f, mixture)).sum() * step)
    answer = frameworks.mutual_information_privacy(law, sum, noise, "database")
    assert answer == pytest.approx(expected, rel=1e-7)


# Bad input


@pytest.mark.parametrize(
    ("probability", "message"),
    [
        ([[0.5, 0.6]], "probability must sum to 1 within 1e-09, got 1.1"),
        ([[1.5, -0.5]], "probability must be non-negative and finite, got -0.5"),
        ([math.nan, 1.0], "probability must be non-negative and finite, got nan"),
        (1.0, r"probability must have a dim for each record and a value for each, got shape \(\)"),
        ([], r"probability must have a dim for each record and a value for each, got shape \(0,\)"),
        (
            xr.DataArray([0.5, 0.5], dims="a", coords={"a": [1, 1]}),
            r"values of 'a' must be distinct, got \[1, 1\]",
        ),
    ],
)
def test_laws_that_are_none_are_refused(probability: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JointDistribution(probability)


def test_events_that_cannot_be_are_refused() -> None:
    noise = adv.Laplace(1.0)
    with pytest.raises(ValueError, match=r"event must give 'record 0' one of \[0, 1\], got 7"):
        AGREE.mass({"record 0": 7})
    with pytest.raises(ValueError, match=r"secrets must name records among .*, got 'ann'"):
        frameworks.pufferfish(AGREE, sum, noise, [({"ann": 0}, {"record 0": 1})])
    with pytest.raises(TypeError, match="event must be true or false of each database, got 0"):
        AGREE.mass(sum)
    with pytest.raises(ValueError, match="event must be possible to be given"):
        AGREE.given(lambda x: False)
    with pytest.raises(ValueError, match="event must be possible, as must what it is compared with"):
        frameworks.largest_loss(AGREE, sum, noise, lambda x: True)
    with pytest.raises(ValueError, match="constraint must hold for some database"):
        frameworks.blowfish(AGREE, sum, noise, lambda x: sum(x) == 5)
    with pytest.raises(ValueError, match="records must name at least one record, got none"):
        JointDistribution.independent({})


@pytest.mark.parametrize("query", [[1, 2, 3], [[1, 2]], np.zeros((2, 2, 2))])
def test_answers_of_another_shape_are_refused(query: Any) -> None:
    with pytest.raises(ValueError, match=r"query must have the distribution's shape \(2, 2\), got"):
        frameworks.membership(AGREE, query, adv.Laplace(1.0))


def test_answers_that_do_not_suit_are_refused() -> None:
    with pytest.raises(ValueError, match="query must answer with finite numbers, got inf"):
        frameworks.membership(AGREE, lambda x: math.inf, adv.Laplace(1.0))
    with pytest.raises(ValueError, match="query must be below categories = 2, got 2"):
        frameworks.membership(AGREE, sum, adv.RandomizedResponse(1.0))
    with pytest.raises(ValueError, match="query must have a dim for each of"):
        frameworks.membership(AGREE, xr.DataArray([0.0, 1.0], dims="record 0"), adv.Laplace(1.0))


def test_parameters_outside_their_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"prior must be in \[0, 1\], got 1\.2"):
        frameworks.membership_epsilon(1.2, 1.0)
    with pytest.raises(ValueError, match=r"epsilon must be non-negative, got -1\.0"):
        frameworks.membership_epsilon(0.5, -1.0)
    with pytest.raises(ValueError, match=r"prior must be in \[0, 1\], got nan"):
        frameworks.mutual_information(adv.Laplace(1.0).privacy_loss(), math.nan)


# Every mechanism


def _answers_of(noise: Any) -> Any:
    """Answers 0, 1 and 2 of two records, or 0 and 1 of one where the noise has no more."""
    few = isinstance(noise, LocalReport) and noise.categories < 3
    return (
        (JointDistribution([0.3, 0.7]), np.array([0, 1]))
        if few
        else (JointDistribution([[0.3, 0.2], [0.1, 0.4]]), np.add.outer([0, 1], [0, 1]))
    )


def _pieces(noise: Any, answers: list[int]) -> tuple[Any, Any]:
    """Releases, and the mass of each of them or the width of the piece that it stands for."""
    if not noise.is_continuous:
        support = np.unique(np.concatenate([noise.support(a) for a in answers])).astype(float)
        return support, np.ones(support.size)
    far = noise.tail_radius(50.0)
    cuts = np.concatenate([-noise.breaks(far), noise.breaks(far)])
    step = math.sqrt(noise.variance) / 300.0
    grid = np.arange(-far, far + 2.0, step) if noise.log_concave else np.zeros(0)
    edges = np.unique(np.concatenate([*(cuts + a for a in answers), grid, [-far, far + 2.0]]))
    return 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)


LISTED = {name: m for name, m in MECHANISMS.items() if m.is_additive or not m.is_continuous}


@over(LISTED, "noise")
def test_epsilon_of_every_mechanism_is_the_largest_log_ratio_of_its_releases(noise: Any) -> None:
    law, query = _answers_of(noise)
    answers = sorted({*query.ravel().tolist()})
    releases, _ = _pieces(noise, answers)
    if noise.summands[1] > 1:  # which reach their rate in the limit
        releases = np.append(releases, np.rint(1e4 * noise.tail_radius()) * np.array([-1.0, 1.0]))
    log_f = np.array([noise.log_likelihood(releases, a) for a in answers])
    with np.errstate(invalid="ignore"):
        gaps = np.abs(np.diff(log_f, axis=0))  # of databases that differ in one record
    largest = float(np.nanmax(gaps)) if np.isfinite(gaps[~np.isnan(gaps)]).all() else math.inf
    try:
        found = frameworks.differential_privacy(law, query, noise)
    except NotImplementedError:
        assert noise.steps  # put through a function, and without an end
        return
    assert found >= largest * (1.0 - 1e-9)
    assert math.isinf(found) or found == pytest.approx(largest, rel=1e-4)


@over({name: m for name, m in LISTED.items() if m.variance < 1e6}, "noise")
def test_information_of_every_mechanism_is_the_sum_over_its_releases(noise: Any) -> None:
    law, query = _answers_of(noise)
    answers = sorted({*query.ravel().tolist()})
    releases, width = _pieces(noise, answers)
    f = np.exp([noise.log_likelihood(releases, a) for a in answers]) * width
    weight = np.array([law.array[query == a].sum() for a in answers])
    wanted = float(sum(w * rel_entr(row, weight @ f).sum() for w, row in zip(weight, f, strict=True)))
    found = frameworks.mutual_information_privacy(law, query, noise, level="database")
    assert found == pytest.approx(wanted, rel=2e-5 if noise.is_continuous and noise.log_concave else 1e-9, abs=1e-12)
