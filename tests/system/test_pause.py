"""An agent that is stopped and continued sends no more than its clock allows, and is not given up too early."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from coordinator_free.release import Release
from node.agent.silence import Listening
from node.audit.verify import verify
from node.faults.log import read_faults
from node.folder.status import State, read_status
from node.places import agent_folder
from node.traffic.reader import TrafficLogReader
from node.wire import decode
from node.worlds import launcher
from node.worlds.progress import Progress
from tests.helpers.clusters import dealt, final, named, ran, ran_with_a_pause, with_network
from tests.helpers.misbehaving_networks import descent

AGENTS = 8
PAUSE: dict[str, Any] = {"at": 0.5, "fault": "pause", "target": "one", "lasting": 4.0}


def test_time_in_which_nobody_listened_is_nobodys_silence() -> None:
    shown = [100.0]
    listening = Listening(lambda: shown[0])
    for wait, passes in ((0.5, 0.5), (0.5, 0.2), (0.5, 10.0), (-1.0, 3.0)):
        listening.wait(wait)
        shown[0] += passes
        listening.look()
    assert listening.seconds == pytest.approx(0.5 + 0.2 + 0.5)


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_on_a_clock_it_goes_on_at_its_rate_with_fresh_models(tmp_path: Path, transport: str) -> None:
    folder = tmp_path / "paused"
    table = descent(AGENTS, transport=transport)
    table["clock"] = {"rate": 10.0, "updates": 160}  # so slow that a busy machine keeps up
    watch = ran(folder, {**table, "event": [{**PAUSE, "lasting": 10.0}]})
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (folder / "eavesdropper.log").read_text()
    pause, resume = read_faults(folder)
    [paused] = pause["agents"]
    newest: dict[int, int] = {}
    before: dict[int, int] = {}
    others_meanwhile = 0
    after: list[Release] = []
    stale: list[int] = []
    for frame in TrafficLogReader(folder / "traffic.mcap"):
        message = decode(frame.parts)
        if not isinstance(message, Release) or message.index <= newest.get(message.sender, -1):
            continue
        newest[message.sender] = message.index
        if frame.time_ns < pause["time_ns"]:
            before = dict(newest)
        if frame.time_ns < resume["time_ns"]:
            continue
        if message.sender != paused:
            others_meanwhile += bool(after)
            continue
        after.append(message)
        # It may have been stopped between hearing and speaking: one release was under way, and rests on what had been
        # said by then (within a few, since the eavesdropper and it do not hear in the same moment).
        if len(after) > 1 or any(k > before.get(j, -1) + 5 for j, k in message.used):
            stale += [newest[j] - k for j, k in message.used if j != paused]
        if len(after) == 11:
            break
    assert len(after) == 11
    # Clocks of the same rate: in ten of its ticks the seven others have about seventy. A burst of the ticks that it
    # missed would have come before any of theirs.
    assert others_meanwhile > 20
    assert max(stale) < 40, "of the hundred and more that each neighbour said while it was paused, it used the last"
    assert verify(folder).ok


def admm(**network: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 3},
        "data": {"source": "breast-cancer", "agents": AGENTS},
        "topology": {"kind": "ring"},
        "learning": {"algorithm": "admm", "loss": "logistic", "capacity": 10.0, "rho": 1.0, "penalty": 1.0},
        "clock": {"updates": 150},
        "network": {"repeat": 0.05, "linger": 8.0, "on_silent": "stop", "delay": "5 ms", **network},
    }


@pytest.mark.processes
@pytest.mark.slow
def test_in_rounds_no_agent_names_it_while_it_may_be_silent_for_longer(tmp_path: Path) -> None:
    folder = tmp_path / "patient"
    watch = ran(folder, {**admm(silent=600.0, linger=600.0), "event": [PAUSE]})
    assert watch.failures == []
    assert [fault["fault"] for fault in read_faults(folder)] == ["pause", "resume"]
    for agent in range(AGENTS):
        assert final(folder, agent)["sent"] == 150
        assert final(folder, agent)["notes"] == []
    assert verify(folder).ok


@pytest.mark.processes
@pytest.mark.slow
def test_in_rounds_its_neighbours_name_it_after_network_silent(tmp_path: Path) -> None:
    folder, paused = tmp_path / "stopped", 3
    neighbours = (paused - 1, paused + 1)

    def over(_: Progress) -> bool:
        return all((agent_folder(folder, each) / "final.json").exists() for each in neighbours)

    watch = ran_with_a_pause(folder, admm(silent=4.0), paused, after=20, until=over)
    words = {failure.process: failure.last_words[0] for failure in watch.failures}
    for neighbour in neighbours:
        assert f"nothing from agent {paused} for network.silent = 4 s" in words[f"agent-{neighbour:04d}"]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(("deadline", "found"), [(600.0, True), (10.0, False)])
def test_a_restarted_agent_waits_for_a_paused_neighbour_until_network_deadline(
    tmp_path: Path, deadline: float, found: bool
) -> None:
    """The pause ends by what has happened, and the deadline is that of the restarted agent alone."""
    folder, paused, restarted = tmp_path / "paused", 3, 4
    table = descent(AGENTS, linger=600.0 if found else 12.0)
    table["topology"] = {"kind": "ring"}
    kill = {"at": 1.0, "fault": "kill", "target": [restarted], "restart": "100 ms"}
    configuration = dealt(folder, {**table, "event": [kill]})
    place = agent_folder(folder, restarted)

    def over(_: Progress) -> bool:
        """The restarted agent waits for its neighbour, or has given it up."""
        status = read_status(place / "status")
        waits = status is not None and status.state is State.LISTENING
        return (place / "final.json").exists() or (found and waits)

    cluster = launcher.Cluster(folder, configuration, AGENTS)
    cluster.start()
    try:
        cluster.watch(until=lambda progress: progress.ready == AGENTS)
        os.kill(cluster.alive[paused], signal.SIGSTOP)
        with_network(folder, restarted, deadline=deadline)
        cluster.watch(until=over)
        os.kill(cluster.alive[paused], signal.SIGCONT)
        watch = cluster.watch()
    finally:
        cluster.close()
    if found:
        assert watch.failures == []
        assert [note.split(":")[0] for note in final(folder, restarted)["notes"]] == ["restarted"]
        assert verify(folder).ok
    else:
        [failure] = watch.failures
        assert failure.process == f"agent-{restarted:04d}"
        words = failure.last_words[0]
        assert words.startswith(f"not ready after network.deadline = {deadline:g} s: ")
        assert paused in named(words, "nothing received from")
        assert final(folder, paused)["code"] == 0
