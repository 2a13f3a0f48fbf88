"""The eavesdropper hears everything that is said, whatever it is, and knows whether that was all."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import zmq

from node.folder.status import read_overheard
from node.sockets.agent_sockets import FixedEndpoints
from node.traffic.completeness import CaptureCounter
from node.traffic.eavesdropper import Eavesdropper, main
from node.traffic.over import GONE_SECONDS, QUIET_SECONDS, Situation, over
from node.traffic.reader import TrafficLogReader
from node.traffic.writer import TrafficLogWriter
from node.wire import EAVESDROPPER
from tests.helpers.documents import conforms
from tests.helpers.listening import Listening
from tests.helpers.speech import RUN, by_agent, conversation, done, hello, release


class Speaker:
    """A publisher that speaks once the eavesdropper listens, as an agent does."""

    def __init__(self, endpoint: str) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.sndhwm = 0
        self.socket.rcvtimeo = 20_000
        self.socket.bind(endpoint)

    def wait_for_listener(self) -> None:
        while self.socket.recv() != b"\1" + EAVESDROPPER:
            pass

    def say(self, said: Sequence[Sequence[bytes]]) -> None:
        for parts in said:
            self.socket.send_multipart(parts)

    def hang_up(self) -> None:
        self.socket.close(10_000)
        self.context.term()


@pytest.fixture
def endpoints(tmp_path: Path) -> Mapping[int, str]:
    return {k: f"ipc://{tmp_path}/{k}" for k in range(4)}


@pytest.fixture
def speakers(endpoints: Mapping[int, str]) -> Iterator[list[Speaker]]:
    made = [Speaker(endpoints[k]) for k in range(4)]
    yield made
    for speaker in made:
        if not speaker.socket.closed:
            speaker.socket.close(0)
            speaker.context.term()


def test_it_hears_all_and_ends_when_everybody_hung_up(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]
) -> None:
    said = conversation(4, 50)
    listening = Listening(
        TrafficLogWriter(tmp_path / "t.mcap", {"manifest.json": b"{}"}),
        FixedEndpoints(endpoints),
        range(4),
        run=RUN,
        agents=range(4),
        status=tmp_path / "status",
    )
    for k, speaker in enumerate(speakers):
        speaker.wait_for_listener()
        speaker.say(by_agent(said, k))
        speaker.hang_up()
    heard = listening.end()
    assert heard.complete
    assert heard.ended == "all agents disconnected"
    reader = TrafficLogReader(tmp_path / "t.mcap")
    frames = list(reader)
    for k in range(4):
        assert by_agent([frame.parts for frame in frames], k) == by_agent(said, k)
    times = [frame.time_ns for frame in frames]
    assert times == sorted(times)
    assert reader.closed
    assert json.loads(reader.metadata["capture"]["verdict"]) == heard.as_json()
    progress = read_overheard(tmp_path / "status")
    assert progress is not None
    assert (progress.releases, progress.frames, progress.done) == (200, len(said), 4)
    assert progress.bytes == sum(len(part) for parts in said for part in parts)


def test_it_ends_when_complete_and_quiet_although_agents_stay(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]
) -> None:
    listening = Listening(TrafficLogWriter(tmp_path / "t.mcap"), FixedEndpoints(endpoints), [0], run=RUN, agents=[0])
    speakers[0].wait_for_listener()
    speakers[0].say([hello(0), release(0, 0), release(0, 0), done(0, 0)])
    heard = listening.end()
    assert (heard.complete, heard.ended, heard.capture.repeats) == (True, "complete", 1)


def test_what_is_missing_is_named(tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]) -> None:
    listening = Listening(
        TrafficLogWriter(tmp_path / "t.mcap"), FixedEndpoints(endpoints), [0, 1], run=RUN, agents=[0, 1]
    )
    for k, said in ((0, [release(0, 0), release(0, 2), done(0, 2)]), (1, [hello(1)])):
        speakers[k].wait_for_listener()
        speakers[k].say(said)
        speakers[k].hang_up()
    heard = listening.end()
    assert not heard.complete
    assert heard.as_json()["capture"]["missing"] == {"0": [[1, 1]], "1": [[0, None]]}


def test_told_to_stop_it_takes_what_arrived_and_closes_the_log(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]
) -> None:
    status = tmp_path / "status"
    listening = Listening(
        TrafficLogWriter(tmp_path / "t.mcap"), FixedEndpoints({0: endpoints[0]}), [0, 1], run=RUN, status=status
    )
    speakers[0].wait_for_listener()
    speakers[0].say([release(0, k) for k in range(30)])
    while (progress := read_overheard(status)) is None or progress.frames < 30:
        assert listening.thread.is_alive()
    listening.stop.set()
    heard = listening.end()
    assert heard.ended == "stopped"
    reader = TrafficLogReader(tmp_path / "t.mcap")
    assert len(list(reader)) == 30
    assert reader.closed


def test_hostile_frames_are_logged_as_received(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]
) -> None:
    hostile = [
        [b""],
        [b"\xff" * 8],
        [os.urandom(8), os.urandom(100), os.urandom(801)],
        [b"\0" * 8, b"\x81\xa1v\xc1", b""],
        [b"a"] * 50,
        [b"\0" * 8, b"\xdd\xff\xff\xff\xff", b"x"],
        list(release(9, 0)),
        list(release(0, 0, run=bytes(16))),
        [b"big", bytes(1 << 22)],
    ]
    listening = Listening(TrafficLogWriter(tmp_path / "t.mcap"), FixedEndpoints(endpoints), [0], run=RUN, agents=[0])
    speakers[0].wait_for_listener()
    speakers[0].say([release(0, 0), *hostile, release(0, 1), done(0, 1)])
    speakers[0].hang_up()
    heard = listening.end()
    assert heard.complete
    logged = [list(frame.parts) for frame in TrafficLogReader(tmp_path / "t.mcap")]
    assert logged[1:-2] == hostile
    assert sum(heard.capture.refused.values()) == len(hostile)


def test_frames_above_the_limit_are_dropped_and_counted(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("node.traffic.eavesdropper.FRAME_LIMIT", 1000)
    listening = Listening(TrafficLogWriter(tmp_path / "t.mcap"), FixedEndpoints(endpoints), [0], run=RUN, agents=[0])
    speakers[0].wait_for_listener()
    speakers[0].say([release(0, 0), [bytes(400)] * 4, done(0, 0)])
    speakers[0].hang_up()
    heard = listening.end()
    assert (heard.complete, heard.oversized) == (True, 1)
    assert len(list(TrafficLogReader(tmp_path / "t.mcap"))) == 2


def test_a_full_disk_ends_it_and_is_told(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = TrafficLogWriter(tmp_path / "t.mcap", chunk_bytes=500)

    def append(_data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(log, "_append", append)
    listening = Listening(log, FixedEndpoints(endpoints), [0], run=RUN, agents=[0])
    speakers[0].wait_for_listener()
    speakers[0].say([release(0, k) for k in range(20)] + [done(0, 19)])
    heard = listening.end()
    assert not heard.complete
    assert heard.failure is not None
    assert "No space left on device" in heard.failure


def test_it_connects_only_to_what_exists(tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]) -> None:
    known: dict[int, str] = {0: endpoints[0]}
    asked: list[int] = []

    class Later(FixedEndpoints):
        def lookup(self, agent: int) -> str | None:
            asked.append(agent)
            return known.get(agent)

    listening = Listening(TrafficLogWriter(tmp_path / "t.mcap"), Later({}), [0, 1], run=RUN, agents=[0, 1])
    speakers[0].wait_for_listener()
    speakers[0].say([release(0, 0), done(0, 0)])
    known[1] = endpoints[1]
    speakers[1].wait_for_listener()
    speakers[1].say([done(1, -1)])
    heard = listening.end()
    assert heard.complete
    assert asked.count(0) == 1
    assert asked.count(1) >= 1


def test_an_endpoint_that_cannot_be_is_an_error_and_the_log_is_closed(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nonsense"):
        Eavesdropper(
            TrafficLogWriter(tmp_path / "t.mcap"), FixedEndpoints({0: "nonsense"}), [0], CaptureCounter()
        ).listen()
    assert TrafficLogReader(tmp_path / "t.mcap").summary() is not None
    with TrafficLogWriter(tmp_path / "u.mcap") as log, pytest.raises(ValueError, match="no endpoint"):
        Eavesdropper(log, FixedEndpoints({}), [], CaptureCounter())


def test_a_folder_that_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(tmp_path)]) == 2
    assert "manifest.json" in capsys.readouterr().err


@pytest.mark.processes
def test_the_command_closes_its_log_on_a_signal(
    tmp_path: Path, endpoints: Mapping[int, str], speakers: list[Speaker]
) -> None:
    command = [sys.executable, "-m", "node.cli", "eavesdrop", endpoints[0], "--log", str(tmp_path / "t.mcap"), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        speakers[0].wait_for_listener()
        speakers[0].say([release(0, k) for k in range(10)])
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, err
    document = json.loads(out)
    conforms(document, "eavesdrop")
    assert document["ended"] == "stopped"
    reader = TrafficLogReader(tmp_path / "t.mcap")
    assert len(list(reader)) == document["frames"] == document["capture"]["releases"]
    assert reader.closed


# --- when listening is over: decided from counts, and from a time that the test tells --------------------------------

HERE = Situation(
    doors=3, unknown=0, met=3, connected=3, complete=False, now=100.0, frame_at=100.0, there_at=100.0, patience=None
)
GONE = replace(HERE, connected=0)


def test_while_an_agent_is_connected_an_incomplete_capture_goes_on() -> None:
    assert over(replace(HERE, now=1e9)) is None


def test_a_complete_capture_ends_when_all_is_quiet_though_agents_stay() -> None:
    complete = replace(HERE, complete=True)
    assert over(replace(complete, now=100.0 + QUIET_SECONDS - 0.01)) is None
    assert over(replace(complete, now=100.0 + QUIET_SECONDS)) == "complete"
    assert over(replace(complete, now=1e9, unknown=1, met=2)) is None, "an agent is still to come"


def test_when_all_have_hung_up_a_complete_capture_ends_at_once() -> None:
    assert over(replace(GONE, complete=True)) == "all agents disconnected"


def test_an_agent_that_hung_up_may_come_back_for_a_while() -> None:
    assert over(replace(GONE, now=100.0 + GONE_SECONDS - 0.01)) is None
    assert over(replace(GONE, now=100.0 + GONE_SECONDS)) == "all agents disconnected"


def test_without_patience_all_agents_have_to_come_first() -> None:
    assert over(replace(GONE, met=2, now=1e9)) is None
    assert over(replace(GONE, unknown=1, met=2, now=1e9)) is None


def test_with_patience_it_ends_though_not_all_came() -> None:
    patient = replace(GONE, met=2, patience=15.0)
    assert over(replace(patient, now=114.9)) is None
    assert over(replace(patient, now=115.0)) == "all agents disconnected"
    assert over(replace(patient, met=0, now=1e9)) is None, "it may have been started first"
    assert over(replace(patient, met=0, now=115.0, resumed=True)) == "all agents disconnected"
