"""Follows the logs of what is shown, and keeps the batches of rows that pages read.

Rules that hold here:
- One thread at a time calls `look`. Pages read `batches`, which only grows.
- Frames are not kept. Each row remembers where its frame lies, and the frame is read again when it is asked for.
"""

from __future__ import annotations

import json
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from node.traffic.following import LogFollower, chunk_at
from node.traffic.format import TrafficLogError
from node.traffic.reader import TrafficLogReader
from node.view.columns import Row, Rows, batch_of
from node.view.subject import Subject

_MOST_ROWS = 20_000
"""Rows of one batch."""
_MOST_EVENTS = 10_000
"""Events that pages are told of."""


@dataclass(frozen=True)
class Capture:
    """What the logs hold by now."""

    complete: bool
    words: str
    frames: int
    repeats: int
    refused: dict[str, int]
    closed: bool
    """Whether all logs were closed by their writer."""
    damaged: int
    """Chunks that could not be opened."""


class Feed:
    """The rows of a subject's logs so far.

    Attributes
    ----------
    batches
        The rows, in the form of `node.view.columns.batch_of`.
    events
        Faults and other events that the logs hold, each with its ``time`` in seconds since the first frame.
    """

    def __init__(self, subject: Subject) -> None:
        self.batches: list[bytes] = []
        self.events: list[dict[str, Any]] = []
        self.rows = 0
        self._subject = subject
        self._counter = subject.counter()
        self._rows = Rows(self._counter)
        self._followers: list[LogFollower] = []
        self._opened = 0
        self._began: int | None = None
        self._files, self._chunks = array("H"), array("Q")
        self._starts, self._ends = array("I"), array("I")

    def look(self) -> bool:
        """Read one chunk that is new; returns whether there was one."""
        self._open_logs()
        for number, follower in enumerate(self._followers):
            found = follower.next_chunk()
            if found is not None:
                self._take(number, follower, *found)
                return True
        return False

    @property
    def inferred(self) -> frozenset[tuple[int, int]]:
        """Edges that the releases tell of: one of the two agents used a release of the other."""
        return frozenset(self._rows.pairs)

    @property
    def senders(self) -> int:
        """One more than the largest number of an agent that sent a message."""
        return self._rows.senders

    def capture(self) -> Capture:
        """Judge what the logs hold by now."""
        verdict = self._counter.verdict()
        return Capture(
            complete=verdict.complete,
            words=verdict.in_words(most=3),
            frames=verdict.frames,
            repeats=verdict.repeats,
            refused=dict(verdict.refused),
            closed=bool(self._followers) and all(follower.closed for follower in self._followers),
            damaged=sum(follower.damaged for follower in self._followers),
        )

    def frame(self, row: int) -> tuple[bytes, ...]:
        """Read the parts of the frame of a row again.

        Raises
        ------
        LookupError
            If there is no such row.
        ValueError, OSError
            If the log has changed since.
        """
        if not 0 <= row < self.rows:
            raise LookupError(f"row {row}: there are {self.rows}")
        path = self._followers[self._files[row]].path
        content = chunk_at(path, self._chunks[row])
        return tuple(bytes(part) for part in msgpack.unpackb(content[self._starts[row] : self._ends[row]]))

    def _open_logs(self) -> None:
        """Begin with the logs that are new; one that another program is beginning to write is tried again."""
        for path in self._subject.logs()[self._opened :]:
            if not _begun(path):
                return
            self._followers.append(LogFollower(path))
            self._opened += 1

    def _take(self, number: int, follower: LogFollower, offset: int, content: bytes) -> None:
        rows: list[Row] = []
        bodies: list[bytes] = []
        for time_ns, start, end, event in follower.messages(content):
            try:
                held = msgpack.unpackb(content[start:end])
            except Exception:  # msgpack raises many kinds; what cannot be read is no frame
                follower.damaged += 1
                continue
            if event:
                self._note(time_ns, held)
                continue
            if not isinstance(held, list) or not all(type(part) is bytes for part in held):
                follower.damaged += 1
                continue
            if self._began is None:
                self._began = time_ns
            rows.append(self._rows.row((time_ns - self._began) / 1e9, held))
            bodies.append(held[2] if len(held) == 3 else b"")
            self._files.append(number)
            self._chunks.append(offset)
            self._starts.append(start)
            self._ends.append(end)
        changes = self._rows.changes(rows, bodies)
        for first in range(0, len(rows), _MOST_ROWS):
            piece = slice(first, first + _MOST_ROWS)
            self.batches.append(batch_of(rows[piece], changes[piece], self.rows))
            self.rows += len(rows[piece])

    def _note(self, time_ns: int, held: Any) -> None:
        if not isinstance(held, dict) or len(self.events) >= _MOST_EVENTS:
            return
        try:
            fields = json.loads(json.dumps(held, allow_nan=False))
        except (TypeError, ValueError):
            return
        began = time_ns if self._began is None else self._began
        self.events.append({**fields, "time": (time_ns - began) / 1e9})


def _begun(path: Path) -> bool:
    try:
        TrafficLogReader(path)
    except TrafficLogError:
        return False
    return True
