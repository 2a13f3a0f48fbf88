"""Two small runs in the twin, judged once for all tests here."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.results.scoring import score
from node.worlds.twin import run_twin
from tests.helpers.tables import private, public


def finished(folder: Path, table: dict[str, dict[str, object]]) -> Path:
    deal_run(from_table(table), folder)
    run_twin(folder)
    score(folder)
    return folder


@pytest.fixture(scope="session")
def open_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten agents without privacy."""
    return finished(tmp_path_factory.mktemp("open") / "run", public())


@pytest.fixture(scope="session")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schools under a budget, with a free finish."""
    return finished(tmp_path_factory.mktemp("private") / "run", private())
