"""Skeleton of a group of an audit and of its section, then change what they say.

Copy the group to a file of `adversary/driver/`, where the numbers are worked out, and the section to
`adversary/report/sections/`, where they are shown.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from adversary._core import format_number
from adversary.driver.groups import AuditGroup, Question
from adversary.driver.posteriors import Groups
from adversary.report.files import Scenario
from adversary.report.kit import Column, Section, tabulate


def of_noise(question: Question) -> Groups:
    """AuditGroup `noise` (level): standard deviation of the noise of each level, in people."""
    levels = question.plan.levels
    spread = np.sqrt([level.mechanism.variance for level in levels])
    return {"noise": xr.Dataset({"spread": ("level", spread)}, {"level": [level.name for level in levels]})}


GROUPS = {"noise": AuditGroup("Noise of the levels", of_noise)}
"""One line of these in the file's own `GROUPS`."""


def noise_section(scenario: Scenario, tree: xr.DataTree) -> Section:
    """The noise of every level."""
    # The same for every adversary: a group has their dim where there are several.
    every = tree["noise"].to_dataset()
    found = every.max([dim for dim in every.dims if dim != "level"])
    widest = found["level"].values[int(found["spread"].values.argmax())]
    table = tabulate(found, {"level": "level", "spread": Column("standard deviation", "number")}, name="noise")
    finding = f"The noise of the {widest} is the widest: {format_number(float(found['spread'].max()))} people."
    return Section(GROUPS["noise"].title, finding, tables=[table])


SECTIONS = {"noise": noise_section}
"""One line of these in `SECTIONS` of `release_sections.py`."""
