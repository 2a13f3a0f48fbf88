"""Small runs with canaries in the twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.dealing.folder import deal_run
from node.worlds.twin import run_twin
from tests.helpers.known_noise import with_known_noise

DESCENT = {"algorithm": "coordinate-descent", "mu": 2.5, "smoothness": 1.0}


def configured(learning: dict[str, Any] | None = None, canaries: int = 12, **privacy: Any) -> Configuration:
    """Eight agents in a ring, ten updates, epsilon 2 by Gaussian noise. Four of the agents have two canaries."""
    chosen = {"loss": "logistic", **(learning or DESCENT)}
    return from_table(
        {
            "run": {"seed": 3},
            "data": {"source": "synthetic", "agents": 8, "dimension": 4, "records": [12, 20]},
            "topology": {"kind": "ring"},
            "learning": chosen,
            "clock": {"rate": 1.0, "updates": 10} if chosen["algorithm"] == "coordinate-descent" else {"updates": 10},
            "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0} | privacy,
            "audit": {"canaries": canaries},
        },
        name="canaries",
        lenient=True,
    )


def run_with_canaries(folder: Path, learning: dict[str, Any] | None = None, canaries: int = 12, **privacy: Any) -> Path:
    """Such a run, at its end. Its noise and its coins are the same in every call."""
    deal_run(configured(learning, canaries, **privacy), folder)
    run_twin(with_known_noise(folder))
    return folder
