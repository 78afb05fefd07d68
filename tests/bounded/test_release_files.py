"""Release files: what is read is what is written; what is wrong is told with file, key, rule and value."""

import math
from functools import partial
from pathlib import Path

import pytest

from adversary.bounded.prior import Flat, NormalInverseGamma
from adversary.bounded.report.release_file import load_release_file, parse_prior
from tests import commands

BLOOD = Path(__file__).parents[2] / "data" / "blood_lead.toml"
RELEASE = "[release]\nmean = 34.3\nvariance = 2224.8\nn = 43\nepsilon = [0.25, 0.5]\nbounds = [0, 100]\n"
PRIOR = '[prior]\nkind = "normal-inverse-gamma"\nmu0 = 12.5\nkappa0 = 1\nnu0 = 2\ns0 = 3.8\n'
written = partial(commands.written, "release.toml")


def test_the_file_that_comes_with_the_project_is_the_example_of_the_thesis() -> None:
    file = load_release_file(BLOOD)
    assert (file.release.mean, file.release.variance, file.release.n) == (34.3026826, 2224.800114, 43)
    assert (file.release.budgets, file.release.bounds, file.release.noise) == ((0.25, 0.25), (0, 100), "laplace")
    assert isinstance(file.prior, NormalInverseGamma)
    assert (file.prior.mu0, file.prior.kappa0, file.prior.nu0, file.prior.s0) == (12.5, 1, 1, 3.8)
    assert (file.constrained, file.feasibility, file.prob, file.cap) == (True, "event", 0.95, None)
    assert (file.quantity, file.unit) == ("blood lead", "micrograms/dL")
    assert "Kazan" in file.source


def test_a_bare_release_is_read_with_a_flat_prior_and_the_bounds(tmp_path: Path) -> None:
    file = load_release_file(written(tmp_path, RELEASE))
    assert isinstance(file.prior, Flat)
    assert (file.constrained, file.prob, file.title, file.unit) == (True, 0.95, "", "")
    assert file.posterior_of == "population"
    assert load_release_file(written(tmp_path, RELEASE + "[posterior]\nquantity = 'data'\n")).posterior_of == "data"
    assert file.release.budgets == (0.25, 0.5)


def test_a_byte_order_mark_of_a_windows_editor_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "release.toml"
    path.write_bytes(b"\xef\xbb\xbf" + RELEASE.encode())
    assert load_release_file(path).release.budgets == (0.25, 0.5)
    path.write_bytes(b"\xef\xbb\xbf" + RELEASE.replace("n = 43", "n =").encode())
    with pytest.raises(ValueError, match=r"not a TOML file.*'n ='"):
        load_release_file(path)


def test_one_statistic_fractions_gaussian_noise_and_every_key_of_the_reading(tmp_path: Path) -> None:
    text = '[release]\nmean = 0.3\nn = 20\nrho = "1/8"\nbounds = [-1, 1.5]\n[prior]\nkind = "flat"\n'
    reading = '[posterior]\nconstrained = false\nfeasibility = "normalised"\nprob = "9/10"\ncap = inf\n'
    file = load_release_file(written(tmp_path, text + reading))
    assert (file.release.variance, file.release.noise) == (None, "gaussian")
    assert file.release.budgets == (0.125, None)
    assert (file.constrained, file.feasibility, file.prob, file.cap) == (False, "normalised", 0.9, math.inf)
    variance = load_release_file(written(tmp_path, "[release]\nvariance = -2\nn = 20\nepsilon = 1\nbounds = [0, 9]\n"))
    assert (variance.release.mean, variance.release.variance) == (None, -2)


