"""New logs from old ones: selected frames, or every whole chunk of a damaged file.

Rules that hold here:
- A new log is written under another name beside its place and renamed when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from node.traffic.attachments import counter_for
from node.traffic.documents import FilteredLog, SalvagedLog
from node.traffic.format import Event, Frame, TrafficLogError
from node.traffic.reader import TrafficLogReader
from node.traffic.selection import Selection
from node.traffic.writer import TrafficLogWriter


def filter_log(path: Path | str, out: Path | str, selection: Selection) -> FilteredLog:
    """Write the frames of ``selection`` to a new log, with the attachments of the old one; returns a JSON document."""
    reader = TrafficLogReader(path)
    selection.check(reader)
    with new_log(Path(out), reader.attachments, {"filtered": selection.in_words()}) as writer:
        for frame in selection.apply(reader):
            writer.write(frame.parts, frame.time_ns)
    return {"log": str(out), "frames": writer.frames, "chosen": selection.in_words(), "damage": reader.damage_as_json()}


def salvage(path: Path | str, out: Path | str) -> SalvagedLog:
    """Write every whole frame and event to a new log; returns a JSON document with what is lost."""
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    last: int | None = None
    with new_log(Path(out), reader.attachments, {"salvaged": "from a damaged log"}) as writer:
        for item in reader.items():
            if isinstance(item, Frame):
                writer.write(item.parts, item.time_ns)
                counter.count(item.parts)
                last = item.time_ns
            elif isinstance(item, Event):
                writer.event(item.fields, item.time_ns)
        chunks, damage = reader.chunks, reader.damage_as_json()
    return {
        "log": str(out),
        "frames": writer.frames,
        "chunks": chunks,
        "last_ns": last,
        "lost": damage,
        "lost_bytes": sum(one["size"] for one in damage),
        "capture": counter.verdict().as_results(),
    }


@contextmanager
def new_log(path: Path, attachments: Mapping[str, bytes], metadata: Mapping[str, str]) -> Iterator[TrafficLogWriter]:
    """A writer of a new log, which is at ``path`` once the block has ended without an error."""
    if path.exists():
        raise TrafficLogError(f"{path} exists: a traffic log is never overwritten, name a new file")
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        with TrafficLogWriter(part, attachments, metadata) as writer:
            yield writer
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
