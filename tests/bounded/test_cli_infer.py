"""`adversary infer`: the library's numbers with and without the bounds, what does not exist, warnings and refusals."""

import re
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.bounded import bounded_posterior
from adversary.bounded.report import bounded_answer
from adversary.bounded.report.release_file import load_release_file
from tests import commands
from tests.commands import flat, number, numbers

BLOOD = Path(__file__).parents[2] / "data" / "blood_lead.toml"
SMALL = "[release]\nmean = 0.3\nvariance = 0.02\nn = {n}\nepsilon = [1, 1]\nbounds = [0, 1]\n"
PLAIN = SMALL.format(n=12)
READINGS = {"constrained": True, "unconstrained": False}

answered = cache(partial(commands.answered, "infer"))
printed = partial(commands.printed, "infer")
written = partial(commands.written, "release.toml")


def agrees(answer: dict[str, Any], name: str, found: Any, prob: float = 0.95) -> None:
    """Every number of a posterior is the library's."""
    for parameter in ("mu", "sigma", "sigma2"):
        at = {"reading": name, "parameter": parameter}
        for measure in ("mean", "sd", "mode"):
            assert number(answer, measure, **at) == getattr(found, measure)(parameter)
        for kind in ("hdi", "eti"):
            assert numbers(answer, kind, **at) == list(getattr(found, kind)(parameter, prob))
    new = found.predictive()
    for key in ("mean", "sd", "below", "above", "outside"):
        assert number(answer, key, group="predictive", reading=name) == getattr(new, key)
    for key, value in {"infeasible": "infeasible", "log_evidence": "log_evidence", "cap": "max_variance"}.items():
        assert number(answer, key, reading=name) == getattr(found, value)
    assert number(answer, "quadrature_error", reading=name) == found.quadrature_error


def test_the_records_are_the_posterior_of_the_library_with_the_bounds_and_without() -> None:
    answer, file = answered(str(BLOOD)), load_release_file(BLOOD)
    for name, constrained in READINGS.items():
        agrees(answer, name, adv.bounded.posterior(file.release, file.prior, constrained))
    assert (answer["attributes"]["main"], answer["attributes"]["prob"], answer["warnings"]) == ("constrained", 0.95, [])
    assert numbers(answer, "epsilon") == [0.25, 0.25]
    assert [number(answer, name, group="prior") for name in ("kind", "mu0", "kappa0", "nu0", "s0")] == [
        "normal-inverse-gamma", 12.5, 1, 1, 3.8
    ]  # fmt: skip


def test_the_screen_says_what_is_known_and_what_the_bounds_give() -> None:
    """Intervals are rounded outward."""
    text = flat(printed(str(BLOOD)))
    assert "The population mean of blood lead is 5.4 to 44.7 micrograms/dL with probability 95%." in text
    assert (
        "Using the fact that every value is between 0 and 100 costs no privacy and makes the interval of the "
        "population mean 10% shorter and that of the population standard deviation 21% shorter."
    ) in text
    assert "Ignoring it gives probability 10% to means and standard deviations that no such data can have." in text
    other = answered(str(BLOOD), "--unconstrained", "--prior", "flat", "--prob", "1/2")
    assert other["attributes"]["main"] == "unconstrained"
    low, high = numbers(other, "hdi", reading="unconstrained", parameter="mu")
    said = re.search(r"is ([\d.]+) to ([\d.]+) micrograms/dL with probability 50", other["verdict"]["text"])
    assert said is not None
    assert low - 0.1 <= float(said[1]) <= low < high <= float(said[2]) <= high + 0.1


def test_the_interval_of_a_deviation_is_the_shortest_one(tmp_path: Path) -> None:
    """Not the roots of the interval of the variance, 0 to 20,674."""
    text = "[release]\nmean = 31240.5\nvariance = 2.1e8\nn = 500\nepsilon = [0.5, 0.5]\nbounds = [0, 150000]\n"
    path = written(tmp_path, text)
    low, high = numbers(answered(path), "hdi", reading="constrained", parameter="sigma")
    assert (low, high) == pytest.approx((6247.7, 22390.4), abs=2.0)  # the slow twin of tests/oracles
    assert "The population standard deviation is 6,247 to 22,391 with probability 95%." in flat(printed(path))


