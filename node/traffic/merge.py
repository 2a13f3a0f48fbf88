"""Several eavesdroppers' logs of one run as one log, on one time line.

Rules that hold here:
- Every frame and event is kept, at its own time plus the offset of its log (`node.traffic.offsets`). The order within
  each log stays.
- A frame that several eavesdroppers received is written once. A frame that one of them received n times is written n
  times: it was repeated.
- The checkpoints of each log become events of the new one, which has a chain of its own. A log whose own chain is
  broken is refused, because the new chain would hide it.
- The capture is judged over the new log, as over any other.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

from coordinator_free.release import Used
from node.traffic.attachments import counter_for, named_in
from node.traffic.completeness import CaptureCounter
from node.traffic.documents import Damaged, MergedLog, MergedPart
from node.traffic.format import (
    EVENTS,
    Checkpoint,
    Event,
    Frame,
    TrafficLogError,
    chain_next,
    chain_start,
    pack,
    packed,
)
from node.traffic.offsets import Bounds, Times, offsets_from
from node.traffic.reader import TrafficLogReader
from node.traffic.salvage import new_log
from node.traffic.selection import sender_of
from node.wire import Refused, decode_header

CHECKPOINT_EVENT: Final = "checkpoint"
"""The ``event`` of a source's checkpoint in the merged log."""

LATE_NS: Final = 100_000_000
"""A busy eavesdropper takes frames late. A release counts as out of order only beyond this."""

Item = Frame | Checkpoint | Event


@dataclass
class _Source:
    """One of the logs, and what the first pass found in it."""

    reader: TrafficLogReader
    number: int
    frames: int = 0
    chain: bytes = b""
    senders: set[int | None] = field(default_factory=set)
    damage: list[Damaged] = field(default_factory=list)


def merge_logs(paths: Sequence[Path], out: Path) -> MergedLog:
    """Write one log with the frames, events and checkpoints of several logs of one run; returns a JSON document.

    Raises
    ------
    TrafficLogError
        If there are fewer than two logs, a file is not a traffic log or not what was written, the logs are of different
        runs, or ``out`` exists.
    """
    if len({path.resolve() for path in paths}) < max(2, len(paths)):
        raise TrafficLogError(
            f"{len(paths)} logs to merge ({', '.join(map(str, paths))}); accepted are two or more, each named once"
        )
    if out.exists():
        raise TrafficLogError(f"{out} exists: a traffic log is never overwritten, name a new file")
    sources = [_Source(TrafficLogReader(path), number) for number, path in enumerate(paths)]
    described = next((s.reader for s in sources if named_in(s.reader)), sources[0].reader)
    times = Times()
    run: bytes | None = None
    for source in sources:
        run = _inspect(source, times, _counter(described, run))
    offsets = offsets_from(_bounds(sources, times, run), len(sources))
    copies = _Copies(_shared(sources))
    counter = _counter(described, run)
    out_of_order = 0
    with new_log(out, described.attachments, {"merged": _provenance(sources, offsets)}) as writer:
        for source, time_ns, item in _in_order(sources, offsets):
            if isinstance(item, Frame):
                if copies.is_new(source.number, sender_of(item), item.parts):
                    writer.write(item.parts, time_ns)
                    counter.count(item.parts)
                    out_of_order += _is_out_of_order(source, item, times, offsets, run)
            elif isinstance(item, Event):
                if copies.is_new(source.number, EVENTS, (pack(item.fields),)):
                    writer.event(item.fields, time_ns)
            else:
                fields = {"event": CHECKPOINT_EVENT, "log": source.number, "frames": item.frames, "chain": item.chain}
                writer.event(fields, time_ns)
        verdict = counter.verdict()
        judged = json.dumps({"capture": verdict.as_results(), "chain": writer.chain.hex()})
        writer.close({"capture": {"verdict": judged, "words": verdict.in_words()}})
    return {
        "log": str(out),
        "frames": writer.frames,
        "duplicates": copies.left_out,
        "out_of_order": out_of_order,
        "chain": writer.chain.hex(),
        "logs": [_described(source, offset) for source, offset in zip(sources, offsets, strict=True)],
        "capture": {**verdict.as_results(), "in_words": verdict.in_words()},
    }


def _counter(described: TrafficLogReader, run: bytes | None) -> CaptureCounter:
    """A counter of the run that a log's manifest names, or of ``run`` where there is no manifest."""
    return counter_for(described) if named_in(described) else CaptureCounter(run)


