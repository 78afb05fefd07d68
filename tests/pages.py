"""Pages of reports for tests of their words: every figure is made, and none is turned into a picture."""

from typing import Any

import pytest

from adversary.desk.kit import section
from adversary.desk.report import audit_page


def page_without_pictures(scenario: Any, tree: Any) -> str:
    """The report as HTML, an empty picture wherever one would stand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(section, "inline", lambda figure: "data:image/svg+xml;base64,")
        return audit_page.render(scenario, tree)
