"""What a page shows: a run's folder, or a traffic log alone; its public facts, and the logs to follow.

Rules that hold here:
- No shard, secret, journal or model is opened. Of a ledger only charges are read (`node.view.ledgers`).
- The page begins before scipy is loaded: what needs it imports it late.
- Figures that were computed from the agents' records are read only if they are asked for (`uncovered`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator_free.release import FloatArray
from node.folder.counted import read_counted
from node.folder.manifest import read_json, read_manifest
from node.traffic.attachments import manifest_of
from node.traffic.completeness import CaptureCounter
from node.traffic.reader import TrafficLogReader
from node.traffic.run_logs import logs_of

if TYPE_CHECKING:
    from topology.large_layout import Edges


@dataclass(frozen=True)
class Subject:
    """A run's folder (``folder``), or a log alone (``log``).

    ``manifest`` is the run's, as a document; empty where the log carries none.
    """

    name: str
    folder: Path | None
    log: Path | None
    manifest: Mapping[str, Any]
    graph: bytes
    uncovered: bool = False
    recorded_here: bool = False
    """Whether this process writes the log."""

    @property
    def agents(self) -> int | None:
        """The number of agents; None where only the frames tell it."""
        agents = self.manifest.get("agents")
        return agents if type(agents) is int and agents >= 0 else None

    @property
    def run(self) -> bytes | None:
        """The run's id, 16 bytes; None where only the frames tell it."""
        try:
            return bytes.fromhex(self.manifest["run"])
        except (KeyError, TypeError, ValueError):
            return None

    def logs(self) -> list[Path]:
        """The logs that are there by now, in order."""
        if self.folder is not None:
            return logs_of(self.folder)
        return [self.log] if self.log is not None and self.log.exists() else []

    def counter(self) -> CaptureCounter:
        """A counter of the frames that the logs should hold."""
        agents = self.agents
        return CaptureCounter(self.run, None if agents is None else range(agents))

    def edges(self) -> tuple[Edges, FloatArray]:
        """Edges of the graph, shape (m, 2), and their weights; none where it cannot be read."""
        from topology.errors import TopologyError
        from topology.files import parse

        try:
            found = parse(self.graph, "graphml").edges if self.graph else []
        except (TopologyError, ValueError):
            found = []
        pairs = np.array([(i, j) for i, j, _ in found], dtype=np.int64).reshape(-1, 2)
        return pairs, np.array([weight for _, _, weight in found], dtype=np.float64)

    def facts(self) -> dict[str, Any]:
        """Public facts of the run: what the manifest has of them."""
        manifest = self.manifest
        facts = {key: manifest.get(key) for key in ("algorithm", "record", "names", "records", "releases")}
        privacy = manifest.get("privacy")
        return {**facts, "simulation": bool(manifest.get("simulation")), "privacy": privacy or None}

    def counted(self, agent: int) -> dict[str, Any] | None:
        """What an agent counted of itself by its end: frames, drops by reason, what never arrived."""
        found = None if self.folder is None else read_counted(self.folder, agent)
        if found is None:
            return None
        return {
            "received": found.received,
            "late": found.late,
            "repeats": found.repeats_received,
            "dropped": dict(found.dropped_by_reason),
            "missing": {name: len(indices) for name, indices in found.missing.items() if indices},
            "reason": found.reason,
        }

    def local_figures(self) -> dict[str, Any] | None:
        """Figures from the agents' records, which epsilon does not cover; None unless they were asked for."""
        if not self.uncovered or self.folder is None:
            return None
        return {**_scores(self.folder), "audit": _audit(self.folder)}


def _scores(folder: Path) -> dict[str, Any]:
    from node.results.details import read_details

    try:
        details = read_details(folder)
    except ValueError:
        return {}
    metric = read_manifest(folder).metric
    curve = details.curve
    return {
        "metric": {"name": metric.name, "larger_is_better": metric.larger_is_better},
        "scores": {kind: list(column) for kind, column in details.agents.scores.items()},
        "curve": None
        if curve is None
        else {"releases": list(curve.releases), "gap": list(curve.gap), "metric": list(curve.metric)},
    }


def _audit(folder: Path) -> dict[str, Any] | None:
    from node.audit.report import Audit, AuditError

    document = read_json(folder / "audit.json")
    try:
        audit = Audit.from_details(document) if document else None
    except AuditError:
        return None
    if audit is None:
        return None
    shown = audit.details()
    curves = [attack["trade_off"] for attack in shown["attacks"] if attack["trade_off"] is not None]
    columns = ("agent", "budget", "accounted", "attacked", "attacked_if_charged", "trials", "confidence")
    return {
        "delta": shown["delta"],
        "agents": [{key: agent[key] for key in columns} for agent in shown["agents"]],
        "trade_off": curves,
        "findings": shown["findings"],
    }


def subject_of(path: Path, *, uncovered: bool = False, recorded_here: bool = False) -> Subject:
    """Find out what ``path`` is.

    Parameters
    ----------
    path
        A run's folder or a traffic log.
    uncovered
        Whether figures that epsilon does not cover are shown.
    recorded_here
        Whether this process writes the log.

    Raises
    ------
    RunFolderError, TrafficLogError
        If it is neither.
    ValueError
        If it is a log and ``uncovered`` is asked for.
    """
    if path.is_dir():
        manifest = read_manifest(path)
        try:
            graph = (path / "topology.graphml").read_bytes()
        except OSError:
            graph = b""
        document = read_json(path / "manifest.json")
        return Subject(manifest.name, path, None, document, graph, uncovered)
    reader = TrafficLogReader(path)
    if uncovered:
        raise ValueError(f"--uncovered with the log {path}: a log holds no such figures; give a run's folder")
    document = manifest_of(reader)
    name = document.get("name")
    graph = reader.attachments.get("topology.graphml", b"")
    return Subject(
        name if isinstance(name, str) else path.name, None, path, document, graph, recorded_here=recorded_here
    )
