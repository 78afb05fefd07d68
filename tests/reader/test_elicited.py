"""Beliefs as people hold them: between two counts, or like counts that were seen; in Python and in files."""

import math
from pathlib import Path

import numpy as np
import pytest

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


@pytest.mark.parametrize(("law", "between", "mass"), [("negative binomial", (3, 20), 0.9), ("poisson", (3, 20), 0.9)])
def test_a_law_has_its_mass_between_the_counts(law: str, between: tuple[int, int], mass: float) -> None:
    found = adv.law_between(*between, mass=mass, law=law)
    assert found.pmf(np.arange(between[0], between[1] + 1)).sum() == pytest.approx(mass, abs=2e-3)


def test_the_negative_binomial_is_the_wider_one() -> None:
    wide, narrow = (adv.law_between(3, 20, law=law) for law in ("negative binomial", "poisson"))
    assert wide.entropy() > narrow.entropy()


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
