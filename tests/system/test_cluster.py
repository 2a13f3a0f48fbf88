"""Real processes and real sockets, start to end."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from coordinator_free.agents.registry import algorithm
from coordinator_free.release import Release
from coordinator_free.twin.reexecution import reexecute
from node.agent.charging import Charger
from node.folder.endings import failures_of
from node.folder.journal import read_journal
from node.folder.ledger import LedgerFile
from node.folder.shard import read_shard
from node.folder.status import State, read_status
from node.places import agent_folder, shard_path
from node.wire import Done, decode
from node.worlds import launcher
from tests.helpers.clusters import AGENTS, dealt, final, named, not_private, ran, said, table, watched
from tests.helpers.leaks import processes_of

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def private_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "private"
    watch = ran(folder, table())
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    return folder


def test_every_agent_finishes_and_the_eavesdropper_heard_everything(private_run: Path) -> None:
    releases = [message for message in said(private_run) if isinstance(message, Release)]
    heard = {(release.sender, release.index) for release in releases}
    assert heard == {(agent, index) for agent in range(AGENTS) for index in range(40)}
    done = {message.sender: message.last for message in said(private_run) if isinstance(message, Done)}
    assert done == dict.fromkeys(range(AGENTS), 39)
    for agent in range(AGENTS):
        counted = final(private_run, agent)
        assert counted["code"] == 0
        assert counted["received"] == 80
        assert counted["dropped_by_reason"] == {}
        assert counted["missing"] == {}


def test_nothing_of_the_run_is_left_running(private_run: Path) -> None:
    assert processes_of(private_run) == {}


def test_what_each_agent_said_is_what_its_code_says_again_bit_for_bit(private_run: Path) -> None:
    by_key = {(m.sender, m.index): m for m in said(private_run) if isinstance(m, Release)}
    for number in range(AGENTS):
        setting, public, _ = read_shard(shard_path(private_run, number), agent_folder(private_run, number) / "secret")
        with LedgerFile.read(agent_folder(private_run, number) / "ledger.jsonl", None) as ledger:
            started = replace(setting, starts=ledger.starts(public.run.hex()))
        recorded = [by_key[number, index] for index in range(40)]
        assert reexecute(algorithm(public.algorithm)(started), by_key, recorded) is None


def test_the_journal_holds_what_was_sent(private_run: Path) -> None:
    by_key = {(m.sender, m.index): m for m in said(private_run) if isinstance(m, Release)}
    for agent in range(AGENTS):
        frames = [decode(parts) for _, parts in read_journal(agent_folder(private_run, agent) / "journal.bin")]
        assert len(frames) == 40
        for frame in frames:
            assert isinstance(frame, Release)
            assert frame.same_as(by_key[agent, frame.index])


def test_every_release_was_charged_and_on_the_grid(private_run: Path) -> None:
    for agent in range(AGENTS):
        lines = (agent_folder(private_run, agent) / "ledger.jsonl").read_text().splitlines()
        start, *charges = [json.loads(line[: line.rindex("}") + 1]) for line in lines[1:]]
        assert start["start"] == 0, "the nonce is there before the first charge"
        covered = [k for charge in charges for k in range(charge["first"], charge["last"] + 1)]
        assert covered == list(range(40))
        assert all(charge["last"] - charge["first"] + 1 <= 2 for charge in charges), "a twentieth of 40"
    for message in said(private_run):
        if isinstance(message, Release):
            assert np.array_equal(message.vector, np.rint(message.vector * 2.0**20) * 2.0**-20)


def test_secrets_and_shards_are_their_owners_alone_and_never_in_the_log(private_run: Path) -> None:
    log = (private_run / "traffic.mcap").read_bytes()
    public = (private_run / "manifest.json").read_bytes() + (private_run / "config.toml").read_bytes()
    secrets = set()
    for agent in range(AGENTS):
        for path in (agent_folder(private_run, agent) / "secret", shard_path(private_run, agent)):
            assert path.stat().st_mode & 0o077 == 0
        secret = (agent_folder(private_run, agent) / "secret").read_bytes()
        assert secret not in log
        assert secret.hex().encode() not in public
        secrets.add(secret)
    assert len(secrets) == AGENTS


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_without_privacy_over_both_transports(tmp_path: Path, transport: str) -> None:
    folder = tmp_path / "run"
    watch = ran(folder, not_private(network={"transport": transport}, clock={"updates": 20}))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0
    assert all(final(folder, agent)["sent"] == 20 for agent in range(AGENTS))


def test_an_agent_killed_in_mid_run_is_named_and_the_others_finish(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    configuration = dealt(folder, table(clock={"rate": 20.0}, network={"linger": 2.0}))
    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > 60)
        os.kill(cluster.alive[3], signal.SIGKILL)
        watch = cluster.watch()
    finally:
        cluster.close()
    assert [(failure.process, failure.status) for failure in watch.failures] == [("agent-0003", -signal.SIGKILL)]
    assert watch.failures[0].words == "killed by SIGKILL"
    assert watch.eavesdropper_status == 1, "the capture has no done of agent 3"
    for agent in {0, 1, 2, 4, 5}:
        assert final(folder, agent)["code"] == 0
        assert final(folder, agent)["sent"] == 40
    assert "linger of 2 s passed: no done from agent 3" in final(folder, 2)["notes"]


def test_a_killed_agent_started_again_goes_on_from_its_ledger(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    configuration = dealt(folder, table(clock={"rate": 20.0}))
    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > 60)
        os.kill(cluster.alive[3], signal.SIGKILL)
        cluster.watch(until=lambda _: 3 not in cluster.alive)
        cluster.restart(3)
        cluster.watch(until=lambda _: 3 in cluster.alive)
        assert failures_of(folder) == [], "nor for an observer of the folder"
        watch = cluster.watch()
    finally:
        cluster.close()
    assert watch.failures == [], "an agent that was started again has not failed"
    releases = [m for m in said(folder) if isinstance(m, Release) and m.sender == 3]
    bodies: dict[int, bytes] = {}
    for release in releases:
        assert bodies.setdefault(release.index, release.vector.tobytes()) == release.vector.tobytes(), "never redrawn"
    done = [m for m in said(folder) if isinstance(m, Done) and m.sender == 3][-1]
    assert done.last == 39
    assert set(bodies) | set(done.skipped) == set(range(40))
    assert not set(bodies) & set(done.skipped)
    assert final(folder, 3)["code"] == 0
    assert final(folder, 3)["charged"] == 40


def test_a_neighbour_that_never_starts_is_named_at_the_deadline(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    configuration = dealt(folder, table(network={"deadline": 12.0, "linger": 1.0}))
    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start(without=frozenset({4}))
    try:
        watch = cluster.watch()
    finally:
        cluster.close()
    words = {failure.process: failure.last_words[0] for failure in watch.failures}
    assert 4 in named(words["agent-0003"], "no endpoint of")
    assert 4 in named(words["agent-0005"], "no endpoint of")
    assert "network.deadline = 12 s" in words["agent-0003"]


def test_stopped_by_a_signal_everything_ends(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    configuration = dealt(folder, table(clock={"rate": 1.0}))
    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start()
    cluster.watch(until=lambda progress: progress.ready == AGENTS)
    cluster.stop()
    assert processes_of(folder) == {}
    assert not (folder / "results.json").exists()


def test_a_launcher_that_goes_before_it_read_what_it_was_told_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cluster = launcher.Cluster(folder, dealt(folder, table(clock={"rate": 1.0})), AGENTS)
    cluster.start()
    statuses = [agent_folder(folder, agent) / "status" for agent in range(AGENTS)]
    while not all((status := read_status(path)) and status.state >= State.READY for path in statuses):
        select.select([], [], [], 0.05)
    cluster.stop()
    assert processes_of(folder) == {}
    assert (folder / "zygote.log").read_text() == ""


def test_an_agent_without_its_ledger_refuses_to_speak(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    configuration = dealt(folder, table(network={"deadline": 2.0, "linger": 1.0}))
    (agent_folder(folder, 2) / "ledger.jsonl").unlink()
    watch = watched(folder, configuration)
    words = {failure.process: failure.words for failure in watch.failures}
    assert "ledger" in words["agent-0002"]
    assert not [m for m in said(folder) if isinstance(m, Release) and m.sender == 2]


def test_a_full_disk_refuses_the_charge(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    dealt(folder, table())
    ledger = agent_folder(folder, 1) / "ledger.jsonl"
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        # /dev/full is what a full disk looks like to a writer.
        setting, public, digest = read_shard(shard_path(folder, 1), agent_folder(folder, 1) / "secret")
        agent = algorithm(public.algorithm)(setting)
        opened = LedgerFile.open(ledger, digest)
        try:
            os.dup2(full, opened.fileno())
            charger = Charger(opened, agent, 40, bytes(16))
            with pytest.raises(ValueError, match="ledger"):
                charger.charge(0)
        finally:
            opened.close()
    finally:
        os.close(full)


def test_an_agent_that_can_write_no_more_stops_speaking_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    configuration = dealt(folder, table(clock={"rate": 20.0}))
    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.sent > 60)
        written = (agent_folder(folder, 1) / "ledger.jsonl").stat().st_size
        resource.prlimit(cluster.alive[1], resource.RLIMIT_FSIZE, (written, written))
        watch = cluster.watch()
    finally:
        cluster.close()
    assert [(failure.process, failure.status) for failure in watch.failures] == [("agent-0001", 4)]
    last = max(m.index for m in said(folder) if isinstance(m, Release) and m.sender == 1)
    assert last < 39
    dones = [m for m in said(folder) if isinstance(m, Done) and m.sender == 1]
    assert dones
    assert all(done.last == last for done in dones)
    assert final(folder, 0)["code"] == 0
