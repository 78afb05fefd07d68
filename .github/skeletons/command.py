"""Skeleton of a command: copy it to `adversary/report/commands/`, as `NAME_command.py`, then change the question.

The tree has the numbers, the document shows them. JSON, data and page come from these two.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
import xarray as xr

from adversary._core import check_probability, format_number, percent
from adversary.privacy.mechanisms import DiscreteGaussian
from adversary.report.commands.options import answering
from adversary.report.kit import Answer, Document, Section, Summary, guarded_document, tabulate


@answering()
def distance_command(
    rho: Annotated[float, typer.Option(help="Discrete Gaussian noise: its zCDP.")],
    prob: Annotated[float, typer.Option(help="Probability with which the noise stays within.", metavar="P")] = 0.95,
) -> Answer:
    """The distance from the true count within which noise stays."""
    return Answer(solve(rho, prob), document)


def solve(rho: float, prob: float) -> xr.DataTree:
    """Group `noise`: the smallest distance, by probability of staying within it, in people.

    Parameters
    ----------
    rho : zCDP of the noise, > 0
    prob : in [0, 1)

    >>> int(solve(0.125, 0.95)["noise"].distance.item())
    4
    """
    check_probability("prob", prob)
    noise = DiscreteGaussian.from_rho(rho)
    distance = np.arange(noise.tail_radius() + 1)
    inside = 1.0 - 2.0 * noise.sf(distance, 0)
    found = xr.Dataset({"distance": ("prob", [int(distance[inside >= prob][0])])}, {"prob": [prob]})
    verdict = f"With probability {percent(prob)} the noise moves a count by at most {int(found.distance[0])}."
    tree = xr.DataTree.from_dict({"/": xr.Dataset(attrs={"rho": rho}), "noise": found})
    return Summary(f"Noise of rho = {format_number(rho)}", ["noise"], verdict).on(tree)


@guarded_document
def document(tree: xr.DataTree) -> Document:
    """The answer of `solve` for people."""
    heads = {"prob": "probability", "distance": "at most so far from the count"}
    return Document(
        tree, sections=[Section("Noise", tables=[tabulate(tree["noise"].to_dataset(), heads, name="noise")])]
    )
