"""The notebooks that take longest, in a file of their own: files are what two workers share out.

On demand, as these are the longest tests of all: `pytest -m thorough`.
"""

import pytest

from tests.notebooks import LONG, run


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", LONG)
def test_notebook_runs(name: str) -> None:
    run(name)
