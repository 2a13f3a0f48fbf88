"""A replay says the same frames again, at the right times, to those who listen."""

from __future__ import annotations

import os
import random
import socket
import termios
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zmq

from node.sockets.agent_sockets import FixedEndpoints
from node.traffic import publisher as publisher_module
from node.traffic import replay as replay_module
from node.traffic import terminal as terminal_module
from node.traffic.format import Frame
from node.traffic.pacer import ReplayError
from node.traffic.publisher import Publisher
from node.traffic.reader import TrafficLogReader
from node.traffic.replay import ReplayReport, plan, replay
from node.traffic.selection import Selection, SelectionError
from node.traffic.terminal import KeyPress, Terminal
from node.traffic.writer import TrafficLogWriter
from node.wire import own_name
from tests.helpers.listening import Listening
from tests.helpers.speech import START_NS, by_agent, conversation, done, hello, release, write_log


@dataclass
class Clock:
    """A clock that moves when somebody sleeps, and by ``cost`` whenever a frame is said."""

    now: float = 1000.0
    cost: float = 0.0
    said: list[tuple[float, tuple[bytes, ...]]] = field(default_factory=list)
    keys: list[tuple[float, KeyPress]] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def key(self, seconds: float) -> KeyPress | None:
        """The next key of the script, if its time is within ``seconds``."""
        if self.keys and self.keys[0][0] <= self.now + seconds - 1000.0:
            at, key = self.keys.pop(0)
            self.now = max(self.now, 1000.0 + at)
            return key
        self.now += seconds
        return None

    def say(self, frame: Frame) -> None:
        self.said.append((self.now - 1000.0, frame.parts))
        self.now += self.cost

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.said]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(replay_module, "time", made)
    monkeypatch.setattr(terminal_module, "time", made)
    return made


