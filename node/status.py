"""What a process shows of itself while it runs: one small memory-mapped file that it writes and others read.

Nothing in it depends on the values of the data; counts are of frames and charges.
"""

from __future__ import annotations

import mmap
import signal
import struct
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

LEAVE = signal.SIGUSR1
"""Tells an agent's process that it leaves the run."""

_FORMAT = struct.Struct("<6q")


class State(IntEnum):
    """How far an agent is."""

    STARTING = 0
    LISTENING = 1
    READY = 2
    SPOKEN = 3
    FINISHED = 4
    FAILED = 5


@dataclass(frozen=True)
class Status:
    """A moment of an agent: its state, process id, releases sent, releases received, indices charged, bytes sent."""

    state: State
    pid: int
    sent: int
    received: int
    charged: int
    bytes: int


class StatusFile:
    """The writing side; one `show` is one copy of 48 bytes."""

    def __init__(self, path: Path) -> None:
        with path.open("wb") as file:
            file.write(bytes(_FORMAT.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORMAT.size)

    def show(self, state: int, pid: int, sent: int, received: int, charged: int, size: int) -> None:
        _FORMAT.pack_into(self._map, 0, state, pid, sent, received, charged, size)

    def close(self) -> None:
        self._map.close()


def read_status(path: Path) -> Status | None:
    """What the process last showed; None where there is no status yet."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) != _FORMAT.size:
        return None
    state, *rest = _FORMAT.unpack(data)
    return Status(State(state), *rest)
