"""The colours of figures: told apart under three kinds of vision, and legible as letters on their ground."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from adversary.report.kit.figure_files import DARK, LIGHT
from adversary.report.plot import sheet

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
VISION = {
    "normal": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])
THINGS = ("after", "finding", "third", "fourth")
LETTERS = ("ink", "quiet", *THINGS)


def linear(colour: str) -> np.ndarray:
    """Linear RGB of a colour in hexadecimals."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65 of linear RGB."""
    x, y, z = (np.cbrt(t) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116 for t in TO_XYZ @ rgb / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    """Of the guidelines for accessible pages."""
    light, dark = sorted((float(np.array([0.2126, 0.7152, 0.0722]) @ linear(c)) for c in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize(("colours", "least"), [(LIGHT, 23.0), (DARK, 16.0)], ids=["light", "dark"])
def test_four_things_are_told_apart(colours: dict[str, str], least: float, vision: str) -> None:
    seen = {name: lab(np.clip(VISION[vision] @ linear(colours[name]), 0.0, 1.0)) for name in THINGS}
    apart = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(THINGS, 2)}
    assert min(apart.values()) >= least, apart


def test_the_measure_notices_the_former_colours() -> None:
    """Orange and brown of the former set were 2.9 apart under protanopia."""
    seen = [lab(np.clip(VISION["protanopia"] @ linear(colour), 0.0, 1.0)) for colour in ("#D55E00", "#A6761D")]
    assert float(np.linalg.norm(seen[0] - seen[1])) < 5.0


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_labels_may_take_every_colour(colours: dict[str, str]) -> None:
    assert {name: contrast(colours[name], colours["paper"]) >= 4.5 for name in LETTERS} == dict.fromkeys(LETTERS, True)


def test_modes_have_the_same_roles_and_the_sheet_uses_them() -> None:
    assert list(LIGHT) == list(DARK)
    assert len({*LIGHT.values()}) == len(LIGHT)
    assert set(sheet.COLOURS) <= set(LIGHT.values())
