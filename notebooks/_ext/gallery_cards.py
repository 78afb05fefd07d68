"""Cards of examples: a line `notebook: finding` becomes a card with the notebook's title, thumbnail and finding.

A page has cards by a block

    ```{examples}
    choosing_epsilon: Keeping a risk below 25% takes epsilon 0.65
    one_person_in_one_block: A count -> what a neighbour learns: From 50% to 52% on average
    ```

in which a title other than the notebook's stands between. With the option `toctree` the notebooks belong to the page.
"""

from pathlib import Path
from typing import Any, ClassVar

import nbformat
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

FOLDER = Path(__file__).parents[1]


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
            pictures = [
                line
                for end, mode in (("", "light"), ("_dark", "dark"))
                for line in (
                    f"```{{image}} {up}thumbnails/{name}{end}.svg",
                    f":class: only-{mode} dark-light",
                    f":alt: Figure of the example: {heading(name)}",
                    "```",
                )
            ]
            self.env.note_dependency(str(FOLDER / f"{name}.ipynb"))
            text += [":::{grid-item-card}", f":link: {up}{name}"]
            text += [":link-type: doc", "", *pictures, ""]
            text += [f"**{title[0] if title else heading(name)}**", "", finding]
            text.append(":::")
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


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.add_directive("examples", Examples)
