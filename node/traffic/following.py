"""Reads a traffic log while it grows: each look gives the chunks that are new since the last one.

Rules that hold here:
- A chunk is given once it is whole. What is not there yet is waited for, and never taken for damage.
- A chunk that cannot be opened is counted and passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from mcap.data_stream import ReadDataStream
from mcap.opcode import Opcode
from mcap.records import Channel

from node.traffic.chunks import ChunkError, messages_of_chunk
from node.traffic.format import CHECKPOINTS, EVENTS, MESSAGE, NUMBERS, PREFIX, RECORD_LIMIT

_FIRST = 8
"""Bytes before the first record."""


class Held(NamedTuple):
    """A message of a chunk: the eavesdropper's time (ns), its place in the chunk's content, and whether it is an event.

    Checkpoints are left out.
    """

    time_ns: int
    start: int
    end: int
    event: bool


class LogFollower:
    """Follows the log at ``path``, which has been opened as a traffic log before.

    Attributes
    ----------
    closed
        Whether the log was closed by its writer.
    damaged
        Chunks that could not be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.closed = False
        self.damaged = 0
        self._at = _FIRST
        self._channels = {number: name for name, number in NUMBERS.items()}

    def next_chunk(self) -> tuple[int, bytes] | None:
        """Return the offset and the content of the next whole chunk; None if there is none yet."""
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            while not self.closed:
                file.seek(self._at)
                prefix = file.read(PREFIX.size)
                if len(prefix) < PREFIX.size:
                    return None
                opcode, length = PREFIX.unpack(prefix)
                after = self._at + PREFIX.size + length
                if length > RECORD_LIMIT or after > size:
                    return None
                offset, self._at = self._at, after
                if opcode == Opcode.DATA_END:
                    self.closed = True
                elif opcode == Opcode.CHUNK:
                    try:
                        return offset, messages_of_chunk(file.read(length))
                    except ChunkError:
                        self.damaged += 1
        return None

    def messages(self, content: bytes) -> Iterator[Held]:
        """Yield the frames and events of a chunk's ``content``, in order."""
        at, end = 0, len(content)
        while at + PREFIX.size <= end:
            opcode, length = PREFIX.unpack_from(content, at)
            after = at + PREFIX.size + length
            if after > end:
                self.damaged += 1
                return
            if opcode == Opcode.MESSAGE and length >= MESSAGE.size - PREFIX.size:
                _, _, channel, _, time_ns, _ = MESSAGE.unpack_from(content, at)
                name = self._channels.get(channel)
                if name != CHECKPOINTS:
                    yield Held(time_ns, at + MESSAGE.size, after, name == EVENTS)
            elif opcode == Opcode.CHANNEL:
                self._learn(content[at + PREFIX.size : after])
            at = after

    def _learn(self, data: bytes) -> None:
        try:
            record = Channel.read(ReadDataStream(BytesIO(data)))
        except Exception:  # a damaged name hides no frame
            return
        self._channels[record.id] = record.topic


def chunk_at(path: Path, offset: int) -> bytes:
    """Read the content of the chunk at ``offset`` of a log again; raises `ChunkError` where there is none."""
    with path.open("rb") as file:
        file.seek(offset)
        prefix = file.read(PREFIX.size)
        opcode, length = PREFIX.unpack(prefix) if len(prefix) == PREFIX.size else (0, 0)
        if opcode != Opcode.CHUNK or length > RECORD_LIMIT:
            raise ChunkError("there is no chunk any more")
        return messages_of_chunk(file.read(length))
