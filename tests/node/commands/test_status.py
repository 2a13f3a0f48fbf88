"""``sottovoce status`` of runs of which no process was started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.worlds.twin import run_twin
from tests.helpers.command import run_cli

SMALL = {
    "run": {"seed": 1},
    "data": {"source": "synthetic", "agents": 4, "dimension": 3},
    "topology": {"kind": "ring"},
    "learning": {"mu": 1.0, "loss": "logistic", "smoothness": "bound"},
    "clock": {"updates": 5},
    "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
}


def test_what_the_twin_ran_has_ended_and_was_charged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(SMALL), folder)
    assert run_cli("status", str(folder)) == 0
    assert "dealt, never started" in capsys.readouterr().out
    run_twin(folder)
    assert run_cli("status", str(folder)) == 0
    told = capsys.readouterr().out
    assert "ended, in the twin" in told
    assert "agents ready 4/4, finished 4/4" in told
    assert run_cli("status", str(folder), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["updates"] == document["charged"] == document["logged"] == document["planned"] > 0
    for path in folder.glob("agents/*/final.json"):
        path.unlink()
    assert run_cli("status", str(folder)) == 0
    told = capsys.readouterr().out
    assert "not finished, in the twin" in told
    assert "charged 0" not in told
