"""The contents of a traffic log, as one document."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from node.traffic.attachments import counter_for
from node.traffic.documents import LogInformation
from node.traffic.reader import TrafficLogReader


def information(path: Path | str) -> LogInformation:
    """Summarise a log as one JSON document: span, agents, releases, rates (1/s), sizes (bytes), gaps, damage.

    Raises
    ------
    TrafficLogError
        If the file is not a traffic log.
    """
    reader = TrafficLogReader(path)
    counter = counter_for(reader)
    tally = counter.tally
    sizes: Counter[int] = Counter()
    kinds: Counter[str] = Counter()
    first: int | None = None
    last: int | None = None
    for frame in reader:
        kind = tally(frame.parts) or "refused"
        if kind == "release":
            sizes[len(frame.body)] += 1
        kinds[kind] += 1
        at = frame.time_ns
        if first is None or last is None:
            first = last = at
        first, last = min(first, at), max(last, at)
    verdict = counter.verdict()
    span = (last - first) * 1e-9 if first is not None and last is not None else 0.0
    per_agent = [sender.releases for sender in verdict.senders.values()]
    return {
        "log": str(path),
        "closed": reader.closed,
        "damage": reader.damage_as_json(),
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
