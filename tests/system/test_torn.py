"""A crash inside a ledger write: what was charged and never said is said after all, once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from coordinator_free.release import Release
from node.audit.verify import verify
from node.exit_codes import ExitCode
from node.folder.journal import read_journal
from node.folder.ledger import LedgerFile
from node.folder.shard import read_rows
from node.folder.spending import spent
from node.places import agent_folder, shard_path
from node.wire import decode
from node.worlds import launcher
from tests.helpers.clusters import dealt, final, said
from tests.helpers.misbehaving_networks import admm, in_twin

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TORN = b'{"first":7,"last":7,"run":"'


@pytest.mark.parametrize("before", [0, 60])
def test_a_torn_round_is_said_under_its_own_index(tmp_path: Path, before: int) -> None:
    folder, table = tmp_path / "torn", admm(delay="50 ms")  # so that the kill comes before the end
    configuration = dealt(folder, table)
    ledger = agent_folder(folder, 3) / "ledger.jsonl"
    cluster = launcher.Cluster(folder, configuration, 20)
    if before == 0:
        ledger.write_bytes(ledger.read_bytes() + TORN)
    cluster.start()
    try:
        if before:
            cluster.watch(until=lambda progress: progress.sent > before)
            os.kill(cluster.alive[3], signal.SIGKILL)
            cluster.watch(until=lambda _: 3 not in cluster.alive)
            ledger.write_bytes(ledger.read_bytes() + TORN)
            cluster.restart(3)
        watch = cluster.watch()
    finally:
        cluster.close()
    assert watch.failures == []
    assert final(folder, 3)["sent"] == table["clock"]["updates"], "not one round short"
    lines = [json.loads(line[:-9]) for line in ledger.read_bytes().splitlines()]
    assert any("torn" in line for line in lines)
    assert any("again" in line for line in lines)
    rows, _ = read_rows(shard_path(folder, 3))
    with LedgerFile.read(ledger, rows.digest()) as held:
        charged = [k for charge in held.ledger.charges for k in range(charge.first, charge.last + 1)]
    assert charged == list(range(table["clock"]["updates"])), "each index once"
    assert spent(folder).epsilons.max() <= 2.0 + 1e-9
    twin = in_twin(tmp_path / "twin", table)
    here = {(m.sender, m.index): m for m in said(folder) if isinstance(m, Release)}
    there = {(m.sender, m.index): m for m in said(twin) if isinstance(m, Release)}
    assert here.keys() == there.keys()
    assert all(here[key].same_as(there[key]) for key in there)
    assert verify(folder).ok


def test_a_release_that_may_have_been_sent_is_not_made_again_with_other_noise(tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    configuration = dealt(folder, admm(delay="50 ms", linger=2.0))  # the stopped agent too waits for its neighbours
    ledger = agent_folder(folder, 3) / "ledger.jsonl"
    cluster = launcher.Cluster(folder, configuration, 20)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > 60)
        os.kill(cluster.alive[3], signal.SIGKILL)
        cluster.watch(until=lambda _: 3 not in cluster.alive)
        sent = [decode(parts) for _, parts in read_journal(agent_folder(folder, 3) / "journal.bin")]
        newest = max(m.index for m in sent if isinstance(m, Release))
        lines = ledger.read_bytes().splitlines(keepends=True)
        record = next(k for k, line in enumerate(lines) if f'"last":{newest},'.encode() in line)
        # Whole, sent, and damaged afterwards. A record after it was not sent: the agent was killed before.
        ledger.write_bytes(b"".join(lines[:record]) + lines[record][:-2] + b"?\n")
        cluster.restart(3)
        watch = cluster.watch(until=lambda _: 3 not in cluster.alive)
    finally:
        cluster.stop()  # the others wait for agent 3
    assert final(folder, 3)["code"] == ExitCode.LEDGER
    assert "the journal holds the release" in final(folder, 3)["reason"]
    assert watch is not None
    frames = [m for m in said(folder) if isinstance(m, Release) and m.sender == 3]
    assert len({m.index for m in frames}) == len({(m.index, m.vector.tobytes()) for m in frames})
