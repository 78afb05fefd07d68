"""Figures of README and of the site's home page, drawn again by `python -m tests.site_figures`.

`hundred_censuses_1060.svg` and `hundred_censuses_390.svg` have dark twins, `..._dark.svg`, and a preview for links,
`hundred_censuses_preview.png`. `dare_1940.svg` is the figure of the first audit, `real_releases.svg` that of the
gallery; both have dark twins, and twins for a phone, `..._358.svg`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

import adversary as adv
from adversary.report.kit.figure_files import figure_of, offscreen, to_svg

PREVIEW = (1200, 630)
"""Pixels."""
FOLDER = Path(__file__).parent.parent / "notebooks"
TITLE = "The 2020 Census hides your block among its neighbours, not your whole record"
NOTE = "Both possibilities are in one state. Exact composition of 142 noises; no simulation."


@cache
def losses() -> dict[str, adv.PrivacyLoss]:
    """Privacy losses of four concerns about the 2020 Census."""
    return {
        "Block within its block group": adv.census.scenario("A").loss,
        "Block within its tract": adv.census.scenario("B").loss,
        "Race": adv.census.scenario("C").loss,
        "The whole record": adv.census.pl94().loss,
    }


def hundred_censuses(ax: Any = None) -> Any:
    """A hundred equally likely 2020 Censuses."""
    return adv.plot.quantile_dots(losses(), title=TITLE, note=NOTE, ax=ax)


def first_audit() -> Any:
    """The first audit of README."""
    scenario = adv.load_scenario(FOLDER.parent / "data" / "dare_1940.toml")
    return adv.plot.before_after(
        adv.audit(scenario.plan, scenario.adversary, scenario.truth, guarantee=scenario.guarantee)
    )


def every_release() -> Any:
    """Real releases on one axis."""
    return adv.plot.gallery(adv.releases.gallery(rng=1))


def write(name: str, axes: Any) -> None:
    """A figure in both modes."""
    for end, mode in (("", "light"), ("_dark", "dark")):
        (FOLDER / f"{name}{end}.svg").write_bytes(to_svg(axes, mode))


def write_preview(width: int, height: int) -> None:
    """The wide figure in the middle of an image for previews of links."""
    with offscreen("wide"):
        figure = figure_of(hundred_censuses())
    buffer = BytesIO()
    dpi = min(width / figure.get_figwidth(), height / figure.get_figheight())
    figure.savefig(buffer, format="png", dpi=dpi)
    drawn, ground = Image.open(buffer).convert("RGB"), Image.new("RGB", (width, height), adv.plot.PALETTE["paper"])
    ground.paste(drawn, ((width - drawn.width) // 2, (height - drawn.height) // 2))
    ground.quantize(64).save(FOLDER / "hundred_censuses_preview.png", optimize=True)


def main() -> None:
    """Draw them all."""
    sizes: dict[str, tuple[str, Callable[[], Any]]] = {
        "hundred_censuses_1060": ("wide", hundred_censuses),
        "hundred_censuses_390": ("phone", lambda: hundred_censuses(Figure(figsize=(3.9, 6.6)).subplots())),
        "dare_1940": ("column", first_audit),
        "dare_1940_358": ("phone", first_audit),
        "real_releases": ("column", every_release),
        "real_releases_358": ("phone", every_release),
    }
    for name, (size, draw) in sizes.items():
        with offscreen(size), adv.plot.style(size):
            write(name, draw())
    write_preview(*PREVIEW)


if __name__ == "__main__":
    main()