@pytest.mark.slow
def test_the_mean_of_the_data_themselves_is_offered_beside_that_of_their_population(tmp_path: Path) -> None:
    assert 'themselves: quantity = "data" under [posterior].' in flat(printed(str(BLOOD)))
    path = written(tmp_path, BLOOD.read_text() + "[posterior]\nquantity = 'data'\n")
    answer, file = answered(path), load_release_file(BLOOD)
    for name, constrained in READINGS.items():
        found = adv.bounded.posterior(file.release, file.prior, constrained, quantity="data")
        for parameter in ("mu", "sigma", "sigma2"):
            at = {"reading": name, "parameter": parameter}
            assert number(answer, "mean", **at) == found.mean(parameter)
            assert numbers(answer, "hdi", **at) == list(found.hdi(parameter))
    assert answer["attributes"]["posterior_of"] == "data"
    assert answer["attributes"]["quantity"] == "blood lead"
    assert "predictive" not in {one["group"] for one in answer["records"]}
    text = flat(printed(path))
    assert "The sample mean of blood lead is 5.5 to 43.9 micrograms/dL with probability 95%." in text
    assert "Sample: the 43 values themselves." in text
    written_to = tmp_path / "out"
    assert commands.run("infer", path, "--out", str(written_to)).exit_code == 0
    assert {"report.html", "data.nc", "joint.svg", "marginals.svg"} <= {one.name for one in written_to.iterdir()}


@pytest.mark.slow
def test_options_replace_what_the_file_says(tmp_path: Path) -> None:
    path = written(tmp_path, PLAIN + "[posterior]\nprob = 0.5\nfeasibility = 'normalised'\ncap = 3\n")
    release = load_release_file(path).release
    prior = adv.bounded.NormalInverseGamma(0.4, 2.0, 3.0, 0.2)
    for arguments, believed, prob in (
        ((), "flat", 0.5),
        (("--prob", "0.9"), "flat", 0.9),
        (("--prior", "0.4,2,3,0.2"), prior, 0.5),
    ):
        answer = answered(path, *arguments)
        for name, constrained in READINGS.items():
            feasibility = "normalised" if constrained else "event"
            agrees(answer, name, adv.bounded.posterior(release, believed, constrained, feasibility, cap=3.0), prob)


def test_one_statistic_and_gaussian_noise_are_read_too(tmp_path: Path) -> None:
    path = written(tmp_path, "[release]\nmean = 0.3\nn = 12\nrho = 0.5\nbounds = [0, 1]\n")
    found = adv.bounded.posterior(adv.bounded.BoundedRelease(0.3, None, 12, rho=0.5))
    agrees(answered(path), "constrained", found)
    assert numbers(answered(path), "rho") == [0.5, None]
    assert "mean 0.3 (Gaussian noise, rho = 0.5)." in flat(printed(path))


def test_what_was_not_released_is_no_headline(tmp_path: Path) -> None:
    path = written(tmp_path, "[release]\nvariance = 54.3917\nn = 10\nepsilon = 1\nbounds = [0, 10]\n")
    text = flat(printed(path))
    assert "release.toml The population standard deviation is 1.37 to 4.99 with probability 95%." in text
    assert "No mean was released: its posterior follows from the prior and the bounds." in text


def test_a_small_probability_is_not_rounded_to_none(tmp_path: Path) -> None:
    """A negative variance says that deviations are small: 2.7e-5 of the posterior without the bounds is impossible."""
    text = "[release]\nmean = 21.4\nvariance = -35.0\nn = 100\nepsilon = [0.5, 0.5]\nbounds = [0, 50]\n"
    assert "Ignoring it gives probability 1 in 37,000 to means" in flat(printed(written(tmp_path, text)))


