"""Figures in one style, each from the tree, frame or guarantee that it shows, with its finding as the title.

`style()` sets the style sheet. Every function returns matplotlib `Axes` (several where it needs several panels) and
takes `ax` where one panel is enough. `headline` gives a figure drawn by hand its title and its alternative text,
`PALETTE` the colours.
"""

import lazy_loader

_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

OF_ANNEXES = {
    "block_ratios": "adversary.census.report.spine_figures",
    "block_cells": "adversary.census.report.spine_figures",
    "cell_ratios": "adversary.census.report.spine_figures",
    "shrinkage": "adversary.census.report.spine_figures",
    "posterior_joint": "adversary.bounded.report.posterior_figures",
    "posterior_marginals": "adversary.bounded.report.posterior_figures",
    "posterior_predictive": "adversary.bounded.report.posterior_figures",
    "regression_lines": "adversary.bounded.report.regression_figures",
    "regression_marginals": "adversary.bounded.report.regression_figures",
}
"""Register of the figures of annexes: name, and the module that draws it."""


def __getattr__(name: str) -> object:
    if name in OF_ANNEXES:
        from importlib import import_module

        return getattr(import_module(OF_ANNEXES[name]), name)
    return _public(name)
