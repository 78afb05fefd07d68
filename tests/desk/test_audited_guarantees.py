"""The audited readers' tests and posteriors: their laws against the release's own, and the figures that show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adversary as adv
from adversary.desk.figures import audited_guarantees
from adversary.desk.files.scenario import Scenario
from adversary.desk.report import audit_page
from adversary.reader.path.truth import opposite, settle_truth
from adversary.reader.risk.law_of_plan import bayes_factor_law
from tests.catalogue import STORIES

DATA = Path(__file__).parents[2] / "data"
KNOWN = ["one block", "one block, geometric, rare trait", "one block, gaussian", "two levels, same people"]


def scenario(name: str) -> Scenario:
    return adv.load_scenario(DATA / f"{name}.toml")


def audit_of(one: Scenario) -> Any:
    return adv.audit(one.plan, one.adversary, one.truth, guarantee=one.guarantee, failure=one.failure, rng=1)


def posterior_of(name: str) -> audited_guarantees.AuditedPosterior:
    story = STORIES[name]
    truth = settle_truth(story.plan, story.reader, story.truth)
    laws = [bayes_factor_law(story.plan, story.reader, t) for t in (truth, opposite(story.plan, story.reader, truth))]
    return audited_guarantees.AuditedPosterior((laws[0], laws[1]) if truth.target else (laws[1], laws[0]))


@pytest.mark.parametrize("name", KNOWN)
def test_a_reader_who_knows_everybody_else_has_the_release_s_own_law(name: str) -> None:
    story, law = STORIES[name], posterior_of(name)
    own = story.plan.privacy_loss().posterior(story.reader.prior)
    x = np.linspace(0.013, 0.987, 41)
    for truth in ("in", "out"):
        assert law.mean(truth) == pytest.approx(own.mean(truth), abs=1e-10)
        np.testing.assert_allclose(law.cdf(x, truth), own.cdf(x, truth), atol=1e-9)
    averaged = story.reader.prior * law.mean("in") + (1 - story.reader.prior) * law.mean("out")
    assert averaged == pytest.approx(story.reader.prior, abs=1e-10)


@pytest.mark.parametrize("name", KNOWN)
def test_decisions_lie_on_the_trade_off_of_the_release(name: str) -> None:
    """Nothing beats the likelihood ratio, and a reader who knows everybody else uses it."""
    law, loss = posterior_of(name), STORIES[name].plan.privacy_loss()
    level, power = law.decisions(np.linspace(0.05, 0.95, 19))
    np.testing.assert_allclose(loss.power(np.clip(level, 0, 1)), power, atol=1e-9)


@pytest.mark.parametrize("name", ["two levels, flat", "two levels, poisson", "two levels, census"])
def test_a_reader_who_knows_less_never_beats_the_trade_off(name: str) -> None:
    story = STORIES[name]
    level, power = posterior_of(name).decisions(np.linspace(0.05, 0.95, 19))
    assert np.all(power <= story.plan.privacy_loss().power(np.clip(level, 0.0, 1.0)) + 1e-9)


def test_the_opposite_truth_moves_the_target_and_nobody_else() -> None:
    story = STORIES["two levels, flat"]
    truth = settle_truth(story.plan, story.reader, story.truth)
    other = opposite(story.plan, story.reader, truth)
    assert other.target == 1 - truth.target
    assert np.all(np.abs(other.counts - truth.counts) == 1)
    assert opposite(story.plan, story.reader, other).by_level(story.plan) == truth.by_level(story.plan)


def test_quantiles_undo_the_cdf() -> None:
    law = posterior_of("two levels, poisson")
    for truth in ("in", "out"):
        for q in (0.05, 0.5, 0.95):
            x = law.quantile(q, truth)
            assert law.cdf(x + 1e-9, truth) >= q - 1e-9
            assert law.cdf(x - 1e-6, truth) <= q + 1e-9


def test_the_dots_are_the_readers_tests_and_the_curves_the_promises() -> None:
    one = scenario("granville_1940")
    figure = audited_guarantees.tests_of_readers(one, audit_of(one))
    lines = {line.get_gid(): line for ax in figure.axes for line in ax.get_lines() if line.get_gid()}
    law = audited_guarantees.audited_posteriors(one, audit_of(one))[""]
    level, power = law.decisions(law.quantile(1.0 - audited_guarantees.LEVELS, "out"))
    np.testing.assert_allclose(lines["point the reader"].get_xdata(), level)
    np.testing.assert_allclose(lines["point the reader"].get_ydata(), power)
    assert np.all(level <= audited_guarantees.LEVELS + 1e-12)
    zcdp = lines["power zCDP"]
    assert one.guarantee is not None
    np.testing.assert_allclose(zcdp.get_ydata(), one.guarantee["zCDP"].power(np.asarray(zcdp.get_xdata())))


def test_readers_that_differ_in_their_prior_only_share_their_dots() -> None:
    one = scenario("dare_1940")
    figure = audited_guarantees.tests_of_readers(one, audit_of(one))
    points = {
        line.get_gid() for ax in figure.axes for line in ax.get_lines() if str(line.get_gid()).startswith("point")
    }
    assert len(points) == 1


def test_posteriors_are_shown_beside_a_reader_who_knows_everybody_else() -> None:
    one = scenario("granville_1940")
    figure = audited_guarantees.posteriors_of_readers(one, audit_of(one))
    gids = {line.get_gid() for ax in figure.axes for line in ax.get_lines()}
    assert {"in the reader", "out the reader", "in others known", "out others known"} <= gids


def test_a_reader_for_whom_one_truth_is_impossible_is_left_out_of_the_report(tmp_path: Path) -> None:
    """The county's total is published exactly and the reader is sure of it: the target cannot be taken out of it."""
    text = (DATA / "granville_1940.toml").read_text(encoding="utf-8")
    old = 'noise = "discrete gaussian"\nrho = "64/25 * 1256/4099 * 1288/4099"'
    assert old in text
    text = text.replace(old, 'noise = "exact"').replace('"block group" = "uniform"', '"block group" = { total = 1 }')
    path = tmp_path / "sure.toml"
    path.write_text(text, encoding="utf-8")
    one = adv.load_scenario(path)
    with pytest.raises(ValueError, match="no reader holds both truths possible"):
        audited_guarantees.audited_posteriors(one, audit_of(one))
    assert "Left out: What a test can detect" in audit_page.render(one, audit_of(one))
