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

_FORMAT = struct.Struct("<7q")
_EAVESDROPPER = struct.Struct("<6q")
_OLD_EAVESDROPPER = struct.Struct("<5q")
"""From before there were receipts."""


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
    """A moment of an agent: its state, process id, releases sent, releases received, indices charged, bytes sent.

    ``ready_ns`` is the time at which it was ready, by the clock that all processes of a machine share; 0 before.
    """

    state: State
    pid: int
    sent: int
    received: int
    charged: int
    bytes: int
    ready_ns: int = 0


class StatusFile:
    """The writing side; one `show` is one copy of 56 bytes."""

    def __init__(self, path: Path) -> None:
        self._map = _mapped(path, _FORMAT)

    def show(self, state: int, pid: int, sent: int, received: int, charged: int, size: int, ready_ns: int = 0) -> None:
        """Write the counts of this moment."""
        _FORMAT.pack_into(self._map, 0, state, pid, sent, received, charged, size, ready_ns)

    def close(self) -> None:
        """Let go of the file; what was last shown stays."""
        self._map.close()


@dataclass(frozen=True)
class Overheard:
    """What the eavesdropper has received so far: distinct releases, frames, bytes, agents that are done.

    ``met`` counts the agents that it has been connected to, ``backwards`` those whose ledger went backwards.
    """

    releases: int
    frames: int
    bytes: int
    done: int
    met: int
    backwards: int = 0


class OverheardFile:
    """The eavesdropper's writing side."""

    def __init__(self, path: Path) -> None:
        self._map = _mapped(path, _EAVESDROPPER)

    def show(self, releases: int, frames: int, size: int, done: int, met: int, backwards: int) -> None:
        """Write the counts of this moment."""
        _EAVESDROPPER.pack_into(self._map, 0, releases, frames, size, done, met, backwards)

    def close(self) -> None:
        """Let go of the file; what was last shown stays."""
        self._map.close()


def read_overheard(path: Path) -> Overheard | None:
    """What a running eavesdropper last showed; None where there is nothing yet."""
    shown = _shown(path, _EAVESDROPPER) or _shown(path, _OLD_EAVESDROPPER)
    return None if shown is None else Overheard(*shown)


def read_status(path: Path) -> Status | None:
    """What the process last showed; None where there is no status yet."""
    shown = _shown(path, _FORMAT)
    if shown is None:
        return None
    state, *rest = shown
    return Status(State(state), *rest)


def _mapped(path: Path, layout: struct.Struct) -> mmap.mmap:
    path.write_bytes(bytes(layout.size))
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), layout.size)


def _shown(path: Path, layout: struct.Struct) -> tuple[int, ...] | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return layout.unpack(data) if len(data) == layout.size else None