def test_a_posterior_that_does_not_exist_is_said_with_its_reason(tmp_path: Path) -> None:
    """Theorem 18: with a flat prior and no bounds the posterior is improper for n = 3."""
    path = written(tmp_path, SMALL.format(n=3))
    answer = answered(path)
    assert "Theorem 18" in answer["attributes"]["refused_unconstrained"]
    assert {one["reading"] for one in answer["records"] if "reading" in one} == {"constrained"}
    assert "There is no posterior ignoring the bounds: " in flat(printed(path))
    commands.refused(tmp_path, "infer", path, "--unconstrained", words="Theorem 18")


def test_warnings_about_the_numbers_come_with_the_answer(tmp_path: Path) -> None:
    text = PLAIN + "[prior]\nkind = 'normal-inverse-gamma'\n"
    path = written(tmp_path, text + "mu0 = 0.3\nkappa0 = 1\nnu0 = 0.05\ns0 = 0.1\n")
    (weak,) = answered(path)["warnings"]
    assert "nu0 = 0.05 is below 0.1" in weak
    assert printed(path).count("Take care. ") == 1


@pytest.mark.slow
@pytest.mark.parametrize("constrained", ["true", "false"])
def test_a_mean_far_outside_its_bounds_is_refused(constrained: str, tmp_path: Path) -> None:
    """271 noise scales of 1 / (n epsilon) = 0.1 below 0, which noise does not do; at 19 nothing is said."""
    text = "[release]\nmean = {mean}\nvariance = 9\nn = 1000\nepsilon = [1, 1]\nbounds = [0, 100]\n"
    more = f"[posterior]\nconstrained = {constrained}\n"
    path = written(tmp_path, text.format(mean=-27.1) + more)
    said = (
        "release: the released mean lies 271 noise scales from what any values within bounds=(0, 100) can have, farther"
    )
    commands.refused(tmp_path, "infer", path, words=said)
    assert answered(commands.written("near.toml", tmp_path, text.format(mean=-1.9) + more))["warnings"] == []


def test_a_quadrature_that_has_not_converged_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    solved = bounded_posterior.solve_all
    monkeypatch.setattr(bounded_posterior, "solve_all", lambda q: [replace(solved(q)[0], quadrature_error=0.03)])
    warnings = commands.answered("infer", written(tmp_path, PLAIN))["warnings"]
    assert [re.match("The numbers (.*?) are unreliable", one)[1] for one in warnings] == [  # type: ignore[index]
        "using the bounds",
        "ignoring the bounds",
    ]
    assert "(estimated error 3e-02)" in warnings[0]


def test_means_that_do_not_exist_are_none_where_there_is_no_cap(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL.format(n=4) + "[posterior]\nconstrained = false\ncap = inf\n")
    answer, text = answered(path), printed(path)
    at = {"reading": "unconstrained"}
    assert [number(answer, "mean", **at, parameter=name) for name in ("mu", "sigma2")] == [None, None]
    assert number(answer, "cap", **at) is None
    assert re.search(r"ignoring the bounds +population mean +none +unlimited +0\.3", text)
    assert re.search(r"ignoring the bounds +population variance +unlimited +unlimited", text)


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        (PLAIN.replace("n = 12", "n = 1"), (), "release.toml: release: n must be at least 2, got 1"),
        (PLAIN + "[prior]\nkind = 'jeffreys'\n", (), "improper posterior"),
        (PLAIN, ("--prior", "1,2"), "--prior must be"),
        (PLAIN, ("--prob", "95"), "prob must be between 0 and 1, both excluded, got 95"),
        (PLAIN, ("--prob", "most"), "--prob must be a number such as 0.1"),
    ],
)
def test_what_cannot_be_is_refused(text: str, arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    commands.refused(tmp_path, "infer", written(tmp_path, text), *arguments, words=words)


def test_the_data_file_has_draws_and_densities() -> None:
    file = load_release_file(BLOOD)
    tree, posteriors = bounded_answer.solve(file)
    draws, found = tree["posterior"]["mu"], posteriors["constrained"]
    assert draws.dims == ("chain", "draw")
    assert abs(float(draws.mean()) - found.mean("mu")) < 5.0 * found.sd("mu") / draws.size**0.5
    density = tree["density/unconstrained"]
    np.testing.assert_array_equal(density["mu"], posteriors["unconstrained"].density("mu", density["mu_grid"].values))
