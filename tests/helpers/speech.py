"""Frames as agents would say them, for tests of whatever hears them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coordinator_free.release import Release
from node.hello import Hello
from node.traffic.writer import TrafficLogWriter
from node.wire import Done, encode

RUN = bytes(range(16))
START_NS = 1_700_000_000_000_000_000

Parts = tuple[bytes, bytes, bytes]


def release(agent: int, index: int, *, value: float | None = None, round: int | None = None, run: bytes = RUN) -> Parts:
    vector = np.full(5, float(index) if value is None else value)
    return encode(run, Release(agent, index, vector, ((agent, index),), round))


def hello(agent: int) -> Parts:
    return encode(RUN, Hello(agent, bytes(32)))


def done(agent: int, last: int, skipped: Sequence[int] = ()) -> Parts:
    return encode(RUN, Done(agent, last, tuple(skipped)))


def conversation(agents: int = 4, releases: int = 10) -> list[Parts]:
    """Everything that a small run says: hellos, releases in rounds, dones."""
    said = [hello(i) for i in range(agents)]
    said += [release(i, k, value=float(10 * i + k), round=k) for k in range(releases) for i in range(agents)]
    return said + [done(i, releases - 1) for i in range(agents)]


def by_agent(said: Sequence[Sequence[bytes]], agent: int) -> list[tuple[bytes, ...]]:
    """The frames of one agent."""
    return [tuple(parts) for parts in said if parts[0][:4] == agent.to_bytes(4, "big")]


def write_log(
    path: Path,
    said: Sequence[Sequence[bytes]],
    *,
    step_ns: int = 1_000_000,
    attachments: dict[str, bytes] | None = None,
    chunk_bytes: int = 1 << 20,
    close: bool = True,
) -> Path:
    """A log in which frame k was heard ``k * step_ns`` after `START_NS`."""
    writer = TrafficLogWriter(path, attachments or {}, chunk_bytes=chunk_bytes)
    for k, parts in enumerate(said):
        writer.write(parts, START_NS + k * step_ns)
    if close:
        writer.close()
    else:  # as an eavesdropper that was killed leaves it
        writer.flush()
        os.close(writer._file)
    return path
