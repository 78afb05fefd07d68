"""Tables of tests: the folder of data files, one test for each of several objects, and one for each refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"


def over(objects: Mapping[str, Any], argument: str = "g") -> pytest.MarkDecorator:
    """A test for each of these objects, by name."""
    return pytest.mark.parametrize(argument, objects.values(), ids=objects.keys())


def refusals(*cases: tuple[Any, ...], error: type[Exception] = ValueError) -> Callable[..., None]:
    """A test for each (call, words) that it is refused in these words, by this error or by the case's own."""

    @pytest.mark.parametrize("case", cases, ids=lambda case: case[1][:40])
    def test(case: tuple[Any, ...]) -> None:
        call, words, *own = case
        with pytest.raises(own[0] if own else error, match=words):
            call()

    return test
