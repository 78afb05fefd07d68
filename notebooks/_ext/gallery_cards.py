"""Cards of examples: a line `notebook: finding` becomes a card with the notebook's title, first figure and finding.

A page has cards by a block

    ```{examples}
    choosing_epsilon: Keeping a risk below 25% takes epsilon 0.65
    one_person_in_one_block: A count -> what a neighbour learns: From 50% to 52% on average
    ```

in which a title other than the notebook's stands between. With the option `toctree` the notebooks belong to the page.
"""

import base64
import io
from pathlib import Path
from typing import Any, ClassVar

import nbformat
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from PIL import Image
from sphinx.util.docutils import SphinxDirective

FOLDER = Path(__file__).parents[1]
SIZE = (720, 480)
"""A thumbnail of 360 by 240, drawn twice as fine."""


class Examples(SphinxDirective):
    """The block of cards."""

    has_content = True
    option_spec: ClassVar = {"toctree": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Cards, and the table of contents that the notebooks stand in."""
        lines = [line.strip() for line in self.content if line.strip()]
        up = "../" * self.env.docname.count("/")
        text, names = (
            [
                "::::{grid} 1 2 3 3",
                ":gutter: 3",
                ":class-container: examples",
                "",
            ],
            list[str](),
        )
        for line in lines:
            name, *title, finding = (part.strip() for part in line.split(": "))
            names.append(name)
            picture, caption = thumbnail(name)
            shown = (
                [f":img-top: {up}{picture}", f":img-alt: {caption}"]
                if picture
                else []
            )
            self.env.note_dependency(str(FOLDER / f"{name}.ipynb"))
            text += [
                f":::{{grid-item-card}} {title[0] if title else heading(name)}",
                f":link: {up}{name}",
            ]
            text += [":link-type: doc", *shown, "", finding, ":::"]
        text.append("::::")
        if "toctree" in self.options:
            text += ["", "```{toctree}", ":hidden:", "", *names, "```"]
        node = nodes.container()
        self.state.nested_parse(
            StringList(text, self.env.docname), self.content_offset, node
        )
        return list(node.children)


def heading(name: str) -> str:
    """The title of a notebook."""
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    return str(
        next(
            line
            for cell in cells
            for line in cell.source.splitlines()
            if line.startswith("# ")
        )[2:]
    )


def thumbnail(name: str) -> tuple[str, str]:
    """The place of a picture of a notebook's first figure, below its title, and a text for those who do not see it."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    outputs = [
        one
        for cell in notebook.cells
        for one in cell.get("outputs", [])
        if "image/png" in one.get("data", {})
    ]
    if not outputs:
        return "", ""
    path = FOLDER / f"_thumbnails/{name}.png"
    path.parent.mkdir(exist_ok=True)
    drawn = io.BytesIO()
    shrunk(
        Image.open(
            io.BytesIO(base64.b64decode(outputs[0]["data"]["image/png"]))
        ).convert("RGBA")
    ).save(drawn, "PNG")
    if not path.exists() or path.read_bytes() != drawn.getvalue():
        path.write_bytes(drawn.getvalue())
    return f"_thumbnails/{name}.png", f"Figure of the example: {heading(name)}"


def shrunk(figure: Image.Image) -> Image.Image:
    """A figure without its title, on white, in the size of a thumbnail."""
    page = Image.new("RGBA", figure.size, "white")
    page.alpha_composite(figure)
    grey = page.convert("L")
    rows = [
        grey.crop((0, y, grey.width, y + 1)).getextrema()[0] < 200
        for y in range(grey.height)
    ]
    first = next((y for y, inked in enumerate(rows) if inked), 0)
    third = range(first, grey.height // 4)
    gaps = [
        y for y in third if not any(rows[y : y + max(2, grey.height // 100)])
    ]
    left, _, right, lower = grey.point(
        lambda shade: 255 * (shade < 250)
    ).getbbox() or (0, 0, *page.size)
    page = page.crop((left, gaps[-1] if gaps else 0, right, lower))
    page.thumbnail(SIZE, Image.Resampling.LANCZOS)
    whole = Image.new("RGB", SIZE, "white")
    whole.paste(
        page, ((SIZE[0] - page.width) // 2, (SIZE[1] - page.height) // 2)
    )
    return whole


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_directive("examples", Examples)
