"""Which interrupted runs can go on, and what the others are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator_free.release import Release
from node.audit.verify import verify
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing.folder import deal_run
from node.folder.ledger import LedgerFile
from node.folder.registry import Registry, settle
from node.folder.run import read_run
from node.places import agent_folder
from node.traffic.run_logs import releases_of
from node.worlds import steps
from node.worlds.resumption import resumed
from tests.helpers.clusters import table


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return dealt(tmp_path / "run")


def dealt(folder: Path, **changes: dict[str, Any]) -> Path:
    deal_run(from_table(table(**changes)), folder)
    return folder


def why_not(folder: Path) -> str:
    before = sorted(path for path in folder.rglob("*"))
    with pytest.raises(ConfigurationError) as refused, resumed(folder):
        pass
    assert sorted(path for path in folder.rglob("*")) == before
    return str(refused.value)


def charge(folder: Path, releases: int) -> None:
    run = read_run(folder)
    for agent, rows in enumerate(run.rows):
        with LedgerFile.open(agent_folder(folder, agent) / "ledger.jsonl", rows.digest()) as ledger:
            for index in range(releases):
                ledger.reserve(index, index, ledger.ledger.plan.alike(index)[1], extra={"run": run.run.hex()})


def test_a_run_in_parts_goes_on_where_its_parts_are(run: Path) -> None:
    (run / "handed-over").touch()
    assert "start its agents again where their parts are" in why_not(run)


def test_a_run_whose_agent_still_speaks_is_left_alone(run: Path) -> None:
    digest = read_run(run).rows[3].digest()
    with LedgerFile.open(agent_folder(run, 3) / "ledger.jsonl", digest):
        assert "agent 3 still holds its ledger" in why_not(run)


def test_only_one_process_resumes_a_run(run: Path) -> None:
    with resumed(run):
        assert "another process resumes this run" in why_not(run)


@pytest.mark.thorough
def test_a_finished_run_has_nothing_to_go_on_with(run: Path) -> None:
    from node.worlds.twin import run_twin

    run_twin(run)
    (run / "results.json").write_text("{}")
    assert "every agent has finished" in why_not(run)


@pytest.mark.thorough
def test_an_interrupted_twin_makes_the_same_releases_again_and_charges_each_once(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from node.worlds import twin

    sent, send = [], twin.TwinWorld._send

    def interrupted(world: twin.TwinWorld, time: float, release: Release) -> None:
        send(world, time, release)
        sent.append(release)
        if len(sent) == 60:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(twin.TwinWorld, "_send", interrupted)
        with pytest.raises(KeyboardInterrupt):
            twin.run_twin(run)
    monkeypatch.setattr(steps, "run_in_twin", lambda folder: twin.run_twin(folder))
    with resumed(run) as resumption:
        assert resumption.in_twin
        resumption.run_in_twin()
    heard = releases_of(run)
    for release in sent:
        assert heard[release.sender, release.index][1].vector.tobytes() == release.vector.tobytes()
    for agent in range(6):
        with LedgerFile.read(agent_folder(run, agent) / "ledger.jsonl", None) as read:
            charged = [index for charge in read.charges() for index in range(charge.first, charge.last + 1)]
        assert charged == list(range(40))
    assert verify(run).ok


def test_an_algorithm_that_remembers_what_it_relayed_in_memory_is_refused_once_it_has_begun(tmp_path: Path) -> None:
    learning = {"algorithm": "graph-smoothing", "mu": None, "smoothness": None, "finish": None, "loss": "logistic"}
    sections = table(learning=learning)
    sections["learning"] = {key: value for key, value in sections["learning"].items() if value is not None}
    folder = tmp_path / "run"
    deal_run(from_table(sections), folder)
    with resumed(folder):
        pass  # nothing was sent yet
    (agent_folder(folder, 0) / "journal.bin").touch()
    assert 'learning.algorithm = "graph-smoothing"' in why_not(folder)


def test_a_run_without_its_ledger_is_refused(run: Path) -> None:
    (agent_folder(run, 2) / "ledger.jsonl").unlink()
    assert "agent 2 has no ledger" in why_not(run)


def test_the_refusal_of_force_names_the_command(run: Path) -> None:
    charge(run, 1)
    with pytest.raises(ConfigurationError, match=f"sottovoce resume {run}"):
        deal_run(from_table(table()), run, force=True)


def test_the_rest_of_the_budget_is_reserved_again(tmp_path: Path) -> None:
    first = dealt(tmp_path / "a")
    charge(first, 2)
    settle(first)
    registry = Registry(Path(json.loads((first / "dealt.json").read_text())["registry"]))
    run = read_run(first).run.hex()
    settled = registry.entry(run)
    assert settled is not None
    assert [sum((part.costs or {}).values()) for part in settled.parts] == [2] * 6
    with resumed(first):
        again = registry.entry(run)
        assert again is not None
        assert [sum((part.costs or {}).values()) for part in again.parts] == [40] * 6
    settle(first)
    dealt(tmp_path / "b", privacy={"total_epsilon": 1.1})  # takes the rest of a total while the first is interrupted
    assert "privacy.total_epsilon = 1.1" in why_not(first)
    assert registry.entry(run) is not None
