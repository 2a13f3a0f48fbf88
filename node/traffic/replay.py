"""Replay: publish a log's frames again, byte for byte with their topics, at their recorded times.

Frames are sent in the order of the file, each when it is due (`node.traffic.pacer`).
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from node.traffic.documents import ReplayFigures, ReplayPlan
from node.traffic.format import Frame
from node.traffic.pacer import Pacer, ReplayError, check_rate
from node.traffic.publisher import LOOK_SECONDS
from node.traffic.reader import TrafficLogReader
from node.traffic.selection import Selection, sender_of
from node.traffic.terminal import KeyPress, no_keys


@dataclass
class ReplayReport:
    """Counts and times (in seconds) of a replay; ``lateness`` of each frame only with statistics."""

    frames: int = 0
    bytes: int = 0
    seconds: float = 0.0
    worst_lateness: float = 0.0
    span: float = 0.0
    per_agent: Counter[int | None] = field(default_factory=Counter)
    lateness: array[float] = field(default_factory=lambda: array("d"))

    def as_json(self, *, statistics: bool = False) -> ReplayFigures:
        """One document; with ``statistics`` frames per agent and percentiles of the lateness too."""
        document: ReplayFigures = {
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

    def count(self, frame: Frame, late: float | None, *, statistics: bool) -> None:
        """Add a frame that was published ``late`` seconds after it was due."""
        self.frames += 1
        self.bytes += sum(map(len, frame.parts))
        if late is not None and late > self.worst_lateness:
            self.worst_lateness = late
        if statistics:
            self.per_agent[sender_of(frame)] += 1
            if late is not None:
                self.lateness.append(late)


@dataclass
class _Waiting:
    """Waits until each frame is due; reads keys and shows progress meanwhile."""

    pacer: Pacer
    keys: Callable[[float], KeyPress | None]
    tick: Callable[[], None]
    next_tick: float

    def for_turn(self) -> None:
        """Return when the current frame is to be sent."""
        while True:
            now = time.monotonic()
            if now >= self.next_tick:
                self.tick()
                self.next_tick = now + LOOK_SECONDS
                if self.pacer.rate is None and not self.pacer.paused:
                    self.pacer.press(self.keys(0.0), now)
            wait = self.pacer.wait(now)
            if wait == 0:
                return
            until_tick = max(0.0, self.next_tick - now)
            pressed = self.keys(until_tick if wait is None else min(wait, until_tick))
            if self.pacer.press(pressed, time.monotonic()):
                return


def replay(
    reader: TrafficLogReader,
    publish: Callable[[Frame], None],
    *,
    selection: Selection | None = None,
    rate: float | None = 1.0,
    loops: int = 1,
    statistics: bool = False,
    keys: Callable[[float], KeyPress | None] = no_keys,
    tick: Callable[[ReplayReport, bool], None] = lambda _report, _paused: None,
) -> ReplayReport:
    """Publish the frames that ``selection`` chooses.

    Parameters
    ----------
    reader
        The log.
    publish
        Sends one frame.
    selection
        Which frames; its ``start`` is where the time line begins. None: all frames.
    rate
        Speed relative to the recording; None is as fast as possible.
    loops
        Number of repetitions. Each begins where the one before it ended.
    statistics
        Whether the report has the lateness of every frame and the frames of every agent.
    keys
        Waits for a key for the given number of seconds.
    tick
        Called a few times a second with the report so far and whether the replay is paused.

    Raises
    ------
    ReplayError
        If ``rate`` or ``loops`` is out of range.
    SelectionError
        If ``selection`` names agents that the log does not have.
    """
    if rate is not None:
        check_rate(rate)
    if loops < 1:
        raise ReplayError(f"--loop {loops}: should be at least 1")
    selection = selection or Selection()
    selection.check(reader)
    report = ReplayReport()
    began = time.monotonic()
    pacer = Pacer(rate, began)
    waiting = _Waiting(pacer, keys, lambda: tick(report, pacer.paused), began)
    for _ in range(loops):
        for offset, frame in _on_time_line(reader, selection):
            report.span = max(report.span, offset)
            pacer.expect(offset)
            waiting.for_turn()
            late = pacer.lateness(time.monotonic())
            publish(frame)
            report.count(frame, late, statistics=statistics)
        pacer.begin_loop()
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


def plan(reader: TrafficLogReader, selection: Selection, rate: float | None, loops: int) -> ReplayPlan:
    """Describe what a replay would do, as one JSON document, without a socket and without waiting.

    Raises as `replay` does, for a rate or a selection that it does not accept.
    """
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
