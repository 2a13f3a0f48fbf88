"""An agent's own record of what it sent: every frame, written before it was sent. Never broadcast.

Rules that hold here:
- A record is a length, a checksum and a msgpack list [own clock in ns, topic, header, body].
- The file is mode 0600 and only grows. A torn last record is passed over: its release was charged, and is not repeated.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack

from node.wire import Parts

_HEAD = struct.Struct("<II")
_pack = msgpack.Packer(use_bin_type=True).pack


class Journal:
    """Appends frames. One system call each, no fsync: a crash of the process loses nothing, one of the machine may."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        whole = _whole_length(path)
        if whole < os.fstat(self._file).st_size:
            os.ftruncate(self._file, whole)

    def write(self, time_ns: int, parts: Parts) -> None:
        """Append a release's three parts and the time at which they were noted (ns)."""
        payload = _pack([time_ns, *parts])
        head = _HEAD.pack(len(payload), zlib.crc32(payload))
        if os.writev(self._file, (head, payload)) != len(head) + len(payload):
            raise OSError(28, "the journal could not be written whole")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_journal(path: Path) -> Iterator[tuple[int, tuple[bytes, bytes, bytes]]]:
    """(own clock in ns, parts) of each whole record."""
    for _, time_ns, parts in _records(path):
        yield time_ns, parts


def _whole_length(path: Path) -> int:
    return max((end for end, _, _ in _records(path)), default=0)


def _records(path: Path) -> Iterator[tuple[int, int, tuple[bytes, bytes, bytes]]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        payload = data[at + _HEAD.size : at + _HEAD.size + length]
        if len(payload) < length or zlib.crc32(payload) != checksum:
            return
        at += _HEAD.size + length
        time_ns, *parts = msgpack.unpackb(payload, raw=False)
        yield at, time_ns, (parts[0], parts[1], parts[2])
