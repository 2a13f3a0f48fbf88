"""The frames of a log as columns of numbers, and a batch of them as the bytes that the page reads.

Rules that hold here:
- Every number of a row follows from the frames alone, so it is what the eavesdropper knows.
- No frame can raise, and nothing grows faster than the log itself.

A batch is four little-endian 32-bit numbers (`VERSION`, rows, number of the first row, 0) and then each column of
`COLUMNS`, one after another.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from coordinator_free.release import FloatArray
from node.traffic.completeness import CaptureCounter

VERSION: Final = 1
RELEASE, REPEAT, HELLO, DONE, REFUSED = range(5)
"""Kinds of frames."""
NOBODY: Final = 0xFFFFFFFF
"""In the place of a sender that the log does not name."""
COLUMNS: Final = (
    ("time", "<f8"),
    ("sender", "<u4"),
    ("release", "<u4"),
    ("recipient", "<i4"),
    ("round", "<i4"),
    ("size", "<u4"),
    ("age", "<f4"),
    ("change", "<f4"),
    ("kind", "<u4"),
)
"""Time in seconds since the first frame; index of the release, or last index of a `done`; -1 for no recipient and no
round; size in bytes; mean age of the models that were used, in releases; root mean square of the difference from the
sender's release before; kind."""
_HEAD = struct.Struct("<4I")
_LARGEST: Final = 0x7FFFFFFF
_NAN: Final = float("nan")


class Row(NamedTuple):
    """One frame in numbers: see `COLUMNS`."""

    time: float
    sender: int
    release: int
    recipient: int
    round: int
    size: int
    age: float
    change: float
    kind: int


def batch_of(rows: Sequence[Row], changes: FloatArray, first: int) -> bytes:
    """Rows as the bytes of one batch, with their ``changes``; ``first`` is the number of the first."""
    columns = dict(zip(Row._fields, zip(*rows, strict=True), strict=True)) | {"change": changes}
    head = _HEAD.pack(VERSION, len(rows), first, 0)
    with np.errstate(over="ignore"):
        return head + b"".join(np.array(columns[name]).astype(kind).tobytes() for name, kind in COLUMNS)


class Rows:
    """Makes rows of frames, in the order of the log.

    Parameters
    ----------
    counter
        Judges the capture, and tells what is a message of the run.
    """

    def __init__(self, counter: CaptureCounter) -> None:
        self._counter = counter
        self._newest: dict[int, int] = {}
        self._addressed: dict[tuple[int, int], int] = {}
        self._in_force: dict[int, dict[int, int]] = {}
        self._next: dict[int, int] = {}
        self._last: dict[int, bytes] = {}
        self.pairs: set[tuple[int, int]] = set()
        """Agents of which one used a release of the other, the smaller number first."""
        self.senders = 0
        """One more than the largest number of an agent that sent a message."""

    def row(self, time: float, parts: Sequence[bytes]) -> Row:
        """The row of a frame that was received ``time`` seconds after the first; `changes` finds its change."""
        size = sum(map(len, parts))
        before = self._counter.releases
        header = self._counter.count(parts)
        if header is None:
            topic = parts[0] if parts else b""
            sender = int.from_bytes(topic[:4]) if len(topic) == 8 else NOBODY
            return Row(time, sender, 0, -1, -1, size, _NAN, _NAN, REFUSED)
        sender = header["from"]
        self.senders = max(self.senders, sender + 1)
        if header["kind"] == "hello":
            return Row(time, sender, 0, -1, -1, size, _NAN, _NAN, HELLO)
        if header["kind"] == "done":
            return Row(time, sender, min(header["last"], _LARGEST) & NOBODY, -1, -1, size, _NAN, _NAN, DONE)
        index, recipient = min(header["index"], _LARGEST), header["to"]
        to, number = -1 if recipient is None else min(recipient, _LARGEST), header["round"]
        number = -1 if number is None else min(number, _LARGEST)
        if self._counter.releases == before:
            return Row(time, sender, index, to, number, size, _NAN, _NAN, REPEAT)
        return Row(time, sender, index, to, number, size, self._age(header), _NAN, RELEASE)

    def _age(self, header: Mapping[str, Any]) -> float:
        """The mean age of the models in force, as `coordinator_free.theory.staleness` defines it."""
        sender, index, used = header["from"], header["index"], header["used"]
        newest, in_force = self._newest, self._in_force.setdefault(sender, {})
        if index != self._next.get(sender, 0):
            in_force.clear()
        self._next[sender] = index + 1
        for j, k in zip(used[::2], used[1::2], strict=True):
            if j != sender and j in newest:
                if j not in in_force:
                    self.pairs.add((min(j, sender), max(j, sender)))
                in_force[j] = k
        addressed = self._addressed
        if addressed:
            ages = [max(0, max(newest[j], addressed.get((j, sender), -1)) - k) for j, k in in_force.items()]
        else:
            ages = [max(0, newest[j] - k) for j, k in in_force.items()]
        recipient = header["to"]
        if recipient is None:
            newest[sender] = max(index, newest.get(sender, -1))
        else:
            newest.setdefault(sender, -1)
            if recipient in newest:
                addressed[sender, recipient] = max(index, addressed.get((sender, recipient), -1))
        return sum(ages) / len(ages) if ages else _NAN

    def changes(self, rows: Sequence[Row], bodies: Sequence[bytes]) -> FloatArray:
        """How far each release of some ``rows`` is from its sender's one before: NaN where there is none of its length.

        One pass over all of them: an operation of numpy for each row would cost more than its header.
        """
        found = np.full(len(rows), _NAN)
        by_size: dict[int, list[int]] = {}
        for place, (row, body) in enumerate(zip(rows, bodies, strict=True)):
            if row.kind == RELEASE and body and len(body) % 8 == 0:
                by_size.setdefault(len(body), []).append(place)
        for size, places in by_size.items():
            vectors = np.frombuffer(b"".join(bodies[place] for place in places), dtype="<f8").reshape(len(places), -1)
            before = np.full_like(vectors, _NAN)
            last: dict[int, int] = {}
            for at, place in enumerate(places):
                sender = rows[place].sender
                known = last.get(sender)
                if known is not None:
                    before[at] = vectors[known]
                elif len(earlier := self._last.get(sender, b"")) == size:
                    before[at] = np.frombuffer(earlier, dtype="<f8")
                last[sender] = at
            for sender, at in last.items():
                self._last[sender] = bodies[places[at]]
            with np.errstate(all="ignore"):  # a hostile frame may hold any number
                found[places] = np.sqrt(np.mean((vectors - before) ** 2, axis=1))
        return found
