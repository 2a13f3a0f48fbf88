"""Whether a log holds every release of a run, decided from the frames alone.

Rules that hold here:
- A release's index proves that it was received; an agent's `done` names which indices there are. A capture is complete
  when every expected agent's `done` and every index it names are here.
- One index with the same bytes again is a repeat. One index with other bytes is a finding: its noise was drawn twice,
  or another sender uses its name.
- A hello that names a receipt which no ledger can have beside an earlier one of the same agent is a finding: that
  agent's ledger went backwards. A hello is not signed here, so an agent that lies about another makes one too.
- A frame that is not a message of the run is counted by reason, and never raises.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from node.traffic.documents import CaptureFigures
from node.wire import Header, Refused, decode_header, index_after, release_head, topic

Ranges = tuple[tuple[int, int | None], ...]
"""First and last index of each range, both included. The last is None while no `done` was received."""

_WIDEST_GAP: Final = 1 << 16
_MOST_STARTS: Final = 64
"""Starts of one agent whose charges are remembered."""
_WORD: Final = (1 << 64) - 1


@dataclass(frozen=True)
class SenderCapture:
    """The frames received from one agent. ``last`` is None until its `done` is here, and -1 if it released nothing."""

    releases: int
    repeats: int
    bytes: int
    last: int | None
    skipped: int
    missing: Ranges


@dataclass(frozen=True)
class Capture:
    """What was received of a run, and whether it is complete."""

    complete: bool
    releases: int
    """Distinct (agent, index) pairs."""
    missing: dict[int, Ranges]
    """Indices that were not received, by agent."""
    repeats: int
    """Frames that repeat a release with the same bytes."""
    redrawn: tuple[tuple[int, int], ...]
    """(agent, index) pairs that came with different bytes."""
    backwards: tuple[int, ...]
    """Agents whose ledger went backwards: it is an old copy, and forgets charges."""
    refused: dict[str, int]
    """Frames that are not a message of the run, by reason."""
    silent: tuple[int, ...]
    """Agents from which nothing was received."""
    run: bytes | None
    """The run's 16-byte id; None if no message was received."""
    frames: int
    senders: dict[int, SenderCapture]

    def as_results(self) -> CaptureFigures:
        """The ``capture`` of results.json: missing indices by agent, as [first, last]; an unknown last is null."""
        return {
            "complete": self.complete,
            "releases": self.releases,
            "missing": {str(agent): [list(pair) for pair in ranges] for agent, ranges in self.missing.items()},
            "repeats": self.repeats,
        }

    def in_words(self, most: int = 5) -> str:
        """One line: complete, or the missing indices of the first ``most`` agents."""
        if self.complete:
            return f"complete: {self.releases} releases of {len(self.senders)} agents"
        if not self.missing:
            return "incomplete: no frame of an agent was received"
        lines = [f"agent {a}: {in_words(r)}" for a, r in list(self.missing.items())[:most]]
        more = f"; and {len(self.missing) - most} more agents" if len(self.missing) > most else ""
        return "incomplete, missing " + "; ".join(lines) + more


def in_words(ranges: Ranges) -> str:
    """Ranges of indices as text: ``3-5, 9, from 12 on``."""
    return ", ".join(
        f"from {first} on" if last is None else str(first) if first == last else f"{first}-{last}"
        for first, last in ranges
    )


