"""The report: self-contained, escaped, honest about rounding, and written whole or not at all."""

import re
from functools import cache
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import adversary as adv
from adversary.desk.figures import audited_guarantees
from adversary.desk.files.scenario import Scenario
from adversary.desk.kit import audit_words
from adversary.desk.report import audit_page, results_section
from adversary.desk.report.audit_page import check_directory, render, write_report
from tests.pages import page_without_pictures

DATA = Path(__file__).parents[2] / "data"


def audit_of(scenario: Scenario, **more: object) -> xr.DataTree:
    return adv.audit(
        scenario.plan,
        scenario.adversary,
        scenario.truth,
        guarantee=scenario.guarantee,
        failure=scenario.failure,
        rng=1,
        **more,  # type: ignore[arg-type]
    )


@cache
def page(name: str) -> str:
    """With its pictures for one scenario; the others are read for their words."""
    scenario = adv.load_scenario(DATA / f"{name}.toml")
    return (render if name == "granville_1940" else page_without_pictures)(scenario, audit_of(scenario))


def text_of(html: str) -> str:
    """The words of a page, spaces made plain."""
    body = re.sub(r"<style>.*?</style>", "", html, flags=re.S)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", body))).replace("\u00a0", " ")


def changed(tmp_path: Path, old: str, new: str, name: str = "granville_1940") -> Scenario:
    text = (DATA / f"{name}.toml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "scenario.toml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return adv.load_scenario(path)


def test_the_page_stands_alone() -> None:
    html = page("granville_1940")
    assert html.startswith("<!DOCTYPE html>")
    assert html.count("data:image/svg+xml;base64,") == 5
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert "<script" not in html
    assert "@import" not in html
    assert "http" not in re.sub(r"base64,[^\"]+", "", html)


def test_results_stand_in_the_words_and_tables() -> None:
    text = text_of(page("granville_1940"))
    for part in (
        "43.56 %",
        "0.8712",
        "31.82 %",
        "58.89 %",
        "discrete Gaussian, sigma² = 5.039",
        "27",
    ):
        assert part in text


def test_both_meanings_of_the_budget_are_told_with_numbers() -> None:
    for name, mine in (("dare_1940", "a record is added or removed"), ("dare_1940_bounded", "a record changes")):
        text = text_of(page(name))
        assert f"This scenario's budget speaks of neighbours between which {mine}" in text
        assert "sigma² = 1/(2 rho)" in text
        assert "sigma² = 1/rho" in text
        assert "unbounded one 1/2 5.039 52.37 % 1.047 58.89 %" in text
        assert "bounded one 1/2 10.08 51.21 % 1.024 56.28 %" in text
        assert "bounded both 1/2 10.08 52.37 % 1.047 54.44 %" in text


def test_the_rows_of_the_scenario_itself_are_marked() -> None:
    for name, row in (("dare_1940", ("unbounded", "one")), ("dare_1940_bounded", ("bounded", "both"))):
        used = re.findall(r'<tr class="used"><td class="text">(\w+)</td><td class="text">(\w+)</td>', page(name))
        assert set(used) == {row}
        assert len(used) == 5


def test_an_improper_belief_with_a_small_count_is_warned_about(tmp_path: Path) -> None:
    assert "not neutral about the target" in text_of(page("granville_1940"))
    assert "not neutral" not in text_of(page("dare_1940"))
    large = adv.load_scenario(DATA / "granville_1940.toml").with_truth({"block group": 10})
    assert audit_words.warnings(audit_of(large)) == []
    proper = changed(tmp_path, '"block group" = "uniform" ', '"block group" = { upper = 10 } ')
    assert audit_words.warnings(audit_of(proper)) == []


def test_every_status_is_explained(tmp_path: Path) -> None:
    assert "Every promise holds" in text_of(page("dare_1940"))
    false = changed(tmp_path, 'zCDP = "sum of levels"', "zCDP = 0.05")
    text = text_of(page_without_pictures(false, audit_of(false)))
    assert "Not every promise holds here" in text
    assert audit_words.STATUS["violated"] in text
    assert "the promise is false" in text


def test_what_a_mistaken_reader_learns_is_not_blamed_on_the_promise(tmp_path: Path) -> None:
    mistaken = changed(tmp_path, '"block group" = "uniform" ', '"block group" = { total = 60 } ')
    tree = audit_of(mistaken)
    if (tree["bound"]["status"] == "exceeded").any():
        assert "the promise is true" in text_of(page_without_pictures(mistaken, tree))
    assert (tree["bound"]["status"] != "violated").all()
    assert (tree["bound"]["k"] == 2).all()


def test_text_from_the_scenario_is_escaped(tmp_path: Path) -> None:
    text = (DATA / "dare_1940.toml").read_text(encoding="utf-8")
    for name in ("title", "description", "source"):
        text = re.sub(rf"(?m)^{name} = .*$", f"{name} = '<script>{name}(1)</script> & <img src=x onerror=y>'", text)
    path = tmp_path / "evil.toml"
    path.write_text(text, encoding="utf-8")
    scenario = adv.load_scenario(path)
    html = page_without_pictures(scenario, audit_of(scenario))
    assert "<script" not in html
    assert "<img src=x" not in html
    for name in ("title", "description", "source"):
        assert f"&lt;script&gt;{name}(1)&lt;/script&gt;" in html


def test_names_of_readers_and_levels_are_escaped(tmp_path: Path) -> None:
    text = (DATA / "dare_1940.toml").read_text(encoding="utf-8").replace('name = "block"', 'name = "<i>b</i>"')
    text = (
        text.replace("\nblock = 1", '\n"<i>b</i>" = 1')
        .replace('"1/5"', '"<b>"', 1)
        .replace('"<b>"\nknown', '"1/5"\nknown')
    )
    path = tmp_path / "evil.toml"
    path.write_text(text, encoding="utf-8")
    scenario = adv.load_scenario(path)
    html = render(scenario, audit_of(scenario))
    assert "<i>" not in html
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_bounds_are_rounded_outward() -> None:
    rng = np.random.default_rng(1)
    for value in [*rng.lognormal(0, 6, 300), 0.0, 1.0, 99.99999, 0.1 + 0.2, 1e-9]:
        low, high = float(audit_words.outward(value, False)), float(audit_words.outward(value, True))
        assert low - 5e-16 * abs(low) <= value <= high + 5e-16 * abs(high)  # up to the last digit of a double
        assert high - low <= 1.01e-3 * value
        assert float(audit_words.outward(-value, False)) == -high
    assert audit_words.outward(1.5494391, True) == "1.550"
    assert audit_words.outward(1.5494391, False) == "1.549"
    assert audit_words.outward(float("inf"), True) == "unlimited"
    assert audit_words.outward(0.99999, True) == "1.000"
    assert audit_words.outward(1.0000000000000002, True) == "1.000"  # one, up to the last digit
    assert audit_words.outward(1.00000000001, True) == "1.001"


def test_shares_are_short_and_never_claim_a_certainty_that_is_not_there() -> None:
    assert [audit_words.percent(p).replace("\u00a0", " ") for p in (0.0, 1.0, 0.57, 0.0012, 0.9997)] == [
        "0 %", "100 %", "57 %", "0.12 %", "99.97 %",
    ]  # fmt: skip
    assert audit_words.share(0.1).replace("\u00a0", " ") == "10 %"
    assert audit_words.share(1e-12).startswith("<")
    almost = [audit_words.share(p).replace("\u00a0", " ") for p in (0.99996, 0.9999996, 1 - 1e-10, 1.0, 0.99994)]
    assert almost == ["99.996 %", "99.99996 %", "> 99.999999 %", "100 %", "99.994 %"]
    assert audit_words.outward_percent(0.999994, True) == "99.9994"
    assert audit_words.outward_percent(1.0, True) == "100.0"
    assert audit_words.beyond(0.9999999).startswith("99.99999")


def test_powers_of_ten_are_written_alike_everywhere() -> None:
    for value in (6.0791e-6, 7.8232e-6, 4.2e-9, 3.5e12):
        assert re.fullmatch(r"\d\.\d{3}e[+-]\d\d", audit_words.figure_of(value * (1 + 1e-9)))
        assert re.fullmatch(r"\d\.\d{3}e[+-]\d\d", audit_words.outward(value * (1 + 1e-9), True))
    for value in (5.0123e-5, 12345.67, 0.012345):
        assert "e" not in audit_words.figure_of(value) + audit_words.outward(value, True)
    assert audit_words.figure_of(9.99996) == "10.00"


def test_the_figure_of_posteriors_says_the_bounds_of_the_table() -> None:
    scenario = adv.load_scenario(DATA / "granville_1940.toml")
    tree = audit_of(scenario)
    bound = tree["bound"].sel(definition="zCDP")["posterior"].values
    title = audited_guarantees.posteriors_of_readers(scenario, tree).get_suptitle().replace("\n", " ")
    assert f"zCDP allows {audit_words.between(*map(float, bound), percent=True)}" in title


def test_readers_and_everybody_are_not_confused() -> None:
    text = text_of(page("dare_1940"))
    assert "Each of the 5 readers could do epsilon" in text
    assert "that the plan's own loss allows anybody at all" in text
    assert "Every reader could do" not in text


def test_provenance_names_seed_versions_and_allocation() -> None:
    text = text_of(page("granville_1940"))
    for part in (
        "Seed",
        "Versions",
        "adversary 0.",
        "numpy",
        "Allocation: block",
        "64/25 * 165/4099 * 3945/4097",
        "exact",
    ):
        assert part in text
    assert str(DATA) not in page("granville_1940"), "no path of this machine"


def test_estimates_say_so_with_their_standard_errors(tmp_path: Path) -> None:
    path = tmp_path / "laplace.toml"
    level = '[[plan.level]]\nname = "{}"\nnoise = "laplace"\nepsilon = 1\n'
    path.write_text(
        'neighbours = "unbounded"\n[plan]\n' + level.format("block") + "siblings = 2\n" + level.format("tract")
        + "[truth]\nblock = 1\ntract = 3\n[adversary]\nprior = 0.5\nknown = 0\n[adversary.beliefs]\n"
        + "tract = { upper = 6 }\n"
        + '[guarantee]\n"pure DP" = 2\n',
        encoding="utf-8",
    )  # fmt: skip
    scenario = adv.load_scenario(path)
    tree = audit_of(scenario, draws=1024)
    assert "mcse" in tree["risk"]
    results = text_of("".join(" ".join(row["cells"]) for row in results_section.results(scenario, tree).rows))
    assert results.count("±") == 4
    assert "estimates from 1024 simulated releases" in " ".join(results_section.notes(scenario, tree))


def test_netcdf_keeps_every_value(tmp_path: Path) -> None:
    scenario = adv.load_scenario(DATA / "dare_1940.toml")
    tree = audit_of(scenario)
    html, data = write_report(scenario, tree, tmp_path / "new" / "folder")
    assert html.name == "report.html"
    with xr.open_datatree(data, engine="h5netcdf") as opened:
        for group in ("release", "exact", "risk", "bound"):
            xr.testing.assert_equal(opened[group].to_dataset().load(), tree[group].to_dataset())
        assert opened.attrs["seed"] == tree.attrs["seed"]
        assert opened["risk"]["posterior_mean"].attrs["direction"] == "exact"
    assert sorted(path.name for path in data.parent.iterdir()) == ["audit.nc", "report.html"]


def test_a_directory_that_cannot_be_written_is_said_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(audit_page, "render", lambda *_: pytest.fail("drawn too early"))
    scenario = adv.load_scenario(DATA / "dare_1940.toml")
    for place in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(OSError, match=r"cannot write into .*file"):
            write_report(scenario, xr.DataTree(), place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_half_written_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = adv.load_scenario(DATA / "dare_1940.toml")
    (tmp_path / "report.html").write_text("an older report")

    def failing(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(audit_page, "render", lambda *_: "new")
    monkeypatch.setattr(xr.DataTree, "to_netcdf", failing)
    with pytest.raises(OSError, match="disk full"):
        write_report(scenario, xr.DataTree(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "an older report"


def test_check_directory_leaves_nothing_but_the_directory(tmp_path: Path) -> None:
    assert list(check_directory(tmp_path / "a" / "b").iterdir()) == []


def test_several_truths_have_a_section_each(tmp_path: Path) -> None:
    text = (DATA / "granville_1940.toml").read_text(encoding="utf-8")
    path = tmp_path / "truths.toml"
    path.write_text(
        text.replace("[truth]", "[truths.alone]") + '\n[truths."nobody"]\nblock = 0\n"block group" = 3\n',
        encoding="utf-8",
    )
    scenario = adv.load_scenario(path)
    text = text_of(page_without_pictures(scenario, audit_of(scenario)))
    for part in ("What the reader learns: alone", "What the reader learns: nobody", "Under the truth nobody: a reader"):
        assert part in text


def test_one_named_reader_of_one_named_truth_is_like_one_without_names(tmp_path: Path) -> None:
    text = (DATA / "granville_1940.toml").read_text(encoding="utf-8")
    path = tmp_path / "named.toml"
    named = text.replace("[truth]", "[truths.alone]").replace("[adversary", "[adversaries.neighbour")
    path.write_text(named, encoding="utf-8")
    scenario = adv.load_scenario(path)
    tree = audit_of(scenario)
    html = render(scenario, tree)
    assert html.count("data:image/svg+xml;base64,") == 6
    assert "Left out" not in html
    told = "Under the truth alone: a reader who starts at 50 % ends, averaged over releases, at 43.56 %"
    assert told in text_of(html)
