"""Graphs of models as tables: the variables, the distribution of each, and the variables that it depends on.

The page holds them in the language of Mermaid, which the repository's host draws; a table needs no script.
"""

import re
from typing import Any

from docutils import nodes


def as_table(block: nodes.literal_block) -> nodes.table:
    """A graph in Mermaid's language as a table with a row for each variable, causes first."""
    text = block.astext()
    laws = dict(
        re.findall(
            r"^\s*(\w+)[\[(]+\w+ ~ (\w+)[\])]+$", text, flags=re.MULTILINE
        )
    )
    edges = re.findall(r"^\s*(\w+) --> (\w+)$", text, flags=re.MULTILINE)
    causes = {
        name: sorted(cause for cause, effect in edges if effect == name)
        for name in laws
    }
    order = list[str]()
    while len(order) < len(laws):
        order += [
            name
            for name in laws
            if name not in order and set(causes[name]) <= set(order)
        ]
    table, group, body = nodes.table(), nodes.tgroup(cols=3), nodes.tbody()
    group += [
        *(nodes.colspec(colwidth=1) for _ in range(3)),
        nodes.thead("", _row("variable", "distribution", "given")),
    ]
    body += [
        _row(name, laws[name], ", ".join(causes[name]) or "nothing", code=True)
        for name in order
    ]
    group += body
    table += group
    return table


def _row(*cells: str, code: bool = False) -> nodes.row:
    row = nodes.row()
    for i, cell in enumerate(cells):
        text = (
            nodes.literal("", cell)
            if code and i == 0
            else nodes.Text(cell.replace("_", " ") if i == 1 else cell)
        )
        row += nodes.entry("", nodes.paragraph("", "", text))
    return row


def replace(app: object, doctree: Any) -> None:
    """Put the tables in the place of the graphs of a page."""
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") == "mermaid":
            block.replace_self(as_table(block))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", replace)
