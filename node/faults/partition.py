"""Which agents are cut off from which at this moment: one small file that all agents of a run map into memory.

Rules that hold here:
- The launcher writes it and agents read it: a frame between agents of different groups is lost.
- It ends by itself: an expired partition cuts nothing off, even where its launcher is gone.
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
    """The partition of the run in ``folder``; made with ``agents`` where it is not there yet."""

    def __init__(self, folder: Path, agents: int | None = None) -> None:
        path = folder / _FILE
        if agents is not None:
            path.write_bytes(bytes(_UNTIL.size + 2 * agents))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._groups = memoryview(self._map)[_UNTIL.size :].cast("H")

    @staticmethod
    def of(folder: Path) -> Partition | None:
        """The run's partition; None where its configuration has none."""
        return Partition(folder) if (folder / _FILE).exists() else None

    def divide(self, groups: Sequence[int], seconds: float) -> None:
        """From now, for ``seconds``: agent i is in group ``groups[i]`` (0 to 65535)."""
        self.heal()
        for agent, group in enumerate(groups):
            self._groups[agent] = group
        _UNTIL.pack_into(self._map, 0, time.monotonic_ns() + round(1e9 * seconds))

    def heal(self) -> None:
        _UNTIL.pack_into(self._map, 0, 0)

    def cut(self, sender: int, receiver: int) -> bool:
        """Whether a frame from one to the other is lost now."""
        if self._groups[sender] == self._groups[receiver]:
            return False
        until: int = _UNTIL.unpack_from(self._map, 0)[0]
        return time.monotonic_ns() < until

    def close(self) -> None:
        self._groups.release()
        self._map.close()
