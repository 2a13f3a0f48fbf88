"""The command as a user has it: exit statuses, one-line errors, what survives, what ends."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from node.folder.status import State, read_status
from node.worlds.orphan import running_zygote
from tests.helpers.clusters import AGENTS, table
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.leaks import processes_of

SOTTOVOCE = [sys.executable, "-m", "node.cli"]


def written(path: Path, sections: dict[str, dict[str, Any]]) -> Path:
    lines = []
    for name, section in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in section.items()]
    path.write_text("\n".join(lines) + "\n")
    return path


def sottovoce(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SOTTOVOCE, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, check=False)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("learning.mue=1", ["learning.mue", "learning.mu"]),
        ("privacy.epsilon=0", ["privacy.epsilon", "0"]),
        ("privacy.delta=1.5", ["privacy.delta", "1.5"]),
        ("learning.smoothness=data", ["learning.smoothness", "data", "private"]),
        ("privacy.clip=-1", ["privacy.clip", "-1"]),
        ("topology.kind=cube", ["topology.kind", "cube", "ring"]),
        ("run.simulation=true", ["run.simulation"]),
        ("nothing", ["--set"]),
    ],
)
def test_bad_input_is_one_line_and_exit_2_and_leaves_no_run(tmp_path: Path, setting: str, words: list[str]) -> None:
    sections = table()
    if setting == "run.simulation=true":
        del sections["run"]["seed"]
    config = written(tmp_path / "c.toml", sections)
    done = answered("run", config, "--out", tmp_path / "run", "--set", setting)
    assert done.returncode == 2
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]
    assert not (tmp_path / "run").exists()


def test_a_socket_path_too_long_is_named(tmp_path: Path) -> None:
    config = written(tmp_path / "c.toml", table(network={"folder": str(tmp_path / ("x" * 120))}))
    done = answered("run", config, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert "network.folder" in done.stderr
    assert "107" in done.stderr
    assert not (tmp_path / "run").exists(), "no half-made run is left"


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    done = sottovoce("run", tmp_path / "none.toml")  # as a process: its errors go to its standard error
    assert done.returncode == 2
    assert done.stdout == ""
    assert "none.toml" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.processes
def test_run_json_existing_folder_and_spent_ledger(tmp_path: Path) -> None:
    config = written(tmp_path / "c.toml", table())
    done = sottovoce("run", config, "--out", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    conforms(results, "results")
    conforms(json.loads((tmp_path / "run" / "manifest.json").read_text()), "manifest")
    assert results == json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["agents"] == AGENTS
    assert results["capture"]["complete"]
    assert results["epsilon"]["charged_max"] == pytest.approx(1.0, rel=2e-4)
    assert results["epsilon"]["charged_max"] <= 1.0
    again = answered("run", config, "--out", tmp_path / "run")
    assert again.returncode == 2
    assert "--force" in again.stderr
    forced = answered("run", config, "--out", tmp_path / "run", "--force")
    assert forced.returncode == 2
    assert "budget" in forced.stderr
    elsewhere = sottovoce("run", config, "--out", tmp_path / "second")
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert "run" in elsewhere.stdout
    assert "earlier" in elsewhere.stdout


@pytest.mark.processes
def test_the_twin_leaves_a_run_like_that_of_processes(tmp_path: Path) -> None:
    config = written(tmp_path / "c.toml", table())
    done = sottovoce("run", config, "--out", tmp_path / "run", "--world", "twin", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["world"] == "twin"
    assert results["capture"] == {"complete": True, "releases": 240, "missing": {}, "repeats": 0}


def until(condition: Any, seconds: float = 600.0) -> None:
    """Wait for a condition of the outside world, by looking; fails at the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        select.select([], [], [], 0.05)


def ready(folder: Path) -> bool:
    statuses = [read_status(folder / "agents" / f"agent-{agent:04d}" / "status") for agent in range(AGENTS)]
    return all(status is not None and status.state >= State.READY for status in statuses)


@pytest.mark.processes
def test_interrupted_everything_ends_and_nothing_looks_finished(tmp_path: Path) -> None:
    config = written(tmp_path / "c.toml", table(clock={"rate": 1.0}))
    folder = tmp_path / "run"
    run = subprocess.Popen(
        [*SOTTOVOCE, "run", str(config), "--out", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what runs in its background deaf to Ctrl-C, and these tests with it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    until(lambda: ready(folder))
    run.send_signal(signal.SIGINT)
    _, errors = run.communicate(timeout=600)
    assert run.returncode == 130
    assert "Traceback" not in errors
    assert processes_of(folder) == {}
    assert not (folder / "results.json").exists()


def without_its_launcher(tmp_path: Path, rate: float) -> Path:
    """The folder of a run that goes on after its launcher was killed."""
    config = written(tmp_path / "c.toml", table(clock={"rate": rate}))
    folder = tmp_path / "run"
    run = subprocess.Popen([*SOTTOVOCE, "run", str(config), "--out", str(folder)], stderr=subprocess.DEVNULL)
    until(lambda: ready(folder))
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    return folder


@pytest.mark.processes
def test_the_launcher_killed_the_agents_finish_and_status_scores(tmp_path: Path) -> None:
    folder = without_its_launcher(tmp_path, rate=20.0)
    watched = sottovoce("status", folder, "--watch")
    assert running_zygote(folder) is None
    assert watched.returncode == 0
    assert f"{AGENTS} of {AGENTS} agents ready" in watched.stderr
    assert f"ended: {folder}" in watched.stdout.replace("\n", "")
    done = sottovoce("status", folder, "--json")
    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    conforms(status, "status")
    assert status["finished"] == AGENTS
    assert status["updates"] == status["planned"]
    assert status["failures"] == []
    assert json.loads((folder / "results.json").read_text())["capture"]["complete"]


@pytest.mark.processes
def test_stop_ends_a_run_whose_launcher_is_gone(tmp_path: Path) -> None:
    folder = without_its_launcher(tmp_path, rate=1.0)
    assert sottovoce("stop", folder).returncode == 0
    assert running_zygote(folder) is None
    until(lambda: processes_of(folder) == {})
    assert answered("stop", folder).returncode == 0
    assert answered("stop", tmp_path).returncode == 2
