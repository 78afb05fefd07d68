"""Skeletons of leaves to copy: each is listed where contributors look, and works as it stands.

Laws of the catalogue hold for the mechanism, the belief and the guarantee among them: see `catalogue.skeleton`.
"""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import typer

import adversary as adv
from adversary.driver import GROUPS, further_groups
from adversary.report.answers.audit_answer import solve
from adversary.report.answers.audit_page import document
from adversary.report.kit.rendering import to_markdown
from adversary.report.sections.release_sections import SECTIONS
from tests.catalogue import SKELETONS, skeleton
from tests.tables import DATA

KINDS = sorted(path.stem for path in SKELETONS.glob("*.py"))


def test_contributors_are_shown_every_skeleton() -> None:
    page = (SKELETONS.parent / "CONTRIBUTING.md").read_text("utf-8")
    listed = re.findall(r"\| `(\w+)\.py` \| `([\w/]+)/`", page)
    assert sorted(kind for kind, _ in listed) == KINDS
    root = Path(__file__).parents[1]
    assert [folder for _, folder in listed if not (root / folder).is_dir()] == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "section"])
def test_its_examples_run(kind: str) -> None:
    failed, tried = doctest.testmod(skeleton(kind), optionflags=doctest.ELLIPSIS)
    assert failed == 0
    assert tried > 0


def test_the_model_is_its_story() -> None:
    noise, others = adv.Geometric(0.8), np.arange(5)
    model = skeleton("model").shared_household(noise, prior=0.2, size=4, together=0.6)
    for noisy in (-1, 0, 2, 6):
        either = [
            (scipy.stats.binom(4, chance).pmf(others) * np.exp(noise.log_prob(noisy, others + own))).sum()
            for own, chance in ((0, 0.3), (1, 0.6))
        ]
        exact = 0.2 * either[1] / (0.2 * either[1] + 0.8 * either[0])
        assert adv.enumerate_posterior(model, {"noisy": noisy}).posterior.item() == pytest.approx(exact, abs=1e-12)


def test_the_command_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = typer.Typer()
    app.command()(skeleton("command").distance_command)
    for options in ([], ["--json"], ["--out", str(tmp_path / "page")]):
        app(["--rho", "0.125", *options], standalone_mode=False)
    written, _ = capsys.readouterr()
    assert "With probability 95% the noise moves a count by at most 4." in written
    (record,) = json.loads(written[written.index("{") : written.rindex("}") + 1])["records"]
    assert (record["prob"], record["quantity"], record["value"]) == (0.95, "distance", 4)
    assert {path.name for path in (tmp_path / "page").iterdir()} >= {"report.html", "noise.csv"}


def test_the_group_is_in_the_audit_and_its_section_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    new, scenario = skeleton("section"), adv.load_scenario(DATA / "granville_1940.toml")
    monkeypatch.setitem(GROUPS, "noise", new.GROUPS["noise"])
    monkeypatch.setattr(further_groups, "EVERYTHING", (*further_groups.EVERYTHING, "noise"))
    monkeypatch.setitem(SECTIONS, "noise", new.SECTIONS["noise"])
    tree = solve(scenario, whole=False, also=("noise",))
    expected = [level.mechanism.variance**0.5 for level in scenario.plan.levels]
    np.testing.assert_allclose(tree["noise"].spread, expected)
    assert "The noise of the" in to_markdown(document(scenario, tree, words=False))
