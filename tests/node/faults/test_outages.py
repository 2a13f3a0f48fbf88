"""Partitions and pauses: what they come to, and a run in the twin that has both."""

from __future__ import annotations

from itertools import accumulate, islice, repeat
from pathlib import Path
from typing import Any

import numpy as np

from coordinator_free.release import Release
from node.audit.verify import verify
from node.faults.log import read_faults
from node.faults.outages import Outage, awake, cut
from node.traffic.reader import TrafficLogReader
from node.wire import decode
from tests.helpers.clusters import final
from tests.helpers.misbehaving_networks import descent, in_twin

AGENTS = 12


def test_a_clock_has_no_ticks_in_a_pause_and_its_other_ticks_where_they_were() -> None:
    planned = [Outage("pause", 2.0, 4.0, (1,)), Outage("partition", 0.0, 9.0, (1,), (0, 1))]
    assert list(islice(accumulate(awake(repeat(0.75), planned, 1)), 4)) == [0.75, 1.5, 4.5, 5.25]
    assert list(islice(accumulate(awake(repeat(0.75), planned, 0)), 4)) == [0.75, 1.5, 2.25, 3.0]
    late = awake(repeat(0.75), planned, 1, start=1.0)
    assert list(islice(late, 2)) == [0.75, 2.25], "its first tick is at 1.75, the next after the pause at 4"


def test_the_next_partition_takes_the_place_of_the_one_before() -> None:
    planned = [Outage("partition", 1.0, 6.0, (2,), (0, 0, 1)), Outage("partition", 3.0, 4.0, (1,), (0, 1, 0))]
    seen = {now: [cut(planned, 0, 1, now), cut(planned, 0, 2, now)] for now in (0.5, 1.0, 3.5, 5.0)}
    assert seen == {0.5: [False, False], 1.0: [False, True], 3.5: [True, False], 5.0: [False, False]}


def paused_and_divided() -> dict[str, Any]:
    return {
        **descent(AGENTS),
        "event": [
            {"at": 1.0, "fault": "partition", "groups": "bisect", "lasting": 1.5},
            {"at": 2.0, "fault": "pause", "target": 2, "lasting": 1.0},
            {"at": 500.0, "fault": "pause", "target": "one", "lasting": 1.0},
        ],
    }


def test_in_the_twin_nothing_passes_a_partition_and_who_is_paused_says_nothing(tmp_path: Path) -> None:
    folder = in_twin(tmp_path / "run", paused_and_divided())
    partition, pause, heal, resume, never = read_faults(folder)
    assert [fault["fault"] for fault in (partition, pause, heal, resume)] == ["partition", "pause", "heal", "resume"]
    assert never["skipped"] == "the run was over"
    groups = partition["groups"]
    assert sum(groups) == AGENTS // 2

    said: dict[int, list[tuple[float, Release]]] = {i: [] for i in range(AGENTS)}
    for frame in TrafficLogReader(folder / "traffic.mcap"):
        message = decode(frame.parts)
        if isinstance(message, Release):
            said[message.sender].append((frame.time_ns / 1e9, message))
    for agent, releases in said.items():
        times = np.array([at for at, _ in releases])
        inside = np.count_nonzero((times >= pause["at_s"]) & (times < resume["at_s"]))
        assert (inside == 0) == (agent in pause["agents"])
        for at, release in releases:
            for j, index in release.used:
                if partition["at_s"] < at < heal["at_s"] and groups[j] != groups[agent]:
                    assert said[j][index][0] <= partition["at_s"], "nothing newer came through"
    for agent in range(AGENTS):
        for sender, link in final(folder, agent)["links"].items():
            cut_off = [at for at, _ in said[int(sender)] if partition["at_s"] <= at < heal["at_s"]]
            apart = groups[int(sender)] != groups[agent]
            assert link.get("dropped_by_partition", 0) == (len(cut_off) if apart else 0)
    assert verify(folder).ok

    again = in_twin(tmp_path / "again", paused_and_divided())
    assert [final(again, i)["links"] for i in range(AGENTS)] == [final(folder, i)["links"] for i in range(AGENTS)]
