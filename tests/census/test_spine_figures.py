"""Results of a whole spine as columns, what was promised beside them, and their figures."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import adversary as adv
from adversary.census.nmf.runs import block_results
from adversary.census.report import spine_figures
from adversary.report.kit.figure_files import figure_of

spine = adv.spine
PRIOR = spine.SharedRate(np.geomspace(0.1, 10.0, 4))


@cache
def county(exact: bool = False, blocks: int = 60) -> Any:
    """A tree of one county, six groups and their blocks; its truth, noisy counts, rho and posterior."""
    groups = {f"g{i}": "county" for i in range(6)}
    parents = {"county": None, **groups, **{f"b{i:03d}": f"g{i % 6}" for i in range(blocks)}}
    tree = spine.Tree.of(parents, ("county", "group", "block"))
    rng = np.random.default_rng(3)
    truth = tree.sums(rng.poisson(1.0, tree.leaves.size))
    rho = np.array([np.inf if exact else 0.05, 0.2, 0.1])[tree.level]
    noise = np.rint(rng.normal(0.0, np.sqrt(0.5 / np.where(np.isinf(rho), 1.0, rho))))
    released = truth + np.where(np.isinf(rho), 0.0, noise)
    found = spine.posterior(tree, released, rho, PRIOR)
    return tree, truth.astype(int), released, rho, found


@cache
def table(exact: bool = False) -> Any:
    tree, truth, released, rho, found = county(exact)
    return block_results.results(released, rho, found, found.membership(0.1, truth[tree.leaves]))


def heading(figure: Figure) -> str:
    return " ".join(figure.get_suptitle().replace("\u00a0", " ").split())


def drawn(figure: Figure) -> dict[str, Any]:
    """Lines by their names, after drawing everything once."""
    FigureCanvasAgg(figure).draw()
    return {line.get_gid(): line for ax in figure.axes for line in ax.lines if line.get_gid()}


def test_results_are_the_posterior_and_the_membership() -> None:
    tree, truth, released, _, found = county()
    members = found.membership(0.1, truth[tree.leaves])
    columns = table()
    assert columns["geocode"].tolist() == tree.names.tolist()
    np.testing.assert_array_equal(columns["noisy"], released)
    np.testing.assert_allclose(columns["mean"], found.mean)
    np.testing.assert_allclose(block_results.blocks(columns, "ratio"), members["ratio"])
    assert np.isnan(columns["ratio"][tree.children > 0]).all()
    assert block_results.statuses(columns) == {"ok": tree.leaves.size}
    bare = block_results.results(released, 0.1, found)
    assert np.isnan(bare["ratio"]).all()
    with pytest.raises(ValueError, match="the results have no column 'risk'"):
        block_results.column(columns, "risk")


def test_the_promise_is_zcdp_of_the_path() -> None:
    found = block_results.path_guarantee(table())
    assert (found.rho, found.records) == (pytest.approx(0.35), 1)
    assert found.ratio(0.1) == pytest.approx(adv.ZeroConcentratedDP(0.35).ratio_bounds(0.1, 0.05))
    assert found.posterior(0.1)[1] == pytest.approx(0.1 * found.ratio(0.1)[1])


def test_beside_an_exact_total_two_paths_change() -> None:
    found = block_results.path_guarantee(table(exact=True))
    assert (found.rho, found.records) == (pytest.approx(0.3), 2)
    assert found.guarantee.epsilon(1e-6) == pytest.approx(adv.ZeroConcentratedDP(0.6).epsilon(1e-6))


def test_the_weakest_promise_counts_the_records_that_change() -> None:
    two = {"path_rho": np.array([1.0, 0.8]), "variance": np.ones(2), "path_exact": np.array([False, True])}
    found = block_results.path_guarantee(two)
    assert (found.rho, found.records) == (0.8, 2)


def test_an_exact_block_is_promised_nothing() -> None:
    only = {"path_rho": np.array([0.0]), "variance": np.array([0.0]), "path_exact": np.array([True])}
    found = block_results.path_guarantee(only)
    assert found.guarantee == adv.NoPrivacy()
    assert found.ratio(0.1) == (0.0, pytest.approx(10.0))


def test_few_blocks_pass_the_bounds_when_readers_are_right() -> None:
    low, high = block_results.path_guarantee(table()).ratio(0.1)
    ratio = block_results.blocks(table(), "ratio")
    assert ((ratio < low) | (ratio > high)).mean() <= 0.05


def test_errors_are_root_mean_squares_by_level() -> None:
    tree, truth, released, rho, found = county()
    squares = spine.least_squares(tree, released, rho)
    checked = block_results.errors(tree, truth, {"posterior": found, "squares": squares, "noisy": released})
    blocks = tree.level == 2
    assert float(checked["rmse"].sel(level="block", estimate="noisy")) == pytest.approx(
        float(np.sqrt(np.mean((released - truth)[blocks] ** 2)))
    )
    assert float(checked["coverage"].sel(level="block", estimate="posterior")) == pytest.approx(
        float(found.covers(truth)[blocks].mean())
    )
    assert float(checked["claimed"].sel(level="block", estimate="posterior")) > 0.9
    assert np.isnan(checked["coverage"].sel(estimate="noisy")).all()
    assert checked["rmse"].dims == ("level", "estimate")


def test_risk_draws_every_proven_block_and_the_bounds() -> None:
    ratio, bounds = block_results.blocks(table(), "ratio"), block_results.path_guarantee(table()).ratio(0.1)
    figure = figure_of(spine_figures.block_ratios(table(), bounds, threshold=1.25, failure=0.05))
    lines = drawn(figure)
    assert sum(patch.get_height() for patch in figure.axes[0].patches) == ratio.size
    assert (lines["least"].get_xdata()[0], lines["largest"].get_xdata()[0]) == bounds
    np.testing.assert_allclose(lines["beyond"].get_xdata(), np.sort(ratio))
    share = 100 * (ratio < 1.25).mean()
    start = f"In {share:.0f}% of blocks the probability grows less than 1.25-fold"
    assert heading(figure) == f"{start}; none are beyond the bound"


def test_risk_without_a_bound_names_quantiles_and_without_blocks_is_refused() -> None:
    assert "In half of all blocks the probability grows" in heading(figure_of(spine_figures.block_ratios(table())))
    with pytest.raises(ValueError, match="no block has a proven ratio"):
        figure_of(
            spine_figures.block_ratios({"ratio": np.array([np.nan, 2.0]), "status": np.array(["", "unresolved"])})
        )


def test_shrinkage_has_a_panel_and_a_diagonal_for_every_level_of_several_units() -> None:
    figure = figure_of(spine_figures.shrinkage(table()))
    lines = drawn(figure)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["group, 6 measured", "block, 60 measured"]
    np.testing.assert_array_equal(lines["diagonal"].get_xdata(), lines["diagonal"].get_ydata())
    here = table()["level"] == "block"
    np.testing.assert_allclose(lines["block"].get_ydata(), table()["mean"][here])
    with pytest.raises(ValueError, match="no level has two units"):
        figure_of(spine_figures.shrinkage({name: table()[name][:1] for name in ("level", "noisy", "mean")}))
