"""Network conditions over real sockets: a layer between an agent's socket and its checks.

Rules that hold here:
- The conditions are `coordinator_free.faults.conditions`, the same as in the twin; here in real time.
- A held frame is passed on when it is due; `due` is the time at which the agent has to be awake for it.
- Copies of a release are counted as they arrive. The first is copy 0; each copy is lost or delayed independently.
- ``done`` is lost and delayed like a release: it is repeated until it arrives. ``hello`` is not:
  conditions begin when all agents are ready. Only a partition loses it too.
- A frame that is not a message of this protocol is passed on; the receiver refuses and counts it.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable

from coordinator_free.faults.conditions import Conditions
from node.faults.partition import Partition
from node.folder.counted import LinkCounted
from node.wire import Parts, Refused, decode_header


class LinkCount:
    """What happened on one link, in releases: the receiver's view."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lost_first: list[int] = []
        """Indices whose first copy was lost by the conditions, in order of arrival."""
        self._passed: set[int] = set()
        self._newest = -1

    def lost(self, reason: str, index: int, copy: int) -> None:
        """Count a copy that was lost."""
        self.counts["dropped"] += 1
        self.counts[f"dropped_by_{reason}"] += 1
        if copy == 0 and reason != "partition":
            self.lost_first.append(index)

    def arrived(self, index: int) -> None:
        """Count a copy that was passed on to the receiver."""
        self.counts["passed"] += 1
        if index in self._passed:
            self.counts["repeats"] += 1
        elif index < self._newest:
            self.counts["late"] += 1
        self._passed.add(index)
        self._newest = max(self._newest, index)

    def counted(self) -> LinkCounted:
        """The counts so far."""
        return LinkCounted(dict(sorted(self.counts.items())), tuple(sorted(self.lost_first)))


class Shim:
    """The links into one agent.

    Parameters
    ----------
    conditions
        The conditions of all links of the run.
    receiver, senders
        The agent at the end of the links, and those at their beginnings.
    partition
        The run's partition, if its configuration has one.
    clock
        The time in seconds.
    """

    def __init__(
        self,
        conditions: Conditions,
        receiver: int,
        senders: Iterable[int],
        partition: Partition | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lines = {sender: conditions.line(sender, receiver) for sender in senders}
        self._receiver = receiver
        self._partition = partition
        self._clock = clock
        self._began = clock()
        self._copies: Counter[tuple[int, str, int]] = Counter()
        self._held: list[tuple[float, int, int, int | None, Parts]] = []
        self._order = itertools.count()
        self._links = {sender: LinkCount() for sender in self._lines}

    def pass_on(self, frames: Iterable[Parts]) -> list[Parts]:
        """The frames that reach the receiver now: held ones that are due, and those of ``frames`` that pass at once."""
        now = self._clock()
        passed: list[Parts] = []
        for parts in frames:
            kind, sender, index = self._read(parts)
            if sender not in self._lines:
                passed.append(parts)
            elif self._partition is not None and self._partition.cut(sender, self._receiver):
                if kind == "release":
                    self._links[sender].lost("partition", index, 0)
            elif kind == "hello":
                passed.append(parts)
            else:
                self._meet(parts, kind, sender, index, now)
        while self._held and self._held[0][0] <= now:
            _, _, sender, release, parts = heapq.heappop(self._held)
            if release is not None:
                self._links[sender].arrived(release)
            passed.append(parts)
        return passed

    @property
    def due(self) -> float | None:
        """When the next held frame has to be passed on, on the shim's clock; None if none is held."""
        return self._held[0][0] if self._held else None

    def counted(self) -> dict[str, LinkCounted]:
        """Counts by sender."""
        return {str(sender): link.counted() for sender, link in sorted(self._links.items())}

    def _meet(self, parts: Parts, kind: str, sender: int, index: int, now: float) -> None:
        key = (sender, kind, index)
        copy = self._copies[key]
        self._copies[key] += 1
        passage = self._lines[sender].pass_on(kind, index, copy, now - self._began, sum(map(len, parts)))
        release = index if kind == "release" else None
        if release is not None:
            if passage.lost is not None:
                self._links[sender].lost(passage.lost, index, copy)
            elif len(passage.delays) > 1:
                self._links[sender].counts["duplicated"] += 1
        for delay in passage.delays:
            heapq.heappush(self._held, (now + delay, next(self._order), sender, release, parts))

    @staticmethod
    def _read(parts: Parts) -> tuple[str, int, int]:
        """(kind, sender, index); sender -1 if it is not a message. The index of a ``done`` is its last index."""
        if len(parts) != 3:
            return "", -1, -1
        try:
            fields = decode_header(parts[1])
        except Refused:
            return "", -1, -1
        if fields["kind"] == "release":
            return "release", fields["from"], fields["index"]
        return fields["kind"], fields["from"], fields["last"] if fields["kind"] == "done" else 0
