"""Small rings of agents that put their noise into the objective, run in the twin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from coordinator_free.agent import Agent, Setting
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import Release
from coordinator_free.twin.run import run_rounds
from topology.families import build

CAPACITY = 20.0
LEARNING = {"capacity": CAPACITY, "rho": 1.0, "penalty": 1.0}


def run(
    algorithm: Callable[[Setting], Agent],
    *,
    epsilon: float,
    updates: int = 6,
    agents: int = 5,
    records: int = 8,
    d: int = 3,
    mechanism: str = "gamma-norm",
    seed: int = 0,
    form: str = "squared",
) -> tuple[list[Setting], list[list[Release]], dict[tuple[int, int], Release]]:
    """Settings, each agent's releases in order, and every release by (agent, index)."""
    rng = np.random.default_rng(seed)
    network = build("ring", agents, seed)
    settings = []
    for agent in range(agents):
        x = rng.normal(size=(records, d))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        settings.append(
            Setting(
                agent=agent,
                neighbours=network.neighbours(agent),
                weights=network.weights_of(agent),
                problem=LocalProblem(x, np.sign(rng.normal(size=records)), LOGISTIC, 0.0),
                dimension=d,
                updates=updates,
                learning={**LEARNING, "regulariser_form": form},
                mechanism=mechanism,
                multipliers=np.full(updates, 1.0 / epsilon),
                clip=1.0,
                secret=rng.bytes(32),
            )
        )
    transcript = run_rounds([algorithm(s) for s in settings], network)
    heard = {(r.sender, r.index): r for r in transcript.releases}
    said = [[heard[key] for key in sorted(heard) if key[0] == agent] for agent in range(agents)]
    return settings, said, heard
