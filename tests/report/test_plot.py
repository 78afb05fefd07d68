"""`adv.plot`: every figure takes the axes it is given, has an alternative text, and a short script on its API page."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import adversary as adv
from adversary.report.kit.figure_files import DARK, LIGHT, OFFSCREEN, SIZE, inline_svg, offscreen, to_svg
from adversary.report.plot import dot_figures
from tests import site_figures
from tests.notebooks import NOTEBOOKS

ROOT = NOTEBOOKS.parent
FIGURES = (
    "before_after", "posterior_by_release", "ratio_by_prior", "risk_by_budget", "trade_off", "epsilon_delta", "tornado",
    "fan", "posterior_map", "risk_map", "epsilon_profile", "quantile_dots", "risk_by_count", "gallery",
    "posterior_by_prior",
)  # fmt: skip
PLAN = adv.Plan([adv.Level("block", adv.DiscreteGaussian.from_rho(0.1))])


def audited() -> Any:
    return adv.audit(PLAN, adv.Adversary(0.5), {"block": 1}, also=("priors", "budgets"))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_a_script_of_at_most_fifteen_lines(name: str) -> None:
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(adv.plot, name), name)
    lines = [line for example in test.examples for line in example.source.splitlines()]
    assert 2 <= len(lines) <= 15
    assert any(f"adv.plot.{name}(" in line for line in lines)


@pytest.mark.parametrize("name", [*FIGURES, *adv.plot.OF_ANNEXES])
def test_every_figure_is_reached_by_the_one_door(name: str) -> None:
    function = getattr(adv.plot, name)
    assert function.__name__ == name
    assert "Parameters" in function.__doc__


ON_AXES: dict[str, Callable[[Any], Any]] = {
    "before_after": lambda ax: adv.plot.before_after(audited(), ax=ax),
    "posterior_by_release": lambda ax: adv.plot.posterior_by_release(audited(), ax=ax),
    "ratio_by_prior": lambda ax: adv.plot.ratio_by_prior(audited(), ax=ax),
    "risk_by_budget": lambda ax: adv.plot.risk_by_budget(audited(), ax=ax),
    "trade_off": lambda ax: adv.plot.trade_off(adv.PureDP(1.0), ax=ax),
    "epsilon_delta": lambda ax: adv.plot.epsilon_delta(rho=0.5, ax=ax),
    "posterior_by_prior": lambda ax: adv.plot.posterior_by_prior(adv.PureDP(1.0), ax=ax),
}


@pytest.mark.parametrize("name", ON_AXES)
def test_a_figure_is_drawn_on_the_axes_it_is_given(name: str) -> None:
    with adv.plot.style():
        left, right = Figure().subplots(1, 2)
    assert ON_AXES[name](right) is right
    assert right.get_title(loc="left")
    assert not left.lines
    assert not left.get_title(loc="left")


def test_a_group_that_is_missing_and_a_level_that_is_not_there_are_named() -> None:
    tree = adv.audit(PLAN, adv.Adversary(0.5), {"block": 1}, also=())
    for draw, group in ((adv.plot.ratio_by_prior, "priors"), (adv.plot.risk_by_budget, "budgets")):
        with pytest.raises(ValueError, match=f'audit\\(..., also=\\("{group}",\\)\\)'):
            draw(tree)
    with pytest.raises(ValueError, match=r"level must be one of \['block'\], got 'tract'"):
        adv.plot.posterior_by_release(tree, level="tract")


def test_figures_outside_a_page_belong_to_pyplot() -> None:
    before, token = plt.get_fignums(), OFFSCREEN.set(False)
    try:
        ax = adv.plot.trade_off(adv.PureDP(1.0))
        assert ax.figure.number not in before
        plt.close(ax.figure)
    finally:
        OFFSCREEN.reset(token)


def test_the_style_is_set_for_good_or_for_a_block() -> None:
    before = mpl.rcParams["axes.edgecolor"]
    with adv.plot.style("phone"):
        assert mpl.rcParams["axes.edgecolor"] == LIGHT["line"]
        assert SIZE.get() == "phone"
        assert mpl.rcParams["figure.figsize"][0] == 3.58
    assert (mpl.rcParams["axes.edgecolor"], SIZE.get()) == (before, "column")
    undo = adv.plot.style()
    assert mpl.rcParams["axes.edgecolor"] == LIGHT["line"]
    undo.close()
    with pytest.raises(ValueError, match="size must be one of"):
        adv.plot.style("poster")


def test_an_svg_serves_both_modes_and_says_what_it_shows() -> None:
    with offscreen():
        ax = adv.plot.trade_off(adv.PureDP(1.0))
    light, dark, page = (to_svg(ax, mode).decode() for mode in ("light", "dark", "page"))
    assert LIGHT["after"].lower() in light
    assert DARK["after"] in dark
    assert LIGHT["after"].lower() not in dark
    assert f"var(--after, {LIGHT['after']})" in page
    assert 'aria-label="At 5' in page
    assert 'width="720"' in page
    inside = inline_svg(page.encode(), "trade off")
    assert inside.startswith("<svg")
    names = re.findall(r' id="([^"]*)"', inside)
    assert all(name.startswith("trade-off-") for name in names)
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', inside)) <= set(names)


@pytest.mark.slow
def test_a_hundred_censuses_leave_as_many_adversaries_sure_as_the_figure_says() -> None:
    """Exact shares 0.0005%, 17.5%, 20.2%, 57.5% of releases, of a hundred 0, 18, 20, 57."""
    losses = site_figures.losses()
    rows = [dot_figures._row(name, loss, 0.5, "in", 100, 0.9, 0.05, 0.15) for name, loss in losses.items()]
    assert [int(row.over.sum()) for row in rows] == [0, 18, 20, 57]
    shares = [1.0 - float(loss.posterior(0.5).cdf(0.9, "in")) for loss in losses.values()]
    assert shares == pytest.approx([5e-6, 0.175, 0.202, 0.575], rel=0.02)
    ends = [[100.0 * end for end in row.ends] for row in rows]
    np.testing.assert_allclose(ends, [[24, 76], [2.5, 97.5], [2.1, 97.9], [0.08, 99.92]], rtol=0.03)
    for name in ("1060", "1060_dark"):
        drawn = (NOTEBOOKS / f"hundred_censuses_{name}.svg").read_text()
        words = (f"{row.counted()} leave them over" for row in rows)
        assert all(word in drawn for word in words)


def test_files_of_the_home_page_are_there_in_both_modes_and_widths() -> None:
    for name in ("hundred_censuses_1060", "hundred_censuses_390", "dare_1940", "dare_1940_358"):
        for end in ("", "_dark"):
            text = (NOTEBOOKS / f"{name}{end}.svg").read_text()
            assert len(re.search(r'aria-label="([^"]*)"', text)[1]) > 60  # type: ignore[index]
    preview = plt.imread(NOTEBOOKS / "hundred_censuses_preview.png")
    assert preview.shape[:2] == site_figures.PREVIEW[::-1]


def test_the_range_of_beliefs_keeps_its_height_where_no_dot_can_be_seen() -> None:
    heights = []
    for epsilon in (0.5, 5.0, 20.0):
        ax = adv.plot.posterior_by_prior(adv.PureDP(epsilon), priors=[0.01])
        ax.figure.draw_without_rendering()
        heights.append(ax.get_window_extent().height)
    assert min(heights) > 0.9 * max(heights)


def test_a_figure_that_is_saved_tight_keeps_its_title(tmp_path: Path) -> None:
    ax = adv.plot.trade_off({"epsilon = 1": adv.PureDP(1.0)})
    ax.figure.savefig(tmp_path / "tight.png", bbox_inches="tight")
    height, width, _ = plt.imread(tmp_path / "tight.png").shape
    across, up = ax.figure.get_size_inches()
    assert width >= 100 * across - 1
    assert height >= 100 * up - 1


PAGES = [ROOT / "README.md", *NOTEBOOKS.rglob("*.md")]
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)|<img\b([^>]*)>")
HASHED = re.compile(r"^(_images/)?[0-9a-f]{16,}|\.(png|svg)$", re.IGNORECASE)


def without_words(alt: str) -> bool:
    """True of an alternative text that tells nobody anything."""
    return len(alt.split()) < 4 or bool(HASHED.search(alt.strip()))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_picture_of_a_page_has_an_alternative_text(path: Path) -> None:
    for found in PICTURE.finditer(path.read_text(encoding="utf-8")):
        if "shields.io" in found[0] or "badge" in found[0]:
            continue
        alt = found[1] if found[1] is not None else (re.search(r'alt="([^"]*)"', found[3]) or ("", ""))[1]
        assert not without_words(" ".join(alt.split())), found[0][:80]


def test_hashes_file_names_and_silence_are_refused() -> None:
    assert all(map(without_words, ("", "figure", "_images/f75bce64f75bce64f75b.png", "a b c dare_1940.svg")))
    assert not without_words("One noisy count moves a 50% suspicion to 52% on average.")


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_picture_of_a_notebook_has_an_alternative_text(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        pictures = [one["data"] for one in cell.get("outputs", []) if "image/png" in one.get("data", {})]
        if pictures:
            assert not without_words(cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", ""))
