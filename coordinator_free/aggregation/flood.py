"""Flooding: each agent's vector is passed on until everybody has it.

Rules that hold here:
- In each step an agent says one vector: its own first, then what it heard and has not passed on, in the order in which
  it came, the lowest origin first. So who says what in which step is a function of the graph, known to all beforehand,
  and a message needs no origin.
- Who has nothing left to pass on repeats its own vector; that tells nobody anything new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from coordinator_free.release import FloatArray
from topology.network import Network

Schedule = list[list[int]]
"""Whose vector agent i says in step t: ``schedule[t][i]``."""


def schedule(network: Network) -> Schedule:
    """The steps after which everybody has every vector; each edge carries n vectors at most each way, plus repeats."""
    n = network.agents
    known = [{i} for i in range(n)]
    waiting = [[i] for i in range(n)]
    steps: Schedule = []
    while any(len(have) < n for have in known):
        said = [waiting[i].pop(0) if waiting[i] else i for i in range(n)]
        for i in range(n):
            fresh = sorted({said[j] for j in network.neighbours(i)} - known[i])
            known[i].update(fresh)
            waiting[i].extend(fresh)
        steps.append(said)
    return steps


def messages(steps: Schedule) -> int:
    """How many vectors are said that are not mere repeats: n each, fewer where nobody needs the last ones."""
    return sum(said != i or t == 0 for t, step in enumerate(steps) for i, said in enumerate(step))


class Flood:
    """One agent's part in flooding vectors of ``width`` numbers."""

    def __init__(self, agent: int, steps: Sequence[Sequence[int]], width: int) -> None:
        self._agent = agent
        self._steps = steps
        self._table = np.zeros((len(steps[0]), width))

    @property
    def rounds(self) -> int:
        return len(self._steps)

    def begin(self, vector: FloatArray) -> None:
        self._table[:] = 0.0
        self._table[self._agent] = vector

    def say(self, step: int) -> FloatArray:
        return np.array(self._table[self._steps[step][self._agent]])

    def hear(self, step: int, sender: int, vector: FloatArray) -> None:
        self._table[self._steps[step][sender]] = vector

    @property
    def table(self) -> FloatArray:
        """Everybody's vector, shape (n, width), once all steps are heard."""
        return self._table

    def snapshot(self) -> dict[str, FloatArray]:
        return {"table": self._table.copy()}

    def restore(self, state: Mapping[str, FloatArray]) -> None:
        self._table[:] = np.array(state["table"]).reshape(self._table.shape)
