"""``sottovoce new``: what it writes runs as it is."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from node.commands.new import CLINICS, new, visits

SOTTOVOCE = [sys.executable, "-m", "node.cli"]


def sottovoce(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SOTTOVOCE, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.processes
def test_two_commands_lead_to_a_finished_run_that_gains(tmp_path: Path) -> None:
    made = sottovoce(tmp_path, "new", "demo")
    assert made.returncode == 0, made.stderr
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"clinics.toml", "visits.csv", "capped_loss.py"}
    ran = sottovoce(tmp_path, "run", "demo/clinics.toml", "--world", "twin", "--json")
    assert ran.returncode == 0, ran.stderr
    results = json.loads(ran.stdout)
    assert results["agents"] == len(CLINICS)
    assert results["epsilon"]["charged_max"] <= results["epsilon"]["budget"] == 2.0


def test_the_settings_are_those_that_budget_proposes(tmp_path: Path) -> None:
    from node.configuration.reading import load
    from node.dealing.bought import bought

    new(tmp_path / "demo")
    configuration = load(tmp_path / "demo" / "clinics.toml", [])
    proposal = bought(configuration).proposal
    assert proposal.settings
    assert proposal.changes(configuration) == {}
    assert configuration.data.centring == "bounds"


@pytest.mark.processes
def test_verbose_tells_what_the_launcher_does_and_silence_is_the_default(tmp_path: Path) -> None:
    assert sottovoce(tmp_path, "new", "demo").returncode == 0
    few = ["--set", "clock.updates=2", "--world", "twin", "--json"]
    quiet = sottovoce(tmp_path, "run", "demo/clinics.toml", "--out", "a", *few)
    told = sottovoce(tmp_path, "run", "demo/clinics.toml", "--out", "b", *few, "--verbose")
    assert quiet.returncode == told.returncode == 0
    assert "node.worlds.steps" not in quiet.stderr
    assert [name for name in ("dealing", "the twin", "scoring") if f"steps: {name} of" in told.stderr] == [
        "dealing",
        "the twin",
        "scoring",
    ]


@pytest.mark.processes
def test_the_loss_of_your_own_works_where_the_comment_says(tmp_path: Path) -> None:
    assert sottovoce(tmp_path, "new", "demo").returncode == 0
    own = ["--set", "learning.loss=capped_loss:CAPPED", "--world", "twin", "--json"]
    ran = sottovoce(tmp_path / "demo", "run", "clinics.toml", *own)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["finish"] is not None


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    refused = sottovoce(tmp_path, "new", "demo")
    assert refused.returncode == 2
    assert "demo exists and is not empty" in refused.stderr
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("seed", range(3))
def test_the_visits_lie_within_the_bounds_that_the_configuration_states(seed: int) -> None:
    rows = list(csv.DictReader(io.StringIO(visits(seed))))
    assert {row["clinic"] for row in rows} == set(CLINICS)
    assert all(18 <= int(row["age"]) <= 90 and 90 <= int(row["pressure"]) <= 190 for row in rows)
    assert all(0 <= float(row["pain"]) <= 10 and row["smoker"] in ("yes", "no") for row in rows)
