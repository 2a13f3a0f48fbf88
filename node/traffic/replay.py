"""Replay: publish a log's frames again, byte for byte with their topics, on their own time line.

Rules that hold here:
- A replay binds and never connects: it does not speak to a run by itself.
- One absolute anchor: a frame is due at anchor + (its time - the start) / rate. Sleeps are never summed; a pause moves
  the anchor once.
- Frames go out in file order, whatever their times.
- No frame is dropped: a listener that cannot keep up makes the replay wait.
- It starts when enough subscribers listen, known by their subscriptions.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import termios
import time
import tty
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import zmq

from node.sockets.agent_sockets import send
from node.traffic.information import Selection, sender_of
from node.traffic.reader import Frame, TrafficLogReader
from node.wire import EVERYBODY

SLOWEST: Final = 0.01
FASTEST: Final = 1000.0
QUEUE: Final = 10_000
"""Frames that may wait for one subscriber before the replay waits for it."""
LINGER_SECONDS: Final = 30
LOOK_SECONDS: Final = 0.1


class ReplayError(ValueError):
    """A replay that cannot be: endpoint or rate; one line."""


class Key(Enum):
    """What a person at the terminal asks for."""

    PAUSE = "space"
    STEP = "right arrow"


@dataclass
class ReplayReport:
    """How a replay went. Times are in seconds; ``lateness`` is filled where statistics were asked for."""

    frames: int = 0
    bytes: int = 0
    seconds: float = 0.0
    worst_lateness: float = 0.0
    span: float = 0.0
    per_agent: Counter[int | None] = field(default_factory=Counter)
    lateness: array[float] = field(default_factory=lambda: array("d"))

    def as_json(self, *, statistics: bool = False) -> dict[str, Any]:
        """One document; with ``statistics`` frames per agent and percentiles of the lateness too."""
        document: dict[str, Any] = {
            "frames": self.frames,
            "bytes": self.bytes,
            "span_s": self.span,
            "seconds": self.seconds,
            "frames_per_s": self.frames / self.seconds if self.seconds > 0 else None,
            "worst_lateness_s": self.worst_lateness,
        }
        if statistics:
            ordered = sorted(self.lateness)
            document["lateness_s"] = {
                f"p{percent}": ordered[(len(ordered) - 1) * percent // 100] if ordered else 0.0
                for percent in (50, 90, 99)
            }
            document["frames_per_agent"] = {
                "other" if agent is None else str(agent): count
                for agent, count in sorted(self.per_agent.items(), key=lambda pair: (pair[0] is None, pair[0] or 0))
            }
        return document


def check_rate(rate: float) -> float:
    """The rate if it can be had; raises `ReplayError`."""
    if not (math.isfinite(rate) and SLOWEST <= rate <= FASTEST):
        raise ReplayError(f"--rate {rate:g}: should be from {SLOWEST:g} to {FASTEST:g} (1 is the recorded pace)")
    return rate


class Stage:
    """The XPUB socket at ``endpoint``. A context manager; raises `ReplayError` where it cannot be bound."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.XPUB)
        self._socket.sndhwm = QUEUE
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)
        self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self._socket.ipv6 = endpoint.startswith("tcp://[")
        self.endpoint = ""
        self._everything = 0
        self._names = 0
        try:
            _refuse_occupied(endpoint)
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            self._end(0)
            raise ReplayError(
                f"--to {endpoint}: cannot be bound: {error.strerror or error} "
                "(accepted: tcp://ADDRESS:PORT or ipc://PATH that nobody uses)"
            ) from None
        except ReplayError:
            self._end(0)
            raise
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self.endpoint = bound.rstrip(b"\0").decode()

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end(0 if kind is not None else 1000 * LINGER_SECONDS)

    def _end(self, linger_ms: int) -> None:
        self._socket.close(linger_ms)
        self._context.term()
        path = _ipc_path(self.endpoint)
        if path is not None:
            path.unlink(missing_ok=True)

    @property
    def subscribers(self) -> int:
        """Listeners that subscribed to everything, or that made their name known, whichever are more.

        An agent or an eavesdropper does both or the second, a plain subscriber the first.
        """
        return max(self._everything, self._names)

    def notice(self, seconds: float = 0.0) -> None:
        """Take note of who began or ceased to listen, waiting for the first news up to ``seconds``."""
        if seconds > 0 and not self._socket.poll(round(1000 * seconds)):
            return
        with contextlib.suppress(zmq.Again):
            while True:
                event = self._socket.recv(zmq.NOBLOCK)
                change = 1 if event[:1] == b"\1" else -1
                if event[1:] == b"":
                    self._everything += change
                elif len(event) == 9 and int.from_bytes(event[1:5], "big") == EVERYBODY:
                    self._names += change

    def wait_for(self, subscribers: int, tick: Callable[[], None] = lambda: None) -> None:
        """Until so many listen; ``tick`` is called a few times a second."""
        while self.subscribers < subscribers:
            self.notice(LOOK_SECONDS)
            tick()

    def say(self, frame: Frame) -> None:
        """Publish; waits while a subscriber's queue is full."""
        send(self._socket, frame.parts)


def _ipc_path(endpoint: str) -> Path | None:
    return Path(endpoint.removeprefix("ipc://")) if endpoint.startswith("ipc://") and "@" not in endpoint else None


