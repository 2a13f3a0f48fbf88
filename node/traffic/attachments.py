"""The files of a run that its log carries: the public configuration, the graph and the manifest.

A log is often read without its run's folder. These files name the run and the agents that the log should hold.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from node.places import CANARIES
from node.traffic.completeness import CaptureCounter
from node.traffic.reader import TrafficLogReader
from node.untyped import Json


def run_attachments(run: Path) -> dict[str, bytes]:
    """The public part of a run's configuration, its graph, its manifest and its canaries, by their names in the log."""
    from node.configuration.public import dump_public
    from node.configuration.reading import load_dealt

    found = {
        "config.toml": dump_public(load_dealt(run / "config.toml")).encode(),
        "topology.graphml": (run / "topology.graphml").read_bytes(),
        "manifest.json": (run / "manifest.json").read_bytes(),
    }
    if (run / CANARIES).exists():
        found[CANARIES] = (run / CANARIES).read_bytes()
    return found


def manifest_of(reader: TrafficLogReader) -> Json:
    """The run's manifest as the log carries it, unchecked; empty if the log carries no readable manifest."""
    try:
        found = json.loads(reader.attachments.get("manifest.json", b"{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


class Named(NamedTuple):
    """What the manifest in a log names: the run's id in hexadecimal digits, and how many agents it has."""

    run: str | None
    agents: int | None


def named_in(reader: TrafficLogReader) -> Named | None:
    """What the manifest in a log names; None if the log carries no readable manifest."""
    found = manifest_of(reader)
    if not found:
        return None
    agents, run = found.get("agents"), found.get("run")
    known = type(agents) is int and agents >= 0
    return Named(run if isinstance(run, str) else None, agents if known else None)


def agents_of(reader: TrafficLogReader) -> frozenset[int] | None:
    """The log's agents, from its manifest or its summary; None if it has neither."""
    named = named_in(reader)
    if named is not None and named.agents is not None:
        return frozenset(range(named.agents))
    summary = reader.summary()
    return frozenset(summary.agents) if summary is not None else None


def counter_for(reader: TrafficLogReader) -> CaptureCounter:
    """A counter that expects the agents of the log's manifest, or any agent if the log has no manifest."""
    run, agents = named_in(reader) or Named(None, None)
    try:
        run_id = None if run is None else bytes.fromhex(run)
    except ValueError:
        run_id = None
    return CaptureCounter(run_id, None if agents is None else range(agents))
