"""A traffic log as a trace: one track an agent, its releases, and arrows from the releases that each one used.

The form is that of trace events in JSON, which Perfetto and the tracing page of Chromium open. A release is a slice of
a microsecond at the time at which the eavesdropper received it: a log knows nothing of what an agent did before. Events
of the run (faults) have a track of their own, and a counter shows the releases.

References
----------
Google (2016), *Trace Event Format*.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from node.folder.whole import new_file
from node.places import agent_name
from node.traffic.documents import Row
from node.traffic.export import row
from node.traffic.format import Checkpoint, Event, Frame
from node.untyped import Json

_MICRO: Final = 1e-3
"""Microseconds in a nanosecond."""
_RUN, _EVENTS, _FIRST_AGENT = 1, 1, 2
"""Process of all tracks; the track of the run's events, and that of agent 0."""


def write_trace(items: Iterable[Frame | Checkpoint | Event], out: Path) -> int:
    """Write a new file of trace events, one a line in one JSON list; returns how many there are.

    Parameters
    ----------
    items
        Frames and events of a traffic log, in file order.
    out
        The file; it must not exist. After an error there is none.

    Raises
    ------
    FileExistsError
        If the file exists.
    """
    written = 0
    with new_file(out) as file:
        for event in _Trace().events(items):
            file.write(b",\n" if written else b"[\n")
            file.write(json.dumps(event, separators=(",", ":")).encode())
            written += 1
        file.write(b"\n]\n" if written else b"[]\n")
    return written


class _Trace:
    """Trace events of a log, and what they need to know of the frames before."""

    def __init__(self) -> None:
        self._start: int | None = None
        self._known: set[int] = set()
        self._at: dict[tuple[int, int], float] = {}
        """When each release was first received, in microseconds."""
        self._releases = self._flows = 0

    def events(self, items: Iterable[Frame | Checkpoint | Event]) -> Iterator[Json]:
        """Events in the order of the log."""
        yield {"ph": "M", "name": "process_name", "pid": _RUN, "args": {"name": "run"}}
        yield _named(_EVENTS, "events of the run", -1)
        for item in items:
            if isinstance(item, Checkpoint):
                continue
            if self._start is None:
                self._start = item.time_ns
            at = (item.time_ns - self._start) * _MICRO
            if isinstance(item, Event):
                name = str(item.fields.get("fault", item.fields.get("event", "event")))
                yield {"ph": "i", "s": "p", "name": name, "pid": _RUN, "tid": _EVENTS, "ts": at, "args": item.fields}
            else:
                yield from self._frame(at, row(item))

    def _frame(self, at: float, fields: Row) -> Iterator[Json]:
        if "refused" in fields:
            place = {"pid": _RUN, "tid": _EVENTS, "ts": at}
            yield {"ph": "i", "s": "t", "name": f"no message: {fields['refused']}", **place}
            return
        sender = int(fields["from"] or 0)
        track = _FIRST_AGENT + sender
        if sender not in self._known:
            self._known.add(sender)
            yield _named(track, agent_name(sender), sender)
        place = {"pid": _RUN, "tid": track, "ts": at}
        if fields["kind"] != "release":
            yield {"ph": "i", "s": "t", "name": fields["kind"], **place}
            return
        key = (sender, fields["index"])
        if key in self._at:
            yield {"ph": "i", "s": "t", "name": f"repeat {key[1]}", **place}
            return
        self._at[key] = at
        self._releases += 1
        told = {name: fields.get(name) for name in ("index", "round", "used", "bytes")}
        yield {"ph": "X", "dur": 1.0, "name": f"release {key[1]}", **place, "args": told}
        yield from self._arrows(sender, at, fields["used"])
        yield {"ph": "C", "name": "releases", "pid": _RUN, "ts": at, "args": {"releases": self._releases}}

    def _arrows(self, sender: int, at: float, used: Iterable[Sequence[int]]) -> Iterator[Json]:
        """An arrow from each release that was used, if the eavesdropper received it before."""
        for j, k in used:
            began = self._at.get((j, k))
            if j == sender or began is None:
                continue
            self._flows += 1
            arrow = {"name": "used", "cat": "used", "id": self._flows, "pid": _RUN}
            yield {"ph": "s", **arrow, "tid": _FIRST_AGENT + j, "ts": began}
            yield {"ph": "f", "bp": "e", **arrow, "tid": _FIRST_AGENT + sender, "ts": at}


def _named(track: int, name: str, order: int) -> Json:
    return {"ph": "M", "name": "thread_name", "pid": _RUN, "tid": track, "args": {"name": name, "order": order}}
