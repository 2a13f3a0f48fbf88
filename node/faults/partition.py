"""The present partition of a run: one small file that all its agents map into memory.

Rules that hold here:
- The launcher writes it and agents read it: a frame between agents of different groups is lost.
- It ends by itself: an expired partition separates no agents, even if its launcher is gone.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Sequence
from pathlib import Path

_UNTIL = struct.Struct("<q")
_FILE = "partition"


class Partition:
    """The partition of the run in ``folder``; with a number of ``agents``, its file is made anew."""

    def __init__(self, folder: Path, agents: int | None = None) -> None:
        path = folder / _FILE
        if agents is not None:
            path.write_bytes(bytes(_UNTIL.size + 2 * agents))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._groups = memoryview(self._map)[_UNTIL.size :].cast("H")

    @staticmethod
    def of(folder: Path) -> Partition | None:
        """The run's partition; None if its configuration has none."""
        return Partition(folder) if (folder / _FILE).exists() else None

    def divide(self, groups: Sequence[int], seconds: float) -> None:
        """From now on, for ``seconds``, put agent i into group ``groups[i]`` (0 to 65535)."""
        self.heal()
        for agent, group in enumerate(groups):
            self._groups[agent] = group
        _UNTIL.pack_into(self._map, 0, time.monotonic_ns() + round(1e9 * seconds))

    def heal(self) -> None:
        """End the partition."""
        _UNTIL.pack_into(self._map, 0, 0)

    def cut(self, sender: int, receiver: int) -> bool:
        """Whether a frame from one to the other is lost now."""
        if self._groups[sender] == self._groups[receiver]:
            return False
        until: int = _UNTIL.unpack_from(self._map, 0)[0]
        return time.monotonic_ns() < until

    def close(self) -> None:
        """Unmap the file."""
        self._groups.release()
        self._map.close()
