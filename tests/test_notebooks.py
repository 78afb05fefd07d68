"""Every notebook runs from top to bottom, warnings included; the long ones in `test_long_notebooks`."""

import pytest

from tests.notebooks import LONG, NOTEBOOKS, run


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("*.py") if path.name not in LONG))
def test_notebook_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(name, monkeypatch)
