"""Agents that join and leave runs over real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.problem.graph_objective import graph_objective
from coordinator_free.release import Release
from node.audit.verify import verify
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing.preparation import prepare
from node.faults.log import read_faults
from node.folder.ledger import LedgerFile
from node.folder.run import read_run
from node.folder.shard import read_rows
from node.folder.watch import Watch
from node.places import agent_folder, shard_path
from node.traffic.format import Event
from node.traffic.reader import TrafficLogReader
from node.wire import Done
from node.worlds.twin import run_twin
from tests.helpers.clusters import dealt, final, ran, said, scored
from tests.helpers.misbehaving_networks import in_twin
from tests.helpers.tables import private, public

AGENTS = 20


def crowd(*events: dict[str, Any], **changes: dict[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {
        "run": {"seed": 4},
        "data": {"source": "synthetic", "agents": AGENTS, "dimension": 5},
        "topology": {"kind": "random-regular", "degree": 4},
        "learning": {"mu": 2.5},
        "clock": {"rate": 20.0, "updates": 100},
        "network": {"repeat": "100 ms", "linger": 20.0},
        **changes,
    }
    return {**table, "event": list(events)} if events else table


def objective(folder: Path) -> float:
    run = read_run(folder)
    models = np.stack([run.final(i)["model"] for i in range(run.agents)])
    return graph_objective(run.network, run.problems, run.confidences, 2.5, models)


def events_of(folder: Path) -> list[dict[str, Any]]:
    return [item.fields for item in TrafficLogReader(folder / "traffic.mcap").items() if isinstance(item, Event)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, of agents that are all there from the start."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert ran(folder, crowd()).failures == []
    return folder


JOIN = {"at": 1.0, "fault": "join", "target": 6, "lasting": 1.0}


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("start", ["zero", "neighbours"])
def test_who_joins_ends_where_a_whole_network_would_and_is_verified(tmp_path: Path, whole: Path, start: str) -> None:
    folder = tmp_path / "crowd"
    watch = ran(folder, crowd({**JOIN, "start": start}))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, "the log is complete"
    verdict = verify(folder)
    assert verdict.ok, verdict.to_json()
    assert verdict.releases == AGENTS * 100
    happened = read_faults(folder)
    assert [fault["fault"] for fault in happened] == ["join"] * 6
    assert events_of(folder) == happened
    assert scored(folder, watch)["network"]["faults"] == happened
    assert objective(folder) == pytest.approx(objective(whole), rel=0.01)
    joined = [agent for fault in happened for agent in fault["agents"]]
    assert len(set(joined)) == 6
    first = {m.sender: m for m in reversed(said(folder)) if isinstance(m, Release)}
    assert all(max((k for j, k in first[i].used if j not in joined), default=0) > 0 for i in joined), (
        "others ran before"
    )


@pytest.mark.processes
@pytest.mark.slow
def test_who_leaves_says_so_and_nobody_waits_for_it(tmp_path: Path) -> None:
    folder = tmp_path / "left"
    watch = ran(folder, crowd({"at": 1.0, "fault": "leave", "target": 3}))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, "the log is complete"
    happened = read_faults(folder)
    assert [(fault["fault"], len(fault["agents"])) for fault in happened] == [("leave", 3)]
    assert events_of(folder) == happened
    last = {m.sender: m.last for m in said(folder) if isinstance(m, Done)}
    for agent in range(AGENTS):
        counted = final(folder, agent)
        if agent in happened[0]["agents"]:
            assert last[agent] < 99
            assert counted["notes"] == [f"left after release {last[agent]}"]
        else:
            assert last[agent] == 99
            assert not any("linger" in note for note in counted["notes"])
    assert verify(folder).ok


@pytest.mark.processes
@pytest.mark.slow
def test_a_joiner_of_a_private_run_is_charged_like_everybody(tmp_path: Path) -> None:
    folder = tmp_path / "private"
    table = private(data={"source": "schools"}, network={"repeat": 0.1, "linger": 20.0}, clock={"rate": 10.0})
    watch = ran(folder, {**table, "event": [{"at": 0.2, "fault": "join", "target": 10, "start": "neighbours"}]})
    assert watch.failures == []
    assert verify(folder).ok
    epsilon = scored(folder, watch)["epsilon"]
    assert epsilon["charged_max"] <= epsilon["budget"]
    in_twin(tmp_path / "calm", table)
    for agent in range(read_run(folder).agents):
        charged = []
        for run in (folder, tmp_path / "calm"):
            rows, _ = read_rows(shard_path(run, agent))
            with LedgerFile.open(agent_folder(run, agent) / "ledger.jsonl", rows.digest()) as ledger:
                costs = [(k, c.mechanism) for c in ledger.charges() for k in range(c.first, c.last + 1)]
            charged.append(costs)
        assert charged[0] == charged[1]
        assert [k for k, _ in charged[0]] == list(range(20))


def test_in_the_twin_the_same_agents_join_and_leave(tmp_path: Path) -> None:
    folder = tmp_path / "twin"
    dealt(folder, crowd({**JOIN, "start": "neighbours"}, {"at": 2.0, "fault": "leave", "target": "one"}))
    run_twin(folder)
    results = scored(folder, Watch(world="twin"))
    assert verify(folder).ok
    happened = read_faults(folder)
    assert [fault["fault"] for fault in happened] == ["join"] * 6 + ["leave"]
    assert sorted(str(event) for event in events_of(folder)) == sorted(map(str, happened))
    assert results["network"]["faults"] == happened
    left = happened[-1]["agents"][0]
    assert final(folder, left)["sent"] < 100


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ({"at": 1.0, "fault": "join"}, "takes target, and maybe lasting, start"),
        ({"at": 1.0, "fault": "join", "target": 0}, "how many, or a list of agents"),
        ({"at": 1.0, "fault": "leave", "target": 1, "start": "zero"}, "takes target, and maybe lasting"),
        ({"at": 9.0, "fault": "join", "target": 1, "lasting": 1.0}, "network.linger = 10: an agent joins after 10 s"),
    ],
)
def test_bad_joins_are_named(event: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        from_table({**public(), "event": [event]})
    assert words in str(raised.value)


def test_only_coordinate_descent_has_members_that_change() -> None:
    table = {**public(learning={"algorithm": "propagation"}), "event": [{"at": 1.0, "fault": "join", "target": 1}]}
    with pytest.raises(ConfigurationError, match=r"accepted with learning\.algorithm = \"coordinate-descent\""):
        from_table(table)


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ([[1, 2], [2]], "event.1.target: agent 2 joins in an earlier event already"),
        (["all"], "at least one agent has to be there from the start"),
        ([11], "event.0.target = 11: there are 10 agents"),
        ([[10]], "event.0.target: 10 is no agent"),
    ],
)
def test_joins_that_cannot_be_are_named(targets: list[Any], words: str) -> None:
    events = [{"at": 1.0, "fault": "join", "target": target} for target in targets]
    with pytest.raises(ValueError, match=words.replace(".", r"\.")):
        prepare(from_table({**public(), "event": events}))


def test_two_events_draw_different_agents() -> None:
    events = [{"at": at, "fault": "join", "target": 4} for at in (1.0, 2.0)]
    joins = prepare(from_table({**public(), "event": events})).membership.joins
    assert sorted(joins.values()) == [1.0] * 4 + [2.0] * 4


@pytest.mark.processes
@pytest.mark.slow
def test_who_is_restarted_does_not_wait_for_who_has_left_and_hears_who_has_joined(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    ring = {"topology": {"kind": "ring"}}
    watch = ran(
        folder,
        crowd(
            {"at": 0.5, "fault": "join", "target": [4]},
            {"at": 1.5, "fault": "leave", "target": [2]},
            {"at": 2.0, "fault": "kill", "target": [3], "restart": 0.3},
            **ring,
        ),
    )
    assert watch.failures == []
    assert watch.eavesdropper_status == 0
    assert [fault["fault"] for fault in read_faults(folder)] == ["join", "leave", "kill", "restart"]
    # Not from a gap in its indices: it has none where it was killed with all that it had reserved said.
    [note] = [note for note in final(folder, 3)["notes"] if "restarted: goes on with index " in note]
    first = int(note.rsplit(" ", 1)[1])
    again = [m for m in said(folder) if isinstance(m, Release) and m.sender == 3 and m.index >= first]
    assert any(j == 4 for m in again for j, _ in m.used), "of 2, which has left, and 4, which has joined"
    assert verify(folder).ok
