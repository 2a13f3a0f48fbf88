"""Runs in the twin, dealt, run and scored."""

from __future__ import annotations

from pathlib import Path

from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.results.scoring import score
from node.worlds.twin import run_twin


def finished(folder: Path, table: dict[str, dict[str, object]]) -> Path:
    deal_run(from_table(table), folder)
    run_twin(folder)
    score(folder)
    return folder
