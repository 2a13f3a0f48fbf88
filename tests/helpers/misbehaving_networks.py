"""Runs on a network that misbehaves, and the same runs in the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coordinator_free.release import Release
from node.worlds.twin import run_twin
from tests.helpers.clusters import dealt, final, said

AGENTS = 20
ROUNDS = 12
LOSSY: dict[str, Any] = {
    "loss": 0.2,
    "duplication": 0.05,
    "reordering": 0.1,
    "delay": {"law": "exponential", "mean": "20 ms"},
}
QUICK = {"repeat": "100 ms", "deadline": 600.0, "linger": 600.0}


def admm(**network: Any) -> dict[str, Any]:
    """A private synchronous run; a simulation, so that two runs of it say the same."""
    return {
        "run": {"seed": 3, "simulation": True},
        "data": {"source": "breast-cancer", "agents": AGENTS},
        "topology": {"kind": "random-regular", "degree": 4},
        "learning": {"algorithm": "pvp", "loss": "logistic", "capacity": 100.0, "rho": 0.01, "penalty": 2.0},
        "clock": {"updates": ROUNDS},
        "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
        "network": {**QUICK, **network},
    }


def descent(agents: int, **network: Any) -> dict[str, Any]:
    return {
        "run": {"seed": 4},
        "data": {"source": "synthetic", "agents": agents, "dimension": 10},
        "topology": {"kind": "random-regular", "degree": 4},
        "learning": {"mu": 2.5},
        "clock": {"rate": 20.0, "updates": 100},
        "network": {**QUICK, **network},
    }


def releases(folder: Path) -> dict[tuple[int, int], Release]:
    return {(m.sender, m.index): m for m in said(folder) if isinstance(m, Release)}


def lost_first(folder: Path, agents: int = AGENTS) -> dict[tuple[int, int], list[int]]:
    return {
        (int(sender), receiver): link["lost_first"]
        for receiver in range(agents)
        for sender, link in final(folder, receiver)["links"].items()
    }


def in_twin(folder: Path, table: dict[str, Any]) -> Path:
    dealt(folder, table)
    run_twin(folder)
    return folder
