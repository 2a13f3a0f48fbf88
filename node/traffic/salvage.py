"""New logs from old ones: the frames that were chosen, or all that is whole in a damaged file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from node.traffic.attachments import counter_for
from node.traffic.format import Event, Frame
from node.traffic.reader import TrafficLogReader
from node.traffic.selection import Selection
from node.traffic.writer import TrafficLogWriter


def filter_log(path: Path | str, out: Path | str, selection: Selection) -> dict[str, Any]:
    """Write the frames that ``selection`` means to a new log, with the attachments of the old one."""
    reader = TrafficLogReader(path)
    selection.check(reader)
    told = {"filtered": selection.in_words()}
    with TrafficLogWriter(out, reader.attachments, told) as writer:
        for frame in selection.apply(reader):
            writer.write(frame.parts, frame.time_ns)
    return {"log": str(out), "frames": writer.frames, "chosen": selection.in_words(), "damage": reader.damage_as_json()}


def salvage(path: Path | str, out: Path | str) -> dict[str, Any]:
    """Write everything that is whole to a new log: frames, their times and events; and report what is lost."""
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    last: int | None = None
    with TrafficLogWriter(out, reader.attachments, {"salvaged": "from a damaged log"}) as writer:
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