@dataclass(slots=True)
class _Sender:
    """Indices received from one agent, each with a fingerprint of its bytes (0: not received)."""

    topic: bytes
    """The topic of its frames to all neighbours."""
    marks: array[int] = field(default_factory=lambda: array("Q"))
    far: dict[int, int] = field(default_factory=dict)
    releases: int = 0
    repeats: int = 0
    bytes: int = 0
    last: int | None = None
    skipped: frozenset[int] = frozenset()
    lacking: int = -1
    """How many indices up to ``last`` are missing; -1 while ``last`` is not known."""
    charged: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The fewest and the most charges that were named, by the number of starts that was named with them."""

    def goes_back(self, starts: int, charged: int) -> bool:
        """Note a receipt; True where it cannot be of a ledger that only grew.

        Receipts of one start arrive in order. One of an earlier start may be late, over a connection of its own.
        """
        back = any(
            most > charged if other <= starts else charged > fewest for other, (fewest, most) in self.charged.items()
        )
        fewest, most = self.charged.get(starts, (charged, charged))
        if starts in self.charged or len(self.charged) < _MOST_STARTS:
            self.charged[starts] = min(fewest, charged), max(most, charged)
        return back

    def mark(self, index: int, fingerprint: int) -> int:
        """Store the fingerprint of an index; returns the one it had before, 0 if it is new."""
        marks = self.marks
        gap = index - len(marks)
        if gap >= _WIDEST_GAP or index in self.far:
            return self._mark_far(index, fingerprint)
        if gap >= 0:
            marks.extend([0] * gap)
            marks.append(fingerprint)
            return 0
        before = marks[index]
        if before == 0:
            marks[index] = fingerprint
        return before

    def _mark_far(self, index: int, fingerprint: int) -> int:
        before = self.far.get(index, 0)
        if before == 0:
            self.far[index] = fingerprint
        return before

    def missing(self) -> Ranges:
        """Indices that the agent used and that were not received."""
        end = 1 + max((len(self.marks) - 1, *self.far), default=-1) if self.last is None else self.last + 1
        ranges: list[tuple[int, int | None]] = []
        at = 0
        for index in self._known(end):
            if index > at:
                ranges.append((at, index - 1))
            at = index + 1
        if at < end:
            ranges.append((at, end - 1))
        return tuple(ranges) if self.last is not None else (*ranges, (end, None))

    def _known(self, end: int) -> Iterator[int]:
        """Indices below ``end`` that were received or skipped, ascending."""
        near = len(self.marks)
        beyond = {k for k in self.far if k >= near} | {k for k in self.skipped if k >= near}
        for k in range(min(near, end)):
            if self.marks[k] or k in self.far or k in self.skipped:
                yield k
        yield from sorted(k for k in beyond if k < end)


class CaptureCounter:
    """Counts frames one by one, and judges at any time whether the capture is complete.

    Parameters
    ----------
    run
        The run's 16-byte id. None: the id of the first message.
    agents
        The agents whose releases must all be received. None: the agents from which anything was received.
    """

    def __init__(self, run: bytes | None = None, agents: Iterable[int] | None = None) -> None:
        self._run = run
        self._agents = None if agents is None else frozenset(agents)
        self._senders: dict[int, _Sender] = {a: _Sender(topic(a)) for a in sorted(self._agents or ())}
        self._redrawn: dict[tuple[int, int], None] = {}
        self._heads: dict[bytes, tuple[int, _Sender, bytes]] = {}
        if run is not None:
            self._heads = {s.topic: (a, s, release_head(run, a, None)) for a, s in self._senders.items()}
        self.backwards: set[int] = set()
        self.refused: Counter[str] = Counter()
        self.frames = 0
        self.bytes = 0
        self.releases = 0
        self.repeats = 0
        self.done = 0
        self._complete = 0

    def count(self, parts: Sequence[bytes]) -> Header | None:
        """Count a frame.

        Returns
        -------
        Header or None
            The header's fields for `node.wire.message`; None if the frame is not a message of the run. Readers that
            need the message itself decode it: for the eavesdropper that would be half as much work again.
        """
        self.frames += 1
        try:
            return self._count(parts)
        except Refused as refused:
            self.refused[refused.reason] += 1
            return None

    def tally(self, parts: Sequence[bytes]) -> str | None:
        """Count a frame as `count` does, and return its kind alone: of most releases, for half of the time."""
        known = self._heads.get(parts[0]) if len(parts) == 3 else None
        if known is not None:
            number, sender, head = known
            header, body = parts[1], parts[2]
            index = index_after(header, len(head)) if header.startswith(head) else None
            if index is not None:
                size = len(parts[0]) + len(header) + len(body)
                self.frames += 1
                self.bytes += size
                sender.bytes += size
                self._count_release(sender, number, index, parts)
                return "release"
        fields = self.count(parts)
        return None if fields is None else str(fields["kind"])

    def _count(self, parts: Sequence[bytes]) -> Header:
        if len(parts) != 3:
            self.bytes += sum(map(len, parts))
            raise Refused("parts")
        size = len(parts[0]) + len(parts[1]) + len(parts[2])
        self.bytes += size
        header = decode_header(parts[1])
        number, recipient = header["from"], header["to"]
        sender = self._senders.get(number)
        name = sender.topic if sender is not None and recipient is None else topic(number, recipient)
        if parts[0] != name:
            raise Refused("topic")
        if self._run is None:
            self._run = header["run"]
        elif header["run"] != self._run:
            raise Refused("run")
        if sender is None:
            if self._agents is not None:
                raise Refused("sender")
            sender = self._senders[number] = _Sender(topic(number))
            self._heads[sender.topic] = (number, sender, release_head(header["run"], number, None))
        sender.bytes += size
        if header["kind"] == "release":
            self._count_release(sender, number, header["index"], parts)
        elif header["kind"] == "done":
            self._count_done(sender, header["last"], header["skipped"])
        elif (receipt := header.get("receipt")) is not None and sender.goes_back(receipt[0], receipt[1]):
            self.backwards.add(number)
        return header

    def _count_release(self, sender: _Sender, number: int, index: int, parts: Sequence[bytes]) -> None:
        # Python's keyed hash: a hostile sender cannot make two releases look alike.
        fingerprint = (hash(parts[1]) ^ hash(parts[2])) & _WORD or 1
        before = sender.mark(index, fingerprint)
        if before == 0:
            sender.releases += 1
            self.releases += 1
            if sender.last is not None and index <= sender.last and index not in sender.skipped:
                sender.lacking -= 1
                self._complete += sender.lacking == 0
        elif before == fingerprint:
            sender.repeats += 1
            self.repeats += 1
        else:
            self._redrawn[number, index] = None

    def _count_done(self, sender: _Sender, last: int, skipped: list[int]) -> None:
        if sender.last is None:
            self.done += 1
        elif sender.last == last and sender.skipped == frozenset(skipped):
            return
        self._complete -= sender.lacking == 0
        sender.last, sender.skipped = last, frozenset(skipped)
        sender.lacking = sum((end or first) - first + 1 for first, end in sender.missing())
        self._complete += sender.lacking == 0

    @property
    def complete(self) -> bool:
        """Whether every agent's `done` and every index that it names are here; False without agents."""
        return 0 < self._complete == len(self._senders)

    def verdict(self) -> Capture:
        """The capture that the frames so far make."""
        senders = {
            a: SenderCapture(s.releases, s.repeats, s.bytes, s.last, len(s.skipped), s.missing())
            for a, s in sorted(self._senders.items())
        }
        return Capture(
            complete=self.complete,
            releases=self.releases,
            missing={a: s.missing for a, s in senders.items() if s.missing},
            repeats=self.repeats,
            redrawn=tuple(sorted(self._redrawn)),
            backwards=tuple(sorted(self.backwards)),
            refused=dict(sorted(self.refused.items())),
            silent=tuple(a for a, s in senders.items() if s.bytes == 0),
            run=self._run,
            frames=self.frames,
            senders=senders,
        )


def judge(frames: Iterable[Sequence[bytes]], run: bytes | None = None, agents: Iterable[int] | None = None) -> Capture:
    """The capture that frames make, given as parts: ``(frame.parts for frame in TrafficLogReader(path))``."""
    counter = CaptureCounter(run, agents)
    for parts in frames:
        counter.count(parts)
    return counter.verdict()
