"""Small real clusters for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.folder.watch import Watch
from node.wire import Message, decode
from node.worlds import launcher, steps

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
        "network": {"repeat": 0.1, "deadline": 20.0, "linger": 2.0},
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
    configuration = from_table(sections)
    steps.deal(configuration, folder)
    return configuration


def ran(folder: Path, sections: dict[str, Any]) -> Watch:
    """Deal and run to the end."""
    return watched(folder, dealt(folder, sections))


def watched(folder: Path, configuration: Configuration) -> Watch:
    """Run what was dealt to the end."""
    return launcher.run_in_processes(folder, configuration, agents_of(folder))


def agents_of(folder: Path) -> int:
    return int(json.loads((folder / "manifest.json").read_text())["agents"])


def final(folder: Path, agent: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "agents" / f"agent-{agent:04d}" / "final.json").read_text())
    return document


def said(folder: Path) -> list[Message]:
    """Every message in the run's log."""
    from node.traffic.reader import TrafficLogReader

    return [decode(frame.parts) for frame in TrafficLogReader(folder / "traffic.mcap")]
