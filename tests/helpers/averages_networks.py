"""Small networks of averaging agents, run in the twin."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator_free.agent import Halt, Setting
from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.problem.losses import LOGISTIC
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import Release
from coordinator_free.twin.run import Transcript, run_rounds
from tests.helpers.places import GOLDEN
from topology import families
from topology.network import Network

GOLDEN = json.loads((GOLDEN / "wddp.json").read_text())


def complete(agents: int) -> Network:
    return families.build("complete", agents, 0)


def problem(party: dict[str, Any], lam: float = 0.0) -> LocalProblem:
    return LocalProblem(np.array(party["x"]), np.array(party["y"], dtype=np.float64), LOGISTIC, lam / 2.0)


def problems(agents: int, records: Sequence[int], dimension: int = 3, seed: int = 0) -> list[LocalProblem]:
    random = np.random.default_rng(seed)
    made = []
    for i in range(agents):
        x = random.normal(size=(records[i], dimension))
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        y = np.where(x[:, 0] + 0.2 * random.normal(size=records[i]) > 0, 1.0, -1.0)
        made.append(LocalProblem(x, y, LOGISTIC, 0.01))
    return made


def settings(
    kind: type[Aggregating], graph: Network, local: Sequence[LocalProblem], updates: int, **given: Any
) -> list[Setting]:
    """``given``: learning parameters, and mechanism, multipliers and clip of the setting."""
    outside = {key: given.pop(key) for key in ("mechanism", "multipliers", "clip") if key in given}
    dimension = local[0].dimension
    learning = {"step": 1.0, "smoothness": 0.27, **given}
    arranged = kind.arranged(graph, [p.records for p in local], dimension, updates, learning)
    learning |= arranged["learning"]
    return [
        Setting(
            agent=i,
            neighbours=graph.neighbours(i),
            weights=graph.weights_of(i),
            problem=local[i],
            dimension=dimension,
            updates=updates,
            learning=learning,
            secret=bytes([i + 1]) * 32,
            **outside,
        )
        for i in range(graph.agents)
    ]


def run_without(
    made: Sequence[Aggregating], graph: Network, gone: dict[int, int], late: dict[int, int]
) -> tuple[list[Release], dict[int, Halt]]:
    """Rounds in which some agents are missing: what was released, and why agents stopped.

    An agent in ``gone`` releases nothing from that round on. An agent in ``late`` receives everything, but what it
    releases from that round on reaches the observer alone.
    """
    releases: list[Release] = []
    stopped: dict[int, Halt] = {}
    said = {i: release for i, agent in enumerate(made) if (release := agent.start()) is not None}
    while said:
        releases += said.values()
        ahead: dict[int, Release] = {}
        for i, agent in enumerate(made):
            following = agent._next
            if i in stopped or following >= gone.get(i, following + 1):
                continue
            try:
                for j in graph.neighbours(i):
                    if j in said and following - 1 < late.get(j, following):
                        agent.receive(said[j])
                again = agent.wake()
            except Halt as halt:
                stopped[i] = halt
                continue
            if again is not None:
                ahead[i] = again
        said = ahead
    return releases, stopped


def run(made: Sequence[Aggregating], graph: Network) -> Transcript:
    return run_rounds(made, graph)
