"""Flooding: each agent's vector is passed on until all agents have it.

Rules that hold here:
- In each step an agent sends one vector: its own first, then received vectors that it has not passed on, in the order
  of arrival, the lowest origin first. So the vector that an agent sends in a step is a function of the graph, which all
  agents know, and a message needs no origin (`Flood`). Where agents may fall silent it is not, and a message names its
  origin (`Relay`).
- An agent with nothing left to pass on repeats its own vector, which reveals nothing new.
- Of each agent's vector the first that arrives counts, and nothing that arrives replaces an agent's own. Where another
  one arrives later its origin is `disputed`: some neighbour lied, and no average or sum may be made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.release import FloatArray

if TYPE_CHECKING:
    from topology.network import Network

Schedule = list[list[int]]
"""The origin of the vector that agent i sends in step t: ``schedule[t][i]``."""


def schedule(network: Network) -> Schedule:
    """The steps after which every agent has every vector. An edge carries at most n vectors each way, plus repeats."""
    n = network.agents
    known = [{i} for i in range(n)]
    waiting = [[i] for i in range(n)]
    steps: Schedule = []
    while any(len(have) < n for have in known):
        sent = [waiting[i].pop(0) if waiting[i] else i for i in range(n)]
        for i in range(n):
            fresh = sorted({sent[j] for j in network.neighbours(i)} - known[i])
            known[i].update(fresh)
            waiting[i].extend(fresh)
        steps.append(sent)
    return steps


def enough(agents: int, connectivity: int, absent: int) -> int:
    """Steps in which every vector that is passed on reaches all agents, though up to ``absent`` agents fall silent.

    n vectors need n - 1 steps more than the longest way (Topkis 1985). What is left of a graph that ``connectivity``
    agents cut has connectivity - absent disjoint ways between any two, the shortest of at most
    (n - absent - 2) / (connectivity - absent) + 1 hops. An agent may send to one neighbour before it falls silent.

    References
    ----------
    Topkis (1985), *Concurrent broadcast for information dissemination*.
    """
    longest = (agents - absent - 2) // (connectivity - absent) + 1
    return agents - 1 + longest + absent


def messages(steps: Schedule) -> int:
    """The number of vectors sent that are not repeats: n each, fewer where no agent needs the last ones."""
    return sum(sent != i or t == 0 for t, step in enumerate(steps) for i, sent in enumerate(step))


class Flood:
    """One agent's part in flooding vectors of ``width`` numbers."""

    def __init__(self, agent: int, steps: Sequence[Sequence[int]], width: int) -> None:
        self._agent = agent
        self._steps = steps
        self._table = np.zeros((len(steps[0]), width))
        self._known: set[int] = set()
        self.disputed: set[int] = set()
        """The agents whose vectors arrived in more than one form."""

    @property
    def rounds(self) -> int:
        """The number of steps of one flood."""
        return len(self._steps)

    def begin(self, vector: FloatArray) -> None:
        """Start a flood with the own ``vector``, shape (width,)."""
        self._table[:] = 0.0
        self._table[self._agent] = vector
        self._known, self.disputed = {self._agent}, set()

    def send(self, step: int) -> FloatArray:
        """The vector that this agent sends in ``step``, shape (width,)."""
        return np.array(self._table[self._steps[step][self._agent]])

    def receive(self, step: int, sender: int, vector: FloatArray) -> None:
        """Take the vector that ``sender`` sent in ``step``, shape (width,)."""
        origin = self._steps[step][sender]
        if origin not in self._known:
            self._table[origin] = vector
            self._known.add(origin)
        elif not np.array_equal(self._table[origin], vector):
            self.disputed.add(origin)

    @property
    def table(self) -> FloatArray:
        """The vectors of all agents, shape (n, width), once the messages of all steps have arrived."""
        return self._table

    def snapshot(self) -> dict[str, FloatArray]:
        """The state, for `restore`."""
        return {"table": self._table.copy(), "known": _numbers(self._known), "disputed": _numbers(self.disputed)}

    def restore(self, state: Mapping[str, FloatArray]) -> None:
        """Go on from a snapshot."""
        self._table[:] = np.array(state["table"]).reshape(self._table.shape)
        self._known, self.disputed = _agents(state, "known"), _agents(state, "disputed")


class Relay:
    """One agent's part in flooding vectors of ``width`` numbers of ``agents`` agents, some of which may fall silent."""

    def __init__(self, agent: int, agents: int, width: int) -> None:
        self._agent = agent
        self._table = np.zeros((agents, width))
        self._known: set[int] = set()
        self._waiting: list[int] = []
        self._fresh: set[int] = set()
        self.disputed: set[int] = set()
        """The agents whose vectors arrived in more than one form."""

    def begin(self, vector: FloatArray) -> None:
        """Start a flood with the own ``vector``, shape (width,)."""
        self._table[:] = 0.0
        self._table[self._agent] = vector
        self._known, self._waiting, self._fresh = {self._agent}, [self._agent], set()
        self.disputed = set()

    def send(self) -> FloatArray:
        """The message of the next step: an origin and its vector, shape (1 + width,)."""
        self._waiting += sorted(self._fresh)
        self._fresh.clear()
        origin = self._waiting.pop(0) if self._waiting else self._agent
        return np.append(float(origin), self._table[origin])

    def receive(self, message: FloatArray) -> None:
        """Take a message; one of an agent that does not exist is passed over."""
        if not 0 <= message[0] < len(self._table) or message[0] != np.floor(message[0]):
            return
        origin = int(message[0])
        if origin not in self._known:
            self._table[origin] = message[1:]
            self._known.add(origin)
            self._fresh.add(origin)
        elif not np.array_equal(self._table[origin], message[1:]):
            self.disputed.add(origin)

    @property
    def received(self) -> list[int]:
        """The agents whose vectors are here, ascending, the own one included."""
        return sorted(self._known)

    @property
    def table(self) -> FloatArray:
        """Their vectors, shape (n, width); zeros for agents that are missing."""
        return self._table

    def snapshot(self) -> dict[str, FloatArray]:
        """The state, taken between `send` and the first `receive`."""
        return {
            "table": self._table.copy(),
            "known": _numbers(self._known),
            "disputed": _numbers(self.disputed),
            "waiting": np.array(self._waiting, dtype=np.float64),
        }

    def restore(self, state: Mapping[str, FloatArray]) -> None:
        """Go on from a snapshot."""
        self._table[:] = np.array(state["table"]).reshape(self._table.shape)
        self._known, self.disputed = _agents(state, "known"), _agents(state, "disputed")
        self._waiting = [int(origin) for origin in state["waiting"]]
        self._fresh = set()


def _numbers(agents: set[int]) -> FloatArray:
    return np.array(sorted(agents), dtype=np.float64)


def _agents(state: Mapping[str, FloatArray], key: str) -> set[int]:
    """A set of agents in a snapshot; empty where an older version of the agent took the snapshot."""
    return {int(agent) for agent in state.get(key, ())}
