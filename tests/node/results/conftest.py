"""Two small runs in the twin, judged once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.tables import private, public
from tests.helpers.twin_runs import finished


@pytest.fixture(scope="session")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten agents without privacy."""
    return finished(tmp_path_factory.mktemp("open") / "run", public())


@pytest.fixture(scope="session")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schools under a budget, with a free finish."""
    return finished(tmp_path_factory.mktemp("private") / "run", private())
