"""Logs to look at: agents on a ring, each release with what it used; and the batches that a page gets of them."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import networkx as nx
import numpy as np

from coordinator_free.release import Release
from node.hello import Hello
from node.traffic.writer import TrafficLogWriter
from node.view.columns import COLUMNS
from node.wire import Done, Message, encode

RUN = bytes(range(16))
START = 1_800_000_000_000_000_000
STEP = 10_000_000
"""Nanoseconds between two frames."""


def attachments(agents: int, releases: int) -> dict[str, bytes]:
    graph = io.BytesIO()
    nx.write_graphml(nx.cycle_graph(agents), graph)
    manifest = {
        "run": RUN.hex(),
        "name": "ring",
        "agents": agents,
        "names": [f"school <b>{agent}</b>" for agent in range(agents)],
        "records": [10 + agent for agent in range(agents)],
        "releases": [releases] * agents,
        "algorithm": "coordinate-descent",
        "record": "one pupil",
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0},
    }
    return {"topology.graphml": graph.getvalue(), "manifest.json": json.dumps(manifest).encode()}


def messages(agents: int, releases: int, seed: int = 0) -> Iterator[Message]:
    """Hello of all, then releases in an order by chance, then done of all."""
    rng = np.random.default_rng(seed)
    yield from (Hello(agent, bytes(32)) for agent in range(agents))
    order = rng.permutation(np.repeat(np.arange(agents), releases)).tolist()
    newest = [-1] * agents
    for i in order:
        newest[i] += 1
        near = sorted({(i - 1) % agents, (i + 1) % agents})
        used = [(j, int(rng.integers(max(0, newest[j] - 3), newest[j] + 1))) for j in near if newest[j] >= 0]
        yield Release(i, newest[i], rng.normal(size=3), tuple(used[: rng.integers(len(used) + 1)]))
    yield from (Done(agent, releases - 1) for agent in range(agents))


def begin_log(path: Path, agents: int, releases: int) -> TrafficLogWriter:
    return TrafficLogWriter(path, attachments(agents, releases), chunk_bytes=4096)


def write(log: TrafficLogWriter, some: Iterable[Message]) -> None:
    for message in some:
        log.write(encode(RUN, message), START + log.frames * STEP)


def written(path: Path, agents: int, releases: int, events: Iterable[dict[str, object]] = ()) -> Path:
    """A whole log; an event is written after so many frames as its ``after`` names."""
    log = begin_log(path, agents, releases)
    planned = {int(str(event["after"])): event for event in events}
    for message in messages(agents, releases):
        write(log, [message])
        if (event := planned.get(log.frames)) is not None:
            log.event(event, START + log.frames * STEP)
    log.close({})
    return path


def columns_of(batches: Iterable[bytes]) -> dict[str, np.ndarray]:
    """The columns of all batches, as a page reads them."""
    found: dict[str, list[np.ndarray]] = {name: [] for name, _ in COLUMNS}
    rows = 0
    for batch in batches:
        version, count, first, _ = struct.unpack_from("<4I", batch)
        assert (version, first) == (1, rows)
        at = 16
        for name, kind in COLUMNS:
            found[name].append(np.frombuffer(batch, kind, count, at))
            at += count * np.dtype(kind).itemsize
        assert at == len(batch)
        rows += count
    return {name: np.concatenate(parts) for name, parts in found.items()}
