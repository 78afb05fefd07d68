"""Beliefs as people hold them: between two counts, or like counts that were seen; in Python and in files."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats as st

import adversary as adv

FILE = """
neighbours = "unbounded"
[[plan.level]]
name = "block"
rho = 0.1
siblings = 3
[[plan.level]]
name = "tract"
rho = 0.1
[truth]
block = 1
tract = 3
[adversary]
prior = 0.5
known = 0
[adversary.beliefs]
tract = %s
"""


@pytest.mark.slow_cases("negative binomial-between0-0.9")
@pytest.mark.parametrize(("law", "between", "mass"), [("negative binomial", (3, 20), 0.9), ("poisson", (3, 20), 0.9)])
def test_a_law_has_its_mass_between_the_counts(law: str, between: tuple[int, int], mass: float) -> None:
    found = adv.law_between(*between, mass=mass, law=law)
    assert found.pmf(np.arange(between[0], between[1] + 1)).sum() == pytest.approx(mass, abs=2e-3)


def test_the_negative_binomial_is_the_wider_one() -> None:
    wide, narrow = (adv.law_between(3, 20, law=law) for law in ("negative binomial", "poisson"))
    assert wide.entropy() > narrow.entropy()


@pytest.mark.parametrize(("low", "high", "mass"), [(10, 12, 0.9), (1, 2, 0.9), (30, 33, 0.95), (4, 5, 0.8)])
def test_between_close_counts_the_law_is_the_binomial_of_greatest_entropy(low: int, high: int, mass: float) -> None:
    """By a search over trials and chances; no Poisson law is narrow enough."""
    found = adv.law_between(low, high, mass)
    k, means = np.arange(low, high + 1), np.linspace(0.01, 2 * high, 4000)
    assert st.poisson.pmf(k, means[:, None]).sum(axis=1).max() < mass
    assert found.dist.name == "binom"
    assert found.pmf(k).sum() == pytest.approx(mass, abs=1e-12)
    chances = np.linspace(1e-3, 1.0 - 1e-3, 2000)
    for n in range(high, 3 * high):
        reached = st.binom.pmf(k, n, chances[:, None]).sum(axis=1)
        for p in chances[1:][np.diff(np.sign(reached - mass)) != 0]:
            assert st.binom.entropy(n, p) <= found.entropy() + 0.01


@pytest.mark.parametrize(
    ("law", "between", "words"),
    [
        ("poisson", (10, 12), "no poisson law has mass 0.9 between 10 and 12: the nearest has 0.34.*law = 'binomial'"),
        ("negative binomial", (10, 12), "no negative binomial law .* use law = 'binomial'"),
        ("binomial", (3, 20), "wider than every binomial one: use law = 'negative binomial' or 'poisson'"),
    ],
)
def test_a_law_that_cannot_have_the_mass_is_refused_without_a_warning(
    law: str, between: tuple[int, int], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as refused:
        adv.law_between(*between, law=law)
    assert "\n" not in str(refused.value)


def test_a_sample_leaves_a_negative_binomial_count() -> None:
    """P(F | f) = C(F - 1, f - 1) p^f (1 - p)^(F - f): f is the last of the sampled, p = f / Fk the rate."""
    law, p = adv.law_of_sample(3, 10.0), 0.3
    for count in (2, 3, 4, 11, 40):
        assert law.pmf(count) == pytest.approx(math.comb(count - 1, 2) * p**3 * (1.0 - p) ** (count - 3) * (count >= 3))
    certain = adv.Others(adv.law_of_sample(4, 4.0))
    assert certain.log_prob(np.array([3, 4, 5]), 0).tolist() == [-np.inf, 0.0, -np.inf]


def test_files_hold_the_same_beliefs(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("block,count\na,0\nb,2\nc,2\n")
    for text, law in (
        ('{ between = [3, 20], mass = 0.9, law = "negative binomial" }', adv.law_between(3, 20)),
        ('{ counts = "old.csv", column = "count" }', adv.law_of_counts([0, 2, 2])),
        ("{ sampled = 2, population = 12.5 }", adv.law_of_sample(2, 12.5)),
        ("{ between = [10, 12] }", adv.law_between(10, 12)),
        ('{ law = "negative binomial", mu = 4.0, alpha = 1.5 }', st.nbinom(1.5, 1.5 / 5.5)),
        ('{ law = "negative binomial", n = 2, p = 0.4 }', st.nbinom(2, 0.4)),
        ('{ law = "binomial", n = 9, p = 0.4 }', st.binom(9, 0.4)),
    ):
        file = tmp_path / "scenario.toml"
        file.write_text(FILE % text)
        read = adv.load_scenario(file).adversary.beliefs["tract"]
        np.testing.assert_array_equal(read.log_prob(np.arange(30), 0), adv.Others(law).log_prob(np.arange(30), 0))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{ between = [20, 3], law = "poisson" }', "between must be two counts, the smaller first, got 20 and 3"),
        ("{ between = [3] }", "between: must be a list of two whole numbers"),
        ('{ between = [3, 20], law = "normal" }', "law between two counts must be one of negative binomial, poisson"),
        ("{ between = [3, 20], mass = 1.5 }", "mass must"),
        ('{ law = "negative binomial", mu = 4 }', "takes the parameters n, p (and loc), or mu, alpha (mean and shape)"),
        ('{ law = "negative binomial", mu = 4, alpha = -1 }', "alpha must be positive"),
        ('{ law = "negative poisson", mu = 4 }', "'negative binomial'"),
        ("{ sampled = 3, population = 2 }", "population must be finite and at least sampled = 3, got 2"),
        ("{ sampled = 0, population = 2 }", "sampled must be at least 1, got 0"),
        ('{ counts = "none.csv", column = "count" }', "none.csv"),
        ('{ counts = "old.csv", column = "people" }', "column 'people' is missing; there are block, count"),
        ('{ counts = "old.csv", column = "block" }', "line 2: column 'block': must be a whole number >= 0, got 'a'"),
    ],
)
def test_what_is_no_belief_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("block,count\na,0\n")
    file = tmp_path / "scenario.toml"
    file.write_text(FILE % text)
    with pytest.raises((ValueError, OSError)) as caught:
        adv.load_scenario(file)
    assert words in str(caught.value)


@pytest.mark.slow
def test_an_elicited_law_leaves_the_settings_of_figures_alone() -> None:
    code = "import matplotlib as mpl, adversary as adv; adv.law_between(5, 20); print(mpl.rcParams['savefig.bbox'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"
