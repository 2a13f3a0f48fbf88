"""Small real clusters for tests."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.dealing.folder import deal_run
from node.folder.manifest import read_json
from node.folder.shard import read_rows, write_shard
from node.folder.status import read_status
from node.folder.watch import Watch, write_watch
from node.places import agent_folder, shard_path
from node.results.scoring import score
from node.wire import Message, decode
from node.worlds import launcher
from node.worlds.progress import Progress

AGENTS = 6


def table(**changes: dict[str, Any]) -> dict[str, Any]:
    """A private run of six agents on a ring: about two seconds of work."""
    sections: dict[str, dict[str, Any]] = {
        "run": {"seed": 5},
        "data": {"source": "breast-cancer", "agents": AGENTS},
        "topology": {"kind": "ring"},
        "learning": {"loss": "logistic", "mu": 1.0, "smoothness": "bound", "finish": True},
        "clock": {"rate": 40.0, "updates": 40},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip": 1.0},
        "network": {"repeat": 0.1, "deadline": 600.0, "linger": 600.0},  # no agent is given up for being slow
    }
    for name, section in changes.items():
        sections[name] = sections.get(name, {}) | section
    return sections


PUBLIC = {"privacy": {"mechanism": "none"}}


def not_private(**changes: dict[str, Any]) -> dict[str, Any]:
    sections = table(**changes)
    sections["privacy"] = {"mechanism": "none"}
    return sections


def dealt(folder: Path, sections: dict[str, Any]) -> Configuration:
    """Deal in this process: one that starts for it imports for longer than it deals."""
    configuration = from_table(sections)
    deal_run(configuration, folder)
    return configuration


def ran(folder: Path, sections: dict[str, Any]) -> Watch:
    """Deal and run to the end."""
    return watched(folder, dealt(folder, sections))


def watched(folder: Path, configuration: Configuration) -> Watch:
    """Run what was dealt to the end."""
    return launcher.run_in_processes(folder, configuration, agents_of(folder))


def scored(folder: Path, watch: Watch) -> dict[str, Any]:
    """Score a run in this process; returns its results."""
    write_watch(folder, watch)
    score(folder)
    return read_json(folder / "results.json")


def with_network(folder: Path, agent: int, **settings: Any) -> None:
    """Write other settings of ``[network]`` into one agent's shard; a process that has read it keeps its own."""
    path = shard_path(folder, agent)
    rows, public = read_rows(path)
    path.unlink()
    write_shard(path, rows, replace(public, network=replace(public.network, **settings)))


def named(words: str, reason: str) -> set[int]:
    """The agents that an error names after ``reason``; one that was only slow may be among them."""
    return {int(agent) for found in re.findall(rf"{reason} agents? ([0-9, ]+)", words) for agent in found.split(",")}


def agents_of(folder: Path) -> int:
    return int(json.loads((folder / "manifest.json").read_text())["agents"])


def sent(folder: Path, agent: int) -> int:
    """Releases that an agent has sent so far."""
    status = read_status(agent_folder(folder, agent) / "status")
    return 0 if status is None else status.sent


def ran_with_a_pause(
    folder: Path, sections: dict[str, Any], agent: int, *, after: int, until: Callable[[Progress], bool]
) -> Watch:
    """Run to the end; the agent is stopped once all have sent ``after`` releases, and goes on once ``until`` holds."""
    configuration = dealt(folder, sections)
    agents = agents_of(folder)
    cluster = launcher.Cluster(folder, configuration, agents)
    cluster.start()
    try:
        cluster.watch(until=lambda _: all(sent(folder, each) >= after for each in range(agents)))
        os.kill(cluster.alive[agent], signal.SIGSTOP)
        cluster.watch(until=until)
        os.kill(cluster.alive[agent], signal.SIGCONT)
        return cluster.watch()
    finally:
        cluster.close()


def final(folder: Path, agent: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "agents" / f"agent-{agent:04d}" / "final.json").read_text())
    return document


def said(folder: Path) -> list[Message]:
    """Every message in the run's log."""
    from node.traffic.reader import TrafficLogReader

    return [decode(frame.parts) for frame in TrafficLogReader(folder / "traffic.mcap")]