def log_at(path: Path, times_ms: list[float]) -> TrafficLogReader:
    with TrafficLogWriter(path) as writer:
        for k, at in enumerate(times_ms):
            writer.write(release(k % 3, k // 3), START_NS + round(at * 1e6))
    return TrafficLogReader(path)


def test_frames_go_out_at_their_times(tmp_path: Path, clock: Clock) -> None:
    reader = log_at(tmp_path / "a.mcap", [0, 10, 10, 10, 250, 1000])
    report = replay(reader, clock.say)
    assert clock.times == pytest.approx([0, 0.01, 0.01, 0.01, 0.25, 1.0])
    assert [parts for _, parts in clock.said] == [frame.parts for frame in reader]
    assert report.worst_lateness == pytest.approx(0, abs=1e-9)
    assert (report.frames, report.span) == (6, pytest.approx(1.0))


@pytest.mark.parametrize("rate", [0.01, 0.5, 7.0, 1000.0])
def test_the_rate_divides_the_time_line(tmp_path: Path, clock: Clock, rate: float) -> None:
    replay(log_at(tmp_path / "a.mcap", [0, 10, 200]), clock.say, rate=rate)
    assert clock.times == pytest.approx([0, 0.01 / rate, 0.2 / rate])


def test_lateness_does_not_add_up(tmp_path: Path, clock: Clock) -> None:
    clock.cost = 0.004
    report = replay(log_at(tmp_path / "a.mcap", [10.0 * k for k in range(500)]), clock.say, statistics=True)
    assert clock.times == pytest.approx([0.01 * k for k in range(500)])
    clock.said.clear()
    clock.cost, clock.now = 0.015, 1000.0
    late = replay(log_at(tmp_path / "b.mcap", [10.0 * k for k in range(5)]), clock.say, statistics=True)
    assert clock.times == pytest.approx([0, 0.015, 0.03, 0.045, 0.06])
    assert late.worst_lateness == pytest.approx(0.02)
    assert late.as_json(statistics=True)["lateness_s"]["p50"] == pytest.approx(0.01)
    assert report.worst_lateness == pytest.approx(0, abs=1e-9)


def test_times_that_run_backwards_keep_file_order(tmp_path: Path, clock: Clock) -> None:
    reader = log_at(tmp_path / "a.mcap", [0, 50, 20, 60])
    report = replay(reader, clock.say)
    assert clock.times == pytest.approx([0, 0.05, 0.05, 0.06])
    assert [parts for _, parts in clock.said] == [frame.parts for frame in reader]
    assert report.worst_lateness == pytest.approx(0, abs=1e-9)


def test_as_fast_as_possible_waits_for_nothing(tmp_path: Path, clock: Clock) -> None:
    report = replay(log_at(tmp_path / "a.mcap", [0, 10_000, 20_000]), clock.say, rate=None)
    assert clock.times == [0, 0, 0]
    assert report.worst_lateness == 0


def test_loops_follow_one_another(tmp_path: Path, clock: Clock) -> None:
    reader = log_at(tmp_path / "a.mcap", [0, 10, 100])
    report = replay(reader, clock.say, loops=3)
    assert clock.times == pytest.approx([0, 0.01, 0.1, 0.1, 0.11, 0.2, 0.2, 0.21, 0.3])
    assert [parts for _, parts in clock.said] == 3 * [frame.parts for frame in reader]
    assert report.frames == 9


def test_a_start_offset_begins_the_time_line_there(tmp_path: Path, clock: Clock) -> None:
    reader = log_at(tmp_path / "a.mcap", [0, 10, 100, 150, 300])
    replay(reader, clock.say, selection=Selection.of(start=0.05, duration=0.2))
    assert clock.times == pytest.approx([0.05, 0.1])
    clock.said.clear()
    clock.now = 1000.0
    replay(reader, clock.say, selection=Selection.of([1]))
    assert clock.times == pytest.approx([0.01, 0.3]), "who is left out leaves their time"


def test_a_pause_is_cut_out_of_the_time_line(tmp_path: Path, clock: Clock) -> None:
    clock.keys = [(0.05, KeyPress.PAUSE), (7.05, KeyPress.PAUSE)]
    report = replay(log_at(tmp_path / "a.mcap", [0, 10, 100, 200]), clock.say, keys=clock.key)
    assert clock.times == pytest.approx([0, 0.01, 7.1, 7.2])
    assert report.worst_lateness == pytest.approx(0, abs=1e-9)


def test_the_right_arrow_steps_while_paused(tmp_path: Path, clock: Clock) -> None:
    clock.keys = [(0.05, KeyPress.PAUSE), (1.0, KeyPress.STEP), (2.0, KeyPress.STEP), (3.05, KeyPress.PAUSE)]
    replay(log_at(tmp_path / "a.mcap", [0, 10, 100, 200, 300]), clock.say, keys=clock.key)
    assert clock.times == pytest.approx([0, 0.01, 1.0, 2.0, 3.3])
    clock.said.clear()
    clock.now = 1000.0
    clock.keys = [(0.01, KeyPress.STEP)]
    replay(TrafficLogReader(tmp_path / "a.mcap"), clock.say, keys=clock.key)
    assert clock.times == pytest.approx([0, 0.01, 0.1, 0.2, 0.3]), "it does nothing while playing"


def test_as_fast_as_possible_can_be_paused(tmp_path: Path, clock: Clock) -> None:
    clock.cost = 0.06
    clock.keys = [(0.0, KeyPress.PAUSE), (5.0, KeyPress.PAUSE)]
    replay(log_at(tmp_path / "a.mcap", [0, 1, 2]), clock.say, rate=None, keys=clock.key)
    assert clock.times[0] == pytest.approx(5.0)
    assert clock.times == sorted(clock.times)


@pytest.mark.parametrize("rate", [0.0, -1.0, 0.001, 1001.0, float("nan"), float("inf")])
def test_a_rate_that_cannot_be_is_refused(tmp_path: Path, rate: float) -> None:
    with pytest.raises(ReplayError, match=r"--rate .*: should be from 0.01 to 1000"):
        replay(log_at(tmp_path / "a.mcap", [0]), lambda _frame: None, rate=rate)


def test_an_agent_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    reader = log_at(tmp_path / "a.mcap", [0, 1, 2])
    with pytest.raises(SelectionError, match="agent 9"):
        replay(reader, lambda _frame: None, selection=Selection.of([9]))


def test_a_plan_says_what_would_be_done(tmp_path: Path) -> None:
    reader = log_at(tmp_path / "a.mcap", [0, 10, 100, 200, 300, 400])
    planned = plan(reader, Selection.of([0, 1]), 2.0, 3)
    assert (planned["frames"], planned["agents"]) == (12, 2)
    assert planned["span_s"] == pytest.approx(0.3)
    assert planned["seconds"] == pytest.approx(0.45)
    assert plan(reader, Selection(), None, 1)["seconds"] is None


# -- at a terminal ----------------------------------------------------------------------------------------------------


def test_keys_are_read_from_a_terminal_and_it_is_restored() -> None:
    controller, terminal = os.openpty()
    try:
        before = termios.tcgetattr(terminal)
        with Terminal(terminal) as keyboard:
            assert termios.tcgetattr(terminal) != before
            os.write(controller, b" \x1b[Cx\x1bOC\x1b[D ")
            pressed: list[KeyPress | None] = []
            while sum(key is not None for key in pressed) < 4:
                pressed.append(keyboard.key(5.0))
        assert [key for key in pressed if key is not None] == [
            KeyPress.PAUSE,
            KeyPress.STEP,
            KeyPress.STEP,
            KeyPress.PAUSE,
        ]
        assert pressed[:4] == [KeyPress.PAUSE, KeyPress.STEP, None, KeyPress.STEP]
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(terminal)
        os.close(controller)


def test_without_a_terminal_there_are_no_keys(tmp_path: Path, clock: Clock) -> None:
    with (tmp_path / "input").open("w+b") as file, Terminal(file.fileno()) as keyboard:
        file.write(b"   ")
        file.seek(0)
        assert keyboard.key(3.0) is None
    assert clock.now == 1003.0


def test_a_terminal_that_hangs_up_types_nothing(clock: Clock) -> None:
    controller, terminal = os.openpty()
    keyboard = Terminal(terminal)
    os.close(controller)
    assert keyboard.key(5.0) is None
    assert keyboard.key(5.0) is None
    os.close(terminal)
    assert clock.now == 1005.0, "from then on it only sleeps"


# -- over sockets -----------------------------------------------------------------------------------------------------


def played(path: Path, endpoint: str, out: Path, **settings: object) -> list[Frame]:
    """What an eavesdropper logs of a replay as fast as possible."""
    with Publisher(endpoint) as publisher:
        listening = Listening(TrafficLogWriter(out), FixedEndpoints({0: endpoint}), [0])
        publisher.wait_for(1)
        replay(TrafficLogReader(path), publisher.publish, rate=None, **settings)  # type: ignore[arg-type]
    listening.end()
    return list(TrafficLogReader(out))


def test_a_replay_of_a_replay_is_identical(tmp_path: Path) -> None:
    said = [*conversation(5, 200), (b"one part",), (b"\xff" * 8, b"", b"", b"four")]
    order = random.Random(1).sample(range(len(said)), len(said))
    shuffled = [said[k] for k in order]
    original = write_log(tmp_path / "a.mcap", shuffled)
    once = played(original, f"ipc://{tmp_path}/stage", tmp_path / "b.mcap")
    twice = played(tmp_path / "b.mcap", f"ipc://{tmp_path}/stage", tmp_path / "c.mcap")
    assert [frame.parts for frame in once] == shuffled
    assert [frame.parts for frame in twice] == shuffled
    assert not (tmp_path / "stage").exists(), "nothing is left behind"


def test_nothing_is_lost_to_a_listener_that_is_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "QUEUE", 10)
    said = conversation(5, 400)
    back = played(write_log(tmp_path / "a.mcap", said), f"ipc://{tmp_path}/stage", tmp_path / "b.mcap")
    assert [frame.parts for frame in back] == said


def test_a_filtered_replay_has_each_agent_s_frames_in_order(tmp_path: Path) -> None:
    said = conversation(5, 20)
    path = write_log(tmp_path / "a.mcap", said)
    back = played(path, f"ipc://{tmp_path}/s", tmp_path / "b.mcap", selection=Selection.of([1, 3]), loops=2)
    parts = [frame.parts for frame in back]
    assert len(parts) == 2 * 2 * 22
    for agent in (1, 3):
        assert by_agent(parts, agent) == 2 * by_agent(said, agent)


def subscribe(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, *prefixes: bytes) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.SUB)
    for prefix in prefixes:
        socket.subscribe(prefix)
    socket.connect(endpoint)
    return socket


