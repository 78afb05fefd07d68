"""What the tests of Noisy Measurement Files share: an archive in the published layout, written by another hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracles.noisy_measurement_file import Replica, archive


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Replica]]:
    """An archive of four products, written by the independent script, and the counts behind it."""
    folder = tmp_path_factory.mktemp("archive")
    return folder, archive(folder)
