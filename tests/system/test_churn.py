"""Agents that are killed and started again as a Poisson process: the plan, and a run that follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.faults.targets import LONGEST, churn
from node.audit.verify import verify
from node.faults.log import read_faults
from node.traffic.format import Event
from node.traffic.reader import TrafficLogReader
from node.traffic.run_logs import releases_of
from tests.helpers.clusters import final, ran, scored
from tests.helpers.misbehaving_networks import descent


def test_the_plan_is_a_poisson_process_that_follows_from_the_seed_and_kills_nobody_who_is_away() -> None:
    plan = churn(range(10), 0.5, 3.0, 8000.0, seed=1, event=0)
    assert plan == churn(range(10), 0.5, 3.0, 8000.0, seed=1, event=0)
    assert plan[:5] != churn(range(10), 0.5, 3.0, 8000.0, seed=2, event=0)[:5]
    assert plan[:5] != churn(range(10), 0.5, 3.0, 8000.0, seed=1, event=1)[:5]
    times = np.array([absence.at for absence in plan])
    assert abs(len(plan) - 4000) < 4 * np.sqrt(4000)
    gaps = np.diff(times)
    assert np.mean(gaps) == pytest.approx(2.0, rel=0.1)
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1), "as of an exponential law"
    away = np.array([absence.away for absence in plan], dtype=float)
    assert away.max() <= LONGEST * 3.0
    assert away.mean() == pytest.approx(3.0, rel=0.1)
    back: dict[int, float] = {}
    for absence in plan:
        assert absence.away is not None
        assert back.get(absence.agent, 0.0) <= absence.at
        back[absence.agent] = absence.at + absence.away


def test_an_agent_that_never_comes_back_is_killed_once() -> None:
    plan = churn([3, 5, 8], 10.0, None, 1000.0, seed=1, event=0)
    assert sorted(absence.agent for absence in plan) == [3, 5, 8]
    assert all(absence.away is None for absence in plan)


@pytest.mark.processes
@pytest.mark.slow
def test_a_run_follows_the_plan_and_ends_where_it_would_have(tmp_path: Path) -> None:
    agents, folder = 12, tmp_path / "churn"
    event: dict[str, Any] = {"at": 0.5, "fault": "kill", "target": "all", "rate": "90 / min", "lasting": 4.0}
    table = descent(agents, loss=0.1)
    watch = ran(folder, {**table, "event": [{**event, "restart": "500 ms"}]})
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    happened = read_faults(folder)
    kills = [fault for fault in happened if fault["fault"] == "kill"]
    plan = churn(range(agents), 1.5, 0.5, 4.0, table["run"]["seed"], 0)
    assert len(plan) >= 3
    assert len(kills) == len(plan)
    done = [(fault, absence) for fault, absence in zip(kills, plan, strict=True) if "skipped" not in fault]
    assert len(done) >= 3
    assert all(fault["agents"] == [absence.agent] and fault["at_s"] >= 0.5 + absence.at for fault, absence in done)
    back = [fault["agents"] for fault in happened if fault["fault"] == "restart"]
    assert sorted(back) == sorted([absence.agent] for _, absence in done)
    logged = [item for item in TrafficLogReader(folder / "traffic.mcap").items() if isinstance(item, Event)]
    assert [item.fields for item in logged] == happened
    results = scored(folder, watch)
    assert results["network"]["faults"] == happened
    assert results["optimum_gap"] < 0.01
    assert verify(folder).ok


@pytest.mark.processes
def test_a_restarted_agent_goes_on_with_the_last_model_of_a_neighbour_that_is_not_back_yet(tmp_path: Path) -> None:
    """Agent 1 sends a hello while it waits for agent 2. Without it agent 0 would take the model of agent 1 for zero."""
    table, folder = descent(3), tmp_path / "path"
    table |= {"topology": {"kind": "path"}, "clock": {"rate": 20.0, "updates": 60}}
    kill = {"at": 1.0, "fault": "kill"}
    events = [{**kill, "target": [0, 1], "restart": "200 ms"}, {**kill, "target": [2], "restart": "12 s"}]
    watch = ran(folder, {**table, "event": events})
    assert watch.failures == []
    [note] = final(folder, 0)["notes"]
    first = int(note.rpartition("restarted: goes on with index ")[2])
    back = [fault for fault in read_faults(folder) if fault["fault"] == "restart" and 2 in fault["agents"]]
    heard = releases_of(folder)
    sent_at, again = heard[0, first]
    assert sent_at < back[0]["time_ns"]
    assert 1 in dict(again.used)
    assert verify(folder).ok
