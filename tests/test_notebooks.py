"""Every notebook runs from top to bottom and prints the numbers of its copy; the long ones in `test_long_notebooks`."""

import pytest

from tests.notebooks import LONG, NOTEBOOKS, run


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in NOTEBOOKS.glob("[0-9]*.py") if path.name not in LONG))
def test_notebook_runs(name: str) -> None:
    run(name)
