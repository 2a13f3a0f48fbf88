"""The traffic log's format: what a file holds, and how a frame lies in it.

Rules that hold here:
- The log adds nothing to a frame but the time at which the eavesdropper received it.
- A SHA-256 chain runs over the frames; each chunk ends with a checkpoint of it.

The file is an MCAP file. The MCAP library's record classes write and read everything but messages. Messages are packed
in `node.traffic.writer`, because the library's writer takes 9 to 14 microseconds for each, which is all the time that
an eavesdropper has for a release (`benchmarks/log.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple

import msgpack
from mcap.data_stream import RecordBuilder
from mcap.records import McapRecord

from node.untyped import Json

VERSION: Final = 1
PROFILE: Final = "sottovoce-traffic/"
ENCODING: Final = "msgpack"
CHECKPOINTS: Final = "/checkpoints"
EVENTS: Final = "/events"
OTHER: Final = "/other"
"""Channel of the frames whose topic names no agent."""

NUMBERS: Final = {CHECKPOINTS: 1, EVENTS: 2, OTHER: 3}
"""Fixed, so that a reader can distinguish frames from other messages even if the chunk with the names is damaged."""
FIRST_AGENT: Final = 4

RECORD_LIMIT: Final = 256 << 20
"""No record of a log is longer, in bytes: a frame's three parts are at most 64 MiB each."""

AGENTS: Final = "/agents/agent-"
MAGIC: Final = b"\x89MCAP0\r\n"
PREFIX = struct.Struct("<BQ")
MESSAGE = struct.Struct("<BQHIQQ")
TIME = struct.Struct("<Q")
_SENDER = struct.Struct(">I")
pack = msgpack.Packer(use_bin_type=True, autoreset=True).pack


class TrafficLogError(ValueError):
    """The file is not a traffic log, has another version, or cannot be written."""


class Frame(NamedTuple):
    """One message as the eavesdropper received it, with the eavesdropper's time (ns since 1970).

    A frame with more or fewer than three parts has all of them in ``odd``, and empty bytes elsewhere.
    """

    time_ns: int
    topic: bytes
    header: bytes
    body: bytes
    odd: tuple[bytes, ...] | None = None

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts as received."""
        return (self.topic, self.header, self.body) if self.odd is None else self.odd


class Checkpoint(NamedTuple):
    """The chain after ``frames`` frames, at the eavesdropper's time."""

    time_ns: int
    frames: int
    chain: bytes


class Event(NamedTuple):
    """An event of the run that is not a frame, such as a fault that was injected."""

    time_ns: int
    fields: Json


class Summary(NamedTuple):
    """First and last time (ns), number of frames, and agents, from the summary of a closed log."""

    first_ns: int
    last_ns: int
    frames: int
    agents: tuple[int, ...]


class Damage(NamedTuple):
    """A part of a file that cannot be read: its first byte, its size in bytes, and the consequence in words."""

    offset: int
    size: int
    meaning: str


def chain_start(attachments: Mapping[str, bytes]) -> bytes:
    """The chain before the first frame: a digest of the log's version and attachments."""
    return sha256(pack(["sottovoce traffic log", VERSION, sorted(attachments.items())])).digest()


def packed(parts: Sequence[bytes]) -> bytes:
    """Parts of a frame as the log stores them: a msgpack list of byte strings."""
    data: bytes = pack(list(parts))
    return data


def chain_next(chain: bytes, time_ns: int, data: bytes) -> bytes:
    """The chain after a frame whose parts the log stores as ``data``; `packed` keeps the parts' lengths distinct."""
    return sha256(chain + TIME.pack(time_ns) + data).digest()


def channel_name(first: bytes) -> str:
    """The channel of a frame, from the first four bytes of its topic (the sender's number)."""
    return f"{AGENTS}{_SENDER.unpack(first)[0]:04d}" if len(first) == 4 else OTHER


def frame_of(time_ns: int, parts: list[Any]) -> Frame:
    """A frame from the parts that the log stores; raises ValueError if they are not bytes."""
    if len(parts) == 3:
        first, second, third = parts
        if type(first) is type(second) is type(third) is bytes:
            return Frame(time_ns, first, second, third)
    elif all(type(part) is bytes for part in parts):
        return Frame(time_ns, b"", b"", b"", tuple(parts))
    raise ValueError("parts are not bytes")


def bytes_of(*records: McapRecord) -> bytes:
    """MCAP records as the bytes of a file."""
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    data: bytes = builder.end()  # type: ignore[no-untyped-call]
    return data
