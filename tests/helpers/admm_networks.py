"""Small networks for the tests of the ADMM family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from topology.network import Network


def path(agents: int) -> Network:
    off = np.ones(agents - 1)
    return Network(sparse.csr_array(sparse.diags_array([off, off], offsets=[-1, 1])))


def ring(agents: int) -> Network:
    weights = np.zeros((agents, agents))
    for i in range(agents):
        weights[i, (i + 1) % agents] = weights[(i + 1) % agents, i] = 1.0
    return Network(sparse.csr_array(weights))


def records(agents: int, each: int, dimension: int, seed: int) -> list[LocalProblem]:
    """Logistic records around one direction, rows of norm at most 1."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=dimension)
    problems = []
    for _ in range(agents):
        x = rng.uniform(-1.0, 1.0, size=(each, dimension)) / np.sqrt(dimension)
        y = np.where(x @ target + 0.1 * rng.normal(size=each) > 0, 1.0, -1.0)
        problems.append(LocalProblem(x, y, LOGISTIC, 0.0))
    return problems


def settings(
    network: Network,
    problems: Sequence[LocalProblem],
    learning: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    updates: int,
    mechanism: str = "none",
    multipliers: FloatArray | Sequence[FloatArray] | None = None,
    seed: int = 1,
) -> list[Setting]:
    each = [learning] * network.agents if isinstance(learning, Mapping) else learning
    return [
        Setting(
            agent=i,
            neighbours=network.neighbours(i),
            weights=network.weights_of(i),
            problem=problems[i],
            dimension=problems[i].dimension,
            updates=updates,
            learning={"agents": network.agents, **each[i]},
            mechanism=mechanism,
            multipliers=np.empty(0) if multipliers is None else np.asarray(multipliers),
            secret=simulation_secret(seed, i),
        )
        for i in range(network.agents)
    ]


def models(agents: Sequence[Admm]) -> FloatArray:
    return np.stack([agent.model for agent in agents])
