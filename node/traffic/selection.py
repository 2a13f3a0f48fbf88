"""A selection of a log's frames: by agent, time, round and number."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from coordinator_free.release import Release
from node.hello import Hello
from node.traffic.attachments import agents_of
from node.traffic.format import Frame
from node.traffic.reader import TrafficLogReader
from node.wire import Done, Refused, decode


class SelectionError(ValueError):
    """A selection that does not fit the log; one line."""


def sender_of(frame: Frame) -> int | None:
    """The agent that a frame's topic names; None if it names none."""
    return int.from_bytes(frame.topic[:4], "big") if len(frame.topic) == 8 else None


def _has_rounds(reader: TrafficLogReader) -> bool:
    """Whether the log's first release names a round; True for a log without releases."""
    for frame in reader:
        try:
            message = decode(frame.parts)
        except Refused:
            continue
        if isinstance(message, Release):
            return message.round is not None
    return True


@dataclass(frozen=True)
class Selection:
    """The frames of a log that satisfy every condition, in file order.

    Parameters
    ----------
    agents
        Only frames of these agents. None: of all, and frames that name no agent.
    excluded
        No frames of these agents.
    start
        Seconds from the log's first frame.
    duration
        Seconds from ``start``.
    rounds
        First and last round, both included. Applies to releases only.
    limit
        Largest number of frames.
    """

    agents: frozenset[int] | None = None
    excluded: frozenset[int] = frozenset()
    start: float = 0.0
    duration: float | None = None
    rounds: tuple[int, int] | None = None
    limit: int | None = None

    @classmethod
    def of(
        cls,
        agents: Collection[int] = (),
        excluded: Collection[int] = (),
        *,
        start: float = 0.0,
        duration: float | None = None,
        rounds: tuple[int, int] | None = None,
        limit: int | None = None,
    ) -> Selection:
        """Make a selection from values of a command line; raises `SelectionError` for one that is out of range."""
        if not (math.isfinite(start) and start >= 0):
            raise SelectionError(f"--start-offset {start:g}: should be at least 0 (seconds from the log's start)")
        if duration is not None and not duration > 0:
            raise SelectionError(f"--duration {duration:g}: should be above 0 (seconds)")
        if limit is not None and limit < 1:
            raise SelectionError(f"--limit {limit}: should be at least 1 (frames)")
        if rounds is not None and not 0 <= rounds[0] <= rounds[1]:
            raise SelectionError(f"--rounds {rounds[0]}-{rounds[1]}: should be FIRST-LAST with 0 <= FIRST <= LAST")
        return cls(frozenset(agents) or None, frozenset(excluded), start, duration, rounds, limit)

    def check(self, reader: TrafficLogReader) -> None:
        """Raise `SelectionError` for what the log does not have: an agent, rounds, any frame of this selection."""
        if self == Selection():
            return
        known = agents_of(reader)
        for agent in sorted((self.agents or frozenset()) | self.excluded):
            if known is not None and agent not in known:
                shown = f"{min(known)} to {max(known)}" if known else "none"
                raise SelectionError(f"agent {agent} is not in {reader.path}; its agents: {shown}")
        if self.rounds is not None and not _has_rounds(reader):
            raise SelectionError(
                f"--rounds {self.rounds[0]}-{self.rounds[1]}: the releases in {reader.path} have no rounds, because "
                "its algorithm is asynchronous; accepted are --start-offset and --duration"
            )
        if next(self.apply(reader), None) is None:
            times = [frame.time_ns for frame in reader]
            span = (max(times) - times[0]) * 1e-9 if times else 0.0
            raise SelectionError(
                f"no frame of {reader.path} is selected ({self.in_words()}); it has {len(times)} frames, the last "
                f"{span:.3f} s after the first"
            )

    def apply(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Yield the selected frames."""
        taken = 0
        first: int | None = None
        for frame in frames:
            if first is None:
                first = frame.time_ns
            # A clock that was set back gives later frames an earlier time: they belong to the log's start.
            since = max(0.0, (frame.time_ns - first) * 1e-9)
            if since < self.start or (self.duration is not None and since >= self.start + self.duration):
                continue
            sender = sender_of(frame)
            if (self.agents is not None and sender not in self.agents) or sender in self.excluded:
                continue
            if self.rounds is not None and not self._in_rounds(frame):
                continue
            yield frame
            taken += 1
            if taken == self.limit:
                return

    def _in_rounds(self, frame: Frame) -> bool:
        assert self.rounds is not None
        try:
            message = decode(frame.parts)
        except Refused:
            return False
        if isinstance(message, Hello | Done):
            return True
        return message.round is not None and self.rounds[0] <= message.round <= self.rounds[1]

    def in_words(self) -> str:
        """The selection in words, for the metadata of the new log."""
        words = []
        if self.agents is not None:
            words.append("agents " + ", ".join(map(str, sorted(self.agents))))
        if self.excluded:
            words.append("without agents " + ", ".join(map(str, sorted(self.excluded))))
        if self.start:
            words.append(f"from {self.start:g} s")
        if self.duration is not None:
            words.append(f"for {self.duration:g} s")
        if self.rounds is not None:
            words.append(f"rounds {self.rounds[0]} to {self.rounds[1]}")
        if self.limit is not None:
            words.append(f"at most {self.limit} frames")
        return "; ".join(words) or "everything"