def test_it_waits_for_as_many_subscribers_as_it_should(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/stage"
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    kinds: list[tuple[bytes, ...]] = [(b"",), (b"", own_name(None)), (b"", own_name(3))]
    sockets: list[zmq.Socket[bytes]] = []
    try:
        with Publisher(endpoint) as publisher:
            seen: list[int] = []

            def connect_next() -> None:
                seen.append(publisher.subscribers)
                if len(sockets) < len(kinds) and publisher.subscribers == len(sockets):
                    sockets.append(subscribe(context, endpoint, *kinds[len(sockets)]))

            publisher.wait_for(3, connect_next)
            assert publisher.subscribers == 3
            assert seen == sorted(seen)
            sockets.pop().close(0)
            while publisher.subscribers == 3:
                publisher.notice(0.1)
            assert publisher.subscribers == 2
    finally:
        for socket in sockets:
            socket.close(0)
        context.term()


def test_it_never_takes_an_endpoint_away_from_others(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/stage"
    with Publisher(endpoint), pytest.raises(ReplayError, match="another process publishes there"), Publisher(endpoint):
        pass
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ReplayError, match="is not a socket"), Publisher(f"ipc://{tmp_path}/file"):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_a_socket_that_nobody_answers_at_is_taken(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "stage"))
    with Publisher(f"ipc://{tmp_path}/stage") as publisher:
        assert publisher.endpoint == f"ipc://{tmp_path}/stage"


