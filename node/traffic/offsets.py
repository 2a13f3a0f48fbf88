"""What to add to the times of several traffic logs, so that they tell one time.

Rules that hold here:
- A release comes after what it used. So each release in one log that used a release in another bounds how far apart
  the clocks of both eavesdroppers can be, and releases in both directions bound it from both sides.
- The clock of the first log stands. Another clock that contradicts nothing is left as it is; else it is moved into the
  middle of what the bounds leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

Bounds = Mapping[tuple[int, int], int]
"""(a, b): the least that the offset of log ``b`` can be above that of log ``a``, in ns."""
Key = tuple[int, int]
"""(agent, index) of a release."""


@dataclass
class Times:
    """When each log received each release, as far as that tells when it was released.

    A release that comes without the one before it may be a repeat, long after the release, of an agent that was
    started again. Only what comes in the order of the indices counts.
    """

    _received: dict[int, dict[Key, int]] = field(default_factory=dict)
    _holders: dict[int, set[int]] = field(default_factory=dict)
    """The logs that hold a release of each agent."""
    _newest: dict[tuple[int, int], int] = field(default_factory=dict)
    """The largest index of each agent in each log so far."""

    def receive(self, log: int, time_ns: int, key: Key) -> None:
        """Take in a release that ``log`` received at ``time_ns``."""
        agent, index = key
        newest = self._newest.get((log, agent), -1)
        if index > newest:
            self._newest[log, agent] = index
        if index == newest + 1:
            self._received.setdefault(log, {})[key] = time_ns
            self._holders.setdefault(agent, set()).add(log)

    def used_before(self, log: int, time_ns: int, used: Iterable[Key]) -> Iterator[tuple[int, int]]:
        """What a release that ``log`` received at ``time_ns`` used: another log, and by how many ns that log was later.

        A release is compared with every other log that holds what it used, and not with its own.
        """
        for key in used:
            for other in self._holders.get(key[0], ()):
                if other != log and (before := self._received[other].get(key)) is not None:
                    yield other, before - time_ns


def offsets_from(bounds: Bounds, logs: int) -> list[int]:
    """The offset of each of ``logs`` in ns, that of the first 0.

    Where no offsets satisfy all bounds (a clock was set, or an agent names what it cannot have used), each clock is put
    into the middle of what contradicts itself least.
    """
    closed = _closed(bounds, logs)
    offsets = [0]
    for log in range(1, logs):
        low = [offsets[a] + closed[a, log] for a in range(log) if (a, log) in closed]
        high = [offsets[a] - closed[log, a] for a in range(log) if (log, a) in closed]
        offsets.append(_chosen(max(low, default=None), min(high, default=None)))
    return offsets


def _chosen(low: int | None, high: int | None) -> int:
    """The offset between two bounds, each None where there is none."""
    if (low is None or low <= 0) and (high is None or high >= 0):
        return 0
    if low is None or high is None:
        known = high if low is None else low
        assert known is not None
        return known
    return (low + high) // 2


def _closed(bounds: Bounds, logs: int) -> Bounds:
    """The bounds, and those that follow from them through other logs; the same where they contradict each other."""
    found = dict(bounds)
    for by in range(logs):
        into = [(a, found[a, by]) for a in range(logs) if (a, by) in found]
        out = [(b, found[by, b]) for b in range(logs) if (by, b) in found]
        for a, first in into:
            for b, second in out:
                if first + second > found.get((a, b), first + second - 1):
                    found[a, b] = first + second
        if any(found.get((a, a), 0) > 0 for a in range(logs)):
            return bounds
    return found