def test_what_is_asked_for_replaces_what_the_file_says(tmp_path: Path) -> None:
    file = load_release_file(written(tmp_path, RELEASE + PRIOR))
    asked = file.with_options(prior=parse_prior("flat"), prob=0.5, constrained=False)
    assert (type(asked.prior), asked.prob, asked.constrained) == (Flat, 0.5, False)
    assert file.with_options() == file
    with pytest.raises(ValueError, match="prob must be between 0 and 1, both excluded, got 1"):
        file.with_options(prob=1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RELEASE.replace("mean", "maen"), "release.toml: release.maen: unknown key, got 'maen'; did you mean 'mean'?"),
        (RELEASE + PRIOR.replace("mu0", "mu"), "prior.mu: unknown key, got 'mu'; did you mean 'mu0'?"),
        (RELEASE + "[posteriour]\n", "posteriour: unknown key, got 'posteriour'; did you mean 'posterior'?"),
        ("untis = 'g'\n" + RELEASE, "untis: unknown key, got 'untis'; did you mean 'unit'?"),
        ("title = 'x'\n", "release.toml: release: is required ("),
        (RELEASE.replace("n = 43", "n = 1"), "release.toml: release: n must be at least 2, got 1"),
        (RELEASE.replace("n = 43", "n = 4.5"), "release: n must be a whole number"),
        (RELEASE.replace("n = 43", "n = true"), "release.n: must be a whole number"),
        (
            RELEASE.replace("n = 43", 'n = "43"'),
            "release.n: must be a whole number, of how many values there are, got '43'",
        ),
        (RELEASE.replace("n = 43\n", ""), "release.n: is required (how many values there are"),
        ('prior = "Flat"\n' + RELEASE, "prior: must be a table, such as [prior] with kind = 'flat', got 'Flat'"),
        (RELEASE.replace("34.3", '"many"'), "release.mean: must be a number such as 0.5, or a product of fractions"),
        (RELEASE.replace("34.3", "nan"), "release.toml: release: mean must be"),
        (RELEASE.replace("[0.25, 0.5]", "[0.25, 0]"), "release: epsilon of the variance must be positive"),
        (RELEASE.replace("[0.25, 0.5]", "[0.25]"), "release.epsilon: must be two numbers, [of the mean, of the varia"),
        (RELEASE.replace("[0.25, 0.5]", "0.25"), "release: epsilon must be two numbers, (mean, variance), got 0.25"),
        (RELEASE + "rho = 1\n", "release: give epsilon (Laplace noise) or rho (Gaussian noise), one of the two"),
        (RELEASE.replace("[0, 100]", "[100, 0]"), "release: bounds must be two finite numbers (a, b) with a < b"),
        (RELEASE.replace("[0, 100]", "[0, 1e246]"), "release: bounds must be 1e-60 to 1e+60 apart, got (0, 1e+246)"),
        (RELEASE.replace("[0, 100]", "[-1e-183, 0]"), "release: bounds must be 1e-60 to 1e+60 apart"),
        (RELEASE.replace("[0, 100]", "[0, 50, 100]"), "release.bounds: must be two numbers, [lowest, highest]"),
        (RELEASE.replace("mean = 34.3\nvariance = 2224.8\n", ""), "release: a release needs a mean or a variance"),
        (RELEASE + PRIOR.replace("s0 = 3.8\n", ""), "prior.s0: is required"),
        (RELEASE + PRIOR.replace("kappa0 = 1", "kappa0 = 0"), "prior: kappa0 must be positive and finite, got 0"),
        (RELEASE + PRIOR.replace("kappa0 = 1", "kappa0 = 0"), "Theorem 17"),
        (
            RELEASE + PRIOR.replace("normal-inverse-gamma", "Normal inverse gama"),
            "did you mean 'normal-inverse-gamma'?",
        ),
        (RELEASE + PRIOR.replace("normal-inverse-gamma", "jeffreys"), "prior.kind: 'jeffreys' gives an improper post"),
        (RELEASE + PRIOR.replace("normal-inverse-gamma", "flat"), "prior.mu0: unknown key, got 'mu0'"),
        (RELEASE + "[posterior]\nconstrained = 'yes'\n", "posterior.constrained: must be true or false, got 'yes'"),
        (
            RELEASE + "[posterior]\nfeasibility = 'none'\n",
            "posterior.feasibility: must be one of 'event', 'normalised'",
        ),
        (RELEASE + "[posterior]\nquantity = 'sample'\n", "posterior.quantity: must be one of 'population', 'data'"),
        ("quantity = 'data'\n" + RELEASE, "themselves write it under [posterior]"),
        (RELEASE + "[posterior]\nprob = 95\n", "posterior.prob: prob must be between 0 and 1, both excluded, got 95"),
        (RELEASE + "[posterior]\ncap = 0\n", "posterior.cap: cap must be positive and finite"),
        (RELEASE + "[plan]\n", "plan: this is a scenario file, which adversary audit reads; a release file has none"),
        ("[profile]\nkind = 'constant'\n", "profile: this is a profile file, which adversary epsilon reads"),
        ('title = "a\\u001b[31m"\n' + RELEASE, "title: must be without control characters"),
        ("[release\n", "not a TOML file"),
        ("release = 3\n", "release: must be a table, got 3"),
        (RELEASE.replace("34.3", "'__import__(\"os\").getcwd()'"), "release.mean: must be a number"),
    ],
)
def test_errors_name_file_key_rule_and_value(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ValueError, match=r"release\.toml: ") as error:
        load_release_file(path)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert str(error.value).count(str(path)) == 1


def test_a_prior_in_one_word() -> None:
    assert isinstance(parse_prior(" flat "), Flat)
    prior = parse_prior("-1,2e1,0.5,3")
    assert isinstance(prior, NormalInverseGamma)
    assert (prior.mu0, prior.kappa0, prior.nu0, prior.s0) == (-1.0, 20.0, 0.5, 3.0)
    for text, words in (
        ("flatt", '--prior must be "flat" or mu0,kappa0,nu0,s0, such as'),
        ("Flat", "got 'Flat'; did you mean 'flat'?"),
        ("1,2,3", "got '1,2,3'"),
        ("jeffreys", "improper posterior"),
        ("1,1,0,1", "nu0 must be positive and finite, got 0.0"),
    ):
        with pytest.raises(ValueError, match=r"prior|nu0") as error:
            parse_prior(text)
        assert words in str(error.value)
