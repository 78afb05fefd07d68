"""What the sections of a report are made of: tables of text, and sections with paragraphs, tables and figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PageTable:
    """Rows of text; the first `texts` columns are words, the others numbers. `used` rows are highlighted."""

    heads: list[str]
    texts: int = 1
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, *cells: str, used: bool = False, **more: Any) -> None:
        if len(cells) > len(self.heads):
            raise ValueError(f"a row has at most {len(self.heads)} cells, got {len(cells)}")
        self.rows.append({"cells": cells, "used": used, **more})


@dataclass
class PageSection:
    """Part of a report: paragraphs, a table, notes under it, and figures as `shown` makes them."""

    title: str
    lines: list[str] = field(default_factory=list)
    table: PageTable | None = None
    notes: list[str] = field(default_factory=list)
    figures: list[dict[str, str]] = field(default_factory=list)


def shown(draw: Callable[[], Any], text: str) -> dict[str, str]:
    """A figure inside the page with its caption; where it cannot be drawn, the caption with the reason."""
    try:
        return {"source": inline(draw()), "text": text}
    except ValueError as error:
        return {"source": "", "text": f"Left out: {text} ({error})"}


def inline(figure: Any) -> str:
    """The figure as an SVG inside a data address, the same bytes for the same figure."""
    import matplotlib as mpl

    from adversary.desk.kit.style import STYLE

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": STYLE["svg.hashsalt"]}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