def _refuse_occupied(endpoint: str) -> None:
    """Binding an ipc path takes it away from whoever listens there, so only one that nobody answers at is taken."""
    path = _ipc_path(endpoint)
    if path is None or not path.exists():
        return
    if not path.is_socket():
        raise ReplayError(f"--to {endpoint}: {path} exists and is no socket; name a path that does not")
    with socket.socket(socket.AF_UNIX) as door:
        try:
            door.connect(str(path))
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise ReplayError(f"--to {endpoint}: {path} exists and cannot be tried ({error.strerror})") from None
    raise ReplayError(f"--to {endpoint}: somebody speaks there, perhaps an agent of a run; name another endpoint")


class Terminal:
    """Keys from a terminal, without waiting for a line; no keys where standard input is no terminal."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor if os.isatty(descriptor) else None
        self._before: list[Any] | None = None

    def __enter__(self) -> Terminal:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None and self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def key(self, seconds: float) -> Key | None:
        """The key that is pressed within ``seconds``; sleeps as long where there is no terminal."""
        if self._descriptor is None:
            return no_keys(seconds)
        typed = self._typed(max(0.0, seconds))
        if typed == b" ":
            return Key.PAUSE
        if typed == b"\x1b" and self._typed(0.05) in (b"[", b"O") and self._typed(0.05) == b"C":
            return Key.STEP
        return None

    def _typed(self, seconds: float) -> bytes:
        assert self._descriptor is not None
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return b""
        try:
            typed = os.read(self._descriptor, 1)
        except OSError:
            typed = b""
        if not typed:
            self._descriptor = None  # the terminal hung up: nobody will press a key any more
        return typed


def no_keys(seconds: float) -> Key | None:
    """A terminal that nobody types at."""
    time.sleep(max(0.0, seconds))
    return None


def replay(
    reader: TrafficLogReader,
    say: Callable[[Frame], None],
    *,
    selection: Selection | None = None,
    rate: float | None = 1.0,
    loops: int = 1,
    statistics: bool = False,
    keys: Callable[[float], Key | None] = no_keys,
    tick: Callable[[ReplayReport, bool], None] = lambda _report, _paused: None,
) -> ReplayReport:
    """Say the frames that ``selection`` means, ``loops`` times, ``rate`` times as fast as they were heard.

    A rate of None is as fast as possible. ``keys(seconds)`` waits for a key so long; ``tick`` is called a few times a
    second with what was done so far and whether it is paused. The time line begins at ``selection.start``, and a
    loop begins where the one before it ended.
    """
    if rate is not None:
        check_rate(rate)
    if loops < 1:
        raise ReplayError(f"--loop {loops}: should be at least 1")
    selection = selection or Selection()
    selection.check(reader)
    report = ReplayReport()
    began = anchor = time.monotonic()
    paused_at: float | None = None
    next_tick = began
    for _ in range(loops):
        due = anchor
        for offset, frame in _on_time_line(reader, selection):
            report.span = max(report.span, offset)
            if rate is not None:
                due = max(due, anchor + offset / rate)
            step = False
            while not step:
                now = time.monotonic()
                if now >= next_tick:
                    tick(report, paused_at is not None)
                    next_tick = now + LOOK_SECONDS
                    if rate is None and paused_at is None:
                        pressed = keys(0.0)
                        if pressed is Key.PAUSE:
                            paused_at = now
                if paused_at is None:
                    if rate is None or now >= due:
                        break
                    pressed = keys(min(due - now, next_tick - now))
                    if pressed is Key.PAUSE:
                        paused_at = time.monotonic()
                    continue
                pressed = keys(max(0.0, next_tick - now))
                if pressed is Key.STEP:
                    step = True
                elif pressed is Key.PAUSE:
                    # The pause is cut out of the time line: the next frame is due as long from now as it was then.
                    shift = time.monotonic() - paused_at
                    anchor += shift
                    due += shift
                    paused_at = None
            now = time.monotonic()
            if rate is not None and paused_at is None:
                late = now - due
                if late > report.worst_lateness:
                    report.worst_lateness = late
                if statistics:
                    report.lateness.append(late)
            say(frame)
            report.frames += 1
            report.bytes += len(frame.topic) + len(frame.header) + len(frame.body)
            if statistics:
                report.per_agent[sender_of(frame)] += 1
        anchor = due
    report.seconds = time.monotonic() - began
    tick(report, False)
    return report


def _on_time_line(reader: TrafficLogReader, selection: Selection) -> Iterator[tuple[float, Frame]]:
    """(seconds since the beginning of the selected time, frame) of every selected frame."""
    start: int | None = None

    def noted() -> Iterator[Frame]:
        nonlocal start
        for frame in reader:
            if start is None:
                start = frame.time_ns
            yield frame

    for frame in selection.apply(noted()):
        assert start is not None
        yield max(0.0, (frame.time_ns - start) * 1e-9 - selection.start), frame


def plan(reader: TrafficLogReader, selection: Selection, rate: float | None, loops: int) -> dict[str, Any]:
    """What a replay would do, without a socket or waiting."""
    if rate is not None:
        check_rate(rate)
    selection.check(reader)
    per_agent: Counter[int | None] = Counter()
    size, span = 0, 0.0
    for offset, frame in _on_time_line(reader, selection):
        per_agent[sender_of(frame)] += 1
        size += sum(map(len, frame.parts))
        span = max(span, offset)
    frames = sum(per_agent.values())
    return {
        "frames": frames * loops,
        "bytes": size * loops,
        "agents": sum(agent is not None for agent in per_agent),
        "span_s": span,
        "seconds": None if rate is None else span / rate * loops,
        "chosen": selection.in_words(),
    }