@pytest.mark.parametrize("endpoint", ["nonsense", "tcp://127.0.0.1", "udp://127.0.0.1:1", "ipc:///no/such/folder/x"])
def test_an_endpoint_that_cannot_be_bound(endpoint: str) -> None:
    with pytest.raises(ReplayError, match="cannot be bound"), Publisher(endpoint):
        pass


def test_the_stage_tells_its_port() -> None:
    with Publisher("tcp://127.0.0.1:*") as publisher:
        assert int(publisher.endpoint.rpartition(":")[2]) > 0


def test_ticks_tell_how_far_it_is(tmp_path: Path, clock: Clock) -> None:
    told: list[int] = []
    tick: Callable[[ReplayReport, bool], None] = lambda report, _paused: told.append(report.frames)  # noqa: E731
    replay(log_at(tmp_path / "a.mcap", [0, 500, 1000]), clock.say, tick=tick)
    assert told == sorted(told)
    assert len(told) >= 10
    assert told[-1] == 3


def test_hello_and_done_are_frames_like_others(tmp_path: Path, clock: Clock) -> None:
    path = write_log(tmp_path / "a.mcap", [hello(0), release(0, 0), done(0, 0)])
    replay(TrafficLogReader(path), clock.say)
    assert [parts for _, parts in clock.said] == [hello(0), release(0, 0), done(0, 0)]


def test_a_live_socket_with_an_at_sign_in_its_path_is_not_taken_away(tmp_path: Path) -> None:
    endpoint = f"ipc://{tmp_path}/user@host"
    with Publisher(endpoint), pytest.raises(ReplayError, match="another process publishes there"), Publisher(endpoint):
        pass


@pytest.mark.parametrize("port", ["65536", "99999", "-1", "http", "", "\u0663"])
def test_a_port_that_cannot_be_is_refused(port: str) -> None:
    with pytest.raises(ReplayError, match="from 0 to 65535"), Publisher(f"tcp://127.0.0.1:{port}"):
        pass


@pytest.mark.parametrize("endpoint", ["inproc://stage", "pgm://127.0.0.1:5555", "udp://127.0.0.1:5555"])
def test_an_endpoint_that_no_other_process_reaches_is_refused(endpoint: str) -> None:
    with pytest.raises(ReplayError, match="accepted: tcp://ADDRESS:PORT"), Publisher(endpoint):
        pass
