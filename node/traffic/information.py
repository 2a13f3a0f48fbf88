"""What can be done with a traffic log: describe it, choose from it, save what is whole, check it.

Rules that hold here:
- Frames pass through one at a time; no log has to fit into memory.
- Nothing here needs anything but the log.
"""

from __future__ import annotations

import base64
import csv
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from node.traffic.completeness import Capture, CaptureCounter
from node.traffic.reader import (
    Checkpoint,
    Event,
    Frame,
    TrafficLogReader,
    TrafficLogWriter,
    chain_next,
    chain_start,
    packed,
)
from node.wire import Done, Hello, Refused, decode

Row = dict[str, Any]

COLUMNS = (
    "time_ns",
    "from",
    "to",
    "kind",
    "index",
    "round",
    "used",
    "last",
    "skipped",
    "heard",
    "digest",
    "bytes",
    "refused",
    "vector",
)
"""Columns of `rows`, in this order."""


class SelectionError(ValueError):
    """A selection that the log cannot have; one line."""


def sender_of(frame: Frame) -> int | None:
    """The agent that the topic names, None if it names none."""
    return int.from_bytes(frame.topic[:4], "big") if len(frame.topic) == 8 else None


@dataclass(frozen=True)
class Selection:
    """Which frames of a log are meant: all that satisfy every condition, in file order.

    ``start`` and ``duration`` are in seconds from the log's first frame; ``rounds`` is (first, last), both included,
    and chooses among releases only. Frames that name no agent are left out where ``agents`` are chosen.
    """

    agents: frozenset[int] | None = None
    excluded: frozenset[int] = frozenset()
    start: float = 0.0
    duration: float | None = None
    rounds: tuple[int, int] | None = None
    limit: int | None = None

    @classmethod
    def of(
        cls,
        agents: Collection[int] = (),
        excluded: Collection[int] = (),
        *,
        start: float = 0.0,
        duration: float | None = None,
        rounds: tuple[int, int] | None = None,
        limit: int | None = None,
    ) -> Selection:
        """A selection as a command line gives it; raises `SelectionError`."""
        if not (math.isfinite(start) and start >= 0):
            raise SelectionError(f"--start-offset {start:g}: should be at least 0 (seconds from the log's start)")
        if duration is not None and not duration > 0:
            raise SelectionError(f"--duration {duration:g}: should be above 0 (seconds)")
        if limit is not None and limit < 1:
            raise SelectionError(f"--limit {limit}: should be at least 1 (frames)")
        if rounds is not None and not 0 <= rounds[0] <= rounds[1]:
            raise SelectionError(f"--rounds {rounds[0]}-{rounds[1]}: should be FIRST-LAST with 0 <= FIRST <= LAST")
        return cls(frozenset(agents) or None, frozenset(excluded), start, duration, rounds, limit)

    def check(self, reader: TrafficLogReader) -> None:
        """Raise `SelectionError` if it names agents that the log has not, as far as the log can tell at once."""
        known = agents_of(reader)
        if known is None:
            return
        for agent in sorted((self.agents or frozenset()) | self.excluded):
            if agent not in known:
                shown = f"{min(known)} to {max(known)}" if known else "none"
                raise SelectionError(f"agent {agent} is not in {reader.path}; its agents: {shown}")

    def apply(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """The frames meant."""
        taken = 0
        first: int | None = None
        for frame in frames:
            if first is None:
                first = frame.time_ns
            since = (frame.time_ns - first) * 1e-9
            if since < self.start or (self.duration is not None and since >= self.start + self.duration):
                continue
            sender = sender_of(frame)
            if (self.agents is not None and sender not in self.agents) or sender in self.excluded:
                continue
            if self.rounds is not None and not self._in_rounds(frame):
                continue
            yield frame
            taken += 1
            if taken == self.limit:
                return

    def _in_rounds(self, frame: Frame) -> bool:
        assert self.rounds is not None
        try:
            message = decode(frame.parts)
        except Refused:
            return False
        if isinstance(message, Hello | Done):
            return True
        return message.round is not None and self.rounds[0] <= message.round <= self.rounds[1]

    def in_words(self) -> str:
        """What was chosen, for the log that is made of it."""
        words = []
        if self.agents is not None:
            words.append("agents " + ", ".join(map(str, sorted(self.agents))))
        if self.excluded:
            words.append("without agents " + ", ".join(map(str, sorted(self.excluded))))
        if self.start:
            words.append(f"from {self.start:g} s")
        if self.duration is not None:
            words.append(f"for {self.duration:g} s")
        if self.rounds is not None:
            words.append(f"rounds {self.rounds[0]} to {self.rounds[1]}")
        if self.limit is not None:
            words.append(f"at most {self.limit} frames")
        return "; ".join(words) or "everything"


def manifest_of(reader: TrafficLogReader) -> dict[str, Any]:
    """The run's manifest as the log carries it; empty if it carries none that can be read."""
    try:
        found = json.loads(reader.attachments.get("manifest.json", b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def agents_of(reader: TrafficLogReader) -> frozenset[int] | None:
    """The log's agents, from its manifest or its summary; None if it has neither."""
    agents = manifest_of(reader).get("agents")
    if type(agents) is int and agents >= 0:
        return frozenset(range(agents))
    summary = reader.summary()
    return frozenset(summary.agents) if summary is not None else None


def counter_for(reader: TrafficLogReader) -> CaptureCounter:
    """A counter that expects what the log's manifest names, or whatever is heard where there is none."""
    manifest = manifest_of(reader)
    agents, run = manifest.get("agents"), manifest.get("run")
    try:
        run_id = bytes.fromhex(run) if isinstance(run, str) else None
    except ValueError:
        run_id = None
    return CaptureCounter(run_id, range(agents) if type(agents) is int and agents >= 0 else None)


def capture_of(reader: TrafficLogReader) -> Capture:
    """The verdict over a log's frames."""
    counter = counter_for(reader)
    for frame in reader:
        counter.hear(frame.parts)
    return counter.verdict()


# --- info ------------------------------------------------------------------------------------------------------------


def information(path: Path | str) -> dict[str, Any]:
    """What a log holds, as one JSON document: span, agents, releases, rates (1/s), sizes (bytes), gaps, damage."""
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    hear = counter.hear
    sizes: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    first = last = None
    for frame in reader:
        header = hear(frame.parts)
        kind = "refused" if header is None else header["kind"]
        if kind == "release":
            sizes[len(frame.body)] += 1
        kinds[kind] += 1
        last = frame.time_ns
        if first is None:
            first = last
    verdict = counter.verdict()
    span = (last - first) * 1e-9 if first is not None and last is not None else 0.0
    per_agent = [sender.releases for sender in verdict.senders.values()]
    return {
        "log": str(path),
        "closed": reader.closed,
        "damage": [damage._asdict() for damage in reader.damage],
        "first_ns": first,
        "last_ns": last,
        "span_s": span,
        "agents": len(verdict.senders),
        "frames": verdict.frames,
        "kinds": dict(sorted(kinds.items())),
        "releases": verdict.releases,
        "repeats": verdict.repeats,
        "redrawn": [list(pair) for pair in verdict.redrawn],
        "refused": verdict.refused,
        "releases_per_s": verdict.releases / span if span > 0 else None,
        "releases_per_agent": {
            "min": min(per_agent, default=0),
            "mean": sum(per_agent) / len(per_agent) if per_agent else 0.0,
            "max": max(per_agent, default=0),
        },
        "frame_bytes": counter.bytes,
        "file_bytes": Path(path).stat().st_size,
        "body_bytes": {str(size): count for size, count in sorted(sizes.items())},
        "capture": {**verdict.as_results(), "silent": list(verdict.silent), "in_words": verdict.in_words()},
        "run": verdict.run.hex() if verdict.run is not None else None,
        "attachments": {name: len(data) for name, data in reader.attachments.items()},
        "configuration": reader.attachments.get("config.toml", b"").decode(errors="replace"),
        "metadata": {name: fields for name, fields in reader.metadata.items() if name != "capture"},
    }


# --- cat -------------------------------------------------------------------------------------------------------------


def row(frame: Frame) -> Row:
    """A frame as a table's row; one that is no message has ``refused`` and its ``parts`` in base64 instead."""
    size = sum(map(len, frame.parts))
    try:
        message = decode(frame.parts)
    except Refused as refused:
        parts = [base64.b64encode(part).decode() for part in frame.parts]
        return {
            "time_ns": frame.time_ns,
            "from": sender_of(frame),
            "bytes": size,
            "refused": str(refused),
            "parts": parts,
        }
    common: Row = {"time_ns": frame.time_ns, "from": message.sender}
    if isinstance(message, Hello):
        return {**common, "kind": "hello", "digest": message.digest.hex(), "bytes": size}
    if isinstance(message, Done):
        heard = {"last": message.last, "skipped": list(message.skipped), "heard": list(message.heard)}
        return {**common, "kind": "done", **heard, "bytes": size}
    return {
        **common,
        "to": message.recipient,
        "kind": "release",
        "index": message.index,
        "round": message.round,
        "used": [list(pair) for pair in message.used],
        "bytes": size,
        "vector": message.vector.tolist(),
    }


def write_ndjson(frames: Iterable[Frame], out: IO[str]) -> int:
    """One JSON object a line; returns how many. Numbers that JSON has not are strings."""
    count = 0
    for frame in frames:
        line = row(frame)
        try:
            text = json.dumps(line, allow_nan=False)
        except ValueError:
            line["vector"] = [v if math.isfinite(v) else str(v) for v in line["vector"]]
            text = json.dumps(line)
        out.write(text + "\n")
        count += 1
    return count


def write_csv(frames: Iterable[Frame], out: IO[str]) -> int:
    """Comma-separated, with a header line; lists are separated by spaces, pairs by colons. Returns how many rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for frame in frames:
        line = row(frame)
        writer.writerow([_cell(line.get(column)) for column in COLUMNS])
        count += 1
    return count


def _cell(value: object) -> object:
    if isinstance(value, list):
        return " ".join(":".join(map(str, v)) if isinstance(v, list) else repr(v) for v in value)
    return value


def _fitting(value: object) -> object:
    """Null for a number that no run has and a signed 64-bit column cannot hold."""
    return None if isinstance(value, int) and value >= 1 << 63 else value


def write_parquet(frames: Iterable[Frame], path: Path, batch: int = 10_000) -> int:
    """A Parquet file with the columns of `COLUMNS`; returns how many rows. Raises ValueError without pyarrow."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError("--format parquet needs pyarrow: install sottovoce[tables]") from None
    numbers = pa.list_(pa.int64())
    types = {
        "time_ns": pa.int64(),
        "kind": pa.string(),
        "used": pa.list_(numbers),
        "skipped": numbers,
        "heard": numbers,
        "digest": pa.string(),
        "refused": pa.string(),
        "vector": pa.list_(pa.float64()),
    }
    schema = pa.schema([(column, types.get(column, pa.int64())) for column in COLUMNS])
    count = 0
    waiting: list[Row] = []
    with pq.ParquetWriter(path, schema) as writer:

        def put() -> None:
            columns = {column: [_fitting(one.get(column)) for one in waiting] for column in COLUMNS}
            writer.write_table(pa.table(columns, schema=schema))
            waiting.clear()

        for frame in frames:
            waiting.append(row(frame))
            count += 1
            if len(waiting) >= batch:
                put()
        put()
    return count


# --- filter and salvage ----------------------------------------------------------------------------------------------


def filter_log(path: Path | str, out: Path | str, selection: Selection) -> dict[str, Any]:
    """Write the frames that ``selection`` means to a new log, with the attachments of the old one."""
    reader = TrafficLogReader(path)
    selection.check(reader)
    told = {"filtered": selection.in_words()}
    with TrafficLogWriter(out, reader.attachments, told) as writer:
        for frame in selection.apply(reader):
            writer.write(frame.parts, frame.time_ns)
    return {"log": str(out), "frames": writer.frames, "chosen": selection.in_words(), "damage": _told(reader)}


def salvage(path: Path | str, out: Path | str) -> dict[str, Any]:
    """Write everything that is whole to a new log: frames, their times and events; and say what is lost."""
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    last: int | None = None
    with TrafficLogWriter(out, reader.attachments, {"salvaged": "from a damaged log"}) as writer:
        for item in reader.items():
            if isinstance(item, Frame):
                writer.write(item.parts, item.time_ns)
                counter.hear(item.parts)
                last = item.time_ns
            elif isinstance(item, Event):
                writer.event(item.fields, item.time_ns)
        chunks, damage = reader.chunks, _told(reader)
    return {
        "log": str(out),
        "frames": writer.frames,
        "chunks": chunks,
        "last_ns": last,
        "lost": damage,
        "lost_bytes": sum(one["size"] for one in damage),
        "capture": counter.verdict().as_results(),
    }


def _told(reader: TrafficLogReader) -> list[dict[str, Any]]:
    return [damage._asdict() for damage in reader.damage]


# --- verify ----------------------------------------------------------------------------------------------------------


def verify_log(path: Path | str) -> dict[str, Any]:
    """Check a log against itself: checksums, the chain at every checkpoint, indices, sizes.

    ``ok`` means that the file is whole and unchanged since it was written, that no index was heard with two bodies,
    and that all releases have one size. Whether everything was heard is ``capture``. A chain proves nothing against
    somebody who writes the whole file anew, unless ``chain`` is compared with what the eavesdropper printed.
    """
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    chain = chain_start(reader.attachments)
    frames = checkpoints = since = 0
    broken: list[dict[str, Any]] = []
    sizes: Counter[int] = Counter()
    for item in reader.items():
        if isinstance(item, Frame):
            chain = chain_next(chain, item.time_ns, packed(item.parts))
            frames += 1
            header = counter.hear(item.parts)
            if header is not None and header["kind"] == "release":
                sizes[len(item.body)] += 1
        elif isinstance(item, Checkpoint):
            checkpoints += 1
            if (item.chain, item.frames) != (chain, frames):
                broken.append({"from_frame": since, "to_frame": item.frames, "time_ns": item.time_ns})
                # From here on the log is checked against what it says itself, so that each change is told once.
                chain, frames = item.chain, item.frames
            since = frames
    unsealed = frames - since
    verdict = counter.verdict()
    dimension = manifest_of(reader).get("dimension")
    expected = 8 * dimension if type(dimension) is int else max(sizes, key=lambda size: sizes[size], default=None)
    odd = {str(size): count for size, count in sorted(sizes.items()) if size != expected}
    return {
        "log": str(path),
        "ok": not (reader.damage or broken or unsealed or verdict.redrawn or odd),
        "damage": _told(reader),
        "chain": chain.hex(),
        "checkpoints": checkpoints,
        "frames": frames,
        "chain_broken": broken,
        "frames_after_last_checkpoint": unsealed,
        "redrawn": [list(pair) for pair in verdict.redrawn],
        "other_sizes": odd,
        "refused": verdict.refused,
        "capture": {**verdict.as_results(), "in_words": verdict.in_words()},
    }
