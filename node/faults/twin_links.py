"""Network conditions in the twin: the same links as over sockets, in virtual time.

Rules that hold here:
- First copies only: over sockets the sender repeats a lost release, and the twin goes on as if the repeat had arrived.
  In rounds that changes no value; an asynchronous agent repeats its last release alone, and so does the twin.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_free.faults.conditions import Conditions, Line
from coordinator_free.release import Release
from node.faults.links import LinkCount
from node.faults.outages import Outage, cut
from node.folder.counted import LinkCounted


class TwinLinks:
    """All links of one run in the twin. ``size`` of a frame is in bytes, ``now`` in virtual seconds."""

    def __init__(self, conditions: Conditions, partitions: Sequence[Outage] = ()) -> None:
        self._conditions = conditions
        self._partitions = partitions
        self._lines: dict[tuple[int, int], tuple[Line, LinkCount]] = {}

    def meet(self, release: Release, receiver: int, now: float, size: int) -> float | None:
        """How long the first copy of ``release`` takes to ``receiver``; None if it is lost."""
        ends = (release.sender, receiver)
        if ends not in self._lines:
            self._lines[ends] = (self._conditions.line(*ends), LinkCount())
        line, link = self._lines[ends]
        if cut(self._partitions, *ends, now):
            link.lost("partition", release.index, 0)
            return None
        passage = line.pass_on("release", release.index, 0, now, size)
        if passage.lost is not None:
            link.lost(passage.lost, release.index, 0)
            return None
        if len(passage.delays) > 1:
            link.counts["duplicated"] += 1
        link.counts["passed"] += 1
        return min(passage.delays)

    def of(self, receiver: int) -> dict[str, LinkCounted]:
        """Counts of the links into ``receiver``, by sender."""
        return {str(j): link.counted() for (j, i), (_, link) in sorted(self._lines.items()) if i == receiver}