def _inspect(source: _Source, times: Times, counter: CaptureCounter) -> bytes | None:
    """The first pass over a log: check its chain and run, and note when releases were received; returns the run."""
    chain = chain_start(source.reader.attachments)
    sealed = 0
    for item in source.reader.items():
        if isinstance(item, Frame):
            chain = chain_next(chain, item.time_ns, packed(item.parts))
            source.frames += 1
            source.senders.add(sender_of(item))
            header = counter.count(item.parts)
            if header is not None and header["kind"] == "release":
                times.receive(source.number, item.time_ns, (header["from"], header["index"]))
        elif isinstance(item, Checkpoint):
            sealed = source.frames
            if (item.frames, item.chain) != (source.frames, chain):
                break
    else:
        source.chain = chain
    if source.frames != sealed or not source.chain:
        raise TrafficLogError(
            f"{source.reader.path} is not what was written: its chain breaks near frame {source.frames}, which a "
            "merged log would hide. `sottovoce log verify` shows where; `sottovoce log salvage` writes what is whole"
        )
    source.damage = source.reader.damage_as_json()
    verdict = counter.verdict()
    named = named_in(source.reader)
    own = None if named is None else named.run
    received = any(sender.bytes for sender in verdict.senders.values())
    if verdict.run is not None and (
        own not in (None, verdict.run.hex()) or (not received and verdict.refused.get("run"))
    ):
        raise TrafficLogError(
            f"{source.reader.path} is a log of another run than {verdict.run.hex()}; accepted are logs of one run"
        )
    return verdict.run


def _bounds(sources: Sequence[_Source], times: Times, run: bytes | None) -> Bounds:
    """The second pass: the bounds that what releases used puts on each pair of clocks."""
    found: dict[tuple[int, int], int] = {}
    for source in sources:
        for frame in source.reader:
            for other, least in times.used_before(source.number, frame.time_ns, _used(frame, run)):
                pair = other, source.number
                found[pair] = max(least, found.get(pair, least))
    return found


def _used(frame: Frame, run: bytes | None) -> Used:
    """What the release in a frame used; nothing for any other frame."""
    try:
        header = decode_header(frame.header)
    except Refused:
        return ()
    if header["kind"] != "release" or header["run"] != run:
        return ()
    flat = header["used"]
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _is_out_of_order(source: _Source, frame: Frame, times: Times, offsets: Sequence[int], run: bytes | None) -> bool:
    """Whether a release still comes well before one of another log that it used."""
    own = offsets[source.number]
    used = times.used_before(source.number, frame.time_ns, _used(frame, run))
    return any(least > own - offsets[other] + LATE_NS for other, least in used)


def _in_order(sources: Sequence[_Source], offsets: Sequence[int]) -> Iterator[tuple[_Source, int, Item]]:
    """All items of all logs by their new times; the order within each log stays."""
    lines = (_moved(source, offsets[source.number]) for source in sources)
    return heapq.merge(*lines, key=lambda line: line[1])


def _moved(source: _Source, offset: int) -> Iterator[tuple[_Source, int, Item]]:
    for item in source.reader.items():
        yield source, max(0, item.time_ns + offset), item


class _Copies:
    """Tells a frame that another log holds too from one that was sent again. ``left_out`` counts the former."""

    def __init__(self, shared: frozenset[object]) -> None:
        self._shared = shared
        self._written: Counter[bytes] = Counter()
        self._seen: Counter[tuple[int, bytes]] = Counter()
        self.left_out = 0

    def is_new(self, log: int, sender: object, parts: Sequence[bytes]) -> bool:
        """Whether no other log brought this frame as often as this log now does."""
        if sender not in self._shared:
            return True
        mark = blake2b(packed(parts), digest_size=16).digest()
        self._seen[log, mark] += 1
        if self._seen[log, mark] <= self._written[mark]:
            self.left_out += 1
            return False
        self._written[mark] += 1
        return True


def _shared(sources: Sequence[_Source]) -> frozenset[object]:
    """The senders of which more than one log holds frames, None for frames that name no agent."""
    logs = Counter(sender for source in sources for sender in source.senders)
    return frozenset([EVENTS, *(sender for sender, count in logs.items() if count > 1)])


def _provenance(sources: Sequence[_Source], offsets: Sequence[int]) -> str:
    """The logs of a merged log, for its metadata: with it, each can be found again and compared."""
    return json.dumps([_described(source, offset) for source, offset in zip(sources, offsets, strict=True)])


def _described(source: _Source, offset_ns: int) -> MergedPart:
    return {
        "log": Path(source.reader.path).name,
        "offset_ns": offset_ns,
        "frames": source.frames,
        "chain": source.chain.hex(),
        "damage": source.damage,
    }
