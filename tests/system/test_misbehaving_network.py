"""Runs over real processes on a network that misbehaves, beside the twin on a calm one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from node.audit.verify import verify
from node.faults.log import read_faults
from node.folder.run import read_final
from node.traffic.format import Event
from node.traffic.reader import TrafficLogReader
from tests.helpers.clusters import final, ran, scored
from tests.helpers.misbehaving_networks import AGENTS, LOSSY, ROUNDS, admm, descent, in_twin, lost_first, releases

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in rounds in the twin, on a network that loses nothing."""
    return in_twin(tmp_path_factory.mktemp("runs") / "calm", admm())


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run in rounds over processes, on a network that loses frames."""
    folder = tmp_path_factory.mktemp("runs") / "lossy"
    watch = ran(folder, admm(**LOSSY))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, "the log is complete"
    return folder


def assert_the_same(folder: Path, twin: Path) -> None:
    here, there = releases(folder), releases(twin)
    assert here.keys() == there.keys()
    assert all(here[key].same_as(there[key]) for key in there)
    for agent in range(AGENTS):
        assert read_final(folder, agent)["model"].tobytes() == read_final(twin, agent)["model"].tobytes()


def test_rounds_under_loss_delay_and_reordering_equal_the_calm_twin(tmp_path: Path, lossy: Path, calm: Path) -> None:
    assert_the_same(lossy, calm)
    lost = lost_first(lossy)
    assert sum(map(len, lost.values())) == pytest.approx(0.2 * AGENTS * 4 * ROUNDS, rel=0.3)
    assert lost == lost_first(in_twin(tmp_path / "twin", admm(**LOSSY))), (
        "processes and twin lose the same first copies"
    )


def test_the_same_scenario_over_tcp_loses_the_same_first_copies(tmp_path: Path, lossy: Path, calm: Path) -> None:
    watch = ran(tmp_path / "tcp", admm(**LOSSY, transport="tcp"))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, "the log is complete"
    assert_the_same(tmp_path / "tcp", calm)
    assert lost_first(tmp_path / "tcp") == lost_first(lossy)


EVENTS: list[dict[str, Any]] = [
    {"at": "500 ms", "fault": "kill", "target": "one", "restart": "300 ms"},
    {"at": 1.0, "fault": "partition", "groups": "bisect", "lasting": 5.0},
    {"at": 1.5, "fault": "kill", "target": "one", "restart": "300 ms"},
]


def test_rounds_survive_a_partition_and_two_kills_on_a_lossy_network(tmp_path: Path, calm: Path) -> None:
    folder = tmp_path / "faults"
    watch = ran(folder, {**admm(**LOSSY), "event": EVENTS})
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    assert_the_same(folder, calm)
    happened = read_faults(folder)
    assert [fault["fault"] for fault in happened if "skipped" not in fault] == [
        "kill",
        "restart",
        "partition",
        "kill",
        "restart",
        "heal",
    ]
    assert sum(happened[2]["groups"]) == AGENTS // 2
    cut = [
        link.get("dropped_by_partition", 0)
        for agent in range(AGENTS)
        for link in final(folder, agent)["links"].values()
    ]
    assert sum(cut) > 0
    logged = [item for item in TrafficLogReader(folder / "traffic.mcap").items() if isinstance(item, Event)]
    assert [item.fields for item in logged] == happened
    assert scored(folder, watch)["network"]["faults"] == happened
    assert verify(folder).ok


def test_a_paused_agent_is_woken_and_the_run_ends_like_any_other(tmp_path: Path, calm: Path) -> None:
    folder = tmp_path / "paused"
    events = [{"at": 0.2, "fault": "pause", "target": "minority"}, {"at": 1.0, "fault": "heal"}]
    watch = ran(folder, {**admm(delay="50 ms"), "event": events})  # twelve rounds then take longer than 0.2 s anywhere
    assert watch.failures == []
    assert [fault["fault"] for fault in read_faults(folder)] == ["pause", "resume"]
    assert len(read_faults(folder)[0]["agents"]) == (AGENTS - 1) // 2
    assert_the_same(folder, calm)


def test_asynchronous_descent_ends_where_it_would_have_and_is_verified(tmp_path: Path) -> None:
    agents = 30
    folder = tmp_path / "lossy"
    watch = ran(folder, descent(agents, **LOSSY))
    assert watch.failures == []
    results = scored(folder, watch)
    assert results["optimum_gap"] < 0.01
    links = results["network"]["links"]
    assert len(links) == 4 * agents
    assert sum(link["dropped"] for link in links) > 0.1 * sum(link["passed"] for link in links)
    assert verify(folder).ok
    twin = in_twin(tmp_path / "twin", descent(agents, **LOSSY))
    assert lost_first(folder, agents) == lost_first(twin, agents)
    assert np.isfinite(read_final(twin, 0)["model"]).all()


def test_asynchronous_descent_ends_where_it_would_have_after_a_partition_and_two_kills(tmp_path: Path) -> None:
    folder = tmp_path / "faults"
    table = descent(AGENTS, **LOSSY)
    table["clock"]["updates"] = 160
    watch = ran(folder, {**table, "event": [EVENTS[0], {**EVENTS[1], "lasting": 3.0}, EVENTS[2]]})
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    results = scored(folder, watch)
    assert results["optimum_gap"] < 0.01
    assert [fault["fault"] for fault in results["network"]["faults"]].count("restart") == 2
    assert verify(folder).ok
