"""A value in one agent's shard is in that agent's memory and in nobody else's."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.worlds import launcher, steps
from tests.helpers.clusters import table
from tests.helpers.memory import memory_holds

pytestmark = pytest.mark.processes

CANARY = 0.123456789012345678
OWNER = 3


def test_a_canary_is_found_in_its_owner_and_in_nobody_else(tmp_path: Path) -> None:
    rows = ["agent,a,b,c,label"]
    for agent in range(6):
        for k in range(40):
            a = CANARY if (agent, k) == (OWNER, 7) else ((agent * 37 + k * 13) % 100) / 100
            rows.append(f"{agent},{a!r},{(k % 10) / 10},{(k % 7) / 7},{1 if (k + agent) % 2 else -1}")
    (tmp_path / "rows.csv").write_text("\n".join(rows) + "\n")
    sections = table(clock={"rate": 2.0, "updates": 1000})
    sections["data"] = {
        "source": "csv",
        "path": str(tmp_path / "rows.csv"),
        "split": "column",
        "column": "agent",
        "label": "label",
        "bounds": {"a": [0.0, 1.0], "b": [0.0, 1.0], "c": [0.0, 1.0]},
        "row_scaling": "none",
        "row_bound": 2.0,
        "held_out": 0.0,
    }
    folder = tmp_path / "run"
    configuration = from_table(sections)
    steps.deal(configuration, folder)
    shard = (folder / "shards" / "agent-0003.npz").read_bytes()
    scaled = next(
        bytes_
        for value in (CANARY, 2 * CANARY - 1, CANARY / 3**0.5, (2 * CANARY - 1) / 3**0.5)
        if (bytes_ := struct.pack("<d", value)) in shard
    )
    del shard
    cluster = launcher.Cluster(folder, configuration, 6)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > 30)
        holders = {who for who, pid in cluster.alive.items() if memory_holds(pid, scaled)}
        assert cluster.alive.keys() == {*range(6), "eavesdropper"}
        assert holders == {OWNER}
        assert not memory_holds(cluster.zygote_pid, scaled)
    finally:
        cluster.stop()
